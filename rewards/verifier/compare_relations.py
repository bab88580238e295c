"""Rules for equations, inequalities and chains of them, against each other and against a value."""

from rewards.verifier.compare_scalars import UNREAD, same_texts, variables
from rewards.verifier.context import Context, Unreadable
from rewards.verifier.kinds import Expr, Quantity, Relation, Value, Words
from rewards.verifier.notation import key, plain
from rewards.verifier.value import is_left_side, is_name, is_variable, value


def relations(g: Relation, a: Relation, context: Context) -> bool:
    """`x = …` is equal by its value, other relations by algebra: `y = 2x + 1` and `y - 2x = 1`."""
    if _is_approximate(g):
        return context.same(value(g.sides[1]), a)
    a = _turned(a)
    g_name, a_name = g.sides[0], a.sides[0]
    if set(g.signs) == {"="} == set(a.signs) and is_name(g_name) and key(g_name) == key(a_name):
        meant = _meant(a, context)
        return meant is not None and context.same(value(g.sides[-1]), meant)
    if is_name(g_name) and g.signs == ("=",) and not variables(g.sides[1]):
        return False  # "x = 5" is solved, and "2x = 10" or "x - 5 = 0" is not
    if UNREAD.search("".join(g.sides + a.sides)):
        return False
    if len(g.signs) == len(a.signs) == 1 and g.signs[0] != r"\approx":
        return context.algebra.equal_relations((g.signs[0], *g.sides), (a.signs[0], *a.sides))
    return False


def value_of_gold(g: Relation, a: Value, context: Context) -> bool:
    r"""A gold `k = 3` may be answered by its value, a gold `0.56 = 56\%` by either side, an equation by neither."""
    if _is_approximate(g):
        return context.same(value(g.sides[1]), a)
    sides = [value(side) for side in g.sides]
    named = is_name(g.sides[0])
    return set(g.signs) <= {"=", r"\approx"} and (
        (named and context.same(sides[-1], a))
        or (all(isinstance(side, Quantity) for side in sides) and any(context.same(side, a) for side in sides))
    )


def value_of_answer(g: Value, a: Relation, context: Context) -> bool:
    r"""An answer `x = 5`, `40+2 = 42` or `2\sqrt2 \approx 2.83` has the value that it ends in."""
    meant = _meant(a, context, isinstance(g, Quantity) and "." in g.written)
    return meant is not None and context.same(g, meant)


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
        return isinstance(given, Expr) and context.algebra.close(plain(given.text), rounded.value, places)
    except Unreadable:  # the answer's own text, not the gold
        return False


def _agree(last: str, side: str, context: Context) -> bool:
    """Whether a side of an answer's own chain has the value that it ends in, worked out or not."""
    g, a = value(last), value(side)
    one, other = _spelling(g), _spelling(a)
    try:
        return context.same(g, a) or bool(one and other and same_texts(one, other, context, worked_out=False))
    except Unreadable:  # the answer's own text, not the gold
        return False


def _spelling(x: Value) -> str:
    return x.written if isinstance(x, Quantity) else x.text if isinstance(x, Expr | Words) else ""
