"""Times of day and durations: whether two of them are the same, as far as the question tells."""

import re
from collections.abc import Iterator

from rewards.verifier.notation import number
from rewards.verifier.phrases import BEFORE
from rewards.verifier.units import unit
from rewards.verifier.value import Clock, Measure, Quantity, Ratio

_TIME_NAMED = re.compile(r"(\d{1,2})(?::(\d\d))?\s*\\?,?\s*(?:\\text\{\s*)?([ap])\.?\s?m\b")
_PART_OF_DAY = re.compile(r"\b(morning|afternoon|evening)\b")
_ASKED = re.compile(r"(?:\b(?:in|into|to) (?=[a-z]+s\b)|how many )([a-z]+(?:(?:, | and |, and )[a-z]+)*)")
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
        same = clock.minutes in (minutes, minutes + 720) or (hour == 12 and clock.minutes == minutes - 720)
        return same and half_may_be(clock, question)
    return clock.minutes == minutes and (hour > 12 or hour == 0)


def half_may_be(clock: Clock, question: str) -> bool:
    """Whether the half of the day that an answer adds may be the one meant: "7:15 a.m." for 7:15 after a film that
    started at 6:30 p.m. is not."""
    named = [(int(h) % 12 * 60 + int(m or 0), half) for h, m, half in _TIME_NAMED.findall(question)]
    if clock.half is None or BEFORE.of(question.rpartition(". ")[2]):
        return True
    if not named:
        parts = {"a" if word == "morning" else "p" for word in _PART_OF_DAY.findall(question)}
        return len(parts) != 1 or clock.half in parts
    # It is later than each time named, by less than half a day.
    return any(clock.half == half if clock.minutes % 720 >= at else clock.half != half for at, half in named)


def told(question: str) -> bool:
    """Whether `question` names a time with its half of the day, or a part of the day."""
    return (_TIME_NAMED.search(question) or _PART_OF_DAY.search(question)) is not None


def durations(g: Measure | Quantity | Ratio, a: Measure | Quantity | Ratio, question: str) -> bool:
    """Measures part by part; those of time by their sum, `2 h 20 min` and `140 min`, where the question names no other
    units; and `2:20` or `1:23:20` by their parts."""
    if isinstance(g, Ratio) or isinstance(a, Ratio):
        measure, ratio = (a, g) if isinstance(g, Ratio) else (g, a)
        clock = [part.unit for part in measure.parts] in (["h", "min"], ["h", "min", "s"], ["min", "s"])
        return clock and [part.value for part in measure.parts] == [number(term) for term in ratio.terms]
    gs, items = ([(p.unit, p.value) for p in (x.parts if isinstance(x, Measure) else (x,))] for x in (g, a))
    asked = {name for name in _units(question) if name in _SMALLEST}
    if gs == items or not all(u in _SMALLEST for u, _ in gs + items) or (asked and asked != {u for u, _ in items}):
        return gs == items
    return sum(n * _SMALLEST[u] for u, n in gs) == sum(n * _SMALLEST[u] for u, n in items)


def _units(question: str) -> Iterator[str | None]:
    """The units that `question` asks for: "hours and minutes" of "Give it in hours and minutes."."""
    return (unit(word) for found in _ASKED.findall(question) for word in re.findall("[a-z]+", found))
