"""The kinds of rule for a value: a number in its range, one of some names, a text of a form, or a list or a mapping of
these. Each says in words what is wrong with a value, or None."""

import enum
import math
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from schema.faults import nearest, nearest_or_all

# What a name that is used elsewhere means here, where the nearest name would mean something else.
KNOWN_AS = {
    "gspo": "GSPO is importance_sampling_level: sequence, with loss_type: grpo",
    "adamw": "did you mean adamw_torch?",
    "True": "did you mean group?",
    "False": "did you mean none?",
}
MANY = 10**9  # steps, tokens or problems: no machine goes beyond that


@dataclass(frozen=True)
class Number:
    """A finite number from `low` to `high`. `above`: `low` itself is excluded; `below`: `high` is. `also`: other values
    that are allowed."""

    low: float
    high: float
    above: bool = False
    below: bool = False
    whole: bool = False
    also: tuple = ()

    def refusal(self, value: Any) -> str | None:
        if value in self.also and not isinstance(value, bool):
            return None
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        fits = fits and (isinstance(value, int) or math.isfinite(value))
        fits = fits and (not self.whole or isinstance(value, int))
        fits = fits and (self.low < value if self.above else self.low <= value)
        fits = fits and (value < self.high if self.below else value <= self.high)
        return None if fits else f"expected {self}, got {value!r:.80}"

    def __str__(self) -> str:
        words = "a whole number" if self.whole else "a number"
        low, high = f"{self.low:,.10g}", f"{self.high:,.10g}"
        lower = f"above {low} and" if self.above else f"from {low} to"
        upper = f"below {high}" if self.below else f"at most {high}" if self.above else high
        bounds = f"from {low} up" if self.high == MANY else f"{lower} {upper}"
        return f"{words} {bounds}" + "".join(f", or {each}" for each in self.also)


@dataclass(frozen=True)
class OneOf:
    """One of these names; the nearest is suggested."""

    names: tuple

    def refusal(self, value: Any) -> str | None:
        if any(type(value) is type(each) and value == each for each in self.names):  # 1 is not true
            return None
        meant = KNOWN_AS.get(str(value))
        hint = f"; {meant}" if meant else nearest(value, self.names)
        return f"{value!r:.80} is not one of {', '.join(map(str, self.names))}{hint}"


@dataclass(frozen=True)
class Pattern:
    """A text that matches the pattern, which `words` describe."""

    pattern: str
    words: str

    def refusal(self, value: Any) -> str | None:
        fits = isinstance(value, str) and re.fullmatch(self.pattern, value)
        return None if fits else f"expected {self.words}, got {value!r:.80}"


@dataclass(frozen=True)
class Each:
    """A list of values of one kind that is not empty; where `single`, also one such value by itself."""

    kind: Any
    single: bool = False

    def refusal(self, value: Any) -> str | None:
        values = [value] if self.single and not isinstance(value, list) else value
        if not isinstance(values, list) or not values:
            alone = not isinstance(value, list) and not self.kind.refusal(value)
            hint = f"; write [{value!s:.80}]" if alone else ""
            return f"expected a list that is not empty, got {value!r:.80}{hint}"
        return next(filter(None, map(self.kind.refusal, values)), None)


@dataclass(frozen=True)
class Keys:
    """A mapping of known keys, each to a value of its kind."""

    known: Mapping[str, Any]

    def refusal(self, value: Any) -> str | None:
        if not isinstance(value, dict):
            return f"expected a mapping, got {value!r:.80}"
        for key, each in value.items():
            if key not in self.known:
                return f"unknown key {key!r}{nearest_or_all(key, self.known)}"
            if wrong := self.known[key].refusal(each):
                return f"{key}: {wrong}"
        return None


@dataclass(frozen=True)
class Either:
    """A value of any of the kinds; the first of them is named where it is none."""

    kinds: tuple

    def refusal(self, value: Any) -> str | None:
        refusals = [kind.refusal(value) for kind in self.kinds]
        return None if None in refusals else refusals[0]


@dataclass(frozen=True)
class Span:
    """A list of the lowest and the highest value, both of one kind."""

    kind: Number

    def refusal(self, value: Any) -> str | None:
        if not isinstance(value, list) or len(value) != 2:
            return f"expected a list of the lowest and the highest, each {self.kind}, got {value!r:.80}"
        if wrong := next(filter(None, map(self.kind.refusal, value)), None):
            return wrong
        return None if value[0] <= value[1] else f"expected the lowest first, got {value!r}"


class Switch:
    """True or false."""

    def refusal(self, value: Any) -> str | None:
        if isinstance(value, bool):
            return None
        old = str(value).lower() in ("yes", "no", "on", "off")
        return f"expected true or false, got {value!r:.80}" + ("; YAML 1.2 reads that as text" if old else "")


@dataclass(frozen=True)
class PerModule:
    """A mapping of modules' names to values of one kind."""

    kind: Any

    def refusal(self, value: Any) -> str | None:
        if not isinstance(value, dict) or not value:
            return f"expected a mapping from modules' names to values, got {value!r:.80}"
        return MODULES.refusal(list(value)) or next(filter(None, map(self.kind.refusal, value.values())), None)


def count(low: int = 1, high: int = MANY, *also) -> Number:
    """A whole number in that range, or one of `also`."""
    return Number(low, high, whole=True, also=also)


SWITCH = Switch()
# Plain names only: peft reads most of these as regular expressions, and a malicious one never ends.
MODULE = Pattern(r"\w[\w.]{0,200}", "the name of a module such as q_proj")
MODULES = Each(MODULE)


def matches(value: Any, hint: Any) -> bool:
    """Whether a YAML value is of the type, with an int for a float and a string for an enum's value allowed."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(matches(value, option) for option in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    kind = origin or hint
    if kind is Any or not isinstance(kind, type):
        return True
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is list and get_args(hint):
        return isinstance(value, list) and all(matches(item, get_args(hint)[0]) for item in value)
    if issubclass(kind, enum.Enum):
        return value in [member.value for member in kind]
    if kind in (bool, str, dict, list, type(None)):
        return isinstance(value, kind)
    # A class of the library's own, which the library builds from a name or a mapping.
    return isinstance(value, str | dict | list)


def describe(hint: Any) -> str:
    """The type in words, for a message."""
    if get_origin(hint) in (Union, types.UnionType):
        options = [option for option in get_args(hint) if option is not type(None)]
        return " or ".join(dict.fromkeys(describe(option) for option in options))
    if get_origin(hint) is Literal:
        return " or ".join(repr(option) for option in get_args(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return "one of " + ", ".join(str(member.value) for member in hint)
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "a list"}
    kind = get_origin(hint) or hint
    return words.get(kind, "a mapping" if kind is dict else getattr(kind, "__name__", str(kind)))
