"""The tables of units: every name, and every word that makes what follows a number more than a unit."""

import pytest

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


def test_no_word_has_two_effects():
    words = [word for row in CHANGES for word in row.words.split()]
    assert len(words) == len(set(words))


def test_some_words_in_ly_are_no_doubt():
    for word in NO_DOUBT.words.split():
        assert isinstance(value(f"5 {word} eggs"), Quantity), word
    assert not isinstance(value(f"5 {NO_DOUBT.spares} eggs"), Quantity)
