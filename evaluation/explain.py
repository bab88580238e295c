"""What the loss says to each token of a completion that a run sampled, worked out from the run's
own weights.

A run keeps few checkpoints, so for the policy that sampled a step stands the newest that was kept
before it, and it is compared with the newest of all: their ratio says how far the run has moved
each token since.
"""

import gc
from pathlib import Path
from typing import Any, NamedTuple

import torch

from data import prompt
from data.json_files import read_object
from schema.configs import generation, setting
from schema.faults import Fault, RecipeError
from schema.recipe import Recipe
from schema.stages import finished
from training.checkpoints import altered, checkpoints_of, step_of
from training.model import load_for_answers
from training.scoring import spread

LOSSES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo")
# trl's settings that change a token's loss in a way that is not worked out here, with the value
# that switches each off.
PLAIN = {
    "delta": None,
    "top_entropy_quantile": 1.0,
    "off_policy_mask_threshold": None,
    "entropy_coef": 0.0,
}
PLAIN |= {"use_adaptive_entropy": False, "mask_truncated_completions": False}


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
    and `reference`.

    Raises:
        RecipeError: the run has saved nothing yet.
    """
    start = Policy("the warm start" if warm_start else "the base model", warm_start)
    if warm_start and not finished(warm_start):
        raise RecipeError([f"{warm_start} holds no finished warm start, from which this run began"])
    whole = [each for each in checkpoints_of(run) if not altered(each)]
    there = [Policy(f"the policy after step {each.name[11:]}", each) for each in whole]
    # The run's result may be an earlier policy: the best checkpoint.
    last = next(iter(there), Policy("the run's result", run) if finished(run) else None)
    if last is None:
        raise RecipeError(
            [f"{run} has saved no policy yet: wait for its first checkpoint (grpo.save_steps)"]
        )
    before = [each for each in there if step_of(each.folder) < step]
    return {"old": before[0] if before else start, "new": last, "reference": start}


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
    low, high = 1 - settings["epsilon"], 1 + settings["epsilon_high"]
    if (
        settings["loss_type"] == "cispo"
    ):  # the bounded ratio is a constant weight on the log-probability
        unclipped, clipped = (
            ratio * advantages * new,
            ratio.clamp(max=settings["epsilon_high"]) * advantages * new,
        )
        least, stopped = clipped, torch.zeros_like(ratio, dtype=torch.bool)
    else:
        unclipped, clipped = ratio * advantages, ratio.clamp(low, high) * advantages
        least = torch.minimum(unclipped, clipped)
        stopped = ((ratio < low) & (advantages < 0)) | ((ratio > high) & (advantages > 0))
    kl = (reference - new).exp() - (reference - new) - 1
    if settings["use_bias_correction_kl"]:
        kl = kl * ratio
    return Terms(ratio, unclipped, clipped, kl, settings["beta"] * kl - least, stopped)


def weight(tokens: int, batch: list[int], settings: dict[str, Any]) -> float | None:
    """What one token of a completion weighs in the loss of the optimizer step it is in, by
    `loss_type`; None for bnpo, which divides by the tokens of a micro-batch, and no file says which
    completions were in one.

    Args:
        tokens: of the completion. batch: of every completion that was sampled together.
    """
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
    """trl's settings that a token's loss depends on.

    Raises:
        RecipeError: one of them has a value whose loss is not worked out here.
    """
    keys = (
        "loss_type",
        "importance_sampling_level",
        "epsilon",
        "epsilon_high",
        "beta",
        "use_bias_correction_kl",
    )
    found = {
        key: setting(recipe, "grpo", key) for key in (*keys, "max_completion_length", "temperature")
    }
    # What is sampled together is trained on in so many optimizer steps, each with its share of the
    # completions.
    steps = generation(recipe.grpo).steps
    found["optimizer_steps"] = steps / setting(recipe, "grpo", "gradient_accumulation_steps")
    found["epsilon_high"] = (
        found["epsilon"] if found["epsilon_high"] is None else found["epsilon_high"]
    )
    if recipe.algorithm:
        message = (
            f"algorithm: {recipe.algorithm} has one loss for a completion, which is not worked out"
            " token by token"
        )
        raise RecipeError([Fault(recipe.place("algorithm"), message)])
    if recipe.tools:
        raise RecipeError(
            [Fault(recipe.place("tools"), "tools: their turns are not worked out token by token")]
        )
    plain = PLAIN | {"loss_type": found["loss_type"]}
    for key, off in plain.items():
        value = setting(recipe, "grpo", key)
        if value != off or (key == "loss_type" and value not in LOSSES):
            message = (
                f"grpo.{key}: {value} is not worked out token by token; of the losses,"
                f" {', '.join(LOSSES)} are"
            )
            raise RecipeError([Fault(recipe.place("grpo", key), message)])
    return found


def explained(
    recipe: Recipe,
    tokenizer,
    run: Path,
    warm_start: Path | None,
    step: int,
    group: dict[str, Any],
    row: int,
) -> dict[str, Any]:
    """A completion token by token, as JSON.

    Args:
        group: as `viewer` reads it from the run's files: `question`, `system`, `rows` of `text`,
            `advantage`, `tokens`, `truncated` and `steps`; `batch`: the tokens of each completion
            of its batch.
        row: the completion's place in `group["rows"]`.
    """
    settings, chosen = settings_of(recipe), group["rows"][row]
    system = group["system"] or None
    prompt_ids = list(prompt.question_ids(tokenizer, group["question"], system))
    ids = tokenizer(chosen["text"], add_special_tokens=False)["input_ids"]
    if not chosen["truncated"]:
        ids = [*ids, tokenizer.eos_token_id]
    notes = []
    if chosen["tokens"] != len(ids):
        notes.append(
            f"it was sampled as {chosen['tokens']} tokens; its text, read again, makes these"
            f" {len(ids)}"
        )
    if chosen["steps"] is None and any("steps" in options for options in recipe.rewards.values()):
        notes.append("the run did not write its steps, so their part in the advantages is left out")
    best = (read_object(run / "summary.json") or {}).get("best_checkpoint")
    if isinstance(best, str):  # a finished run, which chose one
        notes.append(f"the run ended with the weights of {Path(best).name}")
    used = policies(run, step, warm_start)
    known: dict[Path | None, tuple[torch.Tensor, torch.Tensor]] = {}
    for policy in used.values():
        if policy.folder not in known:
            known[policy.folder] = token_statistics(recipe, tokenizer, policy, prompt_ids, ids)
    new, entropy = known[used["new"].folder]
    old, reference = (known[used[which].folder][0] for which in ("old", "reference"))
    # The KL is worth seeing without a weight in the loss too.
    steps = chosen["steps"] or []
    of_steps = spread(
        [[each["share"] or 0.0 for each in steps]], [[each["end"] for each in steps]], len(ids)
    )[0]
    advantages = of_steps + (chosen["advantage"] or 0.0)
    found = terms(new, old, reference, advantages, settings)
    columns = {
        "advantages": advantages,
        "new": new,
        "old": old,
        "reference": reference,
        "entropy": entropy,
    }
    columns |= found._asdict()
    return {
        "step": step,
        "row": chosen["row"],
        "question": group["question"],
        "advantage": chosen["advantage"] or 0.0,  # of a run that wrote no number, as in its tokens
        "policies": {which: policy.name for which, policy in used.items()},
        "settings": settings,
        "weight": weight(len(ids), group["batch"], settings),
        "notes": notes,
        "tokens": [tokenizer.decode([each]) for each in ids],
        **{
            name: [round(each, 6) for each in map(float, values)]
            for name, values in columns.items()
        },
    }
