"""From the sections of a recipe that belong to trl, peft and transformers to the libraries' own
configs: the values that the recipe sets, our own defaults, and what the libraries refuse."""

import json
import math
import os
from dataclasses import MISSING
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from console.faults import REFUSALS, Fault, RecipeError
from machine import hardware
from schema import stages
from schema.sections import Recipe
from schema.value_types import CoreSchema, is_fraction, type_fault
from schema.values import BY_FIELD, MAY_BE_NOTHING, TYPES

# The config classes of the libraries' sections.
SECTIONS = {
    "adapter": "peft.tuners.lora.config.LoraConfig",
    "quantization": "transformers.utils.quantization_config.BitsAndBytesConfig",
}
SECTIONS |= {name: stage.config for name, stage in stages.STAGES.items()}

# Keys of the lines that a run logs. trl's name for the share of held-out problems that are right:
ACCURACY = "eval_rewards/correct_answer/mean"
# Beside it a "1" or a "0" for each problem, in the order of the problems' texts:
RIGHT = "eval_right"
# The share of groups whose completions all earn the same:
WITHOUT_SIGNAL = "groups_without_signal"

SAVE_STEPS = 50  # our default, or the next multiple of a generation cycle
# The address of GRPO's server is no part of a run: its next start may find the server elsewhere.
SERVER_KEYS = ("vllm_server_host", "vllm_server_port", "vllm_server_timeout", "vllm_group_port")
# The keys of a stage that change nothing that it learns, so that a run goes on with other values:
# what is saved, logged or sent; waits; and the memory that it takes.
FREE_KEYS = (*SERVER_KEYS, "save_steps", "save_total_limit", "save_strategy", "logging_steps")
FREE_KEYS += ("logging_first_step", "logging_strategy", "log_level", "report_to", "project")
FREE_KEYS += ("run_name", "disable_tqdm", "skip_memory_metrics", "ddp_timeout")
FREE_KEYS += ("gradient_checkpointing", "per_device_eval_batch_size", "torch_empty_cache_steps")
FREE_KEYS += ("vllm_gpu_memory_utilization", "log_completions")
# How the completions, or the examples, of a step are split.
SPLIT = ("per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation")
# The schedules whose rate after a step does not depend on how many are to follow.
STEADY = ("constant", "constant_with_warmup", "inverse_sqrt")
# Held-out problems in a batch, for each completion of a training batch, if transformers answers.
EVALUATED = 2


# Every field of these classes, as `make lock` wrote it: importing a class takes seconds, and a
# misspelt key should be reported at once.
LIBRARY_FIELDS = Path(__file__).parent / "library_fields.json"
UNKNOWN = object()  # stands for a default that a function of the class makes


class Field(NamedTuple):
    """A field of a config class.

    Attributes:
        type: its declared type.
        default: its value where a recipe does not set it.
    """

    type: str
    default: Any = UNKNOWN


@cache
def fields(section: str) -> dict[str, Field]:
    """Every field that the class of a section has, by its name."""
    sections = json.loads(LIBRARY_FIELDS.read_text(encoding="utf-8"))
    return {name: Field(**field) for name, field in sections[section].items()}


def defaults(section: str) -> dict[str, Any]:
    """The default of every field that has one, by the field's name."""
    values = {}
    for key, field in fields(section).items():
        if field.default is not UNKNOWN:
            values[key] = field.default
    return values


def type_of(section: str, key: str, type: str) -> CoreSchema | None:
    """The type of the value of a key: from the table TYPES, or else by the type of its field. None
    for a type that may name a file, an address or code: no recipe may set such a field."""
    if key in TYPES[section]:
        return TYPES[section][key]
    for name in type.split(" | "):
        if name in BY_FIELD:
            return BY_FIELD[name]
    return None


