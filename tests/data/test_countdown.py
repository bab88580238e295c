"""Countdown problems are distinct, solvable and apart from their test split; a wrong check of a user's own is named."""

import json
import re

import pytest

from data import countdown
from data.countdown import reached, worked, written
from data.overlap import overlaps
from data.problems import judged_by, load
from data.sources import DataError
from rewards.verifier import judge

ROW = {
    "problem": "Make 48 from 3, 4 and 9, each used once, with + - * / and brackets.",
    "solution": "(9+3)*4",
    "check": '{"countdown": {"numbers": [3, 4, 9], "target": 48}}',
}


@pytest.mark.parametrize(
    "arguments",
    [{}, {"largest": 12}, {"numbers": 2}, {"numbers": 4, "rows": 300}, {"numbers": 4, "target": 24}, {"rows": 50}],
    ids=str,
)
def test_problems_are_right_distinct_and_apart(arguments):
    train, test = (countdown(split, **arguments) for split in ("train", "test"))
    rows = train + test
    assert countdown("train", **arguments) == train
    assert len(rows) <= arguments.get("rows", 8000)
    assert len({row["problem"] for row in rows}) == len({row["check"] for row in rows}) == len(rows)
    assert not overlaps(train, {"test": test})
    for row in rows:
        needed = json.loads(row["check"])["countdown"]
        assert len(needed["numbers"]) == arguments.get("numbers", 3)
        assert max(needed["numbers"]) <= arguments.get("largest", 9)
        assert needed["target"] == arguments.get("target", needed["target"])
        assert re.findall(r"\d+", row["problem"]) == list(map(str, [needed["target"], *needed["numbers"]]))
        assert judge(f"<answer>{row['solution']}</answer>", "", check=row["check"], strict=True).right


def test_the_share_of_the_test_split_and_that_it_is_kept_when_there_are_more_rows():
    few, many = ({row["problem"] for row in countdown("test", numbers=4, rows=rows)} for rows in (400, 4000))
    others = {row["problem"] for row in countdown("train", numbers=4, rows=4000)}
    assert not few & others
    assert 0.07 < len(many) / (len(many) + len(others)) < 0.13


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
            made = json.dumps({"countdown": {**needed, "target": int(steps[-1])}})
            assert judge(f"<answer>{steps[0]}</answer>", "", check=made).right  # with the numbers that are given
        assert all(int(attempt.split("=")[-1]) != needed["target"] for attempt in wrong)
    assert lengths == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("tree", "text", "steps"),
    [
        (7, "7", "7"),
        (("*", ("-", 8, 5), 3), "(8-5)*3", "(8-5)*3=3*3=9"),
        (("-", 8, ("-", 5, 3)), "8-(5-3)", "8-(5-3)=8-2=6"),
        (("-", ("-", 8, 5), 3), "8-5-3", "8-5-3=3-3=0"),
        (("/", ("*", 8, 3), ("/", 6, 2)), "8*3/(6/2)", "8*3/(6/2)=24/(6/2)=24/3=8"),
        (("+", ("/", 8, 2), ("*", 3, 4)), "8/2+3*4", "8/2+3*4=4+3*4=4+12=16"),
    ],
)
def test_expressions_are_written_with_the_brackets_they_need(tree, text, steps):
    assert (written(tree), worked(tree)) == (text, steps)


def test_values_are_whole_and_positive_all_along():
    assert reached((2, 3)).keys() == {5, 6, 1}
    assert 24 not in reached((3, 3, 8, 8))  # needs 8/3
    assert reached((1, 1)).keys() == {2, 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"numbers": 5}, "numbers must be 2 to 4, not 5"),
        ({"largest": 0}, "largest must be 1 to 25, not 0"),
        ({"target": 0}, "target must be 1 to 99, not 0"),
        ({"target": 100}, "target must be 1 to 99, not 100"),
        ({"numbers": 2, "largest": 2, "target": 99}, "no 2 numbers up to 2 make 99"),
    ],
)
def test_arguments_out_of_range(arguments, message):
    with pytest.raises(DataError, match=message):
        countdown("train", **arguments)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ('{"countdown": {"numbers": [3, 4, 9]', "it is not JSON"),
        ('{"count": {"numbers": [3, 4, 9], "target": 48}}', "there is no kind 'count'"),
        ({"countdown": {"numbers": [3, 4, 9], "target": 48}}, "it is not JSON text"),
        ('{"countdown": {"numbers": ["3"], "target": 48}}', "countdown needs 1 to 10 `numbers`"),
    ],
)
def test_a_wrong_check_of_the_users_own_is_named_with_its_row(check, message, tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in (ROW, {**ROW, "problem": "?", "check": check})))
    with pytest.raises(DataError, match=rf"mine\.jsonl row 2 has a `check` that cannot be used: {message}"):
        load(str(file), "train", {})


def test_a_check_is_part_of_what_a_problem_is_judged_by(tmp_path):
    (tmp_path / "mine.jsonl").write_text(json.dumps(ROW) + "\n" + json.dumps({"problem": "2+3?", "solution": 5}) + "\n")
    rows, _ = load(str(tmp_path / "mine.jsonl"), "train", {})
    assert list(map(judged_by, rows)) == [[ROW["problem"], ROW["solution"], ROW["check"]], ["2+3?", "5"]]
