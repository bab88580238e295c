"""Counts the groups that give the policy no signal to learn from.

A group whose completions all earn the same has zero advantages and teaches nothing. trl's `frac_reward_zero_std` takes
the standard deviation in float32, where that of eight equal rewards of 1.2 is 1e-7, and so misses such groups.
"""

import functools
import math
from collections.abc import Callable, Sequence

from accelerate import PartialState

METRIC = "groups_without_signal"


def without_signal(earned: Sequence[float | None], group_size: int, first: int = 0) -> float | None:
    """The share of complete groups among these completions whose rewards are all equal.

    Args:
        earned: the weighted reward of each completion; None, where no reward scored it, leaves it out of its group.
        first: the index of the first of them among the completions of all processes; a group begins at each multiple
            of `group_size`.

    Returns:
        a share from 0 to 1, or None where no group is complete.
    """
    starts = range(-first % group_size, len(earned) - group_size + 1, group_size)
    flat = [len({round(r, 6) for r in earned[i : i + group_size] if r is not None}) <= 1 for i in starts]
    return sum(flat) / len(flat) if flat else None


def counted(functions: list[Callable], weights: list[float], group_size: int) -> list[Callable]:
    """The reward functions of a recipe, which log `groups_without_signal` when the last of them has been called.

    With several processes, each counts the groups that are complete in its own batch, and trl averages the shares.
    """
    values: dict[int, list] = {}

    def observed(i: int, function: Callable) -> Callable:
        # trl names a reward after its function.
        @functools.wraps(function.func if isinstance(function, functools.partial) else function)
        def reward(log_metric: Callable[[str, float], None], **columns):
            rewards = list(function(log_metric=log_metric, **columns))
            values[i] = rewards
            if len(values) == len(functions):
                per_completion = zip(*(values[n] for n in range(len(functions))), strict=True)
                values.clear()
                earned = [_sum(each, weights) for each in per_completion]
                first = PartialState().process_index * len(earned)
                share = without_signal(earned, group_size, first)
                if share is not None and _in_groups(columns["prompts"][-first % group_size :], group_size):
                    log_metric(METRIC, share)
            return rewards

        return reward

    return [observed(i, function) for i, function in enumerate(functions)]


def _in_groups(prompts: list, group_size: int) -> bool:
    """Whether these prompts form groups: held-out problems are answered once each, and do not."""
    return all(prompt == prompts[0] for prompt in prompts[:group_size])


def _sum(rewards: tuple, weights: list[float]) -> float | None:
    scored = [w * r for r, w in zip(rewards, weights, strict=True) if r is not None and not math.isnan(r)]
    return sum(scored) if scored else None
