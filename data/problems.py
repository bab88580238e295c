"""Loads the data sets that a recipe names as clean rows, each problem once."""

import inspect
import json
import math
import os
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from data import SETS, made
from data.files import FILE_TYPES, DataError
from data.identity import fingerprint, questions_of
from data.imports import named_function, raised, short_repr
from data.own import HUB_ID, RAW, TAKEN, Rows, at, of_file, of_folder, of_hub, with_gold
from data.prompt import TURNS

WEIGHT = "data.weight"  # a key of rows that no parameter of a reward can have
HIDDEN = ("reasoning", "answer", RAW, TURNS, WEIGHT)  # keys of rows that rewards do not get


# A set of the Hub by its address, perhaps its viewer's, and by what other tools write: the id and
# the configuration.
HUB_ADDRESS = re.compile(
    rf"(?:(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)|hf:/)/datasets/({HUB_ID})"
    r"(?:/(?:viewer/([\w.-]+)(?:/\S*)?|\S*))?"
)
HUB_CONFIG = re.compile(rf"({HUB_ID}):([\w.-]+)")


def data_set(name: str) -> Callable[..., list[dict]]:
    """The function behind a data set's name: one of `data`, a file or folder of the user's own, a
    dotted path to a function of theirs, or a data set of the Hub.

    Raises:
        LookupError: nothing has that name.
        ImportError: it may not be named, or cannot be read.
    """
    builtin = name.replace("_", "-")
    if builtin in SETS:
        return SETS[builtin]
    if name.startswith("~/") and "\0" not in name:
        name = os.path.expanduser(name)  # noqa: PTH111
    if os.path.isfile(name) and Path(name).suffix in FILE_TYPES:  # noqa: PTH113 (Path.is_file fails for a long name)
        return partial(of_file, name)
    if os.path.isdir(name):  # noqa: PTH112
        return partial(of_folder, name)
    _refuse_file_or_address(name)
    if re.fullmatch(HUB_ID, name) and not os.path.isdir(os.path.dirname(name)):  # noqa: PTH112, PTH120
        return partial(of_hub, name)
    if "/" in name or name.endswith(".txt"):
        message = "there is no such file or folder, and it is no Hub id such as openai/gsm8k"
        raise ImportError(message)
    if is_dotted_path(name):
        return named_function(name, "split")
    raise LookupError(name)


def _refuse_file_or_address(name: str):
    """Raise ImportError for a file that holds no problems or is not there, and for an address."""
    if os.path.exists(name):  # noqa: PTH110
        instead = "; save a spreadsheet as .csv" if name.endswith((".xlsx", ".xls", ".ods")) else ""
        raise ImportError(f"a file of problems ends in {', '.join(FILE_TYPES)}{instead}")
    on_hub = HUB_ADDRESS.fullmatch(name) or HUB_CONFIG.fullmatch(name)
    if on_hub:
        config = f": {{config: {on_hub[2]}}}" if on_hub[2] else ""
        raise ImportError(f"a set of the Hub is named by its id: write {on_hub[1]}{config}")
    if "://" in name:
        raise ImportError("an address is not read: download it, and name the file")
    if Path(name).suffix in FILE_TYPES:
        raise ImportError(f"there is no such file{_beside(name)}")


def is_dotted_path(name: str) -> bool:
    """Whether a data set's name stands for a function of the user's, and for no file or folder."""
    is_file = Path(name).suffix in FILE_TYPES or os.path.exists(name)  # noqa: PTH110 (fails for a long name)
    return "." in name and "/" not in name and not is_file


def _beside(name: str) -> str:
    """The files of problems in the folder of a file that is not there, or that it has no folder."""
    folder = os.path.dirname(name) or "."  # noqa: PTH120 (Path fails for a long name)
    if not os.path.isdir(folder):  # noqa: PTH112
        return f", nor a folder {folder:.80}: a path begins in {Path.cwd()}"
    names = sorted(file.name for file in Path(folder).iterdir() if file.suffix in FILE_TYPES)
    return f"; {folder} has {', '.join(names[:5]) or 'no file of problems'}"


def is_here(name: str, folder: str | None) -> bool:
    """Whether a data set is made or read on this machine, by no function of the user's. `folder`:
    see `load`."""
    function = data_set(name)
    if isinstance(function, partial):
        return function.func is not of_hub
    from_hub = "folder" in inspect.signature(function).parameters and not (
        folder or os.environ.get("MATH_DATA_DIR")
    )
    return function in SETS.values() and not from_hub


def is_computed(name: str) -> bool:
    """Whether a data set is computed, and so is the same wherever and whenever it is read."""
    return inspect.getmodule(data_set(name)) is made


