"""Keeps bad numbers away from the weights: what a reward may return, and what a gradient may hold."""

import contextlib
import faulthandler
import functools
import inspect
import json
import math
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import TrainerCallback

from data.imports import own_line
from schema.faults import RunStopped
from schema.names import LEARNED, bind_reward
from schema.sections import Recipe
from schema.terminal import clean
from training.checkpoints import newest_good
from training.reward_model import load_reward_model

SHARE = 0.1  # of a reward's rows may be faulty, counted over at least LEAST of them
LEAST = 100
LARGEST = 1e6  # a reward beyond it is a mistake: squared, it would drown every other
SECONDS = 600  # a reward may take for one batch
GRACE = 10  # more seconds for a reward that ignores its timeout


class GuardedReward:
    """Wraps a reward function so that it returns one finite float or None for each completion.

    A row scored NaN, an infinity or text becomes None; so does every row where the function raises, takes more than
    `seconds` or returns no list of the right length. The first case of each kind is reported with its row.

    Raises:
        RunStopped: more than `SHARE` of its rows were bad, or its whole first batch.
    """

    def __init__(self, function: Callable, name: str, seconds: float = SECONDS):
        self.function, self.name, self.seconds = function, name, seconds
        self.seen = self.faulty = 0
        self.told: set[str] = set()
        # trl names a reward after its function, and passes what the signature asks for.
        functools.update_wrapper(self, function.func if isinstance(function, functools.partial) else function)

    def __call__(self, completions: list, **columns) -> list[float | None]:
        rows = len(completions)
        try:
            with _limited(self.seconds):
                returned = self.function(completions=completions, **columns)
        except Exception as error:
            returned = None
            where = own_line(error)
            self._tell(f"raised {type(error).__name__}: {error} ({where})", 0, columns)
        else:
            returned = returned.tolist() if hasattr(returned, "tolist") else returned  # an array, or a tensor
            if inspect.iscoroutine(returned):
                returned.close()
                returned = "a coroutine: async functions are not supported"
            if not isinstance(returned, list | tuple) or len(returned) != rows:
                counted = hasattr(returned, "__len__") and not isinstance(returned, str)
                got = f"{len(returned)} values" if counted else repr(returned)
                self._tell(f"returned {got} for {rows} completions", 0, columns)
                returned = None
        values = [None] * rows if returned is None else [self._value(r, i, columns) for i, r in enumerate(returned)]
        bad = (
            rows
            if returned is None
            else sum(v is None and r is not None for v, r in zip(values, returned, strict=True))
        )
        first, self.seen, self.faulty = self.seen == 0, self.seen + rows, self.faulty + bad
        if self.faulty > SHARE * max(self.seen, LEAST) or (first and rows and bad == rows):
            raise RunStopped(
                f"rewards.{self.name}: {self.faulty} of {self.seen} rows have no usable reward "
                f"({'; '.join(self.told)}); correct the function, and the same command resumes the run"
            )
        return values

    def _value(self, returned: object, row: int, columns: dict) -> float | None:
        if returned is None:
            return None
        try:
            value = float(returned)
        except (TypeError, ValueError):
            value = math.nan
        if isinstance(returned, str) or not math.isfinite(value) or abs(value) > LARGEST:
            self._tell(f"returned {returned!r}", row, columns)
            return None
        return value

    def _tell(self, what: str, row: int, columns: dict):
        if what in self.told or len(self.told) > 5:
            return
        self.told.add(what)
        problem = (columns.get("problem") or [""] * (row + 1))[row]
        said = f"rewards.{self.name} {what}, first in row {row} ({problem[:80]!r}): judged None"
        print(clean(f"\n{said}"), file=sys.stderr)


def guarded_rewards(recipe: Recipe, at_most: float = math.inf) -> list[GuardedReward]:
    """The recipe's rewards, in its order, with their arguments bound. `at_most`: seconds for a batch, whatever timeout
    the recipe sets.

    Raises:
        RecipeError: the model of a learned reward cannot be loaded.
    """
    rewards = recipe.rewards
    if LEARNED in rewards:
        rewards = rewards | {LEARNED: rewards[LEARNED] | {"model": load_reward_model(recipe)}}
    return [
        GuardedReward(bind_reward(name, options), name, min(at_most, options.get("timeout", SECONDS)))
        for name, options in rewards.items()
    ]


@contextlib.contextmanager
def _limited(seconds: float):
    """Raises TimeoutError in the block after so many seconds. If the function holds the interpreter lock, or catches
    the error and goes on, a thread that needs no lock ends the process and prints where it hangs."""
    faulthandler.dump_traceback_later(seconds + GRACE, exit=True, file=sys.__stderr__)
    heard = threading.current_thread() is threading.main_thread()  # signals reach no other thread
    if heard:
        before = signal.signal(signal.SIGALRM, functools.partial(_late, seconds))
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        if heard:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before or signal.SIG_DFL)
        faulthandler.cancel_dump_traceback_later()


def _late(seconds: float, number: int, frame):
    raise TimeoutError(f"no answer within {seconds:g} s")


class FiniteNumbers(TrainerCallback):
    """Stops a run before a gradient that is not finite is applied, and before weights that are not finite are saved.
    DeepSpeed keeps its gradients to itself, and with ZeRO-3 its weights too: there it sees nothing.

    `prompts`: those of the current batch, written beside the run when it stops.
    """

    def __init__(self):
        self.prompts: list = []

    def watching(self, function: Callable) -> Callable:
        """The reward function, which now also records the prompts it is given."""

        @functools.wraps(function)
        def reward(prompts, **columns):
            self.prompts = prompts
            return function(prompts=prompts, **columns)

        return reward

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        gradients = [each.grad for each in model.parameters() if each.grad is not None]
        self._require(gradients, "gradient", "applied", args, state)

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if control.should_save:
            weights = [each.data for each in model.parameters() if each.requires_grad]
            self._require(weights, "weight", "saved", args, state)

    def _require(self, tensors: list[torch.Tensor], what: str, before: str, args, state):
        if not tensors or all(torch.isfinite(each).all() for each in _norms(tensors)):
            return
        file = Path(args.output_dir) / f"not-finite-{state.global_step}.json"
        file.write_text(json.dumps(self.prompts, indent=1, default=str), encoding="utf-8")
        last = newest_good(Path(args.output_dir))
        raise RunStopped(
            f"a {what} is not finite after step {state.global_step}: the run stopped before it was {before}. "
            f"The batch's prompts are in {file}. {last or 'No checkpoint'} is the last good one. A lower learning_rate "
            "or max_grad_norm may help, or bfloat16 instead of float16"
        )


def _norms(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """One norm for each tensor, finite where all its numbers are; in float32, so that the norm does not overflow."""
    return torch._foreach_norm([each.detach() for each in tensors], 2, dtype=torch.float32)
