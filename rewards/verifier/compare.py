r"""Whether two typed values say the same: a table of which pairs of types are compared by which
rule.

A rule compares by number, text and structure, and asks the algebra about what is left. Values of
two types that share no rule are different.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

from rewards.verifier import clocks
from rewards.verifier.arithmetic import far_apart, functions, of_primes
from rewards.verifier.notation import PARTS, SCALES, base_named, key, plain
from rewards.verifier.phrases import BASE, INTO_BASE, ORDER, PERCENT
from rewards.verifier.units import AMOUNTS, another_was_asked, size
from rewards.verifier.value import (
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
    is_left_side,
    is_name,
    is_variable,
    value,
)

_UNREAD = re.compile(r"""['"$`]|\.\.\.""")  # what the algebra's parser passes over
_DIGITS = re.compile(r"[\dA-F]{2,}|[\da-f]{2,}")
_MAX_ITEMS = 40
_ORDER_TOO = re.compile(  # ORDER in other languages
    r"steigend|croissant|ascendente|crescente|возрастан|убыван|从(?:小到大|大到小)|昇順|降順|順に|순서대로"
)
_DAYS = re.compile(
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:septem|octo|novem|decem)ber|january|february|august"
)
_WHICH = re.compile(r"\bwhich\b[^.?]*\b(?:(smaller|less|lesser)|larger|greater|bigger)\b")
_SHARE_ASKED = re.compile(
    r"\b(?:fraction|(?<!took )(?<!take )part|share|portion|probability|much|ratio|chance)\b"
)


# rewards.verifier.algebra, or what stands for it where it may not run
Algebra = ModuleType | SimpleNamespace


class Unreadable(Exception):
    """The text is no mathematics that the algebra's parser knows."""


class Rule(NamedTuple):
    """`holds(gold, answer, context)` decides for these `pairs` of types; `name` ends the reason of
    the verdict."""

    name: str
    pairs: list[tuple[type, type]]
    holds: Callable[..., bool]


@dataclass(frozen=True)
class Context:
    """What a rule may look at beside the two values."""

    question: str | None  # in lower case
    algebra: Algebra

    def same(self, gold: Value, answer: Value) -> bool:
        """Whether a part of the answer says the same as a part of the gold."""
        rule = _RULE.get((type(gold), type(answer)))
        return rule is not None and (gold == answer or rule.holds(gold, answer, self))


# ---- single values


def quantities(g: Quantity, a: Quantity, context: Context) -> bool:
    """Numbers are equal exactly; the question settles percent signs, "quarters" and "how many
    million"."""
    question = context.question or ""
    unnamed = (
        re.sub(r"^\w+", "unit", g.unit),
        re.sub(r"^\w+", "unit", a.unit),
    )  # "square units" are any squares
    same = g.unit == a.unit or (unnamed[0] == unnamed[1] in (g.unit, a.unit) and "^" in unnamed[0])
    if (
        a.unit == "ordinal" != g.unit and not question
    ):  # "3rd" for 3 answers a question, such as "In which place?"
        return False
    same = same or "ordinal" in (g.unit, a.unit)
    place = a.unit in ("ordinal", "place") and g.written.lower() in PARTS
    if question and place and g.value == Fraction(1, a.value or 1):
        return not _SHARE_ASKED.search(question)  # a gold "third"
    unlike = g.unit and a.unit and (g.unit, a.unit) != ("£", "lb")  # "5 pounds"
    if {g.unit, a.unit} == {"$", "¢"} and question and not another_was_asked(a.unit, question):
        return g.value * (100 if g.unit == "$" else 1) == a.value * (100 if a.unit == "$" else 1)
    if unlike and not same and question and not another_was_asked(a.unit, question):
        sizes = size(g.unit), size(a.unit)
        if all(sizes) and sizes[0][0] == sizes[1][0]:  # 750 cm for 7.5 m
            return g.value * sizes[0][1] == a.value * sizes[1][1]
    if residue := re.fullmatch(r"mod (\d+)", a.unit):
        same = same or re.search(rf"(?:by|mod|modulo) \$?{residue[1]}\b", question) is not None
        return same and g.value == a.value
    if not same and (unlike or "mod" in (g.unit[:3], a.unit[:3])):
        return False
    if a.value.numerator == 1 < a.value.denominator == g.value and re.fullmatch(
        "[a-z]+(?:rd|th)", a.written.lower()
    ):
        # "fifth", where the question asks for no share
        return bool(question) and not _SHARE_ASKED.search(question)
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
    if a.percent and PERCENT.is_in(question.replace("\\%", "percent").replace("%", "percent")):
        return g.value == a.value
    if share.value.denominator > 1 and percent.value == share.value * 100:
        return True
    if g.percent or context.question is None:
        # Without the question: a gold up to 1 may be a share, of which so many percent are another
        # number.
        return g.value == a.value and (g.percent or g.value > 1)
    return False


