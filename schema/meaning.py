"""What the rules for single keys cannot see: whether a name exists, whether its function takes the given arguments, and
whether the keys of a section, or two sections, go together. One function per section; and settings that are valid but
usually train badly.

Each is given its section, and the recipe, without the keys that are faulty already. A section of the recipe that is not
a mapping is empty there.
"""

import inspect
from collections import Counter
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import data as data_room
import rewards as rewards_room
from data.problems import data_set
from schema import combinations, models
from schema.combinations import Complaints
from schema.configs import setting
from schema.faults import Fault, Place, nearest, nearest_or_all
from schema.names import (
    LEARNED,
    REWARD_KEYS,
    benchmark_label,
    is_reward,
    missing_arguments,
    named,
    no_such_folder,
    reward_function,
    unknown_arguments,
    wrong_types,
)
from schema.sections import Evaluate, Recipe
from schema.stages import SECTIONS
from schema.values import count

# Rewards that pay for the answer, and rewards that pay for its form.
TRUTH = ("correct_answer", "partial_credit", "brevity")
FORM = ("format_tags", "tag_count", "language_consistency")

FEW = 50  # held-out problems: the 95% interval of an accuracy is then up to 27 points wide

LEVELS = ("error", "warning", "note")


def model(section: dict, recipe: dict) -> Complaints:
    if (section.get("name_or_path") is None) == (section.get("build") is None):
        yield (), "model: set exactly one of `name_or_path` (a Hub id or a folder) and `build` (a model made here)"
    name = section.get("name_or_path")
    if name and (wrong := no_such_folder(name)):
        yield ("name_or_path",), f"model.name_or_path: {wrong}"
    build = section.get("build")
    if isinstance(build, str) and build not in models.BUILDERS:
        yield ("build",), f"model.build: no builder {build!r}{nearest(build, models.BUILDERS)}"
    attention = section.get("attn_implementation")
    package = {"flash_attention_2": "flash_attn", "flash_attention_3": "flash_attn_interface"}.get(str(attention))
    if package and find_spec(package) is None:
        yield (
            ("attn_implementation",),
            f"model.attn_implementation: {attention} needs the package {package}, which is not installed; transformers "
            "would download a kernel from the Hub instead; sdpa is as fast for most models",
        )


def quantization(section: dict, recipe: dict) -> Complaints:
    if recipe.get("adapter") is None:
        yield (), "quantization: quantised weights cannot be trained; add an `adapter` section"
    if [section.get(key) for key in ("load_in_4bit", "load_in_8bit")].count(True) != 1:
        yield (), "quantization: set exactly one of load_in_4bit and load_in_8bit to true"


def data(section: dict, recipe: dict) -> Complaints:
    if section.get("train", []) == []:
        yield ("train",) if "train" in section else (), "data.train: name at least one data set"
    yield from _data_sets("data", "train", section.get("train"))
    if section.get("dir") and not Path(section["dir"]).is_dir():
        yield ("dir",), f"data.dir: {section['dir']} is not a folder"
    yield from combinations.own_solutions(section, recipe)


def evaluate(section: dict, recipe: dict) -> Complaints:
    entries = section.get("benchmarks", [])
    yield from _data_sets("evaluate", "benchmarks", entries)
    if isinstance(entries, list) and all(isinstance(e, str) or (isinstance(e, dict) and e) for e in entries):
        for label, times in Counter(map(benchmark_label, entries)).items():
            if times > 1:
                yield ("benchmarks",), f"evaluate.benchmarks: {label} is named {times} times; their results would mix"
    samples, temperature = section.get("samples", Evaluate.samples), section.get("temperature", Evaluate.temperature)
    if samples > 1 and temperature == 0:
        yield (
            ("samples",),
            f"evaluate.samples: {samples} greedy answers to a problem would all be the same; set evaluate.temperature",
        )
    if section.get("engine") == "vllm" and recipe.get("quantization"):
        yield (
            ("engine",),
            "evaluate.engine: vllm would serve the adapter on unquantised weights, on which it was not trained: "
            "set it to transformers",
        )


def _data_sets(section: str, key: str, entries: object) -> Complaints:
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, str) and not (isinstance(entry, dict) and len(entry) == 1):
            yield (key,), f"{section}.{key}: {entry!r} is neither a name nor a single `name: {{arguments}}`"
            continue
        name, options = named(entry)
        if not isinstance(options, dict):
            yield (key, name), f"{name}: expected arguments such as {{digits: 2}}, got {options!r}"
            continue
        try:
            function = data_set(name)
        except LookupError:
            known = [each.replace("_", "-") for each in data_room.__all__]
            yield (key, name), f"unknown data set {name!r}{nearest_or_all(name, known)}"
            continue
        except ImportError as error:
            yield (key, name), f"data set {name!r}: {error}"
            continue
        own = [key for key in options if key in ("split", "folder")]  # the stage's to give
        wrong = [f"{name}: {key!r} is not a recipe's to give: the stage sets it" for key in own]
        wrong += unknown_arguments(name, function, options) + missing_arguments(name, function, ["split", *options])
        wrong += wrong_types(name, function, options)
        yield from (((key, name), message) for message in wrong)


