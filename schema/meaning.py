"""Whether the data sets and the rewards that a recipe names exist, and take the arguments that it
gives them."""

import inspect
from collections.abc import Callable, Iterator
from functools import partial

import rewards
from console.faults import Complaints, item, nearest_or_all
from data import SETS
from data.own import column_faults, of_file
from data.problems import data_set
from schema import names
from schema.refused_keys import GONE_REWARDS
from schema.rules import ONE_TURN
from schema.sections import Evaluate
from schema.value_types import integer, type_fault

# Keys of a data set that only some data sets have, with the place where they belong.
ELSEWHERE = (
    ("data.train", names.TRAIN_KEYS),
    ("evaluate.benchmarks", names.BENCHMARK_KEYS),
    ("a file, a folder or a set of the Hub", {"columns"}),
)


def complaints(recipe: dict) -> Complaints:
    """Yield the faults of the data sets and of the rewards that a recipe names. Its sections are
    mappings, without the keys that are faulty by themselves."""
    train = recipe.get("data", {}).get("train")
    yield from _check_data_sets(("data", "train"), train, names.TRAIN_KEYS)
    evaluate = recipe.get("evaluate", {})
    sampling = {key: evaluate.get(key, getattr(Evaluate, key)) for key in names.SAMPLED}
    keys = ("evaluate", "benchmarks")
    yield from _check_data_sets(keys, evaluate.get("benchmarks"), names.BENCHMARK_KEYS, sampling)
    yield from _check_rewards(recipe.get("rewards", {}), recipe)


def _greedy_faults(sampling: dict, settings: dict) -> Iterator[str]:
    """Yield the faults of a benchmark's own `settings` of sampling: what greedy answers have no use
    for. `sampling`: what its section says."""
    if (sampling | settings)["temperature"]:
        return
    samples = (sampling | settings)["samples"]
    if samples > 1 and settings.keys() & {"samples", "temperature"}:
        message = "greedy answers to a problem would all be the same; set temperature"
        yield f"samples: {samples} {message}"
    if settings.get("top_p", 1) < 1:
        yield "top_p: greedy answers do not read it; set temperature, or leave it out"


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
        messages += _greedy_faults(sampling, names.own_sampling(entry))
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


def _check_rewards(section: dict, recipe: dict) -> Complaints:
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
