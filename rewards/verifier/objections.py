"""What the question has against an answer: that it is copied, or has another form or unit than the
question asks for."""

import re
from fractions import Fraction
from functools import lru_cache
from math import gcd

from .arithmetic import has_square_in_root
from .notation import closing, key, plain
from .numerals import NUMBER, SCALES
from .phrases import asks_for
from .question import Question
from .value import is_name, value
from .value_types import Expr, InBase, Quantity, Ratio, Relation, Value, Words

_NUMBER_IN_QUESTION = re.compile(NUMBER.pattern + rf"\s*(?:%|percent|{'|'.join(SCALES)})?")


def objection(
    expected: Value, typed: Value, gold: str, answer: str, question: str | None
) -> str | None:
    """What the question has against the answer, `typed` as a value, that may be equal to the gold,
    `expected` as a value; None where it has nothing against it."""
    if not question:
        return None
    is_equation = isinstance(typed, Relation) and set(typed.signs) == {"="}
    if is_equation and not isinstance(expected, Relation):
        answer = typed.sides[0] if is_name(typed.sides[-1]) else typed.sides[-1]
        typed = value(answer)
    if _is_copied(expected, typed, gold, answer, question):
        return "copied from the question"
    request = _form_missed(expected, typed, gold, answer, question)
    if request:
        return f"the question asks for {request}"
    if _unit_differs(expected, typed, question):
        return "another unit than the question asks for"
    return None


def _unit_differs(expected: Value, typed: Value, question: str) -> bool:
    """Whether the answer to a gold without a unit has another unit than the question asks for."""
    if not isinstance(typed, Quantity | Expr) or not isinstance(expected, Quantity | Expr):
        return False
    if not typed.unit or expected.unit:
        return False
    return Question(question).wants_no(typed.unit)


# ---- the form of an answer


def form(typed: Value, text: str) -> str:
    """The way an answer is written, where a problem may ask for another: an expression's form is
    its spelling."""
    if isinstance(typed, Quantity):
        return "percent" if typed.percent else _form_of_number(typed.written, typed.value)
    if isinstance(typed, Expr | Relation | Ratio):
        return key(text)
    if re.search(r"[<>]|\\[lg]e(?![a-z])", plain(text)):
        return "inequality"
    return type(typed).__name__ if isinstance(typed, Words | InBase) else "several values"


def _form_of_number(written: str, number: Fraction) -> str:
    if "/" in written or "frac" in written:
        numerals = re.findall(r"\d+(?:\.\d+)?", written.replace(",", ""))
        return "mixed number" if len(numerals) > 2 else "fraction"
    if re.search(r"10\s*\^|\d[eE]", written):
        return "power of ten"
    letters = written.replace("overline", "")
    if re.search("[a-z]{4}", letters) and any(char.isdigit() for char in written):
        return "scaled"  # 3.5 million
    if number.denominator == 1:
        return "whole number"
    if not re.search("[a-z]", letters):
        return "decimal"
    return "mixed number" if " and " in written else "fraction"


def _is_reducible(typed: Value) -> bool:
    """Whether a fraction or a ratio is written with a common factor."""
    if isinstance(typed, Ratio):
        numerals = [term.strip() for term in typed.terms]
    elif form(typed, "") in ("fraction", "mixed number") and "." not in typed.written:
        numerals = _numerals(typed)[-2:]  # none in "three quarters"
    else:
        return False
    return all(numeral.isdecimal() for numeral in numerals) and gcd(*map(int, numerals)) > 1


