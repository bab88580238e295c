"""Whether two typed values say the same: a table of which pairs of types are compared by which rule.

A rule compares by number, text and structure, and asks the algebra about what is left. Values of two types that share
no rule are different.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Protocol

from rewards.verifier.kinds import (
    TYPES,
    Clock,
    Expr,
    InBase,
    Interval,
    List,
    Matrix,
    Measure,
    Quantity,
    Ratio,
    Relation,
    Set,
    Tuple,
    Union,
    Value,
    Words,
)
from rewards.verifier.notation import SCALES, key, number, plain
from rewards.verifier.units import AMOUNTS
from rewards.verifier.value import is_left_side, is_name, is_variable, value

_MAX_ITEMS = 40
_BASE_ASKED = re.compile(
    r"\bbases?[\s$~\\-]*(?:\d|(?:two|three|four|five|six|seven|eight|nine|ten|twelve|sixteen|[a-z])\b)|\d_|binary"
)
_UNREAD = re.compile(r"""['"$`]|\.\.\.""")  # what the algebra's parser passes over
PERCENT_ASKED = re.compile(
    r"(?:what|which|how many|find)(?: is| was| are)?(?: the| an?)?(?: [a-z]+)? ?percent|\b(?:as an?|in|a) percent"
)


class Unreadable(Exception):
    """The text is no mathematics that the algebra's parser knows."""


class Algebra(Protocol):
    """What decides about expressions: rewards.verifier.algebra, or a stand-in where it may not run."""

    def equal(self, gold: str, answer: str, worked_out: bool = True) -> bool: ...

    def equal_relations(self, gold: tuple[str, str, str], answer: tuple[str, str, str]) -> bool: ...

    def close(self, exact: str, rounded: Fraction, places: int) -> bool: ...


@dataclass(frozen=True)
class Context:
    """What a rule may look at beside the two values."""

    question: str | None  # in lower case
    algebra: Algebra


class Rule(NamedTuple):
    """`holds(gold, answer, context)` decides for these `pairs` of types, and a verdict's reason ends in `name`."""

    name: str
    pairs: list[tuple[type, type]]
    holds: Callable[[Value, Value, Context], bool]


def compare(gold: Value, answer: Value, question: str | None, algebra: Algebra) -> tuple[bool, str]:
    """Whether the typed `answer` says the same as the typed `gold`, and the reason. Raises `Unreadable` for a gold."""
    rule = _RULE.get((type(gold), type(answer)))
    if rule is None:
        return False, "not equal to the gold, another kind of value"
    right = gold == answer or rule.holds(gold, answer, Context(question.lower() if question else None, algebra))
    return right, f"equal, {rule.name}" if right else f"not equal to the gold, {rule.name}"


def _same(g: Value, a: Value, context: Context) -> bool:
    """`compare` for the parts of two values."""
    return g == a or ((rule := _RULE.get((type(g), type(a)))) is not None and rule.holds(g, a, context))


def _quantities(g: Quantity, a: Quantity, context: Context) -> bool:
    question = context.question or ""
    if g.unit and a.unit and g.unit != a.unit and (g.unit, a.unit) != ("£", "lb"):  # "5 pounds"
        return False
    if _is_amount(g, a, question):
        return g.value == a.value * AMOUNTS[a.unit] and not g.unit and not g.percent
    scale = next((s for s in SCALES if a.written.endswith(s)), None)
    if scale and f"how many {scale}" in question and g.value == a.value / SCALES[scale]:
        return g.percent == a.percent
    if g.percent != a.percent and (g.unit or a.unit):
        return False
    if g.percent == a.percent:
        return g.value == a.value
    percent, share = (g, a) if g.percent else (a, g)
    if a.percent and PERCENT_ASKED.search(question.replace("\\%", "percent").replace("%", "percent")):
        return g.value == a.value
    if share.value.denominator > 1 and percent.value == share.value * 100:
        return True
    if g.percent or context.question is None:
        # Without the question: a gold up to 1 may be a share, of which so many percent are another number.
        return g.value == a.value and (g.percent or g.value > 1)
    return False


def _is_amount(g: Quantity | Expr, a: Quantity | Expr, question: str) -> bool:
    """Whether the "quarters" of an answer are parts, where neither gold nor question has them as things."""
    return a.unit in AMOUNTS and a.unit != g.unit and f"how many {a.unit}s" not in question


def _expressions(g: Expr, a: Expr | Quantity, context: Context) -> bool:
    if g.unit and a.unit and g.unit != a.unit:
        return False
    radians = a.unit.startswith("deg") and not g.unit and r"\pi" in g.text
    if radians or _is_amount(g, a, context.question or ""):
        return False
    if isinstance(a, Expr):
        return _texts(g.text, a.text, context)
    return not a.percent and _texts(g.text, rf"\frac{{{a.value.numerator}}}{{{a.value.denominator}}}", context)


def _texts(g: str, a: str, context: Context, worked_out: bool = True) -> bool:
    """Whether two expressions are equal, by their spelling or else by algebra."""
    if key(g) == key(a):
        return True
    if _UNREAD.search(g) or _UNREAD.search(a):
        return False
    if (len(g) == 1 and len(a) == 1) or _variables(g) != _variables(a) or {g, a} & {r"\infty", r"-\infty"}:
        return False
    return context.algebra.equal(plain(g), plain(a), worked_out)


def _times(g: Clock | Ratio | Quantity, a: Clock | Ratio | Quantity, context: Context) -> bool:
    if isinstance(g, Clock) and isinstance(a, Clock):
        same = g.minutes == a.minutes
        return same if g.half or not a.half else same or (g.minutes + 720) % 1440 == a.minutes
    clock, other = (g, a) if isinstance(g, Clock) else (a, g)
    if isinstance(other, Quantity):
        return clock.half is None and other.value * 60 == clock.minutes
    if len(other.terms) != 2 or not all(term.isdigit() for term in other.terms):
        return False
    hour, minute = map(int, other.terms)
    minutes = hour * 60 + minute
    # A gold "3:30" leaves the half of the day open, an answer must not.
    if other is g and clock.minutes == minutes + 720:
        return True
    return clock.minutes == minutes and (hour > 12 or hour == 0 or other is g)


def _based(g: InBase | Quantity | Expr, a: InBase | Quantity | Expr, context: Context) -> bool:
    based, other = (g, a) if isinstance(g, InBase) else (a, g)
    if isinstance(other, InBase) or (isinstance(other, Quantity) and (other.unit or other.percent)):
        return False
    digits = other.written if isinstance(other, Quantity) else other.text
    # The base may be dropped where it was asked for: the gold or the question tells.
    asked = based is g or _base_asked(based.base, context.question or "")
    return bool(asked or based.base == 10) and digits.replace(" ", "").lstrip("0") == based.digits


def _ratios(g: Ratio | Quantity, a: Ratio | Quantity, context: Context) -> bool:
    p, q = _terms(g), _terms(a)
    if p is None or q is None or len(p) != len(q):
        return False
    if all(isinstance(x, Ratio) and len(x.terms) == len(x.terms[1]) == 2 and x.terms[1] < "60" for x in (g, a)):
        return p == q  # they may be times
    return all(x * q[0] == y * p[0] for x, y in zip(p, q, strict=True)) and bool(p[0]) == bool(q[0])


def _terms(x: Ratio | Quantity) -> list[Fraction] | None:
    """The terms of a ratio; those of a fraction are its numerator and denominator."""
    if isinstance(x, Ratio):
        return [number(term) for term in x.terms]
    return None if x.unit or x.percent else [Fraction(x.value.numerator), Fraction(x.value.denominator)]


def _words(g: Words | Expr, a: Words | Expr, context: Context) -> bool:
    # The letters alone do not tell -\infty from \infty, and a - b not from ab.
    if any(isinstance(x, Expr) and re.search(r"[-+*/^_=<>|!']", x.text) for x in (g, a)):
        return False
    texts = [re.sub(r"[^\w]+", " ", re.sub(r"\\text", "", x.text)).casefold().strip() for x in (g, a)]
    bare = [re.sub(r"^(?:(?:it|the \w+) is )?(?:(?:a|an|the|on) )?", "", t) for t in texts]
    return bool(bare[0]) and bare[0] == bare[1]


def _ordered(gs: Sequence[Value], items: Sequence[Value], context: Context) -> bool:
    return len(gs) == len(items) <= _MAX_ITEMS and all(_same(g, a, context) for g, a in zip(gs, items, strict=True))


def _unordered(gs: Sequence[Value], items: Sequence[Value], context: Context) -> bool:
    if not len(gs) == len(items) <= _MAX_ITEMS:
        return False
    left = list(items)
    for g in gs:
        found = next((n for n, a in enumerate(left) if _same(g, a, context)), None)
        if found is None:
            return False
        del left[found]
    return True


def _intervals(g: Interval, a: Interval, context: Context) -> bool:
    return (g.left_open, g.right_open) == (a.left_open, a.right_open) and _ordered(g.items, a.items, context)


def _columns(g: Matrix | Tuple | Interval, a: Matrix | Tuple | Interval, context: Context) -> bool:
    gs, items = _coordinates(g), _coordinates(a)
    return gs is not None and items is not None and _ordered(gs, items, context)


def _coordinates(x: Matrix | Tuple | Interval) -> tuple | None:
    """The values of a point or of a matrix of one column."""
    if isinstance(x, Matrix):
        return tuple(row[0] for row in x.rows) if all(len(row) == 1 for row in x.rows) else None
    return x.items if isinstance(x, Tuple) or (x.left_open and x.right_open) else None


def _matrices(g: Matrix, a: Matrix, context: Context) -> bool:
    if not len(g.rows) == len(a.rows) <= _MAX_ITEMS:
        return False
    return all(_ordered(row, other, context) for row, other in zip(g.rows, a.rows, strict=True))


def _named(g: List | Tuple | Interval, a: List | Tuple | Interval, context: Context) -> bool:
    """`x = 3, y = 5` with the names in alphabetical order is the point of the values."""
    names, point = (g, a) if isinstance(g, List) else (a, g)
    coordinates = _coordinates(point)
    if coordinates is None or not _named_in_order(names):
        return False
    values = [value(i.sides[1]) for i in names.items]
    return _ordered(values, coordinates, context) if names is g else _ordered(coordinates, values, context)


def _named_in_order(items: List) -> bool:
    if not all(isinstance(i, Relation) and i.signs == ("=",) and is_name(i.sides[0]) for i in items.items):
        return False
    names = [i.sides[0] for i in items.items]
    return names == sorted(set(names))


def _lists(g: List | Set, a: List | Set, context: Context) -> bool:
    if isinstance(g, List) and _has_names(g) and not any(isinstance(i, Relation) for i in a.items):
        # `x = 1, y = 2` says which value is whose; without names only their order does.
        return isinstance(a, List) and _ordered(g.items, a.items, context)
    return _unordered(g.items, a.items, context)


def _has_names(items: List) -> bool:
    return (
        all(isinstance(i, Relation) and is_name(i.sides[0]) for i in items.items)
        and len({i.sides[0] for i in items.items}) > 1
    )


def _elements(g: Union, a: Set, context: Context) -> bool:
    if not all(isinstance(i, Set) for i in g.items):
        return False
    return _unordered([element for i in g.items for element in i.items], a.items, context)


def _only_element(g: Value, a: Value, context: Context) -> bool:
    if isinstance(g, Set):
        return len(g.items) == 1 and _same(g.items[0], a, context)
    return len(a.items) == 1 and _same(g, a.items[0], context)


def _relations(g: Relation, a: Relation, context: Context) -> bool:
    if _is_approximate(g):
        return _same(value(g.sides[1]), a, context)
    a = _turned(a)
    g_name, a_name = g.sides[0], a.sides[0]
    if set(g.signs) == {"="} == set(a.signs) and is_name(g_name) and key(g_name) == key(a_name):
        meant = _meant(a, context)
        return meant is not None and _same(value(g.sides[-1]), meant, context)
    if is_name(g_name) and g.signs == ("=",) and not _variables(g.sides[1]):
        return False  # "x = 5" is solved, and "2x = 10" or "x - 5 = 0" is not
    if _UNREAD.search("".join(g.sides + a.sides)):
        return False
    if len(g.signs) == len(a.signs) == 1 and g.signs[0] != r"\approx":
        return context.algebra.equal_relations((g.signs[0], *g.sides), (a.signs[0], *a.sides))
    return False


def _value_of_gold(g: Relation, a: Value, context: Context) -> bool:
    r"""A gold `k = 3` may be answered by its value, a gold `0.56 = 56\%` by either side, an equation by neither."""
    if _is_approximate(g):
        return _same(value(g.sides[1]), a, context)
    sides = [value(side) for side in g.sides]
    named = is_name(g.sides[0])
    return set(g.signs) <= {"=", r"\approx"} and (
        (named and _same(sides[-1], a, context))
        or (all(isinstance(side, Quantity) for side in sides) and any(_same(side, a, context) for side in sides))
    )


def _value_of_answer(g: Value, a: Relation, context: Context) -> bool:
    meant = _meant(a, context, isinstance(g, Quantity) and "." in g.written)
    return meant is not None and _same(g, meant, context)


def _is_approximate(relation: Relation) -> bool:
    r"""Whether a gold is a mere `\approx 2.83`."""
    return relation.signs[0] == r"\approx" and not relation.sides[0]


def _meant(relation: Relation, context: Context, rounded: bool = False) -> Value | None:
    r"""The one value `x = …`, `40+2 = 42` or `2\sqrt2 \approx 2.83` ends in; None if its sides disagree."""
    relation = _turned(relation)
    signs, sides = list(relation.signs), list(relation.sides)
    while len(sides) > 2 and signs[0] == "=" and is_variable(sides[0]) and is_variable(sides[1]):  # y = x = 5
        signs, sides = signs[1:], sides[1:]
    if signs == [r"\approx"] and not sides[0]:
        return value(sides[1]) if rounded else None
    asked = context.question is not None and key(sides[0]).lower() in key(context.question)  # "x^2 + y^2 = 25"
    if (is_left_side(sides[0]) or asked) and signs[0] in ("=", r"\approx"):
        if signs[0] == r"\approx" and not rounded:
            return None
        signs, sides = signs[1:], sides[1:]
    if signs[-1:] == [r"\approx"]:
        if not _rounds(sides[-2], sides[-1], context):
            return None
        signs, sides = ([], sides[-1:]) if rounded else (signs[:-1], sides[:-1])
    if any(s != "=" for s in signs) or not sides:
        return None
    last = sides[-1]
    for side in sides[:-1]:
        if not _agree(last, side, context):
            return None
    return value(last)


def _rounds(exact: str, decimal: str, context: Context) -> bool:
    """Whether `decimal` is `exact` rounded to the digits it shows."""
    rounded = value(decimal)
    if not isinstance(rounded, Quantity) or "." not in rounded.written:
        return False
    places = len(rounded.written.partition(".")[2])
    given = value(exact)
    if isinstance(given, Quantity):
        return abs(given.value - rounded.value) * 10**places <= 1
    try:
        return isinstance(given, Expr) and context.algebra.close(plain(given.text), rounded.value, places)
    except Unreadable:  # the answer's own text, not the gold
        return False


def _agree(last: str, side: str, context: Context) -> bool:
    """Whether a side of an answer's own chain has the value that it ends in, worked out or not."""
    g, a = value(last), value(side)
    texts = [x.written if isinstance(x, Quantity) else getattr(x, "text", "") for x in (g, a)]
    try:
        return _same(g, a, context) or (all(texts) and _texts(*texts, context, worked_out=False))
    except Unreadable:  # the answer's own text, not the gold
        return False


# The base a question wants the answer in.
_INTO_BASE = re.compile(r"\b(?:in|to|into|as)\s+(?:an?\s+)?(?:base[\s$~\\-]*(\w+)|(binary)|(decimal))")


def _base_asked(base: int, question: str) -> bool:
    """Whether the question tells the base, and it is this one."""
    if not _BASE_ASKED.search(question):
        return False
    names = {"binary": 2, "decimal": 10, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
    names |= {"nine": 9, "ten": 10, "twelve": 12, "sixteen": 16}
    into = [next(filter(None, m)) for m in _INTO_BASE.findall(question)]
    wanted = {int(n) if n.isdecimal() else names.get(n) for n in into[-1:]} if into else set()
    return not wanted or None in wanted or base in wanted


def _turned(relation: Relation) -> Relation:
    """`5 = x` as `x = 5`."""
    left, right = relation.sides[0], relation.sides[-1]
    if relation.signs == ("=",) and is_variable(right) and not is_variable(left):
        return Relation(("=",), (right, left))
    return relation


def _variables(text: str) -> set[str]:
    letters = set(re.findall(r"[A-Za-z]", re.sub(r"\\[a-zA-Z]+", " ", plain(text))))
    letters |= set(re.findall(r"\\(?:alpha|beta|gamma|delta|theta|lambda|mu|phi|omega|sigma)(?![a-zA-Z])", plain(text)))
    return letters - {"e", "i", "d"}


def _both_ways(one: type, *others: type) -> list[tuple[type, type]]:
    return [(one, other) for other in others] + [(other, one) for other in others]


_VALUES = [x for x in TYPES if x is not Relation]
RULES = [
    Rule("as numbers", [(Quantity, Quantity)], _quantities),
    Rule("as expressions", [(Expr, Expr), (Expr, Quantity)], _expressions),  # for a number an expression is unworked
    Rule("as words", [(Words, Words), *_both_ways(Words, Expr)], _words),
    Rule("as times of day", [(Clock, Clock), *_both_ways(Clock, Ratio, Quantity)], _times),
    Rule("as numbers in a base", [(InBase, InBase), *_both_ways(InBase, Quantity, Expr)], _based),
    Rule("as ratios", [(Ratio, Ratio), *_both_ways(Ratio, Quantity)], _ratios),
    Rule("as measures", [(Measure, Measure)], lambda g, a, context: _ordered(g.parts, a.parts, context)),
    Rule("as tuples", [(Tuple, Tuple)], lambda g, a, context: _ordered(g.items, a.items, context)),
    Rule("as intervals or points", [(Interval, Interval)], _intervals),
    Rule("as matrices", [(Matrix, Matrix)], _matrices),
    Rule("as columns", _both_ways(Matrix, Tuple, Interval), _columns),
    Rule("as named values", _both_ways(List, Tuple, Interval), _named),
    Rule("as lists or sets", [(List, List), (Set, Set), *_both_ways(List, Set)], _lists),
    Rule("as a set of one", _both_ways(Set, Quantity, Expr, Words, InBase), _only_element),
    Rule("as unions", [(Union, Union)], lambda g, a, context: _unordered(g.items, a.items, context)),
    Rule("as a union's elements", [(Union, Set)], _elements),
    Rule("as relations", [(Relation, Relation)], _relations),
    Rule("as the value of the gold's relation", [(Relation, x) for x in _VALUES], _value_of_gold),
    Rule("as the value of the answer's relation", [(x, Relation) for x in _VALUES], _value_of_answer),
]
_RULE = {pair: rule for rule in RULES for pair in rule.pairs}
