"""The rules that compare times of day, durations and ratios, as far as the question tells them
apart."""

import re
from fractions import Fraction

from rewards.verifier.context import Context
from rewards.verifier.numerals import number
from rewards.verifier.phrases import BEFORE
from rewards.verifier.units import unit
from rewards.verifier.value_types import Clock, Measure, Quantity, Ratio

_TIME_NAMED = re.compile(r"(\d{1,2})(?::(\d\d))?\s*\\?,?\s*(?:\\text\{\s*)?([ap])\.?\s?m\b")
_ASKS_FOR_A_RATIO = re.compile(r"\b(?:ratio|proportion|odds|scale)\b")
_PART_OF_DAY = re.compile(r"\b(morning|afternoon|evening)\b")
_ASKS_FOR_UNITS = re.compile(
    r"(?:\b(?:in|into|to) (?=[a-z]+s\b)|how many )([a-z]+(?:(?:, | and |, and )[a-z]+)*)"
)
_SMALLEST = {"s": 1, "min": 60, "h": 3600, "day": 86400, "week": 604800, "¢": 1, "$": 100}
_CLOCK_UNITS = [["h", "min"], ["h", "min", "s"], ["min", "s"]]


def times(
    gold: Clock | Ratio | Quantity, answer: Clock | Ratio | Quantity, context: Context
) -> bool:
    """A time against a time, a ratio that may be one (`3:30`), or a number of hours."""
    if isinstance(answer, Quantity):
        return _is_hours(gold, answer)
    if isinstance(gold, Quantity):
        return _is_hours(answer, gold)
    if isinstance(answer, Ratio):
        # A gold "3:30" leaves the half of the day open, an answer must not.
        minutes = _minutes_meant(answer)[:1]
        return minutes == [gold.minutes] and not 1 <= int(answer.terms[0]) <= 12
    if isinstance(gold, Ratio):
        minutes = _minutes_meant(gold)
    elif gold.half or not answer.half:
        return gold.minutes == answer.minutes
    else:
        minutes = [gold.minutes, (gold.minutes + 720) % 1440]
    return answer.minutes in minutes and _half_may_be(answer, context.question)


def _minutes_meant(ratio: Ratio) -> list[int]:
    """The minutes after midnight that `3:30` may mean, as it is written first; none of `1:2:3`."""
    if len(ratio.terms) != 2 or not all(term.isdigit() for term in ratio.terms):
        return []
    hour, minute = map(int, ratio.terms)
    minutes = hour * 60 + minute
    if hour == 0:
        return [minutes]
    return [minutes, minutes + 720, minutes - 720] if hour == 12 else [minutes, minutes + 720]


def _is_hours(clock: Clock, hours: Quantity) -> bool:
    """Whether a number of hours is the time."""
    return clock.half is None and hours.value * 60 == clock.minutes


def _half_may_be(clock: Clock, question: str) -> bool:
    """Whether the half of the day that an answer adds may be the one meant: "7:15 a.m." for 7:15
    after a film that started at 6:30 p.m. is not."""
    if clock.half is None or BEFORE.is_in(question.rpartition(". ")[2]):
        return True
    times_named = _TIME_NAMED.findall(question)
    if not times_named:
        parts = {"a" if word == "morning" else "p" for word in _PART_OF_DAY.findall(question)}
        return len(parts) != 1 or clock.half in parts
    # It is later than each time named, by less than half a day.
    for hour, minute, half in times_named:
        is_same_half = clock.minutes % 720 >= int(hour) % 12 * 60 + int(minute or 0)
        if is_same_half == (clock.half == half):
            return True
    return False


def _names_half_of_day(question: str) -> bool:
    """Whether `question` names a time with its half of the day, or a part of the day."""
    return (_TIME_NAMED.search(question) or _PART_OF_DAY.search(question)) is not None


