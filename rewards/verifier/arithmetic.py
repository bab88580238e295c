"""Values and forms of expressions, without the algebra: exact values, and estimates that show that
two expressions differ."""

import ast
import re
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import nan
from operator import add, mul, neg, pos, sub, truediv

_EXPRESSION = re.compile(
    r"(?:\\(?:frac|sqrt|pi|cdot|times)(?![a-zA-Z])|\d{1,15}(?![\d.])|\d{1,7}\.\d{1,8}(?!\d)|[-+*^(){}"
    r" A-Za-ci-z])+"
)
# a mixed number, and what Python reads in another way
_UNLIKE_PYTHON = re.compile(r"\}\s*\^|\^\s*\\|\d\s*\\frac|\\frac[^{]*\Z|\*\*")
_DIVIDED = re.compile(  # 3/7x is 3/(7x)
    r"(?<![\w.)}/^])(\d+)/(\d+(?:\\pi(?![a-zA-Z])|\\sqrt\{\d+\}|[a-cj-z])*)(?=\s*(?:[-+)}]|$))"
)
_PYTHON = [
    ("}{", ")/("),
    ("{", "("),
    ("}", ")"),
    (r"\frac", ""),
    (r"\sqrt", "~"),
    (r"\pi", "π"),
    ("^", "**"),
]
_PYTHON += [(r"\cdot", "*"), (r"\times", "*")]
_WORK = {ast.Add: add, ast.Sub: sub, ast.Mult: mul, ast.Div: truediv, ast.USub: neg, ast.UAdd: pos}
_WORK |= {ast.Pow: pow, ast.Invert: Decimal.sqrt}
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


def value_of(node: ast.expr, number: type = Fraction) -> Fraction | Decimal:
    """The exact value of an expression of numbers and + - * /, a decimal as it is written. Raises
    ArithmeticError."""
    match node:
        case ast.Constant():
            return number(str(node.value))
        case ast.Name():  # the root of its code stands for a letter
            return _PI if node.id == "π" else Decimal(ord(node.id)).sqrt()
        case ast.UnaryOp():
            return _WORK[type(node.op)](value_of(node.operand, number))
    return _WORK[type(node.op)](value_of(node.left, number), value_of(node.right, number))


def far_apart(text: str, second: str) -> bool:
    r"""Whether two expressions, in `plain` spelling, differ in value where each letter stands for a
    number of its own. False for all but sums, products, fractions, powers and square roots of
    moderate size, and for nearly equal ones.
    """
    x = _estimate(text)
    y = _estimate(second)
    return abs(x - y) > 1e-10 * max(1, abs(x), abs(y))


@lru_cache(maxsize=16384)
def _estimate(text: str) -> float:
    """The value to about 30 digits, `nan` where it is not seen so simply."""
    text = _DIVIDED.sub(r"\\frac{\1}{\2}", text)
    if _UNLIKE_PYTHON.search(text) or not _EXPRESSION.fullmatch(text):
        return nan
    if text.count("}{") != text.count(r"\frac"):
        return nan
    for latex, python in _PYTHON:
        text = text.replace(latex, python)
    text = re.sub(r"(?<=[\w)])\s*(?=[a-zA-Zπ~(])", "*", text).strip()
    try:
        # In a difference of larger numbers too many digits may cancel.
        with localcontext(prec=60, Emax=15):
            return _evaluated(text)
    except (
        SyntaxError,
        ArithmeticError,
        AttributeError,
        TypeError,
        RecursionError,
        MemoryError,
    ):  # 2), 1/0, {}, x2
        return nan


def _evaluated(python: str) -> float:
    """The value of an expression as Python has it. Where i stands for a number too, that number is
    used only in a + bi, and not in i^2 or 1/i: there it is `nan`."""
    if "i" not in python:
        return float(_value_at(python))
    start, middle, end = (_value_at(python.replace("i", f"(i+{n})")) for n in range(3))
    is_linear = abs(start + end - 2 * middle) <= Decimal("1e-30")
    return float(start) if is_linear else nan


def _value_at(python: str) -> Decimal:
    return value_of(ast.parse(python, mode="eval").body, Decimal)


def functions_in(text: str) -> set[str]:
    """The functions that an expression has."""
    return set(re.findall(r"\\(?:sin|cos|tan|cot|sec|csc|log|ln|exp)(?![a-z])", text))


def has_square_in_root(text: str) -> bool:
    """Whether a square root has a square left in it."""
    roots = map(int, re.findall(r"\\sqrt\{(\d{1,6})\}", text))
    return any(n % (m * m) == 0 for n in roots for m in range(2, 1 + int(n**0.5)))
