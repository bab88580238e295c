"""The verifier in the forms of libraries that train or evaluate. A library is imported when its
function is called.

Where no gold can be read, `correct_answer` returns None, which trl leaves out, and the scorer of
inspect NaN, which is unscored; the remaining libraries need a number, and get 0.0.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import CONTRACT, STRICT, judge, judge_all
from .thoughts import last_turn

__all__ = ["compute_score", "correct_answer", "inspect_scorer", "process_results"]
__all__ += ["rubric_function", "task_reward"]

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
    run_programs: bool = False,
    log_metric: Callable[[str, float], None] | None = None,
    **columns: Sequence,
) -> list[float | None]:
    """A reward of `trl.GRPOTrainer`, for a data set with a `solution`.

    Return 1.0 for a right answer, 0.0 for a false one, None without a gold. Where a row has a
    `check` (gold.py), it decides; one that runs programs needs `run_programs`. The question is the
    `problem` column, or without one the last user message of the prompt. Logs `verifier/timeouts`,
    the number of answers whose judging was cut off.
    """
    texts = list(map(judged_text, completions))
    problems = columns.get("problem") or map(_question, prompts or [""] * len(completions))
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


async def rubric_function(
    completion: str | Messages, answer: str, prompt: str | Messages = "", **columns: object
) -> float:
    """A function of a `verifiers.Rubric`, in its versions before 0.2."""
    # In a thread: other rollouts go on while the algebra takes its time.
    verdict = await asyncio.to_thread(
        judge, judged_text(completion), answer, question=_question(prompt) or None
    )
    return float(bool(verdict.right))


async def task_reward(task: Any, trace: Any) -> float:
    """A reward of a task of `verifiers.v1`, whose data has an `answer`."""
    verdict = await asyncio.to_thread(
        judge, trace.last_reply, task.answer, question=task.prompt_text or None
    )
    return float(bool(verdict.right))


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping | None = None,
    **columns: object,
) -> float:
    """A custom reward function of verl, whose preprocessing puts the question in `extra_info`."""
    verdict = judge(solution_str, ground_truth, question=(extra_info or {}).get("question"))
    return float(bool(verdict.right))


def process_results(
    doc: Mapping, results: Sequence[str], gold: str = "answer", question: str = "question"
) -> dict:
    """The metric `correct` of a task of lm-eval; `gold` and `question` are columns of `doc`."""
    verdict = judge(results[0], doc[gold], question=doc.get(question))
    return {"correct": float(bool(verdict.right))}


def inspect_scorer() -> Any:
    """A scorer of Inspect, for samples whose target is the gold."""
    from inspect_ai.scorer import Score, accuracy, scorer, stderr

    @scorer(metrics=[accuracy(), stderr()])
    def correct_answer():
        async def score(state, target):
            verdict = await asyncio.to_thread(
                judge, state.output.completion, target.text, question=state.input_text
            )
            value = float("nan") if verdict.right is None else float(verdict.right)
            return Score(value=value, answer=verdict.answer, explanation=verdict.reason)

        return score

    return correct_answer()