def load(
    name: str,
    split: str,
    arguments: dict,
    folder: str | None = None,
    golds: dict[str, str] | None = None,
) -> tuple[list[dict], str]:
    """The usable rows of one data set, and a sentence that says what was dropped.

    Args:
        split: `train` or `test`.
        arguments: passed on to the data set's function, but those that it does not take itself: how
            many rows are taken, `limit`, of which, `where`, and how often GRPO sees each beside
            those of other sets, `weight`.
        folder: holds parquet files; None means the environment's MATH_DATA_DIR or, where that is
            not set, the Hub.
        golds: fingerprint → gold of the problems of other sets, which are not used again; those of
            this set are added.

    Returns:
        rows `{"problem", "solution", "reasoning", "source"}` with text in problem and solution,
        each problem once; `source` is the set's name where the data has no such column.

    Raises:
        DataError: no row is usable, or the data set's function reports a mistake.
    """
    function = data_set(name)
    folder = folder or os.environ.get("MATH_DATA_DIR")
    accepted = inspect.signature(function).parameters
    for_function = {key: value for key, value in arguments.items() if key in accepted}
    for_every_set = {key: value for key, value in arguments.items() if key not in accepted}
    if folder and "folder" in accepted:
        for_function = {"folder": Path(folder)} | for_function
    source = _rows_of(name, function, split, for_function)
    if golds is None:
        golds = {}
    selection = _Selection(name, source, for_every_set.get("where", {}), golds)
    rows = selection.usable_rows(for_every_set.get("limit"))
    if "weight" in for_every_set:
        for row in rows:
            row[WEIGHT] = for_every_set["weight"]
    report = f"{name} {split}: {len(rows):,} problems{getattr(source, 'note', '')}"
    report += selection.report()
    if not source:
        raise DataError(f"{report}; it needs a row for each, with its answer (docs/your-data.md)")
    selection.require_problems(rows, report)
    return rows, report


class _Selection:
    """Chooses the usable rows of one data set, and counts the others by reason.

    Args:
        name: of the data set.
        source: its rows, as its function returned them.
        where: column → the value that a row must have there; see `_fits`.
        golds: see `load`.

    Attributes:
        originals: the rows as the source has them, with our columns added.

    Raises:
        DataError: no row has a column that `where` names.
    """

    def __init__(self, name: str, source: list[dict], where: dict, golds: dict[str, str]):
        self.name = name
        self.source = source
        self.where = where
        self.passed_over = 0
        self.dropped = defaultdict(list)  # reason → numbers of the rows, from 1
        self.golds = golds
        # `where` names the source's columns, which may call something else `solution`, or ours.
        self.originals = source
        if where:
            originals = getattr(source, "original", source)
            self.originals = [
                row | original for row, original in zip(source, originals, strict=True)
            ]
        for column in where:
            if source and all(at(row, column) is None for row in self.originals):
                names = ", ".join(str(key) for key in self.originals[0] if key != RAW)
                raise DataError(f"{name} has no column {column!r} for `where`, but {names}")

    def usable_rows(self, limit: int | None) -> list[dict]:
        """The first `limit` usable rows, each problem once; all of them where it is None."""
        rows = []
        for number, (row, original) in enumerate(zip(self.source, self.originals, strict=True), 1):
            if len(rows) == limit:
                break
            if self._is_usable(number, row, original):
                row = _clean(row)
                row.setdefault("source", self.name)
                self.golds[fingerprint(row)] = row["solution"]
                rows.append(row)
        return rows

    def _is_usable(self, number: int, row: dict, original: dict) -> bool:
        """Whether a row is used; counts it where it is not."""
        try:
            if not all(_fits(at(original, key), value) for key, value in self.where.items()):
                self.passed_over += 1
                return False
            reason = _reason_to_drop(row, self.golds)
        except DataError:
            raise
        except Exception as error:  # a value may be an object of the user's own
            raise DataError(f"{self.name} row {number} cannot be read: {raised(error)}") from error
        if reason:
            self.dropped[reason].append(number)
            return False
        place = f"{self.name} row {number}"
        reason = _why_unearnable(row, original)
        if reason:
            gold = f"{str(row['solution'])!r:.60}"
            raise DataError(f"{place}: no answer can earn {gold}: {reason}")
        return True

    def report(self) -> str:
        """How many rows were not used, by reason; empty where all were."""
        report = ""
        if self.passed_over:
            report += f", {self.passed_over:,} others passed over by `where`"
        if self.dropped:
            count = sum(len(numbers) for numbers in self.dropped.values())
            reasons = []
            for reason, numbers in self.dropped.items():
                reasons.append(f"{len(numbers)} {reason}: {_rows(numbers)}")
            report += f", {count:,} dropped ({'; '.join(reasons)})"
        return report

    def require_problems(self, rows: list[dict], report: str):
        """Raise DataError if the usable rows are one problem that is asked again and again, or
        none."""
        repeated = sum(len(self.dropped[key]) for key in self.dropped if "repeated" in key)
        if len(rows) == 1 and repeated > 1:
            raise DataError(
                f"{report}: all {1 + repeated} rows ask the same: put what differs into the column"
                " of the problem, or name another, as `columns: {problem: …}`"
            )
        # What another set has had already is missed by nobody.
        if not rows and not repeated:
            advice = ""
            if not self.passed_over:
                advice = ": fill what is missing, or name other columns (columns: {answer: …})"
            raise DataError(f"{report}{self.values_of_where()}; nothing is left to use{advice}")

    def values_of_where(self) -> str:
        """A few values that the data has in the columns of `where`."""
        text = ""
        for column in self.where:
            values = list(dict.fromkeys(f"{at(row, column)!r:.40}" for row in self.originals))
            text += f"; {column} has {', '.join(values[:5])}"
            if len(values) > 5:
                text += " …"
        return text


