"""What does a young adapter lose when it is merged in 16 bits, rounded to the nearest number and at
random (training/merging.py, merge_at_random)?

    python -m tests.bench.merged recipes/qwen-coder-0.5b-lora.yaml [section.key=value …]

The adapter is what one step of Adam makes of a new one on worked solutions, at the rates of the
recipes and above. The log-probabilities are computed in float32, from the 16-bit weights, so that
nothing but the merge differs.
"""

import argparse
import dataclasses

import torch
from peft import PeftModel, get_peft_model

from data import prompt
from machine.launch import device_line, to_machine
from schema.recipe import Recipe, load_recipe
from schema.settings import adapter_config
from stages.cli import recipe_arguments
from training.merging import keep_base_exact, log_probabilities, merge_at_random, tuners_of
from training.model import load_model, load_tokenizer
from training.problem_sets import load_train

RATES = (3e-5, 1e-4, 3e-4)


def worked_solutions(recipe: Recipe, tokenizer, count: int) -> list[list[int]]:
    texts = []
    for row in load_train(recipe)[0][:count]:
        ids = prompt.question_ids(tokenizer, row["problem"], recipe.prompt.system)
        solution = prompt.completion(row["reasoning"], row["solution"], opened=False)
        texts.append(ids + tokenizer(solution, add_special_tokens=False)["input_ids"])
    return texts


def cast(model: PeftModel, dtype: torch.dtype):
    """Exact from 16 bits to float32, and back."""
    for name, weight in model.named_parameters():
        if "lora_" not in name:
            weight.data = weight.data.to(dtype)


def young_adapter(model: PeftModel, texts: list[list[int]]) -> tuple[PeftModel, dict]:
    """A model with a new adapter, and the signs of the gradients of its B."""
    dtype = model.get_base_model().dtype
    cast(model, torch.float32)
    for ids in texts:
        batch = torch.tensor([ids])
        model(input_ids=batch, labels=batch).loss.backward()
    cast(model, dtype)
    signs = {}
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            signs[name] = weight.grad.sign()
    return model, signs


@torch.no_grad()
def set_size(model: PeftModel, signs: dict[str, torch.Tensor], rate: float):
    """What the first step of Adam at this rate makes of B."""
    for name, sign in signs.items():
        model.get_parameter(name).copy_(-rate * sign)


@torch.no_grad()
def surviving_share(model) -> float:
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
    return projection / norm


@torch.no_grad()
def difference(model: PeftModel, dtype: torch.dtype, texts: list[list[int]]) -> tuple[float, float]:
    """The survivor's share, and the mean difference of a token's log-probability."""
    cast(model, torch.float32)
    policy = log_probabilities(model, texts)
    cast(model, dtype)
    share = surviving_share(model)
    model.merge_adapter()
    cast(model, torch.float32)
    merged = log_probabilities(model, texts)
    cast(model, dtype)
    model.unmerge_adapter()
    return share, (merged - policy).abs().mean().item()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    recipe_arguments(parser)
    parser.add_argument("--texts", type=int, default=3)
    options = parser.parse_intermixed_args()
    settings = load_recipe(options.recipe, options.overrides)
    recipe = to_machine(settings)
    dtype = getattr(torch, settings.model.dtype)
    recipe = dataclasses.replace(recipe, model=settings.model)
    tokenizer = load_tokenizer(recipe)
    texts = worked_solutions(recipe, tokenizer, options.texts)
    print(device_line(recipe, settings.model.dtype))
    print("| B | survives: nearest | at random | mean difference, nats: nearest | at random |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    torch.manual_seed(0)
    model = get_peft_model(load_model(recipe, tokenizer), adapter_config(recipe)).eval()
    model, signs = young_adapter(model, texts)
    keep_base_exact(model)
    nearest = {}
    for rate in RATES:
        set_size(model, signs, rate)
        nearest[rate] = difference(model, dtype, texts)
    merge_at_random(model, lambda: "42 1")
    for rate, (share, lost) in nearest.items():
        set_size(model, signs, rate)
        share_at_random, noise = difference(model, dtype, texts)
        row = f"| {rate:g} | {share:.0%} | {share_at_random:.0%} | {lost:.4f} | {noise:.4f} |"
        print(row, flush=True)


if __name__ == "__main__":
    main()
