"""Validation accuracy decides which checkpoint is kept, and ends a run whose reward is gamed."""

import numpy as np
import pytest
from transformers import TrainerControl, TrainerState

from schema.configs import ACCURACY, EVAL_CORRECT, even_batch
from tests.tables import cases, lacking
from training.callbacks import KeepBest
from training.scoring import Scores
from training.trends import fell
from training.watch import gamed

RISING = [(step, 0.5 + step / 100) for step in range(5, 55, 5)]
SINKING = [(step, 1 - reward) for step, reward in RISING]


def judged(*shares: float, problems: int = 96) -> list[tuple[int, str]]:
    """An evaluation every ten steps, of which the first problems are correct."""
    correct = [("1" * round(share * problems)).ljust(problems, "0") for share in shares]
    return [(10 * i, verdicts) for i, verdicts in enumerate(correct, 1)]


FALLING = judged(0.6, 0.5, 0.45, 0.4)


def test_accuracy_that_falls_while_reward_rises_ends_the_run():
    reason = gamed(FALLING, RISING, 3)
    names = ["step 40", "60.4% at step 10", "3 evaluations", "39.6%", "n = 96", "0.25"]
    names += ["completions/", "make audit", "evaluate.patience"]
    assert lacking(names, reason) == []


@cases(__file__, "goes_on")
def test_otherwise_it_goes_on(shares, rewards, patience):
    logged = {"rising": RISING, "sinking": SINKING, "none": []}
    assert gamed(judged(*shares), logged[rewards], patience) is None


def test_it_stops_the_run_and_says_why(capsys):
    keep, state, stopped = KeepBest(3, Scores([], set())), TrainerState(max_steps=200), []
    for step, correct in FALLING:
        since = [line for line in RISING if step - 10 < line[0] <= step]
        state.log_history += [{"step": at, "reward": reward} for at, reward in since]
        accuracy = correct.count("1") / len(correct)
        state.log_history.append({"step": step, ACCURACY: accuracy, EVAL_CORRECT: correct})
        keep.on_evaluate(None, state, control := TrainerControl())
        stopped += [step] * control.should_training_stop
    assert stopped == [40] and keep.stopped == gamed(FALLING, RISING[:8], 3)
    said = capsys.readouterr().out.splitlines()
    assert said[1] == "step 20: validation accuracy 50.0%, best 60.4% at step 10"
    assert said[4] == keep.stopped


def test_the_fall_counts_from_the_last_of_the_best_and_with_a_patience_of_one_at_once():
    assert "at step 20 and" in gamed(judged(0.6, 0.6, 0.5, 0.5), RISING, 2)
    assert gamed(judged(0.6, 0.5), [each for each in RISING if each[0] <= 20], 1) is not None


def test_what_was_lost_is_weighed_against_what_was_won():
    before, after = "1" * 30 + "0" * 30, "0" * 20 + "1" * 10 + "1" * 15 + "0" * 15
    assert not fell(before, after)  # 20 lost, 15 won
    assert fell(before, "0" * 20 + "1" * 10 + "1" * 5 + "0" * 25)  # 20 lost, 5 won


def test_a_run_that_learns_with_noise_is_seldom_stopped():
    """A policy of constant accuracy whose answers flicker, while the reward creeps up."""
    rng, stopped = np.random.default_rng(0), 0
    for _ in range(400):
        ability = rng.normal(0.5, 1.0, 96)
        run = []
        for i in range(1, 13):
            correct = ability + rng.normal(0, 0.5, 96) > 0
            run.append((10 * i, "".join("01"[x] for x in correct.astype(int))))
        rewards = [(step, step / 1000) for step in range(5, 125, 5)]
        stopped += any(gamed(run[:n], rewards, 3) for n in range(1, 13))
    assert stopped <= 16  # 4% of runs of twelve evaluations; 10 were seen


@pytest.mark.parametrize(
    ("problems", "at_most", "processes", "batch"),
    [(100, 64, 1, 50), (100, 8, 1, 5), (100, 8, 4, 5), (100, 8, 3, 0)],
)
def test_every_batch_of_validation_problems_is_full(problems, at_most, processes, batch):
    assert even_batch(problems, at_most, processes) == batch
