"""What the names in a recipe stand for: a model, a data set with its arguments, the folder of a benchmark, a reward;
and whether a recipe gives a function the arguments that it takes."""

import inspect
import re
import types
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Literal, Union, get_args, get_origin, get_type_hints

import rewards
from data.imports import named_function
from data.sources import FILE_TYPES
from schema.faults import Fault, nearest, nearest_or_all, said_by_library
from schema.sections import Recipe
from schema.values import Number, Pattern, describe, matches


def unknown_arguments(name: str, function: Callable, given: Iterable[str], also: Iterable[str] = ()) -> list[str]:
    """Of the arguments that the function does not name: a reward swallows every column of the data with `**columns`, so
    there a misspelt one would never be missed.

    Args:
        also: keys that stand beside the arguments in a recipe, and may be what was meant.
    """
    parameters = inspect.signature(function).parameters
    known = [*parameters, *also]
    return [f"{name}: unknown argument {key!r}{nearest(key, known)}" for key in given if key not in parameters]


def wrong_types(name: str, function: Callable, given: dict) -> list[str]:
    """Of the arguments whose type the function declares."""
    target = function.func if isinstance(function, partial) else function
    try:
        hints = get_type_hints(target)
    except Exception:  # a user's file may annotate with anything
        return []
    return [
        f"{name}: {key}: expected {describe(hints[key])}, got {value!r}"
        for key, value in given.items()
        if key in hints and _plain(hints[key]) and not matches(value, hints[key])
    ]


def _plain(hint: object) -> bool:
    """Whether YAML has values of that type."""
    if get_origin(hint) in (Union, types.UnionType):
        return all(map(_plain, get_args(hint)))
    return (get_origin(hint) or hint) in (bool, int, float, str, list, dict, type(None), Literal)


def missing_arguments(name: str, function: Callable, given: Iterable[str]) -> list[str]:
    """Of the arguments that the function cannot do without."""
    needed = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.default is parameter.empty
    ]
    return [f"{name}: needs the argument {each!r}" for each in needed if each not in given]


def no_such_folder(name: str) -> str | None:
    """What is wrong with the name of a model that is neither a folder nor possibly a Hub id, or None. The Hub is not
    asked for what must have been meant as a folder."""
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
    """Name and arguments of a data set as a recipe writes it: `gsm8k`, or `arithmetic: {digits: 2}`."""
    return (entry, {}) if isinstance(entry, str) else next((name, options or {}) for name, options in entry.items())


def benchmark_label(entry: str | dict) -> str:
    """The name of a benchmark's folder: `gsm8k`, `arithmetic-digits-3`, `mine` for `some/mine.jsonl`."""
    name, arguments = named(entry)
    name = Path(name).stem if Path(name).suffix in FILE_TYPES else name
    arguments = arguments if isinstance(arguments, dict) else {}
    label = "-".join([name, *(f"{key}-{value}" for key, value in arguments.items())])
    return re.sub(r"[^\w.-]+", "_", label)[:100].lstrip(".") or "_"


# Keys of a reward that are not arguments of its function. A negative weight is a penalty; a timeout is in seconds per
# batch; `steps` makes it a reward of each step, and is what stands between two steps.
REWARD_KEYS = {"weight": Number(-1e6, 1e6), "timeout": Number(0, 1e5, above=True)}
REWARD_KEYS |= {"steps": Pattern(r"(?s).{1,20}", 'the text between two steps, such as "\\n"')}
TRL = "trl.rewards."
LEARNED = "learned"  # the reward that a model gives: see schema/models.py
# Columns of a run's files of completions, where each reward has one by its function's name.
RESERVED = ("step", "prompt", "completion", "advantage", "gold", "tokens", "truncated", "steps")


def reward_function(name: str) -> Callable:
    """The function behind a reward's name: one of `rewards`, one that trl documents, or a dotted path to one of the
    user's own.

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


def prepare_rewards(recipe: Recipe, solutions: list):
    """Start what the rewards of this repository would otherwise wait for in the middle of a step, given the golds."""
    for name in recipe.rewards.keys() & set(rewards.__all__):
        if prepare := getattr(getattr(rewards, name), "prepare", None):
            prepare(solutions)


def is_reward(function: Callable) -> bool:
    return "completions" in inspect.signature(function).parameters


def _settings(name: str, options: dict) -> set[str]:
    """The arguments of a reward that are the recipe's to give: those it does, and those behind a `*` that have a
    default."""
    parameters = inspect.signature(reward_function(name)).parameters
    own = {key for key, each in parameters.items() if each.kind is each.KEYWORD_ONLY and each.default is not each.empty}
    return own | (options.keys() - REWARD_KEYS.keys())


def missing_columns(recipe: Recipe, columns: list[str]) -> list[Fault]:
    """A fault for each argument of a reward that neither the recipe nor the data nor trl's trainer gives, and for each
    that a column of the data would take from the recipe."""
    columns_of_file = [
        Fault(recipe.place("rewards", name), f"rewards.{name}: {last} is a column of completions/: rename the function")
        for name in recipe.rewards
        if (last := name.rpartition(".")[2]) in RESERVED
    ]
    taken = [
        Fault(
            recipe.place("rewards", name),
            f"rewards.{name}: the data has a column {each!r}, which would stand for this reward's argument of that "
            "name: rename the column",
        )
        for name, options in recipe.rewards.items()
        for each in sorted(_settings(name, options) & set(columns))
    ]
    given = [*columns, "prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"]
    of_steps = ["steps_before"]
    return [*columns_of_file, *taken] + [
        Fault(
            recipe.place("rewards", name),
            f"rewards.{message}, which no column of the data has: there are {', '.join(columns)}",
        )
        for name, options in recipe.rewards.items()
        if is_reward(function := reward_function(name))
        for message in missing_arguments(name, function, [*options, *given, *of_steps * ("steps" in options)])
    ]
