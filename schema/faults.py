"""A user's mistake, told in a line each and without a stack trace."""

import contextlib
import difflib
import traceback
from collections.abc import Iterator
from pathlib import Path


class RecipeError(Exception):
    """All faults of one recipe, a line each."""

    def __init__(self, faults: list[str]):
        super().__init__("\n".join(faults))


class NotReached(RecipeError):
    """The Hub cannot be asked from here: what is missing may be there tomorrow, or on another machine."""


class RunStopped(Exception):
    """A run ended before its end, with its last good checkpoint on disk; the message says why and what to do."""

    def __init__(self, message: str, exit_code: int = 3):
        super().__init__(message)
        self.exit_code = exit_code


def nearest(name: object, names) -> str:
    """`; did you mean …?` with the nearest of `names`, or nothing where none is near."""
    close = difflib.get_close_matches(str(name), [str(each) for each in names], n=1)
    return f"; did you mean {close[0]}?" if close else ""


def raised_by(error: BaseException) -> str | None:
    """The installed package whose own code raised the error, None where it was the project's."""
    frames = traceback.extract_tb(error.__traceback__)
    parts = Path(frames[-1].filename).parts if frames else ()
    return parts[parts.index("site-packages") + 1] if "site-packages" in parts[:-1] else None


@contextlib.contextmanager
def said_by_library(place: str) -> Iterator[None]:
    """What a library says in the block against the values it is given becomes a fault. An error that arises in our own
    code keeps its stack trace.

    Raises:
        RecipeError: with the library's message.
    """
    try:
        yield
    except (ValueError, TypeError, LookupError, ArithmeticError, ImportError, NotImplementedError) as error:
        if (package := raised_by(error)) is None:
            raise
        raise RecipeError([f"{place}: {package} says: {' '.join(str(error).split())}"]) from error
