"""Gives every checkpoint a manifest, so that a partial one never counts (see
runs/checkpoints.py), and saves no weights that are not finite. Decides which checkpoint to keep
and when to stop, by greedy accuracy on validation problems, not by training reward.

A gamed reward keeps rising while answers get worse, and no training curve shows it. Every
`grpo.eval_steps` steps the policy answers `evaluate.checkpoint_problems` of the validation
problems; transformers keeps the best checkpoint and loads it at the end.
"""

import json
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from transformers import TrainerCallback
from trl import GRPOTrainer

from console.faults import RunStopped
from console.terminal import say
from data import prompt
from runs.checkpoints import (
    newest_good,
    prune,
    require_room,
    sync_records,
    write_manifest,
)
from schema.configs import ACCURACY, EVAL_CORRECT
from schema.recipe import Recipe
from training.model import load_model
from training.scoring import Scores
from training.watch import gamed


class Checkpoints(TrainerCallback):
    """Writes every checkpoint's manifest, then prunes old ones; stops before one that would not
    fit on the disk.

    Args:
        keep: how many to keep besides the best; None keeps all.
    """

    def __init__(self, keep: int | None):
        self.keep = keep

    def on_train_begin(self, args, state, control, **kwargs):
        """Take the recipe's steps, and the best checkpoint beside the others: the run may have been
        moved since it was saved."""
        # transformers goes on with the checkpoint's logging_steps and save_steps.
        state.compute_steps(args, state.max_steps)
        best = Path(args.output_dir) / f"checkpoint-{state.best_global_step}"
        state.best_model_checkpoint = str(best) if best.is_dir() else None
        if state.best_model_checkpoint is None:  # or no later one would count as the best
            state.best_metric = state.best_global_step = None
        if state.is_world_process_zero and state.global_step:  # fewer may be kept now
            self._prune(Path(args.output_dir), state)

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if control.should_save and state.is_world_process_zero:
            # the trained weights and AdamW's two moments of them
            trained = [weight for weight in model.parameters() if weight.requires_grad]
            needed = 3 * sum(weight.nbytes for weight in trained)
            require_room(Path(args.output_dir), state.global_step, needed)

    def on_save(self, args, state, control, **kwargs):
        PartialState().wait_for_everyone()  # every process writes a file
        if state.is_world_process_zero:
            folder = Path(args.output_dir)
            sync_records(folder)  # a resumed run does not sample these steps again
            write_manifest(folder / f"checkpoint-{state.global_step}")
            self._prune(folder, state)
        PartialState().wait_for_everyone()

    def _prune(self, folder: Path, state):
        if self.keep:
            prune(folder, self.keep, state.global_step, state.best_model_checkpoint)


class FiniteNumbers(TrainerCallback):
    """Stops a run before a gradient that is not finite is applied, and before weights that are not
    finite are saved. In float16 such a gradient means that the loss was scaled too far: accelerate
    skips the step and halves the scale, and the run stops once that has not helped. DeepSpeed hides
    its gradients, and with ZeRO-3 its weights too: the callback cannot check them.

    Args:
        scores: of a run that samples; the prompts of their last batch are written beside the run
            when it stops.
    """

    def __init__(self, scores: Scores | None = None):
        self.scores = scores

    def on_pre_optimizer_step(self, args, state, control, model=None, optimizer=None, **kwargs):
        scaler = getattr(optimizer, "scaler", None)
        if scaler is not None and scaler.get_scale() > 1:
            return
        gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
        self._require_finite(gradients, "gradient", "applied", args, state)

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if control.should_save:
            weights = [weight.detach() for weight in model.parameters() if weight.requires_grad]
            self._require_finite(weights, "weight", "saved", args, state)

    def _require_finite(self, tensors: list[torch.Tensor], kind: str, use: str, args, state):
        """Stop the run if a number in the tensors is not finite. The message names their `kind`,
        and `use`, the step that must not follow."""
        if not tensors:
            return
        # A tensor's norm is finite where all its numbers are; in float32 a sum of squares does not
        # overflow.
        norms = torch._foreach_norm(tensors, 2, dtype=torch.float32)
        if all(map(torch.isfinite, norms)):
            return
        file = Path(args.output_dir) / f"not-finite-{state.global_step}.json"
        prompts = []
        if self.scores:
            prompts = self.scores.batch.columns.get("prompts", [])
        file.write_text(json.dumps(prompts, indent=1, default=str), encoding="utf-8")
        last = newest_good(Path(args.output_dir))
        raise RunStopped(
            f"a {kind} is not finite after step {state.global_step}: the run stopped before it was"
            f" {use}. The batch's prompts are in {file}. {last or 'No checkpoint'} is the last"
            " good one. A lower learning_rate or max_grad_norm may help, or bfloat16 instead of"
            " float16, in a run of its own (output_dir)"
        )


