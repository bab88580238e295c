"""qwen-math-full with a tiny model of its architecture, on two processes: updates of 1e-6 reach the
weights."""

import pytest
import torch
from safetensors.torch import load_file

from tests.support import TWO_PROCESSES, run_stage

RECIPE = "recipes/qwen-math-full.yaml"


@pytest.mark.slow
def test_two_steps_on_two_processes_reach_the_weights(tiny_qwen2, math_data, tmp_path):
    """They would not reach weights in bfloat16, to which nearly all of them round as before."""
    given = [
        f"model.name_or_path={tiny_qwen2}",
        f"data.dir={math_data}",
        "data.validation=8",
        f"output_dir={tmp_path}",
    ]
    given += [
        "sft.max_steps=2",
        "sft.gradient_accumulation_steps=1",
        "grpo.max_steps=2",
        "grpo.eval_steps=null",
    ]
    given += [
        "grpo.gradient_accumulation_steps=1",
        "grpo.max_completion_length=24",
        "grpo.use_vllm=false",
    ]
    given += [
        "grpo.vllm_enable_sleep_mode=false",
        "evaluate.engine=transformers",
        "data.own_solutions=null",
    ]
    given += [
        "rewards={tests.varied_reward.varied: {weight: 1.0}}"
    ]  # the model is right by chance alone
    for stage in ("sft", "grpo"):
        run_stage(stage, RECIPE, *given, launcher=TWO_PROCESSES, OMP_NUM_THREADS="1")
    before, after = (load_file(tmp_path / stage / "model.safetensors") for stage in ("sft", "grpo"))
    assert before.keys() == after.keys() and {each.dtype for each in after.values()} == {
        torch.float32
    }
    name = "model.layers.0.mlp.down_proj.weight"
    assert (before[name] != after[name]).float().mean() > 0.9
    assert (before[name].bfloat16() != after[name].bfloat16()).float().mean() < 0.1
    assert (
        before[name] - after[name]
    ).abs().max() < 2.1e-6  # two steps of Adam, of one learning rate at most each
