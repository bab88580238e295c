"""Faults of a recipe that no type shows: names that must exist, functions that must take the arguments given to them,
and a batch that must hold whole groups. One function per section; each yields `(keys below the section, message)`."""

import inspect
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import gcd
from pathlib import Path

import data as data_room
import rewards as rewards_room
from data.imports import import_trusted
from data.problems import data_set
from data.sources import FILE_TYPES
from stages import declared, local_models
from stages.configs import SAVE_STEPS, even_batch
from stages.faults import nearest
from stages.recipe import Data, Evaluate, Model

ENGINES = ("transformers", "vllm")

Faults = Iterator[tuple[tuple, str]]


def model(section: dict, recipe: dict) -> Faults:
    if (section.get("name_or_path") is None) == (section.get("build") is None):
        yield (), "model: name exactly one of `name_or_path` (a Hub id or a folder) and `build` (a model made here)"
    build = section.get("build")
    if build is not None and build not in local_models.BUILDERS:
        yield ("build",), f"model.build: no builder {build!r}{nearest(build, local_models.BUILDERS)}"
    if section.get("dtype", Model.dtype) not in ("float32", "bfloat16", "float16"):
        yield ("dtype",), f"model.dtype: {section['dtype']!r} is not one of float32, bfloat16, float16"


def quantization(section: dict, recipe: dict) -> Faults:
    if recipe.get("adapter") is None:
        yield (), "quantization: quantised weights cannot be trained; add an `adapter` section"


def data(section: dict, recipe: dict) -> Faults:
    if "train" not in section:
        yield (), "data: `train` is missing: a list of data sets"
    yield from _data_sets(("train",), section.get("train"))
    validation = section.get("validation", Data.validation)
    if isinstance(validation, int) and validation < 1:
        yield ("validation",), f"data.validation: {validation} held-out problems cannot measure anything"
    if isinstance(section.get("dir"), str) and not Path(section["dir"]).is_dir():
        yield ("dir",), f"data.dir: {section['dir']} is not a folder"


def evaluate(section: dict, recipe: dict) -> Faults:
    entries = section.get("benchmarks", [])
    yield from _data_sets(("benchmarks",), entries)
    if isinstance(entries, list) and all(isinstance(e, str) or (isinstance(e, dict) and e) for e in entries):
        for label, times in Counter(map(benchmark_label, entries)).items():
            if times > 1:
                yield ("benchmarks",), f"evaluate.benchmarks: {label} is named {times} times; their results would mix"
    for key in ("limit", "batch_size", "max_new_tokens", "samples", "held_out"):
        value = section.get(key, 1)
        if value is None and key in ("limit", "max_new_tokens"):
            continue
        if value is None or (isinstance(value, int) and value < 1):
            yield (key,), f"evaluate.{key}: {value} is too few; take 1 or more"
    samples, temperature = section.get("samples", Evaluate.samples), section.get("temperature", Evaluate.temperature)
    if isinstance(temperature, int | float) and temperature < 0:
        yield ("temperature",), f"evaluate.temperature: {temperature} is below 0, which is greedy"
    if isinstance(samples, int) and isinstance(temperature, int | float) and samples > 1 and temperature <= 0:
        yield (
            ("samples",),
            f"evaluate.samples: {samples} greedy answers are {samples} times the same; set evaluate.temperature too",
        )
    if section.get("engine", Evaluate.engine) not in ENGINES:
        yield ("engine",), f"evaluate.engine: {section['engine']!r} is not one of {', '.join(ENGINES)}"
    if section.get("engine") == "vllm" and recipe.get("quantization"):
        yield (
            ("engine",),
            "evaluate.engine: vllm would put the adapter on unquantised weights, which it was not trained on; "
            "use transformers",
        )


def named(entry: str | dict) -> tuple[str, dict]:
    """A data set as a recipe writes it, `gsm8k` or `arithmetic: {digits: 2}`, as name and arguments."""
    return (entry, {}) if isinstance(entry, str) else next((name, options or {}) for name, options in entry.items())


def benchmark_label(entry: str | dict) -> str:
    """A benchmark's name as a folder: `gsm8k`, `arithmetic-digits-3`, `mine` for `some/mine.jsonl`."""
    name, arguments = named(entry)
    name = Path(name).stem if Path(name).suffix in FILE_TYPES else name
    arguments = arguments if isinstance(arguments, dict) else {}
    return "-".join([name, *(f"{key}-{value}" for key, value in arguments.items())])


def _data_sets(keys: tuple, entries: object) -> Faults:
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, str) and not (isinstance(entry, dict) and len(entry) == 1):
            yield keys, f"{keys[0]}: {entry!r} is neither a name nor one `name: {{arguments}}`"
            continue
        name, options = named(entry)
        if not isinstance(options, dict):
            yield (*keys, name), f"{name}: expected arguments such as {{digits: 2}}, got {options!r}"
            continue
        try:
            function = data_set(name)
        except LookupError:
            known = [each.replace("_", "-") for each in data_room.__all__]
            yield (*keys, name), f"unknown data set {name!r}{nearest(name, known)}; there are: {', '.join(known)}"
            continue
        except ImportError as error:
            yield (*keys, name), f"data set {name!r}: {error}"
            continue
        faults = _unknown_arguments(name, function, options) + _missing_arguments(name, function, ["split", *options])
        yield from (((*keys, name), fault) for fault in faults)


