"""Sampling with the adapter merged: the same answers, the same learning, and the base as it was."""

import shutil

import pandas as pd
import pytest
import torch
from peft import get_peft_model
from safetensors.torch import load_file

from schema import configs
from schema.recipe import load_recipe
from tests.support import run_program, run_stage
from training.model import load_model, load_tokenizer
from training.sampling import mergeable, sample_merged, surviving_share

LORA = "adapter={r: 8, lora_alpha: 16, target_modules: all-linear}"
SHORT = ["data.validation=40", "sft.max_steps=60", "sft.learning_rate=1e-2", "grpo.learning_rate=1e-3"]
SHORT += ["grpo.max_steps=4", "grpo.logging_steps=1", "grpo.beta=0.04"]
SHORT += ["rewards.tests.varied_reward.varied={weight: 1.0}"]


def tuned(*overrides: str, size: float = 0.1):
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", [LORA, *overrides], check=())
    torch.manual_seed(0)
    model = get_peft_model(load_model(recipe, load_tokenizer(recipe)), configs.adapter_config(recipe)).eval()
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=size)
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
    with pytest.raises(AttributeError):
        model.generate(input_ids="no tokens")
    assert all(torch.equal(before[name], each) for name, each in model.named_parameters())


def test_what_merging_would_change_elsewhere_is_not_merged():
    """The tiny model's head is its embedding."""
    assert mergeable(tuned())
    assert not mergeable(tuned("adapter.target_modules=[lm_head]"))
    assert not mergeable(tuned("adapter.lora_bias=true"))
    quantised = tuned()
    quantised.get_base_model().is_quantized = True  # as that of a folder that says so itself
    assert not mergeable(quantised)


def test_what_rounding_would_swallow_is_not_merged():
    """In bfloat16 a young adapter moves most weights by less than half their last digit."""
    ids, seen = torch.randint(3, 90, (2, 8), generator=torch.Generator().manual_seed(0)), []
    for dtype, size, share, merged in (
        ("float32", 1e-5, (1.0, 1.0), True),
        ("bfloat16", 0.0, (1.0, 1.0), True),
        ("bfloat16", 1e-5, (0.0, 0.1), False),
        ("bfloat16", 1e-4, (0.5, 0.9), False),
        ("bfloat16", 0.1, (0.99, 1.01), True),
    ):
        model = tuned(f"model.dtype={dtype}", size=size)
        least, most = share
        assert least <= surviving_share(model) <= most, (dtype, size)
        layer = model.base_model.model.model.layers[0].mlp.down_proj
        layer.register_forward_hook(lambda module, *_: seen.append(module.merged))
        sample_merged(model)
        model.generate(input_ids=ids, max_new_tokens=2, do_sample=False)
        assert seen.pop() is merged, (dtype, size)


PATCHED = """
import sys
from training import trainer
from stages.cli import run
from stages.grpo import main
merge = trainer.sample_merged
def merged(model):
    print("sampling is merged")
    merge(model)
trainer.sample_merged = {way}
run("grpo", main)
"""


@pytest.mark.train
def test_the_weights_that_are_learned_are_those_of_the_unmerged_way(tmp_path):
    """In float32 a merged layer's output differs in its last bits, which moves no sampled token of these four steps;
    and what is learned from the same tokens is the same, to the bit."""
    arguments = ["recipes/tiny-arithmetic.yaml", LORA, *SHORT]
    run_stage("sft", *arguments, f"output_dir={tmp_path}/merged")
    shutil.copytree(tmp_path / "merged/sft", tmp_path / "beside/sft")
    for way, patch in (("merged", "merged"), ("beside", "lambda model: None")):
        (tmp_path / f"{way}.py").write_text(PATCHED.format(way=patch))
        said = run_program(tmp_path / f"{way}.py", *arguments, f"output_dir={tmp_path / way}").stdout
        assert ("sampling is merged" in said) is (way == "merged")
    for step in range(1, 5):
        file = f"grpo/completions/completions_{step:05}.parquet"
        ours, theirs = (pd.read_parquet(tmp_path / way / file)["completion"].map(str) for way in ("merged", "beside"))
        assert ours.equals(theirs), step
    start, merged, beside = (
        load_file(tmp_path / folder / "adapter_model.safetensors")
        for folder in ("merged/sft", "merged/grpo", "beside/grpo")
    )
    assert all(torch.equal(merged[name], beside[name]) for name in merged)
    assert any(not torch.equal(merged[name], start[name]) for name in merged)
