"""A run of several epochs that is cut goes on with the problems it would have seen, in their order."""

import shutil
from pathlib import Path

import pytest

from tests.support import run_stage, write_lines

STEPS, CUT = 8, 5  # three steps an epoch
OVERRIDES = ["data.validation=2", "sft=null", f"grpo.max_steps={STEPS}", "grpo.save_steps=1", "grpo.save_total_limit=9"]
OVERRIDES += ["grpo.num_generations=4", "grpo.gradient_accumulation_steps=1", "grpo.num_iterations=1"]
OVERRIDES += ["rewards.tests.varied_reward.varied={weight: 1.0}"]


@pytest.mark.train
@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_resumed_epoch_is_not_the_first_again(processes, tmp_path: Path):
    rows = [{"problem": f"What is {i} + 1?", "answer": i + 1} for i in range(10, 18)]
    write_lines(tmp_path / "few.jsonl", rows)
    arguments = ["recipes/tiny-arithmetic.yaml", f"data.train=[{tmp_path}/few.jsonl]", *OVERRIDES]
    arguments.append(f"grpo.per_device_train_batch_size={8 // processes}")
    run_stage("grpo", *arguments, f"output_dir={tmp_path}/whole", processes=processes)
    whole, cut = tmp_path / "whole/grpo", tmp_path / "cut/grpo"
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    (cut / "summary.json").unlink()
    for step in range(CUT + 1, STEPS + 1):
        shutil.rmtree(cut / f"checkpoint-{step}")
    resumed = run_stage("grpo", *arguments, f"output_dir={tmp_path}/cut", processes=processes)
    assert f"from {cut}/checkpoint-{CUT}" in resumed.stdout
    assert (whole / "model.safetensors").read_bytes() == (cut / "model.safetensors").read_bytes()


def test_a_batch_of_more_problems_than_there_are_is_refused(tmp_path: Path):
    """trl's sampler would be empty, and the run over at once."""
    rows = [{"problem": f"What is {i} + 1?", "answer": i + 1} for i in range(5)]
    write_lines(tmp_path / "few.jsonl", rows)
    overrides = [f"data.train=[{tmp_path}/few.jsonl]", "data.validation=2", "sft=null", "grpo.num_generations=2"]
    overrides += [
        "grpo.per_device_train_batch_size=8",
        "grpo.gradient_accumulation_steps=1",
        f"output_dir={tmp_path}/x",
    ]
    done = run_stage("grpo", "recipes/tiny-arithmetic.yaml", *overrides, check=False)
    assert done.returncode == 2
    assert "data.train has 3 problems, but a batch samples from 4 different ones" in done.stderr
    assert not (tmp_path / "x").exists()