class KeepBest(TrainerCallback):
    """Prints each evaluation, and stops the run when validation accuracy has stayed clearly below
    its best for `patience` evaluations in a row while the training reward rose. It reads the
    trainer's history, which a resumed run still has, and adds which problems were correct."""

    def __init__(self, patience: int, scores: Scores):
        self.patience = patience
        self.scores = scores
        self.stopped: str | None = None  # why it stopped the run
        self.correct: dict[str, float | None] = {}  # whether each problem was answered correct

    def on_prediction_step(self, args, state, control, **kwargs):
        batch = self.scores.batch  # trl called the rewards for it
        rewards = batch.rewards["correct_answer"]
        self.correct.update(zip(batch.columns["problem"], rewards, strict=True))

    def on_log(self, args, state, control, logs=None, **kwargs):
        if ACCURACY not in logs:
            return
        gathered = dict(gather_object(list(self.correct.items())))  # from all processes
        digits = [str(int(gathered[problem] or 0)) for problem in sorted(gathered)]
        state.log_history[-1][EVAL_CORRECT] = "".join(digits)
        self.correct.clear()

    def on_evaluate(self, args, state, control, **kwargs):
        accuracies = _history(state, ACCURACY)
        if not accuracies:
            return
        step, accuracy = accuracies[-1]
        # Among equals the earliest one is the best.
        best_step, best = max(accuracies, key=lambda entry: (entry[1], -entry[0]))
        line = f"step {step}: validation accuracy {accuracy:.1%}"
        if step != best_step:
            line += f", best {best:.1%} at step {best_step}"
        say(line)
        reason = gamed(_history(state, EVAL_CORRECT), _history(state, "reward"), self.patience)
        if reason:
            control.should_training_stop = True
            self.stopped = reason
            say(reason)


def _history(state, key: str) -> list[tuple[int, Any]]:
    """The steps at which the trainer has logged a key, and the values."""
    return [(line["step"], line[key]) for line in state.log_history if line.get(key) is not None]


def check_adapter(
    trainer: GRPOTrainer, recipe: Recipe, tokenizer, rows: list[dict], folder: Path
) -> float:
    """Check that the saved adapter, loaded as any user will load it, is the trained policy, and say
    whether it is. Every process loads it, because the processes wait for one another there.

    Returns:
        the largest difference between their log-probabilities of a token, in nats.
    """
    trainer.accelerator.wait_for_everyone()  # the first of them saved it
    system = recipe.prompt.system
    prompts = [prompt.question_ids(tokenizer, row, system) for row in rows[:4]]
    policy = trainer.accelerator.unwrap_model(trainer.model)
    autocast = None
    if trainer.args.bf16:
        autocast = torch.bfloat16
    elif trainer.args.fp16:
        autocast = torch.float16
    error = adapter_error(policy, load_model(recipe, tokenizer, folder), prompts, autocast)
    limit = 0.05
    if recipe.model.dtype == "float32" and autocast is None:
        limit = 1e-4
    if error <= limit:
        say(
            "grpo: the saved adapter on a clean base is the trained policy (log-probabilities"
            f" within {limit:g})"
        )
    else:
        say(
            "grpo: WARNING: the saved adapter on a clean base is NOT the trained policy:"
            f" log-probabilities differ by up to {error:.3g}. Evaluate before you trust it"
        )
    return error


@torch.inference_mode()
def log_probabilities(
    model: torch.nn.Module, prompts: list[list[int]], autocast: torch.dtype | None = None
) -> torch.Tensor:
    """Log-probabilities of the prompts' own tokens, all but each prompt's first: shape (sum of
    len(prompt) - 1,).

    Args:
        prompts: token ids.
        autocast: compute under autocast to it.
    """
    training = model.training
    model.eval()
    by_prompt = []
    for ids in prompts:
        batch = torch.tensor([ids], device=next(model.parameters()).device)
        with torch.autocast(batch.device.type, autocast, enabled=autocast is not None):
            logits = model(input_ids=batch).logits[0, :-1].float()
        by_prompt.append(torch.log_softmax(logits, -1).gather(-1, batch[0, 1:, None])[:, 0].cpu())
    model.train(training)
    return torch.cat(by_prompt)


def adapter_error(
    trained: torch.nn.Module,
    clean: torch.nn.Module,
    prompts: list[list[int]],
    autocast: torch.dtype | None = None,
) -> float:
    """The largest difference, in nats, between a token's log-probability under the trained policy
    and under its saved adapter on a clean base. `autocast`: to which the trainer has wrapped the
    policy."""
    clean = clean.to(next(trained.parameters()).device)
    of_policy = log_probabilities(trained, prompts, autocast)
    of_saved = log_probabilities(clean, prompts, autocast)
    return (of_policy - of_saved).abs().max().item()
