"""The verifier as a reward of trl; README.md has the few lines that other libraries need."""

from collections.abc import Callable, Sequence

from . import CONTRACT, STRICT, judge_all
from .thoughts import last_turn

Messages = list[dict[str, str]]


def judged_text(completion: str | Messages) -> str:
    """Return the text of a completion that is judged: the model's last turn, see `last_turn`."""
    return last_turn(_texts(completion, "assistant"))


def _question(prompt: str | Messages) -> str:
    """Return the last user message, or all of a plain prompt."""
    return ["", *_texts(prompt, "user")][-1]


def _texts(messages: str | Messages, role: str) -> list[str]:
    """Return a plain text, or the texts of a role's messages; "" for one that has none (a call of a
    tool) or has parts instead (images)."""
    if isinstance(messages, str):
        return [messages]
    contents = [message.get("content") for message in messages if message.get("role", role) == role]
    return [content if isinstance(content, str) else "" for content in contents]


def correct_answer(
    completions: Sequence[str | Messages],
    solution: Sequence[object],
    prompts: Sequence[str | Messages] | None = None,
    *,
    strict: bool = False,
    tolerance: float = 0.0,
    log_metric: Callable[[str, float], None] | None = None,
    **columns: Sequence,
) -> list[float | None]:
    """A reward of `trl.GRPOTrainer`, for a data set with a `solution`.

    Return 1.0 for a correct answer, 0.0 for an incorrect one, None without a gold. The question is
    the `problem` column, or without one the last user message of the prompt. Logs
    `verifier/timeouts`, the number of answers whose judging was cut off.
    """
    texts = list(map(judged_text, completions))
    problems = columns.get("problem") or map(_question, prompts or [""] * len(completions))
    questions = [problem or None for problem in problems]
    reading = STRICT if strict else CONTRACT
    verdicts = judge_all(texts, solution, questions, reading=reading, tolerance=tolerance)
    if log_metric is not None:
        timeouts = [verdict for verdict in verdicts if verdict.timed_out]
        log_metric("verifier/timeouts", float(len(timeouts)))
    return [None if verdict.correct is None else float(verdict.correct) for verdict in verdicts]
