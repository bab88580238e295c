"""Are the calculations in a text true? A reward for the steps of a worked solution, and for the
whole of one."""

import ast
import re
from fractions import Fraction
from functools import lru_cache

from rewards.completion import Messages, content
from rewards.verifier.arithmetic import value_of
from rewards.verifier.checks import ALLOWED

_RUN = re.compile(r"[\d\s()+−*/×÷·.$=≈-]+")
_SENTENCE = re.compile(r"\n|(?<=\d)\.(?=\s|$)")
_LONGEST = 200  # characters of an equation; a worked line has far fewer
_SPELLED = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "$": " "})
_TEX = [
    (r"\times", "×"),
    (r"\cdot", "·"),
    (r"\div", "÷"),
    (r"\$", " "),
    (r"\(", " "),
    (r"\)", " "),
    (r"\approx", "≈"),
]


def true_equations(completions: list[str | Messages], **columns: object) -> list[float | None]:
    """1.0 where every equation between numbers in the text is true, 0.0 where one is false, None
    where there is none.

    An equation has only numbers, brackets and + - * / on both sides, and at least one operation:
    `12*3 = 36`, `4+8+1=13`, `7/3 ≈ 2.33`. A decimal may be rounded. Algebra, powers, percentages
    and words are not looked at. It does not ask what an equation is for: `1+0=1` is true too. So it
    belongs beside `correct_answer`, at a smaller weight, with `steps`, which makes it the reward of
    each step.
    """
    return [_all_true(content(each)) for each in completions]


def _all_true(text: str) -> float | None:
    for written, meant in _TEX:
        text = text.replace(written, meant)
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    found = [_is_true(part, run) for part in _SENTENCE.split(text) for run in _RUN.finditer(part)]
    found = [each for each in found if each is not None]
    return float(all(found)) if found else None


def _is_true(text: str, run: re.Match) -> bool | None:
    """Whether an equation holds; None for a part of an expression that has more than numbers in
    it."""
    equation = run[0].strip(" \t=≈")
    if not re.search("[=≈]", equation) or len(equation) > _LONGEST:
        return None
    start = run.start() + run[0].index(equation)
    before, after = text[:start], text[start + len(equation) :]
    attached = re.search(r"[\w^\\{}%]$", before) or re.match(r"[\w^\\{}%!]", after)
    open_left = equation[0] in "+−-*/×÷·" and re.search(r"[\w^\]}]\s*$", before)
    if attached or open_left or equation[-1] in "+−-*/×÷·":
        return None
    written = re.split("[=≈]", equation.translate(_SPELLED))
    sides = [value_of_numbers(each) for each in written]
    if None in sides or not any(operations for _, operations in sides):
        return None
    first = sides[0][0]
    return all(
        _same(first, value, side) for (value, _), side in zip(sides[1:], written[1:], strict=True)
    )


def _same(exact: Fraction, value: Fraction, written: str) -> bool:
    """Whether they are equal, or `value` is a plain decimal and `exact` rounds to it."""
    decimals = re.fullmatch(r"\s*-?\s*\d+\.(\d+)\s*", written)
    return abs(exact - value) <= (Fraction(1, 2 * 10 ** len(decimals[1])) if decimals else 0)


@lru_cache(maxsize=4096)
def value_of_numbers(side: str) -> tuple[Fraction, int] | None:
    """The value of an expression of numbers, exactly, and how many operations it has."""
    try:
        tree = ast.parse(" ".join(side.split()), mode="eval")
        nodes = [*ast.walk(tree)]
        if not all(isinstance(each, (*ALLOWED, ast.UAdd)) for each in nodes):
            return None
        return value_of(tree.body), sum(isinstance(each, ast.BinOp) for each in nodes)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None
