"""The libraries' own configs, made of a recipe's settings, and what the libraries refuse."""

import os
from functools import cache
from importlib import import_module

from console.faults import REFUSALS, Fault, RecipeError
from schema.configs import SECTIONS
from schema.settings import Recipe
from schema.stages import STAGES


@cache
def section_class(section: str) -> type:
    module, _, name = SECTIONS[section].rpartition(".")
    return getattr(import_module(module), name)


def training_config(recipe: Recipe, section: str):
    """The config of a stage's trainer, for a recipe that knows its machine.

    Raises:
        RecipeError: the process was launched to shard the model, which this machine would not do,
            or would do in float16.
    """
    arguments = recipe.settings.arguments(section)
    launched_in = os.environ.get("ACCELERATE_MIXED_PRECISION")
    if launched_in == "bf16" and not recipe.machine.has_bfloat16:
        os.environ["ACCELERATE_MIXED_PRECISION"] = "no"  # or it would contradict our `bf16`
    fsdp = os.environ.get("ACCELERATE_USE_FSDP") == "true"
    deepspeed = os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"
    if arguments["fp16"] and (fsdp or deepspeed):
        message = "float16 is not sharded here: take ACCELERATE=ddp"
        raise RecipeError([Fault(recipe.place("model", "dtype"), message)])
    config = section_class(section)(**arguments)
    if fsdp and config.distributed_state.distributed_type == "MULTI_CPU":
        message = "accelerate has FSDP for GPUs alone, and would silently train with DDP"
        raise RecipeError([f"{message}: ACCELERATE=cpu2"])
    return config


def adapter_config(recipe: Recipe):
    """`LoraConfig` of a recipe, or None if all weights are trained."""
    if recipe.adapter is None:
        return None
    return section_class("adapter")(**recipe.settings.arguments("adapter"))


def quantization_config(recipe: Recipe):
    """`BitsAndBytesConfig` of a recipe, or None."""
    if not recipe.quantization:
        return None
    return section_class("quantization")(**recipe.settings.arguments("quantization"))


def vllm_dtype(recipe: Recipe) -> str:
    """The data type in which vLLM computes, on a server and in an evaluation: bfloat16 for float32
    weights if training computes in it too (autocast), as vLLM does by itself in the trainer's
    process. Float32 would be several times slower.
    """
    autocast = recipe.settings["grpo"]["bf16"] and recipe.machine.has_bfloat16
    if autocast and recipe.model.dtype == "float32":
        return "bfloat16"
    return recipe.model.dtype


def complaint(recipe: Recipe, section: str) -> str | None:
    """The reason why the library's own config refuses the section, or None. The user reads it in a
    fault."""
    build = {"adapter": adapter_config, "quantization": quantization_config}
    try:
        if section in build:
            build[section](recipe)
        else:
            return _schedule_complaint(training_config(recipe, section))
    except (*REFUSALS, AttributeError) as error:
        return " ".join(str(error).split()) or type(error).__name__
    return None


def _schedule_complaint(config) -> str | None:
    """The reason why transformers refuses the schedule of the learning rate. Or else that the
    schedule never reaches the learning rate, because its phases do not fit into the steps, or that
    it rises above it."""
    import torch
    from transformers import get_scheduler

    key = "lr_scheduler_kwargs" if config.lr_scheduler_kwargs else "lr_scheduler_type"
    steps = config.max_steps if config.max_steps > 0 else 1000
    warmup = config.get_warmup_steps(steps)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=config.learning_rate)
    arguments = (config.lr_scheduler_type, optimizer, warmup, steps, config.lr_scheduler_kwargs)
    sampled_steps = {0, warmup, *range(0, steps, steps // 1000 + 1)}
    try:
        share = get_scheduler(*arguments).lr_lambdas[0]
        highest = max(share(step) for step in sampled_steps)
    except (TypeError, ValueError, ArithmeticError) as error:
        return f"{key}: {error}"
    if config.max_steps < 1 or 0.99 <= highest <= 1.01:
        return None
    rate = f"{highest * config.learning_rate:g}"
    return f"{key}: the rate reaches {rate}, not learning_rate, {config.learning_rate:g}"


def refused_values(recipe: Recipe, sections: tuple[str, ...]) -> list[Fault]:
    """The complaints of the libraries' own configs about these sections of a recipe without faults,
    each at the place of the first key that the complaint mentions."""
    faults = []
    for section in sections:
        values = getattr(recipe, section)
        if values is None:
            continue
        reason = complaint(recipe, section)
        if reason:
            words = reason.split()
            keys = [key for key in values if key in reason or str(values[key]) in words]
            faults.append(Fault(recipe.place(section, *keys[:1]), f"{section}: {reason}"))
    return faults


def require_values(recipe: Recipe, section: str, is_launched: bool):
    """Refuse to begin a stage with values that its library refuses, or with values that the library
    will refuse in another stage. The stage's own config is built last, since building a config
    changes the process.

    Args:
        is_launched: whether a launcher started the process. Then other stages' configs are not
            built: a DeepSpeed plugin keeps the values of the first config of the process.

    Raises:
        RecipeError: names the values.
    """
    sections = ["adapter", "quantization"]
    if not is_launched:
        sections += [stage for stage in STAGES if stage != section]
    faults = refused_values(recipe, (*sections, section))
    if faults:
        raise RecipeError(faults)
