r"""Equality of two expressions by algebra. Imported in worker processes only: it loads sympy, and
it may never return.

LaTeX is read by math-verify's parser (latex2sympy2_extended). Equality is decided exactly where
both are rational, and else by evaluating both at fixed points to many digits, relative to their
size: 10^{-20} and 10^{-21} differ.
"""

import re
from fractions import Fraction
from functools import lru_cache

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, NormalizationConfig, latex2sympy
from sympy.core.function import AppliedUndef

from rewards.verifier.context import Unreadable
from rewards.verifier.wholes import TURNED

_NORMALIZATION = NormalizationConfig(basic_latex=True, malformed_operators=True, boxed="none")
_CONVERSION = ConversionConfig(lowercase_symbols=False)
_DIGITS = 60  # more where the texts have more: \sqrt{2.000…01} is not \sqrt{2}
_SLACK = 15  # of the digits computed, how many may differ
# No two of them multiplicatively or additively related; the last rounds are negative.
_POINTS = [(739, 311), (433, 877), (1259, 503), (-617, 401), (-283, 769)]


@lru_cache(maxsize=4096)
def parse(text: str):
    """The sympy expression of `text`, unevaluated as far as the parser leaves it, with exact
    decimals."""
    # The parser would add the numbers, and drop the base.
    if re.search(r"(?<![_\d])\d+\s+\d|(?<![a-zA-Z}]\^)(?<![a-zA-Z] \^)[\d)]\s*_", text):
        raise Unreadable(text)
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    text = re.sub(r"(?<![\d_])(\d+)\s*\\frac\{(\d+)\}\{(\d+)\}", _mixed, text)
    text = re.sub(
        r"(\d*)\.(\d+)", lambda m: rf"\frac{{{int(m[1] + m[2])}}}{{{10 ** len(m[2])}}}", text
    )
    text = re.sub(r"(\d+)\s*\^\\circ", r"(\1\\frac{\\pi}{180})", text)
    try:
        expression = latex2sympy(
            text, normalization_config=_NORMALIZATION, conversion_config=_CONVERSION
        )
    except (
        Exception
    ) as error:  # the parser raises bare Exceptions and whatever sympy does on odd input
        raise Unreadable(text) from error
    if not isinstance(expression, sympy.Expr):
        raise Unreadable(text)
    return (
        expression.subs(sympy.Symbol("i"), sympy.I)
        if expression.has(sympy.Symbol("i"))
        else expression
    )


def _mixed(match: re.Match) -> str:
    whole, top, bottom = map(int, match.groups())
    return rf"\frac{{{whole * bottom + top}}}{{{bottom}}}" if 0 < top < bottom else match[0]


def equal(gold: str, answer: str, worked_out: bool = True) -> bool:
    """Whether two expressions are equal and, with `worked_out`, the answer leaves no arithmetic
    that the gold does not.

    Raises `Unreadable` for a gold the parser cannot read.
    """
    expected = parse(gold)
    try:
        given = parse(answer)
    except Unreadable:
        return False
    if expected == given:
        return True
    if not _same_value(expected, given, _DIGITS + max(_digits_of(gold), _digits_of(answer))):
        return False
    return not worked_out or not work_left(given) or work_left(expected)


def _digits_of(text: str) -> int:
    """How many digits a number of `text` may differ from another by: its own, or those of its power
    of ten."""
    powers = [int(n) for n in re.findall(r"\^\s*\{?\s*-?\s*(\d{1,3})", text)]
    return max([len(n) for n in re.findall(r"[\d.]+", text)] + powers, default=0)


def _same_value(a, b, digits: int) -> bool:
    a, b = _evaluated(a), _evaluated(b)
    if a.is_Rational and b.is_Rational:
        return a == b
    if (difference := a - b).is_Rational:
        return difference == 0
    names = _names(a)
    if names != _names(b):
        return False
    # Under a root, variables are taken to be positive, as problems that simplify one mean them.
    roots = any(p.base.free_symbols and not p.exp.is_Integer for p in a.atoms(sympy.Pow))
    points = _POINTS[:3] if roots else _POINTS
    points = points if names else points[:1]
    if any(_lost(b, names, p, digits) and not _lost(a, names, p, digits) for p in points):
        return False
    values = [(_at(a, names, p, digits), _at(b, names, p, digits)) for p in points]
    values = [(x, y) for x, y in values if x is not None or y is not None]
    return bool(values) and all(None not in (x, y) and _close(x, y, digits) for x, y in values)


