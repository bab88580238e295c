"""The one way from a completion to its rewards. trl calls a `GuardedReward` for each reward of the
recipe; it replaces unusable values by None, and passes the values to the run's `Scores`, which time
and record them, and call the run's watchers with each scored batch."""

import asyncio
import contextlib
import copy
import faulthandler
import functools
import inspect
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import NamedTuple

import torch

from console.faults import EXIT_CODES, RunStopped, is_exhausted
from console.terminal import clean
from data.imports import raised, short_repr
from data.problems import AS_MESSAGES, likely_column
from schema.names import LEARNED, NAMED, bind_reward, unbound
from schema.recipe import Recipe

MAX_FAULTY_SHARE = 0.1  # of a reward's rows, counted over at least MIN_ROWS of them
MIN_ROWS = 100
LARGEST = 1e6  # a reward beyond it is a mistake: squared, it would drown every other
SECONDS = 600  # a reward may take for one batch
GRACE = 10  # more seconds for a reward that ignores its timeout
MAX_REPORTS = 6  # kinds of mistake that are printed for one reward
# One loop for all batches, as trl has it: a client's connections belong to their loop.
_RUNNER = asyncio.Runner()


class GuardedReward:
    """A reward function that returns one finite float or None for each completion.

    A row scored NaN, an infinity or text becomes None; so does every row where the function raises,
    takes more than `seconds` or returns no list of the right length. The first case of each kind is
    reported with its row.

    Attributes:
        by_step: calls the function for each step of a completion (training/step_rewards.py); by
            default it is called with completions as they are.
        scores: receives each scored batch; None outside a run.

    Raises:
        RunStopped: more than `MAX_FAULTY_SHARE` of its rows had no usable reward, or its first
            batch had none; or it raised ConnectionError, as a reward does whose service is gone.
    """

    def __init__(self, function: Callable, name: str, seconds: float = SECONDS):
        self.function = function
        self.name = name
        self.seconds = seconds
        self.by_step: Callable | None = None
        self.scores: Scores | None = None
        self.rows_scored = 0
        self.rows_faulty = 0
        self.mistakes: list[str] = []
        # trl names a reward after its function.
        functools.update_wrapper(self, unbound(function))

    def __call__(self, /, completions: list, **columns) -> list[float | None]:
        score = self._score
        if self.by_step:
            score = functools.partial(self.by_step, self._score)
        timed = contextlib.nullcontext()
        if self.scores:
            timed = self.scores.timed()
        with timed:
            values = score(completions=completions, **columns)
            if self.scores:
                self.scores.add(self, {"completions": completions} | columns, values)
        return values

    def _score(self, /, completions: list, **columns) -> list[float | None]:
        rows = len(completions)
        returned = self._call(completions, columns)
        if returned is None:
            values = [None] * rows
            faulty = rows
        else:
            values = [self._usable(value, row, columns) for row, value in enumerate(returned)]
            faulty = values.count(None) - sum(value is None for value in returned)
        is_first_batch = self.rows_scored == 0 and rows > 0
        if is_first_batch and faulty == 0 and values.count(None) == rows:
            self._report("returned None for each completion of its first batch", 0, columns)
        self.rows_scored += rows
        self.rows_faulty += faulty
        limit = MAX_FAULTY_SHARE * max(self.rows_scored, MIN_ROWS)
        if self.rows_faulty > limit or (is_first_batch and faulty == rows):
            resumes = ", and the same command resumes the run"
            raise RunStopped(
                f"rewards.{self.name}: {self.rows_faulty} of {self.rows_scored} rows have no usable"
                f" reward ({'; '.join(self.mistakes)}); correct the function"
                f"{resumes if self.scores else ''}"
            )
        return values

    def _call(self, completions: list, columns: dict) -> list | tuple | None:
        """What the function returns for a batch; None, and a report, where that is of no use."""
        rows = len(completions)
        try:
            # A function may go elsewhere or turn gradients off: what follows it does not.
            gradients = torch.set_grad_enabled(torch.is_grad_enabled())
            with _limited(self.seconds), contextlib.chdir("."), gradients:
                # A function may change its copies; the next reward gets what was written.
                copied = _copied(columns)
                returned = self.function(completions=copy.deepcopy(completions), **copied)
                if inspect.iscoroutine(returned):
                    returned = _run(returned)
            if hasattr(returned, "tolist"):  # an array, or a tensor
                returned = returned.tolist()
            if isinstance(returned, list | tuple) and len(returned) == rows:
                return returned
            description = short_repr(returned)
            if isinstance(returned, list | tuple):
                description = f"{len(returned)} values"
            expected = f"{rows} completions, not a list with a number for each"
            self._report(f"returned {description} for {expected}", 0, columns)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # math_verify's TimeoutException is no Exception
            # Not a subclass of it: libraries raise those.
            if type(error) is ConnectionError or is_exhausted(error):
                condition = "this machine has room" if is_exhausted(error) else "it answers"
                message = f"rewards.{self.name}: {error}; once {condition},"
                message += " the same command goes on"
                raise RunStopped(message, EXIT_CODES[signal.SIGTERM]) from error
            named = self.__wrapped__
            self._report(f"failed at {raised(error, named)}{_trl_hint(error, columns)}", 0, columns)
        return None

    def _usable(self, returned: object, row: int, columns: dict) -> float | None:
        if returned is None:
            return None
        try:
            value = float(returned)
        except Exception:  # its own `__float__` may raise any
            value = math.nan
        if isinstance(returned, str) or not math.isfinite(value) or abs(value) > LARGEST:
            lacks = "" if isinstance(returned, int | float) else ", not a number"
            self._report(f"returned {short_repr(returned)}{lacks}", row, columns)
            return None
        return value

    def _report(self, mistake: str, row: int, columns: dict):
        """Print the first case of a mistake with its row."""
        if mistake in self.mistakes or len(self.mistakes) >= MAX_REPORTS:
            return
        self.mistakes.append(mistake)
        problem = columns["problem"][row] if columns.get("problem") else ""
        message = f"rewards.{self.name} {mistake}, first in row {row} ({problem[:80]!r})"
        print(clean(f"\n{message}: judged None"), file=sys.stderr)


