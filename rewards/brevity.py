"""The reward for a right answer in few tokens."""

from rewards.completion import Messages
from rewards.correct_answer import correct_answer


def brevity(
    completions: list[str | Messages],
    completion_ids: list[list[int]],
    solution: list[str],
    prompts: list[str | Messages] | None = None,
    *,
    longest: int,
    **columns: object,
) -> list[float | None]:
    """For a right answer the share of `longest` tokens that it does not need, 0.0 to 1.0; for a
    wrong one 0.0, however short; None where there is no gold to judge by.

    Of two right answers the shorter earns more, as in Yeo et al. 2025 (arXiv:2502.03373), by a
    straight line in place of their cosine. A completion is judged by itself: others of its group
    may be with another process. Programs are not judged.
    """
    right = correct_answer(
        completions, solution, prompts, problem=columns.get("problem"), check=columns.get("check")
    )
    # In steps of 1/256 a group of equal shares has an exact mean in float32, hence no spurious
    # advantage.
    left = [round(256 * max(0, longest - len(ids)) / longest) / 256 for ids in completion_ids]
    return [None if paid is None else paid * share for paid, share in zip(right, left, strict=True)]
