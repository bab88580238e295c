"""A message's facts are looked for as whole words and numbers."""

import pytest

from tests.tables import lacking


def test_a_fact_is_found_where_it_stands_whole():
    message = "mine.yaml:9: unknown key grpo.max_stepz; did you mean max_steps? take 12"
    assert lacking(["mine.yaml:9", "grpo.max_stepz", "max_steps", "12"], message) == []
    assert lacking(["mine.yaml:1", "grpo.max_step", "steps", "1", "2"], message) == [
        "mine.yaml:1",
        "grpo.max_step",
        "steps",
        "1",
        "2",
    ]
    assert lacking(["[1]", "'q'"], "expected a mapping, got [1] of 'q'") == []
    assert lacking(["override seed=5", "5", "seed"], "override seed=5: leave seed out") == ["5"]


def test_a_row_without_a_fact_is_a_mistake():
    with pytest.raises(AssertionError):
        lacking([], "any")
