"""Sampling through transformers with the adapter merged against beside its base, both in one run:

    python -m tests.bench.merged recipes/smollm2-arithmetic.yaml [section.key=value …] --pairs 5 --tokens 64

Tokens a second, in alternating pairs, merging and restoring included; and how far the log-probabilities of both ways,
in the recipe's dtype, are from those of the same policy in float32, for adapters of several sizes. `slope`: of the move
from the base model to the policy, in that dtype, over the true one: 1 where rounding swallows nothing of it.
"""

import argparse
import dataclasses
import random
import statistics
import time

import torch
from peft import PeftModel, get_peft_model
from trl.trainer.utils import selective_log_softmax

from data import prompt
from stages import configs, hardware
from stages.exact_merge import keep_base_exact
from stages.model import load_model, load_tokenizer
from stages.problems import load_train
from stages.recipe import Recipe, load_recipe, recipe_arguments

SIZES = (1e-3, 3e-3, 1e-2, 3e-2)  # standard deviations of B; Adam moves it by about the learning rate a step
JUDGED = 8  # prompts whose log-probabilities are compared


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


@torch.no_grad()
def sample(model: PeftModel, batch: dict, tokens: int) -> torch.Tensor:
    torch.manual_seed(2)
    return model.generate(**batch, do_sample=True, top_k=0, max_new_tokens=tokens, min_new_tokens=tokens)


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
        took = {merged: seconds(merged) for merged in ((True, False) if pair % 2 else (False, True))}
        ratios.append(took[False] / took[True])
        beside, merged = (rows * tokens / took[each] for each in (False, True))
        print(f"pair {pair + 1}: {beside:.0f} tokens/s beside, {merged:.0f} merged, {ratios[-1]:.2f}", flush=True)
    print(f"merged ÷ beside: median {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


@torch.no_grad()
def log_probabilities(model: PeftModel, batch: dict, sampled: torch.Tensor) -> torch.Tensor:
    prompts = batch["input_ids"].shape[1]
    mask = torch.cat([batch["attention_mask"], torch.ones_like(sampled[:, prompts:])], 1)
    logits = model(input_ids=sampled, attention_mask=mask).logits[:, prompts - 1 : -1].float()
    return selective_log_softmax(logits, sampled[:, prompts:]).flatten()


def nearness(recipe: Recipe, model: PeftModel, tokenizer, batch: dict, tokens: int):
    exact = policy_in(recipe, "float32", tokenizer)
    batch = {key: each[:JUDGED] for key, each in batch.items()}
    sampled = sample(model, batch, tokens)
    print("| B | true move | beside, from the true | merged, from the true | slope beside | slope merged |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for size in SIZES:
        resize(model, size)
        resize(exact, size)
        true, beside = (log_probabilities(each, batch, sampled) for each in (exact, model))
        model.merge_adapter()
        merged = log_probabilities(model, batch, sampled)
        model.unmerge_adapter()
        with exact.disable_adapter(), model.disable_adapter():
            true_base, base = (log_probabilities(each, batch, sampled) for each in (exact, model))
        move = true - true_base
        slopes = [torch.cov(torch.stack([each - base, move]))[0, 1] / move.var() for each in (beside, merged)]
        far = [(each - true).abs().mean() for each in (beside, merged)]
        cells = [*(f"{each:.5f}" for each in (move.abs().mean(), *far)), *(f"{each:.2f}" for each in slopes)]
        print(f"| {size:g} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    recipe_arguments(parser)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_intermixed_args()
    asked = load_recipe(options.recipe, options.overrides, check=())
    recipe = hardware.fitted(asked)
    tokenizer = load_tokenizer(recipe)
    model = policy_in(recipe, recipe.model.dtype, tokenizer)
    keep_base_exact(model)
    rows = random.Random(0).sample(
        load_train(recipe)[0], configs.setting(recipe, "grpo", "per_device_train_batch_size")
    )
    ids = [prompt.prompt_ids(tokenizer, prompt.messages(row["problem"], recipe.prompt.system)) for row in rows]
    batch = dict(tokenizer.pad({"input_ids": ids}, padding_side="left", return_tensors="pt").to(model.device))
    print(f"{hardware.line(recipe, asked.model.dtype)}; {len(rows)} completions of {options.tokens} tokens")
    resize(model, SIZES[0])
    speed(model, batch, options.tokens, options.pairs)
    nearness(recipe, model, tokenizer, batch, options.tokens)


if __name__ == "__main__":
    main()
