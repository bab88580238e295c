"""The sections of a recipe that belong to trl, peft and transformers: their fields, with their
types and defaults, our own defaults, and the share of a batch that one of several processes has."""

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import MISSING
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from schema import stages
from schema.sections import OWN_SECTIONS
from schema.value_types import CoreSchema, is_fraction, type_fault
from schema.values import BY_FIELD, MAY_BE_NOTHING, TYPES

# The config classes of the libraries' sections.
SECTIONS = {
    "adapter": "peft.tuners.lora.config.LoraConfig",
    "quantization": "transformers.utils.quantization_config.BitsAndBytesConfig",
}
SECTIONS |= {name: stage.config for name, stage in stages.STAGES.items()}

# Keys of the lines that a run logs. trl's name for the share of validation problems that are
# correct:
ACCURACY = "eval_rewards/correct_answer/mean"
# Beside it a "1" or a "0" for each problem, in the order of the problems' texts:
EVAL_CORRECT = "eval_correct"
# The share of groups whose completions all earn the same:
ZERO_VARIANCE = "zero_variance_groups"
# Extra completions of dynamic sampling, as a share of a batch.
SAMPLED_AGAIN = "sampled_again"

SAVE_STEPS = 50  # our default, or the next multiple of a generation cycle
# The address of GRPO's server is no part of a run: its next start may find the server elsewhere.
SERVER_KEYS = ("vllm_server_host", "vllm_server_port", "vllm_server_timeout", "vllm_group_port")
# The keys of a stage that change nothing that it learns, so that a run goes on with other values:
# what is saved, logged or sent; waits; and the memory that it takes.
FREE_KEYS = (*SERVER_KEYS, "save_steps", "save_total_limit", "save_strategy", "logging_steps")
FREE_KEYS += ("logging_first_step", "logging_strategy", "log_level", "report_to", "project")
FREE_KEYS += ("run_name", "disable_tqdm", "skip_memory_metrics", "ddp_timeout")
FREE_KEYS += ("gradient_checkpointing", "per_device_eval_batch_size", "torch_empty_cache_steps")
FREE_KEYS += ("vllm_gpu_memory_utilization", "log_completions", "per_device_train_batch_size")
# How the completions, or the examples, of a step are split.
SPLIT = ("per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation")
# What stands for them in the recipe that a run saves: what all processes train on in a step, and
# what they sample at once.
STEP = {"sft": "examples_per_step", "grpo": "completions_per_step"}
STEP["distill"] = STEP["grpo"]
SAMPLED_AT_ONCE = "completions_per_generation"
# The schedules whose rate after a step does not depend on how many are to follow.
STEADY = ("constant", "constant_with_warmup", "inverse_sqrt")


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


def shared(section: str, values: dict[str, Any], count: int) -> dict | None:
    """The values of a section as one of `count` processes needs them.

    A recipe says what all of them train on in a step, and the libraries, what one does. Each has
    fewer micro-batches or, if these do not go round, smaller ones. None if neither goes round.
    """
    if count == 1 or section not in stages.STAGES:
        return values
    merged = defaults(section) | values
    size, accumulation, generated = map(merged.get, SPLIT)
    divisor = math.gcd(count, accumulation, generated or accumulation)
    if size * divisor % count:
        return None
    split = (size * divisor // count, accumulation // divisor, (generated or 0) // divisor)
    return values | {key: number for key, number in zip(SPLIT, split, strict=True) if number}


def with_totals(stage: str, values: dict[str, Any], processes: int) -> dict[str, Any]:
    """All values of a stage, as one of the processes gets them, with what all of them train on in a
    step, and sample at once, in place of how they split it."""
    merged = dict(values)
    size = merged["per_device_train_batch_size"] * processes
    accumulation = merged.pop("gradient_accumulation_steps")
    steps = merged.pop("steps_per_generation", None) or accumulation
    sampled = merged.pop("generation_batch_size", None) or size * steps
    merged[STEP[stage]] = size * accumulation
    if stages.STAGES[stage].samples:
        merged[SAMPLED_AT_ONCE] = sampled
    return merged


def with_split(stage: str, values: dict[str, Any]) -> dict[str, Any]:
    """The opposite of `with_totals`, for one process. Where that is not possible, the values as
    they are, which a recipe may then not have."""
    split = dict(values)
    rows = split.pop(STEP[stage], None)
    sampled = split.pop(SAMPLED_AT_ONCE, rows)
    size = split.get("per_device_train_batch_size")
    numbers = (rows, sampled, size)
    if any(type(number) is not int or number < 1 for number in numbers):
        return values
    if rows % size or sampled % size:
        return values
    split["gradient_accumulation_steps"] = rows // size
    if sampled != rows:
        split["steps_per_generation"] = sampled // size
    return split


def with_floats(section: str, values: dict[str, Any]) -> dict[str, Any]:
    """The values with a float for every number that may be a fraction: once the weights are loaded,
    some libraries refuse a 2 where 2.0 is meant."""
    converted = dict(values)
    for key, value in values.items():
        kind = type_of(section, key, fields(section)[key].type)
        if is_fraction(kind) and value is not None:
            converted[key] = float(value)
    return converted


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


def generation(grpo: dict, count: int) -> Generation:
    """What trl samples at once for a `grpo` section whose steps `count` processes share."""
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


def flat(tree: dict | None, prefix: str = "") -> dict:
    """The values of a recipe by `section.key`, without those that are None."""
    values = {}
    for key, value in (tree or {}).items():
        if isinstance(value, dict):
            values |= flat(value, f"{prefix}{key}.")
        elif value is not None:
            values[f"{prefix}{key}"] = value
    return values


class Values:
    """A recipe's values, with the default of each key that it does not set: `values.grpo.delta`.

    Attributes:
        sections: the sections that the recipe has.
        keys: the keys that it sets, as `grpo.delta`.
        rewards: the options of each reward.
        teacher: the model that distillation learns from.
        tools: the tools that the policy may call.
        sampled: what trl samples at once.
        processes: how many share each step.
    """

    def __init__(self, recipe: Mapping[str, Any], processes: int = 1):
        self.sections = recipe.keys()
        self.keys = set()
        self.rewards = recipe.get("rewards", {})
        self.teacher = recipe.get("teacher")
        self.tools = recipe.get("tools")
        self.processes = processes
        for name in (*OWN_SECTIONS, *SECTIONS):
            section = recipe.get(name, {})
            self.keys |= {f"{name}.{key}" for key in section}
            setattr(self, name, SimpleNamespace(**_defaults(name) | section))
        self.sampled = generation(vars(self.grpo), 1)  # the same of the shares of several processes


def _defaults(section: str) -> dict[str, Any]:
    if section in SECTIONS:
        return defaults(section)
    values = {}
    for field in dataclasses.fields(OWN_SECTIONS[section]):
        values[field.name] = None if field.default is MISSING else field.default
    return values


def even_batch(problems: int, at_most: int, processes: int) -> int:
    """The largest batch of at most `at_most` problems that every process can fill, or 0. trl
    averages the means of the batches, which is the share of correct answers only if all batches are
    full."""
    for size in range(at_most, 0, -1):
        if problems % (size * processes) == 0:
            return size
    return 0
