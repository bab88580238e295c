"""Golds that no plain answer earns are found, and those of real data sets are none of them."""

import os
import re
from types import SimpleNamespace

import pytest

from data.problems import load
from evaluation import golds
from rewards.verifier import judge
from schema.recipe import load_recipe
from tests.tables import cases

RECIPE = SimpleNamespace(strict=False, tolerance=0.0)
PROBLEM = "How heavy is the box?"


def rows_of(answers: list[str], problem: str = PROBLEM) -> list[dict]:
    return [{"problem": problem, "solution": answer} for answer in answers]


@cases(__file__, "golds")
def test_a_gold_that_no_plain_answer_earns_is_ungraded(reason, answers, problem):
    rows = rows_of(answers, problem or PROBLEM)
    gradable, ungraded = golds.by_gradability(rows, RECIPE)
    assert gradable == (rows if reason is None else [])
    assert [text for _, text in ungraded if reason not in text] == []


@cases(__file__, "levels")
def test_above_a_tenth_of_bad_golds_is_an_error(bad, audit, level, monkeypatch):
    monkeypatch.setenv("AUDIT", audit)
    recipe = load_recipe("recipes/tiny-arithmetic.yaml")
    sample = [f"approx. {number}" for number in range(bad)]
    sample += [str(number) for number in range(20 - bad)]
    gradable, ungraded = golds.some_golds(rows_of(sample), recipe)
    faults = list(golds.gold_faults(gradable, ungraded, recipe))
    assert [fault.level for fault in faults] == [level] * (level is not None)
    for fault in faults:
        assert f"{bad} of 20 golds" in fault.message
        assert fault.message.count("'approx. ") == min(bad, 3)


def test_a_message_shows_three_kinds_where_there_are_three():
    sample = ["approx. 1", "approx. 2", "approx. 3", "1,5", "> 5"]
    text = golds.description(*golds.by_gradability(rows_of(sample), RECIPE))
    assert [gold for gold in sample if repr(gold) in text] == ["approx. 1", "1,5", "> 5"]


def test_three_golds_are_printed_as_they_are_read(capsys):
    sample = ["77", "78", "79", r"\frac{1}{2}", "x + 1", "Evelyn", "3, 4", "5 kg"]
    golds.say_examples(rows_of(sample), RECIPE)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    readings = {"77": "a number", "x + 1": "an expression", "Evelyn": "words"}
    for line, (gold, kind) in zip(lines, readings.items(), strict=True):
        correct, incorrect = re.findall(r"\\boxed\{.*?\}(?= earns 1| does not)", line)
        assert kind in line
        assert judge(correct, gold, question=PROBLEM).correct is True
        assert judge(incorrect, gold, question=PROBLEM).correct is False


REAL_DATA = os.environ.get("REAL_DATA", "")
SETS = ["gsm8k", "math-500", "svamp", "asdiv", "aime-2024", "amc-2023", "minerva", "olympiadbench"]


@pytest.mark.train
@pytest.mark.skipif(not REAL_DATA, reason="MATH_DATA_DIR names no folder of parquet files")
@pytest.mark.parametrize("name", SETS)
def test_the_golds_of_a_real_set_are_fine(name):
    """At most one in a hundred is taken for a bad one."""
    rows, _ = load(name, "test", {}, REAL_DATA)
    _, ungraded = golds.by_gradability(rows, RECIPE)
    assert len(ungraded) <= len(rows) / 100
