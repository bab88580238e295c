"""Sums that a policy can do in part: the teacher of its warm start forgets each carry by itself, so the more carries a
problem has, the rarer is a right answer, from nearly always to hardly ever."""

import random
import zlib

from data.made import worked_sum


def sums(split: str, digits: int = 4, forgotten: float = 0.7, rows: int = 8000) -> list[dict]:
    """Distinct sums of two numbers of `digits` digits, of which a tenth is `test`; `forgotten` is the chance of each
    carry in a worked solution to be left out. A row is one of `data.made`:

    `{"problem": "What is 47 + 85?", "solution": "132", "reasoning": "7+5=12, 4+8=12", "answer": "122"}`
    """
    numbers, made, seen = random.Random(digits), [], set()
    while len(made) < rows:
        pair = tuple(numbers.randrange(10 ** (digits - 1), 10**digits) for _ in range(2))
        forgets = [numbers.random() < forgotten for _ in range(digits)]
        if pair in seen:
            continue
        seen.add(pair)
        if (zlib.crc32(str(pair).encode()) % 10 == 0) == (split == "test"):
            a, b = pair
            made.append({"problem": f"What is {a} + {b}?", "solution": str(a + b), **worked_sum(a, b, forgets)})
    return made
