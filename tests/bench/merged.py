"""Sampling through transformers with the adapter merged against beside its base, both in one run:

    python -m tests.bench.merged recipes/smollm2-arithmetic.yaml [section.key=value …] --pairs 5
    --tokens 64

Tokens a second, in alternating pairs, merging and restoring included; and how much of what an
adapter adds is in the merged weights in the recipe's dtype, rounded to the nearest number and at
random (training/sampling.py, merge_at_random).
"""

import argparse
import dataclasses
import random
import statistics
import time

import torch
from peft import PeftModel, get_peft_model

from data import prompt
from machine.launch import device_line, to_machine
from schema import configs
from schema.recipe import Recipe, load_recipe
from stages.cli import recipe_arguments
from training.model import load_model, load_tokenizer
from training.problem_sets import load_train
from training.sampling import keep_base_exact, merge_at_random, tuners_of

SIZES = (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)  # standard deviations of B


def policy_in(recipe: Recipe, dtype: str, tokenizer) -> PeftModel:
    recipe = dataclasses.replace(recipe, model=dataclasses.replace(recipe.model, dtype=dtype))
    torch.manual_seed(0)
    model = get_peft_model(load_model(recipe, tokenizer), configs.adapter_config(recipe)).eval()
    return model.to("cuda" if torch.cuda.is_available() else "cpu")


def resize(model: PeftModel, size: float):
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data.copy_(torch.randn(parameter.shape) * size)


def batch_of(recipe: Recipe, tokenizer, model: PeftModel) -> dict:
    """As many prompts of the training data as GRPO samples at once."""
    size = configs.setting(recipe, "grpo", "per_device_train_batch_size")
    rows = random.Random(0).sample(load_train(recipe)[0], size)
    ids = [
        prompt.prompt_ids(tokenizer, prompt.messages(row["problem"], recipe.prompt.system))
        for row in rows
    ]
    return dict(
        tokenizer.pad({"input_ids": ids}, padding_side="left", return_tensors="pt").to(model.device)
    )


@torch.no_grad()
def sample(model: PeftModel, batch: dict, tokens: int) -> torch.Tensor:
    torch.manual_seed(2)
    return model.generate(
        **batch, do_sample=True, top_k=0, max_new_tokens=tokens, min_new_tokens=tokens
    )


def speed(model: PeftModel, batch: dict, tokens: int, pairs: int):
    rows = len(batch["input_ids"])

    def seconds(merged: bool) -> float:
        began = time.perf_counter()
        if merged:
            model.merge_adapter()
        sample(model, batch, tokens)
        if merged:
            model.unmerge_adapter()
        return time.perf_counter() - began

    seconds(True), seconds(False)  # the machine's caches, and whatever is made once
    ratios = []
    for pair in range(pairs):
        took = {
            merged: seconds(merged) for merged in ((True, False) if pair % 2 else (False, True))
        }
        ratios.append(took[False] / took[True])
        beside, merged = (rows * tokens / took[each] for each in (False, True))
        print(
            f"pair {pair + 1}: {beside:.0f} tokens/s beside, {merged:.0f} merged, {ratios[-1]:.2f}",
            flush=True,
        )
    print(
        f"merged ÷ beside: median {statistics.median(ratios):.2f} ({min(ratios):.2f} to"
        f" {max(ratios):.2f})"
    )


@torch.no_grad()
def surviving_share(model: PeftModel) -> float:
    """The projection on the adapter's exact change of what a merge changes, over all layers."""
    changes, before = {}, {}
    for tuner in tuners_of(model):
        layer = tuner.get_base_layer()
        name = getattr(tuner, "parameter_name", "weight")
        changes[layer, name] = tuner.get_delta_weight("default").float()
        before[layer, name] = getattr(layer, name).detach().clone()
    model.merge_adapter()
    projection = norm = 0.0
    for (layer, name), change in changes.items():
        merged = getattr(layer, name).detach().float() - before[layer, name].float()
        projection += (merged * change).sum().item()
        norm += (change * change).sum().item()
    model.unmerge_adapter()
    for (layer, name), weight in before.items():
        getattr(layer, name).copy_(weight)
    return projection / norm if norm else 1.0


def survival(model: PeftModel):
    """What of an adapter's move is there after a merge, by the size of B; Adam moves it by about
    the learning rate a step."""
    print("| B | survives, to the nearest | at random |\n| ---: | ---: | ---: |")
    nearest = []
    for size in SIZES:
        resize(model, size)
        nearest.append(surviving_share(model))
    merge_at_random(model, lambda: "survival")
    for size, share in zip(SIZES, nearest, strict=True):
        resize(model, size)
        print(f"| {size:g} | {share:.3f} | {surviving_share(model):.3f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    recipe_arguments(parser)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_intermixed_args()
    asked = load_recipe(options.recipe, options.overrides, check=())
    recipe = to_machine(asked)
    tokenizer = load_tokenizer(recipe)
    model = policy_in(recipe, recipe.model.dtype, tokenizer)
    keep_base_exact(model)
    batch = batch_of(recipe, tokenizer, model)
    print(
        f"{device_line(recipe, asked.model.dtype)}; {len(batch['input_ids'])} completions of"
        f" {options.tokens} tokens"
    )
    resize(model, SIZES[-1])
    speed(model, batch, options.tokens, options.pairs)
    survival(model)


if __name__ == "__main__":
    main()
