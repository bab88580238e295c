"""The one way from a completion to its rewards. trl calls a `GuardedReward` for each reward of the
recipe; it keeps bad numbers away, and hands what it found to the run's `Scores`, which time, record
and count it, and show each batch that is scored to whoever watches."""

import asyncio
import contextlib
import copy
import faulthandler
import functools
import inspect
import math
import re
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import NamedTuple

import torch

from console.faults import EXIT_CODES, RunStopped
from console.terminal import clean
from data.imports import raised, short_repr
from data.problems import AS_MESSAGES, likely_column
from schema.names import LEARNED, bind_reward
from schema.recipe import Recipe

SHARE = 0.1  # of a reward's rows may be faulty, counted over at least LEAST of them
LEAST = 100
LARGEST = 1e6  # a reward beyond it is a mistake: squared, it would drown every other
SECONDS = 600  # a reward may take for one batch
GRACE = 10  # more seconds for a reward that ignores its timeout
# of one loop for all batches, as trl has it: a client's connections belong to their loop
_RUNNER = asyncio.Runner()


class GuardedReward:
    """A reward function that returns one finite float or None for each completion.

    A row scored NaN, an infinity or text becomes None; so does every row where the function raises,
    takes more than `seconds` or returns no list of the right length. The first case of each kind is
    reported with its row.

    `by_step`: asks the function about each step of a completion (training/step_rewards.py); by
    default it is asked about whole ones. `scores`: what hears of each batch; none where there is no
    run.

    Raises:
        RunStopped: more than `SHARE` of its rows were bad, or its whole first batch; or it raised
            ConnectionError, as one does whose service is gone.
    """

    def __init__(self, function: Callable, name: str, seconds: float = SECONDS):
        self.function, self.name, self.seconds = function, name, seconds
        self.by_step: Callable | None = None
        self.scores: Scores | None = None
        self.seen = self.faulty = 0
        self.told: set[str] = set()
        # trl names a reward after its function.
        functools.update_wrapper(
            self, function.func if isinstance(function, functools.partial) else function
        )

    def __call__(self, /, completions: list, **columns) -> list[float | None]:
        asked = functools.partial(self.by_step, self._ask) if self.by_step else self._ask
        with self.scores.timed() if self.scores else contextlib.nullcontext():
            values = asked(completions=completions, **columns)
            if self.scores:
                self.scores.add(self, {"completions": completions} | columns, values)
        return values

    def _ask(self, /, completions: list, **columns) -> list[float | None]:
        rows = len(completions)
        try:
            with _limited(self.seconds):
                # A function may change its own; the next is asked about what was written.
                returned = self.function(completions=copy.deepcopy(completions), **columns)
                returned = _awaited(returned) if inspect.iscoroutine(returned) else returned
            # an array, or a tensor
            returned = returned.tolist() if hasattr(returned, "tolist") else returned
            if not isinstance(returned, list | tuple) or len(returned) != rows:
                counted = hasattr(returned, "__len__") and not isinstance(returned, str)
                got = f"{len(returned)} values" if counted else short_repr(returned)
                self._tell(f"returned {got} for {rows} completions", 0, columns)
                returned = None
        except (Exception, SystemExit) as error:
            if (
                type(error) is ConnectionError
            ):  # this very class is meant: libraries raise kinds of it
                message = f"rewards.{self.name}: {error}; once it answers, the same command goes on"
                raise RunStopped(message, EXIT_CODES[signal.SIGTERM]) from error
            returned = None
            self._tell(f"failed at {raised(error)}{as_in_trl(error, columns)}", 0, columns)
        if returned is None:
            values, bad = [None] * rows, rows
        else:
            values = [self._value(each, i, columns) for i, each in enumerate(returned)]
            bad = values.count(None) - sum(each is None for each in returned)
        if self.seen == 0 and rows and bad == 0 and values.count(None) == rows:
            self._tell("returned None for each completion of its first batch", 0, columns)
        first, self.seen, self.faulty = self.seen == 0, self.seen + rows, self.faulty + bad
        if self.faulty > SHARE * max(self.seen, LEAST) or (first and rows and bad == rows):
            raise RunStopped(
                f"rewards.{self.name}: {self.faulty} of {self.seen} rows have no usable reward "
                f"({'; '.join(self.told)}); correct the function"
                + (", and the same command resumes the run" if self.scores else "")
            )
        return values

    def _value(self, returned: object, row: int, columns: dict) -> float | None:
        if returned is None:
            return None
        try:
            value = float(returned)
        except Exception:  # its own `__float__` may raise any
            value = math.nan
        if isinstance(returned, str) or not math.isfinite(value) or abs(value) > LARGEST:
            self._tell(f"returned {short_repr(returned)}", row, columns)
            return None
        return value

    def _tell(self, what: str, row: int, columns: dict):
        if what in self.told or len(self.told) > 5:
            return
        self.told.add(what)
        problem = (columns.get("problem") or [""] * (row + 1))[row]
        said = f"rewards.{self.name} {what}, first in row {row} ({problem[:80]!r}): judged None"
        print(clean(f"\n{said}"), file=sys.stderr)