def _copied(columns: dict) -> dict:
    """The columns for one function to change in place; trl's own arguments as they are. Copied one
    by one, the numbers of 64 long completions would take 50 ms."""
    copied = dict(columns)
    for name, values in columns.items():
        if name == "completion_ids":
            copied[name] = list(map(copy.copy, values))
        elif name == "trainer_state":
            copied[name] = copy.copy(values)
        elif isinstance(values, list):
            copied[name] = copy.deepcopy(values)
    return copied


def _trl_hint(error: BaseException, columns: dict) -> str:
    """A hint for a reward written for TRL's other form, where a completion is a string, or for a
    column of another name; empty where the error does not look like either."""
    if isinstance(error, KeyError):
        name = error.args[0] if error.args else None
        if not isinstance(name, str):
            return f"; {AS_MESSAGES}"
        return "" if name in columns else f"; {likely_column(name, columns)}; {AS_MESSAGES}"
    names_messages = re.search(r"\b(list|dict)\b", raised(error))
    if isinstance(error, TypeError | AttributeError) and names_messages:
        return f"; {AS_MESSAGES}"
    return ""


def guarded_rewards(recipe: Recipe, max_seconds: float = math.inf) -> list[GuardedReward]:
    """The recipe's reward functions, in its order, with their arguments bound. `max_seconds` limits
    a batch's time, whatever timeout the recipe sets.
    """
    rewards = []
    for name, options in recipe.rewards.items():
        if name != LEARNED:
            seconds = min(max_seconds, options.get("timeout", SECONDS))
            rewards.append(GuardedReward(bind_reward(name, options), name, seconds))
    _name_apart(rewards)
    return rewards


def _name_apart(rewards: list[GuardedReward]):
    """Give a reward its dotted name where its function's stands for something else too: trl names
    metrics and columns of completions/ by the function alone."""
    counts = Counter(reward.__name__ for reward in rewards)
    for reward in rewards:
        is_taken = counts[reward.__name__] > 1 or reward.__name__ in NAMED
        if is_taken and "." in reward.name:
            reward.__name__ = reward.name


def _run(coroutine: Coroutine) -> object:
    """The result of an `async def`. If it fails or is late, the tasks that it still waits for are
    cancelled."""
    try:
        return _RUNNER.run(coroutine)
    except BaseException:
        for task in asyncio.all_tasks(_RUNNER.get_loop()):
            task.cancel()
        raise


class _Late(BaseException):
    """A reward's time is over. Many rewards catch every Exception and go on to the next row."""


# A reward may hold the interpreter lock for ever, so a process of its own looks after it. It counts
# ticks in which the reward's process could run: a pause of either, however long, is at most one.
# A line is the seconds that a reward has and those until its process ends; 0 0 says that it has
# ended. It interrupts by SIGURG, which is ignored where it comes too late.
WATCH = """
import os, select, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
parent = os.getppid()
seconds = grace = left = 0.0
while os.getppid() == parent:
    tick = 0.1 if left <= 0 else min(1.0, seconds / 4)
    if select.select([0], [], [], tick if seconds else None)[0]:
        lines = os.read(0, 65536).split()
        if not lines:
            break
        seconds, grace = map(float, lines[-2:])
        left = seconds
        continue
    try:
        with open(f"/proc/{parent}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] in "Tt":
                continue
    except OSError:
        pass
    left -= tick
    if left <= 0:
        os.kill(parent, signal.SIGURG)
    if left <= -grace:
        os.kill(parent, signal.SIGUSR2)
        break
"""


@functools.cache
def _watcher(process: int) -> subprocess.Popen:
    """The process that looks after the rewards of this one. A fork has one of its own."""
    words = [sys.executable, "-I", "-S", "-c", WATCH]
    null = subprocess.DEVNULL
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=null, stderr=null, cwd="/")


