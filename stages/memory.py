"""What each GPU needs for a recipe, beside full, LoRA, QLoRA and PPO training of the same model."""

import argparse
import dataclasses

from schema import hardware
from schema.faults import NotReached
from schema.launch import launch, launch_arguments
from schema.problem_sets import prompt_lengths, train_and_held_out
from schema.recipe import Recipe
from schema.terminal import make_command, say, say_markdown
from stages.cli import quiet_libraries, run
from training.memory import GIB, PROMPT_TOKENS, Parts, Setting, estimate, fits, shards, this_card
from training.model import load_tokenizer

LORA = {"r": 32, "lora_alpha": 64, "target_modules": "all-linear"}
NF4 = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}


def longest_prompt(recipe: Recipe) -> tuple[int, str]:
    """Tokens of the longest prompt of the training data, and whose they are; a guess where these cannot be had."""
    try:
        return prompt_lengths(train_and_held_out(recipe)[0], load_tokenizer(recipe), recipe.prompt.system)[
            -1
        ], "the data's longest"
    except NotReached:
        return PROMPT_TOKENS, "a guess: the data or the tokenizer cannot be reached"


def variants(recipe: Recipe) -> dict[str, Recipe]:
    """The recipe trained in other ways, for comparison."""
    adapter = recipe.adapter or LORA
    return {
        "full": dataclasses.replace(recipe, adapter=None, quantization=None),
        "LoRA": dataclasses.replace(recipe, adapter=adapter, quantization=None),
        "QLoRA": dataclasses.replace(recipe, adapter=adapter, quantization=recipe.quantization or NF4),
    }


def with_critic(parts: Parts) -> Parts:
    """PPO of the same model: a critic of the policy's size is trained beside it, and a reference policy is kept."""
    twice = ("weights", "trained_weights", "gradients", "optimizer", "activations")
    doubled = {name: 2 * getattr(parts, name) for name in twice}
    return dataclasses.replace(parts, **doubled, reference=0 if parts.weights else parts.trained_weights)


def table(
    recipe: Recipe,
    prompt_tokens: int = PROMPT_TOKENS,
    setting: Setting = Setting(),  # noqa: B008
    card: float | None = None,
) -> str:
    columns = {"this recipe": estimate(recipe, prompt_tokens, setting, card)}
    columns |= {name: estimate(other, prompt_tokens, setting, card) for name, other in variants(recipe).items()}
    columns["PPO, full"] = with_critic(columns["full"])
    columns["PPO, LoRA"] = with_critic(columns["LoRA"])
    where = "GiB on each GPU" if card else "GiB"
    lines = [f"| {where} | {' | '.join(columns)} |", "| --- |" + " ---: |" * len(columns)]
    for name in [each.name for each in dataclasses.fields(Parts) if each.type is int] + ["total"]:
        sizes = [getattr(parts, name) for parts in columns.values()]
        if any(sizes):
            lines.append(f"| {_label(name)} | {' | '.join(map(_gib, sizes))} |")
    if card:
        verdicts = ["yes" if fits(parts, card) else "no" for parts in columns.values()]
        lines.append(f"| fits {card:.0f} GiB | {' | '.join(verdicts)} |")
    return "\n".join(lines)


def _label(name: str) -> str:
    return name.replace("_", " ").replace("vllm", "vLLM").replace("kv", "KV")


def _gib(size: int) -> str:
    return f"{size / GIB:.2f}" if size else ""


def main(
    recipe: Recipe,
    prompt_tokens: int | None = None,
    card: float | None = None,
    accelerate: str | None = None,
    processes: int | None = None,
):
    """Estimate what a recipe needs of each GPU's memory, beside other ways to train the same model."""
    quiet_libraries()
    launched = launch(accelerate, processes)
    if not card:
        recipe = hardware.fitted(recipe)
    longest, whose = (prompt_tokens, "as asked") if prompt_tokens else longest_prompt(recipe)
    say_markdown(table(recipe, longest, shards(launched), card or this_card()))
    say("\ntotal: what training holds alone (activations, logits) and what sampling does (cache, vLLM) take turns,")
    say("unless vLLM does not sleep (grpo.vllm_enable_sleep_mode)")
    say(f"{longest} tokens of prompt, {whose}; {launched['num_processes']} process(es), {accelerate or 'no launcher'}")
    say(f"next: {make_command('probe-memory', recipe)} tries the largest step")


def add_arguments(parser: argparse.ArgumentParser):
    parser.add_argument("--prompt-tokens", type=int, help="instead of the longest of the data")
    parser.add_argument("--card", type=float, help="GiB of a GPU that is not at hand")
    launch_arguments(parser)


if __name__ == "__main__":
    run("memory", main, add_arguments)
