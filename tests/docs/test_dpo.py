"""docs/examples/dpo.py: which completions become pairs, and that trl learns them."""

import importlib.util
import json

import pandas as pd
import pytest

from tests.made_runs import TABLE, chat
from tests.support import ROOT, run_program, same_weights

EXAMPLE = ROOT / "docs/examples/dpo.py"


@pytest.fixture(scope="module")
def dpo():
    spec = importlib.util.spec_from_file_location("dpo", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written(run, step: int, *groups: tuple[str, list[float]], cut: str = ""):
    """A file of completions: groups of (question, advantages). A completion is called by its
    question and place; the one called `cut` did not end by itself."""
    rows = []
    for question, advantages in groups:
        for place, advantage in enumerate(advantages):
            text = f"{question}{place}"
            row = {"step": step, "advantage": advantage, "truncated": text == cut}
            row |= {"prompt": [chat("user", question)], "completion": [chat("assistant", text)]}
            rows.append(row)
    (run / "completions").mkdir(exist_ok=True)
    pd.DataFrame(rows).to_parquet(run / TABLE.format(step))


def test_the_best_of_each_group_is_set_against_the_worst(dpo, tmp_path):
    written(tmp_path, 10, ("c", [0.0, 0.0, 0.0]), ("a", [2.0, 1.0, -3.0]))
    for step in (4, 5):  # a batch that is used twice
        written(tmp_path, step, ("a", [-1.0, -2.0, 0.5]), ("b", [0.1, 0.0, -0.1]), cut="a1")
    pairs = []
    for row in dpo.pairs_of(tmp_path):
        pairs.append([row[key][-1]["content"] for key in ("prompt", "chosen", "rejected")])
    assert pairs == [["a", "a2", "a0"], ["b", "b0", "b2"], ["a", "a0", "a2"]]


@pytest.mark.slow
def test_trl_learns_the_pairs_of_a_run(chain, tmp_path):
    folder = tmp_path / "dpo"
    run_program(EXAMPLE, chain / "grpo", chain / "sft", folder)
    state = json.loads((folder / "checkpoint-120/trainer_state.json").read_text())
    lines = [line for line in state["log_history"] if "rewards/margins" in line]
    assert 0 <= lines[0]["rewards/margins"] < lines[-1]["rewards/margins"]
    assert lines[-1]["rewards/accuracies"] > 0.8
    assert (folder / "tokenizer.json").is_file()
    assert not same_weights(folder, chain / "sft") and not same_weights(folder, chain / "grpo")
