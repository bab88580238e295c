"""A user's own problems: a file, a folder of files as the Hub lays them out, or a data set of the
Hub. The columns may have any names; usual ones are guessed, and what was guessed is said."""

import ast
import contextlib
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

from data.files import FILE_TYPES, DataError, read_files
from data.prompt import TURNS
from data.sources import from_hub

# What a row is made of, and the names that its column may have, the likeliest first.
# A column `answer` beside `final_answer` may hold a worked solution, and so may a column `solution`
# beside any of the first five.
USUAL = {
    "problem": (
        "problem question prompt query instruction input messages conversations conversation"
    ),
    "answer": (
        "reward_model.ground_truth verification_info.ground_truth final_answer expected_answer"
        " ground_truth answer gold solution target label output response"
    ),
    "reasoning": "reasoning rationale cot solution",
}
# Column names that trl uses itself: what it passes to rewards and templates, or reads as images and
# tools.
_TAKEN = """prompt prompts completions completion completion_ids trainer_state log_metric log_extra
    image images tools think_opened chat_template_kwargs environments"""
TAKEN = set(_TAKEN.split())
BODY = "body"  # of SVAMP and ASDiv: what the question is about
RAW = "the answer as given"  # a key of rows that no parameter of a reward can have
ANSWER_IS = re.compile(r"(?<=\n)(?:The )?answer is:? *(\S.*?)\.?\s*\Z", re.IGNORECASE)
# Around the thought of a reasoning model, or its answer: the warm start puts its own.
TAGS = re.compile(r"</?(?:think|answer)>|<\|(?:begin|end)_of_(?:thought|solution)\|>")
HUB_ID = r"[A-Za-z0-9][\w-]*/[\w.-]+"


class Rows(list):
    """The mapped rows of a source.

    Attributes:
        note: how the source was read, such as ` (split train, question → problem)`.
        original: the same rows in the same order, as the source has them.
    """

    note: str = ""
    original: list[dict]


def of_file(file: str, part: str, /, columns: dict | None = None) -> Rows:
    """The rows of a file, the same for every part."""
    return _mapped(file, read_files(Path(file), [Path(file)]), columns)


def of_folder(
    folder: str, part: str, /, columns: dict | None = None, split: str | None = None
) -> Rows:
    """The rows of a folder's files of one split, `train.jsonl` or
    `data/train-00000-of-00001.parquet`; or of its only file.

    Raises:
        DataError: no file holds that split.
    """
    files = files_of_split(Path(folder), part, split)
    return _mapped(folder, read_files(Path(folder), files), columns, split)


def files_of_split(folder: Path, part: str, split: str | None) -> list[Path]:
    """The files of a folder that hold a split, by default the part's. Raises what `of_folder`
    does."""
    candidates = _problem_files(folder) + _problem_files(folder / "data")
    candidates.sort()
    name_of_split = re.compile(rf"{re.escape(split or part)}(?![^\W_])")
    files = [file for file in candidates if name_of_split.match(file.name)]
    if not files and split is None and len(candidates) == 1:
        files = candidates
    if not candidates:
        raise DataError(f"{folder} has no file that ends in {', '.join(FILE_TYPES)}")
    if not files:
        names = ", ".join(file.name for file in candidates[:5])
        message = f"{folder} has no file of the split {split or part!r}, but {names}: set `split`"
        raise DataError(message)
    return files


def _problem_files(folder: Path) -> list[Path]:
    """The files in a folder whose type we read, without `dataset_info.json` and its like, which
    the Hub and the library datasets write."""
    files = []
    for file in folder.glob("*"):
        if file.suffix in FILE_TYPES and file.is_file() and not file.name.startswith("dataset_"):
            files.append(file)
    return files


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
    remedy = partial(with_setting, name)
    return _mapped(name, from_hub(name, config, split or part, revision, remedy), columns, split)


def listed(reason: str) -> tuple[str, str]:
    """The setting of a data set of the Hub that is missing or is none of those there, and the first
    of those; empty where the Hub's answer lists none."""
    match = re.search(r"(configs|available|one of)[^'\[]*\['([^']+)'", reason, re.I)
    key = "split" if match and match[1] == "one of" else "config"
    return (key, match[2]) if match else ("", "")


def with_setting(name: str, reason: str) -> str:
    """What the Hub answers, with what to write in a recipe."""
    key, value = listed(reason)
    if not key:
        return f"{reason}; `split`, `config` and `revision` can be set"
    return f"{reason.rstrip('.')}: write {name}: {{{key}: {value}}}"


