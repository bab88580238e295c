"""What the names in a recipe stand for: a model, a data set with its arguments, the folder of a
benchmark, a reward; whether they exist, and whether a recipe's arguments fit the function that
takes them."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import get_type_hints

import rewards
from console.faults import Complaints, Fault, item, nearest, nearest_or_all, said_by_library
from data import SETS
from data.files import FILE_TYPES
from data.imports import named_function
from data.own import column_faults, of_file
from data.problems import data_set, likely_column
from rewards.tools import TOOLS
from schema.refused_keys import GONE_REWARDS
from schema.sections import SAMPLED, Evaluate, Sampling
from schema.settings import Recipe
from schema.value_types import above, integer, number, of_type, text, type_fault
from schema.values import TYPES, WHERE


def argument_faults(
    function: Callable, arguments: dict, option_keys: Iterable[str] = ()
) -> list[str]:
    """The faults of the arguments that a recipe gives to a function: a name that the function does
    not declare, or a value that is not of the declared type. A reward swallows every column of the
    data with `**columns`, so a misspelt name would never be missed there. `option_keys` stand
    beside the arguments in a recipe, and may be what was meant."""
    parameters = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not parameter.POSITIONAL_ONLY:
            parameters.append(name)
    messages = []
    for key in arguments:
        if key not in parameters:
            messages.append(f"unknown argument {key!r}{nearest(key, [*parameters, *option_keys])}")
    try:
        hints = get_type_hints(unbound(function))
    except Exception:  # a user's file may annotate with anything
        return messages
    for key, value in arguments.items():
        refusal = type_fault(of_type(hints.get(key)), value)
        if refusal:
            messages.append(f"{key}: {refusal}")
    return messages


def unbound(function: Callable) -> Callable:
    """The function itself, without the arguments that `partial` has bound to it."""
    if isinstance(function, partial):
        return function.func
    return function


def missing_names(function: Callable, available: Iterable[str]) -> list[str]:
    """The arguments without a default that are not among the available ones."""
    names = []
    for parameter in inspect.signature(function).parameters.values():
        named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if named and parameter.default is parameter.empty and parameter.name not in available:
            names.append(parameter.name)
    return names


MODEL_ADDRESS = r"(?:https?://)?(?:huggingface|hf)\.co/([\w.-]+/[\w.-]+)(?:/.*)?"


def no_such_folder(name: str) -> str | None:
    """The fault of a model's name that is no folder and cannot be a Hub id, or None. The Hub is not
    asked for a name that must have been meant as a folder."""
    path = Path(name)
    if re.search("[\ud800-\udfff]", name):
        return "its name is not UTF-8: rename it"
    if path.is_dir():
        return None
    if "gguf" in name.lower():
        return "a GGUF cannot be trained: name the model that it was made from, by its Hub id"
    address = re.fullmatch(MODEL_ADDRESS, name)
    if address:
        return f"a model of the Hub is named by its id: write {address[1]}"
    if re.fullmatch(r"[\w.-]+:[\w.-]+", name):
        return f"{name} is a tag of Ollama: name the model by its Hub id, as Qwen/Qwen3-0.6B"
    if path.exists():
        return f"{name} is a file; a model is a folder or a Hub id"
    if path.parts[:1] == ("outputs",):
        return f"there is no folder {name} yet: first finish the run that writes it"
    is_hub_id = re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) and not name.startswith(".")
    if not is_hub_id or ("/" in name and Path(path.parts[0]).exists()):
        return f"there is no folder {name}, and it is no Hub id such as Qwen/Qwen2.5-Math-1.5B"
    return None


def entries_of(data_sets: object) -> list:
    """The entries of a list of data sets; none where it is no list, as in a recipe with faults."""
    if isinstance(data_sets, list):
        return data_sets
    return []


def name_and_arguments(entry: str | dict) -> tuple[str, dict]:
    """Name and arguments of a data set as a recipe writes it: `gsm8k`, or `arithmetic: {digits:
    2}`."""
    if isinstance(entry, str):
        return entry, {}
    name, arguments = next(iter(entry.items()))
    return name, arguments or {}


def benchmark_label(entry: str | dict) -> str:
    """The name of a benchmark's folder: `gsm8k`, `arithmetic-digits-3`, or `mine` for
    `some/mine.jsonl`, whatever its columns."""
    name, arguments = name_and_arguments(entry)
    if Path(name).suffix in FILE_TYPES:
        name = Path(name).stem
    words = [name]
    if isinstance(arguments, dict):
        words += [f"{key}-{value}" for key, value in arguments.items() if key != "columns"]
    return re.sub(r"[^\w.-]+", "_", "-".join(words))[:100].lstrip(".") or "_"


def own_sampling(entry: str | dict) -> dict:
    """A benchmark's own settings of how it is answered. A setting that its function declares as an
    argument is none."""
    name, arguments = name_and_arguments(entry)
    settings = {key: value for key, value in arguments.items() if key in SAMPLED}
    if not settings:
        return {}
    parameters = inspect.signature(data_set(name)).parameters
    return {key: value for key, value in settings.items() if key not in parameters}


def samplings(recipe: Recipe) -> dict[str, Sampling]:
    """How each benchmark of the recipe is answered, by the benchmark's label."""
    by_label = {}
    for entry in recipe.evaluate.benchmarks:
        by_label[benchmark_label(entry)] = recipe.evaluate.sampling(**own_sampling(entry))
    return by_label