def refusal(section: str, key: str, value: Any, type: str, default: Any) -> str | None:
    """The reason why a key that a recipe may set cannot have this value, or None. `type`,
    `default`: see `Field`."""
    if value is None and (default is None or key in MAY_BE_NOTHING):
        return None
    if value is None and default is not MISSING:
        return "has no value: give one, or leave the key out"
    return type_fault(type_of(section, key, type), value)


@cache
def section_class(section: str) -> type:
    module, _, name = SECTIONS[section].rpartition(".")
    return getattr(import_module(module), name)


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


def training_config(recipe: Recipe, section: str):
    """The config of a stage's trainer.

    Raises:
        RecipeError: the process was launched to shard the model, which this machine would not do,
            or would do in float16.
    """
    arguments = training_arguments(recipe, section)
    fsdp = os.environ.get("ACCELERATE_USE_FSDP") == "true"
    deepspeed = os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"
    if arguments.get("fp16") and (fsdp or deepspeed):
        message = "float16 is not sharded here: take ACCELERATE=ddp"
        raise RecipeError([Fault(recipe.place("model", "dtype"), message)])
    config = section_class(section)(**arguments)
    if fsdp and config.distributed_state.distributed_type == "MULTI_CPU":
        message = "accelerate has FSDP for GPUs alone, and would silently train with DDP"
        raise RecipeError([f"{message}: ACCELERATE=cpu2"])
    return config


def training_arguments(recipe: Recipe, section: str) -> dict[str, Any]:
    """The arguments that this machine, we or the recipe set: no defaults of the library's."""
    launched_in = os.environ.get("ACCELERATE_MIXED_PRECISION")
    if launched_in == "bf16" and not hardware.has_arithmetic("bfloat16"):
        os.environ["ACCELERATE_MIXED_PRECISION"] = "no"  # or it would contradict our `bf16`
    return precision(recipe.model.dtype) | chosen(recipe, section)


def precision(dtype: str | None) -> dict[str, bool]:
    """Our defaults that depend on this machine, for a model of this data type."""
    has_gpu = hardware.has_gpu()
    is_float16 = has_gpu and dtype == "float16"
    is_bfloat16 = has_gpu and not is_float16 and hardware.has_arithmetic("bfloat16")
    # For float16 accelerate scales the loss.
    return {"use_cpu": not has_gpu, "bf16": is_bfloat16, "fp16": is_float16}


def chosen(recipe: Recipe, section: str) -> dict[str, Any]:
    """The values of a section that we set, replaced by those that the recipe sets."""
    values = getattr(recipe, section) or {}
    values = shared(section, values) or values
    return own_defaults(recipe, section) | with_floats(section, values)


