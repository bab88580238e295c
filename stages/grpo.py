"""GRPO (Shao et al. 2024, arXiv:2402.03300): sample a group of completions for each problem, reward each, and move the
policy towards those that beat their group's mean. Loss, advantages, sampling and adapters are trl's `GRPOTrainer`.

After a warm start, training continues with the same adapter, without merging it; with `beta > 0` the reference policy
is then the warm start, of which the trainer keeps a frozen copy.

trl and its dependencies take seconds to import, so they are imported only once nothing is left to refuse.
"""

import time
from pathlib import Path

from schema import configs, hardware
from schema.faults import RecipeError, RunStopped
from schema.recipe import Recipe, require_values
from schema.requirements import require
from schema.terminal import chain, is_main_process, make_command, say
from stages.cli import quiet_libraries, run
from training.checkpoints import damage
from training.machines import require_same
from training.run_folder import find_run, not_probed, warm_start_of


def main(recipe: Recipe):
    """Train a recipe's policy with GRPO, from its warm start where it has one."""
    asked, recipe = recipe.model.dtype, hardware.fitted(recipe)
    require(recipe, ("grpo",))
    warm_start = warm_start_of(recipe)
    if wrong := not_probed(recipe):
        raise RecipeError([wrong])
    folder = find_run(recipe, "grpo", to_train=True)
    require_same(folder)
    if folder.finished:
        from viewer.runs import describe

        say(f"grpo: finished already, in {folder.path}")
        if stopped := describe(folder.path)["stopped"]:
            say(stopped)
        return
    say(f"grpo: {hardware.line(recipe, asked)}")
    quiet_libraries()

    from evaluation import run_report
    from evaluation.probe import chosen
    from schema.problem_sets import load_train, share_held_out
    from training.interrupts import Interrupts
    from training.model import load_tokenizer
    from training.progress import duration
    from training.sharding import sharded
    from training.step_clock import time_by_part
    from training.train import train
    from training.trainer import check_adapter, grpo_trainer
    from training.vllm_server import require_server

    require_values(recipe, "grpo")
    args = configs.training_config(recipe, "grpo")
    interrupts = Interrupts(configs.generation(recipe.grpo).whole)
    began = time.monotonic()
    tokenizer = load_tokenizer(recipe)
    require_server(recipe)
    rows, held_out = load_train(recipe)
    rows = chosen(recipe, tokenizer, rows)
    choosing, _ = share_held_out(recipe, held_out)
    trainer = grpo_trainer(recipe, args, tokenizer, rows, choosing, warm_start)
    if is_main_process():
        folder.begin(rows)
    say(f"grpo: {len(rows):,} problems, from {folder.checkpoint or warm_start or 'the base model'}")
    train(trainer, folder, recipe, interrupts, "grpo")
    parts = time_by_part(trainer.state.log_history)
    best = {"best_checkpoint": trainer.state.best_model_checkpoint, "best_accuracy": trainer.state.best_metric}
    choosing = choosing and best["best_checkpoint"]  # a run that was moved, and had no step left, names none
    if choosing and (wrong := damage(Path(best["best_checkpoint"]))):
        raise RunStopped(f"the best checkpoint, {best['best_checkpoint']}, is not what was saved: {wrong}")
    if recipe.adapter is not None and not sharded(trainer):
        best["adapter_error"] = check_adapter(trainer, recipe, tokenizer, rows, folder.path)
    if is_main_process():
        summary = {"steps": trainer.state.global_step, "seconds": time.monotonic() - began, "time": parts} | best
        summary |= {
            "stopped": trainer.keep_best.stopped,
            "resumed_from": folder.checkpoint and Path(folder.checkpoint).name,
        }
        folder.finish({key: value for key, value in summary.items() if value is not None})
        say(f"grpo: report in {run_report.write(folder.path)}")
    if choosing:
        say(f"grpo: kept the best checkpoint, {best['best_checkpoint']}: held-out accuracy {best['best_accuracy']:.1%}")
    shares = ", ".join(f"{part} {each['share']:.1%}" for part, each in parts.items())
    say(f"grpo: trained for {duration(sum(each['seconds'] for each in parts.values()))}: {shares}")
    say(f"grpo: done, in {folder.path} (contents: docs/run-folder.md)")
    if not chain():
        say(f"next: {make_command('evaluate', recipe)}")


if __name__ == "__main__":
    run("grpo", main)
