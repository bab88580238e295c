r"""Equality of two expressions by algebra. Imported in worker processes only: it loads sympy, and
it may never return.

LaTeX is read by math-verify's parser (latex2sympy2_extended). Equality is decided exactly where
both are rational, and else by evaluating both at fixed points to many digits, relative to their
size: 10^{-20} and 10^{-21} differ.
"""

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from random import Random

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, NormalizationConfig, latex2sympy
from sympy.core.function import AppliedUndef

from .context import Unreadable
from .wholes import TURNED

_NORMALIZATION = NormalizationConfig(basic_latex=True, malformed_operators=True, boxed="none")
_CONVERSION = ConversionConfig(lowercase_symbols=False)
_DIGITS = 60  # more where the texts have more: \sqrt{2.000…01} is not \sqrt{2}
_SLACK = 15  # of the digits computed, how many may differ
_OPERATIONS = (sympy.Sum, sympy.Product, sympy.Integral, sympy.Derivative, sympy.Limit)
_STEPS = (sympy.floor, sympy.ceiling, sympy.Mod)
_KINKS = (sympy.Abs, sympy.Max, sympy.Min)
# of both signs, with squares, powers and their neighbours
_INTEGERS = [*range(-4, 27), 31, 32, 63, 64, 65, 100, 128]
_AROUND_ZERO = [-2001, -29, *range(-5, 6, 2), *range(1, 8, 3), 12, 21, 2001]
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
    text = re.sub(r"(\d*)\.(\d+)", _decimal, text)
    text = re.sub(r"(\d+)\s*\^\\circ", r"(\1\\frac{\\pi}{180})", text)
    try:
        expression = latex2sympy(
            text, normalization_config=_NORMALIZATION, conversion_config=_CONVERSION
        )
    # The parser raises bare Exceptions, and whatever sympy raises on odd input.
    except Exception as error:
        raise Unreadable(text) from error
    if not isinstance(expression, sympy.Expr):
        raise Unreadable(text)
    letter = sympy.Symbol("i")
    return expression.subs(letter, sympy.I) if expression.has(letter) else expression


def _mixed(match: re.Match) -> str:
    """One fraction for a mixed number."""
    integer, top, bottom = map(int, match.groups())
    if not 0 < top < bottom:
        return match[0]
    return rf"\frac{{{integer * bottom + top}}}{{{bottom}}}"


def _decimal(match: re.Match) -> str:
    """A fraction for a decimal number."""
    return rf"\frac{{{int(match[1] + match[2])}}}{{{10 ** len(match[2])}}}"


def equal(gold: str, answer: str, worked_out: bool = True) -> bool:
    """Whether two expressions are equal and, with `worked_out`, the answer leaves no arithmetic
    that the gold does not.

    Raises `Unreadable` for a gold the parser cannot read.
    """
    expected = parse(gold)
    try:
        written = parse(answer)
    except Unreadable:
        return False
    if expected == written:
        return True
    digits = _DIGITS + max(_digits_of(gold), _digits_of(answer))
    if not _same_value(_evaluated(expected), _evaluated(written), digits):
        return False
    return not worked_out or not work_left(written) or work_left(expected)


def is_near(text: str, number: Fraction, distance: Fraction) -> bool:
    """Whether an expression without letters differs from a number by a distance at most."""
    try:
        expression = _evaluated(parse(text))
    except Unreadable:
        return False
    amount = _value_at(expression, [], ())
    if amount is None or not amount.is_real:
        return False
    return abs(amount - sympy.Rational(number)) <= sympy.Rational(distance)


def _digits_of(text: str) -> int:
    """By how many digits two numbers of `text` may differ: the digits of the longest number, or its
    largest power of ten."""
    lengths = [len(number) for number in re.findall(r"[\d.]+", text)]
    powers = [int(power) for power in re.findall(r"\^\s*\{?\s*-?\s*(\d{1,3})", text)]
    return max(lengths + powers, default=0)


def _same_value(gold, answer, digits: int) -> bool:
    """Whether two expressions are equal where the letters are numbers."""
    if gold.is_Rational and answer.is_Rational:
        return gold == answer
    difference = gold - answer
    if difference.is_Rational:
        return difference == 0
    names = _names(gold)
    if names != _names(answer):
        return False
    points = _points(gold, answer, names)
    for point in points[: len(_POINTS)]:
        is_lost = _is_term_lost(answer, names, point, digits)
        if is_lost and not _is_term_lost(gold, names, point, digits):
            return False
    return _same_at(points, gold, answer, names, digits)


def _points(gold, answer, names: list) -> list[tuple]:
    """The points at which to compare: for each a number for every name."""
    if not names:
        return [()]
    count = len(names)
    points = [_spread(point, count) for point in _POINTS]
    powers = gold.atoms(sympy.Pow) | answer.atoms(sympy.Pow)
    roots = [power for power in powers if power.base.free_symbols and not power.exp.is_Integer]
    both = gold + answer
    if both.has(*_STEPS):
        if all(str(name) in "klmnKMN" for name in names):  # integers by custom
            return _grid(count, _INTEGERS, 1)
        fractions = [point for parts in (1, 2, 3) for point in _grid(count, _INTEGERS, parts)]
        return [*points, *fractions]
    if both.has(*_KINKS) or any(_is_even(root.base) for root in roots):
        return [*points, *_grid(count, _AROUND_ZERO, 2)]
    # Under a root, variables are taken to be positive, as problems that simplify one mean them.
    return points[:3] if roots else points


