"""Zero-variance groups are replaced: what is put where, and a run that does it, killed and resumed.
It leans on what trl's `_generate_and_score_completions` returns and logs."""

import json
import re
import shutil

import pandas as pd
import pytest
import torch

from console.faults import RecipeError
from evaluation.compare_runs import completions
from runs.state import read_run
from schema.recipe import load_recipe
from tests.support import FEW_PROBLEMS, run_stage, same_weights, trainer_of
from training import trainer
from training.dynamic_sampling import put

TINY = "recipes/tiny-arithmetic.yaml"
GROUP = 8


def test_new_completions_are_padded_as_trl_pads_them():
    output = {
        "prompt_ids": torch.tensor([[5, 6], [5, 6], [7, 8], [7, 8]]),
        "completion_ids": torch.tensor([[1], [2], [3], [4]]),
        "completion_mask": torch.tensor([[1], [1], [1], [1]]),
        "importance_sampling_ratio": torch.tensor([[0.5], [0.5], [0.5], [0.5]]),
        "advantages": torch.tensor([0.0, 0.0, 1.0, -1.0]),
        "num_items_in_batch": torch.tensor(4),
    }
    new = {
        "prompt_ids": torch.tensor([[9, 9, 9], [9, 9, 9]]),
        "completion_ids": torch.tensor([[10, 11], [12, 0]]),
        "completion_mask": torch.tensor([[1, 1], [1, 0]]),
        "importance_sampling_ratio": torch.tensor([[0.5, 2.0], [0.5, 1.0]]),
        "advantages": torch.tensor([0.5, -0.5]),
        "num_items_in_batch": torch.tensor(3),
    }
    put(output, new, [0, 1])
    assert output["prompt_ids"].tolist() == [[9, 9, 9], [9, 9, 9], [0, 7, 8], [0, 7, 8]]
    assert output["completion_ids"].tolist() == [[10, 11], [12, 0], [3, 0], [4, 0]]
    assert output["completion_mask"].tolist() == [[1, 1], [1, 0], [1, 0], [1, 0]]
    ratios = output["importance_sampling_ratio"].tolist()
    assert ratios == [[0.5, 2.0], [0.5, 1.0], [0.5, 1.0], [0.5, 1.0]]
    assert output["advantages"].tolist() == [0.5, -0.5, 1.0, -1.0]
    assert output["num_items_in_batch"] == 5


@pytest.mark.train
def test_a_batch_is_filled_and_a_resumed_run_fills_it_alike(chain, tmp_path):
    words = [TINY, f"output_dir={tmp_path}", *FEW_PROBLEMS, "data.dynamic_sampling=2"]
    words += ["sft.max_steps=100", "sft.per_device_train_batch_size=32", "grpo.max_steps=4"]
    words += ["grpo.num_iterations=1", "grpo.logging_steps=1", "grpo.save_steps=2"]
    shutil.copytree(chain / "sft", tmp_path / "sft")
    printed = run_stage("grpo", *words)
    run = read_run(tmp_path / "grpo")
    shares = [line["sampled_again"] for line in run.metrics if "loss" in line]
    assert len(shares) == 4 and max(shares) > 0, shares
    assert completions(run) == 4 * 32 + 32 * sum(shares)
    words_of_lines = re.findall(r"sampled again (\S+)", printed.stderr)
    assert list(map(float, words_of_lines)) == pytest.approx(shares, abs=0.01)
    for line in run.metrics[:4]:
        table = pd.read_parquet(
            tmp_path / f"grpo/completions/completions_{line['step']:05d}.parquet"
        )
        assert len(table) == 32
        problems = []
        silent = 0
        for first in range(0, 32, GROUP):
            group = table[first : first + GROUP]
            [problem] = {message[-1]["content"] for message in group["prompt"]}
            problems.append(problem)
            assert group["gold"].nunique() == 1
            is_silent = len({*zip(group["correct_answer"], group["format_tags"], strict=True)}) == 1
            assert is_silent == (group["advantage"] == 0).all()
            silent += is_silent
        assert len(set(problems)) == 4
        assert silent == 4 * line["zero_variance_groups"]
    # As SIGKILL leaves it after step 3: the same command ends with the same weights.
    shutil.copytree(tmp_path / "grpo", tmp_path / "whole")
    for name in ("summary.json", "model.safetensors"):
        (tmp_path / "grpo" / name).unlink()
    shutil.rmtree(tmp_path / "grpo/checkpoint-4")
    assert "from checkpoint-2" in run_stage("grpo", *words).stdout.replace(f"{tmp_path}/grpo/", "")
    assert same_weights(tmp_path / "whole", tmp_path / "grpo")
    again = [json.loads(line) for line in (tmp_path / "grpo/metrics.jsonl").open()]
    assert [line["sampled_again"] for line in again if "loss" in line] == shares


def test_a_model_that_counts_its_padding_is_refused(monkeypatch):
    monkeypatch.setattr(trainer, "has_relative_positions", lambda model: False)
    with pytest.raises(RecipeError, match=r"data.dynamic_sampling: .* counts the padding"):
        trainer_of(load_recipe(TINY, ["data.dynamic_sampling=2", "sft=null"]))