def column_faults(columns: dict) -> list[str]:
    """What is wrong with the argument `columns`, whatever columns the data has."""
    faults = []
    for part in columns:
        if part not in (*USUAL, "solution"):
            faults.append(f"columns: it names {', '.join(USUAL)}, not {part!r}")
    for column in columns.values():
        if type(column) is not str:
            faults.append(f"columns: expected a column's name, got {column!r}")
    if {"answer", "solution"} <= columns.keys():
        faults.append(
            "columns: `answer` and `solution` are the same there; what is worked out is `reasoning`"
        )
    if faults:
        return faults
    part_of: dict[str, str] = {}
    for part, column in columns.items():
        if column in part_of:
            return [f"columns: {part_of[column]} and {part} are both {column!r}"]
        part_of[column] = part
    return []


def with_gold(row: dict[str, Any], raw: Any, reasoning: Any = None) -> dict[str, Any]:
    """The row with the gold that a raw answer holds, and with the worked solution that may lead up
    to it there."""
    from rewards.verifier import gold_answer, worked_solution

    gold = value = _only(raw)
    if isinstance(value, str):
        announced = ANSWER_IS.search(value)  # as in MetaMathQA
        if announced:
            gold = announced[1]
            reasoning = reasoning or value[: announced.start()].strip()
        if "####" in value or "boxed" in value:
            gold = gold_answer(value)
            reasoning = reasoning or worked_solution(value)
    if isinstance(reasoning, str):
        reasoning = TAGS.sub("", reasoning).strip()
    row = row | {"solution": gold, "reasoning": reasoning}
    if isinstance(raw, str) and gold == raw:
        return row
    return row | {RAW: raw}


def _mapped(source: str, rows: list[dict], columns: dict | None, split: str | None = None) -> Rows:
    """The rows with `problem`, `solution` and `reasoning`, and with their other columns, but those
    of trl's names. Raises DataError where a column that `columns` names does not exist, or none can
    be guessed."""
    rows, names = _with_nested_columns(rows, columns or {})
    column_of = {}
    for part, column in (columns or {}).items():
        if part == "solution":
            part = "answer"
        column_of[part] = column
    listed = ", ".join(map(str, names[:20]))
    if len(names) > 20:
        listed += ", …"
    for column in column_of.values():
        if rows and column not in names:
            raise DataError(f"{source} has no column {column!r}, but {listed}")
    guess_columns(column_of, names, rows)
    if rows and not _has_problem_and_answer(rows[0], column_of):
        parts = ", ".join(f"{part}: {column_of.get(part, '…')}" for part in USUAL)
        if headless(names):
            raise DataError(f"{source} has the columns {listed}{headless(names)}")
        raise DataError(
            f"{source} has the columns {listed}: say which holds the problem, which the answer,"
            " and for a warm start which the reasoning, as"
            f" `{source}: {{columns: {{{parts}}}}}`"
        )
    mapped = Rows(_mapped_row(row, column_of) for row in rows)
    mapped.original = rows
    mapped.note = _note(mapped, column_of, names, split)
    return mapped


def _has_problem_and_answer(row: dict, column_of: dict[str, str]) -> bool:
    """Whether both have a column; a reply among the problem's messages is an answer too."""
    problem = row.get(column_of.get("problem"))
    has_reply = isinstance(problem, list) and _conversation(problem)[2] is not None
    return "problem" in column_of and ("answer" in column_of or has_reply)


def headless(names: list[str]) -> str:
    """What to do where a table's first line is a row of it; empty where it names columns."""
    header = []
    for number, name in enumerate(names, 1):
        text = str(name).strip()
        words = len(text.split())
        if "problem" not in header and words >= 3 and (text.endswith("?") or words > 5):
            header.append("problem")
        elif "answer" not in header and re.fullmatch(r"[-$€]?\d[\d.,/]*\D{0,9}", text):
            header.append("answer")
        else:
            header.append(f"column{number}")
    if not {"problem", "answer"} <= set(header):
        return ""
    return f": the first line looks like a row: write `{','.join(header)}` above it"


