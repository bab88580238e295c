"""One real training step of the largest size against the estimate of `make memory`, for each way to
train the model:

    python -m tests.bench.gpu_memory recipes/smollm2-arithmetic.yaml [section.key=value …] --arms
    LoRA QLoRA

On a GPU the peak is torch's own counter, and vLLM is left out; without one it is the process's
resident memory above what it had after a step of the tiny model, by which the libraries are loaded.
malloc is told to give freed memory back at once, or what it keeps would be measured too. Each arm
has a process of its own.
"""

import argparse
import dataclasses
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import psutil
import torch

from data import prompt
from machine.launch import to_machine
from schema.recipe import Recipe, load_recipe
from stages import memory as memory_table
from stages import probe_memory
from stages.cli import recipe_arguments
from training import memory
from training.model import load_tokenizer
from training.problem_sets import load_train

ARMS = ("full", "LoRA", "QLoRA")
GIVEN_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def peak(step: Callable[[], None]) -> int:
    """The most bytes that are there while `step` runs."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        step()
        return torch.cuda.max_memory_allocated()
    with tempfile.TemporaryDirectory() as folder:
        probe_memory.main(load_recipe("recipes/tiny-arithmetic.yaml", [f"output_dir={folder}"]))
    process, done = psutil.Process(), threading.Event()
    before = most = process.memory_info().rss

    def watch():
        nonlocal most
        while not done.is_set():
            most = max(most, process.memory_info().rss)
            time.sleep(0.002)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    step()
    done.set()
    watcher.join()
    return most - before


def measure(recipe: Recipe, arm: str) -> str:
    """One line of the table."""
    tokenizer = load_tokenizer(recipe)
    longest = probe_memory.longest_first(load_train(recipe)[0], tokenizer, recipe.prompt.system)[0]
    messages = prompt.messages(longest["problem"], recipe.prompt.system)
    tokens = len(prompt.prompt_ids(tokenizer, messages))
    recipe = dataclasses.replace(to_machine(recipe), grpo=recipe.grpo | {"use_vllm": False})
    recipe = memory_table.variants(recipe)[arm]
    estimated = memory.estimate(recipe, tokens).total
    measured = peak(lambda: probe_memory.main(recipe))
    figures = [f"{estimated / memory.GIB:.2f}", f"{measured / memory.GIB:.2f}"]
    return f"| {arm} | {' | '.join(figures)} | {estimated / measured:.2f} |"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    recipe_arguments(parser)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    options = parser.parse_intermixed_args()
    if len(options.arms) == 1:
        print(measure(load_recipe(options.recipe, options.overrides), options.arms[0]))
        return
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(f"| {device}, GiB | estimated | measured | estimated ÷ measured |")
    print("| --- | ---: | ---: | ---: |")
    module = [sys.executable, "-m", "tests.bench.gpu_memory"]
    for arm in options.arms:
        command = [*module, options.recipe, *options.overrides, "--arms", arm]
        pipes = {"capture_output": True, "text": True, "check": False}
        done = subprocess.run(command, env=os.environ | GIVEN_BACK, **pipes)
        failed = f"| {arm} | failed: {' '.join(done.stderr.split())[-300:]} |"
        print(done.stdout.splitlines()[-1] if done.returncode == 0 else failed, flush=True)


if __name__ == "__main__":
    main()
