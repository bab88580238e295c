"""qwen-math-full with a tiny model of its architecture, on two processes: updates of 1e-6 reach the
weights."""

import shlex

import pytest
import torch
from safetensors.torch import load_file

from tests.support import TWO_PROCESSES, run_stage

RECIPE = "recipes/qwen-math-full.yaml"


@pytest.mark.slow
def test_two_steps_on_two_processes_reach_the_weights(tiny_qwen2, math_data, tmp_path):
    """They would not reach weights in bfloat16, to which nearly all of them round as before."""
    settings = [f"model.name_or_path={tiny_qwen2}", f"data.dir={math_data}"]
    # The model is correct by chance alone.
    settings += shlex.split("""
        data.validation=8 data.rejection_sampling=null evaluate.engine=transformers sft.max_steps=2
        sft.gradient_accumulation_steps=1 grpo.max_steps=2 grpo.eval_steps=null
        grpo.gradient_accumulation_steps=1 grpo.max_completion_length=24 grpo.use_vllm=false
        grpo.vllm_enable_sleep_mode=false rewards='{tests.varied_reward.varied: {weight: 1.0}}'
    """)
    for stage in ("sft", "grpo"):
        run_stage(stage, RECIPE, *settings, f"output_dir={tmp_path}", before=TWO_PROCESSES)
    before, after = (load_file(tmp_path / stage / "model.safetensors") for stage in ("sft", "grpo"))
    assert before.keys() == after.keys()
    assert {weight.dtype for weight in after.values()} == {torch.float32}
    name = "model.layers.0.mlp.down_proj.weight"
    assert (before[name] != after[name]).float().mean() > 0.9
    assert (before[name].bfloat16() != after[name].bfloat16()).float().mean() < 0.1
    # Two steps of Adam, of one learning rate at most each.
    assert (before[name] - after[name]).abs().max() < 2.1e-6
