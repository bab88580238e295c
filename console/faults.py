"""A user's mistakes as values: each is a `Fault`, printed on a line of its own and without a stack
trace."""

import contextlib
import difflib
import errno
import os
import re
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

# What libraries raise when they refuse the values they are given.
REFUSALS = (ValueError, TypeError, LookupError, ArithmeticError, NotImplementedError, ImportError)

# Exit codes of a stage that a signal ended. 75 is EX_TEMPFAIL of sysexits.h: try again later. A
# SIGHUP means that the terminal is gone.
EXIT_CODES = {signal.SIGTERM: 75, signal.SIGHUP: 75, signal.SIGINT: 130}
OUT_OF_MEMORY = 4  # exit code
TOO_FEW_CORRECT = 5  # exit code
TEMPLATE = "the chat template"
NO_MEMORY = "out of memory; `make memory` says what the recipe needs"


class Place(NamedTuple):
    """Where a key stands: a recipe's file and line, counted from 1, or an override, which has no
    line."""

    source: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


def place_of(keys: tuple, places: Mapping[tuple, Place], otherwise: Place) -> Place:
    """Where a key stands, or else the nearest section above it that has a place."""
    while keys and keys not in places:
        keys = keys[:-1]
    return places.get(keys, otherwise)


def dotted(keys: tuple) -> str:
    """The name of a key: `grpo.max_steps`. Items of lists have no part in it."""
    return ".".join(key for key in keys if isinstance(key, str))


def item(value: object) -> tuple[str]:
    """The key of a list's item in a place. It does not depend on the items beside it."""
    return (repr(value),)


class Fault(NamedTuple):
    """A mistake in what a user wrote.

    Attributes:
        place: where it stands, or a name such as `model a/b`; empty where the message says it.
        level: error (it will not run as written), warning (it will run and disappoint), or hint.
        unseen: what could not be checked.
    """

    place: Place | str
    message: str
    level: str = "error"
    unseen: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message

    def with_level(self) -> str:
        """Its line in `make check`."""
        return f"{self.level}: {self}"

    def as_hint(self, ending: str) -> "Fault":
        """The same as a hint, with more at its end."""
        return self._replace(message=f"{self.message}{ending}", level="hint")


# Faults of a recipe: the keys, from the section on, and the message that is to follow their names.
Complaints = Iterator[tuple[tuple, str]]


class RecipeError(Exception):
    """A user's mistakes. Printed, it is a line for each of its `faults`; a plain text is a fault
    without a place."""

    exit_code = 2

    def __init__(self, faults: Iterable[Fault | str]):
        self.faults = [fault if isinstance(fault, Fault) else Fault("", fault) for fault in faults]
        super().__init__("\n".join(map(str, self.faults)))


class TooFewCorrect(RecipeError):
    """The completions that a warm start would learn from hold too few correct ones."""

    exit_code = TOO_FEW_CORRECT


class NotReached(RecipeError):
    """The Hub cannot be reached: what is missing may be there tomorrow, or on another machine."""


class RunStopped(Exception):
    """A run ended before its end, with its last good checkpoint on disk; the message says why and
    what to do."""

    def __init__(self, message: str, exit_code: int = 3):
        super().__init__(message)
        self.exit_code = exit_code


def closest(name: object, names) -> list[str]:
    """The nearest of `names` in a list, which is empty where none is near. Capital letters make no
    difference."""
    by_small_letters = {str(name).casefold(): str(name) for name in reversed(list(names))}
    near = difflib.get_close_matches(str(name).casefold(), by_small_letters, n=1)
    return [by_small_letters[small] for small in near]


def nearest(name: object, names) -> str:
    """`; did you mean …?` with the nearest of `names`, or nothing where none is near."""
    near = closest(name, names)
    if not near:
        return ""
    return f"; did you mean {near[0]}?"


def nearest_or_all(name: object, names) -> str:
    """Like `nearest`, but where none is near it lists all names: `; there are: …`."""
    return nearest(name, names) or f"; there are: {', '.join(map(str, names))}"


def raised_by(error: BaseException) -> str | None:
    """The installed package whose code raised the error, or `TEMPLATE`; None where our own code
    did."""
    frames = traceback.extract_tb(error.__traceback__)
    if any(frame.filename == "<template>" for frame in frames):  # jinja2 calls it so
        return TEMPLATE
    if not frames:
        return None
    path = frames[-1].filename.partition("/site-packages/")[2]
    return path.split("/")[0] or None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether there was too little memory. On a CPU torch says so in words alone, and so does the
    system."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return re.search("(can't|Cannot) allocate memory", str(error)) is not None


def is_exhausted(error: BaseException) -> bool:
    """Whether this machine has no process, thread, open file or memory left for something new."""
    if isinstance(error, OSError):
        return error.errno in (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
    return isinstance(error, RuntimeError) and str(error) == "can't start new thread"


def ended_by_signal(process: str, number: int) -> str:
    """What is said of a process that a signal ended before it could say anything."""
    cause = ""
    if number == signal.SIGKILL:
        cause = ", as the system does when memory runs out"
    name = signal.Signals(number).name
    return f"{process} was ended by {name}{cause}; the same command resumes"


@contextlib.contextmanager
def said_by_library(place: Place | str) -> Iterator[None]:
    """Turn a library's complaint about the values that the block passes to it into a fault. An
    error in our own code keeps its stack trace.

    Raises:
        RecipeError: with the library's message.
    """
    try:
        yield
    except REFUSALS as error:
        package = raised_by(error)
        if package is None:
            raise
        message = f"{package} says: {' '.join(str(error).split())}"
        raise RecipeError([Fault(place, message)]) from error


def on_signals(handler: Callable, numbers: Iterable[int] = tuple(EXIT_CODES)):
    """Give signals to a handler. Without one, the kernel keeps them from process 1 of a container.
    A SIGHUP that is ignored, as under nohup, stays so."""
    for number in numbers:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def end(number: int, frame: object):
    """Ends the process at once, as a signal does by default."""
    os._exit(EXIT_CODES[number])
