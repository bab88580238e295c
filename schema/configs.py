"""The sections of a recipe that belong to trl, peft and transformers: their fields, and the configs built from them.

A field is checked against the installed library's own class, so a new one works the day it is installed.
"""

import os
from functools import cache
from math import gcd
from typing import Any, NamedTuple

from schema import hardware, library_fields
from schema.faults import REFUSALS, Fault, RecipeError, nearest
from schema.rules import Number
from schema.values import RULES

SECTIONS = {
    "adapter": ("peft", "LoraConfig"),
    "quantization": ("transformers", "BitsAndBytesConfig"),
    "sft": ("trl", "SFTConfig"),
    "grpo": ("trl", "GRPOConfig"),
}

# trl's name for the share of held-out problems that are right.
ACCURACY = "eval_rewards/correct_answer/mean"

SAVE_STEPS = 50  # or the next multiple of a cycle, where the recipe does not say
EVALUATED = 2  # times as many sequences in a batch of the evaluation while training as in one of the training


@cache
def section_class(section: str) -> type:
    module, name = SECTIONS[section]
    return getattr(__import__(module), name)


def complaint(recipe, section: str) -> str | None:
    """What the library's own config says against the section, or None. Its message is for users: it becomes a fault."""
    build = {"adapter": adapter_config, "quantization": quantization_config}
    try:
        build[section](recipe) if section in build else training_config(recipe, section)
    except REFUSALS as error:
        return " ".join(str(error).split()) or type(error).__name__
    return None


def training_config(recipe, section: str):
    """`SFTConfig` or `GRPOConfig` of a recipe."""
    return section_class(section)(**training_arguments(recipe, section))


def training_arguments(recipe, section: str) -> dict[str, Any]:
    """What differs from the library's defaults: a few keys set here, then the recipe's own."""
    import torch

    has_gpu = torch.cuda.is_available()
    if os.environ.get("ACCELERATE_MIXED_PRECISION") == "bf16" and not hardware.has_arithmetic("bfloat16"):
        os.environ["ACCELERATE_MIXED_PRECISION"] = "no"  # else the launcher's would stand against our `bf16` below
    machine = {"use_cpu": not has_gpu, "bf16": has_gpu and hardware.has_arithmetic("bfloat16")}
    return machine | own_defaults(recipe, section) | with_floats(section, getattr(recipe, section))


def with_floats(section: str, given: dict[str, Any]) -> dict[str, Any]:
    """The values as their fields want them: some refuse a 2 where 2.0 is meant, once the weights are loaded."""
    rules = RULES[section]
    return {
        key: float(value)
        if isinstance(rules.get(key), Number) and not rules[key].whole and value is not None
        else value
        for key, value in given.items()
    }


def setting(recipe, section: str, key: str) -> Any:
    """What a field of a section is: the recipe's value, else ours, else the library's default. No library is
    imported for it: what a class works out from other fields is read off `training_config` instead."""
    return (library_fields.defaults(section) | own_defaults(recipe, section) | (getattr(recipe, section) or {}))[key]


