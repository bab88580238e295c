"""Pairs of completions of one problem. DPO learns from the best and the worst of each group that a GRPO run wrote; a
reward model from a right one and a wrong one (Ouyang et al. 2022, arXiv:2203.02155, section 3.5, with the verifier in
place of a person)."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from data import prompt
from data.sources import DataError
from runs.folder import sampled_batches
from schema.faults import RunStopped
from training.checkpoints import write_whole

COLUMNS = ("prompt", "completion", "advantage", "truncated")


PAIRS = "pairs.jsonl"  # beside a reward model, and in the checkpoints of a run that refreshes one
PER_GROUP = 4  # pairs at most: all of a group's are variations of a few texts, and would drown other problems
REPLAYED = 0.1  # of the new pairs, so many earlier ones: the paper's "10% of historical data"


class PreferencePair(NamedTuple):
    """`prompt`: the conversation. `chosen`, `rejected`: the text of the best and of the worst completion of its group.
    `truncated`: which of the two, in that order, did not end by themselves."""

    prompt: list[dict]
    chosen: str
    rejected: str
    truncated: tuple[bool, bool]

    @property
    def problem(self) -> str:
        return self.prompt[-1]["content"]


def preference_pairs(run: Path, size: int) -> tuple[list[PreferencePair], dict]:
    """The pairs in a GRPO run's files of completions, by step, and how many completions and groups there were.

    Within a group the advantage rises with the total reward, whatever it is divided by, so it names the best and the
    worst; the first of several. A group whose completions all earned the same has no pair.

    Args:
        size: of a group, whose rows follow one another in a file.

    Raises:
        DataError: a file is not what a run wrote.
    """
    found, completions, groups = [], 0, 0
    for file, rows in sampled_batches(run, COLUMNS):
        completions += len(rows)
        for first in range(0, len(rows), size):
            group = rows[first : first + size]
            if any(row["prompt"] != group[0]["prompt"] for row in group):
                raise DataError(f"{file}: rows {first} to {first + len(group) - 1} are not one group of a GRPO run")
            groups += 1
            best, worst = (pick(group, key=lambda row: row["advantage"]) for pick in (max, min))
            if best["advantage"] > worst["advantage"]:
                texts = [row["completion"][-1]["content"] for row in (best, worst)]
                found.append(PreferencePair(best["prompt"], *texts, (best["truncated"], worst["truncated"])))
    return found, {"completions": completions, "groups": groups, "pairs": len(found)}


def tokenised(pairs: list[PreferencePair], tokenizer, max_length: int | None) -> list[dict]:
    """`prompt_ids`, `chosen_ids` and `rejected_ids` of every pair whose two sequences fit into `max_length` tokens, as
    trl's DPOTrainer collates them; the prompt's are the same as in every other stage.

    A completion ends with the token that ends a turn where the policy had written it.
    """
    rows = []
    for each in pairs:
        ids = prompt.prompt_ids(tokenizer, each.prompt)
        chosen, rejected = (
            tokenizer(text, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id] * (not cut)
            for text, cut in zip((each.chosen, each.rejected), each.truncated, strict=True)
        )
        if not max_length or len(ids) + max(len(chosen), len(rejected)) <= max_length:
            rows.append({"prompt_ids": ids, "chosen_ids": chosen, "rejected_ids": rejected})
    return rows


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
    for asked, completion, verdict in zip(prompts, completions, verdicts, strict=True):
        text = "".join(turn["content"] for turn in completion)
        if verdict in (0, 1) and asked[-1]["content"] in problems:
            groups.setdefault(asked[-1]["content"], ({}, {}))[int(verdict)][text] = asked
    found = []
    for problem, (wrong, right) in groups.items():
        for (better, asked), worse in list(zip(right.items(), wrong, strict=False))[:PER_GROUP]:
            turns = [{"role": turn["role"], "content": turn["content"]} for turn in asked]
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
