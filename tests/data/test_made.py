"""Data sets made on the spot are correct, and apart from their test split."""

import pytest

from data.files import DataError
from data.made import arithmetic
from tests.tables import cases


@pytest.mark.parametrize(
    ("made", "few", "many"),
    [
        (arithmetic, {"rows": 400}, {}),
        (arithmetic, {"digits": 1, "rows": 50}, {"digits": 1}),
        (arithmetic, {"digits": 3, "rows": 400}, {"digits": 3}),
    ],
)
def test_the_splits_are_apart_and_a_problem_never_changes_sides(made, few, many):
    train, test = ({row["problem"] for row in made(split, **many)} for split in ("train", "test"))
    assert not train & test and 0.07 < len(test) / (len(train) + len(test)) < 0.13
    assert not {row["problem"] for row in made("test", **few)} & train
    assert not {row["problem"] for row in made("train", **few)} & test
    assert made("train", **few) == made("train", **few)


@cases(__file__, "arguments_out_of_range")
def test_arguments_out_of_range(arguments, message):
    with pytest.raises(DataError, match=message):
        arithmetic("train", **arguments)


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_arithmetic_is_correct(digits):
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
    incorrect = [row["answer"] != row["solution"] for row in arithmetic("train", slips=0.5)]
    # 45% of the sums have a carry to forget, half of them do
    assert 0.18 < sum(incorrect) / len(incorrect) < 0.27


def test_a_wordy_teacher_repeats_itself_and_changes_nothing_else():
    plain, wordy = (arithmetic("train", slips=0.5, repeats=repeats) for repeats in (0, 2))
    repeated = []
    for row, longer in zip(plain, wordy, strict=True):
        assert row | {"reasoning": longer["reasoning"]} == longer
        repeated.append((len(longer["reasoning"]) + 2) // (len(row["reasoning"]) + 2))
        assert longer["reasoning"] == ", ".join([row["reasoning"]] * repeated[-1])
    assert {1, 2, 3} == set(repeated)
