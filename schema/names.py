"""What the names in a recipe stand for: a model, a data set with its arguments, the folder of a
benchmark, a reward; and whether a recipe gives a function the arguments that it takes."""

import hashlib
import inspect
import re
import types
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Literal, Union, get_args, get_origin, get_type_hints

import rewards
from console.faults import Fault, nearest, nearest_or_all, said_by_library
from data.imports import named_function
from data.own import FILE_TYPES
from data.problems import data_set, likely_column
from rewards.tools import TOOLS
from schema.sections import SAMPLED, Recipe, Sampling
from schema.values import RULES, Number, Pattern, Where, count


def wrong_arguments(function: Callable, given: dict, also: Iterable[str] = ()) -> list[str]:
    """What is wrong with the arguments that a recipe gives: the function does not name one (a
    reward swallows every column of the data with `**columns`, so there a misspelt one would never
    be missed), or declares another type.

    Args:
        also: keys that stand beside the arguments in a recipe, and may be what was meant.
    """
    signature = inspect.signature(function).parameters
    parameters = {
        key: each for key, each in signature.items() if each.kind is not each.POSITIONAL_ONLY
    }
    wrong = [
        f"unknown argument {key!r}{nearest(key, [*parameters, *also])}"
        for key in given
        if key not in parameters
    ]
    try:
        hints = get_type_hints(function.func if isinstance(function, partial) else function)
    except Exception:  # a user's file may annotate with anything
        return wrong
    return wrong + [
        f"{key}: expected {describe(hints[key])}, got {value!r}"
        for key, value in given.items()
        if key in hints and not matches(value, hints[key])
    ]


WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
}
WORDS |= {dict: "a mapping", type(None): "nothing"}


def matches(value: object, hint: object) -> bool:
    """Whether a YAML value is of the type, with a whole number for any number. A type that YAML has
    no values of takes any."""
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, types.UnionType):
        return any(matches(value, option) for option in arguments)
    if kind is Literal:
        return value in arguments
    if kind in (int, float):
        return isinstance(value, int | kind) and not isinstance(value, bool)
    if kind is list and arguments:
        return isinstance(value, list) and all(matches(item, arguments[0]) for item in value)
    return kind not in WORDS or isinstance(value, kind)


def describe(hint: object) -> str:
    """A type of YAML's values in words, for a message."""
    kind, options = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, types.UnionType):
        return " or ".join(
            dict.fromkeys(describe(each) for each in options if each is not type(None))
        )
    return " or ".join(map(repr, options)) if kind is Literal else WORDS[kind]


def missing_names(function: Callable, given: Iterable[str]) -> list[str]:
    """The arguments that the function cannot do without and is not given."""
    needed = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.default is parameter.empty
    ]
    return [name for name in needed if name not in given]


def missing_arguments(function: Callable, given: Iterable[str]) -> list[str]:
    """A message for each of them."""
    return [f"needs the argument {name!r}" for name in missing_names(function, given)]


def no_such_folder(name: str) -> str | None:
    """What is wrong with the name of a model that is neither a folder nor possibly a Hub id, or
    None. The Hub is not asked for what must have been meant as a folder."""
    path = Path(name)
    if re.search("[\ud800-\udfff]", name):
        return "its name is not UTF-8: rename it"
    if path.is_dir():
        return None
    if path.exists():
        return f"{name} is a file; a model is a folder or a Hub id"
    if (
        not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name)
        or name.startswith(".")
        or ("/" in name and Path(path.parts[0]).exists())
    ):
        return f"there is no folder {name}, and it is no Hub id such as Qwen/Qwen2.5-Math-1.5B"
    return None


def named(entry: str | dict) -> tuple[str, dict]:
    """Name and arguments of a data set as a recipe writes it: `gsm8k`, or `arithmetic: {digits:
    2}`."""
    return (
        (entry, {})
        if isinstance(entry, str)
        else next((name, options or {}) for name, options in entry.items())
    )


def benchmark_labels(entries: list) -> list[str]:
    """The name of each benchmark's folder: `gsm8k`, `arithmetic-digits-3`, `mine` for
    `some/mine.jsonl`, whatever its columns. Where that is the same for two, all that the recipe
    says of each is in it, and a hash of that.
    """
    short = list(map(_label, entries))
    return [
        _label(each, short.count(label) > entries.count(each))
        for each, label in zip(entries, short, strict=True)
    ]


def _label(entry: str | dict, whole: bool = False) -> str:
    name, arguments = named(entry)
    end = f"-{hashlib.sha256(str((name, arguments)).encode()).hexdigest()[:8]}" if whole else ""
    name = Path(name).stem if Path(name).suffix in FILE_TYPES and not whole else name
    given = arguments.items() if isinstance(arguments, dict) else ()
    label = "-".join(
        [name, *(f"{key}-{value}" for key, value in given if whole or key != "columns")]
    )
    return re.sub(r"[^\w.-]+", "_", label)[: 100 - len(end)].lstrip(".") + end or "_"


def own_sampling(entry: str | dict) -> dict:
    """The keys of a benchmark that say how it is answered, but those that its function takes
    itself."""
    name, arguments = named(entry)
    own = SAMPLED & arguments.keys()
    return (
        {key: arguments[key] for key in own - inspect.signature(data_set(name)).parameters.keys()}
        if own
        else {}
    )


def samplings(recipe: Recipe) -> dict[str, Sampling]:
    """Label to sampling of every benchmark of the recipe."""
    entries, of = recipe.evaluate.benchmarks, recipe.evaluate.sampling
    return {
        label: of(**own_sampling(each))
        for label, each in zip(benchmark_labels(entries), entries, strict=True)
    }


