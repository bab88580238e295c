"""The pairs that a reward model learns from: of one problem a right completion and a wrong one (Ouyang et al. 2022,
arXiv:2203.02155, section 3.5, with the verifier in place of a person)."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from schema.faults import RunStopped
from training.checkpoints import write_whole

PAIRS = "pairs.jsonl"  # beside a reward model, and in the checkpoints of a run that refreshes one
PER_GROUP = 4  # pairs at most: all of a group's are variations of a few texts, and would drown other problems
REPLAYED = 0.1  # of the new pairs, so many earlier ones: the paper's "10% of historical data"


class RewardPair(NamedTuple):
    """`prompt`: the conversation that asks for both."""

    problem: str
    prompt: list[dict[str, str]]
    right: str
    wrong: str

    def row(self) -> dict:
        """As trl's RewardTrainer reads it."""
        answers = {"chosen": self.right, "rejected": self.wrong}
        return {"prompt": self.prompt} | {
            key: [{"role": "assistant", "content": text}] for key, text in answers.items()
        }


def pairs_of_batch(
    prompts: list, completions: list, verdicts: list[float | None], problems: set[str]
) -> list[RewardPair]:
    """Of each group of a batch up to `PER_GROUP` pairs, in the order in which they were sampled; no completion in two.

    Args:
        prompts: of each completion, as messages; a group has one, whose last message is the problem.
        verdicts: 1.0 for a right completion and 0.0 for a wrong one.
        problems: the training data's; of others, the held-out ones above all, there are no pairs.
    """
    groups: dict[str, tuple[dict, dict]] = {}
    for prompt, completion, verdict in zip(prompts, completions, verdicts, strict=True):
        text = "".join(turn["content"] for turn in completion)
        if verdict in (0, 1) and prompt[-1]["content"] in problems:
            groups.setdefault(prompt[-1]["content"], ({}, {}))[int(verdict)][text] = prompt
    found = []
    for problem, (wrong, right) in groups.items():
        for (better, prompt), worse in list(zip(right.items(), wrong, strict=False))[:PER_GROUP]:
            turns = [{"role": turn["role"], "content": turn["content"]} for turn in prompt]
            found.append(RewardPair(problem, turns, better, worse))
    return found


def replayed(new: Sequence[RewardPair], earlier: Sequence[RewardPair], seed: int) -> list[RewardPair]:
    """The earlier pairs that are learned again beside the new ones: a tenth as many, where there are so many."""
    return random.Random(seed).sample(earlier, min(len(earlier), round(REPLAYED * len(new))))


def write_pairs(file: Path, pairs: Sequence[RewardPair]):
    """A line of JSON for each; the file is there whole or not at all."""
    write_whole(file, "".join(json.dumps(each._asdict()) + "\n" for each in pairs))


def read_pairs(file: Path) -> list[RewardPair]:
    """What `write_pairs` wrote.

    Raises:
        RunStopped: the file is not there, or is not one of pairs.
    """
    try:
        pairs = [RewardPair(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
        for each in pairs:  # a reward model may be a stranger's
            turns = [turn[key] for turn in each.prompt for key in ("role", "content")]
            if not turns or not all(isinstance(text, str) for text in (each.problem, each.right, each.wrong, *turns)):
                raise ValueError("a pair is not made of texts")
        return pairs
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise RunStopped(f"{file} is not what a run wrote ({type(error).__name__}: {error!s:.200})") from error
