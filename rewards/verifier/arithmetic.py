"""Values and forms of expressions, without the algebra: exact values, and those by which two are
seen to differ."""

import ast
import re
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import nan
from operator import add, mul, neg, pos, sub, truediv

from rewards.verifier.notation import closing, depths

_EXPRESSION = re.compile(
    r"(?:\\(?:frac|sqrt|pi|cdot|times)(?![a-zA-Z])|\d{1,15}(?![\d.])|\d{1,7}\.\d{1,8}(?!\d)|[-+*^(){}"
    r" A-Za-ci-z])+"
)
# not read as in Python; a mixed number
_OTHERWISE = re.compile(r"\}\s*\^|\^\s*\\|\d\s*\\frac|\\frac[^{]*\Z|\*\*")
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


def far_apart(text: str, other: str) -> bool:
    r"""Whether two expressions, in `plain` spelling, differ in value where each letter stands for a
    number of its own. False for all but sums, products, fractions, powers and square roots of
    moderate size, and for nearly equal ones.
    """
    x, y = _estimate(text), _estimate(other)
    return abs(x - y) > 1e-10 * max(1, abs(x), abs(y))


@lru_cache(maxsize=16384)
def _estimate(text: str) -> float:
    text = _DIVIDED.sub(r"\\frac{\1}{\2}", text)
    if (
        _OTHERWISE.search(text)
        or not _EXPRESSION.fullmatch(text)
        or text.count("}{") != text.count(r"\frac")
    ):
        return nan
    for latex, python in _PYTHON:
        text = text.replace(latex, python)
    try:
        with localcontext(
            prec=60, Emax=15
        ):  # in a difference of larger numbers too many digits may cancel
            spelled = re.sub(r"(?<=[\w)])\s*(?=[a-zA-Zπ~(])", "*", text).strip()
            # Where i stands for a number too, it is that of another value only in a + bi, and not
            # in i^2 or 1/i.
            points = [spelled.replace("i", f"(i+{n})") for n in range(3 if "i" in spelled else 1)]
            x, *others = (value_of(ast.parse(point, mode="eval").body, Decimal) for point in points)
            return (
                nan
                if others and abs(x + others[1] - 2 * others[0]) > Decimal("1e-30")
                else float(x)
            )
    except (
        SyntaxError,
        ArithmeticError,
        AttributeError,
        TypeError,
        RecursionError,
        MemoryError,
    ):  # 2), 1/0, {}, x2
        return nan


def functions(text: str) -> set[str]:
    """The functions that an expression has."""
    return set(re.findall(r"\\(?:sin|cos|tan|cot|sec|csc|log|ln|exp)(?![a-z])", text))


def of_primes(text: str) -> bool:
    """Whether each base of a product of powers is a prime number."""
    bases = map(int, re.findall(r"\d+", re.sub(r"\^\s*\{?\s*\d+", "", text))[:40])
    return all(n < 10**6 and n > 1 and all(n % k for k in range(2, int(n**0.5) + 1)) for n in bases)


# ---- forms, where a problem asks for one


def factors(text: str) -> int:
    """How many brackets stand in a product, each as often as its power says."""
    powers = re.findall(r"\([^()]*[a-z][^()]*\)(?:\^\{?(\d))?", text)
    return sum(int(power or 1) for power in powers)


def squared(text: str) -> bool:
    """Whether a square root has a square left in it."""
    roots = map(int, re.findall(r"\\sqrt\{(\d{1,6})\}", text))
    return any(n % (m * m) == 0 for n in roots for m in range(2, 1 + int(n**0.5)))


def is_sum(text: str) -> bool:
    """Whether a sign stands between two terms outside all brackets."""
    text = text.replace(" ", "")
    signs = (at for at, depth in enumerate(depths(text)) if depth == 0 and text[at] in "+-")
    return any(at and text[at - 1] not in "+-*/^" for at in signs)


def holds_a_sum(text: str) -> bool:
    """Whether a sum stands in parentheses, which do not enclose all of `text` and are no
    function's."""
    text = re.sub(r"^\((.*)\)$", r"\1", text) if closing(text, 0) == len(text) - 1 else text
    return any(is_sum(inner) for inner in re.findall(r"(?<![A-Za-z]{2})\(([^()]*)\)", text))
