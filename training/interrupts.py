"""Handles SIGTERM (preemption), SIGINT (Ctrl-C) and SIGHUP (the terminal is gone): the run finishes its step, saves it,
and says how to resume.

A checkpoint can be resumed bit for bit only between two generation batches, so the run first finishes the current one:
a single optimizer step, unless `steps_per_generation` or `num_iterations` is set. A second signal ends the run at once.
But a batch system signals every process of a job, and torch's launcher then passes its own signal on to its ranks; so
under a launcher, a signal that soon follows the first is taken for its echo and ignored. A SIGHUP is never the second:
kernel, shell and make each send one.
"""

import contextlib
import os
import signal
import time

import psutil
import torch
from transformers import TrainerCallback

from schema.faults import EXIT_CODES, on_signals
from training.progress import StepClock

ECHO = 10 if "TORCHELASTIC_RUN_ID" in os.environ else 0  # seconds in which a signal is an echo


class Interrupts(TrainerCallback):
    """Stops a run after a signal. `caught`: the signal that this process received, or None; `agreed`: the one that all
    processes stop for.

    Args:
        cycle: `Generation.whole`, after a multiple of which optimizer steps a generation batch is done.
    """

    def __init__(self, cycle: int = 1):
        self.cycle, self.training, self.step = cycle, False, 0
        self.clock: StepClock | None = None  # set when the run trains
        self.caught = self.agreed = None
        self.echo_until = 0.0
        on_signals(self._catch)

    def _catch(self, number, frame):
        if number == self.caught and time.monotonic() < self.echo_until:
            return
        if number == signal.SIGHUP and self.caught is not None:
            return
        if not self.training or self.caught not in (None, signal.SIGHUP) or _left_alone():
            os._exit(EXIT_CODES[number])
        self._note(number)
        steps = self.cycle - self.step % self.cycle
        what = "this step" if steps == 1 else f"{steps} steps, to the end of this generation batch,"
        when = f", {self.clock.left(steps)}" if self.clock else ""
        said = f"stopping: {what} will be finished and saved first{when}; a second signal stops at once"
        if os.environ.get("LOCAL_RANK", "0") == "0":
            with contextlib.suppress(OSError):  # of a terminal that is gone
                os.write(2, f"\n{said}\n".encode())  # not print, which the signal may have interrupted

    def _note(self, number: int):
        self.caught, self.echo_until = number, time.monotonic() + ECHO

    def on_train_begin(self, args, state, control, **kwargs):
        self.training = True

    def on_step_begin(self, args, state, control, **kwargs):
        self.step = state.global_step

    def on_step_end(self, args, state, control, **kwargs):
        self.agreed = _agreed(self.caught)
        if self.agreed is not None and self.caught is None:
            self._note(self.agreed)
        # Not `caught`: a signal that came since would stop this process alone.
        if self.agreed is not None and state.global_step % self.cycle == 0:
            control.should_save = control.should_training_stop = True

    def on_train_end(self, args, state, control, **kwargs):
        self.training = False


def _left_alone() -> bool:
    """Whether another process of the same launcher has ended: then its signal asks for nothing to be saved, and this
    process could finish no step."""
    started = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if started == 1:
        return False
    try:
        beside = psutil.Process(os.getppid()).children()
        return sum(each.status() != psutil.STATUS_ZOMBIE for each in beside) < started
    except psutil.Error:  # raised here, it would come out of whatever was interrupted, such as a reward
        return False


def _agreed(caught: int | None) -> int | None:
    """The signal that any process caught, or None: all must stop after the same step."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return caught
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    most = torch.tensor([int(caught or 0)], device=device)
    torch.distributed.all_reduce(most, torch.distributed.ReduceOp.MAX)
    return signal.Signals(int(most)) if int(most) else None