def rewards(section: dict, recipe: dict) -> Faults:
    if not section:
        yield (), "rewards: at least one is needed"
    for name, options in section.items():
        if not isinstance(options, dict):
            yield (name,), f"rewards.{name}: expected a mapping such as {{weight: 1.0}}, got {options!r}"
            continue
        weight = options.get("weight", 1.0)
        if not isinstance(weight, int | float) or isinstance(weight, bool):
            yield (name, "weight"), f"rewards.{name}.weight: expected a number, got {weight!r}"
        timeout = options.get("timeout", 1)
        if not isinstance(timeout, int | float) or isinstance(timeout, bool) or timeout <= 0:
            yield (name, "timeout"), f"rewards.{name}.timeout: expected seconds, got {timeout!r}"
        try:
            function = reward_function(name)
        except LookupError:
            known = rewards_room.__all__
            yield (name,), f"unknown reward {name!r}{nearest(name, known)}; there are: {', '.join(known)}"
            continue
        except ImportError as error:
            yield (name,), f"reward {name!r}: {error}"
            continue
        arguments = {key: value for key, value in options.items() if key not in OURS}
        faults = _unknown_arguments(name, function, arguments)
        # What a reward needs beside them are columns, which only the data can tell: see missing_columns.
        if not _is_reward(function):
            faults += _missing_arguments(name, function, arguments)
        elif not any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values()):
            faults.append(f"{name}: a reward needs `**columns` at its end: it is given every column of the data")
        yield from (((name,), fault) for fault in faults)


def missing_columns(recipe_rewards: dict[str, dict], columns: list[str]) -> list[str]:
    """Faults of rewards that need an argument which neither the recipe nor the data nor trl's trainer gives."""
    given = [*columns, "prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"]
    return [
        f"rewards.{fault}, which no column of the data has: there are {', '.join(columns)}"
        for name, options in recipe_rewards.items()
        if _is_reward(function := reward_function(name))
        for fault in _missing_arguments(name, function, [*options, *given])
    ]


# Keys of a reward that are not its arguments.
OURS = ("weight", "timeout")


def reward_function(name: str) -> Callable:
    """The function behind a reward's name: one of `rewards`, or a dotted path.

    Raises:
        LookupError: nothing has that name.
    """
    if "." not in name:
        if name in rewards_room.__all__:
            return getattr(rewards_room, name)
        raise LookupError(name)
    module, _, attribute = name.rpartition(".")
    function = getattr(import_trusted(module), attribute, None)
    if not callable(function):
        raise ImportError(f"{module} has no function {attribute}")
    return function


def bind_reward(name: str, options: dict) -> Callable:
    """The reward as GRPOTrainer calls it, with the recipe's arguments bound.

    A function that takes `completions` is the reward; any other is a factory, such as
    `trl.rewards.get_soft_overlong_punishment`, and is called with the recipe's arguments to make one.
    """
    function = reward_function(name)
    arguments = {key: value for key, value in options.items() if key not in OURS}
    return partial(function, **arguments) if _is_reward(function) else function(**arguments)


def _is_reward(function: Callable) -> bool:
    return "completions" in inspect.signature(function).parameters


def _unknown_arguments(name: str, function: Callable, given: Iterable[str]) -> list[str]:
    parameters = inspect.signature(function).parameters
    # A reward swallows every column of the data with **columns; an argument it does not name is a misspelling.
    known = [*parameters, *OURS]
    return [f"{name}: unknown argument {key!r}{nearest(key, known)}" for key in given if key not in parameters]


def _missing_arguments(name: str, function: Callable, given: Iterable[str]) -> list[str]:
    needed = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.default is parameter.empty
    ]
    return [f"{name}: needs the argument {each!r}" for each in needed if each not in given]


def grpo(section: dict, recipe: dict) -> Faults:
    processes = int(os.environ.get("WORLD_SIZE", 1))
    values = declared.defaults("grpo") | section
    per_device, accumulation = values["per_device_train_batch_size"], values["gradient_accumulation_steps"]
    group, steps = values["num_generations"], values["steps_per_generation"] or accumulation
    if not all(isinstance(n, int) and n > 0 for n in (per_device, accumulation, group, steps)):
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
    if section.get("eval_strategy", "no") != "no" and not section.get("eval_steps"):
        yield ("eval_strategy",), "grpo.eval_strategy: set grpo.eval_steps, and the rest follows"
    choosing = (recipe.get("evaluate") or {}).get("held_out", Evaluate.held_out)
    if not isinstance(choosing, int):
        return
    if section.get("eval_steps") and not even_batch(choosing, 1):
        yield (
            ("eval_steps",),
            f"evaluate.held_out: {choosing} problems cannot be shared evenly among {os.environ.get('WORLD_SIZE')} "
            "processes; take a multiple",
        )
    validation = (recipe.get("data") or {}).get("validation", Data.validation)
    if section.get("eval_steps") and isinstance(validation, int) and validation <= choosing:
        yield (
            ("eval_steps",),
            f"grpo.eval_steps: evaluate.held_out = {choosing} problems choose the checkpoint, and none of the "
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
    save_steps = section.get("save_steps", section.get("eval_steps", SAVE_STEPS))
    if isinstance(save_steps, int) and (save_steps * accumulation) % cycle:
        yield (
            ("save_steps",) if "save_steps" in section else (),
            f"grpo.save_steps: a checkpoint after {save_steps} steps falls inside a generation cycle of {cycle} "
            f"micro-steps, and a run resumed from there would not be the same run; take a multiple of "
            f"{cycle // gcd(cycle, accumulation)}",
        )


CHECKS = {
    "model": model,
    "quantization": quantization,
    "data": data,
    "rewards": rewards,
    "grpo": grpo,
    "evaluate": evaluate,
}
