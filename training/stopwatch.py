"""Times the parts of a training: each second counts for one part."""

import contextlib
import time

from transformers import TrainerCallback

from training.watch import PARTS


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
