"""The reward for a correct answer in few tokens."""

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
    """Return for a correct answer the share of `longest` tokens that it does not need, 0.0 to 1.0;
    for a false answer 0.0, however short; None without a gold.

    The shorter of two correct answers earns more, as in Yeo et al. 2025 (arXiv:2502.03373), by a
    straight line in place of their cosine. A completion is judged by itself: the rest of its group
    may be with another process.
    """
    rewards = correct_answer(completions, solution, prompts, problem=columns.get("problem"))
    # In steps of 1/256 a group of equal shares has an exact mean in float32, hence no spurious
    # advantage.
    for n, ids in enumerate(completion_ids):
        if rewards[n] is not None:
            rewards[n] *= round(256 * max(0, longest - len(ids)) / longest) / 256
    return rewards
