"""What the question has against an answer that may be equal to the gold: a copy, another form, another unit."""

import re
from fractions import Fraction
from functools import lru_cache
from math import gcd

from rewards.verifier.brackets import closing, depths
from rewards.verifier.kinds import Clock, Expr, InBase, Quantity, Ratio, Relation, Value, Words
from rewards.verifier.notation import NUMBER, SCALES, key, plain
from rewards.verifier.question import EXPANDED, FACTORED, INTERVAL, LOWEST_TERMS, PERCENT, Request
from rewards.verifier.units import another_was_asked
from rewards.verifier.value import value


def objection(g: Value, a: Value, gold: str, answer: str, question: str) -> str | None:
    """What the question has against an answer that may be equal to the gold."""
    if _copied(g, a, gold, answer, question):
        return "copied from the question"
    if request := _another_form_was_asked(g, a, gold, answer, question):
        return f"the question asks for {request.name}"
    numbers = (Quantity, Expr)
    if isinstance(a, numbers) and isinstance(g, numbers) and not g.unit and another_was_asked(a.unit, question):
        return "another unit than the question asks for"
    return None


def _not_reduced(typed: Value) -> bool:
    """Whether a fraction is written with a common factor."""
    if form(typed, "") not in ("fraction", "mixed number"):
        return False
    numerals = _numerals(typed)  # none in "three quarters"
    return "." not in typed.written and gcd(*map(int, numerals[-2:])) > 1


def form(typed: Value, text: str) -> str:
    """The way an answer is written, where a problem may ask for another: an expression's form is its spelling."""
    if isinstance(typed, Quantity):
        return "percent" if typed.percent else _form_of_number(typed.written, typed.value)
    if isinstance(typed, Expr | Relation | Ratio):
        return key(text)
    if re.search(r"[<>]|\\[lg]e(?![a-z])", plain(text)):
        return "inequality"
    return type(typed).__name__ if isinstance(typed, Words | Clock | InBase) else "several values"


def _form_of_number(written: str, number: Fraction) -> str:
    if "/" in written or "frac" in written:
        return "mixed number" if len(re.findall(r"\d+(?:\.\d+)?", written.replace(",", ""))) > 2 else "fraction"
    if re.search(r"10\s*\^|\d[eE]", written):
        return "power of ten"
    if any(char.isdigit() for char in written) and re.search("[a-z]{4}", written.replace("overline", "")):
        return "scaled"  # 3.5 million
    if number.denominator == 1:
        return "whole number"
    spoken = re.search("[a-z]", written.replace("overline", ""))
    return "decimal" if not spoken else "mixed number" if " and " in written else "fraction"


_NUMBER_ASKED = re.compile(NUMBER.pattern + rf"\s*(?:%|percent|{'|'.join(SCALES)})?")


def _copied(g: Value, a: Value, gold: str, answer: str, question: str) -> bool:
    """Whether `answer` stands in the question in another form than the gold's: the task, not its result."""
    given, wanted = form(a, answer), form(g, gold)
    if given == "percent" and isinstance(g, Quantity) and g.value == a.value and PERCENT.of(question.lower()):
        return False
    if (given == "whole number" and wanted not in ("power of ten", "scaled")) or (
        given == wanted and not _not_reduced(a)
    ):
        return False
    if re.search(rf"(?<!\d){re.escape(key(answer))}(?!\d)", key(question)):
        return True
    if isinstance(a, Quantity) and isinstance(g, Quantity):
        asked = [value(match.group()) for match in _NUMBER_ASKED.finditer(plain(question))]
        same = [q for q in asked if isinstance(q, Quantity) and abs(_share(q)) == abs(_share(a))]
        if given == wanted:  # 6/8 for 3/4
            return any(_numerals(q) == _numerals(a) for q in same)
        return any(form(q, "") != wanted for q in same)
    if not isinstance(a, Expr) or _flat(answer) == _flat(gold):
        return False
    return re.search(rf"(?<!\d){re.escape(_flat(answer))}(?!\d)", _flat(question)) is not None


def _share(quantity: Quantity) -> Fraction:
    return quantity.value / 100 if quantity.percent else quantity.value


def _numerals(quantity: Quantity) -> list[str]:
    return re.findall(r"\d+", quantity.written.replace(",", ""))


@lru_cache(maxsize=4096)
def _flat(text: str) -> str:
    r"""`text` for a search: without brackets and multiplication signs, `\frac{a}{b}` as `a/b`, a power ½ as a root."""
    text = re.sub(r"\\(?:cdot|times)(?![a-zA-Z])|\*", "", key(text))
    while (at := text.find(r"\frac{")) >= 0 and (end := closing(text, at + 5)) is not None:
        text = f"{text[:at]}{text[at + 5 : end + 1]}/{text[end + 1 :]}"
    return re.sub(r"(?<!\w)(\w+)\^1/2", r"\\sqrt\1", re.sub(r"[(){}]", "", text))


def _another_form_was_asked(g: Value, a: Value, gold: str, answer: str, question: str) -> Request | None:
    """What was asked for, where `x < 5` is given for (-∞, 5), a sum for a product, 6/8 for 3/4."""
    if isinstance(g, Quantity) and isinstance(a, Quantity):
        return LOWEST_TERMS if _not_reduced(a) and LOWEST_TERMS.of(question) else None
    if INTERVAL.of(question):
        return INTERVAL if form(a, answer) == "inequality" != form(g, gold) else None
    if not isinstance(g, Expr) or not isinstance(a, Expr):
        return None
    if FACTORED.of(question):
        return FACTORED if _is_sum(a.text) and not _is_sum(g.text) else None
    return EXPANDED if EXPANDED.of(question) and _holds_a_sum(a.text) and not _holds_a_sum(g.text) else None


def _is_sum(text: str) -> bool:
    """Whether a sign stands between two terms outside all brackets."""
    text = text.replace(" ", "")
    signs = (at for at, depth in enumerate(depths(text)) if depth == 0 and text[at] in "+-")
    return any(at and text[at - 1] not in "+-*/^" for at in signs)


def _holds_a_sum(text: str) -> bool:
    """Whether a sum stands in parentheses, which do not enclose all of `text` and are no function's."""
    text = re.sub(r"^\((.*)\)$", r"\1", text) if closing(text, 0) == len(text) - 1 else text
    return any(_is_sum(inner) for inner in re.findall(r"(?<![A-Za-z]{2})\(([^()]*)\)", text))
