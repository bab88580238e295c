"""The one way from a completion to its rewards. trl calls a `GuardedReward` for each reward of the
recipe; it replaces unusable values by None, and passes the values to the run's `Scores`, which
record them and keep the last batch."""

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
import time
import types
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import NamedTuple

import torch

from console.faults import EXIT_CODES, RunStopped, is_exhausted
from console.terminal import clean
from data.imports import raised, short_repr
from data.problems import AS_MESSAGES, likely_column
from schema.names import NAMED, bind_reward, is_reward_model, unbound
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
    takes more than `seconds` or returns no list of the correct length. The first case of each kind
    is reported with its row.

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
            raise RunStopped(
                f"rewards.{self.name}: {self.rows_faulty} of {self.rows_scored} rows have no usable"
                f" reward ({'; '.join(self.mistakes)}); {self._remedy()}"
            )
        return values

    def _remedy(self) -> str:
        """What to do about a faulty reward, in a run or outside one."""
        if self.scores:
            return "correct the function, and the same command resumes the run"
        return "correct the function"

    def _call(self, completions: list, columns: dict) -> list | tuple | None:
        """What the function returns for a batch; None, and a report, where that is of no use."""
        rows = len(completions)

        def call(**arguments):
            returned = self.function(**arguments)
            return _run(returned) if inspect.iscoroutine(returned) else returned

        late = f"rewards.{self.name}: no answer within {self.seconds:g} s; {self._remedy()}"
        call = _under_name(call, late)
        try:
            # A function may go elsewhere or turn gradients off: what follows it does not.
            gradients = torch.set_grad_enabled(torch.is_grad_enabled())
            with _limited(self.seconds), contextlib.chdir("."), gradients:
                # A function may change its copies; the next reward gets what was written.
                copied = _copied(columns)
                returned = call(completions=copy.deepcopy(completions), **copied)
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
        if not is_reward_model(name):
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


@contextlib.contextmanager
def _limited(seconds: float):
    """Raise TimeoutError in the block after so many seconds, and end the process with exit code 1
    and a trace of its threads after `GRACE` more: a function may hold the interpreter lock, or
    catch what is raised. The alarm clock is the function's, as math_verify's, which turns it off.

    A pause of the process (SIGSTOP, Ctrl-Z, `scontrol suspend`) does not count, but one longer than
    `seconds + GRACE` ends the process once it continues.
    """
    is_late = has_ended = False
    began = time.thread_time()

    def raise_late(number: int, frame):
        nonlocal is_late
        # The kernel's clock counts the processor time of all threads.
        is_early = number == signal.SIGPROF and time.thread_time() - began < seconds
        if not is_early and not has_ended:
            is_late = True
            raise _Late

    is_main_thread = threading.current_thread() is threading.main_thread()  # only it gets signals
    ended = threading.Event()
    watch = threading.Thread(target=_watch, args=(seconds, is_main_thread, ended), daemon=True)
    watch.start()
    if is_main_thread:
        # A client library may take these.
        numbers = (signal.SIGURG, signal.SIGPROF, signal.SIGALRM, *EXIT_CODES)
        handlers = {number: signal.getsignal(number) for number in numbers}
        signal.signal(signal.SIGURG, raise_late)
        signal.signal(signal.SIGPROF, raise_late)
    try:
        try:
            if is_main_thread:
                # For one that holds the interpreter lock, as a regular expression does.
                signal.setitimer(signal.ITIMER_PROF, seconds, _tick(seconds))
            yield
        finally:
            has_ended = True
    except BaseException as error:  # asyncio wraps what ends a task of several
        if not is_late:
            raise
        message = f"no answer within {seconds:g} s"
        raise TimeoutError(message).with_traceback(error.__traceback__) from None
    finally:
        ended.set()
        watch.join()
        faulthandler.cancel_dump_traceback_later()
        if is_main_thread:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in handlers.items():
                signal.signal(number, handler or signal.SIG_DFL)


def _tick(seconds: float) -> float:
    return min(1.0, seconds / 10)


def _watch(seconds: float, is_main_thread: bool, ended: threading.Event):
    """Interrupt a function that has not ended after so many seconds, again and again: it may wait
    for its own threads. The seconds are counted by ticks, so that a pause is one."""
    tick = _tick(seconds)
    for _ in range(math.ceil(seconds / tick)):
        # From the last tick on, for a function that holds the interpreter lock for ever.
        faulthandler.dump_traceback_later(seconds + GRACE, exit=True, file=sys.__stderr__)
        if ended.wait(tick):
            return
    faulthandler.dump_traceback_later(GRACE, exit=True, file=sys.__stderr__)
    while is_main_thread and not ended.wait(tick):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGURG)


def _under_name(function: Callable, name: str) -> Callable:
    """The function with a name for traces. faulthandler prints no other text of ours."""
    code = function.__code__.replace(co_name=name)
    return types.FunctionType(code, function.__globals__, closure=function.__closure__)


class Batch(NamedTuple):
    """`columns`: the arguments that trl passed to the rewards. `rewards`: under each reward's name,
    a value for each completion."""

    columns: dict
    rewards: dict[str, list[float | None]]


class Scores:
    """Collects the values of a run's rewards, which trl calls in the recipe's order for each batch.

    For each batch trl's completion files get the columns `gold`, `tokens` and `truncated`.

    Attributes:
        batch: the last one that all rewards have scored.

    Args:
        ends: the ids of the tokens that end a completion.
    """

    def __init__(self, rewards: list[GuardedReward], ends: set[int]):
        self.rewards = rewards
        self.ends = ends
        self.values: dict[str, list[float | None]] = {}
        self.batch = Batch({}, {})
        for reward in rewards:
            reward.scores = self

    def add(self, reward: GuardedReward, columns: dict, values: list[float | None]):
        """Add one reward's values for a batch; the last reward's complete it."""
        self.values[reward.name] = values
        if len(self.values) < len(self.rewards):
            return
        self.batch = Batch(columns, self.values)
        self.values = {}
        log_column = columns["log_extra"]
        log_column("gold", [str(gold) for gold in columns["solution"]])
        log_column("tokens", [len(ids) for ids in columns["completion_ids"]])
        log_column("truncated", self._truncated(columns))

    def _truncated(self, columns: dict) -> list[bool]:
        """Whether each completion stopped before its answer ended. A completion whose last tool
        call had no room for a result ends with a turn, but not with its answer."""
        truncated = []
        for ids, messages in zip(columns["completion_ids"], columns["completions"], strict=True):
            is_calling = not isinstance(messages, str) and bool(messages[-1].get("tool_calls"))
            has_ended = len(ids) > 0 and int(ids[-1]) in self.ends
            truncated.append(is_calling or not has_ended)
        return truncated


def zero_variance(rewards: torch.Tensor, weights: torch.Tensor, group_size: int) -> list[bool]:
    """Whether the weighted rewards of each group are all equal.

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
    are_equal = []
    for group in groups:
        distinct = {round(total, 6) for total in group if not math.isnan(total)}
        are_equal.append(len(distinct) <= 1)
    return are_equal