def _is_amount(g: Quantity | Expr, a: Quantity | Expr, question: str) -> bool:
    """Whether the "quarters" of an answer are parts, where neither gold nor question has them as
    things."""
    return a.unit in AMOUNTS and a.unit != g.unit and f"how many {a.unit}s" not in question


def expressions(g: Expr, a: Expr | Quantity, context: Context) -> bool:
    """Expressions, or an expression and the number it may come to."""
    question = context.question or ""
    if g.unit and a.unit and g.unit != a.unit:
        return False
    radians = a.unit.startswith("deg") and not g.unit and r"\pi" in g.text
    if radians or _is_amount(g, a, question):
        return False
    if r"\times" in g.text and re.search(
        r"\b(?:size|dimensions?|shape)\b", question
    ):  # of a matrix, or a rectangle
        if "matri" not in question and isinstance(a, Expr):
            return sorted(key(g.text).split(r"\times")) == sorted(key(a.text).split(r"\times"))
        return key(g.text) == key(a.text if isinstance(a, Expr) else a.written)
    if isinstance(a, Quantity):
        return not a.percent and _same_texts(
            g.text, rf"\frac{{{a.value.numerator}}}{{{a.value.denominator}}}", context
        )
    if BASE.is_in(question) and all(map(_DIGITS.fullmatch, (g.text, a.text))):
        return g.text == a.text.upper()  # FE is not E times F
    colons = g.text.count(":"), a.text.count(":")
    if min(colons) or max(colons) > 1:  # 1:\sqrt{3}:2, in proportion
        p, q = g.text.split(":"), a.text.split(":")
        return len(p) == len(q) and all(
            context.algebra.equal(
                plain(rf"({x})\cdot({q[0]})"), plain(rf"({y})\cdot({p[0]})"), False
            )
            for x, y in zip(p, q, strict=True)
        )
    others = "in terms of" in question and functions(plain(a.text)) - functions(plain(g.text))
    composite = re.search(r"prime factor|factor[^.?]* primes?\b", question) and not of_primes(
        plain(a.text)
    )
    return not others and not composite and _same_texts(g.text, a.text, context)


def _same_texts(g: str, a: str, context: Context, worked_out: bool = True) -> bool:
    """Whether two expressions are equal, by their spelling or else by algebra."""
    if key(g) == key(a):
        return True
    if _UNREAD.search(g) or _UNREAD.search(a):
        return False
    if len(g) == len(a) == 1 or _variables(g) != _variables(a) or {g, a} & {r"\infty", r"-\infty"}:
        return False
    return not far_apart(plain(g), plain(a)) and context.algebra.equal(
        plain(g), plain(a), worked_out
    )


def _variables(text: str) -> set[str]:
    """The letters of an expression, but for those of commands and of e, i and d."""
    letters = set(re.findall(r"[A-Za-z]", re.sub(r"\\[a-zA-Z]+", " ", plain(text))))
    letters |= set(
        re.findall(
            r"\\(?:alpha|beta|gamma|delta|theta|lambda|mu|phi|omega|sigma)(?![a-zA-Z])", plain(text)
        )
    )
    return letters - {"e", "i", "d"}


def based(g: InBase | Quantity | Expr, a: InBase | Quantity | Expr, context: Context) -> bool:
    """A number in a base against its digits; the base may be dropped where it was asked for."""
    based, other = (g, a) if isinstance(g, InBase) else (a, g)
    if isinstance(other, InBase) or (isinstance(other, Quantity) and (other.unit or other.percent)):
        return False
    digits = other.written if isinstance(other, Quantity) else other.text
    # The base may be dropped where it was asked for: the gold or the question tells. Ten is the
    # base of all others.
    question = context.question or ""
    asked = (
        based is g
        or _base_asked(based.base, question)
        or (based.base == 10 and not BASE.is_in(question))
    )
    return asked and digits.replace(" ", "").lstrip("0") == based.digits


