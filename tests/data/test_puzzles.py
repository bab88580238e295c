"""The puzzles' own programs are right, and the calls in their checks tell wrong ones."""

import json
import re
import sys

import pytest

from data import puzzles
from data.problems import load
from data.sources import DataError
from rewards.verifier.checks import judge_programs


def _passes(source: str, cases: list) -> bool:
    names = {}
    try:
        exec(source, names)
        return all(names["f"](*json.loads(json.dumps(arguments))) == result for arguments, result in cases)
    except (TypeError, AttributeError):  # a step that does not fit
        return False


def _cases(row: dict) -> list:
    check = json.loads(row["check"])
    assert list(check) == ["python"] and list(check["python"]) == ["function", "cases"]
    assert check["python"]["function"] == "f"
    return check["python"]["cases"]


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return puzzles("train") + puzzles("test")


def test_the_solutions_pass_their_checks_and_lazy_ones_do_not(rows):
    for row in rows:
        cases, lines = _cases(row), row["solution"].split("\n")
        assert _passes(row["solution"], cases), row
        wrong = ["def f(x): return x", *(f"def f(x): return {result!r}" for _, result in cases)]
        if len(lines) == 3:
            wrong += [f"{lines[0]}\n{lines[2]}", f"{lines[0]}\n{lines[1].replace('x =', 'return', 1)}"]
        assert [each for each in wrong if _passes(each, cases)] == [], row


def test_a_number_that_is_off_by_one_is_told(rows):
    """All but those that return the same: above 7 or above 8 is one question for the multiples of 5."""
    told, sources = [], [(row, number) for row in rows for number in re.finditer(r"\d+", row["solution"])]
    for row, number in sources:
        start, end, source = number.start(), number.end(), row["solution"]
        told.append(not _passes(f"{source[:start]}{int(number[0]) + 1}{source[end:]}", _cases(row)))
    assert sum(told) > 0.98 * len(told)  # 45 of 5,846 pass with one more or one less


def test_the_solutions_pass_as_answers(rows):
    sample = rows[::100]
    answers = [f"<think>{row['reasoning']}</think><answer>{row['solution']}</answer>" for row in sample]
    verdicts = judge_programs(answers, [json.loads(row["check"])["python"] for row in sample], [True] * 20)
    assert [verdict.right for verdict in verdicts] == [True] * 20


def test_the_splits_are_apart_and_the_same_each_time(rows):
    train, test = puzzles("train"), puzzles("test")
    assert len(train) + len(test) == 2000 and len(test) > 150
    assert not {row["problem"] for row in train} & {row["problem"] for row in test}
    assert train + test == rows
    few = [{row["problem"] for row in puzzles(split, rows=200)} for split in ("train", "test")]
    assert few[0] < {row["problem"] for row in train} and few[1] < {row["problem"] for row in test}


def test_they_are_loaded_with_their_checks():
    rows, report = load("puzzles", "test", {"rows": 100})
    assert report == f"puzzles test: {len(rows)} problems"
    assert all(row["check"] and "\n" in row["solution"] and row["reasoning"] for row in rows)


@pytest.mark.parametrize("rows", [0, -1, 8001])
def test_rows_are_bounded(rows):
    with pytest.raises(DataError, match="rows must be 1 to 8,000"):
        puzzles("train", rows=rows)


@pytest.mark.parametrize("about", ["number", "list", "text"])
def test_puzzles_about_one_thing(about):
    rows = puzzles("train", rows=300, about=about)
    assert len(rows) > 250
    assert all(f" x is a {about}" in row["problem"] for row in rows)


def test_no_more_puzzles_than_there_are(monkeypatch):
    module = sys.modules["data.puzzles"]  # `data.puzzles` is its function
    monkeypatch.setattr(module, "_STEPS", [("number", "number", "add {}", "x + {}", range(1, 4))])
    # 3 of one step, 9 of two; no program may leave a step out.
    assert len(puzzles("train", about="number")) + len(puzzles("test", about="number")) == 12


def test_another_thing_is_refused():
    with pytest.raises(DataError, match="about must be number, list, text or left out, not numbers"):
        puzzles("train", about="numbers")
