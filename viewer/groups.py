"""The groups that a run sampled, from the parquet files of its completions, a file for a step."""

import math
import re
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from zlib import crc32

from data.files import read_parquet
from data.prompt import question_text, transcript
from runs.records import SAME_QUESTIONS
from schema.names import RESERVED
from viewer.runs import CUT, EXCERPT, finite

# The columns that are no rewards and that every run writes.
NEEDED = tuple(name for name in RESERVED if name != "steps")
# The columns that a group's completions have on the page as they are.
COPIED = ("rewards", "total", "advantage", "tokens", "truncated", "flags")
TRUTH = "correct_answer"

# Signs in a completion's text that its reward may not show.
ANSWERS = re.compile(r"<answer>", re.I)
# Possessive, since a policy may write spaces without end.
EMPTY_REASONING = re.compile(r"^\s*+(<think>\s*+)?</think>", re.I)
TEXT_AFTER = re.compile(r"</answer>\s*+\S", re.I)


def of_step(file: Path, description: dict) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The groups of a step, each with its entry in the list of groups.

    In an entry `asked` is equal for equal questions, `std` has ddof = 1, as in trl, and `correct`,
    the number of correct answers, is None if no reward judges them. A group has its question and
    completions with their rewards; `batch_completions` and `batch_tokens`, the size of the step's
    batch; and with `scale_rewards: batch` `others`, the total rewards of the batch's other groups.

    Args:
        description: the run, as `viewer.runs.describe` returns it.

    Raises:
        ValueError: the file is not what trl writes, or has not the recipe's rewards.
    """
    rows = _read_rows(file, tuple(description["rewards"].values()))
    size = group_size(description)
    shares = _shares(rows, size, description)
    totals = []
    if description["settings"]["scale_rewards"] == "batch":
        totals = _column(rows, "total")
    groups = []
    for first in range(0, len(rows), size):
        members = rows[first : first + size]
        place = first // size
        if file.parent.name == SAME_QUESTIONS:
            place = -1 - place  # in place of its number: a question of every evaluation
        group = _group(members, shares, first) | {"group": place}
        group["others"] = totals[:first] + totals[first + size :]
        group["batch_completions"] = len(rows)
        group["batch_tokens"] = sum(_column(rows, "tokens"))
        groups.append((_entry(members, place), group))
    return groups


def count(file: Path, description: dict) -> int:
    """The number of groups in a step's file, from its last bytes alone. Raises ValueError where it
    is no parquet file."""
    import pyarrow.parquet

    with file.open("rb") as opened:
        rows = pyarrow.parquet.read_metadata(opened).num_rows
    return -(-rows // group_size(description))


def group_size(description: dict) -> int:
    """The completions of a group."""
    return description["settings"]["num_generations"]


def _shares(rows: list[dict], size: int, description: dict) -> list[list[dict] | None]:
    """The steps of each completion, with what each adds to the advantage of its tokens; None where
    the run rewards no steps."""
    weight = description["weight_of_steps"]
    if weight is None:
        return [None] * len(rows)
    from training.step_rewards import shares_of_steps  # imports torch, which takes seconds

    scale = description["settings"]["scale_rewards"] or "none"
    return shares_of_steps(_column(rows, "steps"), size, weight, scale)


def _group(members: list[dict], shares: list[list[dict] | None], first: int) -> dict[str, Any]:
    """The question and the completions of a group, whose first is the `first` of its step."""
    completions = []
    for number, row in enumerate(members, first):
        completion = {key: row[key] for key in COPIED}
        completion["text"] = row["text"][:CUT]
        completion["length"] = len(row["text"])
        completion["steps"] = shares[number]
        completions.append(completion)
    return {
        "step": members[0]["step"],
        "question": members[0]["question"][:CUT],
        "system": members[0]["system"],
        "gold": members[0]["gold"],
        "rows": completions,
    }


def _entry(rows: list[dict], place: int) -> dict[str, Any]:
    entry = {
        "step": rows[0]["step"],
        "group": place,
        "question": rows[0]["question"][:EXCERPT],
        "asked": crc32(rows[0]["question"].encode(errors="replace")),
        "n": len(rows),
        "tokens": finite(fmean(_column(rows, "tokens"))),
    }
    entry |= {"mean": None, "std": None, "correct": None, "truncated": 0, "flagged": 0}
    totals = [total for total in _column(rows, "total") if total is not None]
    if totals:
        entry |= {"mean": finite(fmean(totals)), "std": 0.0}
    if len(totals) > 1:
        entry["std"] = finite(stdev(totals))
    for row in rows:
        entry["truncated"] += row["truncated"]
        entry["flagged"] += bool(row["flags"])
        truth = row["rewards"].get(TRUTH)
        if truth is not None:
            entry["correct"] = (entry["correct"] or 0) + (truth >= 1)
    return entry


def _column(rows: list[dict], name: str) -> list:
    return [row[name] for row in rows]


def _read_rows(file: Path, weights: tuple[float, ...]) -> list[dict[str, Any]]:
    """The rows of a file of completions, with their total rewards and the flags of their texts.
    Raises ValueError where the file has no completions, or not the recipe's rewards."""
    rows = read_parquet(file, NEEDED)
    names = [name for name in (rows or [{}])[0] if name not in RESERVED]
    if rows and len(names) != len(weights):
        rewards = ", ".join(names)
        raise ValueError(f"{file} has the rewards {rewards}, and the recipe {len(weights)}")
    return [_row(row, names, weights) for row in rows]


def _row(row: dict, names: list[str], weights: tuple[float, ...]) -> dict[str, Any]:
    rewards = {name: finite(row[name]) for name in names}
    weighted = []
    for reward, weight in zip(rewards.values(), weights, strict=True):
        if reward is not None:
            weighted.append(weight * reward)
    text = transcript(row["completion"])
    advantage = finite(row["advantage"])
    return {
        "step": int(row["step"]),
        "question": question_text(row["prompt"]),
        "system": _system_text(row["prompt"]),
        "text": text,
        "rewards": rewards,
        "total": finite(math.fsum(weighted)) if weighted else None,
        "advantage": advantage,
        "gold": str(row["gold"]),
        "tokens": int(row["tokens"]),
        "truncated": bool(row["truncated"]),
        "steps": row.get("steps"),
        "flags": flags(text, rewards.get(TRUTH), advantage),
    }


def flags(completion: str, correct: float | None, advantage: float | None) -> list[str]:
    """Reasons to read a completion: signs of a policy that satisfies a reward without answering the
    question."""
    signs = []
    if correct is not None and correct <= 0 and advantage is not None and advantage > 0:
        signs.append("incorrect, and above its group's mean")
    if len(ANSWERS.findall(completion)) > 1:
        signs.append("several answers")
    if EMPTY_REASONING.search(completion):
        signs.append("empty reasoning")
    if TEXT_AFTER.search(completion):
        signs.append("text after the answer")
    return signs


def _system_text(messages: list[dict] | str) -> str:
    """The text of a prompt's system message; empty where it has none, as a prompt of plain text."""
    if isinstance(messages, str):
        return ""
    texts = [message["content"] for message in messages if message["role"] == "system"]
    return "\n\n".join(texts)
