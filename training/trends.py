"""Whether numbers differ by more than their noise: the mean of successive values, their rise, and
how many of the same problems were won and lost."""

import math
from itertools import pairwise
from typing import NamedTuple

SUSPECT = 0.1  # the chance of a loss below which a run is worth a look


class Mean(NamedTuple):
    """`error`: two standard errors."""

    value: float
    error: float

    @property
    def low(self) -> float:
        return self.value - self.error

    @property
    def high(self) -> float:
        return self.value + self.error


def exactly(value: float) -> Mean:
    return Mean(float(value), 0.0)


def is_beyond(number: Mean | None, side: str, bound: float) -> bool:
    """Whether a number is clearly above or below a bound."""
    if number is None:
        return False
    return number.low > bound if side == ">" else number.high < bound


def mean(values: list[float]) -> Mean:
    """The mean, with its noise estimated from the differences of successive values (von Neumann
    1941), which a trend hardly raises."""
    n = len(values)
    steps = sum((after - value) ** 2 for value, after in pairwise(values))
    return Mean(sum(values) / n, 2 * math.sqrt(steps / 2 / max(1, n - 1) / n))


def rises(values: list[float]) -> bool:
    """Whether the second half of the values is higher than the first, beyond their noise."""
    half = len(values) // 2
    if half < 2:
        return False
    before = mean(values[:half])
    after = mean(values[-half:])
    return after.value - before.value > math.hypot(before.error, after.error)


def fell(best: str, now: str) -> bool:
    """Whether clearly more of the same problems were lost since than won: McNemar's z above 2."""
    won, lost = flips(best, now)
    return lost - won > 2 * math.sqrt(lost + won)


def flips(before: str, now: str) -> tuple[int, int]:
    """How many of the same problems were won, and lost."""
    pairs = list(zip(before, now, strict=False))
    return pairs.count(("0", "1")), pairs.count(("1", "0"))


def may_have_fallen(won: int, lost: int) -> bool:
    """Whether as uneven a split has a chance below one in ten where nothing changed: the one-sided
    sign test. It is worth a look, and no proof: 4 of 4 lost are, at 1/16."""
    n = won + lost
    return n > 0 and sum(math.comb(n, k) for k in range(lost, n + 1)) < SUSPECT * 2**n
