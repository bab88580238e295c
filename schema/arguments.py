"""Whether the arguments that a recipe gives are those of the function that it names."""

import inspect
import types
from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal, Union, get_args, get_origin, get_type_hints

from schema.faults import nearest
from schema.rules import Number, describe, matches

# Keys of a reward that are not its arguments. A weight below 0 is a penalty; a timeout is of one batch, in seconds.
OURS = {"weight": Number(-1e6, 1e6), "timeout": Number(0, 1e5, above=True)}


def unknown_arguments(name: str, function: Callable, given: Iterable[str]) -> list[str]:
    parameters = inspect.signature(function).parameters
    # A reward swallows every column of the data with **columns; an argument it does not name is a misspelling.
    known = [*parameters, *OURS]
    return [f"{name}: unknown argument {key!r}{nearest(key, known)}" for key in given if key not in parameters]


def wrong_types(name: str, function: Callable, given: dict) -> list[str]:
    """Of the arguments whose type the function says."""
    target = function.func if isinstance(function, partial) else function
    try:
        hints = get_type_hints(target)
    except Exception:  # a file of the reader's may annotate with anything
        return []
    return [
        f"{name}: {key}: expected {describe(hints[key])}, got {value!r}"
        for key, value in given.items()
        if key in hints and _plain(hints[key]) and not matches(value, hints[key])
    ]


def _plain(hint: object) -> bool:
    """Whether YAML has values of that type itself."""
    if get_origin(hint) in (Union, types.UnionType):
        return all(map(_plain, get_args(hint)))
    return (get_origin(hint) or hint) in (bool, int, float, str, list, dict, type(None), Literal)


def missing_arguments(name: str, function: Callable, given: Iterable[str]) -> list[str]:
    needed = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.default is parameter.empty
    ]
    return [f"{name}: needs the argument {each!r}" for each in needed if each not in given]
