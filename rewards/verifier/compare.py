"""Comparing two typed values by number, text and structure, with the algebra for the rest."""

import re
from fractions import Fraction
from typing import Protocol

from rewards.verifier.kinds import Clock, Expr, InBase, Items, Quantity, Relation, Words
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


class Comparison:
    """Typed values compared in the light of the question; `algebra` decides what their form does not."""

    def __init__(self, question: str | None, algebra: Algebra) -> None:
        self.question = question.lower() if question else None
        self.algebra = algebra

    def same(self, g, a) -> bool:
        """Whether the typed answer `a` says the same as the typed gold `g`."""
        if g == a:
            return True
        if isinstance(g, Relation) and g.signs[0] == r"\approx" and not g.sides[0]:
            g = value(g.sides[1])
        if isinstance(g, Relation) or isinstance(a, Relation):
            return self._relation(g, a)
        if isinstance(g, Items) or isinstance(a, Items):
            return self._items(g, a)
        if isinstance(g, Clock) or isinstance(a, Clock):
            return self._clock(g, a)
        if isinstance(g, InBase) or isinstance(a, InBase):
            return self._in_base(g, a)
        if isinstance(g, Words) or isinstance(a, Words):
            return _same_words(g, a)
        if isinstance(g, Quantity):
            # An expression where a number is asked is left unevaluated.
            return isinstance(a, Quantity) and self._quantity(g, a)
        if g.unit and a.unit and g.unit != a.unit:
            return False
        if (a.unit.startswith("deg") and not g.unit and r"\pi" in g.text) or self._is_amount(g, a):  # radians
            return False
        if isinstance(a, Quantity):
            return not a.percent and self._expression(g.text, rf"\frac{{{a.value.numerator}}}{{{a.value.denominator}}}")
        return self._expression(g.text, a.text)

    def _quantity(self, g: Quantity, a: Quantity) -> bool:
        if g.unit and a.unit and g.unit != a.unit and (g.unit, a.unit) != ("£", "lb"):  # "5 pounds"
            return False
        if self._is_amount(g, a):
            return g.value == a.value * AMOUNTS[a.unit] and not g.unit and not g.percent
        scale = next((s for s in SCALES if a.written.endswith(s)), None)
        if scale and f"how many {scale}" in (self.question or "") and g.value == a.value / SCALES[scale]:
            return g.percent == a.percent
        if g.percent != a.percent and (g.unit or a.unit):
            return False
        if g.percent == a.percent:
            return g.value == a.value
        percent, share = (g, a) if g.percent else (a, g)
        asked = (self.question or "").replace("\\%", "percent").replace("%", "percent")
        if a.percent and PERCENT_ASKED.search(asked):
            return g.value == a.value
        if share.value.denominator > 1 and percent.value == share.value * 100:
            return True
        if g.percent or self.question is None:
            # Without the question: a gold up to 1 may be a share, of which so many percent are another number.
            return g.value == a.value and (g.percent or g.value > 1)
        return False

    def _is_amount(self, g: Quantity | Expr, a: Quantity | Expr) -> bool:
        """Whether the "quarters" of an answer are parts, where neither gold nor question has them as things."""
        return a.unit in AMOUNTS and a.unit != g.unit and f"how many {a.unit}s" not in (self.question or "")

    def _expression(self, g: str, a: str, worked_out: bool = True) -> bool:
        if key(g) == key(a):
            return True
        if _UNREAD.search(g) or _UNREAD.search(a):
            return False
        if (len(g) == 1 and len(a) == 1) or _variables(g) != _variables(a) or {g, a} & {r"\infty", r"-\infty"}:
            return False
        return self.algebra.equal(plain(g), plain(a), worked_out)

    def _clock(self, g, a) -> bool:
        if isinstance(g, Clock) and isinstance(a, Clock):
            same = g.minutes == a.minutes
            return same if g.half or not a.half else same or (g.minutes + 720) % 1440 == a.minutes
        clock, other = (g, a) if isinstance(g, Clock) else (a, g)
        # A gold "3:30" leaves the half of the day open, an answer must not.
        if (
            isinstance(other, Items)
            and other.kind == ":"
            and len(other.items) == 2
            and all(i.isdigit() for i in other.items)
        ):
            hour, minute = map(int, other.items)
            minutes = hour * 60 + minute
            return (clock.minutes == minutes and (hour > 12 or hour == 0 or other is g)) or (
                other is g and clock.minutes == minutes + 720
            )
        return clock.half is None and isinstance(other, Quantity) and other.value * 60 == clock.minutes

    def _in_base(self, g, a) -> bool:
        if isinstance(g, InBase) and isinstance(a, InBase):
            return g == a
        based, other = (g, a) if isinstance(g, InBase) else (a, g)
        digits = other.written if isinstance(other, Quantity) else other.text if isinstance(other, Expr) else ""
        if isinstance(other, Quantity) and (other.unit or other.percent):
            return False
        # The base may be dropped where it was asked for: the gold or the question tells.
        asked = based is g or _base_asked(based.base, self.question or "")
        return bool(asked or based.base == 10) and digits.replace(" ", "").lstrip("0") == based.digits

    def _items(self, g, a) -> bool:
        if (isinstance(g, Items) and isinstance(a, Clock)) or (isinstance(a, Items) and isinstance(g, Clock)):
            return self._clock(g, a)
        if ":" in (getattr(g, "kind", ""), getattr(a, "kind", "")):
            return self._ratio(g, a)
        g, a = _named_tuple(g, a), _named_tuple(a, g)
        if _has_names(g) and isinstance(a, Items) and not any(isinstance(i, Relation) for i in a.items):
            # `x = 1, y = 2` says which value is whose; without names only their order does.
            return a.kind == "," and len(g.items) == len(a.items) and self._ordered(g.items, a.items)
        if not isinstance(g, Items) or not isinstance(a, Items):
            one, other = (g, a) if isinstance(g, Items) else (a, g)
            return (
                one.kind in ("{}", ",")
                and len(one.items) == 1
                and self.same(*((one.items[0], other) if one is g else (other, one.items[0])))
            )
        if g.kind == "U" and a.kind == "{}" and all(i.kind == "{}" for i in g.items):
            g = Items("{}", tuple(element for i in g.items for element in i.items))
        if len(g.items) != len(a.items) or len(g.items) > _MAX_ITEMS:
            return False
        if {g.kind, a.kind} == {"matrix", "()"}:
            return self._ordered(_column(g), _column(a))
        if g.kind != a.kind and {g.kind, a.kind} != {",", "{}"}:
            return False
        return self._unordered(g.items, a.items) if g.kind in (",", "{}", "U") else self._ordered(g.items, a.items)

    def _ordered(self, gs: tuple | None, items: tuple | None) -> bool:
        return gs is not None and items is not None and all(self.same(g, a) for g, a in zip(gs, items, strict=True))

    def _unordered(self, gs: tuple, items: tuple) -> bool:
        left = list(items)
        for g in gs:
            found = next((n for n, a in enumerate(left) if self.same(g, a)), None)
            if found is None:
                return False
            del left[found]
        return True

    def _ratio(self, g, a) -> bool:
        def parts(x) -> list[Fraction] | None:
            if isinstance(x, Items) and x.kind == ":":
                return [number(i) for i in x.items]
            if isinstance(x, Quantity) and not x.unit and not x.percent:
                return [Fraction(x.value.numerator), Fraction(x.value.denominator)]
            return None

        p, q = parts(g), parts(a)
        if p is None or q is None or len(p) != len(q):
            return False
        if (
            all(isinstance(x, Items) and len(x.items) == 2 and len(x.items[1]) == 2 for x in (g, a))
            and max(g.items[1], a.items[1]) < "60"
        ):
            return p == q  # they may be times
        return all(x * q[0] == y * p[0] for x, y in zip(p, q, strict=True)) and bool(p[0]) == bool(q[0])

    def _relation(self, g, a) -> bool:
        if isinstance(g, Relation) and isinstance(a, Relation):
            a = _turned(a)
            g_name, a_name = g.sides[0], a.sides[0]
            if set(g.signs) == {"="} == set(a.signs) and is_name(g_name) and key(g_name) == key(a_name):
                return self.same(value(g.sides[-1]), self._meant(a) or Words(""))
            if is_name(g_name) and g.signs == ("=",) and not _variables(g.sides[1]):
                return False  # "x = 5" is solved, and "2x = 10" or "x - 5 = 0" is not
            if _UNREAD.search("".join(g.sides + a.sides)):
                return False
            if len(g.signs) == len(a.signs) == 1 and g.signs[0] != r"\approx":
                return self.algebra.equal_relations((g.signs[0], *g.sides), (a.signs[0], *a.sides))
            return False
        if isinstance(a, Relation):
            meant = self._meant(a, isinstance(g, Quantity) and "." in g.written)
            return meant is not None and self.same(g, meant)
        # A gold "k = 3" may be answered by its value, a gold "0.56 = 56\\%" by either side, an equation by neither.
        sides = [value(side) for side in g.sides]
        named = is_name(g.sides[0])
        return set(g.signs) <= {"=", r"\approx"} and (
            (named and self.same(sides[-1], a))
            or (all(isinstance(side, Quantity) for side in sides) and any(self.same(side, a) for side in sides))
        )

    def _meant(self, relation: Relation, rounded: bool = False):
        r"""The one value `x = …`, `40+2 = 42` or `2\sqrt2 \approx 2.83` ends in; None if its sides disagree."""
        relation = _turned(relation)
        signs, sides = list(relation.signs), list(relation.sides)
        while len(sides) > 2 and signs[0] == "=" and is_variable(sides[0]) and is_variable(sides[1]):  # y = x = 5
            signs, sides = signs[1:], sides[1:]
        if signs == [r"\approx"] and not sides[0]:
            return value(sides[1]) if rounded else None
        asked = self.question is not None and key(sides[0]).lower() in key(self.question)  # "x^2 + y^2 = 25"
        if (is_left_side(sides[0]) or asked) and signs[0] in ("=", r"\approx"):
            if signs[0] == r"\approx" and not rounded:
                return None
            signs, sides = signs[1:], sides[1:]
        if signs[-1:] == [r"\approx"]:
            if not self._rounds(sides[-2], sides[-1]):
                return None
            signs, sides = ([], sides[-1:]) if rounded else (signs[:-1], sides[:-1])
        if any(s != "=" for s in signs) or not sides:
            return None
        last = sides[-1]
        for side in sides[:-1]:
            if not self._agree(last, side):
                return None
        return value(last)

    def _rounds(self, exact: str, decimal: str) -> bool:
        """Whether `decimal` is `exact` rounded to the digits it shows."""
        rounded = value(decimal)
        if not isinstance(rounded, Quantity) or "." not in rounded.written:
            return False
        places = len(rounded.written.partition(".")[2])
        given = value(exact)
        if isinstance(given, Quantity):
            return abs(given.value - rounded.value) * 10**places <= 1
        try:
            return isinstance(given, Expr) and self.algebra.close(plain(given.text), rounded.value, places)
        except Unreadable:  # the answer's own text, not the gold
            return False

    def _agree(self, last: str, side: str) -> bool:
        """Whether a side of an answer's own chain has the value that it ends in, worked out or not."""
        g, a = value(last), value(side)
        texts = [x.written if isinstance(x, Quantity) else getattr(x, "text", "") for x in (g, a)]
        try:
            return self.same(g, a) or (all(texts) and self._expression(*texts, worked_out=False))
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


