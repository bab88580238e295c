"""DPO (Rafailov et al. 2023, arXiv:2305.18290) on the completions that the recipe's own GRPO run sampled: the best of
each group against the worst. Policy and reference begin as GRPO's did, with the warm start. The loss is trl's.

Left out on purpose: sampling of its own, and a choice of checkpoint.
"""

import time

from schema import configs, hardware
from schema.faults import Fault, RecipeError
from schema.recipe import Recipe, require_values
from schema.requirements import require
from schema.terminal import chain, is_main_process, make_command, say
from stages.cli import quiet_libraries, run
from training.machines import require_same
from training.pairs import preference_pairs, tokenised
from training.run_folder import find_run, warm_start_of


def main(recipe: Recipe):
    """Train a recipe's policy with DPO, on pairs from its finished GRPO run."""
    asked, recipe = recipe.model.dtype, hardware.fitted(recipe)
    require(recipe, ("dpo",))
    warm_start, sampled = warm_start_of(recipe), find_run(recipe, "grpo")
    if not sampled.finished:
        first = make_command("grpo", recipe)
        raise RecipeError([f"the GRPO run in {sampled.path}, whose completions are compared, is not finished: {first}"])
    folder = find_run(recipe, "dpo", to_train=True)
    require_same(folder)
    if folder.finished:
        say(f"dpo: finished already, in {folder.path}")
        return
    say(f"dpo: {hardware.line(recipe, asked)}")
    quiet_libraries()

    from evaluation import model_card
    from schema.problem_sets import load_train
    from training.guards import FiniteNumbers
    from training.interrupts import Interrupts
    from training.model import load_tokenizer
    from training.preferences import dpo_trainer
    from training.train import train

    require_values(recipe, "dpo")
    args = configs.training_config(recipe, "dpo")
    interrupts = Interrupts()
    began = time.monotonic()
    tokenizer = load_tokenizer(recipe)
    rows, held_out = load_train(recipe)
    pairs, figures = preference_pairs(sampled.path, configs.setting(recipe, "grpo", "num_generations"))
    if {each.problem for each in pairs} & {row["problem"] for row in held_out}:
        raise RecipeError([f"{sampled.path}/completions has held-out problems, which no run of this recipe sampled"])
    dataset = tokenised(pairs, tokenizer, args.max_length)
    if not dataset:
        where = f"{figures['groups']:,} groups in {sampled.path}/completions"
        why = f"dpo: of the {where}, none has two completions that differ in reward and fit into max_length"
        raise RecipeError([Fault(recipe.place("dpo"), why)])
    trainer = dpo_trainer(recipe, args, tokenizer, dataset, warm_start)
    if is_main_process():
        folder.begin(rows, [[each.problem, each.chosen, each.rejected] for each in pairs])
    of = f"of {figures['groups']:,} groups, {figures['completions']:,} completions"
    if long := figures["pairs"] - len(dataset):
        of += f" ({long:,} more are longer than dpo.max_length, {args.max_length:,} tokens)"
    say(f"dpo: {len(dataset):,} pairs {of}, from {folder.checkpoint or warm_start or 'the base model'}")
    trainer.add_callback(FiniteNumbers())
    train(trainer, folder, recipe, interrupts, "dpo")
    if is_main_process():
        summary = {"steps": trainer.state.global_step}
        folder.finish(summary | {"seconds": time.monotonic() - began, "pairs": figures | {"used": len(dataset)}})
        model_card.write(folder.path, "dpo")
    say(f"dpo: done, in {folder.path} (contents: docs/run-folder.md)")
    if not chain():
        say(f"next: {make_command('evaluate', recipe)}")


if __name__ == "__main__":
    run("dpo", main)
