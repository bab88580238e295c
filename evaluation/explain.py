"""What the loss says to each token of a completion that a run sampled, worked out from the run's
own weights. A run keeps few checkpoints, so the newest that was kept before a step stands for the
policy that sampled it. Compared with the newest of all, it says how far the run has moved each
token since.
"""

import gc
from pathlib import Path
from typing import Any, NamedTuple

import torch

from console.faults import Fault, RecipeError
from data import prompt
from data.json_files import read_object
from schema.configs import generation, setting
from schema.recipe import Recipe
from schema.stages import finished
from training.checkpoints import altered, checkpoints_of, step_of
from training.model import load_for_answers
from training.step_rewards import spread

LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo")
# trl's settings that change a token's loss, with the values for which it is worked out here.
WORKED_OUT = {
    "delta": (None,),
    "top_entropy_quantile": (1.0,),
    "off_policy_mask_threshold": (None,),
    "entropy_coef": (0.0,),
    "use_adaptive_entropy": (False,),
    "mask_truncated_completions": (False,),
    "loss_type": LOSSES,
}


class Policy(NamedTuple):
    """`name`: how to speak of it. `folder`: of its weights, None for the recipe's base model."""

    name: str
    folder: Path | None


class Terms(NamedTuple):
    """What a token's loss is made of, each of shape (tokens,): DeepSeekMath, arXiv:2402.03300,
    equation 3.

    `ratio`: the policy's probability over the sampler's. `unclipped`, `clipped`: both branches of
    the min. `kl`: to the reference, by Schulman's estimator. `loss`: −min + β · kl. `stopped`:
    whether the clip leaves the token without a gradient.
    """

    ratio: torch.Tensor
    unclipped: torch.Tensor
    clipped: torch.Tensor
    kl: torch.Tensor
    loss: torch.Tensor
    stopped: torch.Tensor


def policies(run: Path, step: int, warm_start: Path | None) -> dict[str, Policy]:
    """The policies that a step is explained with: `old`, which sampled it or comes nearest, `new`
    and `reference`. Raises RecipeError where the run has saved nothing yet."""
    start = Policy("the warm start" if warm_start else "the base model", warm_start)
    if warm_start and not finished(warm_start):
        raise RecipeError([f"{warm_start} holds no finished warm start, from which this run began"])
    saved = []  # the newest first
    for folder in checkpoints_of(run):
        if not altered(folder):
            saved.append(Policy(f"the policy after step {step_of(folder)}", folder))
    if saved:
        # Not the run's result, which may be an earlier policy: the best checkpoint.
        newest = saved[0]
    elif finished(run):
        newest = Policy("the run's result", run)
    else:
        message = f"{run} has saved no policy yet: wait for its first checkpoint (grpo.save_steps)"
        raise RecipeError([message])
    sampler = start
    for policy in reversed(saved):
        if step_of(policy.folder) < step:
            sampler = policy
    return {"old": sampler, "new": newest, "reference": start}


