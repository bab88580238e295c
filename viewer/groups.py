"""The groups that a run sampled, from the parquet files of its completions: an index of all groups,
and a single group."""

import math
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from zlib import crc32

from data.prompt import question_text, transcript
from data.sources import DataError, read_parquet
from runs.folder import SAME_QUESTIONS, completion_files, run_file
from schema.names import RESERVED
from viewer.runs import CUT, EXCERPT, describe, finite

# The columns that are no rewards and that every run writes.
NEEDED = tuple(name for name in RESERVED if name != "steps")
# The columns that a group's completions have on the page as they are.
COPIED = ("rewards", "total", "advantage", "tokens", "truncated", "flags")
TRUTH = "correct_answer"
FOLDERS = ("completions", SAME_QUESTIONS)

# Signs in a completion's text that its reward may not show.
ANSWERS = re.compile(r"<answer>", re.I)
EMPTY_THOUGHT = re.compile(r"^\s*(<think>)?\s*</think>", re.I)
TEXT_AFTER = re.compile(r"</answer>\s*\S", re.I)


def index(run: Path) -> dict[str, Any]:
    """`groups`: an entry for every group in the run's files, in order; `of`: their number;
    `unreadable`: the number of files that are not what trl writes, or are being written; and `why`
    the first of these cannot be read.

    In an entry `asked` is equal for equal questions, `std` has ddof = 1, as in trl, and `right`,
    the number of right answers, is None if no reward judges them.
    """
    size, weights = _size_and_weights(describe(run))
    entries = []
    errors = []
    for file in completion_files(run, FOLDERS):
        state = file.stat()
        file_entries, error = _index(file, state.st_mtime_ns, state.st_size, size, weights)
        entries += file_entries
        if error:
            errors.append(error)
    return {
        "groups": entries,
        "of": len(entries),
        "unreadable": len(errors),
        "why": next(iter(errors), None),
    }


def _place(file: Path, number: int) -> int:
    """A group's place: its number in its step's file; of the questions that every evaluation
    samples −1, −2, and so on."""
    return -1 - number if file.parent.name == SAME_QUESTIONS else number


