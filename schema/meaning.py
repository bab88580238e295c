"""Faults of a recipe that no type shows: names that must exist, functions that must take the arguments given to them,
and a batch that must hold whole groups. One function per section; each yields `(keys below the section, message)`."""

import inspect
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import data as data_room
import rewards as rewards_room
from data.problems import data_set
from schema import local_models
from schema.arguments import OURS, missing_arguments, unknown_arguments, wrong_types
from schema.combinations import Complaints, schedule
from schema.faults import nearest
from schema.names import benchmark_label, is_reward, named, no_such_folder, reward_function
from schema.sections import Evaluate


def model(section: dict, recipe: dict) -> Complaints:
    if (section.get("name_or_path") is None) == (section.get("build") is None):
        yield (), "model: name exactly one of `name_or_path` (a Hub id or a folder) and `build` (a model made here)"
    name = section.get("name_or_path")
    if isinstance(name, str) and (wrong := no_such_folder(name)):
        yield ("name_or_path",), f"model.name_or_path: {wrong}"
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


def quantization(section: dict, recipe: dict) -> Complaints:
    if recipe.get("adapter") is None:
        yield (), "quantization: quantised weights cannot be trained; add an `adapter` section"
    if [section.get(key) for key in ("load_in_4bit", "load_in_8bit")].count(True) != 1:
        yield (), "quantization: set one of load_in_4bit and load_in_8bit to true"


def data(section: dict, recipe: dict) -> Complaints:
    if section.get("train", []) == []:
        yield ("train",) if "train" in section else (), "data: `train` must name a data set or more"
    yield from _data_sets(("train",), section.get("train"))
    if isinstance(section.get("dir"), str) and not Path(section["dir"]).is_dir():
        yield ("dir",), f"data.dir: {section['dir']} is not a folder"


def evaluate(section: dict, recipe: dict) -> Complaints:
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


def _data_sets(keys: tuple, entries: object) -> Complaints:
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
        wrong = [f"{name}: {key!r} is given by the stage" for key in own]
        wrong += unknown_arguments(name, function, options) + missing_arguments(name, function, ["split", *options])
        wrong += wrong_types(name, function, options)
        yield from (((*keys, name), message) for message in wrong)


def rewards(section: dict, recipe: dict) -> Complaints:
    if not section:
        yield (), "rewards: at least one is needed"
    elif all(isinstance(options, dict) and options.get("weight", 1.0) == 0 for options in section.values()):
        yield (), "rewards: all weights are 0, and nothing would be learned"
    for name, options in section.items():
        if not isinstance(options, dict):
            yield (name,), f"rewards.{name}: expected a mapping such as {{weight: 1.0}}, got {options!r}"
            continue
        for key, rule in OURS.items():
            if key in options and (wrong := rule.refusal(options[key])):
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
        wrong = unknown_arguments(name, function, arguments) + wrong_types(name, function, arguments)
        # What a reward needs beside them are columns, which only the data can tell: see missing_columns.
        if not is_reward(function):
            wrong += missing_arguments(name, function, arguments)
        elif not any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values()):
            wrong.append(f"{name}: a reward needs `**columns` at its end: it is given every column of the data")
        yield from (((name,), message) for message in wrong)


CHECKS = {
    "model": model,
    "quantization": quantization,
    "data": data,
    "rewards": rewards,
    "sft": schedule("sft"),
    "grpo": schedule("grpo"),
    "evaluate": evaluate,
}
