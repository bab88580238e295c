"""The verifier's rule, as the table in cases.tsv."""

from pathlib import Path

import pytest

from rewards.verifier import judge

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
    verdict = judge(response, gold, question=question)
    assert verdict.right is expected, verdict


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
    ("I doubt that the answer is 5.", "the stated answer is doubted or denied: a word of denial before it"),
    (r"<answer>at least \boxed{5}</answer>", 'the box is a bound: "at least" or "at most" before it'),
    (
        "<answer>Nobody has 5 eggs.</answer>",
        "not equal to the gold, another kind of value; the sentence is kept whole: nobody or nothing beside its answer",
    ),
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
    assert judge("<answer>More than one hen has 5 eggs.</answer>", "More than one hen has 5 eggs.").reason == (
        "spelled like the gold"
    )


def test_the_name_it_had_says_what_it_is_called_now():
    with pytest.raises(ImportError, match=r"judge\(…\)"):
        from rewards.verifier import is_correct  # noqa: F401
