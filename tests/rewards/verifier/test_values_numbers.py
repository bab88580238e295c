"""Every word for a number, a scale, a part or a base is read as its value."""

from fractions import Fraction

import pytest

from rewards.verifier.notation import PARTS, SCALES, WORDS, base_named, is_number_word, number


@pytest.mark.parametrize(("word", "n"), WORDS.items())
def test_a_word_is_a_number(word, n):
    assert number(word) == n and is_number_word(word) and base_named(word) == n
    assert number(f"minus {word}") == -n


@pytest.mark.parametrize(("word", "scale"), SCALES.items())
def test_a_scale_multiplies(word, scale):
    assert number(f"two {word}") == 2 * scale and is_number_word(word)
    assert number(word) is None


@pytest.mark.parametrize(("word", "parts"), PARTS.items())
def test_a_part_divides(word, parts):
    assert number(f"three {word}") == Fraction(3, parts) and is_number_word(word)


@pytest.mark.parametrize(
    ("name", "base"), [("2", 2), ("16", 16), ("binary", 2), ("decimal", 10), ("b", None), ("100", None)]
)
def test_a_base_has_a_name(name, base):
    assert base_named(name) == base
