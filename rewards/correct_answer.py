"""The reward for a right final answer."""

from collections.abc import Callable, Sequence

from rewards.verifier.verdict import judge_all


def correct_answer(
    completions: Sequence,
    solution: Sequence,
    prompts: Sequence | None = None,
    *,
    strict: bool = False,
    log_metric: Callable[[str, float], None] | None = None,
    **columns: Sequence,
) -> list[float | None]:
    """1.0 for a right answer, 0.0 for a wrong one, None (TRL skips it) where the gold cannot be judged.

    `solution` holds the golds as the data set has them. The question is the `problem` column, else the last user
    message of the prompt. Logs `verifier/timeouts`, the number of answers whose algebra was cut off.
    """
    questions = columns.get("problem") or [_question(p) for p in prompts or [None] * len(completions)]
    verdicts = judge_all([text(c) for c in completions], solution, questions, strict=strict)
    if log_metric is not None:
        log_metric("verifier/timeouts", float(sum(v.timed_out for v in verdicts)))
    return [None if v.right is None else float(v.right) for v in verdicts]


def text(completion: str | Sequence[dict]) -> str:
    """The text of a completion, conversational or plain."""
    return completion if isinstance(completion, str) else "".join(m.get("content") or "" for m in completion)


def _question(prompt: str | Sequence[dict] | None) -> str | None:
    if prompt is None or isinstance(prompt, str):
        return prompt
    content = next((m["content"] for m in reversed(prompt) if m["role"] == "user"), None)
    return content if isinstance(content, str) else None