@torch.no_grad()
def token_statistics(
    recipe: Recipe, tokenizer, policy: Policy, prompt_ids: list[int], completion_ids: list[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """(log-probability of each token of the completion, entropy of the distribution it was drawn
    from), in nats, each of shape (tokens,), at the run's temperature, as trl's loss takes them."""
    model = load_for_answers(recipe, tokenizer, policy.folder)
    ids = torch.tensor([prompt_ids + completion_ids], device=model.device)
    logits = model(input_ids=ids, use_cache=False).logits[0, len(prompt_ids) - 1 : -1].float()
    log_all = torch.log_softmax(logits / setting(recipe, "grpo", "temperature"), dim=-1)
    chosen = log_all.gather(1, ids[0, len(prompt_ids) :, None])[:, 0]
    entropy = -(log_all.exp() * log_all).sum(-1)
    del model, logits
    gc.collect()
    return chosen.cpu(), entropy.cpu()


def terms(
    new: torch.Tensor,
    old: torch.Tensor,
    reference: torch.Tensor,
    advantages: torch.Tensor,
    settings: dict[str, Any],
) -> Terms:
    """What the loss of one completion is made of, from log-probabilities and advantages of shape
    (tokens,); `settings` as from `settings_of`."""
    log_ratio = new - old
    if settings["importance_sampling_level"] == "sequence":
        log_ratio = log_ratio.mean().expand_as(log_ratio)
    ratio = log_ratio.exp()
    if settings["loss_type"] == "cispo":
        # The bounded ratio is a constant weight on the log-probability.
        unclipped = ratio * advantages * new
        clipped = ratio.clamp(max=settings["epsilon_high"]) * advantages * new
        objective = clipped
        stopped = torch.zeros_like(ratio, dtype=torch.bool)
    else:
        low = 1 - settings["epsilon"]
        high = 1 + settings["epsilon_high"]
        unclipped = ratio * advantages
        clipped = ratio.clamp(low, high) * advantages
        objective = torch.minimum(unclipped, clipped)
        stopped = ((ratio < low) & (advantages < 0)) | ((ratio > high) & (advantages > 0))
    kl = (reference - new).exp() - (reference - new) - 1
    if settings["use_bias_correction_kl"]:
        kl = kl * ratio
    return Terms(ratio, unclipped, clipped, kl, settings["beta"] * kl - objective, stopped)


def weight(tokens: int, batch: list[int], settings: dict[str, Any]) -> float | None:
    """What one token of a completion weighs in the loss of its optimizer step, by `loss_type`; None
    for bnpo, which divides by the tokens of a micro-batch, and no file says which completions were
    in one. `batch`: the tokens of every completion that was sampled together."""
    if settings["loss_type"] == "bnpo":
        return None
    if settings["loss_type"] == "grpo":
        divisor = len(batch) * max(1, tokens)
    elif settings["loss_type"] == "dr_grpo":
        divisor = len(batch) * settings["max_completion_length"]
    else:
        divisor = max(1, sum(batch))
    return settings["optimizer_steps"] / divisor


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """trl's settings that a token's loss depends on. Raises RecipeError where one of them has a
    value whose loss is not worked out here."""
    keys = ("loss_type", "importance_sampling_level", "epsilon", "epsilon_high", "beta")
    keys += ("use_bias_correction_kl", "max_completion_length", "temperature")
    settings = {key: setting(recipe, "grpo", key) for key in keys}
    # What is sampled together is trained on in so many optimizer steps, each with its share of the
    # completions.
    steps = generation(recipe.grpo).steps
    settings["optimizer_steps"] = steps / setting(recipe, "grpo", "gradient_accumulation_steps")
    if settings["epsilon_high"] is None:
        settings["epsilon_high"] = settings["epsilon"]
    if recipe.algorithm:
        message = (
            f"algorithm: {recipe.algorithm} has one loss for a completion, which is not worked out"
            " token by token"
        )
        raise RecipeError([Fault(recipe.place("algorithm"), message)])
    if recipe.tools:
        message = "tools: their turns are not worked out token by token"
        raise RecipeError([Fault(recipe.place("tools"), message)])
    for key, values in WORKED_OUT.items():
        if setting(recipe, "grpo", key) not in values:
            message = (
                f"grpo.{key}: {setting(recipe, 'grpo', key)} is not worked out token by token; of"
                f" the losses, {', '.join(LOSSES)} are"
            )
            raise RecipeError([Fault(recipe.place("grpo", key), message)])
    return settings


def explained(
    recipe: Recipe,
    tokenizer,
    run: Path,
    warm_start: Path | None,
    step: int,
    group: dict[str, Any],
    row: int,
) -> dict[str, Any]:
    """A completion token by token, as JSON. `group`: as `viewer.groups.group_of_row` reads it from
    the run's files. `row`: the completion's place in `group["rows"]`."""
    settings = settings_of(recipe)
    completion = group["rows"][row]
    prompt_ids = list(prompt.prompt_ids(tokenizer, group["prompt"]))
    ids = tokenizer(completion["text"], add_special_tokens=False)["input_ids"]
    if not completion["truncated"]:
        ids = [*ids, tokenizer.eos_token_id]
    compared = policies(run, step, warm_start)
    columns = {"advantages": _token_advantages(completion, len(ids))}
    columns |= _log_probabilities(recipe, tokenizer, compared, prompt_ids, ids)
    # The KL is worth seeing without a weight in the loss too.
    columns |= terms(
        columns["new"], columns["old"], columns["reference"], columns["advantages"], settings
    )._asdict()
    explanation = {
        "step": step,
        "row": completion["row"],
        "question": group["question"],
        # 0 where the run wrote no number, as in its tokens
        "advantage": completion["advantage"] or 0.0,
        "policies": {role: policy.name for role, policy in compared.items()},
        "settings": settings,
        "weight": weight(len(ids), group["batch"], settings),
        "notes": _notes(recipe, run, completion, len(ids)),
        "tokens": [tokenizer.decode([token]) for token in ids],
    }
    for name, values in columns.items():
        explanation[name] = [round(float(value), 6) for value in values]
    return explanation


def _log_probabilities(
    recipe: Recipe,
    tokenizer,
    compared: dict[str, Policy],
    prompt_ids: list[int],
    ids: list[int],
) -> dict[str, torch.Tensor]:
    """The log-probability of each token by the policy of each role, and the entropy of the new
    policy. A model with two roles is loaded once."""
    statistics: dict[Path | None, tuple[torch.Tensor, torch.Tensor]] = {}
    for policy in compared.values():
        if policy.folder not in statistics:
            statistics[policy.folder] = token_statistics(recipe, tokenizer, policy, prompt_ids, ids)
    columns = {role: statistics[compared[role].folder][0] for role in ("new", "old", "reference")}
    columns["entropy"] = statistics[compared["new"].folder][1]
    return columns


def _token_advantages(completion: dict[str, Any], tokens: int) -> torch.Tensor:
    """The advantage of each token, shape (tokens,): the completion's, and its steps' shares."""
    shares = []
    ends = []
    for step in completion["steps"] or []:
        shares.append(step["share"] or 0.0)
        ends.append(step["end"])
    return spread([shares], [ends], tokens)[0] + (completion["advantage"] or 0.0)


def _notes(recipe: Recipe, run: Path, completion: dict[str, Any], tokens: int) -> list[str]:
    """What a reader should know about how the explanation was worked out."""
    notes = []
    if completion["tokens"] != tokens:
        notes.append(
            f"it was sampled as {completion['tokens']} tokens; its text, read again, makes these"
            f" {tokens}"
        )
    scores_steps = any("steps" in options for options in recipe.rewards.values())
    if completion["steps"] is None and scores_steps:
        notes.append("the run did not write its steps, so their part in the advantages is left out")
    best = (read_object(run / "summary.json") or {}).get("best_checkpoint")
    if isinstance(best, str):  # a finished run, which chose one
        notes.append(f"the run ended with the weights of {Path(best).name}")
    return notes
