"""The tables of units: every name, and every word that makes what follows a number more than a unit."""

import pytest

from rewards.verifier import judge
from rewards.verifier.kinds import Quantity
from rewards.verifier.units import CHANGES, KINDS, NAMES, NO_DOUBT, RATES, known, unit
from rewards.verifier.value import value


@pytest.mark.parametrize(("word", "name"), (NAMES | RATES).items())
def test_a_name_is_read_as_its_unit(word, name):
    assert unit(f" {word}") == name
    assert known(name) and name.split()[0] in KINDS


@pytest.mark.parametrize("row", CHANGES, ids=lambda row: row.name)
def test_words_that_change_the_number_are_no_unit_and_similar_ones_are(row):
    for word in row.words.split():
        assert unit(f" {word} eggs") is None or word == "times", word
        assert not isinstance(value(f"5 {word} eggs"), Quantity) or word == "times", word
    assert isinstance(value(f"5 {row.spares}"), Quantity)


@pytest.mark.parametrize(
    ("answer", "gold", "effect"),
    [
        ("5 or 6", "5", "another answer, or"),
        ("5 unless it rains", "5", "a denial, unless"),
        ("5 presumably", "5", "a doubt, presumably"),
        ("five approx", "5", "a rounding, approx"),
        ("5 approx", "x^2", "a rounding, approx"),
        ("over 5", "5", "a bound, over"),
        ("5 is", "5", "a claim, is"),
        ("The total is under 5", "5", "a bound, under"),
        ("x = 5 approx", "5", "a rounding, approx"),
        ("July 20", "20", "a month, july"),
        ("5 minus", "5", "arithmetic, minus"),
        ("doubled 5", "5", "a multiple, doubled"),
    ],
)
def test_a_verdict_names_the_effect_and_its_word(answer, gold, effect):
    verdict = judge(f"<answer>{answer}</answer>", gold)
    assert (verdict.right, verdict.reason) == (False, f"not equal to the gold: {effect}")


def test_every_effect_is_named_by_a_verdict():
    for row in CHANGES:
        reasons = [judge(f"<answer>5 {word} eggs</answer>", "5").reason for word in row.words.split()]
        assert any(reason.startswith(f"not equal to the gold: {row.name}, ") for reason in reasons), row.name


def test_no_word_has_two_effects():
    words = [word for row in CHANGES for word in row.words.split()]
    assert len(words) == len(set(words))


def test_some_words_in_ly_are_no_doubt():
    for word in NO_DOUBT:
        assert isinstance(value(f"5 {word} eggs"), Quantity), word
    assert not isinstance(value("5 likely eggs"), Quantity)