# What an evaluation's folder holds beside the folders of benchmarks: the completions for validation
# problems, by their former name too, and those of models that the user names.
TAKEN_LABELS = ("validation", "held-out", "models")
ONE_TURN = "it learns from answers of one turn, and `tools` make several: leave one of them out"
# Keys of a data set that are not arguments of its function: of every set, of a set to train on, and
# of a benchmark.
DATA_KEYS = {"limit": integer(), "where": WHERE}
TRAIN_KEYS = DATA_KEYS | {"weight": above(0, 100)}
BENCHMARK_KEYS = DATA_KEYS | {key: TYPES["evaluate"][key] for key in SAMPLED}
# Keys of a reward that are not arguments of its function. A negative weight is a penalty. A timeout
# is in seconds per batch. `steps` makes it a reward of single steps, and is the text between two.
REWARD_KEYS = {
    "weight": number(-1e6, 1e6),
    "timeout": above(0, 1e5),
    "steps": text(r"[\s\S]{1,20}", 'the text between two steps, such as "\\n"'),
}
# What trl's trainer passes to a reward beside the columns of the data.
TRAINER_ARGUMENTS = ("prompt", "prompts", "think_opened", "completions", "completion_ids")
TRAINER_ARGUMENTS += ("trainer_state", "log_extra", "log_metric")
TRL = "trl.rewards."
# Columns of a run's files of completions. There a reward's column has the name of its function.
RESERVED = ("step", "prompt", "completion", "advantage", "gold", "tokens", "truncated", "steps")
# What no function of the user's is called there by its name alone.
NAMED = (*RESERVED, *rewards.__all__)


def is_reward_model(name: str) -> bool:
    """Whether a reward's name is the Hub id or the folder of a model, which trl asks by itself."""
    return "/" in name


def reward_function(name: str) -> Callable:
    """The function behind a reward's name: a function of `rewards`, a reward that trl documents, or
    the function at a dotted path into the user's code.

    Raises:
        LookupError: nothing has that name.
        ImportError: it may not be named, or its file fails.
    """
    if "." not in name:
        if name in rewards.__all__:
            return getattr(rewards, name)
        raise LookupError(name)
    if name.startswith(TRL):
        from trl import rewards as trl_rewards

        functions = {}
        for attribute in trl_rewards.__all__:
            if inspect.isfunction(getattr(trl_rewards, attribute)):
                functions[attribute] = getattr(trl_rewards, attribute)
        attribute = name.removeprefix(TRL)
        if attribute in functions:
            return functions[attribute]
        raise ImportError(f"trl documents no such reward{nearest_or_all(attribute, functions)}")
    return named_function(name, "completions")


def reward_arguments(options: dict) -> dict:
    """The options of a reward that are arguments of its function."""
    return {key: value for key, value in options.items() if key not in REWARD_KEYS}