def _watch(seconds: float, grace: float):
    line = f"{seconds} {grace}\n".encode()
    try:
        os.write(_watcher(os.getpid()).stdin.fileno(), line)
    except BrokenPipeError:  # killed from outside
        _watcher.cache_clear()
        os.write(_watcher(os.getpid()).stdin.fileno(), line)


@contextlib.contextmanager
def _limited(seconds: float):
    """Raise TimeoutError in the block after so many seconds in which this process could run. If the
    function holds the interpreter lock, or catches the error and goes on, the process ends after
    `GRACE` more, and prints where it hangs. A process has one alarm clock, and math_verify sets it
    in the function."""
    due = time.monotonic() + seconds  # none of ours comes earlier
    is_late = has_ended = False

    def raise_late(number: int, frame):
        nonlocal is_late
        if time.monotonic() >= due and not has_ended:
            is_late = True
            raise _Late

    is_main_thread = threading.current_thread() is threading.main_thread()  # only it gets signals
    if is_main_thread:
        numbers = (signal.SIGURG, signal.SIGALRM, *EXIT_CODES)  # a client library may take them
        handlers = {number: signal.getsignal(number) for number in numbers}
        signal.signal(signal.SIGURG, raise_late)
    faulthandler.register(signal.SIGUSR2, file=sys.__stderr__, chain=True)  # then it ends as before
    try:
        try:
            _watch(seconds, GRACE)
            yield
        finally:
            has_ended = True
    except BaseException as error:  # asyncio wraps what ends a task of several
        if not is_late:
            raise
        message = f"no answer within {seconds:g} s"
        raise TimeoutError(message).with_traceback(error.__traceback__) from None
    finally:
        _watch(0, 0)
        faulthandler.unregister(signal.SIGUSR2)
        if is_main_thread:
            signal.setitimer(signal.ITIMER_REAL, 0)  # an alarm that the function forgot
            for number, handler in handlers.items():
                signal.signal(number, handler or signal.SIG_DFL)


class Batch(NamedTuple):
    """`columns`: the arguments that trl passed to the rewards. `rewards`: under each reward's name,
    a value for each completion."""

    columns: dict
    rewards: dict[str, list[float | None]]


class Scores:
    """Collects the values of a run's rewards, which trl calls in the recipe's order for each batch.

    For each batch trl's completion files get the columns `gold`, `tokens` and `truncated`.

    Attributes:
        watchers: called with every batch once all rewards have scored it.
        timed: makes a context around each reward's call.

    Args:
        ends: the ids of the tokens that end a completion.
    """

    def __init__(self, rewards: list[GuardedReward], ends: set[int]):
        self.rewards = rewards
        self.ends = ends
        self.values: dict[str, list[float | None]] = {}
        self.watchers: list[Callable[[Batch], None]] = []
        self.timed: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext
        for reward in rewards:
            reward.scores = self

    def add(self, reward: GuardedReward, columns: dict, values: list[float | None]):
        """Add one reward's values for a batch; the last reward's complete it."""
        self.values[reward.name] = values
        if len(self.values) < len(self.rewards):
            return
        batch = Batch(columns, self.values)
        self.values = {}
        log_column = columns["log_extra"]
        log_column("gold", [str(gold) for gold in columns["solution"]])
        log_column("tokens", [len(ids) for ids in columns["completion_ids"]])
        log_column("truncated", self._truncated(columns))
        for watch in self.watchers:
            watch(batch)

    def _truncated(self, columns: dict) -> list[bool]:
        """Whether each completion stopped before its answer ended. A completion whose last tool
        call had no room for a result ends with a turn, but not with its answer."""
        truncated = []
        for ids, messages in zip(columns["completion_ids"], columns["completions"], strict=True):
            is_calling = not isinstance(messages, str) and bool(messages[-1].get("tool_calls"))
            has_ended = len(ids) > 0 and int(ids[-1]) in self.ends
            truncated.append(is_calling or not has_ended)
        return truncated


def without_signal(rewards: torch.Tensor, weights: torch.Tensor, group_size: int) -> float:
    """The share of groups whose weighted rewards are all equal.

    A group whose completions all earn the same has zero advantages and teaches nothing. trl's
    `frac_reward_zero_std` takes the standard deviation in float32, where eight equal rewards of 1.2
    have one of 1e-7, and misses such groups.

    Args:
        rewards: (completions, rewards) of complete groups; NaN where a reward gave None. A
            completion that no reward scored is left out of its group.
        weights: (rewards,)
    """
    totals = (rewards.cpu().double() * weights.cpu().double()).nansum(1)
    totals = totals.masked_fill(rewards.cpu().isnan().all(1), math.nan)
    groups = totals.view(-1, group_size).tolist()
    equal = 0
    for group in groups:
        distinct = {round(total, 6) for total in group if not math.isnan(total)}
        if len(distinct) <= 1:
            equal += 1
    return equal / len(groups)