# Keys of a data set that are not arguments of its function, of one to train on and of a benchmark.
DATA_KEYS = {"limit": count(), "where": Where()}
TRAIN_KEYS = DATA_KEYS | {"weight": Number(0, 100, above=True)}
BENCHMARK_KEYS = DATA_KEYS | {key: RULES["evaluate"][key] for key in SAMPLED}
# Keys of a reward that are not arguments of its function. A negative weight is a penalty; a timeout
# is in seconds per batch; `steps` makes it a reward of each step, and is what stands between two
# steps.
REWARD_KEYS = {"weight": Number(-1e6, 1e6), "timeout": Number(0, 1e5, above=True)}
REWARD_KEYS |= {"steps": Pattern(r"(?s).{1,20}", 'the text between two steps, such as "\\n"')}
# What a reward is given beside the columns of the data.
GIVEN = ("prompt", "prompts", "think_opened", "completions", "completion_ids")
GIVEN += ("trainer_state", "log_extra", "log_metric")
TRL = "trl.rewards."
# The models that training/tiny_models.py builds without a download.
BUILDERS = ("tiny-qwen3", "tiny-qwen3-tools", "smollm2-135m-instruct")
LEARNED = "learned"  # the reward model that trl asks: no function
# Columns of a run's files of completions, where each reward has one by its function's name.
RESERVED = ("step", "prompt", "completion", "advantage", "gold", "tokens", "truncated", "steps")


def reward_function(name: str) -> Callable:
    """The function behind a reward's name: one of `rewards`, one that trl documents, or a dotted
    path to one of the user's own.

    Raises:
        LookupError: nothing has that name.
        ImportError: it may not be named, or its file fails.
    """
    if "." not in name:
        if name in rewards.__all__:
            return getattr(rewards, name)
        raise LookupError(name)
    if name.startswith(TRL):
        from trl import rewards as of_trl

        documented = [each for each in of_trl.__all__ if inspect.isfunction(getattr(of_trl, each))]
        if (attribute := name.removeprefix(TRL)) in documented:
            return getattr(of_trl, attribute)
        raise ImportError(f"trl documents no such reward{nearest_or_all(attribute, documented)}")
    return named_function(name, "completions")


def bind_reward(name: str, options: dict) -> Callable:
    """The reward as GRPOTrainer calls it, with the recipe's arguments bound.

    A function that takes `completions` is the reward; any other is one of trl's factories, such as
    `get_soft_overlong_punishment`, and is called with the recipe's arguments to make one.
    """
    function = reward_function(name)
    arguments = {key: value for key, value in options.items() if key not in REWARD_KEYS}
    with said_by_library(f"rewards.{name}"):
        return partial(function, **arguments) if is_reward(function) else function(**arguments)


def tools_of(recipe: Recipe) -> dict[str, Callable[..., str]]:
    """The functions that the recipe's policy may call, by name."""
    return {name: TOOLS[name] for name, _ in map(named, recipe.tools or [])}


def prepare_rewards(recipe: Recipe, solutions: list):
    """Start what the rewards of this repository would otherwise wait for in the middle of a step,
    given the golds."""
    for name in recipe.rewards.keys() & set(rewards.__all__):
        if prepare := getattr(getattr(rewards, name), "prepare", None):
            prepare(solutions)


def is_reward(function: Callable) -> bool:
    return "completions" in inspect.signature(function).parameters


def takes_columns(reward: Callable) -> bool:
    """Whether a reward takes every column of the data, by a `**`."""
    parameters = inspect.signature(reward).parameters.values()
    return any(each.kind is each.VAR_KEYWORD for each in parameters)


def _settings(name: str, options: dict) -> set[str]:
    """The arguments of a reward that are the recipe's to give: those it does, and those behind a
    `*` that have a default."""
    parameters = inspect.signature(reward_function(name)).parameters
    own = {
        key
        for key, each in parameters.items()
        if each.kind is each.KEYWORD_ONLY and each.default is not each.empty
    }
    return own | (options.keys() - REWARD_KEYS.keys())


def missing_columns(recipe: Recipe, columns: list[str]) -> list[Fault]:
    """A fault for each argument of a reward that neither the recipe nor the data nor trl's trainer
    gives, and for each that a column of the data would take from the recipe."""

    def fault(name: str, message: str) -> Fault:
        return Fault(recipe.place("rewards", name), f"rewards.{name}: {message}")

    functions = {name: each for name, each in recipe.rewards.items() if name != LEARNED}
    last = {name: name.rpartition(".")[2] for name in functions}
    message = "is a column of completions/: rename the function"
    faults = [fault(name, f"{each} {message}") for name, each in last.items() if each in RESERVED]
    for name, options in functions.items():
        for each in sorted(_settings(name, options) & set(columns)):
            message = (
                f"the data has a column {each!r}, which would stand for this reward's argument of"
                " that name"
            )
            faults.append(fault(name, f"{message}: rename the column"))
    for name, options in functions.items():
        if is_reward(function := reward_function(name)):
            of_steps = {"steps_before"} if "steps" in options else set()
            for argument in missing_names(function, {*options, *columns, *GIVEN, *of_steps}):
                columns_hint = likely_column(argument, columns)
                message = f"needs the argument {argument!r}, which no column of the data has"
                faults.append(fault(name, f"{message}: {columns_hint}"))
    return faults