def bind_reward(name: str, options: dict) -> Callable:
    """The reward as GRPOTrainer calls it, with the recipe's arguments bound.

    A function that takes `completions` is the reward itself. Any other function is a factory of
    trl, such as `get_soft_overlong_punishment`: called with the arguments, it returns the reward.
    """
    function = reward_function(name)
    arguments = reward_arguments(options)
    with said_by_library(f"rewards.{name}"):
        if is_reward(function):
            return partial(function, **arguments)
        return function(**arguments)


def tools_of(recipe: Recipe) -> dict[str, Callable[..., str]]:
    """The functions that the recipe's policy may call, by name."""
    return {name: TOOLS[name] for name in recipe.tools or []}


def prepare_rewards(recipe: Recipe, solutions: list):
    """Start what the built-in rewards would otherwise wait for in the middle of a step.
    `solutions`: the golds of the problems."""
    for name in recipe.rewards.keys() & set(rewards.__all__):
        prepare = getattr(getattr(rewards, name), "prepare", None)
        if prepare is not None:
            prepare(solutions)


def is_reward(function: Callable) -> bool:
    return "completions" in inspect.signature(function).parameters


def takes_columns(reward: Callable) -> bool:
    """Whether a reward takes every column of the data, with a parameter such as `**columns`."""
    parameters = inspect.signature(reward).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _recipe_arguments(name: str, options: dict) -> set[str]:
    """The arguments of a reward that only the recipe may set: those that it does set, and those
    that are keyword-only and have a default."""
    arguments = set(reward_arguments(options))
    for key, parameter in inspect.signature(reward_function(name)).parameters.items():
        has_default = parameter.default is not parameter.empty
        if parameter.kind is parameter.KEYWORD_ONLY and has_default:
            arguments.add(key)
    return arguments


def missing_columns(recipe: Recipe, columns: list[str]) -> list[Fault]:
    """The faults of the rewards beside these columns of the data: a column would stand for an
    argument that only the recipe may set; or an argument is given by neither the recipe nor the
    data nor trl's trainer."""
    faults = []
    for name, options in recipe.rewards.items():
        if is_reward_model(name):
            continue
        messages = []
        for column in sorted(_recipe_arguments(name, options) & set(columns)):
            message = f"the data has a column {column!r}, which would stand for this reward's"
            messages.append(f"{message} argument of that name: rename the column")
        function = reward_function(name)
        available = {*options, *columns, *TRAINER_ARGUMENTS}
        if "steps" in options:
            available.add("steps_before")
        # The arguments of a factory are judged in `complaints`.
        if is_reward(function):
            for argument in missing_names(function, available):
                message = f"needs the argument {argument!r}, which no column of the data has"
                messages.append(f"{message}: {likely_column(argument, columns)}")
        for message in messages:
            faults.append(Fault(recipe.place("rewards", name), f"rewards.{name}: {message}"))
    return faults


# Whether the names exist, and take the arguments ------------------------------------------------

# Keys of a data set that only some data sets have, with the place where they belong.
ELSEWHERE = (
    ("data.train", TRAIN_KEYS),
    ("evaluate.benchmarks", BENCHMARK_KEYS),
    ("a file, a folder or a set of the Hub", {"columns"}),
)


def complaints(recipe: dict) -> Complaints:
    """Yield the faults of the data sets and of the rewards that a recipe names. Its sections
    are mappings, without the keys that are faulty by themselves."""
    train = recipe.get("data", {}).get("train")
    yield from _check_data_sets(("data", "train"), train, TRAIN_KEYS)
    evaluate = recipe.get("evaluate", {})
    sampling = {key: evaluate.get(key, getattr(Evaluate, key)) for key in SAMPLED}
    keys = ("evaluate", "benchmarks")
    yield from _check_data_sets(keys, evaluate.get("benchmarks"), BENCHMARK_KEYS, sampling)
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
    for entry in entries_of(entries):
        for message in _entry_faults(entry, rules, sampling):
            yield (*keys, item(entry)), message


