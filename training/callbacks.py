"""What a run has beside its trainer, in one list: transformers calls one after another at each
event, and what one writes the next one reads. They print what the run is doing, log it, time it,
guard its numbers and its checkpoints, and choose the checkpoint to keep.

A gamed reward keeps rising while answers get worse, and no training curve shows it. Every
`grpo.eval_steps` steps the policy answers `evaluate.checkpoint_problems` of the validation
problems; transformers keeps the best checkpoint and loads it at the end.
"""

import contextlib
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from torch.distributed.fsdp import FSDPModule
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerCallback

from console.faults import RunStopped
from console.terminal import duration, say
from runs.files import require_lock, write_whole
from runs.state import (
    most_checkpoints,
    newest_good,
    prune,
    require_room,
    require_room_for_all,
    sync_records,
    write_manifest,
)
from schema.configs import ACCURACY, EVAL_CORRECT, SAMPLED_AGAIN, ZERO_VARIANCE
from schema.recipe import Recipe
from training.scoring import Scores
from training.watch import PARTS, History, gamed

# trl's metric → its word on the line. The mean of each reward follows the first word, under the
# reward's name.
SFT_WORDS = {"loss": "loss", "mean_token_accuracy": "token accuracy"}
SFT_WORDS["completions/mean_length"] = "length"  # of a student's
GRPO_WORDS = {
    "reward": "reward",
    ZERO_VARIANCE: "zero variance",
    SAMPLED_AGAIN: "sampled again",
    "completions/mean_length": "length",
    "completions/clipped_ratio": "truncated",
    "kl": "kl",
    "sampling/sampling_logp_difference/mean": "vLLM difference",
}
SILENCE = 60  # seconds after which a step says what it is doing


def callbacks_of(
    trainer: Trainer,
    recipe: Recipe,
    folder: Path,
    interrupts: TrainerCallback,
    write_page: TrainerCallback,
) -> list[TrainerCallback]:
    """The callbacks of a run of either stage, in their order; ours in place of the library's bars
    and prints. A trainer that samples has `scores`.

    The order matters for what one callback leaves to the next:

    - `interrupts` orders a checkpoint at the end of a step. `FiniteNumbers`, which looks at the
      weights first, and `Checkpoints`, which looks at the room on the disk, come after it.
    - `KeepBest` writes into the newest line of the history which problems were answered correct.
      `ShowAdvice` reads that line, and `Metrics` copies it into metrics.jsonl.
    - `Stopwatch` counts what was done since it last heard: as an evaluation the page that
      `write_page` writes, as saving the manifest that `Checkpoints` writes. So it comes after them,
      and before `Metrics`, because it adds its seconds to the same line.
    """
    callbacks = [interrupts, *_of_libraries(trainer)]
    if hasattr(trainer, "scores"):
        stopwatch = trainer.stopwatch
        callbacks += [FiniteNumbers(trainer.scores), SameOrder(), trainer.keep_best]
        callbacks.append(ShowAdvice(recipe))
        if trainer.is_fsdp_enabled:
            callbacks.append(Reshard())
    else:
        stopwatch = Stopwatch()
        callbacks.append(FiniteNumbers())
        if hasattr(trainer, "rollout"):  # a student's, which trl gives its problems as GRPO's
            callbacks.append(SameOrder())
    callbacks += [write_page, Checkpoints(trainer.args.save_total_limit)]
    callbacks += [interrupts.progress, stopwatch, Metrics(folder)]
    return callbacks


def _of_libraries(trainer: Trainer) -> list[TrainerCallback]:
    """What the libraries have added, such as trackers, without what prints: `PrinterCallback` does
    on every machine."""
    callbacks = []
    for callback in trainer.callback_handler.callbacks:
        if not isinstance(callback, ProgressCallback | PrinterCallback):
            callbacks.append(callback)
    return callbacks


class SameOrder(TrainerCallback):
    """Gives a resumed run its problems in their order. trl draws the order of each epoch from a
    generator that no checkpoint holds, so a run resumed in its third epoch would see the order of
    the first again."""

    def on_train_begin(self, args, state, control, train_dataloader=None, **kwargs):
        batches = train_dataloader.batch_sampler
        # Under a launcher a process has a shard of them.
        sampler = getattr(batches, "batch_sampler", batches).sampler
        if not sampler.shuffle:
            return
        finished_epochs = min(int(state.epoch or 0), state.max_steps)
        for _ in range(finished_epochs):
            torch.randperm(sampler.num_samples, generator=sampler.generator)


class Reshard(TrainerCallback):
    """Shards the model again after each batch of an evaluation. As accelerate sets FSDP2 up, the
    norm, the embedding and the head stay unsharded after a forward pass without gradients, and trl
    cannot send them to vLLM for the next batch."""

    def on_prediction_step(self, args, state, control, model=None, **kwargs):
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()


