"""The reward for a right final answer."""

from collections.abc import Callable

from rewards.completion import Messages, answered, question
from rewards.verifier import judge_all, prepare


def correct_answer(
    completions: list[str | Messages],
    solution: list[str],
    prompts: list[str | Messages] | None = None,
    *,
    strict: bool = False,
    run_programs: bool = False,
    log_metric: Callable[[str, float], None] | None = None,
    **columns: list,
) -> list[float | None]:
    """1.0 for a right answer, 0.0 for a wrong one, None (which TRL skips) if there is no gold to
    judge by.

    `solution` holds the golds as the data set has them; where a row has a `check` (data/gold.py),
    that decides. One that runs programs needs `run_programs`. The question is the `problem` column,
    or without one the last user message of the prompt. Logs `verifier/timeouts`, the number of
    answers whose judging was cut off.
    """
    questions = columns.get("problem") or [question(p) for p in prompts or [""] * len(completions)]
    texts = [answered(c) for c in completions]
    questions, checks = [each or None for each in questions], columns.get("check")
    verdicts = judge_all(
        texts, solution, questions, checks, strict=strict, run_programs=run_programs
    )
    if log_metric is not None:
        log_metric("verifier/timeouts", float(sum(v.timed_out for v in verdicts)))
    return [None if v.right is None else float(v.right) for v in verdicts]


correct_answer.prepare = prepare
