"""Nearness, for golds that were measured or rounded: a number within a tolerance of the gold's
counts as it, where the caller sets one."""

import re
from fractions import Fraction

from .notation import plain
from .numerals import NUMBER, number
from .scalars import quantity
from .units import without_prefixes
from .value import value
from .value_types import Quantity

_BEFORE_A_POWER = re.compile(r"[\^_]\s*\{?\s*\Z")
_PLACES = 13  # decimals of a number that ends there


def brought_to(gold: str, answer: str, tolerance: float) -> str:
    """Return `answer` with the number of `gold` for its own, where it has one number and that is
    nearer than `tolerance` times the gold's; else the answer itself.

    Units that differ in a prefix alone are compared by their size: 313.9 m and 0.314 km.
    """
    expected = value(gold)
    if not isinstance(expected, Quantity) or expected.unit == "ordinal":
        return answer
    spelled = plain(answer)
    matches = list(NUMBER.finditer(spelled))
    matches = [match for match in matches if not _BEFORE_A_POWER.search(spelled[: match.start()])]
    amount = number(matches[0][0]) if len(matches) == 1 else None
    if amount is None:
        return answer
    before, behind = spelled[: matches[0].start()], spelled[matches[0].end() :]
    typed = quantity((matches[0][0] + behind).strip(" .$"))
    unit, size = without_prefixes(typed.unit if typed else "")
    wanted_unit, wanted_size = without_prefixes(expected.unit)
    ratio = wanted_size / size if unit == wanted_unit else Fraction(1)
    wanted = expected.value * ratio
    if amount == wanted or abs(amount - wanted) > Fraction(tolerance) * abs(wanted):
        return answer
    return f"{before} {_written(wanted)}{behind}".strip()


def _written(amount: Fraction) -> str:
    """A number as a decimal, or as a fraction where it has no end as one."""
    sign = "-" if amount < 0 else ""
    for places in range(_PLACES):
        digits = abs(amount) * 10**places
        if digits.denominator == 1:
            text = str(digits.numerator).zfill(places + 1)
            return f"{sign}{text[: len(text) - places]}.{text[len(text) - places :]}".rstrip(".")
    return rf"{sign}\frac{{{abs(amount.numerator)}}}{{{amount.denominator}}}"
