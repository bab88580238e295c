"""A step of GRPO as it is against one that reads everything that trl reads, in alternating pairs,
after `make sft`:

    python -m tests.bench.step recipes/smollm2-svamp.yaml [section.key=value …] --pairs 3

Both sample the same completions. Processor seconds are what a busy machine changes least; the
gradients differ by what rounding makes of them.
"""

import argparse
import statistics
import time
from contextlib import ExitStack
from unittest.mock import patch

import torch
from trl import GRPOTrainer
from trl.trainer.utils import shuffle_sequence_dict, split_tensor_dict

from machine.launch import recipe_arguments
from schema import configs
from schema.recipe import load_recipe
from training import sampling
from training.model import load_tokenizer
from training.problem_sets import load_train
from training.trainer import grpo_trainer

SIDES = ("all", "ours")


def step(trainer: GRPOTrainer, rows: list[dict], side: str) -> tuple[float, float, torch.Tensor]:
    """(processor seconds of sampling, of the loss, the gradient) of one batch."""
    kind, parts = (
        (type(trainer) if side == "ours" else GRPOTrainer),
        trainer.args.gradient_accumulation_steps,
    )
    trainer.model.train().zero_grad()
    with ExitStack() as stack:
        if side == "all":
            stack.enter_context(patch.object(sampling, "_prompts_read", lambda *_, **__: {}))
        torch.manual_seed(0)
        began = time.process_time()
        batch = trainer._generate_and_score_completions(rows)
        sampled = time.process_time() - began
    began = time.process_time()
    for micro in split_tensor_dict(shuffle_sequence_dict(batch), parts):
        kind._compute_loss(trainer, trainer.model, micro).backward()
    learned = time.process_time() - began
    print(
        f"{side}: {(batch['advantages'] != 0).float().mean():.0%} of the completions have an"
        " advantage"
    )
    gradient = torch.cat(
        [each.grad.flatten() for each in trainer.model.parameters() if each.grad is not None]
    )
    return sampled, learned, gradient


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.bench.step", description=__doc__)
    recipe_arguments(parser)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    recipe = load_recipe(options.recipe, options.overrides, check=())
    tokenizer, args = load_tokenizer(recipe), configs.training_config(recipe, "grpo")
    trainer = grpo_trainer(
        recipe, args, tokenizer, load_train(recipe)[0], [], recipe.stage_dir("sft")
    )
    trainer.current_gradient_accumulation_steps = args.gradient_accumulation_steps
    rows = next(iter(trainer.get_train_dataloader()))
    found = []
    for number in range(options.pairs):
        both = {side: step(trainer, rows, side) for side in (SIDES if number % 2 else SIDES[::-1])}
        (sampled, learned, gradient), ours = both["all"], both["ours"]
        found.append(
            (ours[0] / sampled, ours[1] / learned, (ours[0] + ours[1]) / (sampled + learned))
        )
        away = (ours[2] - gradient).norm() / gradient.norm()
        times = f"sampling {sampled:.1f} → {ours[0]:.1f} s, loss {learned:.1f} → {ours[1]:.1f} s"
        print(
            f"pair {number + 1}: {times}; the gradients differ by {away:.1e} of their norm",
            flush=True,
        )
    sampled, loss, whole = (statistics.median(each) for each in zip(*found, strict=True))
    print(
        f"ours / all, medians of {options.pairs}: sampling {sampled:.2f}, loss {loss:.2f}, both"
        f" {whole:.2f}"
    )


if __name__ == "__main__":
    main()