def _base_asked(base: int, question: str) -> bool:
    """Whether the question tells the base, and it is this one."""
    if not BASE.is_in(question):
        return False
    into = [next(filter(None, groups)) for groups in INTO_BASE.regex.findall(question)]
    return not into or base_named(into[-1]) in (None, base)


def words(g: Words | Expr, a: Words | Expr, context: Context) -> bool:
    """Words are equal without case, punctuation, articles and "it is"."""
    # The letters alone do not tell -\infty from \infty, and a - b not from ab.
    if any(isinstance(x, Expr) and re.search(r"[-+*/^_=<>|!']", x.text) for x in (g, a)):
        return False
    texts = [
        re.sub(r"[^\w]+", " ", re.sub(r"\\text", "", x.text)).casefold().strip() for x in (g, a)
    ]
    bare = [
        re.sub(r"^(?:(?:it|the \w+|there) (?:is|are|will be) )?(?:(?:a|an|the|on|in) )?", "", t)
        for t in texts
    ]
    short, long = sorted(bare, key=len)
    if (
        short and long.startswith(f"{short} ") and isinstance(a, Words)
    ):  # "an odd function" for "odd", or as the gold
        behind = {word.removesuffix("s") for word in long.removeprefix(short).split()} - {"angled"}
        asked = {word.removesuffix("s") for word in re.findall(r"\w+", context.question or "")}
        return behind <= asked - {"or", "and", "nor", "not"}
    if len(bare[1]) > 2 and bare[0].startswith(bare[1]) and _DAYS.fullmatch(bare[0]):  # Fri
        return True
    if min(map(len, bare)) > 6:
        bare = [
            re.sub(r"(?<=\w{6})(?:es?|ent|ing)$", "", text) for text in bare
        ]  # diverges, divergent
    return bool(bare[0]) and bare[0].removesuffix("s") == bare[1].removesuffix("s")


# ---- values made of others


def _in_order(context: Context) -> bool:
    """Whether the question asks for an order."""
    question = context.question or ""
    return ORDER.is_in(question) or _ORDER_TOO.search(question) is not None


def ordered(gs: Sequence[Value], items: Sequence[Value], context: Context) -> bool:
    """Whether the items are the same one by one."""
    return len(gs) == len(items) <= _MAX_ITEMS and all(
        context.same(g, a) for g, a in zip(gs, items, strict=True)
    )


def unordered(gs: Sequence[Value], items: Sequence[Value], context: Context) -> bool:
    """Whether the items are the same in some order."""
    if not len(gs) == len(items) <= _MAX_ITEMS:
        return False
    left = list(items)
    for g in gs:
        found = next((n for n, a in enumerate(left) if context.same(g, a)), None)
        if found is None:
            return False
        del left[found]
    return True


def intervals(g: Interval, a: Interval, context: Context) -> bool:
    """Intervals have the same brackets and ends."""
    vector = (
        "vector" in (context.question or "")
        and g.left_open
        and g.right_open
        and not (a.left_open or a.right_open)
    )
    return (vector or (g.left_open, g.right_open) == (a.left_open, a.right_open)) and ordered(
        g.items, a.items, context
    )


def columns(g: Matrix | Tuple | Interval, a: Matrix | Tuple | Interval, context: Context) -> bool:
    """A point and a matrix of one column."""
    gs, items = _coordinates(g), _coordinates(a)
    closed = isinstance(a, Interval) and not (a.left_open or a.right_open)  # [3, 4]
    if isinstance(g, Matrix) and closed and "vector" in (context.question or ""):
        items = a.items
    return gs is not None and items is not None and ordered(gs, items, context)


def _coordinates(x: Matrix | Tuple | Interval) -> tuple | None:
    """The values of a point or of a matrix of one column."""
    if isinstance(x, Matrix):
        return tuple(row[0] for row in x.rows) if all(len(row) == 1 for row in x.rows) else None
    return x.items if isinstance(x, Tuple) or (x.left_open and x.right_open) else None


