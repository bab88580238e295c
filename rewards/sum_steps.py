"""The reward for each step of a sum worked digit by digit: what process supervision needs, somebody
who knows."""

import re

from rewards.completion import Messages, content


def sum_steps(
    completions: list[str | Messages],
    problem: list[str],
    steps_before: list[list[str]] | None = None,
    **columns: object,
) -> list[float | None]:
    """1.0 for a step that the right solution of `What is 47 + 85?` has at its place (`7+5=12`, then
    `4+8+1=13`), 0.0 for another, None where the problem is no such sum. With `steps: ", "`, it is
    asked about each step.
    """
    before = steps_before or [[] for _ in completions]
    return [
        _at_its_place(content(text), *each)
        for text, *each in zip(completions, problem, before, strict=True)
    ]


def _at_its_place(step: str, problem: str, before: list[str]) -> float | None:
    asked = re.fullmatch(r"What is (\d+) \+ (\d+)\?", problem)
    if not asked or len(asked[1]) != len(asked[2]):
        return None
    right, carry = [], 0
    for x, y in zip(asked[1][::-1], asked[2][::-1], strict=True):
        total = int(x) + int(y) + carry
        right.append(f"{x}+{y}{'+1' * carry}={total}")
        carry = total // 10
    said = step.removeprefix("<think>").split("</think>")[0].strip()
    return float(len(before) < len(right) and said == right[len(before)])
