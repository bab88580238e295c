"""Pairs of completions of one problem, a right one and a wrong one, from what a GRPO run wrote; and how often a reward
model that learned from some of them is right about others."""

import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from data.sources import DataError
from evaluation.statistics import interval
from runs.folder import sampled_batches
from training.pairs import PER_GROUP, RewardPair
from training.reward_model import RewardModel

COLUMNS = ("prompt", "completion", "correct_answer")
MEASURED = 0.2  # of the problems
LEAST = 50  # problems: of fewer, less than ten would be measured, and their accuracy be known to ±30 points at best


def reward_pairs(run: Path, problems: set[str], seed: int) -> list[RewardPair]:
    """Of each group that the run's files hold, up to `PER_GROUP` pairs, no completion in two of them.

    Args:
        problems: the training data's. What a file holds of others is left out: held-out problems above all.

    Raises:
        DataError: a file of the run is not one of completions.
    """
    rng, found = random.Random(seed), {}
    for file, rows in sampled_batches(run, COLUMNS):
        groups = defaultdict(lambda: ([], [], set()))
        try:
            for row in rows:
                prompt = [{"role": turn["role"], "content": turn["content"]} for turn in row["prompt"]]
                wrong, right, seen = groups[prompt[-1]["content"]]
                text = "".join(turn["content"] for turn in row["completion"])
                if row["correct_answer"] in (0, 1) and text not in seen:
                    (right if row["correct_answer"] else wrong).append((prompt, text))
                    seen.add(text)
        except (TypeError, KeyError, IndexError) as error:  # a run may be a stranger's
            raise DataError(f"{file}: its prompts and completions are not the messages that a run writes") from error
        for problem in [each for each in groups if each in problems]:
            wrong, right, _ = groups[problem]
            both = zip(rng.sample(right, len(right)), rng.sample(wrong, len(wrong)), strict=False)
            for (prompt, better), (_, worse) in list(both)[:PER_GROUP]:
                found.setdefault((problem, better, worse), RewardPair(problem, prompt, better, worse))
    return list(found.values())


def split(pairs: Sequence[RewardPair], seed: int) -> tuple[list[RewardPair], list[RewardPair]]:
    """(pairs to learn from, pairs to measure on), which share no problem."""
    problems = sorted({each.problem for each in pairs})
    measured = set(random.Random(seed).sample(problems, round(MEASURED * len(problems))))
    return [p for p in pairs if p.problem not in measured], [p for p in pairs if p.problem in measured]


def accuracy(model: RewardModel, pairs: Sequence[RewardPair]) -> dict:
    """How often the model puts the right completion of a pair above the wrong one, a tie counting as half: the mean
    over problems, with its 95% interval. A pair that is too long for the model counts as wrong."""
    rows = [each.row() for each in pairs]
    scores = model.scores([row["prompt"] + row[answer] for row in rows for answer in ("chosen", "rejected")])
    of_problem = defaultdict(list)
    for each, right, wrong in zip(pairs, scores[::2], scores[1::2], strict=True):
        told = 0.0 if right is None or wrong is None else (right > wrong) + (right == wrong) / 2
        of_problem[each.problem].append(told)
    shares = [sum(each) / len(each) for each in of_problem.values()]
    low, high = interval(shares)
    figures = {"pairs": len(pairs), "problems": len(shares), "accuracy": sum(shares) / len(shares)}
    return figures | {"low": low, "high": high}