def matrices(g: Matrix, a: Matrix, context: Context) -> bool:
    """Matrices are the same cell by cell."""
    if not len(g.rows) == len(a.rows) <= _MAX_ITEMS:
        return False
    return all(ordered(row, other, context) for row, other in zip(g.rows, a.rows, strict=True))


def named(
    g: List | Tuple | Interval | Matrix, a: List | Tuple | Interval | Matrix, context: Context
) -> bool:
    """`x = 3, y = 5` with the names in alphabetical order is the point of the values."""
    named, point = (g, a) if isinstance(g, List) else (a, g)
    names, coordinates = _names(named), _coordinates(point)
    if not names and coordinates is not None and _in_order(context):
        return ordered(g.items, a.items, context)
    if (
        coordinates is None
        or not names
        or len(set(names)) < len(names)
        or any(i.signs != ("=",) for i in named.items)
    ):
        return False
    values = [value(i.sides[1]) for i in sorted(named.items, key=lambda i: i.sides[0])]
    return (
        ordered(values, coordinates, context)
        if named is g
        else ordered(coordinates, values, context)
    )


def _names(items: List) -> list[str]:
    """The names in `x = 3, y = 5`; none where an item has no name."""
    named = all(isinstance(i, Relation) and is_name(i.sides[0]) for i in items.items)
    return [i.sides[0] for i in items.items] if named else []


def lists(g: List | Set, a: List | Set, context: Context) -> bool:
    """Lists and sets are equal in any order, but a list that says which value is whose keeps it,
    and one whose order the question asks for."""
    names = _names(g) if isinstance(g, List) else []
    if isinstance(g, List) and not names and _in_order(context):
        return isinstance(a, List) and ordered(g.items, a.items, context)
    # x_1 = 1, x_2 = 2 are x = 1 or x = 2; but `x = 1, y = 2` says which value is whose, and without
    # names their order.
    of_one = len({re.sub(r"_\{?\w+\}?$", "", name) for name in names}) == 1
    if len(set(names)) > 1 and not any(isinstance(i, Relation) for i in a.items):
        if of_one:
            return unordered([value(i.sides[-1]) for i in g.items], a.items, context)
        return isinstance(a, List) and ordered(g.items, a.items, context)
    if (
        isinstance(g, List)
        and isinstance(a, List)
        and (of_names := _as_named(g, a, context.question or ""))
    ):
        return ordered(g.items, of_names, context)
    if isinstance(a, List) and of_one and {re.sub(r"_\{?\w+\}?$", "", names[0])} == set(_names(a)):
        return unordered(
            [value(i.sides[-1]) for i in g.items], [value(i.sides[-1]) for i in a.items], context
        )
    return unordered(g.items, a.items, context)


def _as_named(g: List, a: List, question: str) -> list[Value]:
    """The items "6 edges and 4 vertices" in the order of their names in `question`."""
    places = [question.find(i.unit) if isinstance(i, Quantity) and i.unit else -1 for i in a.items]
    bare = all(isinstance(i, Quantity) and not i.unit for i in g.items)
    if not bare or -1 in places or len(set(places)) < len(places):
        return []
    return [item for _, item in sorted(zip(places, a.items, strict=True), key=lambda pair: pair[0])]


def only_element(g: Value, a: Value, context: Context) -> bool:
    """A set of one element is that element, and the empty set is no solution."""
    if Words("no solution") in (g, a):
        return Set(()) in (g, a)
    if isinstance(g, Set):
        return len(g.items) == 1 and context.same(g.items[0], a)
    return len(a.items) == 1 and context.same(g, a.items[0])


# ---- equations, inequalities and chains of them, against each other and against a value


