"""Times of day, durations and ratios: whether two of them are the same, as far as the question
tells."""

import re
from collections.abc import Iterator
from fractions import Fraction

from rewards.verifier.notation import number
from rewards.verifier.phrases import BEFORE
from rewards.verifier.units import unit
from rewards.verifier.value import Clock, Measure, Quantity, Ratio

_TIME_NAMED = re.compile(r"(\d{1,2})(?::(\d\d))?\s*\\?,?\s*(?:\\text\{\s*)?([ap])\.?\s?m\b")
_RATIO_ASKED = re.compile(r"\b(?:ratio|proportion|odds|scale)\b")
_PART_OF_DAY = re.compile(r"\b(morning|afternoon|evening)\b")
_ASKED = re.compile(
    r"(?:\b(?:in|into|to) (?=[a-z]+s\b)|how many )([a-z]+(?:(?:, | and |, and )[a-z]+)*)"
)
_SMALLEST = {"s": 1, "min": 60, "h": 3600, "day": 86400, "week": 604800, "¢": 1, "$": 100}


def times(g: Clock | Ratio | Quantity, a: Clock | Ratio | Quantity, question: str) -> bool:
    """A time against a time, a ratio that may be one (`3:30`), or a number of hours."""
    if isinstance(g, Clock) and isinstance(a, Clock):
        same = g.minutes == a.minutes
        if g.half or not a.half:
            return same
        return (same or (g.minutes + 720) % 1440 == a.minutes) and half_may_be(a, question)
    clock, other = (g, a) if isinstance(g, Clock) else (a, g)
    if isinstance(other, Quantity):
        return clock.half is None and other.value * 60 == clock.minutes
    if len(other.terms) != 2 or not all(term.isdigit() for term in other.terms):
        return False
    hour, minute = map(int, other.terms)
    minutes = hour * 60 + minute
    # A gold "3:30" leaves the half of the day open, an answer must not.
    if other is g:
        same = clock.minutes in (minutes, minutes + 720 * (hour > 0)) or (
            hour == 12 and clock.minutes == minutes - 720
        )
        return same and half_may_be(clock, question)
    return clock.minutes == minutes and (hour > 12 or hour == 0)


def half_may_be(clock: Clock, question: str) -> bool:
    """Whether the half of the day that an answer adds may be the one meant: "7:15 a.m." for 7:15
    after a film that started at 6:30 p.m. is not."""
    named = [(int(h) % 12 * 60 + int(m or 0), half) for h, m, half in _TIME_NAMED.findall(question)]
    if clock.half is None or BEFORE.is_in(question.rpartition(". ")[2]):
        return True
    if not named:
        parts = {"a" if word == "morning" else "p" for word in _PART_OF_DAY.findall(question)}
        return len(parts) != 1 or clock.half in parts
    # It is later than each time named, by less than half a day.
    return any(
        clock.half == half if clock.minutes % 720 >= at else clock.half != half
        for at, half in named
    )


def told(question: str) -> bool:
    """Whether `question` names a time with its half of the day, or a part of the day."""
    return (_TIME_NAMED.search(question) or _PART_OF_DAY.search(question)) is not None


def durations(g: Measure | Quantity | Ratio, a: Measure | Quantity | Ratio, question: str) -> bool:
    """Measures part by part; those of time by their sum, `2 h 20 min` and `140 min`, where the
    question names no other units; and `2:20` or `1:23:20` by their parts."""
    if isinstance(g, Ratio) or isinstance(a, Ratio):
        measure, ratio = (a, g) if isinstance(g, Ratio) else (g, a)
        clock = [part.unit for part in measure.parts] in (
            ["h", "min"],
            ["h", "min", "s"],
            ["min", "s"],
        )
        return clock and [part.value for part in measure.parts] == [
            number(term) for term in ratio.terms
        ]
    gs, items = (
        [(p.unit, p.value) for p in (x.parts if isinstance(x, Measure) else (x,))] for x in (g, a)
    )
    asked = {name for name in _units(question) if name in _SMALLEST}
    if (
        gs == items
        or not all(u in _SMALLEST for u, _ in gs + items)
        or (asked and asked != {u for u, _ in items})
    ):
        return gs == items
    return sum(n * _SMALLEST[u] for u, n in gs) == sum(n * _SMALLEST[u] for u, n in items)


def _units(question: str) -> Iterator[str | None]:
    """The units that `question` asks for: "hours and minutes" of "Give it in hours and
    minutes."."""
    return (
        unit(word) for found in _ASKED.findall(question) for word in re.findall("[a-z]+", found)
    )


def ratios(g: Ratio | Quantity, a: Ratio | Quantity, question: str) -> bool:
    """Ratios are equal in proportion, `2:3` and `4:6`, unless they may be times."""
    asked = _RATIO_ASKED.search(question)
    if isinstance(a, Ratio) and a.spoken and not isinstance(g, Ratio) and not asked:
        return False  # "2 to 3" for 2/3 may be a range
    bare = any(isinstance(x, Quantity) and not re.search(r"[/.,c%]", x.written) for x in (g, a))
    if bare and not (asked and isinstance(a, Ratio) and a.terms[1:] == ("1",)):
        return False  # 5 is 5:1 where a ratio is asked for, and 5/1 is
    p, q = _terms(g), _terms(a)
    if p is None or q is None or len(p) != len(q):
        return False
    if all(
        isinstance(x, Ratio) and len(x.terms) == len(x.terms[1]) == 2 and x.terms[1] < "60"
        for x in (g, a)
    ):
        # They may be times: 19:15 is 7:15 where the question tells the half of the day.
        later = (
            Clock(int(p[0] + 12) * 60 + int(p[1]), "p")
            if (p[0] + 12, p[1]) == tuple(q) and q[0] < 24
            else None
        )
        return p == q or bool(later and told(question) and half_may_be(later, question))
    return all(x * q[0] == y * p[0] for x, y in zip(p, q, strict=True)) and bool(p[0]) == bool(q[0])


def _terms(x: Ratio | Quantity) -> list[Fraction] | None:
    """The terms of a ratio; those of a fraction are its numerator and denominator."""
    if isinstance(x, Ratio):
        return [number(term) for term in x.terms]
    return (
        None
        if x.unit or x.percent
        else [Fraction(x.value.numerator), Fraction(x.value.denominator)]
    )
