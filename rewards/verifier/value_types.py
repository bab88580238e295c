"""The types that an answer may have."""

from dataclasses import dataclass
from fractions import Fraction


class Value:
    """The type that an answer may have; `compare` has a rule for each pair of types that may be
    equal."""


@dataclass(frozen=True)
class Quantity(Value):
    r"""A number with its unit or percent sign, if it has one: `18`, `\frac{1}{2}`, `5 cm`, `20%`,
    "twelve apples"."""

    value: Fraction
    unit: str = ""
    percent: bool = False
    written: str = ""  # the number as it was written, without its unit


@dataclass(frozen=True)
class Expr(Value):
    r"""What only the algebra can read, with its unit taken off: `x^2 + 1`, `2\sqrt{3}`, `40 +
    2`."""

    text: str
    unit: str = ""


@dataclass(frozen=True)
class Words(Value):
    """An answer in words, without capitals: "ellipse", "yes"."""

    text: str


@dataclass(frozen=True)
class InBase(Value):
    """A number with its base: `1011_2`."""

    digits: str
    base: int


@dataclass(frozen=True)
class Ratio(Value):
    """Numbers with colons between them, as they were written: `2:3`. `3:30` may also be a time."""

    terms: tuple[str, ...]


@dataclass(frozen=True)
class Interval(Value):
    """Two values in round or square brackets: `[0, 5)`. In round ones, `(1, 2)`, they may be a
    point as well."""

    lower: Value
    upper: Value
    left_open: bool
    right_open: bool

    @property
    def items(self) -> tuple:
        return self.lower, self.upper


@dataclass(frozen=True)
class Tuple(Value):
    """Three or more values in their order: `(1, 2, 3)`."""

    items: tuple


@dataclass(frozen=True)
class Set(Value):
    r"""Values in braces, in any order: `\{1, 2\}`."""

    items: tuple


@dataclass(frozen=True)
class List(Value):
    r"""Values without brackets, in any order unless they are named: `1, 2`, `x = 1 or x = 2`, `\pm
    3`."""

    items: tuple


@dataclass(frozen=True)
class Union(Value):
    r"""Intervals or sets together: `(0, 1) \cup (2, 3)`."""

    items: tuple


@dataclass(frozen=True)
class Matrix(Value):
    """Rows of values."""

    rows: tuple[tuple, ...]


@dataclass(frozen=True)
class Relation(Value):
    r"""Sides with `=`, `<`, `\approx` … between them, where they are no interval: `y = 2x + 1`, `a
    < b`."""

    signs: tuple[str, ...]
    sides: tuple[str, ...]


TYPES = Value.__subclasses__()
INFINITY = Expr(r"\infty")
MINUS_INFINITY = Expr(r"-\infty")
READ_AS = {
    Quantity: "a number",
    Expr: "an expression",
    Words: "words",
    InBase: "a number in a base",
    Ratio: "a ratio",
    Interval: "an interval or a point",
    Tuple: "a point",
    Set: "a set",
    List: "a list",
    Union: "a union",
    Matrix: "a matrix",
    Relation: "an equation or an inequality",
}
