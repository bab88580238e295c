"""The groups that a run sampled, from the parquet files of its completions: an index of all, one of
them whole, and the completions that `make explain` has worked out token by token."""

import math
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from zlib import crc32

from data.json_files import parsed
from data.prompt import transcript
from data.sources import DataError, read_parquet
from runs.folder import completion_files, inside
from schema.names import RESERVED
from viewer.runs import CUT, EXCERPT, describe, finite

# Of the columns that are no rewards, those that every run writes.
NEEDED = tuple(each for each in RESERVED if each != "steps")
TRUTH = "correct_answer"
MEMORY = 1  # GiB to read a file in, which has thousands of rows at most

EXPLAINED = re.compile(r"(\d{1,12})-(\d{1,12})\.json")
# What is worked out of each token, beside its text.
NUMBERS = (
    "advantages",
    "new",
    "old",
    "reference",
    "entropy",
    "ratio",
    "unclipped",
    "clipped",
    "kl",
    "loss",
    "stopped",
)

# A completion's text shows these, and a right answer may hide them from the reward.
ANSWERS = re.compile(r"<answer>", re.I)
EMPTY_THOUGHT = re.compile(r"^\s*(<think>)?\s*</think>", re.I)
AFTER = re.compile(r"</answer>\s*\S", re.I)


def index(run: Path) -> dict[str, Any]:
    """`groups`: every group that the run's files hold, in order, with what a list shows of it;
    `of`: how many; and `unreadable`: how many of the files are not what trl writes, or being
    written, and `why`, of the first of them.

    Each group has `step`, `group` (its place in the step), `question`, `asked` (equal for equal
    questions), `n`, `mean` and `std` of the total rewards (ddof = 1, as trl has it), `right` (how
    many were; None where no reward says), `truncated` and `flagged`.
    """
    described = describe(run)
    size, weights = described["settings"]["num_generations"], tuple(described["rewards"].values())
    found, wrong = [], []
    for file in completion_files(run):
        state = file.stat()
        groups, error = _index(file, state.st_mtime_ns, state.st_size, _size(size), weights)
        found += groups
        wrong += [error] if error else []
    return {
        "groups": found,
        "of": len(found),
        "unreadable": len(wrong),
        "why": wrong[0] if wrong else None,
    }


