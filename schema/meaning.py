"""Faults of a recipe that no type shows: names that must exist, functions that must take the arguments given to them,
and a batch that must hold whole groups. One function per section; each yields `(keys below the section, message)`."""

import inspect
import os
import re
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from math import gcd
from pathlib import Path
from typing import Literal, Union, get_args, get_origin, get_type_hints

import data as data_room
import rewards as rewards_room
from data.imports import named_function
from data.problems import data_set
from data.sources import FILE_TYPES
from schema import declared, local_models
from schema.configs import describe, even_batch, matches
from schema.faults import nearest
from schema.recipe import Data, Evaluate
from schema.rules import Number
from schema.values import BY_TRANSFORMERS, BY_VLLM, SCHEDULES

Faults = Iterator[tuple[tuple, str]]


def model(section: dict, recipe: dict) -> Faults:
    if (section.get("name_or_path") is None) == (section.get("build") is None):
        yield (), "model: name exactly one of `name_or_path` (a Hub id or a folder) and `build` (a model made here)"
    name = section.get("name_or_path")
    if isinstance(name, str) and (fault := no_such_folder(name)):
        yield ("name_or_path",), f"model.name_or_path: {fault}"
    build = section.get("build")
    if isinstance(build, str) and build not in local_models.BUILDERS:
        yield ("build",), f"model.build: no builder {build!r}{nearest(build, local_models.BUILDERS)}"
    attention = section.get("attn_implementation")
    package = {"flash_attention_2": "flash_attn", "flash_attention_3": "flash_attn_interface"}.get(str(attention))
    if package and find_spec(package) is None:
        yield (
            ("attn_implementation",),
            f"model.attn_implementation: {attention} needs the package {package}, which is not installed; transformers "
            "would run a kernel fetched from the Hub instead. sdpa is as fast for most models",
        )


def no_such_folder(name: str) -> str | None:
    """What is wrong with the name of a model that is no folder and cannot be a Hub id either: the Hub is not asked for
    what was meant to be a folder."""
    path = Path(name)
    if path.is_dir():
        return None
    if path.exists():
        return f"{name} is a file; a model is a folder or a Hub id"
    if (
        not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name)
        or name.startswith(".")
        or ("/" in name and Path(path.parts[0]).exists())
    ):
        return f"there is no folder {name}, and a Hub id is such as Qwen/Qwen2.5-Math-1.5B"
    return None


def quantization(section: dict, recipe: dict) -> Faults:
    if recipe.get("adapter") is None:
        yield (), "quantization: quantised weights cannot be trained; add an `adapter` section"
    if [section.get(key) for key in ("load_in_4bit", "load_in_8bit")].count(True) != 1:
        yield (), "quantization: set one of load_in_4bit and load_in_8bit to true"


def data(section: dict, recipe: dict) -> Faults:
    if section.get("train", []) == []:
        yield ("train",) if "train" in section else (), "data: `train` must name a data set or more"
    yield from _data_sets(("train",), section.get("train"))
    if isinstance(section.get("dir"), str) and not Path(section["dir"]).is_dir():
        yield ("dir",), f"data.dir: {section['dir']} is not a folder"


def evaluate(section: dict, recipe: dict) -> Faults:
    entries = section.get("benchmarks", [])
    yield from _data_sets(("benchmarks",), entries)
    if isinstance(entries, list) and all(isinstance(e, str) or (isinstance(e, dict) and e) for e in entries):
        for label, times in Counter(map(benchmark_label, entries)).items():
            if times > 1:
                yield ("benchmarks",), f"evaluate.benchmarks: {label} is named {times} times; their results would mix"
    samples, temperature = section.get("samples", Evaluate.samples), section.get("temperature", Evaluate.temperature)
    if isinstance(samples, int) and isinstance(temperature, int | float) and samples > 1 and temperature <= 0:
        yield (
            ("samples",),
            f"evaluate.samples: {samples} greedy answers are {samples} times the same; set evaluate.temperature too",
        )
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
    label = "-".join([name, *(f"{key}-{value}" for key, value in arguments.items())])
    return re.sub(r"[^\w.-]+", "_", label)[:100].lstrip(".") or "_"


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
        own = [key for key in options if key in ("split", "folder")]  # the stage's to give
        faults = [f"{name}: {key!r} is given by the stage" for key in own]
        faults += _unknown_arguments(name, function, options) + _missing_arguments(name, function, ["split", *options])
        faults += _wrong_types(name, function, options)
        yield from (((*keys, name), fault) for fault in faults)


