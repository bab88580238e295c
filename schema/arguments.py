"""Whether a recipe gives a function the arguments that it takes."""

import inspect
import types
from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal, Union, get_args, get_origin, get_type_hints

from schema.faults import nearest
from schema.rules import describe, matches


def unknown_arguments(name: str, function: Callable, given: Iterable[str], also: Iterable[str] = ()) -> list[str]:
    """Of the arguments that the function does not name: a reward swallows every column of the data with `**columns`, so
    there a misspelt one would never be missed.

    Args:
        also: keys that stand beside the arguments in a recipe, and may be what was meant.
    """
    parameters = inspect.signature(function).parameters
    known = [*parameters, *also]
    return [f"{name}: unknown argument {key!r}{nearest(key, known)}" for key in given if key not in parameters]


def wrong_types(name: str, function: Callable, given: dict) -> list[str]:
    """Of the arguments whose type the function declares."""
    target = function.func if isinstance(function, partial) else function
    try:
        hints = get_type_hints(target)
    except Exception:  # a user's file may annotate with anything
        return []
    return [
        f"{name}: {key}: expected {describe(hints[key])}, got {value!r}"
        for key, value in given.items()
        if key in hints and _plain(hints[key]) and not matches(value, hints[key])
    ]


def _plain(hint: object) -> bool:
    """Whether YAML has values of that type."""
    if get_origin(hint) in (Union, types.UnionType):
        return all(map(_plain, get_args(hint)))
    return (get_origin(hint) or hint) in (bool, int, float, str, list, dict, type(None), Literal)


def missing_arguments(name: str, function: Callable, given: Iterable[str]) -> list[str]:
    """Of the arguments that the function cannot do without."""
    needed = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.default is parameter.empty
    ]
    return [f"{name}: needs the argument {each!r}" for each in needed if each not in given]
