"""What a training run shows: one readable line per logging step, and what a long step is doing:
tokens sampled, batches trained on. A terminal shows that on a bar below a table with a row per
line, and a completion now and then; a log file gets a line now and then. And the seconds of each
part of the training.

The bar is tqdm's, because rich's hides the cursor, which a run that is ended at once could not
bring back.
"""

import contextlib
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.text import Text
from tqdm import tqdm
from transformers import (
    PrinterCallback,
    ProgressCallback,
    StoppingCriteria,
    StoppingCriteriaList,
    TrainerCallback,
)

from data.prompt import transcript
from schema.configs import RIGHT, WITHOUT_SIGNAL
from schema.recipe import Recipe
from schema.terminal import clean, duration, say_panel
from training.checkpoints import write_whole
from training.watch import PARTS, Run

# trl's metric → its word on the line. Each reward's mean follows the first of them, under its own
# name.
SFT_WORDS = {"loss": "loss", "mean_token_accuracy": "token accuracy", "accuracy": "pairs right"}
DPO_WORDS = {
    "loss": "loss",
    "rewards/accuracies": "pairs ranked right",
    "rewards/margins": "margin",
}
GRPO_WORDS = {
    "reward": "reward",
    "reward_std": "± std",
    WITHOUT_SIGNAL: "no signal",
    "completions/mean_length": "length",
    "completions/clipped_ratio": "truncated",
    "entropy": "entropy",
    "kl": "kl",
    "sampling/importance_sampling_ratio/mean": "vLLM ratio",
}
IN_A_TABLE = ("reward_std", "entropy")  # alone
SHARES = {
    WITHOUT_SIGNAL,
    "completions/clipped_ratio",
    "mean_token_accuracy",
    "accuracy",
    "rewards/accuracies",
}
SAMPLES = 10  # completions that a run shows
QUIET = 20  # seconds into a step before anything is said
EVERY = 60  # seconds between two lines in a log file
TICK = 1  # seconds between two checks
TOKENS = 8  # to sample before the rest is estimated


