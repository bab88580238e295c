"""Process supervision: a reward for each step of a completion (Shao et al. 2024, arXiv:2402.03300,
section 4.1.3).

A step's tokens share in its reward and in the rewards of the steps after it. The rewards of all
steps of a group are normalised together, apart from the rewards of completions, which trl
normalises: a token's advantage is the completion's, plus `weight` times the sum of the normalised
rewards of the steps that end at it or after it. Where no step has a reward, that is GRPO as trl has
it.
"""

import json
from collections.abc import Callable, Sequence

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from tokenizers.decoders import DecodeStream

from schema.recipe import Recipe

EPSILON = 1e-4  # trl adds it to a standard deviation that it divides by
# For each completion the rewards of its steps; None where the function gave a step no reward.
StepScores = list[list[float | None]]


def attach_step_rewards(recipe: Recipe, tokenizer, functions: list) -> "StepRewards | None":
    """Make the reward with the option `steps` score each step; None if no reward has it."""
    for function in functions:
        options = recipe.rewards[function.name]
        if "steps" in options:
            steps = StepRewards(tokenizer, options["steps"], recipe.weights[function.name])
            function.by_step = steps.score
            return steps
    return None


class StepAdvantages:
    """Adds the steps' advantages to those of completions, in a trainer whose `steps` is a
    `StepRewards`. trl's loss accepts advantages of shape (completions, tokens) from a subclass."""

    def _generate_and_score_completions(self, inputs: list[dict]) -> dict:
        output = super()._generate_and_score_completions(inputs)
        if self.model.training:  # an evaluation has no groups
            length = output["completion_ids"].shape[1]
            step_advantages = self.steps.advantages(
                length, self.num_generations, self.scale_rewards
            )
            advantages = output["advantages"][:, None]
            output["advantages"] = advantages + step_advantages.to(advantages.device)
        return output


class StepRewards:
    """The step rewards of the batch that was scored last.

    `ends`: for each completion the tokens up to the end of each step.
    """

    def __init__(self, tokenizer, separator: str, weight: float):
        self.tokenizer = tokenizer
        self.separator = separator
        self.weight = weight
        self.rewards: StepScores = []
        self.ends: list[list[int]] = []

    def score(
        self, function: Callable, completions: list, completion_ids: list, log_extra, **columns
    ) -> list[float | None]:
        """Score each step by a reward function, and return for trl's log each completion's mean
        over its steps; the column `steps` of the completions' files holds every step's reward. The
        function gets for each step the texts of the steps before it, as `steps_before`."""
        texts = []
        steps_before = []
        owners = []  # for each step the place of its completion
        self.ends = []
        for row, ids in enumerate(completion_ids):
            steps = split_steps(self.tokenizer, ids, self.separator)
            step_texts = [text for text, _ in steps]
            self.ends.append([end for _, end in steps])
            texts += step_texts
            owners += [row] * len(steps)
            steps_before += [step_texts[:place] for place in range(len(steps))]
        # A step has its completion's value of each column; the trainer's arguments are no lists.
        for name, values in columns.items():
            if isinstance(values, list) and len(values) == len(completions):
                columns[name] = [values[row] for row in owners]
        scores = function(
            completions=texts,
            completion_ids=[completion_ids[row] for row in owners],
            # trl logs columns of completions, and none of steps
            log_extra=lambda column, values: None,
            **columns | {"steps_before": steps_before},
        )
        self.rewards = [[] for _ in completion_ids]
        for row, score in zip(owners, scores, strict=True):
            self.rewards[row].append(score)
        column = []
        for ends, rewards in zip(self.ends, self.rewards, strict=True):
            column.append(json.dumps(list(zip(ends, rewards, strict=True))))
        log_extra("steps", column)
        return [_mean(row) for row in self.rewards]

    def advantages(self, length: int, group_size: int, scale: str) -> torch.Tensor:
        """What the steps add to the advantages of this process's completions, of shape
        (completions, length)."""
        rewards = gather_object(self.rewards)
        first = PartialState().process_index * len(self.rewards)
        normalised = normalise(rewards, group_size, scale)
        local = normalised[first : first + len(self.rewards)]
        return self.weight * spread(local, self.ends, length)


