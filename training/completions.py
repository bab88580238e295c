"""What a run writes of each completion beside its text, rewards and advantage, for those who look at it later: the gold
answer, how many tokens it has, and whether the limit cut it off."""

import functools
from collections.abc import Callable


def recorded(function: Callable, ends: set[int]) -> Callable:
    """A reward function that also gives trl the columns `gold`, `tokens` and `truncated` of each batch.

    Args:
        ends: the ids of the tokens that end a completion.
    """

    @functools.wraps(function)
    def reward(log_extra: Callable[[str, list], None], completion_ids, solution, **columns):
        log_extra("gold", [str(each) for each in solution])
        log_extra("tokens", [len(each) for each in completion_ids])
        log_extra("truncated", [not len(each) or int(each[-1]) not in ends for each in completion_ids])
        return function(log_extra=log_extra, completion_ids=completion_ids, solution=solution, **columns)

    return reward
