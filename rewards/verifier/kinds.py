"""The kinds of answer there are."""

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Quantity:
    value: Fraction
    unit: str = ""
    percent: bool = False
    written: str = ""  # the number as it was written, without its unit


@dataclass(frozen=True)
class Expr:
    text: str
    unit: str = ""


@dataclass(frozen=True)
class Words:
    text: str


@dataclass(frozen=True)
class Clock:
    minutes: int  # after midnight if `half` is known, else as written
    half: str | None  # "a", "p" or None


@dataclass(frozen=True)
class InBase:
    digits: str
    base: int


@dataclass(frozen=True)
class Items:
    kind: str  # its brackets: "()" "[]" "(]" "[)" "{}", "," without any, "U" a union, ":" a ratio, "matrix", "row"
    items: tuple


@dataclass(frozen=True)
class Relation:
    signs: tuple[str, ...]
    sides: tuple[str, ...]


INFINITY = Expr(r"\infty")
MINUS_INFINITY = Expr(r"-\infty")