def _entry_faults(entry: object, rules: dict, sampling: dict | None) -> list[str]:
    if not isinstance(entry, str) and not (isinstance(entry, dict) and len(entry) == 1):
        return [f"{entry!r} is neither a name nor a single `name: {{arguments}}`"]
    name, options = name_and_arguments(entry)
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
        messages += _greedy_faults(sampling, own_sampling(entry))
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
        if key in parameters:
            arguments[key] = value
        elif key in rules:
            shared[key] = value
        elif _place_of(key):
            messages.append(f"{key!r} is for {_place_of(key)}: leave it out here")
        else:
            arguments[key] = value
        if key in ("split", "folder") and not is_users:
            messages.append(f"{key!r} is not a recipe's to give: the stage sets it")
    if is_users and function.func is of_file and arguments.pop("split", None) is not None:
        message = "a file has no splits: leave it out, or name a folder that has a file for each"
        messages.append(f"split: {message}")
    for message in argument_faults(function, arguments, rules):
        messages.append(message + _as_columns(arguments, message))
    for name in missing_names(function, ["split", *arguments]):
        messages.append(f"needs the argument {name!r}")
    for key, value in shared.items():
        refusal = type_fault(rules[key], value)
        if refusal:
            messages.append(f"{key}: {refusal}")
    if is_users and isinstance(arguments.get("columns"), dict):
        messages += column_faults(arguments["columns"])
    return messages


def _place_of(key: str) -> str | None:
    """Where else in a recipe a data set takes this key."""
    for place, keys in ELSEWHERE:
        if key in keys:
            return place
    return None


def _as_columns(arguments: dict, message: str) -> str:
    """`: write {problem: …, answer: …}` for the fault of `columns` that are a list; else empty."""
    columns = arguments.get("columns")
    if not isinstance(columns, list) or not message.startswith("columns: expected"):
        return ""
    pairs = zip(("problem", "answer", "reasoning"), columns, strict=False)
    return f": write {{{', '.join(f'{part}: {column}' for part, column in pairs)}}}"


def _check_rewards(section: dict, recipe: dict) -> Complaints:
    yield from _check_completion_rewards(section, recipe)
    for name, options in section.items():
        if not isinstance(options, dict):
            message = f"expected a mapping such as {{weight: 1.0}}, got {options!r:.80}"
            if type(options) in (int, float):
                message = f"expected a mapping, got {options}: write {name}: {{weight: {options}}}"
            yield ("rewards", name), message
        elif is_reward_model(name):
            yield from _check_reward_model(name, options)
        else:
            yield from _check_reward(name, options)


def _check_reward_model(name: str, options: dict) -> Complaints:
    refusal = no_such_folder(name)
    if refusal:
        yield ("rewards", name), refusal
    for key, value in options.items():
        refusal = "trl asks the model by itself, and a `weight` is all it has: leave it out"
        if key == "weight":
            refusal = type_fault(REWARD_KEYS[key], value)
        if refusal:
            yield ("rewards", name, key), refusal


def _check_reward(name: str, options: dict) -> Complaints:
    for key, kind in REWARD_KEYS.items():
        if key in options:
            refusal = type_fault(kind, options[key])
            if refusal:
                yield ("rewards", name, key), refusal
    try:
        function = reward_function(name)
    except LookupError:
        advice = nearest_or_all(name, rewards.__all__)
        advice += "; your own has its file before its name, as mine.short_proofs"
        if name in GONE_REWARDS:
            advice = f": {GONE_REWARDS[name]}"
        yield ("rewards", name), f"unknown reward{advice}"
    except ImportError as error:
        yield ("rewards", name), str(error)
    else:
        yield from _check_arguments(name, function, reward_arguments(options))


def _check_arguments(name: str, function: Callable, arguments: dict) -> Complaints:
    """Check the arguments of a reward, that a factory gets all of them, and that a reward takes
    every column of the data. What else a reward needs must be columns of the data: see
    `missing_columns`."""
    for key, value in arguments.items():
        if key in TRAINER_ARGUMENTS:
            yield ("rewards", name, key), "the trainer gives it; leave it out"
        else:
            for message in argument_faults(function, {key: value}, REWARD_KEYS):
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
    if not is_reward(function):
        for argument in missing_names(function, arguments):
            yield ("rewards", name), f"needs the argument {argument!r}"
    elif not takes_columns(function):
        message = "add `**columns` to its parameters: a reward is given every column of the data"
        yield ("rewards", name), message


def _check_completion_rewards(section: dict, recipe: dict) -> Complaints:
    """Check that at least one reward is a function of whole completions, and that the rewards that
    are none, a reward of steps and a reward model, fit the rest of the recipe."""
    models = list(filter(is_reward_model, section))
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
