"""DPO (Rafailov et al. 2023, arXiv:2305.18290) on the completions that the recipe's own GRPO run
sampled: the best of each group against the worst. Policy and reference begin as GRPO's did, with
the warm start. The loss is trl's.

Left out on purpose: sampling of its own, and a choice of checkpoint.
"""

from collections.abc import Iterator

from console.faults import Fault, RecipeError
from schema import configs
from schema.recipe import Recipe
from stages.cli import run
from stages.frame import Start, Trained, Training, train_stage
from training.rows import preference_pairs, tokenise_pairs


def main(recipe: Recipe):
    """Train a recipe's policy with DPO, on pairs from its finished GRPO run."""
    train_stage("dpo", recipe, train_on_pairs)


def train_on_pairs(start: Start) -> Iterator[Training | Trained]:
    from training.trainer import dpo_trainer

    recipe = start.recipe
    args = start.args
    run = start.learns_from
    pairs, figures = preference_pairs(run, configs.setting(recipe, "grpo", "num_generations"))
    if {pair.problem for pair in pairs} & {row["problem"] for row in start.held_out}:
        message = f"{run}/completions has held-out problems, which no run of this recipe sampled"
        raise RecipeError([message])
    dataset = tokenise_pairs(pairs, start.tokenizer, args.max_length)
    if not dataset:
        message = (
            f"dpo: of the {figures['groups']:,} groups in {run}/completions, none has two"
            " completions that differ in reward and fit into max_length"
        )
        raise RecipeError([Fault(recipe.place("dpo"), message)])
    trainer = dpo_trainer(recipe, args, start.tokenizer, dataset, start.warm_start)
    examples = (
        f"{len(dataset):,} pairs of {figures['groups']:,} groups, {figures['completions']:,}"
        " completions"
    )
    too_long = figures["pairs"] - len(dataset)
    if too_long:
        examples += (
            f" ({too_long:,} more are longer than dpo.max_length, {args.max_length:,} tokens)"
        )
    sampled = [[pair.problem, pair.chosen, pair.rejected] for pair in pairs]
    yield Training(trainer, examples, start.rows, sampled)
    yield Trained({"pairs": figures | {"used": len(dataset)}})


if __name__ == "__main__":
    run("dpo", main)
