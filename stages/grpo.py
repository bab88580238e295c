"""GRPO (Shao et al. 2024, arXiv:2402.03300): sample a group of completions for each problem, reward
each, and move the policy towards those that beat their group's mean. Loss, advantages, sampling and
adapters are trl's `GRPOTrainer`.

After a warm start, training continues with the same adapter, without merging it; with `beta > 0`
the reference policy is then the warm start, of which the trainer keeps a frozen copy.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from console.faults import RunStopped
from console.terminal import duration
from data.problems import weighted
from runs.state import altered
from schema.configs import even_batch
from schema.recipe import Recipe
from schema.settings import OURS
from stages.frame import Start, Trained, Training, conclude, train_stage
from training.problem_sets import share_validation
from training.watch import advice_on


def main(recipe: Recipe) -> dict[str, Any]:
    """Train a recipe's policy with GRPO, from its warm start where it has one. Return the run's
    summary."""
    return conclude(train_stage("grpo", recipe, train_on_rewards), recipe)


def train_on_rewards(start: Start) -> Iterator[Training | Trained]:
    """Yield GRPO's trainer, and once `train_stage` has trained it, the summary of the run."""
    from evaluation.sample import rows_by_pass_rate
    from training.callbacks import time_by_part
    from training.memory import validation_that_fit
    from training.train import sharded
    from training.trainer import check_adapter, grpo_trainer
    from training.vllm_server import require_server

    recipe = start.recipe
    tokenizer = start.tokenizer
    require_server(recipe)
    rows = weighted(rows_by_pass_rate(recipe, tokenizer, start.rows))
    validation = start.validation
    if start.args.eval_strategy != "no":
        validation = validation_that_fit(recipe, tokenizer, validation)
    choosing, _ = share_validation(recipe, validation)
    if choosing and recipe.settings.origins["grpo"]["per_device_eval_batch_size"] == OURS:
        # Only now it is known how many problems there are to answer at once.
        at_most = start.args.per_device_eval_batch_size
        size = even_batch(len(choosing), at_most, recipe.processes)
        start.args.per_device_eval_batch_size = size or at_most
    trainer = grpo_trainer(recipe, start.args, tokenizer, rows, choosing, start.warm_start)
    resumed_from = start.run.checkpoint  # read now: once it has trained, every run has one
    yield Training(trainer, f"{len(rows):,} problems", rows)
    lines = []
    best = trainer.state.best_model_checkpoint
    accuracy = trainer.state.best_metric
    if choosing and best:
        _require_as_saved(best)
        lines.append(f"kept the best checkpoint, {best}: validation accuracy {accuracy:.1%}")
    time_used = time_by_part(trainer.state.log_history)
    seconds = sum(part["seconds"] for part in time_used.values())
    shares = ", ".join(f"{name} {part['share']:.1%}" for name, part in time_used.items())
    lines += advice_at_the_end(trainer.state.log_history, recipe)
    lines.append(f"trained for {duration(seconds)}: {shares}")
    adapter_error = None
    if recipe.adapter is not None and not sharded(trainer):
        adapter_error = check_adapter(trainer, recipe, tokenizer, rows, start.run.folder)
    summary = {
        "time": time_used,
        "best_checkpoint": best,
        "best_accuracy": accuracy,
        "adapter_error": adapter_error,
        "stopped": trainer.keep_best.stopped,
        "resumed_from": resumed_from and Path(resumed_from).name,
    }
    yield Trained(summary, lines)


def _require_as_saved(best: str):
    """Stop if the best checkpoint was changed or deleted since."""
    fault = altered(Path(best))
    if fault:
        raise RunStopped(f"the best checkpoint, {best}, is not what was saved: {fault}")


def advice_at_the_end(history: list[dict], recipe: Recipe) -> list[str]:
    """What is seen only once a run has ended, in addition to what was printed while it trained."""
    printed_before = advice_on(history, recipe)
    advice = advice_on(history, recipe, ended=True)[len(printed_before) :]
    return [f"to look at: {line}" for line in advice]
