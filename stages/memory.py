"""Prints the memory that a recipe needs on each GPU, beside full, LoRA and QLoRA training of one
model."""

import dataclasses
import os

from console.faults import NotReached
from console.terminal import make_command, quiet_libraries, say, say_markdown
from machine.hardware import GPU
from machine.launch import is_launched, launched_here, this_machine, to_machine
from schema.settings import Recipe, require_values
from training.memory import GIB, PROMPT_TOKENS, Parts, Setting, estimate, fits, shards, this_gpu
from training.model import load_tokenizer
from training.problem_sets import prompt_lengths, train_and_validation

LORA = {"r": 32, "lora_alpha": 64, "target_modules": "all-linear"}
NF4 = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}


def longest_prompt(recipe: Recipe) -> tuple[int, str]:
    """The tokens of the longest training prompt, and the source of that number: the data, or a
    guess if the data or the tokenizer is missing."""
    try:
        rows, _ = train_and_validation(recipe)
        lengths = prompt_lengths(rows, load_tokenizer(recipe), recipe.prompt.system)
        return lengths[-1], "the data's longest"
    except NotReached:
        return PROMPT_TOKENS, "a guess: the data or the tokenizer cannot be reached"


def variants(recipe: Recipe) -> dict[str, Recipe]:
    """The recipe trained in other ways, for comparison."""
    lora = dataclasses.replace(recipe, adapter=recipe.adapter or LORA, quantization=None)
    return {
        "full": dataclasses.replace(recipe, adapter=None, quantization=None),
        "LoRA": lora,
        "QLoRA": dataclasses.replace(
            lora,
            quantization=recipe.quantization or NF4,
            grpo=recipe.grpo | {"use_vllm": False},  # vLLM takes no quantised weights from trl
        ),
    }


def table(
    recipe: Recipe,
    prompt_tokens: int = PROMPT_TOKENS,
    setting: Setting = Setting(),  # noqa: B008
    gpu: float | None = None,
) -> str:
    """The estimates as Markdown: a row per part of the memory, a column per way to train.

    Args:
        gpu: the GPU's memory in GiB.
    """
    columns = {"this recipe": estimate(recipe, prompt_tokens, setting, gpu)}
    for name, variant in variants(recipe).items():
        columns[name] = estimate(variant, prompt_tokens, setting, gpu)
    unit = "GiB on each GPU" if gpu else "GiB"
    lines = [f"| {unit} | {' | '.join(columns)} |", "| --- |" + " ---: |" * len(columns)]
    names = [field.name for field in dataclasses.fields(Parts) if field.type is int]
    for name in [*names, "total"]:
        sizes = [getattr(parts, name) for parts in columns.values()]
        if any(sizes):
            lines.append(f"| {_label(name)} | {' | '.join(map(_gib, sizes))} |")
    if gpu:
        verdicts = ["yes" if fits(recipe, parts, gpu) else "no" for parts in columns.values()]
        lines.append(f"| fits {gpu:.0f} GiB | {' | '.join(verdicts)} |")
    return "\n".join(lines)


def _label(name: str) -> str:
    return name.replace("_", " ").replace("vllm", "vLLM").replace("kv", "KV")


def _gib(size: int) -> str:
    if not size:
        return ""
    return f"{size / GIB:.2f}"


def main(recipe: Recipe, gpu: GPU | None = None):
    """Estimate the memory that a recipe needs on each GPU, beside other ways to train the same
    model."""
    quiet_libraries()
    launched = launched_here()
    recipe = dataclasses.replace(recipe, machine=this_machine())
    if launched["num_processes"] == 1:  # a launcher's processes build their own configs
        require_values(recipe, "grpo", is_launched())
    recipe = to_machine(recipe, gpu)
    prompt_tokens, source = longest_prompt(recipe)
    text = table(recipe, prompt_tokens, shards(launched), gpu.gib if gpu else this_gpu())
    say_markdown(text)
    say(
        "\ntotal: training's own memory (activations, logits) and sampling's own (cache, vLLM) are"
        " needed in turn,"
    )
    say("so only the larger counts, unless vLLM does not sleep (grpo.vllm_enable_sleep_mode)")
    say(
        f"{prompt_tokens} prompt tokens ({source}); {launched['num_processes']} process(es),"
        f" {os.getenv('ACCELERATE') or 'no launcher'}"
    )
    say(f"next: {make_command('probe-memory', recipe)} tries the largest step")
