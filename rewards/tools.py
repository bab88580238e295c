"""Tools that a policy may call while it reasons. A tool takes a text and returns a text, for an
error too."""

import re
from decimal import Decimal
from fractions import Fraction

from rewards.true_equations import value_of_numbers

_LONGEST = 200  # characters of an expression
_DECIMAL = re.compile(r"(\d*)\.(\d+)")
_OPERATORS = [(sign, "*") for sign in ("×", "·", "⋅", "∙", r"\times", r"\cdot")]
_OPERATORS += [("÷", "/"), (r"\div", "/"), ("−", "-"), (r"\left", " "), (r"\right", " ")]
# spaces, also LaTeX's, and the marks of mathematics; none may join two digits
_SPACE = re.compile(r"\\[()\[\],;:! ]|[$\s]")
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")


def calculator(expression: str) -> str:
    """
    Works out plain arithmetic exactly.

    Args:
        expression: Numbers, + - * / and brackets, such as (12+3)*4/5
    """
    text = _plain(expression[: _LONGEST + 1])
    result = None
    if len(text) <= _LONGEST and re.fullmatch(r"[0-9.()+\-*/ ]+", text):
        result = value_of_numbers(_DECIMAL.sub(_fraction, text))
    if result is None:
        return "error: not an expression of numbers, + - * / and brackets that has a value"
    value = result[0]
    if value.denominator == 1:
        return str(value)
    decimal = f"{Decimal(value.numerator) / Decimal(value.denominator):.10g}"
    return decimal if Fraction(decimal) == value else f"{value} ≈ {decimal}"


def _fraction(decimal: re.Match) -> str:
    """Return a decimal as a fraction, which is exact."""
    return f"({int(decimal[1] + decimal[2])}/{10 ** len(decimal[2])})"


def _plain(text: str) -> str:
    """Return an expression in LaTeX as Python writes it."""
    for sign, operator in _OPERATORS:
        text = text.replace(sign, operator)
    text = _SPACE.sub(" ", text)
    before = ""
    while text != before:  # from the innermost fraction out
        before = text
        text = _FRACTION.sub(r"((\1)/(\2))", text)
    return text


TOOLS = {"calculator": calculator}
