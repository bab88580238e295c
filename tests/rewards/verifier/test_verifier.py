"""The verifier's rule, as the table in cases.tsv; and every gold of the real data sets, echoed and
swapped, which needs their parquet files: MATH_DATA_DIR=… make test-slow."""

import os
import re
from pathlib import Path

import pytest

from rewards.verifier import CONTRACT, LENIENT, STRICT, judge, judge_all
from rewards.verifier.extract import _INTEGER_COMPLETION, extract
from rewards.verifier.gold import gold_answer
from rewards.verifier.notation import key, plain
from rewards.verifier.numerals import number
from rewards.verifier.value import value
from rewards.verifier.value_types import Expr
from tests.rewards.verifier.judged_rows import TABLES, judged_rows
from tests.tables import cases, rows

DATA = Path(os.environ["REAL_DATA"])
needs_data = pytest.mark.skipif(
    not os.environ["REAL_DATA"],
    reason="MATH_DATA_DIR names no folder with gsm8k-*.parquet and math-*.parquet",
)

# file, column of the question, column of the gold, share of echoes that must be right
SETS = [
    ("gsm8k-train", "question", "answer", 1.0),
    ("gsm8k-test", "question", "answer", 1.0),
    ("math-500", "problem", "answer", 1.0),
    ("math-train", "problem", "solution", 0.998),
    ("math-test", "problem", "solution", 0.998),
]


# Wrong answers that are paid, with why: (gold, answer).
PAID = {
    (r"3.2 \times 10^5", "3.2e5%"): "without its question a percent sign may be left out",
    ("3 and 1/2", "3, 1/2"): "the gold may be a list of two",
    ("12345", "12\n345"): "a line break is a space, which may stand between thousands",
}


@pytest.mark.parametrize("name", TABLES)
def test_every_row_is_judged_as_it_says(name):
    rows = judged_rows(name)
    columns = [[row[n] for row in rows] for n in (2, 1, 3)]  # completion, gold, question
    verdicts = judge_all(*columns, timeout=20)
    misjudged = []
    for row, verdict in zip(rows, verdicts, strict=True):
        if (row.gold, re.sub("</?answer>", "", row.completion)) in PAID:
            assert verdict.correct
        elif row.expected == "none":
            assert verdict.correct is None
        elif (verdict.correct is True) != (row.expected == "right"):
            misjudged.append((row, verdict))
    assert misjudged == []


@cases(__file__, "lenient")
def test_the_lenient_reading_takes_the_last_number_where_the_contract_finds_no_answer(
    completion, gold, correct
):
    assert judge(completion, gold, reading=LENIENT).correct is correct


def test_the_lenient_reading_pays_what_the_contract_pays():
    rows = judged_rows("models.tsv")
    columns = [[row[n] for row in rows] for n in (2, 1, 3)]
    by_contract, lenient = (
        judge_all(*columns, reading=reading, timeout=20) for reading in (CONTRACT, LENIENT)
    )
    for first, second in zip(by_contract, lenient, strict=True):
        assert second.correct or not first.correct


@cases(__file__, "tolerance")
def test_a_number_within_the_tolerance_is_the_golds(completion, gold, tolerance, correct):
    verdict = judge(completion, gold, tolerance=tolerance)
    assert verdict.correct is correct
    assert verdict.answer in completion  # as it is written, not as it is judged


@pytest.mark.parametrize("tolerance", [-0.1, 1.0])
def test_a_tolerance_is_a_share(tolerance):
    with pytest.raises(ValueError, match="a tolerance is a share of the gold"):
        judge("5", "5", tolerance=tolerance)


def test_the_short_way_to_a_whole_number_finds_what_the_rule_finds():
    completions = [row.completion for row in judged_rows("cases.tsv")]
    short = [completion for completion in completions if _INTEGER_COMPLETION.fullmatch(completion)]
    assert len(short) > 50
    for completion in short:
        assert extract(completion) == extract(completion + " <")  # which takes the long way


def test_the_tables_are_large_and_half_of_them_are_incorrect_answers():
    expected = [row.expected for name in TABLES for row in judged_rows(name)]
    assert len(expected) >= 8000
    assert expected.count("wrong") >= len(expected) / 2 - 50


def test_a_verdict_is_neither_true_nor_false():
    for gold in ("5", "6", ""):
        with pytest.raises(TypeError, match=r"read its \.correct"):
            bool(judge(r"\boxed{5}", gold))


@cases(__file__, "reasons")
def test_the_reason_says_what_decided(completion, reason):
    assert judge(completion, "5").reason == reason


def test_a_sentence_kept_whole_is_no_reason_against_a_correct_answer():
    assert (
        judge(
            "<answer>More than one hen has 5 eggs.</answer>", "More than one hen has 5 eggs."
        ).reason
        == "spelled like the gold"
    )


def _rows(name: str, question: str, gold: str) -> tuple[list[str], list[str]]:
    import pandas

    table = pandas.read_parquet(DATA / f"{name}.parquet")
    return list(table[question]), list(table[gold])