def rewards(section: dict, recipe: dict) -> Complaints:
    if not section:
        yield (), "rewards: name at least one reward"
    elif all(isinstance(options, dict) and options.get("weight", 1.0) == 0 for options in section.values()):
        yield (), "rewards: all weights are 0, so nothing would be learned"
    steps = [name for name, options in section.items() if isinstance(options, dict) and "steps" in options]
    if len(steps) > 1:
        yield (steps[1], "steps"), f"rewards.{steps[1]}.steps: {steps[0]} has `steps` already, and only one may"
    if steps == list(section):
        yield (), "rewards: add one for whole completions, such as correct_answer: only the steps have one"
    for name, options in section.items():
        if not isinstance(options, dict):
            yield (name,), f"rewards.{name}: expected a mapping such as {{weight: 1.0}}, got {options!r}"
            continue
        for key, rule in REWARD_KEYS.items():
            if key in options and (wrong := rule.refusal(options[key])):
                yield (name, key), f"rewards.{name}.{key}: {wrong}"
        try:
            function = reward_function(name)
        except LookupError:
            known = rewards_room.__all__
            yield (name,), f"unknown reward {name!r}{nearest_or_all(name, known)}"
            continue
        except ImportError as error:
            yield (name,), f"reward {name!r}: {error}"
            continue
        arguments = {key: value for key, value in options.items() if key not in REWARD_KEYS}
        wrong = unknown_arguments(name, function, arguments, also=REWARD_KEYS) + wrong_types(name, function, arguments)
        if name == "correct_answer" and "steps" in options:
            wrong.append("correct_answer: a step is no answer; leave `steps` out")
        if name == LEARNED:
            yield from models.complaints(options, recipe)
        if name == "brevity" and (refused := count().refusal(options.get("longest"))):
            yield (name,), f"rewards.brevity.longest: {refused}; set it to grpo.max_completion_length"
        # Whatever else a reward needs must be columns of the data: see missing_columns.
        if not is_reward(function):
            wrong += missing_arguments(name, function, arguments)
        elif not any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values()):
            wrong.append(f"{name}: add `**columns` to its parameters: a reward is given every column of the data")
        yield from (((name,), message) for message in wrong)


CHECKS = {
    "model": model,
    "quantization": quantization,
    "data": data,
    "rewards": rewards,
    **{section: partial(combinations.of_stage, section) for section in SECTIONS},
    "evaluate": evaluate,
}


class Finding(NamedTuple):
    """A line of `make check`. `level`: error (it will not run as written), warning (it will run and disappoint), or
    note."""

    level: str
    place: Place | str
    message: str

    def __str__(self) -> str:
        return f"{self.level}: {Fault(self.place, self.message)}"


def warnings_of(recipe: Recipe) -> Iterator[Finding]:
    """Warnings and notes about a recipe, each in the place of the key to change."""
    rate, group = (setting(recipe, "grpo", key) for key in ("learning_rate", "num_generations"))
    if recipe.adapter is not None and rate < 4e-6:
        yield finding(
            recipe,
            "warning",
            ("grpo", "learning_rate"),
            f"{rate:g} is a learning rate for full fine-tuning; an adapter wants ten times that or more: try 1e-5",
        )
    if group < 4:
        yield finding(
            recipe,
            "warning",
            ("grpo", "num_generations"),
            f"in a group of {group} the mean says little, and most groups are all right or all wrong; take 8 or more",
        )
    paid = recipe.weights
    truth = sum(weight for name, weight in paid.items() if name not in FORM)
    form = sum(weight for name, weight in paid.items() if name in FORM)
    if form >= truth:
        yield finding(
            recipe,
            "warning",
            ("rewards",),
            f"form is paid {form:g} and a right answer {truth:g}: the policy learns what pays more; give form a "
            "quarter of the answer's weight",
        )
    yield from _held_out_warnings(recipe)
    yield from _learned_warnings(recipe)
    if recipe.model.dtype == "float16":
        message = "float16 overflows in long completions and ends in NaN; use bfloat16 or float32"
        yield finding(recipe, "warning", ("model", "dtype"), message)
    strict = recipe.strict or not any(name in paid for name in TRUTH)
    if recipe.sft is None and strict and set(paid) <= {*TRUTH, *FORM} and "tag_count" not in paid:
        yield finding(
            recipe,
            "warning",
            ("rewards",),
            "without a warm start a model seldom writes the tags, and no reward here pays without them: add an sft "
            "section, or `tag_count`, or leave `strict` out",
        )


def _learned_warnings(recipe: Recipe) -> Iterator[Finding]:
    """A policy that is optimised against a reward model long enough is rewarded for the model's mistakes (Gao et al.
    2022, arXiv:2210.10760)."""
    if LEARNED not in recipe.rewards:
        return
    key = ("rewards", LEARNED)
    if not any(recipe.weights.get(name, 0) > 0 for name in TRUTH):
        message = "a reward model alone is gamed: put a rule beside it that says what is right, such as correct_answer"
        yield finding(recipe, "warning", key, message)
    if not setting(recipe, "grpo", "beta"):
        message = "without a KL term nothing keeps the policy near what the reward model has seen: grpo.beta, say 0.04"
        yield finding(recipe, "note", key, message)


def _held_out_warnings(recipe: Recipe) -> Iterator[Finding]:
    held_out, choosing = recipe.data.validation, recipe.evaluate.checkpoint_problems
    left = held_out - choosing if setting(recipe, "grpo", "eval_steps") else held_out
    if 0 < left < FEW:
        of = f" ({choosing} of the {held_out} choose the checkpoint)" if left < held_out else ""
        message = f"{left} problems are left to compare the stages{of}, too few to show a gain: raise it"
        yield finding(recipe, "warning", ("data", "validation"), message)


def finding(recipe: Recipe, level: str, keys: tuple, message: str) -> Finding:
    return Finding(level, recipe.place(*keys), f"{'.'.join(keys)}: {message}")
