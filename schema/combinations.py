"""Settings of a training section that are each allowed and yet do not go together: a batch and its groups, a checkpoint
and its cycle, the terms of a loss, the steps of a schedule."""

import os
from collections.abc import Callable, Iterator
from math import gcd

from schema import library_fields
from schema.configs import even_batch
from schema.sections import Data, Evaluate
from schema.values import BY_TRANSFORMERS, BY_VLLM, SCHEDULES

# Keys below the section, and what is wrong there; schema/draft.py makes a fault of each, with its place.
Complaints = Iterator[tuple[tuple, str]]


def schedule(name: str) -> Callable[[dict, dict], Complaints]:
    """The faults of a training section: its own, and those of the schedule of its learning rate."""

    def check(section: dict, recipe: dict) -> Complaints:
        if name == "grpo":
            yield from grpo(section, recipe)
        values = library_fields.defaults(name) | section
        kind, given = values["lr_scheduler_type"], values["lr_scheduler_kwargs"]
        known = SCHEDULES.get(kind, {}) if isinstance(kind, str) else {}
        keys, place = set(given) if isinstance(given, dict) else set(), ("lr_scheduler_kwargs",)
        if keys - set(known):
            told = f"only {', '.join(known)}" if known else "nothing"
            yield (
                place,
                f"{name}.lr_scheduler_kwargs: {kind} is told {told} beside, not {', '.join(sorted(keys - set(known)))}",
            )
        if "min_lr_rate" in known and len(keys & {"min_lr", "min_lr_rate"}) != 1:
            yield place, f"{name}.lr_scheduler_kwargs: {kind} needs min_lr or min_lr_rate, and not both"
        if "num_decay_steps" in known and "num_decay_steps" not in keys:
            yield place, f"{name}.lr_scheduler_kwargs: {kind} needs num_decay_steps"
        least, rate = given.get("min_lr") if isinstance(given, dict) else None, values["learning_rate"]
        if isinstance(least, int | float) and isinstance(rate, int | float) and least > rate:
            yield (
                place,
                f"{name}.lr_scheduler_kwargs: min_lr {least:g} is above learning_rate {rate:g}; min_lr_rate is a share",
            )
        steps, warmup = values["max_steps"], values["warmup_steps"]
        if kind == "warmup_stable_decay" and isinstance(steps, int) and steps > 0 and isinstance(warmup, int):
            known_steps = (
                [given.get(key) for key in ("num_decay_steps", "num_stable_steps")] if isinstance(given, dict) else []
            )
            total = warmup + sum(each for each in known_steps if isinstance(each, int))
            if total > steps or (None not in known_steps and known_steps and total != steps):
                yield (
                    place,
                    f"{name}.lr_scheduler_kwargs: warm-up, stable rate and decay have {total} steps, of {steps}",
                )
        if isinstance(steps, int) and isinstance(warmup, int) and 0 < steps <= warmup:
            yield ("warmup_steps",), f"{name}.warmup_steps: {warmup} of {steps} steps would all be warm-up"

    return check


def grpo(section: dict, recipe: dict) -> Complaints:
    processes = int(os.environ.get("WORLD_SIZE", 1))
    values = library_fields.defaults("grpo") | section
    per_device, accumulation = values["per_device_train_batch_size"], values["gradient_accumulation_steps"]
    group, steps = values["num_generations"], values["steps_per_generation"] or accumulation
    counts = (per_device, accumulation, group, steps, values["num_iterations"])
    if not all(isinstance(n, int) and n > 0 for n in counts):  # told by their own rules
        return
    if isinstance(values["generation_batch_size"], int) and not values["steps_per_generation"]:
        steps = max(1, values["generation_batch_size"] // (processes * per_device))
    if section.get("use_vllm") and (recipe.get("model") or {}).get("revision"):
        yield (
            ("use_vllm",),
            "grpo.use_vllm: trl has vLLM load the newest revision of the model, not model.revision; download that one "
            "(`hf download … --revision … --local-dir folder`) and name the folder",
        )
    if section.get("eval_steps") and "correct_answer" not in (recipe.get("rewards") or {}):
        yield (
            ("eval_steps",),
            "grpo.eval_steps: held-out accuracy is the mean of the reward `correct_answer`, which this recipe lacks; "
            "add it, with weight 0 if it is not to be paid",
        )
    choosing = (recipe.get("evaluate") or {}).get("checkpoint_problems", Evaluate.checkpoint_problems)
    if not isinstance(choosing, int) or choosing < 1:
        return
    if section.get("eval_steps") and not even_batch(choosing, 1):
        yield (
            ("eval_steps",),
            f"evaluate.checkpoint_problems: {choosing} cannot be shared evenly among {processes} processes; take a "
            "multiple",
        )
    validation = (recipe.get("data") or {}).get("validation", Data.validation)
    if section.get("eval_steps") and isinstance(validation, int) and validation <= choosing:
        yield (
            ("eval_steps",),
            f"grpo.eval_steps: evaluate.checkpoint_problems = {choosing} choose the checkpoint, and none of the "
            f"data.validation = {validation} is left to compare the stages on; hold out more",
        )
    batch = values["generation_batch_size"] or processes * per_device * steps
    if batch % group:
        fitting = [n for n in range(2, batch + 1) if batch % n == 0]
        yield (
            ("num_generations",),
            f"grpo: a generation batch of {batch} completions ({processes} process{'es' * (processes > 1)} × "
            f"{per_device} per_device_train_batch_size × {steps} steps) does not hold whole groups of "
            f"num_generations = {group}; with this batch a group can have {', '.join(map(str, fitting))}",
        )
    cycle = steps * values["num_iterations"]
    save_steps = section.get("save_steps", section.get("eval_steps"))
    if values["save_strategy"] == "steps" and isinstance(save_steps, int) and (save_steps * accumulation) % cycle:
        yield (
            ("save_steps",) if "save_steps" in section else ("eval_steps",),
            f"grpo.save_steps: a checkpoint after {save_steps} steps falls inside a generation cycle of {cycle} "
            f"micro-steps, and a run resumed from there would not be the same run; take a multiple of "
            f"{cycle // gcd(cycle, accumulation)}",
        )

    yield from _losses(values)


def _losses(values: dict) -> Complaints:
    """What trl's losses ask of each other's settings, and its sampler of the batch."""
    high = values["epsilon_high"] if values["epsilon_high"] is not None else values["epsilon"]
    if values["loss_type"] == "cispo" and (values["epsilon_high"] or 0) < 1:
        message = "grpo.epsilon_high: cispo cuts each token's weight there; set it, to 1 or more (5 is MiniMax's)"
        yield ("epsilon_high",), message
    if isinstance(values["delta"], int | float) and isinstance(high, int | float) and values["delta"] <= 1 + high:
        yield ("delta",), f"grpo.delta: {values['delta']} must be above 1 + {high}, the upper clip, to have a meaning"
    least, most = values["entropy_coef_min"], values["entropy_coef_max"]
    if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
        yield ("entropy_coef_min",), f"grpo.entropy_coef_min: {least} is above entropy_coef_max, {most}"
    given = values["generation_kwargs"] or {}
    wrong = [key for key in given if key in (BY_TRANSFORMERS if values["use_vllm"] else BY_VLLM)]
    if wrong:
        engine, other = ("vLLM", "transformers") if values["use_vllm"] else ("transformers", "vLLM")
        message = f"grpo.generation_kwargs: {', '.join(wrong)} is a word of {other}, and {engine} samples here"
        yield ("generation_kwargs",), message
