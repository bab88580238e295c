"""A real pretrained model: `make smollm2` installs it, `make test-slow` runs this."""

import shlex

import pytest
import torch
from safetensors.torch import load_file

from schema.recipe import load_recipe
from tests.support import read_lines, run_stage
from training.model import load_model, load_tokenizer

pytestmark = pytest.mark.slow


def test_the_weights_are_those_of_a_language_model():
    recipe = load_recipe("recipes/smollm2-svamp.yaml", ["data.train=[arithmetic]"])
    tokenizer = load_tokenizer(recipe)
    model = load_model(recipe, tokenizer)
    ids = tokenizer(
        "The capital of France is Paris, and the capital of Italy is Rome.", return_tensors="pt"
    )["input_ids"]
    with torch.inference_mode():
        loss = model(input_ids=ids, labels=ids).loss
    assert loss < 3.0  # of a random model it is log(49,152) = 10.8
    assert tokenizer.eos_token == "<|im_end|>"


@pytest.mark.parametrize("recipe", ["smollm2-arithmetic", "smollm2-svamp"])
def test_every_stage_of_a_smollm2_recipe_runs(recipe, math_data, tmp_path):
    overrides = [f"data.dir={math_data}", f"output_dir={tmp_path}"]
    overrides += shlex.split("""
        data.validation=4 sft.max_steps=2 sft.per_device_train_batch_size=4 grpo.max_steps=1
        grpo.per_device_train_batch_size=8 grpo.gradient_accumulation_steps=1 grpo.num_generations=4
        grpo.save_steps=1 grpo.max_completion_length=16 grpo.logging_steps=1 sft.logging_steps=1
        evaluate.limit=4 evaluate.checkpoint_problems=2 grpo.eval_steps=1 grpo.warmup_steps=0
    """)
    path = f"recipes/{recipe}.yaml"
    for stage in ("sft", "grpo", "evaluate"):
        run_stage(stage, path, *overrides)
    losses = [line.get("loss") for line in read_lines(tmp_path / "sft/metrics.jsonl")]
    assert losses[0] < 4.0
    assert any(
        t.abs().max() > 0
        for n, t in load_file(tmp_path / "grpo/adapter_model.safetensors").items()
        if "lora_B" in n
    )
    assert len(list((tmp_path / "eval").rglob("grpo.jsonl"))) == 1
