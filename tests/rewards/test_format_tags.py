import itertools

import pytest

from rewards import format_tags, tag_count
from tests.made_runs import chat
from tests.tables import cases


@cases(
    __file__,
    "form",
    ("<think></think><answer></answer>" * 1000, 0.0, 0.0),
    ("<think>" * 1000 + "a</think><answer>4</answer>", 0.0, 0.0),
)
def test_form(text, form, count):
    assert format_tags([text]) == [form]
    assert tag_count([text]) == [count]


@cases(__file__, "a_thought_opened_by_the_prompt")
def test_a_thought_opened_by_the_prompt(text, form, count):
    assert format_tags([text], think_opened=[True]) == [form]
    assert tag_count([text], think_opened=[True]) == [count]


def test_each_row_has_its_own_prompt():
    texts = ["a</think><answer>4</answer>", "<think>a</think><answer>4</answer>"]
    assert format_tags(texts, think_opened=[True, False]) == [1.0, 1.0]
    assert format_tags(texts, think_opened=[False, True]) == [0.0, 0.0]
    with pytest.raises(ValueError, match="zip"):
        format_tags(texts, think_opened=[True])


def test_what_a_tool_said_is_not_the_models_text():
    turns = [chat("assistant", "<think>a"), chat("tool", "</think>")]
    turns.append(chat("assistant", "</think><answer>4</answer>"))
    assert format_tags([turns]) == [1.0]


def test_full_count_is_the_form():
    """Every arrangement of up to six pieces: tag_count is 1.0 exactly where format_tags is."""
    pieces = ["<think>", "</think>", "<answer>", "</answer>", "a", " "]
    texts = ["".join(p) for n in range(7) for p in itertools.product(pieces, repeat=n)]
    counts, forms = tag_count(texts), format_tags(texts)
    assert [count == 1.0 for count in counts] == [form == 1.0 for form in forms]
    assert sum(forms) > 0
