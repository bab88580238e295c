"""Sums that a policy can do in part: the teacher of its warm start forgets each carry by itself, so the more carries a
problem has, the rarer is a right answer, from nearly always to hardly ever."""

import random
import zlib


def sums(split: str, digits: int = 4, forgotten: float = 0.7, rows: int = 8000) -> list[dict]:
    """Distinct sums of two numbers of `digits` digits, of which a tenth is `test`; `forgotten` is the chance of each
    carry in a worked solution to be left out. A row is one of `data.arithmetic`:

    `{"problem": "What is 47 + 85?", "solution": "132", "reasoning": "7+5=12, 4+8=12", "answer": "122"}`
    """
    numbers, rows_, seen = random.Random(digits), [], set()
    while len(rows_) < rows:
        pair = tuple(numbers.randrange(10 ** (digits - 1), 10**digits) for _ in range(2))
        forgets = [numbers.random() < forgotten for _ in range(digits)]
        if pair in seen:
            continue
        seen.add(pair)
        if (zlib.crc32(str(pair).encode()) % 10 == 0) == (split == "test"):
            a, b = pair
            reasoning, answer = _worked(a, b, forgets)
            row = {"problem": f"What is {a} + {b}?", "solution": str(a + b)}
            rows_.append(row | {"reasoning": reasoning, "answer": answer})
    return rows_


def _worked(a: int, b: int, forgets: list[bool]) -> tuple[str, str]:
    """The steps from the right, and the answer that they give."""
    steps, answer, carry = [], "", 0
    for x, y, forget in zip(str(a)[::-1], str(b)[::-1], forgets, strict=True):
        total = int(x) + int(y) + carry
        steps.append(f"{x}+{y}" + ("+1" if carry else "") + f"={total}")
        answer = str(total % 10) + answer
        carry = 0 if forget else total // 10
    return ", ".join(steps), str(total)[:-1] + answer