def durations(
    gold: Measure | Quantity | Ratio, answer: Measure | Quantity | Ratio, context: Context
) -> bool:
    """Measures part by part; times by their sum, `2 h 20 min` and `140 min`, where the question
    names no other units; and `2:20` or `1:23:20` by their parts."""
    if isinstance(gold, Ratio):
        return _is_duration(gold, answer)
    if isinstance(answer, Ratio):
        return _is_duration(answer, gold)
    expected = _parts(gold)
    written = _parts(answer)
    if expected == written:
        return True
    units = {name for name, _ in written}
    if not units <= _SMALLEST.keys() or not all(name in _SMALLEST for name, _ in expected):
        return False
    units_asked_for = _units_named(context.question) & _SMALLEST.keys()
    if units_asked_for and units_asked_for != units:
        return False
    return _sum_of_parts(expected) == _sum_of_parts(written)


def _is_duration(ratio: Ratio, measure: Measure) -> bool:
    """Whether `2:20` has the parts of the measure."""
    if [part.unit for part in measure.parts] not in _CLOCK_UNITS:
        return False
    return [part.value for part in measure.parts] == [number(term) for term in ratio.terms]


def _parts(measure: Measure | Quantity) -> list[tuple[str, Fraction]]:
    """The units of a measure with their numbers."""
    parts = measure.parts if isinstance(measure, Measure) else (measure,)
    return [(part.unit, part.value) for part in parts]


def _sum_of_parts(parts: list[tuple[str, Fraction]]) -> Fraction:
    return sum(amount * _SMALLEST[name] for name, amount in parts)


def _units_named(question: str) -> set[str | None]:
    """The units that `question` asks for: "hours and minutes" of "Give it in hours and
    minutes."."""
    phrases = " ".join(_ASKS_FOR_UNITS.findall(question))
    return {unit(word) for word in re.findall("[a-z]+", phrases)}


def ratios(gold: Ratio | Quantity, answer: Ratio | Quantity, context: Context) -> bool:
    """Ratios are equal in proportion, `2:3` and `4:6`, unless they may be times."""
    asks_for_a_ratio = _ASKS_FOR_A_RATIO.search(context.question)
    is_spoken = isinstance(answer, Ratio) and answer.spoken
    if is_spoken and not isinstance(gold, Ratio) and not asks_for_a_ratio:
        return False  # "2 to 3" for 2/3 may be a range
    if _is_bare(gold) or _is_bare(answer):
        # 5 is 5:1 where a ratio is asked for, and 5/1 is
        is_to_one = isinstance(answer, Ratio) and answer.terms[1:] == ("1",)
        if not asks_for_a_ratio or not is_to_one:
            return False
    expected = _terms(gold)
    written = _terms(answer)
    if expected is None or written is None or len(expected) != len(written):
        return False
    if _may_be_time(gold) and _may_be_time(answer):
        return expected == written or _is_twelve_hours_later(expected, written, context.question)
    if bool(expected[0]) != bool(written[0]):
        return False
    pairs = zip(expected, written, strict=True)
    return all(gold_term * written[0] == term * expected[0] for gold_term, term in pairs)


def _is_bare(number: Ratio | Quantity) -> bool:
    """Whether a number is written without a fraction, a point or a percent sign."""
    return isinstance(number, Quantity) and not re.search(r"[/.,c%]", number.written)


def _may_be_time(ratio: Ratio | Quantity) -> bool:
    if not isinstance(ratio, Ratio) or len(ratio.terms) != 2:
        return False
    minute = ratio.terms[1]
    return len(minute) == 2 and minute < "60"


def _is_twelve_hours_later(
    expected: list[Fraction], written: list[Fraction], question: str
) -> bool:
    """Whether 19:15 is written for 7:15, and the question tells the half of the day."""
    hour, minute = written
    if hour != expected[0] + 12 or minute != expected[1] or hour >= 24:
        return False
    later = Clock(int(hour) * 60 + int(minute), "p")
    return _names_half_of_day(question) and _half_may_be(later, question)


def _terms(ratio: Ratio | Quantity) -> list[Fraction] | None:
    """The terms of a ratio; the numerator and denominator of a fraction."""
    if isinstance(ratio, Ratio):
        return [number(term) for term in ratio.terms]
    if ratio.unit or ratio.percent:
        return None
    return [Fraction(ratio.value.numerator), Fraction(ratio.value.denominator)]
