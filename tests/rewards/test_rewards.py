"""What holds for every reward of a text alone."""

import pytest

import rewards
from tests.made_runs import chat
from tests.support import far_below_quadratic
from tests.tables import cases, long_text

OF_TEXTS = ["format_tags", "tag_count", "true_equations", "language_consistency"]


@pytest.mark.parametrize("reward", OF_TEXTS)
def test_a_reward_takes_what_trls_trainer_gives(reward):
    text = "<think>So we get 1+3=4 of them.</think><answer>4</answer>"
    columns = {"completions": [[chat("assistant", text)]], "completion_ids": [[1]]}
    columns |= {"prompts": [[chat("user", "How many are there?")]], "solution": ["4"]}
    columns |= {"trainer_state": None, "log_metric": print}
    pay = getattr(rewards, reward)
    assert pay(**columns) == [1.0]
    assert pay([], prompts=[]) == []


@cases(__file__, "long_texts")
def test_long_texts_take_linear_time(reward, parts):
    pay, text = getattr(rewards, reward), long_text(parts)
    pay(["Load the detector with eight plain words of no list"], language=["en"])
    with far_below_quadratic():
        [paid] = pay([text], language=["en"])
    assert paid is None or 0.0 <= paid <= 1.0
