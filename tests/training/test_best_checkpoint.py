"""Held-out accuracy decides which checkpoint is kept, and ends a run whose reward is gamed."""

import pytest

from schema.configs import even_batch
from schema.recipe import RecipeError, load_recipe
from training.best_checkpoint import hacked

RISING = [(step, 0.5 + step / 100) for step in range(5, 55, 5)]
FALLING = [(10, 0.6), (20, 0.5), (30, 0.45), (40, 0.4)]


def test_accuracy_that_falls_while_reward_rises_ends_the_run():
    reason = hacked(FALLING, RISING, 3)
    assert "stopped at step 40" in reason and "its best, 60.0% at step 10, for 3 evaluations (now 40.0%)" in reason


@pytest.mark.parametrize(
    ("judged", "rewards", "patience"),
    [
        (FALLING[:3], RISING, 3),  # not yet
        ([*FALLING, (50, 0.7)], RISING, 3),  # a new best
        (FALLING, [(step, 1 - reward) for step, reward in RISING], 3),  # reward falls too: bad, but not gamed
        (FALLING, RISING, 0),  # never
        (FALLING, [], 3),
    ],
)
def test_otherwise_it_goes_on(judged, rewards, patience):
    assert hacked(judged, rewards, patience) is None


def test_a_plateau_is_no_fall():
    assert hacked([(10, 0.6), (20, 0.6), (30, 0.6), (40, 0.6)], RISING, 2) is None
    assert hacked([(10, 0.6), (20, 0.6), (30, 0.5)], RISING, 2) is None
    assert "at step 20, for 2 evaluations" in hacked([(10, 0.6), (20, 0.6), (30, 0.5), (40, 0.5)], RISING, 2)


def test_with_a_patience_of_one_the_first_fall_counts():
    assert hacked([(10, 0.6), (20, 0.5)], [each for each in RISING if each[0] <= 20], 1) is not None


@pytest.mark.parametrize(
    ("problems", "at_most", "processes", "batch"), [(100, 64, 1, 50), (100, 8, 1, 5), (100, 8, 4, 5), (100, 8, 3, 0)]
)
def test_every_batch_of_held_out_problems_is_full(problems, at_most, processes, batch, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", str(processes))
    assert even_batch(problems, at_most) == batch


def test_a_recipe_without_correct_answer_has_no_held_out_accuracy():
    with pytest.raises(RecipeError, match="held-out accuracy is the mean of the reward `correct_answer`"):
        load_recipe("recipes/tiny-arithmetic.yaml", ["rewards={format_tags: {weight: 1.0}}", "grpo.eval_steps=10"])


def test_problems_that_choose_do_not_also_compare():
    with pytest.raises(RecipeError, match=r"none of the data\.validation = 80 is left"):
        load_recipe("recipes/tiny-arithmetic.yaml", ["grpo.eval_steps=10", "grpo.save_steps=10", "data.validation=80"])