def _with_nested_columns(rows: list[dict], columns: dict) -> tuple[list[dict], list[str]]:
    """The rows, with a column of its own for each path such as `reward_model.ground_truth` that
    `columns` names; and the names of all columns, in the order in which they first appear."""
    paths = []
    for column in columns.values():
        if "." in column and not any(column in row for row in rows):
            paths.append(column)
    if paths:
        rows = [row | {path: at(row, path) for path in paths} for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    for path in paths:
        if all(row[path] is None for row in rows) and rows:
            names.remove(path)
    return rows, names


def guess_columns(column_of: dict[str, str], names: list[str], rows: list[dict]) -> None:
    """Adds to `column_of` the columns that carry a usual name, for the parts that it lacks."""
    problem_is_guessed = "problem" not in column_of
    by_lower_case: dict[str, str] = {}
    for name in names:
        by_lower_case.setdefault(str(name).strip().lower(), name)
    for usual in USUAL["answer"].split():
        if "." in usual and any(at(row, usual) is not None for row in rows[:100]):
            by_lower_case.setdefault(usual, usual)
    for part, usual_names in USUAL.items():
        for usual in usual_names.split():
            column = by_lower_case.get(usual)
            if part not in column_of and column is not None and column not in column_of.values():
                column_of[part] = column
    if problem_is_guessed:
        _guess_halves(column_of, by_lower_case, rows)


def _guess_halves(column_of: dict[str, str], by_lower_case: dict[str, str], rows: list[dict]):
    """Adds the column of the text before a `question`; and takes back a guess in Alpaca's form,
    whose `instruction` and `input` are halves of one problem: neither is the problem."""
    problem = column_of.get("problem")
    body = by_lower_case.get(BODY)
    if body and str(problem).lower() == "question":
        column_of[BODY] = body
    more = by_lower_case.get("input")
    is_instruction = problem is not None and problem == by_lower_case.get("instruction")
    if is_instruction and any(row.get(more) for row in rows):
        del column_of["problem"]


def _note(mapped: Rows, column_of: dict[str, str], names: list[str], split: str | None) -> str:
    """How the rows were read, in parentheses; empty where nothing needs saying."""
    notes = []
    if split:
        notes.append(f"split {split}")
    for part, column in column_of.items():
        if mapped and column != part:
            notes.append(f"{column} → {part}")
    if "reasoning" not in column_of and any(row["reasoning"] for row in mapped):
        notes.append(f"worked solutions in {column_of.get('answer', 'the reply')} → reasoning")
    if any(TURNS in row for row in mapped):
        notes.append("with the turns before it")
    dropped = sorted(TAKEN.intersection(names) - set(column_of.values()))
    if dropped:
        notes.append(f"without {', '.join(dropped)}, which the trainer itself has")
    if not notes:
        return ""
    return f" ({', '.join(notes)})"


def _mapped_row(row: dict, column_of: dict[str, str]) -> dict:
    # No column of a file is named RAW; pandas writes one without a name.
    problem, raw, reasoning = (at(row, column_of.get(part, RAW)) for part in USUAL)
    turns = []
    if isinstance(problem, list):
        turns, problem, reply = _conversation(problem)
        system = row.get("system")  # beside ShareGPT's messages
        if system and isinstance(system, str) and "system" not in {turn["role"] for turn in turns}:
            turns = [{"role": "system", "content": system}, *turns]
        if "answer" not in column_of:
            raw = reply
        reasoning = reasoning or reply
    body = row.get(column_of.get(BODY))
    if body and isinstance(problem, str):
        body = str(body).rstrip(" .")
        if not problem.startswith(body):  # in MAWPS the question has it already
            problem = f"{body}. {problem}"
    reasoning = _only(reasoning)
    if not isinstance(reasoning, str) or reasoning == raw:
        reasoning = None
    columns = {key: row[key] for key in row if key not in (*TAKEN, "answer", RAW)}
    if turns:
        columns[TURNS] = turns
    return with_gold(columns | {"problem": problem}, raw, reasoning)


ROLES = {"human": "user", "gpt": "assistant"}  # of ShareGPT


def _conversation(messages: list) -> tuple[list[dict[str, str]], str | None, str | None]:
    """(turns before, the last question, the reply to it) of a list of messages as trl, OpenAI or
    ShareGPT write them; None for what it does not have. Messages that are no text have none."""
    turns = []
    for message in messages:
        if not isinstance(message, dict):
            return [], None, None
        role = message.get("role", message.get("from"))
        content = message.get("content", message.get("value"))
        if isinstance(content, list):  # of parts
            content = "\n".join(str(part.get("text")) for part in content if isinstance(part, dict))
        turns.append({"role": ROLES.get(role, role), "content": content})
    last = None
    for number, turn in enumerate(turns):
        if not (isinstance(turn["role"], str) and isinstance(turn["content"], str)):
            return [], None, None
        if turn["role"] == "user":
            last = number
    if last is None:
        return [], None, None
    reply = turns[-1]["content"] if last < len(turns) - 1 else None
    return turns[:last], turns[last]["content"], reply


def at(row: dict, column: str) -> Any:
    """What a row has in a column; also inside one that holds mappings, as at
    `reward_model.ground_truth`. None where it has nothing."""
    if column == "answer" and column not in row:  # a row of ours has it as its gold
        return row.get(RAW, row.get("solution"))
    if column in row or "." not in column:
        return row.get(column)
    for key in column.split("."):
        row = _parsed(row).get(key)
    return row


def _parsed(value: Any) -> dict:
    """A mapping, which a column may hold as JSON or as Python writes it; empty where it is none."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        for read in (json.loads, ast.literal_eval):
            with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                value = read(value)
                break
    return value if isinstance(value, dict) else {}


def _only(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value