def relations(g: Relation, a: Relation, context: Context) -> bool:
    """`x = …` is equal by its value, other relations by algebra: `y = 2x + 1` and `y - 2x = 1`."""
    a = _turned(a)
    # C(m)
    g_name, a_name = (
        re.sub(r"(?<=^[A-Zb-eg-z])\([a-z]\)$", "", side) for side in (g.sides[0], a.sides[0])
    )
    if {re.sub(r"^[a-z](?:'|\^\{-1\})?\s*\(x\)$", "f(x)", name) for name in (g_name, a_name)} == {
        "y",
        "f(x)",
    }:
        g_name = a_name = "y"
    if set(g.signs) == {"="} == set(a.signs) and is_name(g_name) and key(g_name) == key(a_name):
        meant = _meant(a, context)
        return meant is not None and context.same(value(g.sides[-1]), meant)
    # of a line: x - 2 = 0
    equation = re.search(r"equation of|asymptote|directrix|axis of", context.question or "")
    if is_name(g_name) and g.signs == ("=",) and not _variables(g.sides[1]) and not equation:
        return False  # "x = 5" is solved, and "2x = 10" or "x - 5 = 0" is not
    if _UNREAD.search("".join(g.sides + a.sides)):
        return False
    solved = is_name(g_name) and re.search(
        rf"\b(?:for|express) \$?{re.escape(g_name.lower())}\b", context.question or ""
    )
    if solved and a_name != g_name:  # "Solve for y"
        return False
    if len(g.signs) == len(a.signs) == 1 and g.signs[0] != r"\approx":
        return context.algebra.equal_relations((g.signs[0], *g.sides), (a.signs[0], *a.sides))
    return False


def value_of_gold(g: Relation, a: Value, context: Context) -> bool:
    r"""A gold `k = 3` may be answered by its value, a gold `0.56 = 56\%` by either side, an
    equation by neither."""
    if g.signs[0] == r"\approx" and not g.sides[0]:  # a mere `\approx 2.83`
        return context.same(value(g.sides[1]), a)
    sides = [value(side) for side in g.sides]
    named = is_name(g.sides[0])
    return set(g.signs) <= {"=", r"\approx"} and (
        (named and context.same(sides[-1], a))
        or (
            all(isinstance(side, Quantity) for side in sides)
            and any(context.same(side, a) for side in sides)
        )
    )


def value_of_answer(g: Value, a: Relation, context: Context) -> bool:
    r"""An answer `x = 5`, `40+2 = 42` or `2\sqrt2 \approx 2.83` has the value that it ends in."""
    if (
        isinstance(g, Tuple | Interval) and set(a.signs) == {"="} and len(a.signs) == len(g.items)
    ):  # x = y = 2
        named = len(set(a.sides[:-1])) == len(a.signs) and all(map(is_variable, a.sides[:-1]))
        if named and ordered(g.items, [value(a.sides[-1])] * len(a.signs), context):
            return True
    turned = re.fullmatch(r"(.+)_\{?2\}?/(.+)_\{?1\}?", a.sides[0].replace(" ", ""))  # V_2/V_1
    if (
        turned
        and turned[1] == turned[2]
        and re.search(r"\bfirst\b.*\bto\b.*\bsecond\b", context.question or "")
    ):
        return False
    meant = _meant(a, context, isinstance(g, Quantity) and "." in g.written)
    if (
        isinstance(g, Quantity) and isinstance(meant, Expr) and set(a.signs) == {"="}
    ):  # 91 = 7 \cdot 13
        meant = next((side for side in map(value, a.sides) if isinstance(side, Quantity)), meant)
    return meant is not None and context.same(g, meant)


def _meant(relation: Relation, context: Context, rounded: bool = False) -> Value | None:
    r"""The one value `x = …`, `40+2 = 42` or `2\sqrt2 \approx 2.83` ends in; None if its sides
    disagree."""
    relation = _turned(relation)
    signs, sides = list(relation.signs), list(relation.sides)
    if (
        len(signs) == 1 and signs[0] in "<>" and (way := _WHICH.search(context.question or ""))
    ):  # 7/9 > 5/7
        return value(sides[(signs[0] == ">") == bool(way[1])])
    while (
        len(sides) > 2 and signs[0] == "=" and is_variable(sides[0]) and is_variable(sides[1])
    ):  # y = x = 5
        signs, sides = signs[1:], sides[1:]
    if signs == [r"\approx"] and not sides[0]:
        return value(sides[1]) if rounded else None
    # "x^2 + y^2 = 25"
    asked = context.question is not None and key(sides[0]).lower() in key(context.question)
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


