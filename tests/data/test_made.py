"""Data sets made on the spot are right, distinct and apart from their test split; a wrong check is
named."""

import json
import re

import pytest

from data.identity import overlaps
from data.made import arithmetic, countdown, reached, worked, written
from data.problems import judged_by, load
from data.sources import DataError
from rewards.verifier import STRICT, judge
from tests.support import write_lines
from tests.tables import cases

ROW = {
    "problem": "Make 48 from 3, 4 and 9, each used once, with + - * / and brackets.",
    "solution": "(9+3)*4",
    "check": '{"countdown": {"numbers": [3, 4, 9], "target": 48}}',
}


FOUR = {"numbers": 4}


@pytest.mark.parametrize(
    ("made", "few", "many"),
    [
        (arithmetic, {"rows": 400}, {}),
        (arithmetic, {"digits": 1, "rows": 50}, {"digits": 1}),
        (arithmetic, {"digits": 3, "rows": 400}, {"digits": 3}),
        (countdown, FOUR | {"rows": 400}, FOUR | {"rows": 4000}),
    ],
)
def test_the_splits_are_apart_and_a_problem_never_changes_sides(made, few, many):
    train, test = ({row["problem"] for row in made(split, **many)} for split in ("train", "test"))
    assert not train & test and 0.07 < len(test) / (len(train) + len(test)) < 0.13
    assert not {row["problem"] for row in made("test", **few)} & train
    assert not {row["problem"] for row in made("train", **few)} & test
    assert made("train", **few) == made("train", **few)


@cases(__file__, "problems_are_right_distinct_and_apart")
def test_problems_are_right_distinct_and_apart(arguments):
    train, test = (countdown(split, **arguments) for split in ("train", "test"))
    rows = train + test
    assert len(rows) <= arguments.get("rows", 8000)
    assert len({row["problem"] for row in rows}) == len({row["check"] for row in rows}) == len(rows)
    assert not overlaps(train, {"test": test})
    for row in rows:
        needed = json.loads(row["check"])["countdown"]
        assert len(needed["numbers"]) == arguments.get("numbers", 3)
        assert max(needed["numbers"]) <= arguments.get("largest", 9)
        assert needed["target"] == arguments.get("target", needed["target"])
        expected = list(map(str, [needed["target"], *needed["numbers"]]))
        assert re.findall(r"\d+", row["problem"]) == expected
        answer = f"<answer>{row['solution']}</answer>"
        assert judge(answer, "", check=row["check"], reading=STRICT).right


def test_the_worked_search_is_true_and_ends_in_the_solution():
    lengths = set()
    for row in countdown("train", tries=3):
        *wrong, right = row["reasoning"].split(", ")
        lengths.add(len(wrong))
        needed = json.loads(row["check"])["countdown"]
        assert right.startswith(row["solution"] + "=") and right.endswith(f"={needed['target']}")
        for attempt in [*wrong, right]:
            steps = attempt.split("=")
            assert len(steps) == 3
            assert {eval(step) for step in steps} == {int(steps[-1])}
            # with the numbers that are given
            check = json.dumps({"countdown": {**needed, "target": int(steps[-1])}})
            assert judge(f"<answer>{steps[0]}</answer>", "", check=check).right
        assert all(int(attempt.split("=")[-1]) != needed["target"] for attempt in wrong)
    assert lengths == {0, 1, 2, 3}


@cases(__file__, "expressions_are_written_with_the_brackets_they_need")
def test_expressions_are_written_with_the_brackets_they_need(tree, text, steps):
    assert (written(tree), worked(tree)) == (text, steps)


def test_values_are_whole_and_positive_all_along():
    assert reached((2, 3)).keys() == {5, 6, 1}
    assert 24 not in reached((3, 3, 8, 8))  # needs 8/3
    assert reached((1, 1)).keys() == {2, 1}


@cases(__file__, "arguments_out_of_range")
def test_arguments_out_of_range(maker, arguments, message):
    with pytest.raises(DataError, match=message):
        {"arithmetic": arithmetic, "countdown": countdown}[maker]("train", **arguments)


@cases(__file__, "a_wrong_check_of_the_users_own_is_named_with_its_row")
def test_a_wrong_check_of_the_users_own_is_named_with_its_row(check, message, tmp_path):
    file = tmp_path / "mine.jsonl"
    write_lines(file, [ROW, ROW | {"problem": "?", "check": check}])
    expected = rf"mine\.jsonl row 2 has a `check` that cannot be used: {message}"
    with pytest.raises(DataError, match=expected):
        load(str(file), "train", {})


def test_a_check_is_part_of_what_a_problem_is_judged_by(tmp_path):
    write_lines(tmp_path / "mine.jsonl", [ROW, {"problem": "2+3?", "solution": 5}])
    rows, _ = load(str(tmp_path / "mine.jsonl"), "train", {})
    expected = [[ROW["problem"], ROW["solution"], ROW["check"]], ["2+3?", "5"]]
    assert list(map(judged_by, rows)) == expected


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_arithmetic_is_right(digits):
    train, test = (arithmetic(split, digits=digits) for split in ("train", "test"))
    for row in train + test:
        a, b = row["problem"].removeprefix("What is ").removesuffix("?").split(" + ")
        assert len(a) == len(b) == digits
        assert int(a) + int(b) == int(row["solution"])
        assert row["answer"] == row["solution"]


def _worked(problem: str, **arguments) -> tuple[str, str, str]:
    rows = arithmetic("train", **arguments) + arithmetic("test", **arguments)
    [row] = [row for row in rows if row["problem"] == problem]
    return row["reasoning"], row["answer"], row["solution"]


def test_arithmetic_writes_carries_out_or_forgets_them():
    assert _worked("What is 47 + 85?", rows=8100) == ("7+5=12, 4+8+1=13", "132", "132")
    assert _worked("What is 21 + 34?", rows=8100) == ("1+4=5, 2+3=5", "55", "55")
    assert _worked("What is 47 + 85?", rows=8100, slips=1.0) == ("7+5=12, 4+8=12", "122", "132")
    assert _worked("What is 21 + 34?", rows=8100, slips=1.0) == ("1+4=5, 2+3=5", "55", "55")
    wrong = [row["answer"] != row["solution"] for row in arithmetic("train", slips=0.5)]
    # 45% of the sums have a carry to forget, half of them do
    assert 0.18 < sum(wrong) / len(wrong) < 0.27


def test_a_wordy_teacher_repeats_itself_and_changes_nothing_else():
    plain, wordy = (arithmetic("train", slips=0.5, repeats=repeats) for repeats in (0, 2))
    repeated = []
    for row, longer in zip(plain, wordy, strict=True):
        assert row | {"reasoning": longer["reasoning"]} == longer
        repeated.append((len(longer["reasoning"]) + 2) // (len(row["reasoning"]) + 2))
        assert longer["reasoning"] == ", ".join([row["reasoning"]] * repeated[-1])
    assert {1, 2, 3} == set(repeated)
