"""A user's own problems: a file, a folder of files as the Hub lays them out, or a data set of the
Hub. The columns may have any names; usual ones are guessed, and what was guessed is said."""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from data.gold import gold_answer, worked_solution
from data.sources import DataError, from_hub, parquet, within_limits

# What a row is made of, and the names that its column may have, the likeliest first.
USUAL = {
    "problem": ("problem", "question", "prompt", "query", "instruction", "input"),
    "answer": (
        *(
            "final_answer",
            "expected_answer",
            "ground_truth",
            "answer",
            "gold",
        ),  # an answer beside one may be worked
        *("solution", "target", "label", "output"),  # beside one of the former a solution is worked
    ),
    "reasoning": ("reasoning", "rationale", "cot", "solution"),
}
# Column names that trl uses itself: what it passes to rewards and templates, or reads as images and
# tools.
TAKEN = {
    "prompt",
    "prompts",
    "completions",
    "completion",
    "completion_ids",
    "trainer_state",
    "log_metric",
    "log_extra",
}
TAKEN |= {"image", "images", "tools", "think_opened", "chat_template_kwargs", "environments"}
RAW = "the answer as given"  # a key of rows that no parameter of a reward can have
HUB_ID = r"[A-Za-z0-9][\w-]*/[\w.-]+"


class Rows(list):
    """Rows, what is to say of how they were read, and the same rows `as_given`."""

    said: str = ""
    as_given: list[dict]


def of_file(file: str, part: str, /, columns: dict | None = None) -> Rows:
    """The rows of a file, the same for every part."""
    return _mapped(file, _read(Path(file)), columns)


def of_folder(
    folder: str, part: str, /, columns: dict | None = None, split: str | None = None
) -> Rows:
    """The rows of a folder's files of one split, `train.jsonl` or
    `data/train-00000-of-00001.parquet`; or of the only file that is there."""
    places = (Path(folder), Path(folder) / "data")
    there = sorted(
        each
        for place in places
        for type_ in READERS
        for each in place.glob(f"*{type_}")
        if each.is_file()
    )
    there = [
        each for each in there if not each.name.startswith("dataset_")
    ]  # the Hub's and datasets' own
    files = [
        each for each in there if re.match(rf"{re.escape(split or part)}(?![^\W_])", each.name)
    ]
    if not files and (split or len(there) != 1):
        if not there:
            raise DataError(f"{folder} has no file that ends in {', '.join(READERS)}")
        names = ", ".join(each.name for each in there[:5])
        raise DataError(
            f"{folder} has no file of the split {split or part!r}, but {names}: set `split`"
        )
    return _mapped(folder, [row for file in files or there for row in _read(file)], columns, split)


def of_hub(
    name: str,
    part: str,
    /,
    columns: dict | None = None,
    split: str | None = None,
    config: str | None = None,
    revision: str | None = None,
) -> Rows:
    """The rows of one split of a data set of the Hub, in one of its configurations and at one of
    its revisions."""
    instead = "" if split and config else "; `split`, `config` and `revision` can be set"
    return _mapped(name, from_hub(name, config, split or part, revision, instead), columns, split)


def wrong_columns(columns: dict) -> list[str]:
    """What is wrong with the argument `columns`, whichever columns there are."""
    wrong = [
        f"columns: it names {', '.join(USUAL)}, not {each!r}"
        for each in columns
        if each not in (*USUAL, "solution")
    ]
    wrong += [
        f"columns: expected a column's name, got {each!r}"
        for each in columns.values()
        if type(each) is not str
    ]
    if {"answer", "solution"} <= columns.keys():
        wrong.append(
            "columns: `answer` and `solution` are the same there; what is worked out is `reasoning`"
        )
    elif not wrong and (
        twice := [each for each, times in Counter(columns.values()).items() if times > 1]
    ):
        wrong.append(
            f"columns: {' and '.join(key for key in columns if columns[key] == twice[0])} are both"
            f" {twice[0]!r}"
        )
    return wrong


def with_gold(row: dict[str, Any], raw: Any, reasoning: Any = None) -> dict[str, Any]:
    """The row with the gold that a raw answer holds, and with the worked solution that may lead up
    to it there."""
    gold = value = _only(raw)
    if isinstance(value, str) and ("####" in value or "boxed" in value):
        gold, reasoning = gold_answer(value), reasoning or worked_solution(value)
    found = row | {"solution": gold, "reasoning": reasoning}
    return found if isinstance(raw, str) and gold == raw else found | {RAW: raw}


