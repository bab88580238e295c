"""The reward for a right final answer."""

from collections.abc import Callable

from rewards.completion import Messages, judged_text, question
from rewards.verifier import CONTRACT, STRICT, judge_all, prepare


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
    """Return 1.0 for a right answer, 0.0 for a false one, None (which TRL skips) without a gold.

    `solution` has the golds as in the data set; where a row has a `check` (verifier/gold.py), it
    decides. A check that runs programs needs `run_programs`. The question is the `problem` column,
    or without one the last user message of the prompt. Logs `verifier/timeouts`, the number of
    answers whose judging was cut off.
    """
    texts = list(map(judged_text, completions))
    problems = columns.get("problem") or map(question, prompts or [""] * len(completions))
    questions = [problem or None for problem in problems]
    checks = columns.get("check")
    reading = STRICT if strict else CONTRACT
    verdicts = judge_all(
        texts, solution, questions, checks, reading=reading, run_programs=run_programs
    )
    if log_metric is not None:
        timeouts = [verdict for verdict in verdicts if verdict.timed_out]
        log_metric("verifier/timeouts", float(len(timeouts)))
    return [None if verdict.right is None else float(verdict.right) for verdict in verdicts]


correct_answer.prepare = prepare
