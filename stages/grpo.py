"""GRPO (Shao et al. 2024, arXiv:2402.03300): sample a group of completions for each problem, reward
each, and move the policy towards those that beat their group's mean. Loss, advantages, sampling and
adapters are trl's `GRPOTrainer`.

After a warm start, training continues with the same adapter, without merging it; with `beta > 0`
the reference policy is then the warm start, of which the trainer keeps a frozen copy.
"""

from collections.abc import Iterator
from pathlib import Path

from console.faults import RunStopped
from console.terminal import duration
from data.problems import weighted
from schema.recipe import Recipe
from stages.cli import run
from stages.frame import Start, Trained, Training, train_stage
from training.checkpoints import damage
from training.problem_sets import share_held_out


def main(recipe: Recipe):
    """Train a recipe's policy with GRPO, from its warm start where it has one."""
    train_stage("grpo", recipe, rewarded)


def rewarded(start: Start) -> Iterator[Training | Trained]:
    from evaluation.probe import chosen
    from training.saved_adapter import check_adapter
    from training.stopwatch import time_by_part
    from training.train import sharded
    from training.trainer import grpo_trainer
    from training.vllm_server import require_server

    recipe, tokenizer = start.recipe, start.tokenizer
    require_server(recipe)
    rows = weighted(chosen(recipe, tokenizer, start.rows))
    choosing, _ = share_held_out(recipe, start.held_out)
    trainer = grpo_trainer(recipe, start.args, tokenizer, rows, choosing, start.warm_start)
    yield Training(trainer, f"{len(rows):,} problems", rows)
    parts, resumed = time_by_part(trainer.state.log_history), start.folder.checkpoint
    best, accuracy = trainer.state.best_model_checkpoint, trainer.state.best_metric
    choosing = choosing and best  # a run that was moved, and had no step left, names none
    if choosing and (wrong := damage(Path(best))):
        raise RunStopped(f"the best checkpoint, {best}, is not what was saved: {wrong}")
    checked = recipe.adapter is not None and not sharded(trainer)
    summary = {
        "time": parts,
        "best_checkpoint": best,
        "best_accuracy": accuracy,
        "adapter_error": (
            check_adapter(trainer, recipe, tokenizer, rows, start.folder.path) if checked else None
        ),
        "stopped": trainer.keep_best.stopped,
        "resumed_from": resumed and Path(resumed).name,
    }
    lines = (
        [f"kept the best checkpoint, {best}: held-out accuracy {accuracy:.1%}"] if choosing else []
    )
    shares = ", ".join(f"{part} {each['share']:.1%}" for part, each in parts.items())
    lines.append(
        f"trained for {duration(sum(each['seconds'] for each in parts.values()))}: {shares}"
    )
    yield Trained(summary, lines)


if __name__ == "__main__":
    run("grpo", main)