def _clean(row: dict) -> dict:
    """The row with text where the house expects text."""
    gold = row["solution"]
    if isinstance(gold, float) and abs(gold) < 1e15:  # 0.1 + 0.2 is 0.30000000000000004
        gold = float(f"{gold:.15g}")
    return {**row, "solution": str(gold), "reasoning": row.get("reasoning")}


def _rows_of(name: str, function: Callable, split: str, arguments: dict) -> list[dict]:
    """The rows that a data set's function returns. A user's own function may raise, and return,
    anything: then a DataError says which."""
    try:
        rows = function(split, **arguments)
        if hasattr(rows, "__iter__") and not isinstance(rows, str | dict | Rows):
            rows = list(rows)
    except DataError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(function, partial) or function in SETS.values():
            raise
        raise DataError(f"data set {name}: {raised(error)}") from error
    strange = [rows]
    if isinstance(rows, list):
        strange = [row for row in rows if not isinstance(row, dict)]
    if strange:
        raise DataError(
            f"data set {name}: its function must return a list of rows {{'problem': …}}, not"
            f" {short_repr(strange[0])}"
        )
    if any("answer" in row and "solution" not in row for row in rows):
        return [_answered(row) for row in rows]
    return rows


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a row has the value that `where` asks for, one of a list, a number from `min` to
    `max`, or a value that is `not` of these. A CSV has text for a number, and a cell may hold
    several values."""
    if isinstance(wanted, dict) and "not" in wanted:
        return not _fits(value, wanted["not"])
    if isinstance(value, list):
        return any(_fits(item, wanted) for item in value)
    if isinstance(wanted, dict):
        try:
            return wanted.get("min", -math.inf) <= float(value) <= wanted.get("max", math.inf)
        except (TypeError, ValueError):
            return False
    if not isinstance(wanted, list):
        wanted = [wanted]
    return _plain(value) in map(_plain, wanted)


def _plain(value: Any) -> float | str:
    """A number as such, however it is written; of YAML's true and false, and of yes and no, the
    same text."""
    text = str(value).strip().lower()
    try:
        return float(text)
    except ValueError:
        return {"yes": "true", "no": "false"}.get(text, text)


def _answered(row: dict) -> dict:
    """A row of a user's function, with its gold as `solution` where the row calls it `answer`."""
    if "answer" not in row or "solution" in row:
        return row
    columns = dict(row)
    answer = columns.pop("answer")
    return with_gold(columns, answer, row.get("reasoning"))


def _rows(numbers: list[int]) -> str:
    """`row 4`, `rows 4, 5`, `rows 4, 5, 9, …`; the first row of a data set is row 1."""
    if len(numbers) == 1:
        return f"row {numbers[0]}"
    listed = ", ".join(map(str, numbers[:3]))
    if len(numbers) > 3:
        listed += ", …"
    return f"rows {listed}"


# characters of a problem or a solution; the longest in the data sets here has 6,000
LONGEST = 100_000


def _reason_to_drop(row: dict, golds: dict[str, str]) -> str | None:
    """Why a row cannot be used, or None. `golds`: the gold of each problem of earlier rows, by its
    fingerprint. Raises DataError where the data set has other columns than it may have, which is no
    fault of one row."""
    from rewards.verifier import gold_answer, judge

    _require_columns(row)
    problem, gold = row["problem"], row["solution"]
    if not isinstance(problem, str) or not problem.strip():
        return "without a problem"
    if isinstance(gold, bool | list | dict):
        return "with a gold that is neither text nor a number"
    is_no_number = isinstance(gold, float) and not math.isfinite(gold)
    if gold is None or is_no_number or gold_answer(str(gold)) is None:
        return "without a gold answer"
    for text in (problem, str(gold), row.get("reasoning") or ""):
        if not isinstance(text, str) or len(text) > LONGEST or not _is_text(text):
            return f"with more than {LONGEST:,} characters, or with invalid ones"
    if re.search(rf"(?i)(answer|solution)( is|:) *{re.escape(str(gold))}[\s.]*\Z", problem):
        return "with the answer in the problem"
    earlier = golds.get(fingerprint(row))
    if earlier is None:
        return None
    if earlier == str(gold) or judge(f"<answer>{gold}</answer>", earlier, question=problem).correct:
        return "repeated"
    return "repeated with another answer than before"


