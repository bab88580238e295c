"""The table of spellings: each row changes its examples and spares the others."""

import re

import pytest

from rewards.verifier.notation import plain
from rewards.verifier.spellings import CHARACTERS, SPELLINGS


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: spelling.name)
def test_a_spelling_changes_its_examples_and_spares_the_others(spelling):
    assert spelling.matches and spelling.spares
    for text, becomes in spelling.matches.items():
        assert re.sub(spelling.pattern, spelling.replacement, text) == becomes
    for text in spelling.spares:
        assert re.sub(spelling.pattern, spelling.replacement, text) == text


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda spelling: spelling.name)
def test_a_spelling_reads_like_what_it_becomes(spelling):
    for text, becomes in spelling.matches.items():
        assert plain(text) == plain(becomes)


def test_names_are_used_once():
    assert len({spelling.name for spelling in SPELLINGS}) == len(SPELLINGS)


@pytest.mark.parametrize(("char", "written"), CHARACTERS.items())
def test_a_character_is_read_as_what_it_stands_for(char, written):
    assert plain(f"2{char}3") == plain(f"2{written}3")
    assert char not in plain(f"2{char}3")
