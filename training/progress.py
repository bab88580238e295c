"""What a training run shows: the library's progress bar, and one readable line per logging step."""

import json
import sys
import time
from pathlib import Path

from tqdm import tqdm
from transformers import PrinterCallback, ProgressCallback, TrainerCallback

from schema.configs import RIGHT, WITHOUT_SIGNAL
from schema.recipe import Recipe
from schema.terminal import say
from training.checkpoints import write_whole
from training.watch import Run

# trl's metric → its word on the line. Each reward's mean follows the first of them, under its own name.
SFT_WORDS = {"loss": "loss", "mean_token_accuracy": "token accuracy", "accuracy": "pairs right"}
DPO_WORDS = {"loss": "loss", "rewards/accuracies": "pairs ranked right", "rewards/margins": "margin"}
GRPO_WORDS = {
    "reward": "reward",
    WITHOUT_SIGNAL: "no signal",
    "completions/mean_length": "length",
    "completions/clipped_ratio": "truncated",
    "kl": "kl",
    "sampling/importance_sampling_ratio/mean": "vLLM ratio",
}


class Progress(ProgressCallback):
    """The library's bar, with one readable line in place of its dictionary of thirty numbers per step."""

    def on_train_begin(self, args, state, control, **kwargs):
        super().on_train_begin(args, state, control, **kwargs)
        self.began, self.first_step = time.monotonic(), state.global_step

    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and self.training_bar is not None and logs and "loss" in logs:
            per_step = (time.monotonic() - self.began) / max(1, state.global_step - self.first_step)
            left = per_step * (state.max_steps - state.global_step)
            tqdm.write(log_line(logs, state.global_step, state.max_steps, per_step, left), file=sys.stderr)


def log_line(logs: dict, step: int, steps: int, seconds: float, left: float) -> str:
    words = GRPO_WORDS if "reward" in logs else DPO_WORDS if "rewards/margins" in logs else SFT_WORDS
    parts = [f"{word} {logs[key]:.3g}" for key, word in words.items() if logs.get(key) is not None]
    means = {key.split("/")[1]: value for key, value in logs.items() if key.startswith("rewards/") and "mean" in key}
    parts[1:1] = [f"{name} {mean:.3g}" for name, mean in means.items() if mean is not None]
    return f"step {step:>{len(str(steps))}}/{steps}  {'  '.join(parts)}  {exact(seconds)} s/step  {duration(left)} left"


def exact(seconds: float) -> str:
    """Two digits at least, and never 2.6e+02."""
    return f"{seconds:.2g}" if seconds < 99.5 else f"{seconds:.0f}"


def duration(seconds: float) -> str:
    """The seconds as a person would say them: 8.3 h, 2 min, 45 s."""
    if seconds > 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"


class Advise(TrainerCallback):
    """Says what a run's lines show to be wrong, once: not again what its checkpoint's lines showed before."""

    def __init__(self, recipe: Recipe):
        self.recipe, self.run = recipe, None

    def on_log(self, args, state, control, logs=None, **kwargs):
        if self.run is None:
            self.run = Run(self.recipe)
            for line in state.log_history[:-1]:
                self.run.judge(line)
        for step, _, message in self.run.judge(state.log_history[-1]):
            say(f"step {step}: {message}")


class Metrics(TrainerCallback):
    """Writes `metrics.jsonl`, one line per logging step. A resumed run first rewrites it from the checkpoint's own
    history, so that no step appears twice. Of that it keeps only lines that a run wrote: those who read them later
    rely on their types, and a checkpoint may be a stranger's."""

    def __init__(self, folder: Path):
        self.file = folder / "metrics.jsonl"

    def on_train_begin(self, args, state, control, **kwargs):
        history = state.log_history if isinstance(state.log_history, list) else []
        state.log_history = [line for line in history if _written_by_a_run(line)]
        if state.is_world_process_zero:
            write_whole(self.file, "".join(json.dumps(line) + "\n" for line in state.log_history))

    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and state.log_history:
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(state.log_history[-1]) + "\n")


def _written_by_a_run(line) -> bool:
    """Whether it has a step, numbers by name that can be summed, and text only where answers were judged."""
    if not isinstance(line, dict) or not isinstance(line.get("step"), int):
        return False
    for key, each in line.items():
        kind = str if key == RIGHT else float | int if key.startswith("seconds/") else float | int | None
        if not isinstance(each, kind) or (isinstance(each, int) and abs(each) >= 2**53):
            return False
    return True


def show_progress(trainer) -> Progress:
    """Give a trainer our bar in place of the library's own."""
    trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)  # of a process other than the first; it prints on each machine
    bar = Progress()
    trainer.add_callback(bar)
    return bar
