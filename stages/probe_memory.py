"""Tries a recipe's largest step: the longest prompts of the data, with every completion as long as
it may be.

A run that is out of memory at step 120 met a long sample there. This stage meets it in the first
minute, and changes nothing in the run's folder. It starts from the base model with a new adapter,
because memory use does not depend on the weights' values.
"""

import dataclasses
import tempfile
import threading
import time

import torch

from console.faults import OUT_OF_MEMORY, RunStopped
from console.terminal import make_command, say
from data import prompt
from machine.launch import is_launched
from schema.settings import Recipe, require_values, training_config
from stages.cli import begin
from training import memory
from training.model import load_tokenizer
from training.problem_sets import load_train
from training.train import out_of_memory
from training.trainer import grpo_trainer


def main(recipe: Recipe):
    """Try a recipe's largest step, for real, and say how much memory it took."""
    recipe = begin("probe", recipe, ("grpo", "probe-memory"))
    began = time.monotonic()
    require_values(recipe, "grpo", is_launched())
    free, ended = [], threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        longest = worst_step(recipe, folder)
        args = training_config(longest, "grpo")
        tokenizer = load_tokenizer(recipe)
        rows = longest_first(load_train(recipe)[0], tokenizer, recipe.prompt.system)
        problems = rows[: max(1, args.generation_batch_size // args.num_generations)]
        threading.Thread(target=_watch, args=(free, ended), daemon=True).start()
        try:
            trainer = grpo_trainer(longest, args, tokenizer, problems, [], None)
            trainer.train()
        except torch.OutOfMemoryError as error:
            raise RunStopped(out_of_memory(recipe), OUT_OF_MEMORY) from error
        finally:
            ended.set()
    say(f"two of the largest steps took {time.monotonic() - began:.0f} s, loading included")
    if torch.cuda.is_available():
        _, gpu = torch.cuda.mem_get_info()
        peak = gpu - min(free)
        say(f"peak memory: {peak / memory.GIB:.1f} of {gpu / memory.GIB:.1f} GiB")
    say(f"next: {make_command('grpo', recipe)}")


def _watch(free: list[int], ended: threading.Event):
    """Note twenty times a second how much of the GPU is free. torch's own peak counts what vLLM
    has unmapped while it sleeps."""
    while torch.cuda.is_available() and not ended.wait(0.05):
        free.append(torch.cuda.mem_get_info()[0])


def worst_step(recipe: Recipe, folder: str) -> Recipe:
    """The recipe, changed to take two steps of completions that all reach their limit, in another
    folder."""
    grpo = recipe.settings["grpo"]
    minimum = "min_tokens" if grpo["use_vllm"] else "min_new_tokens"
    options = (grpo["generation_kwargs"] or {}) | {minimum: grpo["max_completion_length"]}
    changed = {
        "max_steps": 2,  # the optimizer's states are there from the second step on
        "save_strategy": "no",
        "eval_steps": None,
        "generation_kwargs": options,
    }
    return dataclasses.replace(recipe, grpo=recipe.grpo | changed, output_dir=folder)


def longest_first(rows: list[dict], tokenizer, system: str | None) -> list[dict]:
    """The rows, sorted by the length of their prompts, the longest first."""

    def prompt_length(row: dict) -> int:
        return len(prompt.question_ids(tokenizer, row, system))

    return sorted(rows, key=prompt_length, reverse=True)
