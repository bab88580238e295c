"""Checks that a saved adapter, loaded as any user will load it, is the policy that was trained."""

from pathlib import Path

import torch
from trl import GRPOTrainer

from console.terminal import say
from data import prompt
from schema.recipe import Recipe
from training.model import load_model


def check_adapter(
    trainer: GRPOTrainer, recipe: Recipe, tokenizer, rows: list[dict], folder: Path
) -> float:
    """Check that the saved adapter, loaded as any user will load it, is the trained policy, and say
    whether it is. Every process loads it, because the processes wait for one another there.

    Returns:
        the largest difference between their log-probabilities of a token, in nats.
    """
    trainer.accelerator.wait_for_everyone()  # the first of them saved it
    system = recipe.prompt.system
    prompts = [prompt.question_ids(tokenizer, row["problem"], system) for row in rows[:4]]
    policy = trainer.accelerator.unwrap_model(trainer.model)
    autocast = None
    if trainer.args.bf16:
        autocast = torch.bfloat16
    elif trainer.args.fp16:
        autocast = torch.float16
    error = adapter_error(policy, load_model(recipe, tokenizer, folder), prompts, autocast)
    limit = 1e-4 if recipe.model.dtype == "float32" and autocast is None else 0.05
    if error <= limit:
        say(
            "grpo: the saved adapter on a clean base is the trained policy (log-probabilities"
            f" within {limit:g})"
        )
    else:
        say(
            "grpo: WARNING: the saved adapter on a clean base is NOT the trained policy:"
            f" log-probabilities differ by up to {error:.3g}. Evaluate before you trust it"
        )
    return error


@torch.inference_mode()
def log_probabilities(
    model: torch.nn.Module, prompts: list[list[int]], autocast: torch.dtype | None = None
) -> torch.Tensor:
    """Log-probabilities of the prompts' own tokens, all but each prompt's first: shape (sum of
    len(prompt) - 1,).

    Args:
        prompts: token ids.
        autocast: compute under autocast to it.
    """
    training = model.training
    model.eval()
    by_prompt = []
    for ids in prompts:
        batch = torch.tensor([ids], device=next(model.parameters()).device)
        with torch.autocast(batch.device.type, autocast, enabled=autocast is not None):
            logits = model(input_ids=batch).logits[0, :-1].float()
        by_prompt.append(torch.log_softmax(logits, -1).gather(-1, batch[0, 1:, None])[:, 0].cpu())
    model.train(training)
    return torch.cat(by_prompt)


def adapter_error(
    trained: torch.nn.Module,
    clean: torch.nn.Module,
    prompts: list[list[int]],
    autocast: torch.dtype | None = None,
) -> float:
    """The largest difference, in nats, between a token's log-probability under the trained policy
    and under its saved adapter on a clean base. `autocast`: to which the trainer has wrapped the
    policy."""
    clean = clean.to(next(trained.parameters()).device)
    of_policy = log_probabilities(trained, prompts, autocast)
    of_saved = log_probabilities(clean, prompts, autocast)
    return (of_policy - of_saved).abs().max().item()