# Columns of the options of a question that does not have them in its own text.
OPTIONS = re.compile(
    r"choices|options|answer_option_list|(?:option|choice|opt)[ _]?[a-j\d]|[a-j]", re.IGNORECASE
)
UNSEEN = ", which no model sees: write that into the problem, in a function of your own"
UNSEEN += " (docs/your-data.md)"


def _why_unearnable(row: dict, original: dict) -> str | None:
    """Why no answer can be correct by a row's gold, and what to do; or None."""
    from rewards.verifier import why_unearnable

    gold = str(row["solution"])
    is_letter = re.fullmatch(r"\(?[A-Ja-j]\)?", gold)
    has_options = re.search(r"\bB\s*[).:\]}]", row["problem"], re.IGNORECASE)
    for column in filter(OPTIONS.fullmatch, row):
        is_place = (column == "choices" and gold.isdigit()) or (is_letter and not has_options)
        if is_place and row.get(column) is not None:
            return f"it is a place in the column `{column}`{UNSEEN}"
    if re.search(r"\bnumber\d", row["problem"]) and row.get("Numbers"):  # of MAWPS
        return f"the problem's numbers are in the column `Numbers`{UNSEEN}"
    reason = why_unearnable(gold, row["problem"])
    if reason is None:
        return None
    leave_out = "leave it out in a function of your own (docs/your-data.md)"
    if len(gold) <= 30:
        column = "answer"
        for key in reversed(original):
            if key not in row and original[key] == gold:
                column = key
        leave_out = f"leave such rows out, as `where: {{{column}: {{not: {json.dumps(gold)}}}}}`"
    another = "or name another column of answers, as `columns: {answer: …}`"
    return f"{reason}; correct the row, {leave_out}, {another}"


def _require_columns(row: dict) -> None:
    for name in row:
        if not isinstance(name, str):
            raise DataError(f"a column is named by text, not by {short_repr(name)}")
    for name in sorted(TAKEN & row.keys()):
        raise DataError(f"the column {name} has a name that the trainer uses itself: rename it")
    missing = [name for name in ("problem", "solution") if name not in row]
    if missing:
        raise DataError(
            f"a data set's rows need `problem` and `answer`; {' and '.join(missing)} missing in"
            f" {short_repr(row)}"
        )


def for_rewards(row: dict) -> dict:
    """The columns of a row that a reward may ask for, with its gold as `solution`, and as `answer`
    in the form that the data has it in; without the worked solution and its answer, which are for
    the warm start."""
    columns = {key: value for key, value in row.items() if key not in HIDDEN}
    columns["answer"] = row["solution"]
    if row.get(RAW) is not None:
        columns["answer"] = row[RAW]
    return columns


# How TRL scripts call the correct answer and the question.
OF_SOLUTION = """ground_truth ground_truths gold golden_answer target targets label labels reference
    references reference_answer answer answers solutions expected"""
OF_PROBLEM = "question questions query queries problems"
AS_MESSAGES = 'a completion is a list of messages: its text is completion[0]["content"]'


def likely_column(name: str, columns: Iterable[str]) -> str:
    """Which columns there are, and in which of them is what a reward calls `name`, where that is a
    usual word."""
    likely = None
    if name in OF_SOLUTION.split():
        likely = "solution"
    elif name in OF_PROBLEM.split():
        likely = "problem"
    listed = f"there are {', '.join(columns)}"
    if likely not in columns:
        return listed
    return f"{listed}; rename the argument {name} to {likely}"


def weighted(rows: list[dict]) -> list[dict]:
    """The rows as often as their data sets' weights say: 2 is twice, and 0.5 a half that is always
    the same."""
    repeated = []
    for row in rows:
        weight = row.get(WEIGHT) or 1
        times = int(weight)
        if random.Random(row["problem"]).random() < weight % 1:
            times += 1
        repeated += [row] * times
    return repeated


def judged_by(row: dict) -> list[str]:
    """What a problem asks, and what its answers are judged by, as its file has it."""
    return [*questions_of(row), str(for_rewards(row)["answer"])]


def _is_text(text: str) -> bool:
    """Whether it has no lone surrogate, half of a character, which JSON can hold and UTF-8 cannot;
    and none of the control characters that a `\\frac` or `\\times` with one backslash leaves."""
    return not re.search("[\ud800-\udfff\0-\x08\x0b\x0c\x0e-\x1f]|\t(imes|ext\\{|heta|frac)", text)
