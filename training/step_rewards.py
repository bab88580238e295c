"""Process supervision (Shao et al. 2024, arXiv:2402.03300, section 4.1.3): a reward that is given for each step of a
completion. A step's tokens share in its reward and in the rewards of the steps after it.

The rewards of all steps of a group are normalised together. They stand beside whole completions' rewards, which trl
normalises by themselves: a token's advantage is the completion's, plus `weight` times the sum of the normalised rewards
of the steps that end at it or after it. Where no step has a reward, that is GRPO as trl has it.
"""

import json
from collections.abc import Callable, Sequence

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from tokenizers.decoders import DecodeStream

from schema.sections import Recipe

EPSILON = 1e-4  # trl adds it to a deviation that it divides by

Rewards = list[list[float | None]]
"""For each completion the rewards of its steps; None where a step has nothing to be judged."""


class StepRewards:
    """The step rewards of the batch that was scored last.

    `rewards`: see `Rewards`. `ends`: for each completion the tokens up to the end of each step.
    """

    def __init__(self, tokenizer, separator: str, weight: float):
        self.tokenizer, self.separator, self.weight = tokenizer, separator, weight
        self.rewards: Rewards = []
        self.ends: list[list[int]] = []

    def ask(
        self, function: Callable, completions: list, completion_ids: list, log_extra: Callable, **columns
    ) -> list[float | None]:
        """Ask a reward function about each step, and return for trl's log the mean over the steps of a completion; the
        column `steps` of the completions' files holds them all. The argument `steps_before` has for each step the texts
        of those before it in its completion."""
        split = [steps_of(self.tokenizer, ids, self.separator) for ids in completion_ids]
        owner = [i for i, steps in enumerate(split) for _ in steps]
        # A value of each row is that of each of its steps; the trainer's own arguments are no lists.
        repeated = {
            key: [value[i] for i in owner] if isinstance(value, list) and len(value) == len(completions) else value
            for key, value in columns.items()
        }
        repeated["steps_before"] = [[text for text, _ in steps[:i]] for steps in split for i in range(len(steps))]
        flat = iter(
            function(
                completions=[text for steps in split for text, _ in steps],
                completion_ids=[completion_ids[i] for i in owner],
                log_extra=lambda column, values: None,  # of steps, where trl has columns of completions
                **repeated,
            )
        )
        self.rewards = [[next(flat) for _ in steps] for steps in split]
        self.ends = [[end for _, end in steps] for steps in split]
        pairs = [list(zip(*each, strict=True)) for each in zip(self.ends, self.rewards, strict=True)]
        log_extra("steps", [json.dumps(each) for each in pairs])
        return [_mean(each) for each in self.rewards]

    def advantages(self, length: int, group_size: int, scale: str) -> torch.Tensor:
        """What the steps add to the advantages of this process's completions, of shape (completions, length)."""
        everywhere = gather_object(self.rewards)
        first = PartialState().process_index * len(self.rewards)
        mine = normalised(everywhere, group_size, scale)[first : first + len(self.rewards)]
        return self.weight * spread(mine, self.ends, length)


def steps_of(tokenizer, ids: Sequence[int], separator: str) -> list[tuple[str, int]]:
    """The steps of a completion, each with its text, and how many tokens there are up to its end. A step ends with the
    token that completes the separator, the last one with the completion."""
    stream, text, begun, steps = DecodeStream(skip_special_tokens=True), "", 0, []
    for number, token in enumerate(map(int, ids), 1):
        text += stream.step(tokenizer.backend_tokenizer, token) or ""
        at = text.rfind(separator, begun)
        if at >= 0:
            # Separators within one token end one step: no token can be told from itself.
            if text[begun:at].strip():
                steps.append((text[begun:at], number))
            begun = at + len(separator)
    if text[begun:].strip() or not steps:
        steps.append((text[begun:], len(ids)))
    else:
        steps[-1] = (steps[-1][0], len(ids))
    return steps


def normalised(rewards: Rewards, group_size: int, scale: str) -> Rewards:
    """The rewards less the mean over all steps of their group, divided by the deviation that `scale` names, as trl does
    with whole completions: over the steps of the group, or of the batch, or `none`. A step without a reward has 0.

    Args:
        rewards: of the completions of whole groups, in their order.
    """
    groups = [rewards[i : i + group_size] for i in range(0, len(rewards), group_size)]
    found = [[r for steps in group for r in steps if r is not None] for group in groups]
    of_batch = _deviation([r for group in found for r in group])
    result = []
    for group, there in zip(groups, found, strict=True):
        mean = sum(there) / len(there) if there else 0.0
        deviation = of_batch if scale == "batch" else _deviation(there)
        divisor = 1.0 if scale == "none" else deviation + EPSILON
        result += [[0.0 if r is None else (r - mean) / divisor for r in steps] for steps in group]
    return result


def spread(rewards: list[list[float]], ends: list[list[int]], length: int) -> torch.Tensor:
    """For each token the sum of the rewards of the steps that end at it or after it, of shape (completions, length)."""
    advantages = torch.zeros(len(rewards), length)
    for row, steps, tokens in zip(advantages, rewards, ends, strict=True):
        for reward, end in zip(steps, tokens, strict=True):
            row[:end] += reward
    return advantages


def _deviation(values: list[float]) -> float:
    return torch.tensor(values, dtype=torch.float64).std().item() if len(values) > 1 else 0.0


def _mean(values: list[float | None]) -> float | None:
    there = [each for each in values if each is not None]
    return sum(there) / len(there) if there else None


def step_rewards(recipe: Recipe, tokenizer) -> tuple[int, StepRewards] | None:
    """The place among the recipe's rewards of the one that is given for each step, if there is one."""
    for place, (name, options) in enumerate(recipe.rewards.items()):
        if "steps" in options:
            return place, StepRewards(tokenizer, options["steps"], recipe.weights[name])
    return None
