"""DPO's training data: pairs of completions of one problem, the best and the worst of each group
that a GRPO run wrote."""

from pathlib import Path
from typing import NamedTuple

from data import prompt
from data.sources import DataError
from runs.folder import sampled_batches

COLUMNS = ("prompt", "completion", "advantage", "truncated")


class PreferencePair(NamedTuple):
    """`prompt`: the conversation. `chosen`, `rejected`: the texts of the best and the worst
    completion of a group. `truncated`: for each of the two, in this order, whether it was cut off.
    """

    prompt: list[dict]
    chosen: str
    rejected: str
    truncated: tuple[bool, bool]

    @property
    def problem(self) -> str:
        return self.prompt[-1]["content"]


def preference_pairs(run: Path, size: int) -> tuple[list[PreferencePair], dict]:
    """The pairs in a GRPO run's files of completions, by step, and the numbers of completions,
    groups and pairs.

    Within a group the advantage rises with the total reward, whatever it is divided by, so it
    determines the best and the worst; the first of several. A group whose completions all earned
    the same has no pair.

    Args:
        size: the number of completions of a group; they follow one another in a file.

    Raises:
        DataError: a file is not what a run wrote.
    """
    pairs = []
    completions = 0
    groups = 0
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
            best = max(group, key=lambda row: row["advantage"])
            worst = min(group, key=lambda row: row["advantage"])
            if best["advantage"] > worst["advantage"]:
                pair = PreferencePair(
                    prompt=best["prompt"],
                    chosen=best["completion"][-1]["content"],
                    rejected=worst["completion"][-1]["content"],
                    truncated=(best["truncated"], worst["truncated"]),
                )
                pairs.append(pair)
    return pairs, {"completions": completions, "groups": groups, "pairs": len(pairs)}


def tokenise_pairs(pairs: list[PreferencePair], tokenizer, max_length: int | None) -> list[dict]:
    """`prompt_ids`, `chosen_ids` and `rejected_ids` of every pair whose two sequences fit into
    `max_length` tokens, as trl's DPOTrainer collates them; the prompt's tokens are the same as in
    every other stage.
    """
    rows = []
    for pair in pairs:
        ids = prompt.prompt_ids(tokenizer, pair.prompt)
        chosen = _completion_ids(tokenizer, pair.chosen, pair.truncated[0])
        rejected = _completion_ids(tokenizer, pair.rejected, pair.truncated[1])
        if not max_length or len(ids) + max(len(chosen), len(rejected)) <= max_length:
            rows.append({"prompt_ids": ids, "chosen_ids": chosen, "rejected_ids": rejected})
    return rows


def _completion_ids(tokenizer, text: str, is_truncated: bool) -> list[int]:
    """The tokens of a completion; unless it was cut off, with the token that ends a turn."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids if is_truncated else [*ids, tokenizer.eos_token_id]
