"""What the rules for single keys cannot see: whether a name exists, whether its function takes the
arguments, and whether the keys of a section, or of two sections, go together. The table CHECKS has
a function for each section.

These functions take their section and the recipe without the keys that are faulty already. A
section of the recipe that is not a mapping is empty there.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import rewards
from console.faults import Complaints, item, nearest, nearest_or_all
from data import SETS
from data.own import column_faults, of_file
from data.problems import data_set
from schema import names
from schema.refused_keys import GONE_REWARDS
from schema.sections import Evaluate
from schema.stages import STAGES
from schema.training_rules import NOT_BY_VLLM, check_stage
from schema.value_types import integer, type_fault

ONE_TURN = "it learns from answers of one turn, and `tools` make several: leave one of them out"
# Keys of a data set that only some data sets have, with the place where they belong.
ELSEWHERE = (
    ("data.train", names.TRAIN_KEYS),
    ("evaluate.benchmarks", names.BENCHMARK_KEYS),
    ("a file, a folder or a set of the Hub", {"columns"}),
)


def check_model(section: dict, recipe: dict) -> Complaints:
    name = section.get("name_or_path")
    build = section.get("build")
    if (name is None) == (build is None):
        message = "set exactly one of `name_or_path` (a Hub id or a folder) and `build` (made here)"
        if build is not None:
            message += "; `build: null`, or `name_or_path: null`, takes away a base's"
        yield ("model",), message
    if name:
        refusal = names.no_such_folder(name)
        if refusal:
            yield ("model", "name_or_path"), refusal
    if isinstance(build, str) and build not in names.BUILDERS:
        yield ("model", "build"), f"no builder {build!r}{nearest(build, names.BUILDERS)}"
    if section.get("dtype") == "float16":
        adapter = recipe.get("adapter")
        remedy = "add an `adapter` section"
        if adapter:
            remedy = "leave adapter.modules_to_save out"
        if not adapter or adapter.get("modules_to_save"):
            message = "float16 weights cannot be trained, only an adapter beside them"
            yield ("model", "dtype"), f"{message}: {remedy}, or take float32"


def check_adapter(section: dict, recipe: dict) -> Complaints:
    """Refuse what peft and vLLM cannot do with an adapter on parameters, such as the experts of a
    layer."""
    if not section.get("target_parameters"):
        return
    for key in ("lora_dropout", "lora_bias", "use_dora"):
        if section.get(key):
            yield ("adapter", key), "peft has none for adapter.target_parameters: leave it out"
    if recipe.get("grpo", {}).get("use_vllm") or recipe.get("evaluate", {}).get("engine") == "vllm":
        message = "vLLM has not been tried with them: set grpo.use_vllm: false and"
        yield ("adapter", "target_parameters"), f"{message} evaluate.engine: transformers"


def check_quantization(section: dict, recipe: dict) -> Complaints:
    if recipe.get("adapter") is None:
        yield ("quantization",), "quantised weights cannot be trained; add an `adapter` section"
    if [section.get(key) for key in ("load_in_4bit", "load_in_8bit")].count(True) != 1:
        yield ("quantization",), "set exactly one of load_in_4bit and load_in_8bit to true"


def check_data(section: dict, recipe: dict) -> Complaints:
    if section.get("train", []) == []:
        yield ("data", "train"), "name at least one data set"
    yield from _check_data_sets(("data", "train"), section.get("train"), names.TRAIN_KEYS)
    if section.get("dir") and not Path(section["dir"]).is_dir():
        yield ("data", "dir"), f"{section['dir']} is not a folder"
    if section.get("own_solutions") is None:
        return
    if recipe.get("sft") is None:
        message = "they are for a warm start, and this recipe has no `sft` section: add one"
        yield ("data", "own_solutions"), message
    if recipe.get("tools"):
        yield ("data", "own_solutions"), ONE_TURN
    if section.get("worked") is not None:
        message = "it counts the data's worked solutions, which data.own_solutions replaces"
        yield ("data", "worked"), f"{message}: keep one of them"


def check_evaluate(section: dict, recipe: dict) -> Complaints:
    keys = ("evaluate", "benchmarks")
    entries = section.get("benchmarks", [])
    defaults = {key: getattr(Evaluate, key) for key in names.SAMPLED}
    settings = {key: section[key] for key in defaults if key in section}
    yield from _check_data_sets(keys, entries, names.BENCHMARK_KEYS, defaults | settings)
    labels: Counter[str] = Counter()
    for entry in names.entries_of(entries):
        if isinstance(entry, str) or (isinstance(entry, dict) and entry):
            labels[names.benchmark_label(entry)] += 1
    for label, times in labels.items():
        if times > 1:
            message = f"{label} is named {times} times; their results would mix"
            yield keys, f"{message}: leave one out, or rename its file"
    for key, message in _greedy_faults(defaults, settings | {"top_p": 1}, "evaluate."):
        yield ("evaluate", key), message
    if section.get("engine") != "vllm":
        return
    if recipe.get("quantization"):
        message = "vllm would serve the adapter on unquantised weights, on which it was not trained"
        yield ("evaluate", "engine"), f"{message}: set it to transformers"
    if recipe.get("tools"):
        yield ("evaluate", "engine"), f"with `tools` {NOT_BY_VLLM}"


def _greedy_faults(defaults: dict, settings: dict, section: str = "") -> Iterator[tuple[str, str]]:
    """Yield (key, message) of a benchmark's own sampling settings, or of a section's, that greedy
    answers have no use for."""
    sampling = defaults | settings
    if sampling["temperature"]:
        return
    if sampling["samples"] > 1 and settings.keys() & {"samples", "temperature"}:
        message = "greedy answers to a problem would all be the same"
        yield "samples", f"{sampling['samples']} {message}; set {section}temperature"
    if settings.get("top_p", 1) < 1:
        yield "top_p", "greedy answers do not read it; set temperature, or leave it out"


def _check_data_sets(
    keys: tuple, entries: object, rules: dict, sampling: dict | None = None
) -> Complaints:
    """Check the list of data sets at these keys. `rules`: of the keys that every set in it may
    have; `sampling`: how benchmarks without settings of their own are answered."""
    for entry in names.entries_of(entries):
        for message in _entry_faults(entry, rules, sampling):
            yield (*keys, item(entry)), message


def _entry_faults(entry: object, rules: dict, sampling: dict | None) -> list[str]:
    if not isinstance(entry, str) and not (isinstance(entry, dict) and len(entry) == 1):
        return [f"{entry!r} is neither a name nor a single `name: {{arguments}}`"]
    name, options = names.name_and_arguments(entry)
    if not isinstance(options, dict):
        return [f"{name}: expected arguments such as {{digits: 2}}, got {options!r}"]
    try:
        function = data_set(name)
    except LookupError:
        return [f"unknown data set {name!r}{nearest_or_all(name, sorted(SETS))}"]
    except ImportError as error:
        return [f"data set {name!r}: {error}"]
    messages = _option_faults(function, options, rules)
    if sampling and not messages:
        for key, message in _greedy_faults(sampling, names.own_sampling(entry)):
            messages.append(f"{key}: {message}")
    return [f"{name}: {message}" for message in messages]


def _option_faults(function: Callable, options: dict, rules: dict) -> list[str]:
    """The faults of a data set's options: of its function's arguments, and of the keys that every
    data set in the list may have."""
    parameters = inspect.signature(function).parameters
    is_users = isinstance(function, partial)  # a file, a folder or a set of the Hub
    messages = []
    arguments = {}
    shared = {}
    for key, value in options.items():
        place = next((place for place, keys in ELSEWHERE if key in keys), None)
        if key not in parameters and key in rules:
            shared[key] = value
        elif key not in parameters and place:
            messages.append(f"{key!r} is for {place}: leave it out here")
        else:
            arguments[key] = value
        if key in ("split", "folder") and not is_users:
            messages.append(f"{key!r} is not a recipe's to give: the stage sets it")
    if is_users and function.func is of_file and arguments.pop("split", None) is not None:
        message = "a file has no splits: leave it out, or name a folder that has a file for each"
        messages.append(f"split: {message}")
    messages += names.argument_faults(function, arguments, rules)
    for name in names.missing_names(function, ["split", *arguments]):
        messages.append(f"needs the argument {name!r}")
    for key, value in shared.items():
        refusal = type_fault(rules[key], value)
        if refusal:
            messages.append(f"{key}: {refusal}")
    if is_users and isinstance(arguments.get("columns"), dict):
        messages += column_faults(arguments["columns"])
    return messages


def check_rewards(section: dict, recipe: dict) -> Complaints:
    if not section:
        yield ("rewards",), "name at least one reward"
    elif all(
        isinstance(options, dict) and options.get("weight") == 0 for options in section.values()
    ):
        yield ("rewards",), "all weights are 0, so nothing would be learned"
    yield from _check_completion_rewards(section, recipe)
    for name, options in section.items():
        if not isinstance(options, dict):
            yield ("rewards", name), f"expected a mapping such as {{weight: 1.0}}, got {options!r}"
        elif names.is_reward_model(name):
            yield from _check_reward_model(name, options)
        else:
            yield from _check_reward(name, options)


def _check_reward_model(name: str, options: dict) -> Complaints:
    refusal = names.no_such_folder(name)
    if refusal:
        yield ("rewards", name), refusal
    for key, value in options.items():
        refusal = "trl asks the model by itself, and a `weight` is all it has: leave it out"
        if key == "weight":
            refusal = type_fault(names.REWARD_KEYS[key], value)
        if refusal:
            yield ("rewards", name, key), refusal


def _check_reward(name: str, options: dict) -> Complaints:
    for key, kind in names.REWARD_KEYS.items():
        if key in options:
            refusal = type_fault(kind, options[key])
            if refusal:
                yield ("rewards", name, key), refusal
    try:
        function = names.reward_function(name)
    except LookupError:
        advice = nearest_or_all(name, rewards.__all__)
        advice += "; your own has its file before its name, as mine.short_proofs"
        if name in GONE_REWARDS:
            advice = f": {GONE_REWARDS[name]}"
        yield ("rewards", name), f"unknown reward{advice}"
    except ImportError as error:
        yield ("rewards", name), str(error)
    else:
        yield from _check_arguments(name, function, names.reward_arguments(options))


def _check_arguments(name: str, function: Callable, arguments: dict) -> Complaints:
    """Check the arguments of a reward, that a factory gets all of them, and that a reward takes
    every column of the data. What else a reward needs must be columns of the data: see
    `names.missing_columns`."""
    for key, value in arguments.items():
        if key in names.TRAINER_ARGUMENTS:
            yield ("rewards", name, key), "the trainer gives it; leave it out"
        else:
            for message in names.argument_faults(function, {key: value}, names.REWARD_KEYS):
                yield ("rewards", name, key), message.removeprefix(f"{key}: ")
    longest = arguments.get("longest")
    if name == "brevity" and type(longest) in (int, type(None)):  # other types are refused above
        refusal = type_fault(integer(), longest)
        if refusal:
            yield ("rewards", name, "longest"), f"{refusal}; set it to grpo.max_completion_length"
    tolerance = arguments.get("tolerance")
    if name == "correct_answer" and type(tolerance) in (int, float) and not 0 <= tolerance < 1:
        message = "a share of the gold, from 0 to below 1: 0.01 is a hundredth of it"
        yield ("rewards", name, "tolerance"), message
    if not names.is_reward(function):
        for argument in names.missing_names(function, arguments):
            yield ("rewards", name), f"needs the argument {argument!r}"
    elif not names.takes_columns(function):
        message = "add `**columns` to its parameters: a reward is given every column of the data"
        yield ("rewards", name), message


def _check_completion_rewards(section: dict, recipe: dict) -> Complaints:
    """Check that at least one reward is a function of whole completions, and that the rewards that
    are none, a reward of steps and a reward model, fit the rest of the recipe."""
    models = list(filter(names.is_reward_model, section))
    step_rewards = []
    for name, options in section.items():
        if isinstance(options, dict) and "steps" in options and name not in models:
            step_rewards.append(name)
    if len(step_rewards) > 1:
        message = f"{step_rewards[0]} has `steps` already, and only one may"
        yield ("rewards", step_rewards[1], "steps"), message
    if "correct_answer" in step_rewards:
        yield ("rewards", "correct_answer", "steps"), "a step is no answer; leave `steps` out"
    if section and section.keys() <= {*step_rewards, *models}:
        reason = "only a model gives one"
        if step_rewards:
            reason = "only the steps have one"
        yield ("rewards",), f"add one for whole completions, such as correct_answer: {reason}"
    one_turn = [*step_rewards, *models]
    if recipe.get("tools") and one_turn:
        yield ("rewards", one_turn[0]), ONE_TURN


CHECKS = {
    "model": check_model,
    "adapter": check_adapter,
    "quantization": check_quantization,
    "data": check_data,
    "rewards": check_rewards,
    **{section: partial(check_stage, section) for section in STAGES},
    "evaluate": check_evaluate,
}
