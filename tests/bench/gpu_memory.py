"""One real training step of the largest size against the estimate of `make memory`, for each way to
train the model:

    python -m tests.bench.gpu_memory recipes/smollm2-arithmetic.yaml [section.key=value …] --arms
    LoRA QLoRA

On a GPU the peak is torch's own counter, and vLLM is left out; without one it is the process's
resident memory above what it had after a step of the tiny model, by which the libraries are loaded.
malloc is told to give freed memory back at once, or what it keeps would be measured too. Each arm
has a process of its own. `PPO` arms train a critic of the policy's size beside the policy, in one
backward pass, and keep a reference policy; trl has no PPO any more, so its step is written here,
and its logits are few at a time where trl's GRPO has a tile of them.
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
from peft import get_peft_model
from torch.utils.checkpoint import checkpoint

from data import prompt
from machine.launch import to_machine
from schema import configs
from schema.recipe import Recipe, load_recipe
from stages import memory as memory_table
from stages import probe_memory
from stages.cli import recipe_arguments
from training import memory
from training.model import load_model, load_tokenizer
from training.problem_sets import load_train

ARMS = ("full", "LoRA", "QLoRA", "PPO, full", "PPO, LoRA")
LOGITS = 256  # tokens whose logits the PPO step holds at once
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


def ppo_step(recipe: Recipe, prompt_tokens: int):
    """Two steps of a policy, its critic and a reference, on sequences of the largest size."""
    args = configs.training_config(recipe, "grpo")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = load_tokenizer(recipe)
    policy, critic = (load_model(recipe, tokenizer).to(device) for _ in range(2))
    reference = None
    if recipe.adapter is not None:
        policy, critic = (
            get_peft_model(each, configs.adapter_config(recipe)) for each in (policy, critic)
        )
    else:
        reference = load_model(recipe, tokenizer).to(device).eval().requires_grad_(False)
    value = torch.nn.Linear(critic.config.hidden_size, 1, device=device, dtype=critic.dtype)

    def full_model(model):
        return model.get_base_model() if recipe.adapter is not None else model

    def backbone(model):
        return full_model(model).base_model

    head = full_model(policy).get_output_embeddings()
    for model in (policy, critic):
        model.train()
        if args.gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
            model.enable_input_require_grads()
    trained = [
        p for model in (policy, critic, value) for p in model.parameters() if p.requires_grad
    ]
    optimizer = torch.optim.AdamW(trained)
    tokens = prompt_tokens + args.max_completion_length
    ids = torch.zeros(args.per_device_train_batch_size, tokens, dtype=torch.long, device=device)

    def log_probability(hidden, words):
        return torch.log_softmax(head(hidden).float(), -1).gather(-1, words[:, None])[:, 0]

    for _ in range(2):
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            if reference is not None:
                with torch.no_grad():
                    backbone(reference)(input_ids=ids, use_cache=False)
            hidden = backbone(policy)(input_ids=ids, use_cache=False).last_hidden_state.flatten(
                0, 1
            )
            chunks = zip(hidden.split(LOGITS), ids.flatten().split(LOGITS), strict=True)
            gained = sum(
                checkpoint(log_probability, *each, use_reentrant=False).sum() for each in chunks
            )
            values = value(backbone(critic)(input_ids=ids, use_cache=False).last_hidden_state)
            loss = -gained + values.float().square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def measure(recipe: Recipe, arm: str) -> str:
    """One line of the table."""
    tokenizer = load_tokenizer(recipe)
    longest = probe_memory.longest_first(load_train(recipe)[0], tokenizer, recipe.prompt.system)[0]
    tokens = len(
        prompt.prompt_ids(tokenizer, prompt.messages(longest["problem"], recipe.prompt.system))
    )
    recipe = dataclasses.replace(to_machine(recipe), grpo=recipe.grpo | {"use_vllm": False})
    recipe = memory_table.variants(recipe)[arm.removeprefix("PPO, ")]
    parts = memory.estimate(recipe, tokens)
    if arm.startswith("PPO"):
        words = memory.model_config(recipe).get_text_config().vocab_size
        parts = memory_table.with_critic(dataclasses.replace(parts, logits=LOGITS * words * 14))
        measured = peak(lambda: ppo_step(recipe, tokens))
    else:
        measured = peak(lambda: probe_memory.main(recipe))
    total = parts.total
    return (
        f"| {arm} | {total / memory.GIB:.2f} | {measured / memory.GIB:.2f} |"
        f" {total / measured:.2f} |"
    )


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
    print(
        f"| {device}, GiB | estimated | measured | estimated ÷ measured |\n| --- | ---: | ---: |"
        " ---: |"
    )
    for arm in options.arms:
        command = [
            sys.executable,
            "-m",
            "tests.bench.gpu_memory",
            options.recipe,
            *options.overrides,
            "--arms",
            arm,
        ]
        done = subprocess.run(
            command, env=os.environ | GIVEN_BACK, capture_output=True, text=True, check=False
        )
        failed = f"| {arm} | failed: {' '.join(done.stderr.split())[-300:]} |"
        print(done.stdout.splitlines()[-1] if done.returncode == 0 else failed, flush=True)


if __name__ == "__main__":
    main()
