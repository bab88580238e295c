"""Loaders: gold answers as the data sets write them, bad rows dropped and counted, a fixed held-out split."""

import pandas as pd
import pytest

from data import arithmetic
from data.gold import boxed, gold_answer
from data.problems import load, split_validation
from data.sources import DataError


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        ("48/2 = <<48/2=24>>24 clips.\n#### 72", "72"),
        ("so many.\n#### 1,234", "1234"),
        ("a debt.\n#### -5", "-5"),
        ("a lot.\n#### 1,234,567", "1234567"),
        ("nothing follows.\n####", None),
        (r"We have $x = \boxed{\frac{1}{2}}$.", r"\frac{1}{2}"),
        (r"First \boxed{1}, then \boxed{2}.", "2"),
        (r"so $\boxed 2$.", "2"),
        (r"is \fbox{7}", "7"),
        (r"\boxed{\text{(\textbf{A})}}", r"\text{(\textbf{A})}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{}", None),
        (r"never closed \boxed{\frac{1}{2}", None),
        ("42", "42"),
        ("  ", None),
        (None, None),
        (float("nan"), None),
    ],
)
def test_gold_answer(text, gold):
    assert gold_answer(text) == gold


def test_boxed_finds_every_box_in_order():
    assert boxed(r"\boxed{1} and \boxed{\sqrt{2}} and \boxed 3, \boxeder{4}") == ["1", r"\sqrt{2}", "3"]


def test_bad_rows_of_a_parquet_are_dropped_and_counted(tmp_path):
    rows = [
        ("How many?", "Two.\n#### 2"),
        (None, "Three.\n#### 3"),
        ("  ", "Four.\n#### 4"),
        ("No number?", "Five.\n#### five"),
        ("No mark?", "Six"),
        ("No answer?", None),
        ("How many?", "Again.\n#### 2"),
        ("Thousands?", "So.\n#### 1,000"),
    ]
    pd.DataFrame(rows, columns=["question", "answer"]).to_parquet(tmp_path / "gsm8k-train.parquet")
    problems, report = load("gsm8k", "train", {}, str(tmp_path))
    assert [row["solution"] for row in problems] == ["2", "1000"]
    assert report == ("gsm8k train: 2 problems, 6 dropped (2 without a problem, 3 without a gold answer, 1 repeated)")


def test_a_math_row_without_a_box_has_no_gold(tmp_path):
    rows = [(r"What is $2^3$?", r"We have $\boxed{8}$."), ("And $3^2$?", "It is 9."), ("Empty?", r"$\boxed{}$")]
    pd.DataFrame(rows, columns=["problem", "solution"]).to_parquet(tmp_path / "math-test.parquet")
    problems, report = load("math", "test", {}, str(tmp_path))
    assert [row["solution"] for row in problems] == ["8"]
    assert "2 dropped" in report


def test_the_environment_names_the_folder_where_the_recipe_does_not(tmp_path, monkeypatch):
    pd.DataFrame([("q", "#### 1")], columns=["question", "answer"]).to_parquet(tmp_path / "gsm8k-test.parquet")
    monkeypatch.setenv("MATH_DATA_DIR", str(tmp_path))
    assert load("gsm8k", "test", {})[0][0]["solution"] == "1"


@pytest.mark.parametrize(
    ("columns", "message"), [(["question", "reply"], "answer is needed"), (["a", "b"], "question, answer is needed")]
)
def test_wrong_columns_are_named(columns, message, tmp_path):
    pd.DataFrame([("x", "y")], columns=columns).to_parquet(tmp_path / "gsm8k-train.parquet")
    with pytest.raises(DataError, match=message):
        load("gsm8k", "train", {}, str(tmp_path))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"math-500\.parquet does not exist"):
        load("math-500", "test", {}, str(tmp_path))


def test_math_500_is_never_trained_on(tmp_path):
    with pytest.raises(DataError, match="never trained on"):
        load("math-500", "train", {}, str(tmp_path))


def test_nothing_usable_is_an_error(tmp_path):
    pd.DataFrame([("q", "none")], columns=["question", "answer"]).to_parquet(tmp_path / "gsm8k-train.parquet")
    with pytest.raises(DataError, match="nothing is left"):
        load("gsm8k", "train", {}, str(tmp_path))


def test_a_data_set_of_ones_own_is_a_dotted_path(tmp_path, monkeypatch):
    (tmp_path / "my_puzzles.py").write_text(
        "def puzzles(split, hard=False):\n    return [{'problem': f'{split} {hard}?', 'solution': 1}]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    rows, _ = load("my_puzzles.puzzles", "train", {"hard": True})
    assert rows == [{"problem": "train True?", "solution": "1", "reasoning": None, "source": "my_puzzles.puzzles"}]


def test_a_row_without_the_two_columns_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "my_broken.py").write_text("def puzzles(split):\n    return [{'question': 'x', 'solution': 1}]\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DataError, match="problem missing"):
        load("my_broken.puzzles", "train", {})


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_arithmetic_is_right_and_its_splits_are_apart(digits):
    train, test = (arithmetic(split, digits=digits) for split in ("train", "test"))
    assert not {row["problem"] for row in train} & {row["problem"] for row in test}
    for row in train + test:
        a, b = row["problem"].removeprefix("What is ").removesuffix("?").split(" + ")
        assert len(a) == len(b) == digits
        assert int(a) + int(b) == int(row["solution"])
        assert row["answer"] == row["solution"]
    assert arithmetic("train", digits=digits) == train


def _worked(problem: str, **arguments) -> tuple[str, str, str]:
    rows = {row["problem"]: row for split in ("train", "test") for row in arithmetic(split, **arguments)}
    return tuple(rows[problem][key] for key in ("reasoning", "answer", "solution"))


def test_arithmetic_writes_carries_out_or_forgets_them():
    assert _worked("What is 47 + 85?", rows=8100) == ("7+5=12, 4+8+1=13", "132", "132")
    assert _worked("What is 21 + 34?", rows=8100) == ("1+4=5, 2+3=5", "55", "55")
    assert _worked("What is 47 + 85?", rows=8100, slips=1.0) == ("7+5=12, 4+8=12", "122", "132")
    assert _worked("What is 21 + 34?", rows=8100, slips=1.0) == ("1+4=5, 2+3=5", "55", "55")
    wrong = [row["answer"] != row["solution"] for row in arithmetic("train", slips=0.5)]
    assert 0.18 < sum(wrong) / len(wrong) < 0.27  # 45 % of the sums have a carry to forget, half of them do


def test_the_held_out_split_depends_on_the_rows_alone():
    rows = [{"problem": str(i)} for i in range(100)]
    train, held_out = split_validation(rows, 20)
    assert (len(train), len(held_out)) == (80, 20)
    assert sorted(int(row["problem"]) for row in train + held_out) == list(range(100))
    assert split_validation(rows, 20) == (train, held_out)
    with pytest.raises(DataError, match="nothing is left to train on"):
        split_validation(rows, 100)
