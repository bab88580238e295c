"""Keeps what must not be saved out of a checkpoint, and seals each one that is written, so that a
partial one never passes for whole (see checkpoints.py). Decides which checkpoint to keep and when
to stop, by greedy accuracy on held-out problems, not by training reward.

A gamed reward keeps rising while answers get worse, and no training curve shows it. Every
`grpo.eval_steps` steps the policy answers `evaluate.checkpoint_problems` of the held-out problems;
transformers keeps the best checkpoint and loads it at the end.
"""

import json
import shutil
from pathlib import Path

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from transformers import TrainerCallback

from console.faults import RunStopped
from console.terminal import say
from schema.configs import ACCURACY, RIGHT
from training.checkpoints import (
    MANIFEST,
    checkpoints_of,
    newest_good,
    resume_advice,
    step_of,
    write_manifest,
)
from training.scoring import Batch
from training.watch import gamed


class Checkpoints(TrainerCallback):
    """Seals every checkpoint with its manifest, then prunes old ones; stops before one that would
    not fit on the disk.

    Args:
        keep: how many to keep besides the best; None keeps all.
    """

    def __init__(self, keep: int | None):
        self.keep = keep

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if not control.should_save or not state.is_world_process_zero:
            return
        folder = Path(args.output_dir)
        last = next(iter(checkpoints_of(folder)), None)
        # For the first one: the trained weights and AdamW's two moments of them.
        trained = sum(
            each.numel() * each.element_size() for each in model.parameters() if each.requires_grad
        )
        needed = (
            sum(file.stat().st_size for file in last.rglob("*") if file.is_file())
            if last
            else 3 * trained
        )
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise RunStopped(
                f"no room for a checkpoint at step {state.global_step}: it needs"
                f" {needed / 1e6:,.0f} MB, and {folder} has {free / 1e6:,.0f} MB left. Make room,"
                f" or lower save_total_limit. {resume_advice(folder)}"
            )

    def on_save(self, args, state, control, **kwargs):
        PartialState().wait_for_everyone()  # each process writes a file of its own
        if state.is_world_process_zero:
            write_manifest(Path(args.output_dir) / f"checkpoint-{state.global_step}")
            self._prune(Path(args.output_dir), state)
        PartialState().wait_for_everyone()

    def _prune(self, folder: Path, state):
        best = state.best_model_checkpoint
        # A higher number belongs to a run that could not be resumed: it must not push out this
        # run's.
        whole = [
            each
            for each in checkpoints_of(folder)
            if (each / MANIFEST).is_file() and step_of(each) <= state.global_step
        ]
        kept = {each.name for each in whole[: self.keep]} | ({Path(best).name} if best else set())
        for checkpoint in checkpoints_of(folder) if self.keep else []:
            if checkpoint.name not in kept:
                # half removed, the checkpoint must not look whole
                (checkpoint / MANIFEST).unlink(missing_ok=True)
                shutil.rmtree(checkpoint)


class FiniteNumbers(TrainerCallback):
    """Stops a run before a gradient that is not finite is applied, and before weights that are not
    finite are saved. In float16 such a gradient tells that the loss was scaled too far: accelerate
    skips the step and halves the scale, and the run stops once that has not helped. DeepSpeed keeps
    its gradients to itself, and with ZeRO-3 its weights too: there it sees nothing.

    `prompts`: those of the current batch, written beside the run when it stops.
    """

    def __init__(self):
        self.prompts: list = []

    def saw(self, batch: Batch):
        """Take note of a batch that was scored (training/scoring.py)."""
        self.prompts = batch.columns["prompts"]

    def on_pre_optimizer_step(self, args, state, control, model=None, optimizer=None, **kwargs):
        scaler = getattr(optimizer, "scaler", None)
        if scaler is not None and scaler.get_scale() > 1:
            return
        gradients = [each.grad for each in model.parameters() if each.grad is not None]
        self._require(gradients, "gradient", "applied", args, state)

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if control.should_save:
            weights = [each.detach() for each in model.parameters() if each.requires_grad]
            self._require(weights, "weight", "saved", args, state)

    def _require(self, tensors: list[torch.Tensor], what: str, before: str, args, state):
        # One norm for each, finite where all its numbers are; in float32, where a sum of squares
        # does not overflow.
        if not tensors or all(
            map(torch.isfinite, torch._foreach_norm(tensors, 2, dtype=torch.float32))
        ):
            return
        file = Path(args.output_dir) / f"not-finite-{state.global_step}.json"
        file.write_text(json.dumps(self.prompts, indent=1, default=str), encoding="utf-8")
        last = newest_good(Path(args.output_dir))
        raise RunStopped(
            f"a {what} is not finite after step {state.global_step}: the run stopped before it was"
            f" {before}. The batch's prompts are in {file}. {last or 'No checkpoint'} is the last"
            " good one. A lower learning_rate or max_grad_norm may help, or bfloat16 instead of"
            " float16"
        )


class KeepBest(TrainerCallback):
    """Prints each evaluation, and stops the run when held-out accuracy has stayed clearly below its
    best for `patience` evaluations in a row while the training reward rose. It reads the trainer's
    own history, which a resumed run still has, and adds to it which problems were right."""

    def __init__(self, patience: int):
        self.patience = patience
        self.stopped: str | None = None  # why it stopped the run
        self.batch: list[
            tuple[str, float | None]
        ] = []  # the last one's problems, and whether each was answered right
        self.right: dict[str, float | None] = {}

    def saw(self, batch: Batch):
        """Take note of a batch that was scored."""
        self.batch = list(
            zip(batch.columns["problem"], batch.rewards["correct_answer"], strict=True)
        )

    def on_prediction_step(self, args, state, control, **kwargs):
        self.right.update(self.batch)  # trl called the rewards for this batch

    def on_log(self, args, state, control, logs=None, **kwargs):
        if ACCURACY in logs:
            everywhere = sorted(dict(gather_object(list(self.right.items()))).items())
            state.log_history[-1][RIGHT] = "".join(str(int(right or 0)) for _, right in everywhere)
            self.right.clear()

    def on_evaluate(self, args, state, control, **kwargs):
        accuracies = [
            (line["step"], line[ACCURACY])
            for line in state.log_history
            if line.get(ACCURACY) is not None
        ]
        rewards = [
            (line["step"], line["reward"])
            for line in state.log_history
            if line.get("reward") is not None
        ]
        if not accuracies:
            return
        step, accuracy = accuracies[-1]
        best_step, best = max(accuracies, key=lambda each: (each[1], -each[0]))
        behind = f", best {best:.1%} at step {best_step}" if step != best_step else ""
        say(f"step {step}: held-out accuracy {accuracy:.1%}{behind}")
        judged = [(line["step"], line[RIGHT]) for line in state.log_history if RIGHT in line]
        if reason := gamed(judged, rewards, self.patience):
            control.should_training_stop, self.stopped = True, reason
            say(reason)
