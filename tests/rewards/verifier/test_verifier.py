"""The verifier's rule, as the table in cases.tsv."""

from pathlib import Path

import pytest

from rewards.verifier.verdict import is_correct

EXPECTED = {"right": True, "wrong": False, "none": None}


def _cases() -> list[tuple]:
    rows = []
    for line in Path(__file__).with_name("cases.tsv").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            expected, gold, response, question, why = line.replace("⏎", "\n").split("\t")
            rows.append((EXPECTED[expected], gold, response, question or None, why))
    return rows


CASES = _cases()


@pytest.mark.parametrize(("expected", "gold", "response", "question", "why"), CASES)
def test_case(expected, gold, response, question, why):
    verdict = is_correct(response, gold, question=question)
    assert verdict.right is expected, verdict


def test_the_table_is_large_and_half_of_it_is_wrong_answers():
    wrong = sum(expected is False for expected, *_ in CASES)
    assert len(CASES) >= 300
    assert wrong >= len(CASES) / 2
