"""A user's mistake, told in a line each and without a stack trace."""

import difflib


class RecipeError(Exception):
    """All faults of one recipe, a line each."""

    def __init__(self, faults: list[str]):
        super().__init__("\n".join(faults))


class NotReached(RecipeError):
    """The Hub cannot be asked from here: what is missing may be there tomorrow, or on another machine."""


def nearest(name: object, names) -> str:
    """`; did you mean …?` with the nearest of `names`, or nothing where none is near."""
    close = difflib.get_close_matches(str(name), list(names), n=1)
    return f"; did you mean {close[0]}?" if close else ""
