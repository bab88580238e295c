"""The verifier's rule, as the table in cases.tsv; and every gold of the real data sets, echoed and
swapped, which needs their parquet files: MATH_DATA_DIR=… make test-slow."""

import os
import re
from pathlib import Path

import pytest

from rewards.verifier import judge, judge_all
from rewards.verifier.extract import _INTEGER_RESPONSE, extract
from rewards.verifier.gold import gold_answer
from rewards.verifier.notation import key, plain
from rewards.verifier.numerals import number
from rewards.verifier.value import value
from rewards.verifier.value_types import Expr

EXPECTED = {"right": True, "wrong": False, "none": None}
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


def cases_of(name: str = "cases.tsv") -> list[tuple]:
    rows = []
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            expected, gold, response, question, why = line.replace("⏎", "\n").split("\t")
            rows.append((EXPECTED[expected], gold, response, question or None, why))
    return rows


CASES = cases_of()


@pytest.mark.parametrize(("expected", "gold", "response", "question", "why"), CASES)
def test_case(expected, gold, response, question, why):
    verdict = judge(response, gold, question=question)
    assert verdict.right is expected, verdict


def test_the_short_way_to_a_whole_number_finds_what_the_rule_finds():
    short = [response for _, _, response, *_ in CASES if _INTEGER_RESPONSE.fullmatch(response)]
    assert len(short) > 50
    for response in short:
        assert extract(response) == extract(response + " <")  # which takes the long way


# Answers of the second table that are judged otherwise than a teacher would, with why: (gold,
# answer).
PAID = {
    (r"3.2 \times 10^5", "3.2e5%"): "without its question a percent sign may be left out",
    ("3 and 1/2", "3, 1/2"): "the gold may be a list of two",
    ("12345", "12\n345"): "a line break is a space, which may stand between thousands",
}
ROOTS, THREE_AND_A_HALF, PARTS = "x_{1}=1, x_{2}=-3", "3 and 1/2", "1) 5; 2) 7"
NOT_READ = {
    "a spelling that is not read": [
        (r"3.2 \times 10^5", "3.2 x 10<sup>5</sup>"),
        (r"3.2 \times 10^5", r"3.2 \times 10^{5.0}"),
        *(("12345", r"12345\\"), (r"5 \text{ cm}", "5&nbsp;cm"), ("3000000", "$3M")),
        *((r"1:\sqrt{2}", r"1 to \sqrt{2}"), ("1011_2", "1011b"), (r"\frac{1}{2}", "2^{-1}")),
        (r"\begin{pmatrix} 1 \\ -2 \\ 3 \end{pmatrix}", "î − 2ĵ + 3k̂"),
    ],
    "it may mean something else": [
        *(
            ("12345", "[12345]"),
            ("V_1:V_2=11:21", "22:42"),
            ("A, C", "AC"),
            (PARTS, "5; 7"),
            (PARTS, "5, 7"),
        ),
        *((ROOTS, "x=1,-3"), ("12 (6 pairs)", "12")),
        *((THREE_AND_A_HALF, a) for a in ("3.5", r"3\frac12", "7/2", "3 1/2")),
    ],
    "words that are not read": [
        *(("Friday the 13th", "Friday, the 13th"), ("5 people", "5 persons")),
        (r"3.5 \text{ (approximately)}", "3.5"),
    ],
}
MISSED = {row: why for why, rows in NOT_READ.items() for row in rows}


def test_the_second_table():
    """Each row is judged as it says, but for the named ones."""
    rows = cases_of("second_mile.tsv")
    verdicts = judge_all(*([row[n] for row in rows] for n in (2, 1, 3)), timeout=20)
    assert len(rows) > 2000
    for mistaken, named in ((True, PAID), (False, MISSED)):
        found = {
            (gold, re.sub("</?answer>", "", response))
            for (expected, gold, response, *_), verdict in zip(rows, verdicts, strict=True)
            if (verdict.right is True) is mistaken is not expected
        }
        assert found == set(named)


