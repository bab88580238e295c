"""Data sets made on the spot, tasks to learn without a download: sums and products. One problem in
ten is `test`, whatever `rows` is."""

import json
import random
import zlib
from collections.abc import Iterator

from data.files import DataError


def _require(**ranges: tuple):
    """Raises a DataError for the first argument, (value, lowest, highest), that is out of its
    range."""
    for name, (value, low, high) in ranges.items():
        if value is not None and not low <= value <= high:
            raise DataError(f"{name} must be {low} to {high:,}, not {value}")


def _is_in(split: str, problem: str) -> bool:
    """By a checksum of the problem, so it never changes sides when `rows` does."""
    return (zlib.crc32(problem.encode()) % 10 == 0) == (split == "test")


def arithmetic(
    split: str, digits: int = 2, rows: int = 8000, slips: float = 0.0, repeats: int = 0
) -> list[dict]:
    """Distinct sums of two numbers of exactly `digits` digits.

    `slips` is the share of worked solutions that forget their carries, and so end in an incorrect
    `answer`: the mistakes that a careless teacher leaves for GRPO to correct. The gold `solution`
    is always correct. A worked solution says all of itself up to `repeats` times more, and no
    number changes: the length that a wordy teacher leaves for GRPO to cut. A row:

    `{"problem": "What is 47 + 85?", "solution": "132", "reasoning": "7+5=12, 4+8+1=13", "answer":
    "132"}`

    Raises:
        DataError: an argument is out of range.
    """
    _require(
        digits=(digits, 1, 9),
        rows=(rows, 1, 1_000_000),
        slips=(slips, 0, 1),
        repeats=(repeats, 0, 9),
    )
    draw_slip = random.Random(digits + 1)
    draw_repeats = random.Random(digits + 2)
    sums = []
    for a, b in _pairs(digits, rows):
        if not _is_in(split, f"{a}+{b}"):
            continue
        forgets = draw_slip.random() < slips
        worked = worked_sum(a, b, forgets, draw_repeats.randint(0, repeats))
        sums.append({"problem": f"What is {a} + {b}?", "solution": str(a + b), **worked})
    return sums


def _pairs(digits: int, rows: int) -> Iterator[tuple[int, int]]:
    """At most `rows` distinct pairs of numbers of exactly so many digits."""
    low = 10 ** (digits - 1)
    count = 9 * low
    if digits == 1:
        low = 0
        count = 10
    for pair in random.Random(digits).sample(range(count * count), min(rows, count * count)):
        yield low + pair // count, low + pair % count


def worked_sum(a: int, b: int, forgets: bool, again: int) -> dict[str, str]:
    """Addition digit by digit from the right, the carry written as `+1` unless it `forgets`
    carries, all of it `again` times more."""
    steps = []
    digits = ""
    carry = 0
    for x, y in zip(str(a)[::-1], str(b)[::-1], strict=True):
        total = int(x) + int(y) + carry
        step = f"{x}+{y}"
        if carry:
            step += "+1"
        steps.append(f"{step}={total}")
        digits = str(total % 10) + digits
        if not forgets:
            carry = total // 10
    return {"reasoning": ", ".join(steps * (1 + again)), "answer": str(total)[:-1] + digits}


def products(split: str, digits: int = 3, rows: int = 8000, calls: float = 0.25) -> list[dict]:
    """Distinct products of two numbers of `digits` digits, for the tool `calculator`. `calls` is
    the share of worked solutions that call it; the others guess, and end in an incorrect `answer`.
    A row:

    `{"problem": "What is 123 * 456?", "solution": "56088", "answer": "56088", "reasoning":
    '<tool_call>{"name": "calculator", "arguments": {"expression": "123*456"}}</tool_call>'}`

    Raises:
        DataError: an argument is out of range.
    """
    _require(digits=(digits, 2, 9), rows=(rows, 1, 1_000_000), calls=(calls, 0, 1))
    draw = random.Random(digits + 1)
    rows_of_split = []
    for a, b in _pairs(digits, rows):
        guess = str(a * b + draw.randint(1, 10 ** (digits - 1)))
        calls_tool = draw.random() < calls
        if not _is_in(split, f"{a}*{b}"):
            continue
        row = {"problem": f"What is {a} * {b}?", "solution": str(a * b)}
        if calls_tool:
            call = {"name": "calculator", "arguments": {"expression": f"{a}*{b}"}}
            row["reasoning"] = f"<tool_call>{json.dumps(call)}</tool_call>"
            row["answer"] = str(a * b)
        else:
            row["reasoning"] = f"{a}*{b}={guess}"
            row["answer"] = guess
        rows_of_split.append(row)
    return rows_of_split
