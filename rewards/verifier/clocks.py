"""The rules that compare times of day, durations and ratios, as far as the question tells them
apart."""

import re
from fractions import Fraction

from .context import Context
from .numerals import number
from .value_types import Clock, Measure, Quantity, Ratio

_HALF_NAMED = re.compile(r"\d\s*\\?,?\s*(?:\\text\{\s*)?([ap])\.?\s?m\b")
_PART_OF_DAY = re.compile(r"\b(morning|afternoon|evening)\b")
_HALF_DAY = 720  # minutes


def times(
    gold: Clock | Ratio | Quantity, answer: Clock | Ratio | Quantity, context: Context
) -> bool:
    """A time against a time, a ratio that may be one (`3:30`), or a number of hours."""
    expected = _minutes(gold)
    written = _minutes(answer)
    if expected is None or written is None:
        return False
    gold_half = gold.half if isinstance(gold, Clock) else None
    answer_half = answer.half if isinstance(answer, Clock) else None
    if answer_half and not gold_half:
        if isinstance(gold, Quantity) or not _may_be_half(answer_half, context.question):
            return False
        if _may_be_either_half(expected):
            return (written - expected) % _HALF_DAY == 0
    is_half_open = isinstance(answer, Quantity) or _may_be_either_half(written)
    if gold_half and not answer_half and is_half_open:
        return False
    return expected == written


def _minutes(time: Clock | Ratio | Quantity) -> Fraction | int | None:
    """The minutes after midnight, as a time is written; None for `1:2:3`."""
    if isinstance(time, Clock):
        return time.minutes
    if isinstance(time, Quantity):
        return time.value * 60
    if len(time.terms) != 2 or not all(term.isdigit() for term in time.terms):
        return None
    hour, minute = map(int, time.terms)
    return hour * 60 + minute


def _may_be_either_half(minutes: Fraction | int) -> bool:
    """Whether an hour from 1 to 12 leaves the half of the day open."""
    return 60 <= minutes < 780


def _may_be_half(half: str, question: str) -> bool:
    """Whether an answer may add this half of the day: the question names no other part of the day,
    and no time from which the answer would have to be reckoned."""
    parts = {"a" if part == "morning" else "p" for part in _PART_OF_DAY.findall(question)}
    return _HALF_NAMED.search(question) is None and parts <= {half}


def measures(gold: Measure, answer: Measure, context: Context) -> bool:
    """Measures are the same part by part."""
    return gold.parts == answer.parts


def ratios(gold: Ratio | Quantity, answer: Ratio | Quantity, context: Context) -> bool:
    """Ratios are equal in proportion, `2:3` and `4:6`, unless they may be times."""
    expected = _terms(gold)
    written = _terms(answer)
    if len(expected) != len(written):
        return False
    if _may_be_time(gold) and _may_be_time(answer):
        return expected == written
    if bool(expected[0]) != bool(written[0]):
        return False
    pairs = zip(expected, written, strict=True)
    return all(gold_term * written[0] == term * expected[0] for gold_term, term in pairs)


def _may_be_time(ratio: Ratio | Quantity) -> bool:
    if not isinstance(ratio, Ratio) or len(ratio.terms) != 2:
        return False
    minute = ratio.terms[1]
    return len(minute) == 2 and minute < "60"


def _terms(ratio: Ratio | Quantity) -> list[Fraction]:
    """The terms of a ratio; the numerator and denominator of a fraction; none of a number that is
    written without a stroke, a point or a percent sign."""
    if isinstance(ratio, Ratio):
        return [number(term) for term in ratio.terms]
    if ratio.unit or ratio.percent or not re.search(r"[/.c]", ratio.written):
        return []
    return [Fraction(ratio.value.numerator), Fraction(ratio.value.denominator)]