@lru_cache(maxsize=20_000)
def _index(
    file: Path, _mtime: int, _bytes: int, size: int, weights: tuple[float, ...]
) -> tuple[list[dict[str, Any]], str | None]:
    try:
        rows = _read_rows(file, weights)
    except ValueError as error:  # being written, torn by a full disk, or a stranger's
        return [], str(error)
    entries = []
    for first in range(0, len(rows), size):
        entries.append(_entry(rows[first : first + size], _place(file, first // size)))
    return entries, None


def _entry(rows: list[dict], place: int) -> dict[str, Any]:
    entry = {
        "step": rows[0]["step"],
        "group": place,
        "question": rows[0]["question"][:EXCERPT],
        "asked": crc32(rows[0]["question"].encode(errors="replace")),
        "n": len(rows),
        "tokens": finite(fmean(_column(rows, "tokens"))),
    }
    entry |= {"mean": None, "std": None, "right": None, "truncated": 0, "flagged": 0}
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
            entry["right"] = (entry["right"] or 0) + (truth >= 1)
    return entry


def _column(rows: list[dict], name: str) -> list:
    return [row[name] for row in rows]


def search(run: Path, words: str) -> list[list[int]]:
    """[step, group] of each group whose question or completions have these words, in upper or lower
    case."""
    size, weights = _size_and_weights(describe(run))
    matches: dict[tuple[int, int], None] = {}  # in order, without repetitions
    for file in completion_files(run, FOLDERS):
        with suppress(ValueError):  # see _index
            for i, row in enumerate(_read_rows(file, weights)):
                if words.casefold() in f"{row['question']}\n{row['text']}".casefold():
                    matches[row["step"], _place(file, i // size)] = None
    return list(map(list, matches))


def group(run: Path, step: int, place: int) -> dict[str, Any]:
    """A group: its question and completions with their rewards, and `others`, the total rewards of
    the other groups of its batch, which `scale_rewards: batch` needs. Raises ValueError where there
    is no such group."""
    folder = SAME_QUESTIONS if place < 0 else "completions"
    return _group(step, place, *_read_step(run, step, folder))


def _group(step: int, place: int, rows: list[dict], size: int, description: dict) -> dict[str, Any]:
    first = size * (place if place >= 0 else -1 - place)
    members = rows[first : first + size]
    if not members:
        raise ValueError(f"step {step} has no group {place}")
    shares = [None] * len(rows)
    weight = description["weight_of_steps"]
    if weight is not None:
        from training.step_rewards import shares_of_steps  # imports torch, which takes seconds

        scale = description["settings"]["scale_rewards"] or "none"
        shares = shares_of_steps(_column(rows, "steps"), size, weight, scale)
    completions = []
    for number, row in enumerate(members, first):
        completion = {key: row[key] for key in COPIED}
        completion["row"] = number
        completion["text"] = row["text"][:CUT]
        completion["length"] = len(row["text"])
        completion["steps"] = shares[number]
        completions.append(completion)
    return {
        "step": step,
        "group": place,
        "question": members[0]["question"][:CUT],
        "system": members[0]["system"],
        "gold": members[0]["gold"],
        "rows": completions,
        "others": _column(rows[:first] + rows[first + size :], "total"),
        "batch_tokens": sum(_column(rows, "tokens")),
    }


def _read_step(run: Path, step: int, folder: str = "completions") -> tuple[list[dict], int, dict]:
    """(rows of a step's file, completions of a group, the run's description)."""
    description = describe(run)
    size, weights = _size_and_weights(description)
    file = run_file(run, f"{folder}/completions_{step:05d}.parquet")
    return _read_rows(file, weights), size, description


def _size_and_weights(description: dict) -> tuple[int, tuple[float, ...]]:
    """(completions of a group, weight of each reward) of a run as `describe` returns it."""
    size = description["settings"]["num_generations"]
    if type(size) is not int or size < 1:
        size = 1
    return size, tuple(description["rewards"].values())


def _read_rows(file: Path, weights: tuple[float, ...]) -> list[dict[str, Any]]:
    """The rows of a file of completions, with their total rewards and the flags of their texts.
    Raises ValueError where the file has no completions, or not the recipe's rewards."""
    try:
        rows = read_parquet(file, NEEDED)
        names = [name for name in (rows or [{}])[0] if name not in RESERVED]
        if rows and len(names) != len(weights):
            message = f"it has the rewards {', '.join(names)}, and the recipe {len(weights)}"
            raise ValueError(message)
        return [_row(row, names, weights) for row in rows]
    except DataError:
        raise
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        first_line = next(iter(str(error).splitlines()), "")
        raise ValueError(f"{file} cannot be read: {first_line:.200}") from None


def _row(row: dict, names: list[str], weights: tuple[float, ...]) -> dict[str, Any]:
    rewards = {name: finite(row[name]) for name in names}
    weighted = []
    for reward, weight in zip(rewards.values(), weights, strict=True):
        if reward is not None:
            weighted.append(weight * reward)
    text = transcript(row["completion"])
    advantage = finite(row["advantage"])
    return {
        "step": row["step"],
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


def flags(completion: str, right: float | None, advantage: float | None) -> list[str]:
    """Reasons to read a completion: signs of a policy that satisfies a reward without answering the
    question."""
    signs = []
    if right is not None and right <= 0 and advantage is not None and advantage > 0:
        signs.append("wrong, and above its group's mean")
    if len(ANSWERS.findall(completion)) > 1:
        signs.append("several answers")
    if EMPTY_THOUGHT.search(completion):
        signs.append("an empty thought")
    if TEXT_AFTER.search(completion):
        signs.append("text after the answer")
    return signs


def _system_text(messages: Any) -> str:
    """The text of a prompt's system message; empty where it has none."""
    texts = []
    for message in messages if isinstance(messages, list) else []:
        if isinstance(message, dict) and message.get("role") == "system":
            texts.append(str(message.get("content") or ""))
    return "\n\n".join(texts)
