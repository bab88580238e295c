"""Which columns of somebody's table hold the problem, the answer and the worked solution: by their
names, in several languages, or else by what they hold. `make new` says it, to be overruled."""

import re
import statistics
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from data.files import DataError, read_files
from data.own import (
    BODY,
    USUAL,
    files_of_split,
    guess_columns,
    headless,
    listed,
    of_file,
    of_folder,
    with_setting,
)
from data.sources import from_hub

# Names beside those of `USUAL`, which need no `columns` in a recipe.
OTHER_NAMES = {
    "problem": (
        "task statement exercise text frage aufgabe aufgabenstellung pregunta problema énoncé"
        " enonce exercice domanda quesito pergunta вопрос задача 问题 题目 質問 問題 문제 soru"
    ),
    "answer": (
        "key correct result ergebnis antwort lösung loesung endergebnis respuesta resultado réponse"
        " reponse résultat resultat risposta risultato resposta ответ 答案 答え 正解 정답 cevap"
    ),
    "reasoning": (
        "explanation steps working worked lösungsweg rechenweg erklärung begründung desarrollo"
        " procedimiento explication raisonnement svolgimento решение 解析 解説 풀이"
    ),
}
SAMPLE = 200  # rows that are looked at
SHORT = 60  # characters of an answer
FILLED = 0.9  # the share of rows that have something in a column that is guessed


class Guess(NamedTuple):
    """Both by `problem`, `answer` and `reasoning`, as far as there are any.

    `columns`: the column. `reasons`: why it was taken.
    """

    columns: dict[str, str]
    reasons: dict[str, str]


class Column(NamedTuple):
    """What a column holds, in the rows that are looked at. `values`: as text, without empty ones.
    `filled`: the share of rows that have one."""

    name: str
    values: list[str]
    filled: float

    @property
    def words(self) -> float:
        return statistics.median(len(value.split()) for value in self.values)

    @property
    def distinct(self) -> int:
        return len(set(self.values))

    @property
    def questions(self) -> int:
        return sum(value.rstrip().endswith(("?", "？")) for value in self.values)


def rows_of(function, name: str, config: str | None = None) -> list[dict] | None:
    """The rows of a file, a folder or a set of the Hub as they are there; None for a data set whose
    rows have our columns already. `function`: of the set, see `data.problems.data_set`."""
    kind = getattr(function, "func", None)
    if kind is of_file:
        return read_files(Path(name), [Path(name)])
    if kind is of_folder:
        return read_files(Path(name), files_of_split(Path(name), "train", None))
    if kind is not None:
        return from_hub(name, config, "train", None, partial(_with_name, name))
    return None


def _with_name(name: str, reason: str) -> str:
    """What the Hub answers, with the configuration that DATA can name, if it lists any."""
    key, value = listed(reason)
    return f"{reason}: write DATA={name}:{value}" if key == "config" else with_setting(name, reason)


def guess(source: str, rows: list[dict]) -> Guess:
    """Which columns of these rows are taken, and why.

    Raises:
        DataError: no column looks like the problem, or none like the answer.
    """
    if not rows:
        raise DataError(f"{source} has no rows: it needs one for each problem, with its answer")
    names = list(dict.fromkeys(name for row in rows for name in row))
    if headless(names):
        raise DataError(f"{source} has the columns {', '.join(map(str, names))}{headless(names)}")
    columns: dict[str, str] = {}
    guess_columns(columns, names, rows)
    reasons = dict.fromkeys(columns, "by its name")
    if any(isinstance(row.get(columns.get("problem")), list) for row in rows[:SAMPLE]):
        return Guess(columns, reasons)  # messages, which hold the answer too
    described = _described(names, rows)
    _by_other_names(columns, reasons, described)
    _by_contents(columns, reasons, described)
    for part in ("problem", "answer"):
        if part not in columns:
            listed = ", ".join(map(str, names[:20]))
            message = f"{source} has the columns {listed}, and none looks like the {part}"
            raise DataError(f"{message}: call it {part}")
    columns = {part: columns[part] for part in (BODY, *USUAL) if part in columns}
    return Guess(columns, reasons)


def _described(names: list[str], rows: list[dict]) -> list[Column]:
    """The columns that hold a text or a number in most rows."""
    sample = rows[:SAMPLE]
    columns = []
    for name in names:
        values = [row[name] for row in sample if row.get(name) not in (None, "")]
        is_plain = all(isinstance(value, str | int | float) for value in values)
        if values and is_plain:
            columns.append(Column(name, list(map(str, values)), len(values) / len(sample)))
    return columns


def _by_other_names(columns: dict, reasons: dict, described: list[Column]):
    """Add the columns that carry one of `OTHER_NAMES`, or a usual name among other words, such as
    `question_text`."""
    for part, names in OTHER_NAMES.items():
        usual = {*names.split(), *USUAL[part].split()}
        for column in described:
            words = set(re.findall(r"[^\W\d_]+", str(column.name).casefold()))
            is_taken = column.name in columns.values()
            fits = column.filled >= FILLED and (part != "answer" or _is_short(column))
            if part not in columns and words & usual and fits and not is_taken:
                columns[part] = column.name
                reasons[part] = f"its name says {part}"


def _by_contents(columns: dict, reasons: dict, described: list[Column]):
    """Add the columns for the problem and the answer that look like them."""
    untaken = []
    for column in described:
        if column.name not in columns.values() and column.filled >= FILLED:
            untaken.append(column)
    answers = [column for column in untaken if _is_short(column) and not _is_counter(column)]
    if "answer" not in columns and answers:
        best = max(answers, key=lambda column: (_readable(column), column.distinct, -column.words))
        count = _readable(best)
        if count > len(best.values) / 2:
            columns["answer"] = best.name
            reasons["answer"] = f"{count} of {len(best.values)} of its values are short, as answers"
            untaken.remove(best)
    texts = [column for column in untaken if column.words >= 3]
    if "problem" not in columns and texts:
        best = max(texts, key=lambda column: (column.questions, column.distinct, column.words))
        columns["problem"] = best.name
        reasons["problem"] = f"a text of {best.words:.0f} words in the median"
        if best.questions:
            reasons["problem"] += f"; {best.questions} of {len(best.values)} end in a ?"


def _is_short(column: Column) -> bool:
    return statistics.median(map(len, column.values)) <= SHORT


def _is_counter(column: Column) -> bool:
    """Whether a column counts its rows."""
    if not all(re.fullmatch(r"\d{1,9}", value) for value in column.values):
        return False
    numbers = list(map(int, column.values))
    steps = {after - before for before, after in pairwise(numbers)}
    return steps == {1}


def _readable(column: Column) -> int:
    """How many values the verifier reads as something other than words."""
    from rewards.verifier.value import value
    from rewards.verifier.value_types import Words

    if column.distinct < 2:
        return 0
    read = 0
    for text in column.values:
        is_text = len(text) > SHORT or text.rstrip().endswith("?")
        read += not is_text and not isinstance(value(text), Words)
    return read


def without_body(columns: dict[str, str]) -> dict[str, str]:
    """The columns as a recipe writes them; none where the loader joins two of them by itself."""
    return {} if BODY in columns else columns