@lru_cache(maxsize=20_000)
def _index(
    file: Path, _changed: int, _size_of: int, size: int, weights: tuple[float, ...]
) -> tuple[list[dict[str, Any]], str | None]:
    try:
        rows = _rows(file, weights)
    except ValueError as error:  # being written, torn by a full disk, or a stranger's
        return [], str(error)
    return [
        _entry(rows[first : first + size], first // size) for first in range(0, len(rows), size)
    ], None


def _entry(rows: list[dict], place: int) -> dict[str, Any]:
    totals = [row["total"] for row in rows if row["total"] is not None]
    right = [row["rewards"].get(TRUTH) for row in rows]
    return {
        "step": rows[0]["step"],
        "group": place,
        "question": rows[0]["question"][:EXCERPT],
        "asked": crc32(rows[0]["question"].encode(errors="replace")),
        "n": len(rows),
        "mean": finite(fmean(totals)) if totals else None,
        "std": finite(stdev(totals) if len(totals) > 1 else 0.0) if totals else None,
        "right": (
            None if all(each is None for each in right) else sum((each or 0) >= 1 for each in right)
        ),
        "truncated": sum(row["truncated"] for row in rows),
        "flagged": sum(bool(row["flags"]) for row in rows),
    }


def search(run: Path, words: str) -> list[list[int]]:
    """[step, group] of each group whose question or completions hold these words, in any case."""
    size, weights = (
        _size(describe(run)["settings"]["num_generations"]),
        tuple(describe(run)["rewards"].values()),
    )
    found: dict[tuple[int, int], None] = {}
    for file in completion_files(run):
        with suppress(ValueError):  # see _index
            for i, row in enumerate(_rows(file, weights)):
                if words.casefold() in f"{row['question']}\n{row['text']}".casefold():
                    found[row["step"], i // size] = None
    return [list(each) for each in found]


def group(run: Path, step: int, place: int) -> dict[str, Any]:
    """One group whole: its question and completions with their rewards, and `others`, the total
    rewards of the rest of its batch, by which `scale_rewards: batch` scales.

    Raises:
        ValueError: there is no such group, or the file is not one of completions.
    """
    return _group(step, place, *_of_step(run, step))


def _group(step: int, place: int, rows: list[dict], size: int, described: dict) -> dict[str, Any]:
    mine = rows[place * size : (place + 1) * size] if place >= 0 else []
    if not mine:
        raise ValueError(f"step {step} has no group {place}")
    shares = [None] * len(rows)
    weight = described["weight_of_steps"]
    if weight is not None:
        from training.step_rewards import shares_of_steps  # imports torch, which takes seconds

        scale = described["settings"]["scale_rewards"] or "none"
        shares = shares_of_steps([row["steps"] for row in rows], size, weight, scale)
    shown = [
        {key: row[key] for key in ("rewards", "total", "advantage", "tokens", "truncated", "flags")}
        | {
            "row": place * size + i,
            "text": row["text"][:CUT],
            "length": len(row["text"]),
            "steps": shares[place * size + i],
        }
        for i, row in enumerate(mine)
    ]
    return {
        "step": step,
        "group": place,
        "question": mine[0]["question"][:CUT],
        "system": mine[0]["system"],
        "gold": mine[0]["gold"],
        "rows": shown,
        "others": [row["total"] for i, row in enumerate(rows) if i // size != place],
        "batch_tokens": sum(row["tokens"] for row in rows),
    }


def of_row(run: Path, step: int, row: int) -> dict[str, Any]:
    """The group of one completion, with `batch`, the tokens of each completion of its step.

    Raises:
        ValueError: there is none in that place.
    """
    rows, size, described = _of_step(run, step)
    lengths = [each["tokens"] for each in _at(rows, step, row)]
    return _group(step, row // size, rows, size, described) | {"batch": lengths}


def text(run: Path, step: int, row: int) -> str:
    """One completion whole.

    Raises:
        ValueError: there is none in that place.
    """
    return _at(_of_step(run, step)[0], step, row)[row]["text"]


def _at(rows: list[dict], step: int, row: int) -> list[dict]:
    if not 0 <= row < len(rows):
        raise ValueError(f"step {step} has no completion {row}: it has 0 to {len(rows) - 1}")
    return rows


def _of_step(run: Path, step: int) -> tuple[list[dict], int, dict]:
    """(rows of a step's file, completions of a group, `describe`)."""
    described = describe(run)
    rows = _rows(
        inside(run, f"completions/completions_{step:05d}.parquet"),
        tuple(described["rewards"].values()),
    )
    return rows, _size(described["settings"]["num_generations"]), described


def _size(num_generations: Any) -> int:
    return num_generations if type(num_generations) is int and num_generations > 0 else 1


def _rows(file: Path, weights: tuple[float, ...]) -> list[dict[str, Any]]:
    """The rows of a file of completions, each with its total reward and what its text gives reason
    to look at.

    Raises:
        ValueError: the file is not one of completions, or its rewards are not the recipe's.
    """
    try:
        rows = read_parquet(file, NEEDED, MEMORY)
        names = [name for name in (rows or [{}])[0] if name not in RESERVED]
        if rows and len(names) != len(weights):
            raise ValueError(
                f"it has the rewards {', '.join(names)}, and the recipe {len(weights)}"
            )
        return [_row(row, names, weights) for row in rows]
    except DataError:
        raise
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(
            f"{file} cannot be read: {(str(error).splitlines() or [''])[0]:.200}"
        ) from None


def _row(row: dict, names: list[str], weights: tuple[float, ...]) -> dict[str, Any]:
    rewards = {name: finite(row[name]) for name in names}
    paid = [w * r for r, w in zip(rewards.values(), weights, strict=True) if r is not None]
    said, advantage = transcript(row["completion"]), finite(row["advantage"])
    return {
        "step": row["step"],
        "question": _content_of(row["prompt"], "user"),
        "system": _content_of(row["prompt"], "system"),
        "text": said,
        "rewards": rewards,
        "total": finite(math.fsum(paid)) if paid else None,
        "advantage": advantage,
        "gold": str(row["gold"]),
        "tokens": int(row["tokens"]),
        "truncated": bool(row["truncated"]),
        "steps": row.get("steps"),
        "flags": flags(said, rewards.get(TRUTH), advantage),
    }


def flags(completion: str, right: float | None, advantage: float | None) -> list[str]:
    """What gives reason to read a completion: signs of a policy that pleases a reward and not the
    question."""
    found = []
    if right is not None and right <= 0 and advantage is not None and advantage > 0:
        found.append("wrong, and above its group's mean")
    if len(ANSWERS.findall(completion)) > 1:
        found.append("several answers")
    if EMPTY_THOUGHT.search(completion):
        found.append("an empty thought")
    if AFTER.search(completion):
        found.append("text after the answer")
    return found


def _content_of(messages: Any, role: str) -> str:
    """What one side says in a prompt, which is one message, several, or plain text."""
    if isinstance(messages, str):
        return messages if role == "user" else ""
    said = [each for each in messages or [] if isinstance(each, dict) and each.get("role") == role]
    return "\n\n".join(str(each.get("content") or "") for each in said)


def explained(run: Path) -> list[dict[str, int]]:
    """`step` and `row` of every completion that was worked out."""
    folder = run / "explain"
    if folder.is_symlink() or not folder.is_dir():
        return []
    found = [EXPLAINED.fullmatch(each.name) for each in folder.iterdir()]
    return sorted(
        ({"step": int(m[1]), "row": int(m[2])} for m in found if m),
        key=lambda each: tuple(each.values()),
    )


def tokens(run: Path, step: int, row: int) -> dict[str, Any]:
    """A completion token by token, as `evaluation.explain.explained` gives it.

    Raises:
        ValueError: it has not been worked out, or the file is not what that wrote.
    """
    file = inside(run, f"explain/{step}-{row}.json")
    try:
        found = parsed(file.read_text(encoding="utf-8"))
        count = len(found["tokens"])
        if any(len(found[name]) != count for name in NUMBERS):
            raise ValueError("its columns are of different lengths")
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{file} is not what make explain wrote ({error})") from None
    return found
