"""Addition problems made on the spot: a task to learn without a download, with answers that nobody can argue about."""

import random
import zlib
from collections.abc import Sequence

from data.sources import DataError


def arithmetic(split: str, digits: int = 2, rows: int = 8000, slips: float = 0.0, repeats: int = 0) -> list[dict]:
    """Distinct sums of two numbers of exactly `digits` digits; one in ten is `test`, whatever `rows` is.

    `slips` is the share of worked solutions that forget their carries, and so end in a wrong `answer`: the mistakes
    that a careless teacher leaves for GRPO to correct. The gold `solution` is always right. A worked solution says all
    of itself up to `repeats` times more, and no number changes: the length that a wordy teacher leaves for GRPO to cut.
    A row:

    `{"problem": "What is 47 + 85?", "solution": "132", "reasoning": "7+5=12, 4+8+1=13", "answer": "132"}`

    Raises:
        DataError: an argument is out of range.
    """
    ranges = [
        ("digits", digits, 1, 9),
        ("rows", rows, 1, 1_000_000),
        ("slips", slips, 0, 1),
        ("repeats", repeats, 0, 9),
    ]
    for name, value, low, high in ranges:
        if not low <= value <= high:
            raise DataError(f"{name} must be {low} to {high:,}, not {value}")
    low, count = (0, 10) if digits == 1 else (10 ** (digits - 1), 9 * 10 ** (digits - 1))
    pairs = random.Random(digits).sample(range(count * count), min(rows, count * count))
    problems = [(low + pair // count, low + pair % count) for pair in pairs]
    # A checksum of the problem decides its split, so a problem never changes sides when `rows` does.
    is_test = [zlib.crc32(f"{a}+{b}".encode()) % 10 == 0 for a, b in problems]
    slipped, repeated = random.Random(digits + 1), random.Random(digits + 2)
    return [
        {
            "problem": f"What is {a} + {b}?",
            "solution": str(a + b),
            **worked(a, b, [slipped.random() < slips] * digits, repeated.randint(0, repeats)),
        }
        for (a, b), test in zip(problems, is_test, strict=True)
        if test == (split == "test")
    ]


def worked(a: int, b: int, forgets: Sequence[bool], again: int = 0) -> dict[str, str]:
    """Addition digit by digit from the right, the carry written as `+1`, all of it `again` times more. `forgets` says
    for each digit, from the right too, whether the carry out of it is forgotten; out of the last digit none is."""
    steps, digits, carry = [], "", 0
    for x, y, forget in zip(str(a)[::-1], str(b)[::-1], forgets, strict=True):
        total = int(x) + int(y) + carry
        steps.append(f"{x}+{y}" + ("+1" if carry else "") + f"={total}")
        digits = str(total % 10) + digits
        carry = 0 if forget else total // 10
    return {"reasoning": ", ".join(steps * (1 + again)), "answer": str(total)[:-1] + digits}
