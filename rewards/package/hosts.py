"""The verifier in the forms of libraries that train or evaluate. A library is imported when its
function is called.

Where no gold can be read, `correct_answer` returns None, which trl leaves out, and the scorer of
inspect NaN, which is unscored; the remaining libraries need a number, and get 0.0.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from rewards.completion import Messages, judged_text, question

# a reward of trl.GRPOTrainer, for a data set with a `solution`
from rewards.correct_answer import correct_answer
from rewards.verifier import judge

__all__ = [
    "compute_score",
    "correct_answer",
    "inspect_scorer",
    "process_results",
    "rubric_function",
    "task_reward",
]


async def rubric_function(
    completion: str | Messages, answer: str, prompt: str | Messages = "", **columns: object
) -> float:
    """A function of a `verifiers.Rubric`, in its versions before 0.2."""
    # In a thread: other rollouts go on while the algebra takes its time.
    verdict = await asyncio.to_thread(
        judge, judged_text(completion), answer, question=question(prompt) or None
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