def rewards(section: dict, recipe: dict) -> Faults:
    if not section:
        yield (), "rewards: at least one is needed"
    elif all(isinstance(options, dict) and options.get("weight", 1.0) == 0 for options in section.values()):
        yield (), "rewards: all weights are 0, and nothing would be learned"
    for name, options in section.items():
        if not isinstance(options, dict):
            yield (name,), f"rewards.{name}: expected a mapping such as {{weight: 1.0}}, got {options!r}"
            continue
        for key, rule in OURS.items():
            if key in options and (wrong := rule.fault(options[key])):
                yield (name, key), f"rewards.{name}.{key}: {wrong}"
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
        faults = _unknown_arguments(name, function, arguments) + _wrong_types(name, function, arguments)
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


# Keys of a reward that are not its arguments. A weight below 0 is a penalty; a timeout is of one batch, in seconds.
OURS = {"weight": Number(-1e6, 1e6), "timeout": Number(0, 1e5, above=True)}


TRL = "trl.rewards."


def reward_function(name: str) -> Callable:
    """The function behind a reward's name: one of `rewards`, one that trl documents, or a dotted path to one of the
    reader's own.

    Raises:
        LookupError: nothing has that name.
        ImportError: it may not be named, or its file fails.
    """
    if "." not in name:
        if name in rewards_room.__all__:
            return getattr(rewards_room, name)
        raise LookupError(name)
    if name.startswith(TRL):
        from trl import rewards as of_trl

        documented = [each for each in of_trl.__all__ if inspect.isfunction(getattr(of_trl, each))]
        if (attribute := name.removeprefix(TRL)) in documented:
            return getattr(of_trl, attribute)
        raise ImportError(
            f"trl documents no such reward{nearest(attribute, documented)}; there are: {', '.join(documented)}"
        )
    return named_function(name, "completions")


def bind_reward(name: str, options: dict) -> Callable:
    """The reward as GRPOTrainer calls it, with the recipe's arguments bound.

    A function that takes `completions` is the reward; any other is a factory (trl's
    `get_soft_overlong_punishment`, or one of a package that TRUST_PACKAGES names), and is called with the recipe's
    arguments to make one.
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


def _wrong_types(name: str, function: Callable, given: dict) -> list[str]:
    """Of the arguments whose type the function says."""
    target = function.func if isinstance(function, partial) else function
    try:
        hints = get_type_hints(target)
    except Exception:  # a file of the reader's may annotate with anything
        return []
    return [
        f"{name}: {key}: expected {describe(hints[key])}, got {value!r}"
        for key, value in given.items()
        if key in hints and _plain(hints[key]) and not matches(value, hints[key])
    ]


def _plain(hint: object) -> bool:
    """Whether YAML has values of that type itself."""
    if get_origin(hint) in (Union, types.UnionType):
        return all(map(_plain, get_args(hint)))
    return (get_origin(hint) or hint) in (bool, int, float, str, list, dict, type(None), Literal)


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
    choosing = (recipe.get("evaluate") or {}).get("held_out", Evaluate.held_out)
    if not isinstance(choosing, int) or choosing < 1:
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
    save_steps = section.get("save_steps", section.get("eval_steps"))
    if values["save_strategy"] == "steps" and isinstance(save_steps, int) and (save_steps * accumulation) % cycle:
        yield (
            ("save_steps",) if "save_steps" in section else ("eval_steps",),
            f"grpo.save_steps: a checkpoint after {save_steps} steps falls inside a generation cycle of {cycle} "
            f"micro-steps, and a run resumed from there would not be the same run; take a multiple of "
            f"{cycle // gcd(cycle, accumulation)}",
        )

    yield from _losses(values)


def _losses(values: dict) -> Faults:
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


def schedule(name: str) -> Callable[[dict, dict], Faults]:
    """The faults of a training section: its own, and those of the schedule of its learning rate."""

    def check(section: dict, recipe: dict) -> Faults:
        if name == "grpo":
            yield from grpo(section, recipe)
        values = declared.defaults(name) | section
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


CHECKS = {
    "model": model,
    "quantization": quantization,
    "data": data,
    "rewards": rewards,
    "sft": schedule("sft"),
    "grpo": schedule("grpo"),
    "evaluate": evaluate,
}