def as_in_trl(error: BaseException, columns: dict) -> str:
    """What helps a reward written for TRL's other form, where a completion is a string, or for a
    column of another name; empty where the error does not look like either."""
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        name = error.args[0]
        return "" if name in columns else f"; {likely_column(name, columns)}; {AS_MESSAGES}"
    if isinstance(error, KeyError):
        return f"; {AS_MESSAGES}"
    names_messages = re.search(r"\b(list|dict)\b", raised(error))
    return (
        f"; {AS_MESSAGES}"
        if isinstance(error, TypeError | AttributeError) and names_messages
        else ""
    )


def guarded_rewards(recipe: Recipe, at_most: float = math.inf) -> list[GuardedReward]:
    """The recipe's functions, in its order, with their arguments bound. `at_most`: seconds for a
    batch, whatever timeout the recipe sets.
    """
    rewards = {name: options for name, options in recipe.rewards.items() if name != LEARNED}
    return [
        GuardedReward(
            bind_reward(name, options), name, min(at_most, options.get("timeout", SECONDS))
        )
        for name, options in rewards.items()
    ]


def _awaited(coroutine: Coroutine) -> object:
    """What an `async def` returns. What it still waits for when it fails, or is late, is given
    up."""
    try:
        return _RUNNER.run(coroutine)
    except BaseException:
        for task in asyncio.all_tasks(_RUNNER.get_loop()):
            task.cancel()
        raise


@contextlib.contextmanager
def _limited(seconds: float):
    """Raises TimeoutError in the block after so many seconds. If the function holds the interpreter
    lock, or catches the error and goes on, a thread that needs no lock ends the process and prints
    where it hangs.
    """
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


class Batch(NamedTuple):
    """`columns`: what trl told the rewards. `rewards`: under each reward's name, a value for each
    completion."""

    columns: dict
    rewards: dict[str, list[float | None]]


class Scores:
    """What a run's rewards have in common, in the recipe's order.

    For each batch trl's completion files get the columns `gold`, `tokens` and `truncated`.

    `watchers`: each is shown every batch once all rewards have scored it. `timed`: a context around
    each reward.

    Args:
        ends: the ids of the tokens that end a completion.
    """

    def __init__(self, rewards: list[GuardedReward], ends: set[int]):
        self.rewards, self.ends = rewards, ends
        self.values: dict[str, list[float | None]] = {}
        self.watchers: list[Callable[[Batch], None]] = []
        self.timed: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext
        for each in rewards:
            each.scores = self

    def add(self, reward: GuardedReward, columns: dict, values: list[float | None]):
        """Take what a reward found for a batch; trl asks the rewards in their order."""
        self.values[reward.name] = values
        if len(self.values) < len(self.rewards):
            return
        scored, self.values = Batch(columns, self.values), {}
        ids, record = columns["completion_ids"], columns["log_extra"]
        record("gold", [str(each) for each in columns["solution"]])
        record("tokens", [len(each) for each in ids])
        # One whose last call found no room for its answer ends with a turn, but not with its
        # answer.
        calling = [
            not isinstance(each, str) and bool(each[-1].get("tool_calls"))
            for each in columns["completions"]
        ]
        ended = [len(each) and int(each[-1]) in self.ends for each in ids]
        record("truncated", [call or not end for call, end in zip(calling, ended, strict=True)])
        for watch in self.watchers:
            watch(scored)


def without_signal(rewards: torch.Tensor, weights: torch.Tensor, group_size: int) -> float:
    """The share of groups whose weighted rewards are all equal.

    A group whose completions all earn the same has zero advantages and teaches nothing. trl's
    `frac_reward_zero_std` takes the standard deviation in float32, where that of eight equal
    rewards of 1.2 is 1e-7, and misses such groups.

    Args:
        rewards: (completions, rewards) of whole groups; NaN where there is none. A completion that
            no reward scored is left out of its group.
        weights: (rewards,)
    """
    earned = (rewards.cpu().double() * weights.cpu().double()).nansum(1)
    groups = (
        earned.masked_fill(rewards.cpu().isnan().all(1), math.nan).view(-1, group_size).tolist()
    )
    flat = [
        len({round(each, 6) for each in group if not math.isnan(each)}) <= 1 for group in groups
    ]
    return sum(flat) / len(flat)