def test_rows_of_an_author_who_had_not_seen_the_rules():
    """No wrong answer is paid, and no fewer right ones than on 2026-11-25."""
    rows = cases_of("blind.tsv")
    verdicts = judge_all(*([row[n] for row in rows] for n in (2, 1, 3)), timeout=20)
    paid = [
        (expected, *row)
        for (expected, *row), verdict in zip(rows, verdicts, strict=True)
        if verdict.right
    ]
    assert [row for row in paid if row[0] is False] == []
    assert len(paid) >= 732


def test_the_table_is_large_and_half_of_it_is_wrong_answers():
    wrong = sum(expected is False for expected, *_ in CASES)
    assert len(CASES) >= 300
    assert wrong >= len(CASES) / 2


def test_a_verdict_is_neither_true_nor_false():
    for gold in ("5", "6", ""):
        with pytest.raises(TypeError, match=r"read its \.right"):
            bool(judge(r"\boxed{5}", gold))


REASONS = [
    (r"\boxed{5}", "equal, as whole numbers"),
    (r"-\boxed{5}", "the box is part of a larger expression: a minus sign before it"),
    (
        "I doubt that the answer is 5.",
        "the stated answer is doubted or denied: a word of denial before it",
    ),
    (
        r"<answer>at least \boxed{5}</answer>",
        'the box is a bound: "at least" or "at most" before it',
    ),
    ("<answer>Nobody has 5 eggs.</answer>", "not equal to the gold, another kind of value"),
    ("<answer></answer>", "an <answer> block is empty"),
    ("<answer>perhaps 5</answer>", "doubted or denied: a word of doubt"),
    ("<answer>5 likely</answer>", "not equal to the gold: a doubt, likely"),
    ("<answer>about 5</answer>", "not equal to the gold: a rounding, about"),
    ("<answer>over the moon</answer>", "not equal to the gold, another kind of value"),
    (r"<answer>5 \times x</answer>", "not equal to the gold, another kind of value"),
]


@pytest.mark.parametrize(("response", "reason"), REASONS)
def test_the_reason_says_what_decided(response, reason):
    assert judge(response, "5").reason == reason


def test_a_sentence_kept_whole_is_no_reason_against_a_right_answer():
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
def test_every_gold_echoed_is_right(name, question, gold, share):
    questions, golds = _rows(name, question, gold)
    for asked in (questions, [None] * len(golds)):
        verdicts = judge_all([_boxed(g) for g in golds], golds, asked, strict=True)
        assert sum(v.right is True for v in verdicts) >= share * len(golds)
        assert not any(v.timed_out for v in verdicts)


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize(("name", "question", "gold", "share"), SETS)
@pytest.mark.parametrize("shift", [1, 7, 101])
def test_another_problems_gold_is_wrong(name, question, gold, share, shift):
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
        [_boxed(b) for _, b in pairs], [a for a, _ in pairs], [None] * len(pairs), strict=True
    )
    assert [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict.right] == []
    assert not any(v.timed_out for v in verdicts)


def _bare(gold: str) -> str:
    """A gold without unit, percent sign and name; a number as its value."""
    text = re.sub(
        r"\\(?:text|mbox)\{[^{}]*\}|\^\\circ|\\?[%$]|^\s*[A-Za-z]\s*=", "", gold_answer(gold)
    )
    n = number(plain(text))
    return key(text) if n is None else str(n)


@pytest.mark.slow
@needs_data
def test_respelled_golds_are_right_and_changed_ones_wrong():
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
    right = judge_all(
        [rf"\boxed{{{a}}}" for _, a in same],
        [rf"\boxed{{{g}}}" for g, _ in same],
        [None] * len(same),
    )
    wrong = judge_all(
        [rf"\boxed{{{a}}}" for _, a in other],
        [rf"\boxed{{{g}}}" for g, _ in other],
        [None] * len(other),
    )
    assert len(same) > 1500
    assert sum(v.right is True for v in right) >= 0.99 * len(right)
    assert [pair for pair, v in zip(other, wrong, strict=True) if v.right] == []