def split_steps(tokenizer, ids: Sequence[int], separator: str) -> list[tuple[str, int]]:
    """The steps of a completion as (text, tokens up to its end). A step ends with the token that
    completes the separator, the last step with the completion."""
    stream = DecodeStream(skip_special_tokens=True)
    steps = []
    text = ""
    begin = 0
    for number, token in enumerate(map(int, ids), 1):
        text += stream.step(tokenizer.backend_tokenizer, token) or ""
        place = text.rfind(separator, begin)
        if place >= 0:
            # Several separators within one token end one step: a token belongs to one step.
            if text[begin:place].strip():
                steps.append((text[begin:place], number))
            begin = place + len(separator)
    if text[begin:].strip() or not steps:
        steps.append((text[begin:], len(ids)))
    else:
        steps[-1] = (steps[-1][0], len(ids))
    return steps


def normalise(rewards: StepScores, group_size: int, scale: str) -> list[list[float]]:
    """The rewards less the mean over all steps of their group, divided by the standard deviation
    that `scale` names, as trl does with whole completions: over the steps of the group, or of the
    batch, or `none`. A step without a reward has 0.

    Args:
        rewards: the step rewards of the completions of complete groups, in their order.
    """
    batch_deviation = _deviation(_scored(rewards))
    normalised = []
    for first in range(0, len(rewards), group_size):
        group = rewards[first : first + group_size]
        scored = _scored(group)
        mean = _mean(scored) or 0.0
        if scale == "none":
            divisor = 1.0
        elif scale == "batch":
            divisor = batch_deviation + EPSILON
        else:
            divisor = _deviation(scored) + EPSILON
        for row in group:
            values = []
            for reward in row:
                value = mean if reward is None else reward
                values.append((value - mean) / divisor)
            normalised.append(values)
    return normalised


def spread(rewards: list[list[float]], ends: list[list[int]], length: int) -> torch.Tensor:
    """For each token the sum of the rewards of the steps that end at it or after it, of shape
    (completions, length)."""
    advantages = torch.zeros(len(rewards), length)
    for row, steps, tokens in zip(advantages, rewards, ends, strict=True):
        for reward, end in zip(steps, tokens, strict=True):
            row[:end] += reward
    return advantages


def shares_of_steps(
    texts: list[str], group_size: int, weight: float, scale: str
) -> list[list[dict] | None]:
    """The column `steps` of a run's file, for the page: for each step `end`, the number of tokens
    up to its end, `reward`, and `share`, what the step adds to the advantage of these tokens. None
    for a completion without steps."""
    batch = []
    rewards = []
    for text in texts:
        steps = json.loads(text)
        batch.append(steps)
        rewards.append([reward for _, reward in steps])
    result = []
    for steps, advantages in zip(batch, normalise(rewards, group_size, scale), strict=True):
        rows = []
        for (end, reward), advantage in zip(steps, advantages, strict=True):
            share = float(f"{weight * advantage:.6g}")
            digits = None if reward is None else float(f"{reward:.6g}")
            rows.append({"end": end, "reward": digits, "share": share})
        result.append(rows or None)
    return result


def _scored(rewards: StepScores) -> list[float]:
    """All rewards that are numbers."""
    return [reward for row in rewards for reward in row if reward is not None]


def _deviation(values: list[float]) -> float:
    if len(values) < 2:
        return 0.0
    return torch.tensor(values, dtype=torch.float64).std().item()


def _mean(values: list[float | None]) -> float | None:
    scored = _scored([values])
    if not scored:
        return None
    return sum(scored) / len(scored)
