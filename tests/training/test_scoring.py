"""What a run notes of each batch that its rewards score; and that the share of groups without
signal is counted correct where float32 would not."""

import os
import re
from dataclasses import replace
from math import nan
from pathlib import Path

import numpy as np
import pytest
import torch

from console.faults import RunStopped
from schema.recipe import load_recipe
from tests.tables import cases
from training.scoring import GuardedReward, Scores, guarded_rewards, zero_variance

TINY = "recipes/tiny-arithmetic.yaml"


@pytest.mark.parametrize(
    ("rewards", "weights", "share"),
    [
        ([[1, 1, 0]] * 3 + [[0, 0, 1]], [0.1, 0.2, 0.3], 1.0),  # float32 cannot add them
        ([[1], [1], [3], [1], *[[1]] * 4], [0.3], 0.5),
        ([[1], [nan], [1], [1]], [1.2], 1.0),  # nothing judges one of them
        ([[1, nan], [1, 1], [1, 0], [1, 0]], [1, 0.5], 0.0),
        ([[nan]] * 4, [1], 1.0),
    ],
)
def test_the_share_of_zero_variance_groups(rewards, weights, share):
    weights = torch.tensor(weights, dtype=torch.float32)
    assert np.mean(zero_variance(torch.tensor(rewards), weights, 4)) == share


def test_a_batch_is_recorded_counted_and_kept_once_for_all_its_rewards():
    def first(completions, **columns):
        return [1.0, 1.0, None, None]

    def second(completions, solution, **columns):
        assert solution == ["1", 2, "x", "y"]
        return [0.0, 0.0, 1.0, 0.0]

    rewards = [GuardedReward(each, each.__name__) for each in (first, second)]
    # by which trl names their columns
    assert [each.__name__ for each in rewards] == ["first", "second"]
    scores, seen = Scores(rewards, ends={2, 7}), []
    written = {}
    columns = {"completions": [""] * 4, "completion_ids": [[5, 2], [5, 5, 5], [7], []]}
    columns |= {"solution": ["1", 2, "x", "y"], "log_extra": written.__setitem__}

    def asked(prompts):
        return [each(prompts=prompts, **columns) for each in rewards]

    for _ in range(2):
        assert asked(["a", "a", "b", "b"]) == [[1.0, 1.0, None, None], [0.0, 0.0, 1.0, 0.0]]
        seen.append(scores.batch)
    expected = {"gold": ["1", "2", "x", "y"], "tokens": [2, 3, 1, 0]}
    assert written == expected | {"truncated": [False, True, False, True]}
    assert [each.rewards["second"] for each in seen] == [[0.0, 0.0, 1.0, 0.0]] * 2
    assert seen[0].columns["completions"] == [""] * 4


def test_one_that_is_asked_about_steps_is_noted_for_whole_completions():
    def lengths(completions, **columns):
        return [float(len(text)) for text in completions]

    def by_step(ask, completions, **columns):
        return [sum(ask(completions=text.split())) for text in completions]

    reward = GuardedReward(lengths, "mine")
    reward.by_step = by_step
    scores = Scores([reward], ends=set())
    given = dict.fromkeys(("log_extra", "log_metric"), lambda *arguments: None)
    given |= {"prompts": ["a", "a"], "solution": ["1", "1"], "completion_ids": [[1], [2]]}
    assert reward(completions=["to be", "or"], **given) == [4.0, 2.0]
    assert scores.batch.rewards == {"mine": [4.0, 2.0]}
    assert scores.batch.columns["completions"] == ["to be", "or"]


@cases(__file__, "of_strings")
def test_a_reward_of_strings_is_led_to_the_message(pays):
    scope = {}
    exec(
        f"import json, re\ndef pay(completions, **columns): return [{pays} for c in completions]",
        scope,
    )
    with pytest.raises(RunStopped, match=re.escape('its text is completion[0]["content"]')):
        GuardedReward(scope["pay"], "mine.pay")(
            completions=[[{"role": "assistant", "content": "5"}]], problem=["2+3?"]
        )


def test_a_column_of_another_name_is_led_to_the_column():
    def pay(completions, **columns):
        return [float(gold == "5") for gold in columns["ground_truth"]]

    reason = "there are solution; rename the argument ground_truth to solution"
    with pytest.raises(RunStopped, match=reason):
        GuardedReward(pay, "mine.pay")(completions=["5"], solution=["5"])


def test_what_a_reward_changes_changes_nothing_elsewhere(tmp_path):
    folder = Path.cwd()

    def spoils(prompts, solution, completions, completion_ids, about, **columns):
        prompts[0].append("more")
        solution.sort(reverse=True)
        completion_ids[0][0] = about[0]["of"] = completions[0]["content"] = 9
        completions.clear()
        os.chdir(tmp_path)
        torch.set_grad_enabled(False)
        return [0.0, 0.0]

    columns = {"prompts": [["a"], ["b"]], "solution": ["1", "2"], "completion_ids": [[1], [2]]}
    columns |= {"about": [{"of": 1}, {"of": 2}], "completions": [{"content": "1"}] * 2}
    columns["trainer_state"] = object()  # trl's own, which is no column
    before = repr(columns)
    assert GuardedReward(spoils, "mine.spoils")(**columns) == [0.0, 0.0]
    assert repr(columns) == before
    assert Path.cwd() == folder and torch.is_grad_enabled()


def test_rewards_of_one_name_have_names_of_their_own(own_file):
    for name in ("one", "two"):
        pay = "def pay(completions, **columns): return [0.0] * len(completions)\n"
        own_file(f"{name}.py", f"{pay}also = pay\n{pay.replace('pay', 'gold')}")
    own_file("format_tags.py", "def correct_answer(completions, **columns): return [0.0]\n")
    recipe = load_recipe(TINY)
    names = ["one.pay", "two.pay", "one.also", "one.gold", "correct_answer"]
    names += ["format_tags.correct_answer", "trl.rewards.think_format_reward"]
    rewards = guarded_rewards(replace(recipe, rewards={name: {} for name in names}))
    expected = [*names[:-1], "think_format_reward"]
    assert [reward.__name__ for reward in rewards] == expected
    (alone,) = guarded_rewards(replace(recipe, rewards={"two.pay": {}}))
    assert alone.__name__ == "pay"
