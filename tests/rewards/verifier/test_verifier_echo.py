"""Every gold of the real data sets, echoed and swapped. Needs their parquet files: MATH_DATA_DIR=… make test-slow."""

import os
import re
from pathlib import Path

import pytest

from data.gold import gold_answer
from rewards.verifier import judge_all
from rewards.verifier.notation import key, number, plain
from rewards.verifier.value import Expr, value

pytestmark = pytest.mark.slow
DATA = Path(os.environ.get("MATH_DATA_DIR", ""))
needs_data = pytest.mark.skipif(
    not os.environ.get("MATH_DATA_DIR"), reason="MATH_DATA_DIR names no folder with gsm8k-*.parquet and math-*.parquet"
)

# file, column of the question, column of the gold, share of echoes that must be right
SETS = [
    ("gsm8k-train", "question", "answer", 1.0),
    ("gsm8k-test", "question", "answer", 1.0),
    ("math-500", "problem", "answer", 1.0),
    ("math-train", "problem", "solution", 0.998),
    ("math-test", "problem", "solution", 0.998),
]


def _rows(name: str, question: str, gold: str) -> tuple[list[str], list[str]]:
    import pandas

    table = pandas.read_parquet(DATA / f"{name}.parquet")
    return list(table[question]), list(table[gold])


def _boxed(gold: str) -> str:
    return rf"<think>Let me see.</think><answer>\boxed{{{gold_answer(gold)}}}</answer>"


@needs_data
@pytest.mark.parametrize(("name", "question", "gold", "share"), SETS)
def test_every_gold_echoed_is_right(name, question, gold, share):
    questions, golds = _rows(name, question, gold)
    for asked in (questions, [None] * len(golds)):
        verdicts = judge_all([_boxed(g) for g in golds], golds, asked, strict=True)
        assert sum(v.right is True for v in verdicts) >= share * len(golds)
        assert not any(v.timed_out for v in verdicts)


@needs_data
@pytest.mark.parametrize(("name", "question", "gold", "share"), SETS)
@pytest.mark.parametrize("shift", [1, 7, 101])
def test_another_problems_gold_is_wrong(name, question, gold, share, shift):
    """Two golds that differ in no more than a unit, a percent sign or `x =` are one answer, and not looked at."""
    _, golds = _rows(name, question, gold)
    pairs = [
        (a, b) for a, b in zip(golds, golds[shift:] + golds[:shift], strict=True) if gold_answer(a) and gold_answer(b)
    ]
    pairs = [(a, b) for a, b in pairs if _bare(a) != _bare(b)]
    verdicts = judge_all([_boxed(b) for _, b in pairs], [a for a, _ in pairs], [None] * len(pairs), strict=True)
    assert [pair for pair, verdict in zip(pairs, verdicts, strict=True) if verdict.right] == []
    assert not any(v.timed_out for v in verdicts)


def _bare(gold: str) -> str:
    """A gold without unit, percent sign and name; a number as its value."""
    text = re.sub(r"\\(?:text|mbox)\{[^{}]*\}|\^\\circ|\\?[%$]|^\s*[A-Za-z]\s*=", "", gold_answer(gold))
    n = number(plain(text))
    return key(text) if n is None else str(n)


@needs_data
def test_respelled_golds_are_right_and_changed_ones_wrong():
    """Every expression among MATH's golds, written by sympy: expanded, factored, typed; and with 1 added, doubled, …"""
    import sympy

    from rewards.verifier import algebra

    same, other = [], []
    for gold in sorted(
        {
            g
            for name in ("math-train", "math-test")
            for g in map(gold_answer, _rows(name, "problem", "solution")[1])
            if g
        }
    ):
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
            (gold, sympy.latex(f(parsed)))
            for f in (lambda x: x + 1, lambda x: 2 * x, lambda x: x + sympy.Rational(1, 10**9))
        ]
        if parsed.is_number and parsed.is_real and not parsed.is_rational:
            other += [(gold, str(parsed.evalf(digits))) for digits in (4, 20)]
    right = judge_all([rf"\boxed{{{a}}}" for _, a in same], [rf"\boxed{{{g}}}" for g, _ in same], [None] * len(same))
    wrong = judge_all([rf"\boxed{{{a}}}" for _, a in other], [rf"\boxed{{{g}}}" for g, _ in other], [None] * len(other))
    assert len(same) > 1500
    assert sum(v.right is True for v in right) >= 0.99 * len(right)
    assert [pair for pair, v in zip(other, wrong, strict=True) if v.right] == []
