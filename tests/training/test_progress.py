"""The line of a logging step, and the lines that a resumed run keeps."""

import os

import pytest
from transformers import TrainerState

from schema.configs import RIGHT
from tests.support import read_lines
from training.progress import Metrics, log_line, time_by_part


def test_a_line_of_grpo_says_what_a_person_watches():
    logs = {
        "loss": 0.01,
        "reward": 1.03,
        "rewards/correct_answer/mean": 0.784,
        "rewards/correct_answer/std": 0.4,
        "groups_without_signal": 0.275,
        "frac_reward_zero_std": 0.1,
        "completions/mean_length": 22.04,
        "completions/clipped_ratio": 0.0,
    }
    assert log_line(logs, 5, 120, 0.144, 95.0) == (
        "step   5/120  reward 1.03  correct_answer 0.784  no signal 0.275  length 22  truncated 0  "
        "0.14 s/step  2 min left"
    )


def test_where_vllm_samples_its_ratio_stands_there():
    logs = {"loss": 0.1, "reward": 1.0, "sampling/importance_sampling_ratio/mean": 0.9987}
    assert "vLLM ratio 0.999" in log_line(logs, 1, 2, 1.0, 1.0)


def test_a_line_of_sft():
    logs = {"loss": 0.5, "mean_token_accuracy": 0.875, "learning_rate": 1e-4}
    assert log_line(logs, 25, 25, 61.0, 0.0) == "step 25/25  loss 0.5  token accuracy 0.875  61 s/step  0 s left"


def test_a_long_step_is_not_told_in_powers_of_ten():
    assert "  263 s/step  8 min left" in log_line({"loss": 1.0}, 1, 3, 263.4, 500.0)


def test_the_time_left_is_in_hours_when_it_is_long():
    assert log_line({"loss": 1.0}, 1, 500, 60.0, 30000.0).endswith("8.3 h left")


@pytest.mark.parametrize("history", [5, None, {"step": 1}, "x"])
def test_a_history_that_is_none_is_empty(history, tmp_path):
    state = TrainerState(log_history=history)
    Metrics(tmp_path).on_train_begin(None, state, None)
    assert state.log_history == []


@pytest.mark.parametrize(
    "wrong",
    [
        {RIGHT: 5},
        {RIGHT: ["1", "0"]},
        {"reward": "high"},
        {"eval_reward": {}},
        {"reward": 10**400},
        {"seconds/sampling": "x"},
        {"seconds/sampling": None},
        {"step": "2"},
        {"step": None},
    ],
)
def test_a_line_that_no_run_wrote_is_left_out(wrong, tmp_path):
    """A checkpoint may be a stranger's, and what reads its history counts on numbers."""
    good = [{"step": 1, "reward": 0.5, "seconds/sampling": 2.0}, {"step": 2, "eval_loss": None, RIGHT: "10"}]
    state = TrainerState(log_history=[good[0], {"step": 1} | wrong, 7, {}, good[1]], is_world_process_zero=True)
    (tmp_path / "metrics.jsonl").write_text("as it was")
    os.link(tmp_path / "metrics.jsonl", tmp_path / "backup")
    Metrics(tmp_path).on_train_begin(None, state, None)
    assert state.log_history == good == read_lines(tmp_path / "metrics.jsonl")
    assert time_by_part(state.log_history)["sampling"]["seconds"] == 2
    assert (tmp_path / "backup").read_text() == "as it was"