def shared(section: str, values: dict[str, Any], count: int | None = None) -> dict | None:
    """The values of a section as one of `count` processes, or of those of this launch, needs them.

    A recipe says what all of them train on in a step, and the libraries, what one does. Each has
    fewer micro-batches or, if these do not go round, smaller ones. None if neither goes round.
    """
    count = count or processes()
    if count == 1 or section not in stages.STAGES:
        return values
    merged = defaults(section) | values
    size, accumulation, generated = map(merged.get, SPLIT)
    divisor = math.gcd(count, accumulation, generated or accumulation)
    if size * divisor % count:
        return None
    split = (size * divisor // count, accumulation // divisor, (generated or 0) // divisor)
    return values | {key: number for key, number in zip(SPLIT, split, strict=True) if number}


def with_floats(section: str, values: dict[str, Any]) -> dict[str, Any]:
    """The values with a float for every number that may be a fraction: once the weights are loaded,
    some libraries refuse a 2 where 2.0 is meant."""
    converted = dict(values)
    for key, value in values.items():
        kind = type_of(section, key, fields(section)[key].type)
        if is_fraction(kind) and value is not None:
            converted[key] = float(value)
    return converted


def setting(recipe: Recipe, section: str, key: str) -> Any:
    """The value of a section's field in its config: the recipe's value, or else ours, or else the
    library's default. This imports no library. A value that depends on the machine, or that a class
    computes from other fields, must be read from `training_config` instead."""
    return settings(recipe, section)[key]


def settings(recipe: Recipe, section: str) -> dict[str, Any]:
    """The values of all fields of a section, by name: see `setting`."""
    return defaults(section) | chosen(recipe, section)


def samples_from_server(recipe: Recipe) -> bool:
    """Whether GRPO's completions come from a vLLM server of its own."""
    return setting(recipe, "grpo", "use_vllm") and setting(recipe, "grpo", "vllm_mode") == "server"


def vllm_dtype(recipe: Recipe) -> str:
    """The data type in which vLLM computes, on a server and in an evaluation: bfloat16 for float32
    weights if training computes in it too (autocast), as vLLM does by itself in the trainer's
    process. Float32 would be several times slower.
    """
    autocast = training_arguments(recipe, "grpo")["bf16"] and hardware.has_arithmetic("bfloat16")
    if autocast and recipe.model.dtype == "float32":
        return "bfloat16"
    return recipe.model.dtype


def without_place(resolved: dict) -> dict:
    """A resolved recipe as a run saves it: without the addresses of other machines, so that no file
    of a run contains them."""
    sections = {}
    for name, section in resolved.items():
        if isinstance(section, dict):
            section = {key: value for key, value in section.items() if key not in SERVER_KEYS}
        sections[name] = section
    return sections


def shared_defaults(section: str) -> dict[str, Any]:
    """The fields for which we have the same default in every run."""
    values = {
        "report_to": "none",
        "project": "grpo-recipes",  # the name under which a tracker shows the runs
        "save_steps": SAVE_STEPS,
        "save_total_limit": 2,
        "logging_steps": 25,
        # A NaN must be seen in the log, not replaced by the mean of the steps before it.
        "logging_nan_inf_filter": False,
    }
    if section == "grpo":
        # trl's default drops a completion when the product of its tokens' ratios exceeds 3. Over a
        # thousand tokens the rounding of the two engines alone exceeds it (trl issues 5815 and
        # 7269).
        values["vllm_importance_sampling_mode"] = "token_truncate"
        # A server would take trl's 0.0.0.0 for every address of the machine.
        values["vllm_server_host"] = "127.0.0.1"
    return values | stages.STAGES[section].defaults


def own_defaults(recipe: Recipe, section: str) -> dict[str, Any]:
    """Our defaults for a section, which are the same on every machine."""
    folder = recipe.stage_dir(section)
    values = {
        "output_dir": str(folder),
        "seed": recipe.seed,
        "run_name": "/".join(folder.parts[-2:]),
    }
    values |= shared_defaults(section)
    if section == "grpo":
        aligned_steps = generation(recipe.grpo).aligned_steps
        values["save_steps"] = math.ceil(SAVE_STEPS / aligned_steps) * aligned_steps
        grpo = shared("grpo", recipe.grpo) or recipe.grpo
        values |= _validation_defaults(grpo, recipe.evaluate.checkpoint_problems)
        values["reward_weights"] = list(recipe.weights_of_completions.values())
    return values


class Generation(NamedTuple):
    """What trl samples at once, and how long it trains on that.

    Attributes:
        completions: the number sampled, on all processes together.
        steps: the number of micro-batches that these completions make.
        cycle: the number of micro-steps until trl samples again.
        aligned_steps: a checkpoint falls on the end of a cycle after a multiple of this number of
            optimizer steps.
    """

    completions: int
    steps: int
    cycle: int
    aligned_steps: int


def generation(grpo: dict, count: int | None = None) -> Generation:
    """What trl samples at once for a `grpo` section whose steps are split among `count` processes,
    by default as many as this process's launcher started."""
    count = count or processes()
    values = defaults("grpo") | (shared("grpo", grpo, count) or grpo)
    accumulation = values["gradient_accumulation_steps"]
    batch = values["per_device_train_batch_size"] * count
    completions = values["generation_batch_size"]
    steps = values["steps_per_generation"] or accumulation
    if completions and not values["steps_per_generation"]:
        steps = max(1, completions // batch)
    cycle = steps * values["num_iterations"]
    aligned_steps = cycle // math.gcd(cycle, accumulation)
    return Generation(completions or batch * steps, steps, cycle, aligned_steps)


def cycle_of(recipe: Recipe, stage: str) -> int:
    """The number of a stage's steps after which it may be resumed: see `Generation`."""
    if stages.STAGES[stage].samples:
        return generation(recipe.grpo).aligned_steps
    return 1


def size_of_run(recipe: Recipe) -> tuple[int, int, int] | None:
    """The number of GRPO's steps, and the completions and tokens that all processes sample in them
    if every completion has its greatest length. None if epochs decide the number of steps."""
    values = settings(recipe, "grpo")
    steps = values["max_steps"]
    if steps <= 0:
        return None
    sampled = generation(recipe.grpo)
    cycles = math.ceil(steps * values["gradient_accumulation_steps"] / sampled.cycle)
    completions = cycles * sampled.completions
    return steps, completions, completions * values["max_completion_length"]


def tokens_per_second(recipe: Recipe, card: hardware.Card, billions: float, count: int) -> float:
    """An estimate of how fast `count` such cards sample and train a model of so many weights."""
    speed = 1000 * card.speed * count / billions
    if setting(recipe, "grpo", "use_vllm"):
        return speed
    return speed / hardware.WITHOUT_VLLM


def hours_of_run(recipe: Recipe, speed: float) -> float | None:
    """The hours of a run of so many tokens a second, if it is known how long it is."""
    size = size_of_run(recipe)
    if size is None:
        return None
    steps, _, tokens = size
    return (tokens / speed + steps * hardware.STEP) / 3600 + hardware.REST


def processes() -> int:
    """How many processes the launcher started."""
    return int(os.environ.get("WORLD_SIZE", 1))


def even_batch(problems: int, at_most: int) -> int:
    """The largest batch of at most `at_most` problems that every process can fill, or 0. trl
    averages the means of the batches, which is the share of right answers only if all batches are
    full."""
    for size in range(at_most, 0, -1):
        if problems % (size * processes()) == 0:
            return size
    return 0


def _validation_defaults(grpo: dict, problems: int) -> dict[str, Any]:
    """Our defaults for trl's settings that go with `grpo.eval_steps`: one answer per problem, a
    checkpoint with every evaluation, and the best checkpoint loaded at the end."""
    values = defaults("grpo") | grpo
    if not values["eval_steps"]:
        return {}
    at_most = EVALUATED * values["per_device_train_batch_size"]
    if values["use_vllm"]:
        # One batch, since for each batch vLLM wakes up, loads the weights and goes to sleep again.
        at_most = problems
    return {
        "eval_strategy": "steps",
        "num_generations_eval": 1,
        "per_device_eval_batch_size": even_batch(problems, at_most),
        "save_steps": values["eval_steps"],
        "load_best_model_at_end": True,
        "metric_for_best_model": ACCURACY,
        "greater_is_better": True,
    }


def adapter_config(recipe: Recipe):
    """`LoraConfig` of a recipe, or None if all weights are trained."""
    if recipe.adapter is None:
        return None
    # With dropout, the policy being trained would differ from the policy that sampled.
    values = {"task_type": "CAUSAL_LM", "lora_dropout": 0.0}
    values |= with_floats("adapter", recipe.adapter)
    return section_class("adapter")(**values)


def quantization_config(recipe: Recipe):
    """`BitsAndBytesConfig` of a recipe, or None."""
    if not recipe.quantization:
        return None
    return section_class("quantization")(**with_floats("quantization", recipe.quantization))