def own_defaults(recipe, section: str) -> dict[str, Any]:
    """The fields that are set here, where the recipe does not, on any machine."""
    defaults = {
        "output_dir": str(recipe.stage_dir(section)),
        "seed": recipe.seed,
        "report_to": "none",
        "save_steps": SAVE_STEPS,
        "save_total_limit": 2,
        "logging_steps": 5 if section == "grpo" else 25,
        # A NaN must be seen in the log, not replaced by the mean of the steps before it.
        "logging_nan_inf_filter": False,
    }
    if section == "sft":
        # The mask of the completion is part of our tokenised rows.
        defaults["completion_only_loss"] = True
    if section == "grpo":
        whole = generation(recipe.grpo).whole
        defaults["save_steps"] = -(-SAVE_STEPS // whole) * whole
        defaults |= _validated_while_training(recipe.grpo, recipe.evaluate.checkpoint_problems)
        defaults["log_completions"] = True
        defaults["num_completions_to_print"] = 0  # they are in the run folder, as parquet
        defaults["reward_weights"] = list(recipe.weights.values())
        # trl's own default multiplies the ratios of all tokens of a completion and drops it where that is above 3: over
        # a thousand tokens the two engines' rounding alone gets there (trl issues 5815 and 7269).
        defaults["vllm_importance_sampling_mode"] = "token_truncate"
    return defaults


class Generation(NamedTuple):
    """What trl samples at once, and how long it trains on that.

    `completions`: on all processes together. `steps`: the micro-batches they make. `cycle`: the micro-steps until it
    samples again. `whole`: a checkpoint after a multiple of so many optimizer steps falls on the end of a cycle.
    """

    completions: int
    steps: int
    cycle: int
    whole: int


def generation(grpo: dict) -> Generation:
    """Of a `grpo` section, on as many processes as this one's launcher started."""
    values = library_fields.defaults("grpo") | grpo
    batch, accumulation = processes() * values["per_device_train_batch_size"], values["gradient_accumulation_steps"]
    completions, steps = values["generation_batch_size"], values["steps_per_generation"]
    if not steps:
        steps = max(1, completions // batch) if completions else accumulation
    cycle = steps * values["num_iterations"]
    return Generation(completions or batch * steps, steps, cycle, cycle // gcd(cycle, accumulation))


def processes() -> int:
    """How many processes the launcher started."""
    return int(os.environ.get("WORLD_SIZE", 1))


def even_batch(problems: int, at_most: int) -> int:
    """The largest batch that shares the problems evenly among all processes, or 0: trl takes the mean of the batches'
    means, which is the share of right answers only where all batches are full."""
    return next((size for size in range(at_most, 0, -1) if problems % (size * processes()) == 0), 0)


def _validated_while_training(grpo: dict, problems: int) -> dict[str, Any]:
    """What `grpo.eval_steps` asks of trl: one answer a held-out problem, a checkpoint with every evaluation, and the
    best of them kept and loaded at the end."""
    values = library_fields.defaults("grpo") | grpo
    if not values["eval_steps"]:
        return {}
    return {
        "eval_strategy": "steps",
        "num_generations_eval": 1,
        # vLLM is woken, given the weights and put to sleep for each batch. But trl passes a batch through the model
        # whole: twice as many sequences as a training step's, of which nothing is kept for a backward, take less.
        "per_device_eval_batch_size": even_batch(problems, EVALUATED * values["per_device_train_batch_size"]),
        "save_steps": values["eval_steps"],
        "load_best_model_at_end": True,
        "metric_for_best_model": ACCURACY,
        "greater_is_better": True,
    }


def adapter_config(recipe):
    """`LoraConfig` of a recipe, or None where all weights are trained."""
    if recipe.adapter is None:
        return None
    # Dropout would make the policy that is trained differ from the one that sampled.
    values = with_floats("adapter", recipe.adapter)
    return section_class("adapter")(**{"task_type": "CAUSAL_LM", "lora_dropout": 0.0} | values)


def require_modules(recipe, model):
    """Refuse an adapter that names modules which the model does not have: peft ignores them without a word, as long as
    it finds any.

    Raises:
        RecipeError: names the first, and the nearest that is there.
    """
    there = [name for name, _ in model.named_modules()]
    for key in ("target_modules", "exclude_modules", "modules_to_save", "rank_pattern", "alpha_pattern"):
        named = setting(recipe, "adapter", key)
        for each in [] if isinstance(named, str) else named or []:
            if not any(f".{name}".endswith(f".{each}") for name in there):
                ends = sorted({name.rpartition(".")[2] for name in there})
                message = f"adapter.{key}: the model has no module {each}{nearest(each, ends)}"
                raise RecipeError([Fault(recipe.place("adapter", key), message)])
    layers = setting(recipe, "adapter", "layers_to_transform")
    most = model.config.get_text_config().num_hidden_layers
    if layers is not None and max([layers] if isinstance(layers, int) else layers) >= most:
        message = f"adapter.layers_to_transform: {layers}, and the model's layers are 0 to {most - 1}"
        raise RecipeError([Fault(recipe.place("adapter", "layers_to_transform"), message)])


def quantization_config(recipe):
    """`BitsAndBytesConfig` of a recipe, or None."""
    values = with_floats("quantization", recipe.quantization or {})
    return section_class("quantization")(**values) if values else None
