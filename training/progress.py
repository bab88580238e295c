"""What a training run prints: one readable line per logging step, with the time that remains, and
what a long step is doing. The file of its logs, metrics.jsonl, and where its seconds went."""

import contextlib
import json
import sys
import time
from pathlib import Path

from transformers import TrainerCallback

from console.terminal import duration, say
from runs.files import write_whole
from schema.configs import ZERO_VARIANCE
from schema.recipe import Recipe
from training.watch import PARTS, History

# trl's metric → its word on the line. The mean of each reward follows the first word, under the
# reward's name.
SFT_WORDS = {"loss": "loss", "mean_token_accuracy": "token accuracy"}
GRPO_WORDS = {
    "reward": "reward",
    ZERO_VARIANCE: "zero variance",
    "completions/mean_length": "length",
    "completions/clipped_ratio": "truncated",
    "kl": "kl",
    "sampling/sampling_logp_difference/mean": "vLLM difference",
}
SILENCE = 60  # seconds after which a step says what it is doing


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
    checkpoint's history, so that no step appears twice."""

    def __init__(self, folder: Path):
        self.file = folder / "metrics.jsonl"

    def on_train_begin(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            write_whole(self.file, "".join(json.dumps(line) + "\n" for line in state.log_history))

    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and state.log_history:
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
