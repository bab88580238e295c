"""Measured GRPO steps of two model sizes on this CPU against `make memory`'s estimate of a step's time:

    python -m tests.bench.step_time recipes/smollm2-arithmetic.yaml [section.key=value …] --steps 4

The CPU's own speeds stand in place of a data sheet: a large product, and one read of a large tensor, in the recipe's
dtype. The second model is random, with SmolLM2-360M's numbers (its config.json), and shares the first one's tokenizer.
Each step's completions have the full length. Medians over all steps but the first.
"""

import argparse
import itertools
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from schema import hardware
from schema.gpus import Card
from schema.launch import recipe_arguments
from schema.local_models import built_model
from schema.recipe import load_recipe
from stages import grpo
from training.step_time import BANDWIDTH_SHARE, FLOPS_SHARE, step_time

LARGER = {"hidden_size": 960, "intermediate_size": 2560, "num_hidden_layers": 32}
LARGER |= {"num_attention_heads": 15, "num_key_value_heads": 5}


def speeds(dtype: torch.dtype) -> tuple[float, float]:
    """(GB/s of a matrix times a vector, TFLOP/s of a square product), each the best of 20."""
    large, vector = torch.randn(8192, 8192).to(dtype), torch.randn(8192, 1).to(dtype)
    square = torch.randn(2048, 2048).to(dtype)

    def best(work) -> float:
        took = []
        for _ in range(20):
            began = time.perf_counter()
            work()
            took.append(time.perf_counter() - began)
        return min(took)

    read = large.numel() * large.element_size() / best(lambda: large @ vector)
    return read / 1e9, 2 * 2048**3 / best(lambda: square @ square) / 1e12


def larger(folder: Path, smaller: Path) -> Path:
    shutil.copytree(smaller, folder, ignore=shutil.ignore_patterns("*.safetensors*"))
    config = AutoConfig.from_pretrained(smaller)
    config.update(LARGER)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


def measured(recipe_file: str, overrides: list[str], steps: int, model: Path) -> tuple[float, float, float]:
    """Seconds of (sampling, update) of a step, and the prompt's tokens."""
    with tempfile.TemporaryDirectory() as folder:
        given = ["model.build=null", f"model.name_or_path={model}", "sft=null", "grpo.logging_steps=1"]
        given += [f"grpo.max_steps={steps}", "grpo.save_strategy=no", f"output_dir={folder}", *overrides]
        length = load_recipe(recipe_file, overrides, check=()).grpo["max_completion_length"]
        recipe = load_recipe(recipe_file, [*given, f"grpo.generation_kwargs={{min_new_tokens: {length}}}"], check=())
        grpo.main(recipe)
        lines = [json.loads(line) for line in (Path(folder) / "grpo/metrics.jsonl").read_text().splitlines()]
    steady = [line for line in lines if "reward" in line][1:]
    rows = recipe.grpo["per_device_train_batch_size"]
    tokens = [after["num_tokens"] - before["num_tokens"] for before, after in itertools.pairwise(steady)]
    return (
        statistics.median(line["seconds/sampling"] for line in steady),
        statistics.median(line["seconds/update"] for line in steady),
        statistics.median(tokens) / rows - length,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    recipe_arguments(parser)
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_intermixed_args()
    asked = load_recipe(options.recipe, options.overrides, check=())
    recipe = hardware.fitted(asked)
    print(hardware.line(recipe, asked.model.dtype))
    bandwidth, flops = speeds(getattr(torch, recipe.model.dtype))
    print(f"{bandwidth:.1f} GB/s, {flops:.2f} TFLOP/s")
    # What the estimate takes off a data sheet is not taken off what was measured.
    card = Card("this CPU", 1, bandwidth / BANDWIDTH_SHARE, flops / FLOPS_SHARE, 1)
    smaller = built_model("smollm2-135m-instruct", recipe.seed).absolute()
    with tempfile.TemporaryDirectory() as folder:
        for name, model in (("135M", smaller), ("360M", larger(Path(folder) / "larger", smaller))):
            sampling, update, prompt = measured(options.recipe, options.overrides, options.steps, model)
            keys = ["model.build=null", f"model.name_or_path={model}", *options.overrides]
            found = step_time(load_recipe(options.recipe, keys, check=()), round(prompt), card)
            for part, took, thought in (("sampling", sampling, found.sampling), ("update", update, found.training)):
                print(f"{name}: {part} {took:.1f} s, estimated {thought:.1f} s ({thought / took:.2f})", flush=True)


if __name__ == "__main__":
    main()