def _turned(relation: Relation) -> Relation:
    """`5 = x` as `x = 5`."""
    left, right = relation.sides[0], relation.sides[-1]
    if relation.signs == ("=",) and is_variable(right) and not is_variable(left):
        return Relation(("=",), (right, left))
    return relation


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
        return isinstance(given, Expr) and context.algebra.close(
            plain(given.text), rounded.value, places
        )
    except Unreadable:  # the answer's own text, not the gold
        return False


def _agree(last: str, side: str, context: Context) -> bool:
    """Whether a side of an answer's own chain has the value that it ends in, worked out or not."""
    g, a = value(last), value(side)
    if (
        isinstance(g, Quantity) and isinstance(a, Quantity) and g.unit != a.unit != "" != g.unit
    ):  # 2.5 L = 2500 mL
        return True
    one, other = _spelling(g), _spelling(a)
    try:
        if InBase in (type(g), type(a)):  # 777_8 = 511
            n, m = (
                int(x.digits, x.base) if isinstance(x, InBase) else getattr(x, "value", None)
                for x in (g, a)
            )
            return n == m is not None
        return context.same(g, a) or bool(
            one and other and _same_texts(one, other, context, worked_out=False)
        )
    except (Unreadable, ValueError):  # the answer's own text, not the gold
        return False


def _spelling(x: Value) -> str:
    return x.written if isinstance(x, Quantity) else x.text if isinstance(x, Expr | Words) else ""


# ---- the table


def _both_ways(one: type, *others: type) -> list[tuple[type, type]]:
    return [(one, other) for other in others] + [(other, one) for other in others]


def _asking(rule: Callable[..., bool]) -> Callable[..., bool]:
    return lambda g, a, context: rule(g, a, context.question or "")


_VALUES = [x for x in TYPES if x is not Relation]
# A gold number has no rule for an expression, which is left unevaluated.
RULES = [
    Rule("as numbers", [(Quantity, Quantity)], quantities),
    Rule("as expressions", [(Expr, Expr), (Expr, Quantity)], expressions),
    Rule("as words", [(Words, Words), *_both_ways(Words, Expr)], words),
    Rule(
        "as times of day",
        [(Clock, Clock), *_both_ways(Clock, Ratio, Quantity)],
        _asking(clocks.times),
    ),
    Rule("as numbers in a base", [(InBase, InBase), *_both_ways(InBase, Quantity, Expr)], based),
    Rule("as ratios", [(Ratio, Ratio), *_both_ways(Ratio, Quantity)], _asking(clocks.ratios)),
    Rule(
        "as measures",
        [(Measure, Measure), *_both_ways(Measure, Quantity, Ratio)],
        _asking(clocks.durations),
    ),
    Rule("as tuples", [(Tuple, Tuple)], lambda g, a, context: ordered(g.items, a.items, context)),
    Rule("as intervals or points", [(Interval, Interval)], intervals),
    Rule("as matrices", [(Matrix, Matrix)], matrices),
    Rule("as columns", _both_ways(Matrix, Tuple, Interval), columns),
    Rule("as named values", _both_ways(List, Tuple, Interval, Matrix), named),
    Rule("as lists or sets", [(List, List), (Set, Set), *_both_ways(List, Set)], lists),
    Rule("as a set of one", _both_ways(Set, Quantity, Expr, Words, InBase), only_element),
    Rule("as unions", [(Union, Union)], lambda g, a, context: unordered(g.items, a.items, context)),
    Rule("as relations", [(Relation, Relation)], relations),
    Rule("as the value of the gold's relation", [(Relation, x) for x in _VALUES], value_of_gold),
    Rule(
        "as the value of the answer's relation", [(x, Relation) for x in _VALUES], value_of_answer
    ),
]
_RULE = {pair: rule for rule in RULES for pair in rule.pairs}


def compare(gold: Value, answer: Value, question: str | None, algebra: Algebra) -> tuple[bool, str]:
    """Whether the typed `answer` says the same as the typed `gold`, and by which rule. Raises what
    `algebra` raises."""
    rule = _RULE.get((type(gold), type(answer)))
    if rule is None:
        return False, "not equal to the gold, another kind of value"
    right = Context(question.lower() if question else None, algebra).same(gold, answer)
    return right, f"equal, {rule.name}" if right else f"not equal to the gold, {rule.name}"