# Checkpoints --------------------------------------------------------------------------------------


class Checkpoints(TrainerCallback):
    """Writes every checkpoint's manifest, then prunes old ones; stops before one that would not
    fit on the disk, and after a step in which another process took the folder over.

    Args:
        keep: how many to keep besides the best; None keeps all.
    """

    def __init__(self, keep: int | None):
        self.keep = keep

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        """Take the recipe's steps, and the best checkpoint beside the others: the run may have been
        moved since it was saved."""
        # transformers goes on with the checkpoint's logging_steps and save_steps.
        state.compute_steps(args, state.max_steps)
        best = Path(args.output_dir) / f"checkpoint-{state.best_global_step}"
        state.best_model_checkpoint = str(best) if best.is_dir() else None
        if state.best_model_checkpoint is None:  # or no later one would count as the best
            state.best_metric = state.best_global_step = None
        if state.is_world_process_zero:
            if state.global_step:  # fewer may be kept now
                self._prune(Path(args.output_dir), state)
            saves = math.ceil(state.max_steps / state.save_steps)
            count = most_checkpoints(saves, self.keep, args.eval_strategy != "no")
            require_room_for_all(Path(args.output_dir), count, _checkpoint_bytes(model))

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if not state.is_world_process_zero:
            return
        # Before the trainer logs, evaluates and saves: all that is written follows this.
        require_lock(Path(args.output_dir))
        if control.should_save:
            require_room(Path(args.output_dir), state.global_step, _checkpoint_bytes(model))

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


def _checkpoint_bytes(model: torch.nn.Module) -> int:
    """The bytes of a checkpoint: the trained weights, and AdamW's two moments of them."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    return 3 * sum(weight.nbytes for weight in trained)


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


# What a run prints, logs and times ----------------------------------------------------------------


class Progress(TrainerCallback):
    """Prints a line per logging step; and what a step is doing, where nothing was printed for
    `SILENCE` seconds. `step`: the step that began last; None before the first."""

    def __init__(self):
        self.step: int | None = None
        self.step_began: float | None = None  # None between two steps
        self.seconds_per_step: float | None = None
        self.batches = 0

    def on_train_begin(self, args, state, control, **kwargs):
        self.prints = state.is_world_process_zero
        self.steps_before = state.global_step
        self.began = self.printed = time.monotonic()

    def on_step_begin(self, args, state, control, **kwargs):
        self.step = state.global_step + 1
        self.step_began = time.monotonic()
        self.batches = 0

    def on_substep_end(self, args, state, control, **kwargs):
        self.batches += 1
        self.show(f"{self.batches} of {args.gradient_accumulation_steps} batches trained on")

    def on_step_end(self, args, state, control, **kwargs):
        now = time.monotonic()
        self.step_began = None
        steps = state.global_step - self.steps_before
        if steps == 1:
            self.seconds_per_step = now - self.began
            # What only a first step takes does not lengthen the time that remains.
            self.began = now
        else:
            self.seconds_per_step = (now - self.began) / (steps - 1)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if self.prints and logs and "loss" in logs and self.seconds_per_step is not None:
            line = log_line(logs, state.global_step, state.max_steps, self.seconds_per_step)
            self._print(line)

    def show(self, activity: str):
        """Print what the step or the evaluation is doing, where nothing was printed for long."""
        if self.prints and time.monotonic() - self.printed >= SILENCE:
            place = "evaluation" if self.step_began is None else f"step {self.step}"
            self._print(f"{place}: {activity}")

    def _print(self, line: str):
        print(line, file=sys.stderr, flush=True)
        self.printed = time.monotonic()

    def time_remaining(self, steps: int = 1) -> str:
        """About when this step and the `steps - 1` after it end, in words."""
        if self.seconds_per_step is None:
            return "but it is too early to say when"
        seconds = self.seconds_per_step * steps
        if self.step_began is None:
            return f"in about {duration(seconds)} after the evaluation or checkpoint under way"
        return f"in about {duration(max(1.0, seconds - (time.monotonic() - self.step_began)))}"


def _words(logs: dict) -> dict[str, str]:
    """The word on the line for each metric of a log that has one."""
    words = GRPO_WORDS if "reward" in logs else SFT_WORDS
    first = next(iter(words))
    ordered = {first: words[first]}
    for key in logs:
        if key.startswith("rewards/") and "mean" in key:
            ordered[key] = key.split("/")[1]
    ordered |= words
    return {key: word for key, word in ordered.items() if logs.get(key) is not None}


def log_line(logs: dict, step: int, steps: int, seconds: float) -> str:
    """A logging step in one line. `seconds`: how long a step takes."""
    values = "  ".join(f"{word} {logs[key]:.3g}" for key, word in _words(logs).items())
    # Two digits at least, and never 2.6e+02.
    per_step = f"{seconds:.0f}"
    if seconds < 99.5:
        per_step = f"{seconds:.2g}"
    remaining = duration(seconds * (steps - step))
    return f"step {step:>{len(str(steps))}}/{steps}  {values}  {per_step} s/step  {remaining} left"


class ShowAdvice(TrainerCallback):
    """Prints each advice on a run once; a resumed run does not print again what it printed before
    its checkpoint."""

    def __init__(self, recipe: Recipe):
        self.recipe = recipe
        self.history: History | None = None

    def on_log(self, args, state, control, logs=None, **kwargs):
        if self.history is None:
            self.history = History(self.recipe)
            for line in state.log_history[:-1]:
                self.history.judge(line)
        for advice in self.history.judge(state.log_history[-1]):
            say(f"to look at: {advice}; a run with other settings needs another output_dir")


class Metrics(TrainerCallback):
    """Writes `metrics.jsonl`, one line per logging step. A resumed run first rewrites it from the
    checkpoint's history, so that no step appears twice. A line has the GPU's peak of memory so
    far, what torch reserved in this process: vLLM's own is not in it."""

    def __init__(self, folder: Path):
        self.file = folder / "metrics.jsonl"

    def on_train_begin(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            write_whole(self.file, "".join(json.dumps(line) + "\n" for line in state.log_history))

    def on_train_end(self, args, state, control, **kwargs):
        """Write the seconds that were counted since the last line."""
        self.on_train_begin(args, state, control)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and state.log_history:
            if torch.cuda.is_available():
                peak = torch.cuda.max_memory_reserved()
                state.log_history[-1]["memory/peak_gib"] = round(peak / 2**30, 3)
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(state.log_history[-1]) + "\n")


