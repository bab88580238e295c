"""Sampling with the adapter merged: the same answers, the same learning, and the base as it was."""

import json

import pandas as pd
import pytest
import torch
from conftest import run_program, run_stage
from peft import get_peft_model
from safetensors.torch import load_file

from stages import configs
from stages.model import load_model, load_tokenizer
from stages.recipe import load_recipe
from stages.sampling import sample_merged

LORA = "adapter={r: 8, lora_alpha: 16, target_modules: all-linear}"
SHORT = ["data.validation=40", "sft.max_steps=200", "sft.learning_rate=1e-2", "grpo.learning_rate=1e-3"]
SHORT += ["grpo.max_steps=4", "grpo.logging_steps=1", "grpo.beta=0.04"]


def tuned():
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", [LORA], check=())
    torch.manual_seed(0)
    model = get_peft_model(load_model(recipe, load_tokenizer(recipe)), configs.adapter_config(recipe)).eval()
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    return model


def test_the_adapter_is_merged_while_it_samples_and_only_then():
    model = tuned()
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    ids = torch.randint(3, 90, (4, 12), generator=torch.Generator().manual_seed(0))
    beside = model.generate(input_ids=ids, max_new_tokens=24, do_sample=False)
    seen = []
    layer = model.base_model.model.model.layers[0].mlp.down_proj
    layer.register_forward_hook(lambda module, *_: seen.append(module.merged))
    sample_merged(model)
    assert torch.equal(model.generate(input_ids=ids, max_new_tokens=24, do_sample=False), beside)
    assert seen and all(seen)
    assert not layer.merged
    assert all(torch.equal(before[name], each) for name, each in model.named_parameters())


def test_a_sampling_that_fails_leaves_the_base_as_it_was():
    model = tuned()
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    sample_merged(model)
    with pytest.raises(TypeError):
        model.generate(input_ids="no tokens")
    assert all(torch.equal(before[name], each) for name, each in model.named_parameters())


def test_the_weights_that_are_learned_are_those_of_the_unmerged_way(tmp_path):
    """In float32 every completion of four steps is the same, and no weight of the adapter is further than 1e-4 of the
    largest from where it would be; two thousand times less than it moved."""
    (tmp_path / "beside.py").write_text(
        "import sys\nfrom stages import trainer\nfrom stages.grpo import main\nfrom stages.cli import run\n"
        "trainer.sample_merged = lambda model: None\n"
        "run('grpo', main)\n"
    )
    arguments = ["recipes/tiny-arithmetic.yaml", LORA, *SHORT]
    run_stage("sft", *arguments, f"output_dir={tmp_path}/merged")
    (tmp_path / "apart").mkdir()
    (tmp_path / "apart/sft").symlink_to(tmp_path / "merged/sft")
    run_stage("grpo", *arguments, f"output_dir={tmp_path}/merged")
    run_program(tmp_path / "beside.py", *arguments, f"output_dir={tmp_path}/apart")
    for step in range(1, 5):
        file = f"grpo/completions/completions_{step:05}.parquet"
        ours, theirs = (pd.read_parquet(tmp_path / way / file)["completion"].map(str) for way in ("merged", "apart"))
        assert ours.equals(theirs), step
    start, merged, apart = (
        load_file(tmp_path / folder / "adapter_model.safetensors")
        for folder in ("merged/sft", "merged/grpo", "apart/grpo")
    )
    moved = max((merged[name] - start[name]).abs().max().item() for name in merged)
    differ = max((merged[name] - apart[name]).abs().max().item() for name in merged)
    print(json.dumps({"moved": moved, "differ": differ}))
    assert 0 < differ < moved / 2000