class Progress(ProgressCallback):
    """A stage's bar, and above it one readable line in place of the library's dictionary of thirty
    numbers per step."""

    def __init__(self, stage: str):
        super().__init__()
        self.stage, self.part = stage, 0
        self.head = self.before = self.batch = None

    def saw(self, batch):
        """Take note of a batch that was scored (training/scoring.py)."""
        self.batch = batch

    def on_train_begin(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            self.training_bar = bar(self.stage, state.max_steps, state.global_step)
        self.current_step = self.first_step = state.global_step
        self.began, self.warm = time.time(), None

    def on_step_end(self, args, state, control, **kwargs):
        """What only a first step takes does not lengthen the time that is left."""
        super().on_step_end(args, state, control, **kwargs)
        if not state.is_world_process_zero:
            return
        if state.global_step == self.first_step + 1:
            self.warm = time.time()
        elif self.warm:
            self.began, self.warm, self.first_step = self.warm, None, self.first_step + 1
            self.training_bar.initial, self.training_bar.start_t = self.first_step, self.began

    def on_prediction_step(self, args, state, control, **kwargs):
        """The one bar stays: what an evaluation is doing is its status."""

    def on_log(self, args, state, control, logs=None, **kwargs):
        if (
            not state.is_world_process_zero
            or self.training_bar is None
            or not logs
            or "loss" not in logs
        ):
            return
        if not on_terminal():
            per_step = (time.time() - self.began) / max(1, state.global_step - self.first_step)
            left = per_step * (state.max_steps - state.global_step)
            print(
                log_line(logs, state.global_step, state.max_steps, per_step, left),
                file=sys.stderr,
                flush=True,
            )
            return
        console, first = Console(stderr=True, highlight=False), logs[next(iter(_watched(logs)))]
        step = f"{state.global_step:>{len(str(state.max_steps))}}/{state.max_steps}"
        head, *rows = columns(
            logs, first if self.before is None else self.before, step, console.width
        )
        rows, self.head, self.before = rows if head == self.head else [head, *rows], head, first
        if (
            self.batch is not None
            and (part := state.global_step * SAMPLES // state.max_steps) > self.part
        ):
            self.part, rows = part, [*rows, *sample(self.batch, console.width)]
        with tqdm.external_write_mode(sys.stderr):
            for row in rows:
                console.print(
                    Text(row, "bold" if row == head else ""), no_wrap=True, overflow="ellipsis"
                )


def bar(name: str, total: int, done: int = 0) -> tqdm:
    """What is done of something and the time left, on a terminal alone."""
    form = "{desc}  {n_fmt}/{total_fmt} {bar} {remaining} left{postfix}"
    options = {
        "leave": False,
        "smoothing": 0,
        "dynamic_ncols": True,
        "bar_format": form,
        "disable": not on_terminal(),
    }
    return tqdm(total=total, initial=done, desc=name, file=sys.stderr, **options)


def columns(logs: dict, before: float, step: str, width: int) -> tuple[str, str]:
    """The head and the row of a table, in which the first number stands beside its change from the
    one before. What finds no room on a narrow terminal is left out; metrics.jsonl has it all."""
    cells = [
        ("step".rjust(len(step)), step),
        *((word, _drawn(key, logs[key])) for key, word in _watched(logs).items()),
    ]
    change = logs[next(iter(_watched(logs)))] - before
    cells.insert(2, ("change", f"{change:+.3f}" if change else ""))
    head = row = ""
    for word, text in cells:
        wide = max(len(word), len("-0.001"))
        if len(row) + wide <= width:
            head, row = f"{head}{word:>{wide}}  ", f"{row}{text:>{wide}}  "
    return head.rstrip(), row.rstrip()


def _watched(logs: dict) -> dict[str, str]:
    """The words of what a person watches, by its key in the log."""
    words = (
        GRPO_WORDS if "reward" in logs else DPO_WORDS if "rewards/margins" in logs else SFT_WORDS
    )
    means = {key: key.split("/")[1] for key in logs if key.startswith("rewards/") and "mean" in key}
    every, ahead = [*words.items()], 2 if "reward" in logs else 1
    every[ahead:ahead] = means.items()
    return {key: word for key, word in every if logs.get(key) is not None}


def _drawn(key: str, value: float) -> str:
    if key in SHARES:
        return f"{100 * value:.0f} %"
    if key.startswith("completions/"):
        return f"{value:.0f}"
    return f"{value:.3f}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.0e}"


def sample(batch, width: int) -> list[str]:
    """The first completion of a batch: its problem, its beginning and its end, and what it
    earned."""
    text = transcript(batch.columns["completions"][0])
    earned = [
        f"{name} {values[0]:.3g}" for name, values in batch.rewards.items() if values[0] is not None
    ]
    told = [
        " ".join(clean(str(each)).split())
        for each in (batch.columns["problem"][0], text, "  ".join(earned))
    ]
    half = max(10, width // 2 - 4)
    return [
        "│ " + (each if len(each) <= 2 * half else f"{each[:half]} … {each[-half:]}")
        for each in told
    ]


def log_line(logs: dict, step: int, steps: int, seconds: float, left: float) -> str:
    parts = [
        f"{word} {logs[key]:.3g}" for key, word in _watched(logs).items() if key not in IN_A_TABLE
    ]
    return (
        f"step {step:>{len(str(steps))}}/{steps}  {'  '.join(parts)}  {exact(seconds)} s/step "
        f" {duration(left)} left"
    )


def exact(seconds: float) -> str:
    """Two digits at least, and never 2.6e+02."""
    return f"{seconds:.2g}" if seconds < 99.5 else f"{seconds:.0f}"


class Advise(TrainerCallback):
    """Says what a run's lines show to be wrong, once: not again what its checkpoint's lines showed
    before."""

    def __init__(self, recipe: Recipe):
        self.recipe, self.run = recipe, None

    def on_log(self, args, state, control, logs=None, **kwargs):
        if self.run is None:
            self.run = Run(self.recipe)
            for line in state.log_history[:-1]:
                self.run.judge(line)
        for step, _, message in self.run.judge(state.log_history[-1]):
            say_panel("to look at", [f"step {step}: {message}"])


class Metrics(TrainerCallback):
    """Writes `metrics.jsonl`, one line per logging step. A resumed run first rewrites it from the
    checkpoint's own history, so that no step appears twice. Of that it keeps only lines that a run
    wrote: those who read them later rely on their types, and a checkpoint may be a stranger's."""

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
    """Whether it has a step, numbers by name that can be summed, and text only where answers were
    judged."""
    if not isinstance(line, dict) or not isinstance(line.get("step"), int):
        return False
    for key, each in line.items():
        kind = (
            str
            if key == RIGHT
            else float | int
            if key.startswith("seconds/")
            else float | int | None
        )
        if not isinstance(each, kind) or (isinstance(each, int) and abs(each) >= 2**53):
            return False
    return True


def show_progress(trainer, stage: str) -> Progress:
    """Give a trainer our bar in place of the library's own."""
    trainer.remove_callback(ProgressCallback)
    # of a process other than the first; it prints on each machine
    trainer.remove_callback(PrinterCallback)
    ours = Progress(stage)
    trainer.add_callback(ours)
    return ours


class StepClock(TrainerCallback):
    """Follows the steps of a run from a thread of its own, and adds the seconds of each part since
    the last line to each line of the trainer's history, as `seconds/<part>`: this process's,
    waiting for others included.

    Args:
        bar: the progress bar that shows the status on a terminal.
    """

    def __init__(self, bar: Progress):
        self.bar, self.took, self.ended = bar, deque(maxlen=5), threading.Event()
        self.began = self.sampling = None  # when the step and its sampling began
        self.evaluating, self.first = False, 0.0
        self.batches = self.rows = self.token = self.limit = self.step = 0
        self.seconds = dict.fromkeys(PARTS, 0.0)  # since the last line of the history
        self.lap, self.out = (
            0.0,
            0.0,
        )  # the last moment that was counted, and the seconds counted on their own since

    def on_train_begin(self, args, state, control, **kwargs):
        self.lap = time.monotonic()
        if state.is_world_process_zero:
            threading.Thread(target=self._follow, daemon=True).start()

    def on_step_begin(self, args, state, control, **kwargs):
        self._count("rest")
        self.began, self.batches, self.step = time.monotonic(), 0, state.global_step + 1
        self.of = args.gradient_accumulation_steps

    def on_substep_end(self, args, state, control, **kwargs):
        self.batches += 1

    def on_step_end(self, args, state, control, **kwargs):
        self._count("update")
        self.took.append(time.monotonic() - self.began)
        self._rest()

    def on_log(self, args, state, control, **kwargs):
        self._count("evaluation" if self.evaluating else "rest")
        self._note(state.log_history)

    def on_evaluate(self, args, state, control, **kwargs):
        self._count("evaluation")
        self._rest()

    def on_save(self, args, state, control, **kwargs):
        self._count("saving")

    def on_train_end(self, args, state, control, **kwargs):
        self._count("rest")
        self._note(state.log_history)
        self.ended.set()

    def _count(self, part: str):
        now = time.monotonic()
        self.seconds[part] += now - self.lap - self.out
        self.lap, self.out = now, 0.0

    def _note(self, history: list[dict]):
        for part, seconds in self.seconds.items() if history else ():
            history[-1][f"seconds/{part}"] = history[-1].get(f"seconds/{part}", 0.0) + seconds
            self.seconds[part] = 0.0

    @contextlib.contextmanager
    def apart(self, part: str):
        """The seconds of this block, or of the function that it decorates, count in a step as a
        part of their own; in an evaluation as that."""
        began = time.monotonic()
        try:
            yield
        finally:
            if self.began is not None and not self.evaluating:
                self.out += (took := time.monotonic() - began)
                self.seconds[part] += took

    def watching(self, generate: Callable) -> Callable:
        """A transformers model's `generate`, which now reports every token to this clock."""

        def watched(*args, **kwargs):
            tokens = _Tokens(self, kwargs["input_ids"].shape[1])
            with self._sampling(
                len(kwargs["input_ids"]), kwargs["generation_config"].max_new_tokens
            ):
                return generate(*args, stopping_criteria=StoppingCriteriaList([tokens]), **kwargs)

        return watched

    def watching_vllm(self, generate: Callable) -> Callable:
        """`VLLMGeneration.generate`, which now reports its beginning and its end to this clock."""

        def watched(prompts, *args, **kwargs):
            with self._sampling(len(prompts), 0):
                return generate(prompts, *args, **kwargs)

        return watched

    @contextlib.contextmanager
    def _sampling(self, rows: int, limit: int):
        self.rows, self.token, self.limit, self.sampling = rows, 0, limit, time.monotonic()
        if self.began is None:  # between two steps, so this is an evaluation
            self.began, self.evaluating = self.sampling, True
        try:
            with self.apart("sampling"):
                yield
        finally:
            self.sampling = None

    def status(self) -> str:
        """What the step is doing, in words."""
        began = self.sampling  # read once, because another thread sets it
        if began is None:
            return (
                f"{self.batches} of {self.of} batches trained on"
                if self.batches
                else "scoring, training"
            )
        if not self.token:
            return f"sampling {self.rows} completions"
        rate = self.rows * self.token / max(1e-3, time.monotonic() - began)
        return (
            f"sampling {self.rows} completions, token {self.token:,} of at most {self.limit:,},"
            f" {rate:,.0f} tokens/s"
        )

    def left(self, steps: int = 1) -> str:
        """About when this step and the `steps - 1` after it end, in words; for a first step, when
        its sampling ends."""
        if self.began is None:
            return "at once"
        mean = sum(self.took) / len(self.took) if self.took else 0.0
        if self.evaluating:
            return f"after this evaluation and a step of about {duration(mean)}"
        if self.took:
            return f"in about {duration(max(1.0, mean * steps - (time.monotonic() - self.began)))}"
        if self.sampling is None or self.token < TOKENS:
            return "but it is too early to say when"
        # Without the first token, which includes the whole prompt and what is set up once.
        still = (time.monotonic() - self.first) / (self.token - 1) * (self.limit - self.token)
        return f"after at most {duration(still)} of sampling and then training"

    def _rest(self):
        self.began, self.evaluating = None, False
        if self.bar.training_bar is not None and on_terminal():
            self.bar.training_bar.set_postfix_str("")

    def _follow(self):
        said = 0.0
        while not self.ended.wait(TICK):
            began, now = self.began, time.monotonic()
            if began is None or now - began < QUIET:
                continue
            if on_terminal() and self.bar.training_bar is not None:
                self.bar.training_bar.set_postfix_str(self.status())
            elif now - said >= EVERY:
                print(
                    f"step {self.step}, {duration(now - began)} so far: {self.status()}",
                    file=sys.stderr,
                    flush=True,
                )
                said = now


def time_by_part(history: list[dict]) -> dict[str, dict[str, float]]:
    """Of each part of the training, its seconds and its share of them all, from the trainer's
    history. A resumed run's history ends at the last line before its checkpoint: the seconds from
    there to where it stopped are not counted.
    """
    seconds = {part: sum(line.get(f"seconds/{part}", 0.0) for line in history) for part in PARTS}
    whole = sum(seconds.values()) or 1.0
    return {
        part: {"seconds": round(each, 3), "share": round(each / whole, 4)}
        for part, each in seconds.items()
    }


def on_terminal() -> bool:
    """Whether a progress bar is visible: not in a file, nor on a terminal of no width, as some
    containers have."""
    return sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).columns > 0


class _Tokens(StoppingCriteria):
    """Counts the tokens as they are sampled, and never stops them."""

    def __init__(self, clock: StepClock, prompt: int):
        self.clock, self.prompt = clock, prompt

    def __call__(
        self, input_ids: torch.LongTensor, scores: torch.FloatTensor, **kwargs
    ) -> torch.BoolTensor:
        self.clock.token = input_ids.shape[1] - self.prompt
        if self.clock.token == 1:
            self.clock.first = time.monotonic()
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)