def _form_missed(
    expected: Value, typed: Value, gold: str, answer: str, question: str
) -> str | None:
    """The form asked for that the answer lacks: (-∞, 5) and not `x < 5`, 3/4 and not 6/8."""
    is_fraction = isinstance(expected, Quantity) and isinstance(typed, Quantity)
    if is_fraction or (isinstance(expected, Ratio) and isinstance(typed, Ratio)):
        is_coarse = _is_reducible(typed) and (is_fraction or not _is_reducible(expected))
        return "lowest terms" if is_coarse and asks_for("lowest terms", question) else None
    if asks_for("interval notation", question):
        is_missed = form(typed, answer) == "inequality" and form(expected, gold) != "inequality"
        return "interval notation" if is_missed else None
    if isinstance(expected, Expr) and isinstance(typed, Expr):
        return _form_of_expression_missed(expected.text, typed.text, question)
    return None


def _form_of_expression_missed(gold: str, answer: str, question: str) -> str | None:
    is_root = asks_for("the simplest root", question)
    if is_root and has_square_in_root(answer) and not has_square_in_root(gold):
        return "the simplest root"
    has_other_signs = _signs_of(gold) != _signs_of(answer)
    wanted = [request for request in ("a product", "a sum") if asks_for(request, question)]
    return wanted[0] if wanted and has_other_signs else None


def _signs_of(text: str) -> list[str]:
    """The numbers, letters and signs of an expression, whatever their order, but those for times:
    in another order they are factors or terms in another order."""
    text = re.sub(r"\\(?:cdot|times)(?![a-zA-Z])|[*+{}]", " ", key(text))
    return sorted(re.findall(r"\\[a-z]+|\d+|\S", text))


# ---- a copy of what the question says


def _is_copied(expected: Value, typed: Value, gold: str, answer: str, question: str) -> bool:
    """Whether `answer` stands in the question in another form than the gold's: the task, not its
    result."""
    if isinstance(typed, Ratio):  # 30 to 40
        answer = ":".join(typed.terms)
    answer_form = form(typed, answer)
    gold_form = form(expected, gold)
    are_quantities = isinstance(expected, Quantity) and isinstance(typed, Quantity)
    if answer_form == "whole number" and gold_form not in ("power of ten", "scaled"):
        return False
    if answer_form == gold_form and not _is_reducible(typed):
        return False
    if _stands_in(key(answer), key(question)):
        return True
    if are_quantities:
        return _number_stands_in(typed, answer_form, gold_form, question)
    if not isinstance(typed, Expr) or _flat(answer) == _flat(gold):
        return False
    return _stands_in(_flat(answer), _flat(question))


def _stands_in(text: str, question: str) -> bool:
    """Whether `question` has `text`, not as a part of a longer number."""
    if text not in question:
        return False
    return re.search(rf"(?<!\d){re.escape(text)}(?!\d)", question) is not None


def _number_stands_in(typed: Quantity, answer_form: str, gold_form: str, question: str) -> bool:
    """Whether `question` has the number of the answer in another form than the gold's."""
    for match in _NUMBER_IN_QUESTION.finditer(plain(question)):
        number = value(match.group())
        if not isinstance(number, Quantity) or abs(number.value) != abs(typed.value):
            continue
        if answer_form == gold_form:  # 6/8 for 3/4
            is_copy = _numerals(number) == _numerals(typed)
        else:
            is_copy = form(number, "") != gold_form
        if is_copy:
            return True
    return False


def _numerals(quantity: Quantity) -> list[str]:
    return re.findall(r"\d+", quantity.written.replace(",", ""))


@lru_cache(maxsize=4096)
def _flat(text: str) -> str:
    r"""`text` for a search: without brackets and multiplication signs, `\frac{a}{b}` as `a/b`, a
    power ½ as a root."""
    text = re.sub(r"\\(?:cdot|times)(?![a-zA-Z])|\*", "", key(text))
    while (at := text.find(r"\frac{")) >= 0 and (end := closing(text, at + 5)) is not None:
        text = f"{text[:at]}{text[at + 5 : end + 1]}/{text[end + 1 :]}"
    return re.sub(r"(?<!\w)(\w+)\^1/2", r"\\sqrt\1", re.sub(r"[(){}]", "", text))
