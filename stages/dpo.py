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
from training.pairs import preference_pairs, tokenised


def main(recipe: Recipe):
    """Train a recipe's policy with DPO, on pairs from its finished GRPO run."""
    train_stage("dpo", recipe, best_against_worst)


def best_against_worst(start: Start) -> Iterator[Training | Trained]:
    from training.trainer import dpo_trainer

    recipe, args, run = start.recipe, start.args, start.learns_from
    pairs, figures = preference_pairs(run, configs.setting(recipe, "grpo", "num_generations"))
    if {each.problem for each in pairs} & {row["problem"] for row in start.held_out}:
        raise RecipeError(
            [f"{run}/completions has held-out problems, which no run of this recipe sampled"]
        )
    dataset = tokenised(pairs, start.tokenizer, args.max_length)
    if not dataset:
        where = f"{figures['groups']:,} groups in {run}/completions"
        why = (
            f"dpo: of the {where}, none has two completions that differ in reward and fit into"
            " max_length"
        )
        raise RecipeError([Fault(recipe.place("dpo"), why)])
    trainer = dpo_trainer(recipe, args, start.tokenizer, dataset, start.warm_start)
    learns = (
        f"{len(dataset):,} pairs of {figures['groups']:,} groups, {figures['completions']:,}"
        " completions"
    )
    if long := figures["pairs"] - len(dataset):
        learns += f" ({long:,} more are longer than dpo.max_length, {args.max_length:,} tokens)"
    yield Training(
        trainer, learns, start.rows, [[each.problem, each.chosen, each.rejected] for each in pairs]
    )
    yield Trained({"pairs": figures | {"used": len(dataset)}})


if __name__ == "__main__":
    run("dpo", main)
