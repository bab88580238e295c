"""Every gold of the real data sets, echoed and swapped. Needs their parquet files: MATH_DATA_DIR=… make test-slow."""

import os
from pathlib import Path

import pytest

from data.gold import gold_answer
from rewards.verifier import judge_all

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
