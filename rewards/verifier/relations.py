"""The rules that compare equations, inequalities and chains of them, with each other and with a
value."""

import re

from .context import Context, Unreadable
from .notation import key, plain
from .phrases import asks_for
from .single_values import UNREAD, is_rounded_to, same_texts, variables
from .value import is_left_side, is_name, is_variable, value
from .value_types import Expr, Quantity, Relation, Value, Words

_APPROX = r"\approx"
_ARGUMENT = re.compile(r"(?<=^[A-Zb-eg-z])\([a-z]\)$")  # of C(m)


def relations(gold: Relation, answer: Relation, context: Context) -> bool:
    """`x = …` is equal by its value, other relations by algebra: `y = 2x + 1` and `y - 2x = 1`."""
    gold_name = _ARGUMENT.sub("", gold.sides[0])
    answer_name = _ARGUMENT.sub("", answer.sides[0])
    are_equations = set(gold.signs) == {"="} and set(answer.signs) == {"="}
    if are_equations and is_name(gold_name) and key(gold_name) == key(answer_name):
        answer_value = _value_meant(answer, context)
        return answer_value is not None and context.same(value(gold.sides[-1]), answer_value)
    is_solved = is_name(gold_name) and gold.signs == ("=",) and not variables(gold.sides[1])
    if is_solved and not asks_for("an equation", context.question):
        return False  # "x = 5" is solved, and "2x = 10" or "x - 5 = 0" is not
    gold_text, answer_text = ("=".join(relation.sides) for relation in (gold, answer))
    # "0 approximately" would be a product with 0.
    has_other_letters = variables(gold_text) != variables(answer_text)
    if has_other_letters or UNREAD.search(f"{gold_text}={answer_text}"):
        return False
    if _asks_to_solve_for(gold_name, context.question) and answer_name != gold_name:
        return False
    if len(gold.signs) == 1 and len(answer.signs) == 1 and gold.signs[0] != _APPROX:
        return context.algebra.equal_relations(
            (gold.signs[0], *gold.sides), (answer.signs[0], *answer.sides)
        )
    return False


def _asks_to_solve_for(name: str, question: str) -> bool:
    """Whether the question says "Solve for y"."""
    wanted = rf"\b(?:for|express) \$?{re.escape(name.lower())}\b"
    return is_name(name) and re.search(wanted, question) is not None


def value_of_gold(gold: Relation, answer: Value, context: Context) -> bool:
    r"""A gold `k = 3` may be answered by its value, a gold `0.56 = 56\%` by either side, an
    equation by neither."""
    if gold.signs[0] == _APPROX and not gold.sides[0]:  # a mere `\approx 2.83`
        return context.same(value(gold.sides[1]), answer)
    if not set(gold.signs) <= {"=", _APPROX}:
        return False
    sides = [value(side) for side in gold.sides]
    if is_name(gold.sides[0]) and context.same(sides[-1], answer):
        return True
    if not all(isinstance(side, Quantity) for side in sides):
        return False
    return any(context.same(side, answer) for side in sides)


def value_of_answer(gold: Value, answer: Relation, context: Context) -> bool:
    """An answer `x = 5` or `40+2 = 42` has the value that it ends in."""
    is_equation = set(answer.signs) == {"="}
    # V_2/V_1, where the question asks for the first to the second
    is_second_to_first = re.fullmatch(r"(.+)_\{?2\}?/\1_\{?1\}?", answer.sides[0].replace(" ", ""))
    if is_second_to_first and re.search(r"\bfirst\b.*\bto\b.*\bsecond\b", context.question):
        return False
    is_rounded = isinstance(gold, Quantity) and "." in gold.written
    if _has_rounding(answer):
        exact, is_correct = _without_rounding(answer, context)
        if not is_correct:
            return False
        last = value(answer.sides[-1])
        if is_rounded and context.same(gold, last):
            return True
        return context.same(gold, exact)
    answer_value = _value_meant(answer, context, is_rounded)
    if isinstance(gold, Quantity) and isinstance(answer_value, Expr) and is_equation:
        sides = map(value, answer.sides)  # 91 = 7 \cdot 13
        answer_value = next((side for side in sides if isinstance(side, Quantity)), answer_value)
    return answer_value is not None and context.same(gold, answer_value)


def _value_meant(relation: Relation, context: Context, is_rounded: bool = False) -> Value | None:
    r"""The one value that `x = …` or `40+2 = 42` ends in, or with `is_rounded` `x \approx 2.83`;
    None if its sides disagree."""
    signs = list(relation.signs)
    sides = list(relation.sides)
    if not sides[0] or _has_no_value(sides[0], context.question):
        del sides[0]
        if is_rounded and signs[0] == _APPROX:
            signs[0] = "="
    if any(sign != "=" for sign in signs):
        return None
    if all(_agree(sides[-1], side, context) for side in sides[:-1]):
        return value(sides[-1])
    return None


def _has_rounding(relation: Relation) -> bool:
    """Whether the last side of a relation, and no other, rounds what stands before it."""
    if relation.signs.count(_APPROX) != 1 or relation.signs[-1] != _APPROX or not relation.sides[0]:
        return False
    return len(relation.signs) > 1 or not is_variable(relation.sides[0])


def _without_rounding(relation: Relation, context: Context) -> tuple[Value, bool]:
    """What `2\\sqrt2 \\approx 2.83` rounds, and whether its last side is that to its digits."""
    *exact_sides, rounded_side = relation.sides
    exact = value(exact_sides[-1])
    if len(exact_sides) > 1:
        exact = Relation(relation.signs[:-1], tuple(exact_sides))
    rounded = value(rounded_side)
    typed = value(exact_sides[-1])
    if not isinstance(rounded, Quantity) or not isinstance(typed, Quantity | Expr):
        return exact, False
    if {rounded.unit, typed.unit} - {""} - {rounded.unit or typed.unit} or rounded.percent:
        return exact, False
    places = len(rounded.written.partition(".")[2])
    text = typed.written if isinstance(typed, Quantity) else typed.text
    is_correct = is_rounded_to(plain(text), rounded.value, places, context)
    return exact, is_correct


def _has_no_value(side: str, question: str) -> bool:
    """Whether a side only says whose value follows: a name, or a term of the question."""
    if is_left_side(side):
        return True
    return bool(question) and key(side).lower() in key(question)  # "x^2 + y^2 = 25"


def _agree(last: str, side: str, context: Context) -> bool:
    """Whether a side of an answer's own chain has the value that the chain ends in, worked out or
    not."""
    last_value = value(last)
    side_value = value(side)
    try:
        if context.same(last_value, side_value):
            return True
        texts = (_text(last_value), _text(side_value))
        return all(texts) and same_texts(*texts, context, worked_out=False)
    except Unreadable:  # the answer's own text, not the gold
        return False


def _text(typed: Value) -> str:
    """The text of a number, an expression or words, "" for any other value."""
    if isinstance(typed, Quantity):
        return typed.written
    return typed.text if isinstance(typed, Expr | Words) else ""