def _boxed(gold: str) -> str:
    return rf"<think>Let me see.</think><answer>\boxed{{{gold_answer(gold)}}}</answer>"


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize(("name", "question", "gold", "share"), SETS)
def test_every_gold_echoed_is_correct(name, question, gold, share):
    questions, golds = _rows(name, question, gold)
    for asked in (questions, [None] * len(golds)):
        verdicts = judge_all([_boxed(g) for g in golds], golds, asked, reading=STRICT)
        assert sum(v.correct is True for v in verdicts) >= share * len(golds)
        assert not any(v.timed_out for v in verdicts)


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize(("name", "question", "gold", "share"), SETS)
@pytest.mark.parametrize("shift", [1, 7, 101])
def test_another_problems_gold_is_incorrect(name, question, gold, share, shift):
    """Two golds that differ in no more than a unit, a percent sign or `x =` are one answer, and not
    looked at."""
    _, golds = _rows(name, question, gold)
    pairs = [
        (a, b)
        for a, b in zip(golds, golds[shift:] + golds[:shift], strict=True)
        if gold_answer(a) and gold_answer(b)
    ]
    pairs = [(a, b) for a, b in pairs if _bare(a) != _bare(b)]
    verdicts = judge_all(
        [_boxed(b) for _, b in pairs], [a for a, _ in pairs], [None] * len(pairs), reading=STRICT
    )
    assert [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict.correct] == []
    assert not any(v.timed_out for v in verdicts)


def _bare(gold: str) -> str:
    """A gold without unit, percent sign and name; a number as its value."""
    text = re.sub(
        r"\\(?:text|mbox)\{[^{}]*\}|\^\\circ|\\?[%$]|^\s*[A-Za-z]\s*=", "", gold_answer(gold)
    )
    n = number(plain(text))
    return key(text) if n is None else str(n)


# Another unit for each unit of a dimension.
SWAPPED = {row["unit"]: row["others"] for row in rows(__file__, "swapped")}


def _golds_with_units(split: str) -> list[tuple[str, str, str]]:
    """GSM8K's questions and golds with the unit that the last line of the solution gives to the
    gold, where the question has that unit too."""
    rows = []
    for question, solution in zip(*_rows(f"gsm8k-{split}", "question", "answer"), strict=True):
        gold = gold_answer(solution)
        lines = re.sub("<<.*?>>", "", solution.partition("####")[0]).strip().splitlines()
        last_line = re.sub(r"(?<=\d),(?=\d{3})", "", lines[-1])
        behind_gold = rf"(\$ ?)?(?<![\d.]){re.escape(gold)}(?:\.0+)?(?![\d.]*\d)(?: ([a-z]+))?"
        *_, match = [None, *re.finditer(behind_gold, last_line)]
        unit = "dollars" if match and match[1] else match and match[2]
        is_in_question = "$" in question if unit == "dollars" else f" {unit}" in question
        if unit in SWAPPED and is_in_question:
            rows.append((question, gold, unit))
    return rows


@pytest.mark.slow
@needs_data
def test_the_unit_of_the_question_behind_the_box_is_paid_and_another_is_not():
    rows = _golds_with_units("test")
    assert len(rows) > 400
    questions, golds, units = zip(*rows, strict=True)
    boxes = [rf"So it comes to $\boxed{{{gold}}}$" for gold in golds]
    correct = [f"{box} {unit}." for box, unit in zip(boxes, units, strict=True)]
    refused = [verdict for verdict in judge_all(correct, golds, questions) if not verdict.correct]
    assert len(refused) <= len(rows) / 100
    for n in range(3):
        others = [SWAPPED[unit][n % len(SWAPPED[unit])] for unit in units]
        incorrect = [f"{box} {other}." for box, other in zip(boxes, others, strict=True)]
        verdicts = judge_all(incorrect, golds, questions)
        assert [row for row, verdict in zip(rows, verdicts, strict=True) if verdict.correct] == []


@pytest.mark.slow
@needs_data
def test_respelled_golds_are_correct_and_changed_ones_incorrect():
    """Every expression among MATH's golds, written by sympy: expanded, factored, typed; and with 1
    added, doubled, …"""
    import sympy

    from rewards.verifier import algebra

    same, other = [], []
    golds = {
        gold_answer(g)
        for name in ("math-train", "math-test")
        for g in _rows(name, "problem", "solution")[1]
    }
    for gold in sorted(filter(None, golds)):
        typed = value(gold)
        if not isinstance(typed, Expr) or re.search(
            r"infty|!|\^\{\d{4}\}|text\{[^}]*\d|[a-zA-Z]{3}|e$", re.sub(r"\\[a-z]+", "", gold)
        ):
            continue
        try:
            parsed = algebra.parse(plain(typed.text)).doit()
        except algebra.Unreadable:
            continue
        same += [(gold, sympy.latex(f(parsed))) for f in (sympy.expand, sympy.factor)]
        other += [
            (gold, sympy.latex(each))
            for each in (parsed + 1, 2 * parsed, parsed + sympy.Rational(1, 10**9))
        ]
        if parsed.is_number and parsed.is_real and not parsed.is_rational:
            other += [(gold, str(parsed.evalf(digits))) for digits in (4, 20)]
    correct = judge_all(
        [rf"\boxed{{{a}}}" for _, a in same],
        [rf"\boxed{{{g}}}" for g, _ in same],
        [None] * len(same),
    )
    incorrect = judge_all(
        [rf"\boxed{{{a}}}" for _, a in other],
        [rf"\boxed{{{g}}}" for g, _ in other],
        [None] * len(other),
    )
    assert len(same) > 1500
    assert sum(v.correct is True for v in correct) >= 0.99 * len(correct)
    assert [pair for pair, v in zip(other, incorrect, strict=True) if v.correct] == []