def _evaluated(expression):
    return expression.doit() if not expression.is_Atom else expression


def _names(expression) -> list:
    return sorted(expression.free_symbols | expression.atoms(AppliedUndef), key=str)


def _at(expression, names: list, point: tuple[int, int], digits: int = _DIGITS):
    """The value at a fixed rational point, to so many digits, or None where there is none."""
    start, step = point
    places = {name: sympy.Rational(start + step * n, 97 + 2 * n) for n, name in enumerate(names)}
    result = expression.subs(places, simultaneous=True).evalf(digits, maxn=4 * digits)
    return result if result.is_number and result.is_finite else None


def _lost(expression, names: list, point: tuple[int, int], digits: int) -> bool:
    """Whether a sum has a term too small to show in its digits, as that of x + e^{-x^6} at x =
    7."""
    for node in expression.atoms(sympy.Add):
        sizes = [abs(x) for x in (_at(term, names, point, _SLACK) for term in node.args) if x]
        if sizes and min(sizes) < max(sizes) * sympy.Float(10) ** (_SLACK - digits):
            return True
    return False


def _close(x, y, digits: int = _DIGITS) -> bool:
    return bool(abs(x - y) <= sympy.Float(10, digits) ** (_SLACK - digits) * (abs(x) + abs(y)))


def close(exact: str, rounded: Fraction, places: int) -> bool:
    """Whether a constant differs from its rounding by no more than one unit of its last place."""
    number = _at(_evaluated(parse(exact)), [], _POINTS[0])
    difference = (
        None
        if number is None
        else abs(number - sympy.Rational(rounded.numerator, rounded.denominator))
    )
    return difference is not None and bool(difference * 10**places <= 1)


def equal_relations(gold: tuple[str, str, str], answer: tuple[str, str, str]) -> bool:
    """Whether (sign, left, right) twice say the same: the differences of their sides are
    proportional."""
    (sign, *sides), (other_sign, *other_sides) = gold, answer
    a = parse(sides[0]) - parse(sides[1])
    try:
        b = parse(other_sides[0]) - parse(other_sides[1])
    except Unreadable:
        return False
    names = _names(a)
    if names != _names(b):
        return False
    ratios = [(_at(a, names, p), _at(b, names, p)) for p in _POINTS]
    if any(x is None or not y for x, y in ratios):
        return False
    ratios = [x / y for x, y in ratios]
    if sign in TURNED:
        wanted = 1 if sign == other_sign else -1 if TURNED[sign] == other_sign else 0
        if not ratios[0].is_real or ratios[0] * wanted <= 0:
            return False
    elif sign != other_sign:
        return False
    return all(_close(r, ratios[0]) for r in ratios) and ratios[0] != 0


def work_left(expression) -> bool:
    """Whether arithmetic is left to do: 40+2, x+x, 2·3√2, 2^5, √16, 5!, sin 30°, a sum or an
    integral."""
    return any(_unworked(node) for node in sympy.preorder_traversal(expression))


def _unworked(node) -> bool:
    if node.is_Add:
        terms = [_evaluated(t).as_coeff_Mul()[1] for t in node.args]
        return len(set(terms)) < len(terms) or sympy.S.Zero in node.args
    if node.is_Mul:
        return _unworked_product(node)
    if node.is_Pow:
        if not node.base.is_Rational or not node.exp.is_Rational:
            return False
        return node.exp != -1 if node.exp.is_Integer else _evaluated(node).is_Rational
    if isinstance(
        node, sympy.Sum | sympy.Product | sympy.Integral | sympy.Derivative | sympy.Limit
    ):
        return True
    return (
        isinstance(node, sympy.Function) and node.is_number and not _evaluated(node).has(node.func)
    )


def _unworked_product(node) -> bool:
    numerators = denominators = 0
    powers: dict = {}
    for factor in sympy.Mul.make_args(node):
        base, exponent = factor.as_base_exp()
        if factor.is_Rational:
            numerators += abs(factor.p) != 1
            denominators += factor.q != 1
        elif base.is_Integer and exponent == -1:
            denominators += abs(base) != 1
        elif exponent.is_Integer and exponent > 0 and base.free_symbols:
            powers[base] = powers.get(base, 0) + 1
    return numerators > 1 or denominators > 1 or any(n > 1 for n in powers.values())