def _is_even(radicand) -> bool:
    """Whether what stands under a root is an even power, as in `\\sqrt{(x-3)^2}`."""
    factors = [factor.as_base_exp() for factor in sympy.Mul.make_args(radicand)]
    powers = [exponent for base, exponent in factors if base.free_symbols]
    return bool(powers) and all(power.is_Integer and power % 2 == 0 for power in powers)


def _spread(point: tuple[int, int], count: int) -> tuple:
    start, step = point
    return tuple(sympy.Rational(start + step * n, 97 + 2 * n) for n in range(count))


def _grid(count: int, tops: Sequence[int], parts: int) -> list[tuple]:
    """Points at which step functions differ: whole numbers, halves or thirds."""
    if count == 1:
        return [(sympy.Rational(top, parts),) for top in tops]
    random = Random(count)
    chosen = [random.choices(tops, k=count) for _ in tops]
    return [tuple(sympy.Rational(top, parts) for top in point) for point in chosen]


def _same_at(points: list[tuple], gold, answer, names: list, digits: int) -> bool:
    """Whether the values agree at the points, of which one at least must have a value. Among many
    points those do not count at which the gold has no real value."""
    has_value = False
    for point in points:
        expected = _value_at(gold, names, point, digits)
        is_real = expected is not None and expected.is_real
        if not is_real and len(points) > len(_POINTS):
            continue
        written = _value_at(answer, names, point, digits)
        if expected is None and written is None:
            continue
        if expected is None or written is None or not _is_close(expected, written, digits):
            return False
        has_value = True
    return has_value


def _evaluated(expression):
    return expression.doit() if not expression.is_Atom else expression


def _names(expression) -> list:
    return sorted(expression.free_symbols | expression.atoms(AppliedUndef), key=str)


def _value_at(expression, names: list, point: tuple, digits: int = _DIGITS):
    """The value at a point, to so many digits, or None where it has none."""
    places = dict(zip(names, point, strict=True))
    result = expression.subs(places, simultaneous=True).evalf(digits, maxn=4 * digits)
    return result if result.is_number and result.is_finite else None


def _is_term_lost(expression, names: list, point: tuple, digits: int) -> bool:
    """Whether a sum has a term too small to show in its digits, as x + e^{-x^6} has at x = 7."""
    for node in expression.atoms(sympy.Add):
        values = [_value_at(term, names, point, _SLACK) for term in node.args]
        sizes = [abs(value) for value in values if value]
        if sizes and min(sizes) < max(sizes) * sympy.Float(10) ** (_SLACK - digits):
            return True
    return False


def _is_close(x, y, digits: int = _DIGITS) -> bool:
    tolerance = sympy.Float(10, digits) ** (_SLACK - digits)
    return bool(abs(x - y) <= tolerance * (abs(x) + abs(y)))


def equal_relations(gold: tuple[str, str, str], answer: tuple[str, str, str]) -> bool:
    """Whether two relations, both as (sign, first side, second side), say the same: the differences
    of their sides are proportional.

    Raises `Unreadable` for a gold the parser cannot read.
    """
    expected = parse(gold[1]) - parse(gold[2])
    try:
        written = parse(answer[1]) - parse(answer[2])
    except Unreadable:
        return False
    names = _names(expected)
    if names != _names(written):
        return False
    ratios = []
    for point in (_spread(point, len(names)) for point in _POINTS):
        top = _value_at(expected, names, point)
        bottom = _value_at(written, names, point)
        if top is None or not bottom:
            return False
        ratios.append(top / bottom)
    if not _signs_agree(gold[0], answer[0], ratios[0]) or ratios[0] == 0:
        return False
    return all(_is_close(ratio, ratios[0]) for ratio in ratios)


def _signs_agree(gold: str, answer: str, ratio) -> bool:
    """Whether the signs agree; an inequality is turned round by a negative `ratio` of the sides."""
    if gold not in TURNED:
        return gold == answer
    if not ratio.is_real:
        return False
    return answer == (gold if ratio > 0 else TURNED[gold])


def work_left(expression) -> bool:
    """Whether arithmetic is left to do: 40+2, x+x, 2·3√2, 2^5, √16, 5!, sin 30°, a sum or an
    integral."""
    return any(_unworked(node) for node in sympy.preorder_traversal(expression))


def _unworked(node) -> bool:
    if node.is_Add:
        terms = [_evaluated(term).as_coeff_Mul()[1] for term in node.args]
        return len(set(terms)) < len(terms) or sympy.S.Zero in node.args
    if node.is_Mul:
        return _unworked_product(node)
    if node.is_Pow:
        if not node.base.is_Rational or not node.exp.is_Rational:
            return False
        return node.exp != -1 if node.exp.is_Integer else _evaluated(node).is_Rational
    if isinstance(node, _OPERATIONS):
        return True
    if not isinstance(node, sympy.Function) or not node.is_number:
        return False
    return not _evaluated(node).has(node.func)


def _unworked_product(node) -> bool:
    numerators = 0
    denominators = 0
    powers: dict = {}
    for factor in sympy.Mul.make_args(node):
        base, exponent = factor.as_base_exp()
        if factor.is_Rational:
            if abs(factor.p) != 1:
                numerators += 1
            if factor.q != 1:
                denominators += 1
        elif base.is_Integer and exponent == -1:
            if abs(base) != 1:
                denominators += 1
        elif exponent.is_Integer and exponent > 0 and base.free_symbols:
            powers[base] = powers.get(base, 0) + 1
    return numerators > 1 or denominators > 1 or any(count > 1 for count in powers.values())