def _same_words(g, a) -> bool:
    # The letters alone do not tell -\infty from \infty, and a - b not from ab.
    if any(isinstance(x, Expr) and re.search(r"[-+*/^_=<>|!']", x.text) for x in (g, a)):
        return False
    texts = [re.sub(r"[^\w]+", " ", re.sub(r"\\text", "", getattr(x, "text", ""))).casefold().strip() for x in (g, a)]
    bare = [re.sub(r"^(?:(?:it|the \w+) is )?(?:(?:a|an|the|on) )?", "", t) for t in texts]
    return bool(bare[0]) and bare[0] == bare[1]


def _has_names(items) -> bool:
    return (
        isinstance(items, Items)
        and items.kind == ","
        and all(isinstance(i, Relation) and is_name(i.sides[0]) for i in items.items)
        and len({i.sides[0] for i in items.items}) > 1
    )


def _named_tuple(items, other):
    """`x = 3, y = 5` with the names in alphabetical order is the tuple of the values, where the other is a tuple."""
    if (
        getattr(other, "kind", "") == "()"
        and isinstance(items, Items)
        and items.kind == ","
        and all(isinstance(i, Relation) for i in items.items)
    ):
        names = [i.sides[0] for i in items.items]
        if all(i.signs == ("=",) for i in items.items) and names == sorted(set(names)) and all(map(is_name, names)):
            return Items("()", tuple(value(i.sides[1]) for i in items.items))
    return items


def _column(items: Items) -> tuple | None:
    if items.kind == "()":
        return items.items
    return tuple(row.items[0] for row in items.items) if all(len(row.items) == 1 for row in items.items) else None
