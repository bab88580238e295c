"""Shows what a long step is doing: tokens sampled, batches trained on. A terminal shows it on the progress bar, a log
file gets a line now and then. And counts the seconds of each part of the training.
"""

import contextlib
import functools
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable

import torch
from transformers import StoppingCriteria, StoppingCriteriaList, TrainerCallback

from training.progress import Progress, duration

QUIET = 20  # seconds into a step before anything is said
EVERY = 60  # seconds between two lines in a log file
TICK = 1  # seconds between two checks
TOKENS = 8  # to sample before the rest is estimated
# Of the training: completions sampled; our rewards; the rest of a step, which is forward, backward and optimizer;
# held-out problems answered; checkpoints written and sealed; and what is none of these, such as loading and logging.
PARTS = ("sampling", "rewards", "update", "evaluation", "saving", "rest")


class StepClock(TrainerCallback):
    """Follows the steps of a run from a thread of its own, and adds the seconds of each part since the last line to
    each line of the trainer's history, as `seconds/<part>`: this process's, waiting for others included.

    Args:
        bar: the progress bar that shows the status on a terminal.
    """

    def __init__(self, bar: Progress):
        self.bar, self.took, self.ended = bar, deque(maxlen=5), threading.Event()
        self.began = self.sampling = None  # when the step and its sampling began
        self.evaluating, self.first = False, 0.0
        self.batches = self.rows = self.token = self.limit = self.step = 0
        self.seconds = dict.fromkeys(PARTS, 0.0)  # since the last line of the history
        self.lap, self.out = 0.0, 0.0  # the last moment that was counted, and the seconds counted on their own since

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

    def timing(self, part: str, function: Callable) -> Callable:
        """The function, whose seconds in a step now count as a part of their own; in an evaluation as that."""

        @functools.wraps(function)
        def timed(*args, **kwargs):
            with self.apart(part):
                return function(*args, **kwargs)

        return timed

    @contextlib.contextmanager
    def apart(self, part: str):
        """The seconds of this block in a step count as a part of their own; in an evaluation as that."""
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
            with self._sampling(len(kwargs["input_ids"]), kwargs["generation_config"].max_new_tokens):
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
            return f"{self.batches} of {self.of} batches trained on" if self.batches else "scoring, training"
        if not self.token:
            return f"sampling {self.rows} completions"
        rate = self.rows * self.token / max(1e-3, time.monotonic() - began)
        return f"sampling {self.rows} completions, token {self.token:,} of at most {self.limit:,}, {rate:,.0f} tokens/s"

    def left(self, steps: int = 1) -> str:
        """About when this step and the `steps - 1` after it end, in words; for a first step, when its sampling ends."""
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
                print(f"step {self.step}, {duration(now - began)} so far: {self.status()}", file=sys.stderr, flush=True)
                said = now


def time_by_part(history: list[dict]) -> dict[str, dict[str, float]]:
    """Of each part of the training, its seconds and its share of them all, from the trainer's history. A resumed run's
    history ends at the last line before its checkpoint: the seconds from there to where it stopped are not counted."""
    seconds = {part: sum(line.get(f"seconds/{part}", 0.0) for line in history) for part in PARTS}
    whole = sum(seconds.values()) or 1.0
    return {part: {"seconds": round(each, 3), "share": round(each / whole, 4)} for part, each in seconds.items()}


def on_terminal() -> bool:
    """Whether a progress bar is visible: not in a file, nor on a terminal of no width, as some containers have."""
    return sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).columns > 0


class _Tokens(StoppingCriteria):
    """Counts the tokens as they are sampled, and never stops them."""

    def __init__(self, clock: StepClock, prompt: int):
        self.clock, self.prompt = clock, prompt

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor, **kwargs) -> torch.BoolTensor:
        self.clock.token = input_ids.shape[1] - self.prompt
        if self.clock.token == 1:
            self.clock.first = time.monotonic()
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)