class Stopwatch(TrainerCallback):
    """Adds to each line of the trainer's history the seconds of each part since the line before, as
    `seconds/<part>`. They are this process's, including its waiting for other processes."""

    def __init__(self):
        self.seconds = dict.fromkeys(PARTS, 0.0)  # since the last line of the history
        self.counted_until = 0.0
        self.counted_apart = 0.0  # seconds since then that `part` has counted
        self.in_step = False
        self.in_evaluation = False

    def on_train_begin(self, args, state, control, **kwargs):
        self.counted_until = time.monotonic()

    def on_step_begin(self, args, state, control, **kwargs):
        self._count("rest")
        self.in_step = True

    def on_step_end(self, args, state, control, **kwargs):
        self._count("update")
        self.in_step = False

    def on_prediction_step(self, args, state, control, **kwargs):
        self.in_evaluation = True

    def on_log(self, args, state, control, **kwargs):
        self._count("evaluation" if self.in_evaluation else "rest")
        self._write(state.log_history)

    def on_evaluate(self, args, state, control, **kwargs):
        self._count("evaluation")
        self.in_evaluation = False

    def on_save(self, args, state, control, **kwargs):
        self._count("saving")

    def on_train_end(self, args, state, control, **kwargs):
        self._count("rest")
        self._write(state.log_history)

    def _count(self, part: str):
        now = time.monotonic()
        self.seconds[part] += now - self.counted_until - self.counted_apart
        self.counted_until = now
        self.counted_apart = 0.0

    def _write(self, history: list[dict]):
        if not history:
            return
        for part, seconds in self.seconds.items():
            key = f"seconds/{part}"
            history[-1][key] = history[-1].get(key, 0.0) + seconds
            self.seconds[part] = 0.0

    @contextlib.contextmanager
    def part(self, name: str):
        """Count the seconds of this block, or of the function that it decorates, as one part; in an
        evaluation they count as evaluation."""
        began = time.monotonic()
        try:
            yield
        finally:
            if self.in_step:
                seconds = time.monotonic() - began
                self.counted_apart += seconds
                self.seconds[name] += seconds


def time_by_part(history: list[dict]) -> dict[str, dict[str, float]]:
    """Seconds and share of each part of the training, from the trainer's history. A resumed run's
    history ends at the last line before its checkpoint: the seconds from that line to where the run
    stopped are not counted.
    """
    seconds = dict.fromkeys(PARTS, 0.0)
    for line in history:
        for part in PARTS:
            seconds[part] += line.get(f"seconds/{part}", 0.0)
    total = sum(seconds.values()) or 1.0
    times = {}
    for part, spent in seconds.items():
        times[part] = {"seconds": round(spent, 3), "share": round(spent / total, 4)}
    return times
