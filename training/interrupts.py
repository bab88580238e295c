"""SIGTERM (a machine that is taken away) and SIGINT (Ctrl-C): finish the step, save, and say how to go on.

A checkpoint can be resumed to the bit only between two generation batches, so the run goes on to the end of the one it
is in: one optimizer step, where `steps_per_generation` and `num_iterations` are not set. A second signal ends it at
once; but a batch system signals every process of a job, and then torch's launcher passes its own on to its ranks, so
there one that comes soon after the first is its echo.
"""

import os
import signal
import time

import torch
from transformers import TrainerCallback

from training.step_clock import StepClock

EXIT_CODES = {signal.SIGTERM: 75, signal.SIGINT: 130}  # 75: EX_TEMPFAIL of sysexits.h, try again later
ECHO = 10 if "TORCHELASTIC_RUN_ID" in os.environ else 0  # seconds


class Interrupts(TrainerCallback):
    """Stops a run after a signal. `caught`: the one this process had, None while there was none; `agreed`: the one that
    all processes stop for.

    Args:
        cycle: optimizer steps of a generation batch.
    """

    def __init__(self, cycle: int = 1):
        self.cycle, self.training, self.step = cycle, False, 0
        self.clock: StepClock | None = None  # of the run, once it trains
        self.caught = self.agreed = None
        self.echo_until = 0.0
        for number in EXIT_CODES:
            signal.signal(number, self._catch)

    def _catch(self, number, frame):
        if number == self.caught and time.monotonic() < self.echo_until:
            return
        if not self.training or self.caught is not None:
            os._exit(EXIT_CODES[number])
        self._note(number)
        steps = self.cycle - self.step % self.cycle
        what = "this step is" if steps == 1 else f"{steps} steps, to the end of this generation batch, are"
        when = f", {self.clock.left(steps)}" if self.clock else ""
        # Not print: the signal may have come in the middle of one.
        os.write(2, f"\nstopping: {what} finished and saved first{when}; once more stops at once\n".encode())

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


def _agreed(caught: int | None) -> int | None:
    """The signal any process caught: all must stop after the same step."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return caught
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    most = torch.tensor([int(caught or 0)], device=device)
    torch.distributed.all_reduce(most, torch.distributed.ReduceOp.MAX)
    return signal.Signals(int(most)) if int(most) else None
