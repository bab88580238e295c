"""On a CPU a run computes with one number of threads from its start to its end, since on some
processors sums depend on it in their last digits."""

import json

import pytest
import torch

from machine import hardware
from tests.made_runs import change_json
from tests.support import CHAIN, copied, read_lines, run_stage, same_weights


@pytest.fixture
def two_threads(monkeypatch):
    """As a user has it who has set no number of threads, on two cores."""
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS")
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("parameters", "threads"), [(300_000, 1), (9_999_999, 1), (135_000_000, 2)]
)
def test_a_small_model_is_computed_with_one_thread(two_threads, parameters, threads):
    hardware.choose_threads(parameters)
    assert torch.get_num_threads() == threads


def test_the_number_that_the_user_sets_stays(two_threads, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    hardware.choose_threads(300_000)
    assert torch.get_num_threads() == 2
    line = hardware.keep_threads(4)
    assert line == "began with 4 threads, goes on with 2, as OMP_NUM_THREADS says"
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("began", [None, 0, "4", True, 2])
def test_a_run_that_names_no_other_number_changes_nothing(two_threads, began):
    assert hardware.keep_threads(began) == "" and torch.get_num_threads() == 2


def test_a_run_goes_on_with_its_own_number(two_threads):
    assert hardware.keep_threads(3) == "" and torch.get_num_threads() == 3


@pytest.mark.train
def test_a_folder_says_the_number_and_a_resumed_run_takes_it(chain, tmp_path, monkeypatch):
    """A run that began with two threads on another machine is resumed with two, though one is
    usual."""
    monkeypatch.delenv("OMP_NUM_THREADS")
    copied(chain, tmp_path, "sft", "grpo")
    assert json.loads((chain / "sft/versions.json").read_text())["threads"] == 1
    change_json(tmp_path / "grpo/versions.json", threads=2)
    (tmp_path / "grpo/summary.json").unlink()
    settings = [f"output_dir={tmp_path}", *CHAIN]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    done = run_stage("grpo", "recipes/tiny-arithmetic.yaml", *settings)
    assert "began with 2 threads, goes on with 1" in done.stdout
    assert same_weights(chain / "grpo", tmp_path / "grpo")
    assert read_lines(tmp_path / "grpo/metrics.jsonl")
