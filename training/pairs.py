"""Pairs of completions of one problem, the best and the worst of each group that a GRPO run wrote:
DPO learns from them."""

from pathlib import Path
from typing import NamedTuple

from data import prompt
from data.sources import DataError
from runs.folder import sampled_batches

COLUMNS = ("prompt", "completion", "advantage", "truncated")


class PreferencePair(NamedTuple):
    """`prompt`: the conversation. `chosen`, `rejected`: the text of the best and of the worst
    completion of its group. `truncated`: which of the two, in that order, did not end by
    themselves."""

    prompt: list[dict]
    chosen: str
    rejected: str
    truncated: tuple[bool, bool]

    @property
    def problem(self) -> str:
        return self.prompt[-1]["content"]


def preference_pairs(run: Path, size: int) -> tuple[list[PreferencePair], dict]:
    """The pairs in a GRPO run's files of completions, by step, and how many completions and groups
    there were.

    Within a group the advantage rises with the total reward, whatever it is divided by, so it names
    the best and the worst; the first of several. A group whose completions all earned the same has
    no pair.

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
                raise DataError(
                    f"{file}: rows {first} to {first + len(group) - 1} are not one group of a"
                    " GRPO run"
                )
            groups += 1
            best, worst = (pick(group, key=lambda row: row["advantage"]) for pick in (max, min))
            if best["advantage"] > worst["advantage"]:
                texts = [row["completion"][-1]["content"] for row in (best, worst)]
                found.append(
                    PreferencePair(best["prompt"], *texts, (best["truncated"], worst["truncated"]))
                )
    return found, {"completions": completions, "groups": groups, "pairs": len(found)}


def tokenised(pairs: list[PreferencePair], tokenizer, max_length: int | None) -> list[dict]:
    """`prompt_ids`, `chosen_ids` and `rejected_ids` of every pair whose two sequences fit into
    `max_length` tokens, as trl's DPOTrainer collates them; the prompt's are the same as in every
    other stage.

    A completion ends with the token that ends a turn where the policy had written it.
    """
    rows = []
    for each in pairs:
        ids = prompt.prompt_ids(tokenizer, each.prompt)
        chosen, rejected = (
            tokenizer(text, add_special_tokens=False)["input_ids"]
            + [tokenizer.eos_token_id] * (not cut)
            for text, cut in zip((each.chosen, each.rejected), each.truncated, strict=True)
        )
        if not max_length or len(ids) + max(len(chosen), len(rejected)) <= max_length:
            rows.append({"prompt_ids": ids, "chosen_ids": chosen, "rejected_ids": rejected})
    return rows