def _mapped(place: str, rows: list[dict], columns: dict | None, split: str | None = None) -> Rows:
    """The rows with `problem`, `solution` and `reasoning`, and with their other columns, but those
    of trl's names."""
    nested = [
        each
        for each in (columns or {}).values()
        if "." in each and not any(each in row for row in rows)
    ]
    rows = [row | {each: at(row, each) for each in nested} for row in rows] if nested else rows
    there = list(dict.fromkeys(key for row in rows for key in row))
    there = [
        each for each in there if each not in nested or any(row[each] is not None for row in rows)
    ]
    found = {part.replace("solution", "answer"): column for part, column in (columns or {}).items()}
    has = ", ".join([*map(str, there[:20]), "…"] if len(there) > 20 else map(str, there))
    if absent := [column for column in found.values() if column not in there and rows]:
        raise DataError(f"{place} has no column {absent[0]!r}, but {has}")
    named = {str(each).strip().lower(): each for each in reversed(there)}
    for part, usual in USUAL.items():
        free = [
            named[each] for each in usual if each in named and named[each] not in found.values()
        ]
        if free and part not in found:
            found[part] = free[0]
    halves = [
        named.get(each) for each in ("instruction", "input")
    ]  # of one problem, as Alpaca has them
    guessed = "problem" not in (columns or {}) and found.get("problem") == halves[0] is not None
    if guessed and any(row.get(halves[1]) for row in rows):
        del found["problem"]
    if rows and not {"problem", "answer"} <= found.keys():
        line = ", ".join(f"{part}: {found.get(part, '…')}" for part in USUAL)
        what = (
            "say which holds the problem, which the answer, and for a warm start which the"
            " reasoning"
        )
        raise DataError(
            f"{place} has the columns {has}: {what}, as `{place}: {{columns: {{{line}}}}}`"
        )
    made = Rows(_row(row, found) for row in rows)
    said = [f"split {split}"] * bool(split)
    said += [f"{column} → {part}" for part, column in found.items() if column != part and rows]
    if "reasoning" not in found and any(row["reasoning"] for row in made):
        said.append(f"worked solutions in {found['answer']} → reasoning")
    if left := sorted(TAKEN.intersection(there) - set(found.values())):
        said.append(f"without {', '.join(left)}, which the trainer itself has")
    made.as_given = rows
    made.said = f" ({', '.join(said)})" if said else ""
    return made


def _row(row: dict, found: dict[str, str]) -> dict:
    problem, raw, reasoning = (row.get(found.get(part)) for part in USUAL)
    if isinstance(problem, list):  # of messages, as trl has prompts
        asked = [
            each.get("content")
            for each in problem
            if isinstance(each, dict) and each.get("role") == "user"
        ]
        problem = asked[-1] if asked else None
    kept = {
        key: value for key, value in row.items() if key not in TAKEN and key not in ("answer", RAW)
    }
    reasoning = _only(reasoning)
    worked = isinstance(reasoning, str) and reasoning != raw
    return with_gold(kept | {"problem": problem}, raw, reasoning if worked else None)


def at(row: dict, column: str) -> Any:
    """What a row has in a column; also inside one that holds mappings, as at
    `reward_model.ground_truth`. None where it has nothing."""
    if column == "answer" and column not in row:  # a row of ours has it as its gold
        return row.get(RAW, row.get("solution"))
    if column in row or "." not in column:
        return row.get(column)
    for key in column.split("."):
        row = row.get(key) if isinstance(row, dict) else None
    return row


def _only(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _read(file: Path) -> list[dict]:
    return within_limits(READERS[file.suffix], file)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is not UTF-8 ({error}): save it in that encoding") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}") from error


def _jsonl(file: Path) -> list[dict]:
    rows = []
    for number, line in enumerate(_text(file).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except RecursionError:
            raise DataError(f"{file} line {number} is nested too deeply") from None
        except ValueError as error:
            raise DataError(f"{file} line {number} is not JSON: {error}") from error
        rows.append(_object(row, f"{file} line {number}"))
    return rows


def _json(file: Path) -> list[dict]:
    """A list of objects, `{"data": [...]}`, or objects in lines, which the Hub also calls JSON."""
    try:
        found = json.loads(_text(file))
    except ValueError:
        return _jsonl(file)
    found = found.get("data", found) if isinstance(found, dict) else found
    if isinstance(found, dict) and all(isinstance(each, dict | list) for each in found.values()):
        raise DataError(
            f"{file} holds columns, not rows: write a list, as pandas does with `orient='records'`"
        )
    rows = found if isinstance(found, list) else [found]
    return [_object(row, f"{file} row {number}") for number, row in enumerate(rows, 1)]


def _object(row: object, place: str) -> dict:
    if not isinstance(row, dict):
        raise DataError(f"{place} is {str(row)[:40]!r}, not an object with a problem and an answer")
    return row


def _csv(file: Path) -> list[dict]:
    """With commas, or where its first line has more of them, semicolons. An empty cell is None."""
    text = _text(file)
    first = text.partition("\n")[0]
    csv.field_size_limit(2**30)  # the process is limited anyway
    lines = csv.DictReader(
        io.StringIO(text, newline=""),
        delimiter=";" if first.count(";") > first.count(",") else ",",
        strict=True,
    )
    rows = []
    try:
        for row in lines:
            if None in row:
                raise DataError(
                    f"{file} line {lines.line_num} has more cells than the first line names columns"
                )
            rows.append({key: value or None for key, value in row.items()})
    except csv.Error as error:
        raise DataError(f"{file} line {lines.line_num} cannot be read: {error}") from error
    return rows


READERS: dict[str, Callable[[Path], list[dict]]] = {
    ".csv": _csv,
    ".json": _json,
    ".jsonl": _jsonl,
    ".parquet": parquet,
}
FILE_TYPES = tuple(READERS)
