"""The reward for each step of a sum worked digit by digit. Process supervision needs a judge of
single steps, and for these sums a rule is enough."""

import re

from rewards.completion import Messages, content


def sum_steps(
    completions: list[str | Messages],
    problem: list[str],
    steps_before: list[list[str]] | None = None,
    **columns: object,
) -> list[float | None]:
    """1.0 for a step that the correct solution of `What is 47 + 85?` has in the same place
    (`7+5=12`, then `4+8+1=13`), 0.0 for any other step, None where the problem is no such sum. With
    `steps: ", "` in the recipe, every step is a completion here.

    Args:
        steps_before: the earlier steps of each completion.
    """
    earlier = steps_before or [[] for _ in completions]
    return [
        _step_reward(content(completion), question, steps)
        for completion, question, steps in zip(completions, problem, earlier, strict=True)
    ]


def _step_reward(step: str, problem: str, earlier: list[str]) -> float | None:
    operands = re.fullmatch(r"What is (\d+) \+ (\d+)\?", problem)
    if not operands or len(operands[1]) != len(operands[2]):
        return None
    solution = []
    carry = 0
    for x, y in zip(operands[1][::-1], operands[2][::-1], strict=True):
        total = int(x) + int(y) + carry
        sign = "+1" if carry else ""
        solution.append(f"{x}+{y}{sign}={total}")
        carry = total // 10
    place = len(earlier)
    if place >= len(solution):
        return 0.0
    text = step.removeprefix("<think>").split("</think>")[0].strip()
    return float(text == solution[place])
