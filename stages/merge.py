"""Writes one model without an adapter, to serve elsewhere: the base with the trained adapter merged
in.

A quantised base is loaded unquantised, because merging into rounded weights would round the adapter
away. The written model is read again, and computes what the adapter does, or is removed. Memory
holds one model at a time, on the GPU where it fits.
"""

import dataclasses
import json
import shutil
from pathlib import Path

import torch
from peft import PeftModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from console.faults import RecipeError, said_by_library
from console.terminal import make_command, quiet_libraries, say
from data import prompt
from evaluation.run_pages import model_card
from runs.files import lock, sync_tree, weights_hash, write_whole
from runs.identity import MERGED_FROM, find_run, require_merged_from
from runs.records import some_groups
from runs.state import RunState
from schema.recipe import Recipe
from training.merging import log_probabilities, merge_at_random, separate_shared
from training.model import load_model, load_tokenizer

# Nats between the log-probabilities of the merged model and of the adapter on its base: the largest
# difference in float32; the mean in 16 bits, where the order of the sums alone makes up to 0.03.
LIMIT = {"float32": 1e-3, "bfloat16": 0.05, "float16": 0.05}


def main(recipe: Recipe) -> Path:
    """Write a recipe's trained policy to `merged/` as one model. Return that folder."""
    quiet_libraries()
    policy = find_run(recipe, "grpo")
    trained = policy.folder
    merged = recipe.stage_dir("merged")
    if not policy.finished:
        message = f"{trained} holds no finished run to merge: {make_command('grpo', recipe)}"
        raise RecipeError([message])
    if merged.exists():
        require_merged_from(trained, merged)
        say(f"merged already, in {merged}; delete it to merge again")
        return merged
    tokenizer = load_tokenizer(recipe)
    recipe = dataclasses.replace(recipe, quantization=None)
    texts = _sampled_texts(trained, tokenizer)
    partial = merged.with_name("merged.partial")
    lock(partial)
    expected, of_base = _write(recipe, tokenizer, trained, partial, texts)
    say("reading the merged model again, to compare it with the trained policy")
    computed = log_probabilities(_load(recipe, tokenizer, partial), texts)
    difference = (computed - expected).abs()
    described = (
        f"log-probabilities of {len(difference):,} tokens of the run differ from the trained"
        f" policy's by {difference.mean():.2g} nats on average, {difference.max():.2g} at most; the"
        f" base's by {(of_base - expected).abs().mean():.2g}"
    )
    error = difference.max() if recipe.model.dtype == "float32" else difference.mean()
    if not error <= LIMIT[recipe.model.dtype]:
        shutil.rmtree(partial)
        message = (
            f"the merged model is not the trained policy: {described}. Nothing was written: serve"
            f" the adapter in {trained} on its base"
        )
        raise RecipeError([message])
    _finish(partial, merged, policy)
    say(f"merged model in {merged}: its {described}")
    say(f"next: {make_command('evaluate', recipe, MODEL=[merged])}")
    return merged


def _write(
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerBase,
    trained: Path,
    partial: Path,
    texts: list[list[int]],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Write the trained policy without an adapter into `partial`.

    Returns:
        The log-probabilities of the texts' tokens under the trained policy, and under its base. The
        model is gone when this returns: two of them may not fit into memory.
    """
    model = _load(recipe, tokenizer, trained)
    say(f"merging {trained} on the {model.device.type.upper()}")
    expected = log_probabilities(model, texts)
    of_base = expected
    if isinstance(model, PeftModel):
        with model.disable_adapter():
            of_base = log_probabilities(model, texts)
        with said_by_library(str(trained)):
            separate_shared(model)
            merge_at_random(model, lambda: f"{recipe.seed} merged")
            model = model.merge_and_unload()
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    return expected, of_base


def _load(recipe: Recipe, tokenizer: PreTrainedTokenizerBase, folder: Path) -> PreTrainedModel:
    """Load a model, and put it on the GPU where there is one with room for it."""
    model = load_model(recipe, tokenizer, folder)
    if torch.cuda.is_available():
        free, _ = torch.cuda.mem_get_info()
        # A fifth more, for a layer in float32 while it is merged, and for the texts.
        if 1.2 * model.get_memory_footprint() < free:
            return model.to("cuda")
    return model


def _finish(partial: Path, merged: Path, policy: RunState):
    """Write what a reader of the merged model needs to know, and give it its name."""
    weights = {"weights": weights_hash(policy.folder)}
    write_whole(partial / MERGED_FROM, json.dumps(weights, indent=2) + "\n")
    write_whole(partial / "README.md", model_card(policy, "merged"))
    (partial / ".lock").unlink(missing_ok=True)
    sync_tree(partial)
    partial.rename(merged)


def _sampled_texts(run: Path, tokenizer) -> list[list[int]]:
    """Token ids of prompts of a run, each with the first completion that it sampled; of a plain
    question where its files of completions are gone."""
    texts = []
    for group in some_groups(run):
        ids = prompt.prompt_ids(tokenizer, group[0]["prompt"])
        content = group[0]["completion"][0]["content"] or ""
        texts.append(ids + tokenizer(content, add_special_tokens=False)["input_ids"])
    return texts or [prompt.question_ids(tokenizer, "What is 12 + 34?", None)]
