"""What the rules for single keys cannot see: whether a name exists, whether its function takes the
arguments, and whether the keys of a section, or of two sections, go together. The table CHECKS has
a function for each section.

These functions take their section and the recipe without the keys that are faulty already. A
section of the recipe that is not a mapping is empty there.
"""

import inspect
from collections import Counter
from collections.abc import Callable
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
from schema.training_rules import NOT_BY_VLLM, ONE_TURN, check_stage
from schema.values import RULES, count

# All options of a reward model: trl asks it itself, and knows no others.
OF_LEARNED = {
    "model": RULES["model"]["name_or_path"],
    "revision": RULES["model"]["revision"],
    "weight": names.REWARD_KEYS["weight"],
}
# Keys of a data set that only some data sets have, with the place where they belong.
ELSEWHERE = (
    ("data.train", names.TRAIN_KEYS),
    ("evaluate.benchmarks", names.BENCHMARK_KEYS),
    ("a file, a folder or a set of the Hub", {"columns"}),
)


def check_model(section: dict, recipe: dict) -> Complaints:
    name, build = section.get("name_or_path"), section.get("build")
    if (name is None) == (build is None):
        message = "set exactly one of `name_or_path` (a Hub id or a folder) and `build` (made here)"
        if build is not None:
            message += "; `build: null`, or `name_or_path: null`, takes away a base's"
        yield (), f"model: {message}"
    refusal = names.no_such_folder(name) if name else None
    if refusal:
        yield ("name_or_path",), f"model.name_or_path: {refusal}"
    if isinstance(build, str) and build not in names.BUILDERS:
        yield ("build",), f"model.build: no builder {build!r}{nearest(build, names.BUILDERS)}"
    if section.get("dtype") == "float16":
        yield from _check_float16(recipe)


def _check_float16(recipe: dict) -> Complaints:
    message = "float16 weights cannot be trained, only an adapter beside them"
    if not recipe.get("adapter"):
        remedy = "add an `adapter` section"
    elif recipe["adapter"].get("modules_to_save"):
        remedy = "leave adapter.modules_to_save out"
    else:
        return
    yield ("dtype",), f"model.dtype: {message}: {remedy}, or take float32"


def check_adapter(section: dict, recipe: dict) -> Complaints:
    """Refuse what peft and vLLM cannot do with an adapter on parameters, such as the experts of a
    layer."""
    if not section.get("target_parameters"):
        return
    for key in ("lora_dropout", "lora_bias", "use_dora"):
        if section.get(key):
            message = "peft has none for adapter.target_parameters: leave it out"
            yield (key,), f"adapter.{key}: {message}"
    if recipe.get("grpo", {}).get("use_vllm") or recipe.get("evaluate", {}).get("engine") == "vllm":
        message = (
            "vLLM has not been tried with them: set grpo.use_vllm: false and evaluate.engine:"
            " transformers"
        )
        yield ("target_parameters",), f"adapter.target_parameters: {message}"


def check_quantization(section: dict, recipe: dict) -> Complaints:
    if recipe.get("adapter") is None:
        yield (), "quantization: quantised weights cannot be trained; add an `adapter` section"
    if [section.get(key) for key in ("load_in_4bit", "load_in_8bit")].count(True) != 1:
        yield (), "quantization: set exactly one of load_in_4bit and load_in_8bit to true"


def check_data(section: dict, recipe: dict) -> Complaints:
    if section.get("train", []) == []:
        yield ("train",) if "train" in section else (), "data.train: name at least one data set"
    yield from _check_data_sets("data", "train", section.get("train"), names.TRAIN_KEYS)
    if section.get("dir") and not Path(section["dir"]).is_dir():
        yield ("dir",), f"data.dir: {section['dir']} is not a folder"
    if section.get("own_solutions") is None:
        return
    if recipe.get("sft") is None:
        message = "they are for a warm start, and this recipe has no `sft` section: add one"
        yield ("own_solutions",), f"data.own_solutions: {message}"
    if recipe.get("tools"):
        yield ("own_solutions",), f"data.own_solutions: {ONE_TURN}"
    if section.get("worked") is not None:
        message = "it counts the data's worked solutions, which data.own_solutions replaces"
        yield ("worked",), f"data.worked: {message}: keep one of them"


def check_evaluate(section: dict, recipe: dict) -> Complaints:
    entries = section.get("benchmarks", [])
    defaults = {key: getattr(Evaluate, key) for key in names.SAMPLED}
    settings = {key: section[key] for key in defaults if key in section}
    sampling = defaults | settings
    yield from _check_data_sets("evaluate", "benchmarks", entries, names.BENCHMARK_KEYS, sampling)
    if isinstance(entries, list) and all(map(_has_label, entries)):
        for label, times in Counter(map(names.benchmark_label, entries)).items():
            if times > 1:
                remedy = "leave one out, or rename its file"
                message = f"{label} is named {times} times; their results would mix: {remedy}"
                yield ("benchmarks",), f"evaluate.benchmarks: {message}"
    for message in _greedy_faults(defaults, settings | {"top_p": 1}, "evaluate."):
        yield ("samples",), f"evaluate.{message}"
    if section.get("engine") == "vllm" and recipe.get("quantization"):
        message = "vllm would serve the adapter on unquantised weights, on which it was not trained"
        yield ("engine",), f"evaluate.engine: {message}: set it to transformers"
    if section.get("engine") == "vllm" and recipe.get("tools"):
        yield ("engine",), f"evaluate.engine: with `tools` {NOT_BY_VLLM}"


def _has_label(entry: object) -> bool:
    return isinstance(entry, str) or (isinstance(entry, dict) and bool(entry))


def _greedy_faults(defaults: dict, settings: dict, section: str = "") -> list[str]:
    """The faults of a benchmark's own sampling settings, or of a section's, if its answers are
    greedy."""
    sampling = defaults | settings
    if sampling["temperature"]:
        return []
    messages = []
    if sampling["samples"] > 1 and settings.keys() & {"samples", "temperature"}:
        message = "greedy answers to a problem would all be the same"
        messages.append(f"samples: {sampling['samples']} {message}; set {section}temperature")
    if settings.get("top_p", 1) < 1:
        messages.append("top_p: greedy answers do not read it; set temperature, or leave it out")
    return messages


def _check_data_sets(
    section: str, key: str, entries: object, rules: dict, sampling: dict | None = None
) -> Complaints:
    """Check a list of data sets.

    Args:
        rules: the rule of each key that every data set in this list may have.
        sampling: how benchmarks without sampling settings of their own are answered.
    """
    for entry in entries if isinstance(entries, list) else []:
        for message in _entry_faults(f"{section}.{key}", entry, rules, sampling):
            yield (key, item(entry)), message


def _entry_faults(key: str, entry: object, rules: dict, sampling: dict | None) -> list[str]:
    """The faults of one data set in a list of them."""
    if not isinstance(entry, str) and not (isinstance(entry, dict) and len(entry) == 1):
        return [f"{key}: {entry!r} is neither a name nor a single `name: {{arguments}}`"]
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
        messages = _greedy_faults(sampling, names.own_sampling(entry))
    return [f"{name}: {message}" for message in messages]


def _option_faults(function: Callable, options: dict, rules: dict) -> list[str]:
    """The faults of a data set's options: of its function's arguments, and of the keys that every
    data set in the list may have."""
    parameters = inspect.signature(function).parameters
    is_users = isinstance(function, partial)  # a file, a folder or a set of the Hub
    shared = {key: rules[key] for key in rules if key in options and key not in parameters}
    arguments = {key: value for key, value in options.items() if key not in shared}
    messages = []
    for key in arguments:
        if key in ("split", "folder") and not is_users:
            messages.append(f"{key!r} is not a recipe's to give: the stage sets it")
    places = _misplaced_keys(arguments, parameters)
    messages += [f"{key!r} is for {place}: leave it out here" for key, place in places.items()]
    arguments = {key: value for key, value in arguments.items() if key not in places}
    is_file = is_users and function.func is of_file
    if is_file and arguments.pop("split", None) is not None:
        message = "a file has no splits: leave it out, or name a folder that has a file for each"
        messages.append(f"split: {message}")
    messages += names.argument_faults(function, arguments, rules)
    messages += names.missing_arguments(function, ["split", *arguments])
    for key, rule in shared.items():
        refusal = rule.refusal(options[key])
        if refusal:
            messages.append(f"{key}: {refusal}")
    if is_users and isinstance(arguments.get("columns"), dict):
        messages += column_faults(arguments["columns"])
    return messages


def _misplaced_keys(arguments: dict, parameters: dict) -> dict[str, str]:
    """The arguments that belong to other data sets, each with the place where it belongs."""
    places = {}
    for place, keys in ELSEWHERE:
        for key in arguments:
            if key in keys and key not in parameters:
                places[key] = place
    return places


def check_rewards(section: dict, recipe: dict) -> Complaints:
    if not section:
        yield (), "rewards: name at least one reward"
    elif all(_has_zero_weight(options) for options in section.values()):
        yield (), "rewards: all weights are 0, so nothing would be learned"
    yield from _check_completion_rewards(section, recipe)
    for name, options in section.items():
        if not isinstance(options, dict):
            message = f"expected a mapping such as {{weight: 1.0}}, got {options!r}"
            yield (name,), f"rewards.{name}: {message}"
        elif name == names.LEARNED:
            yield from _check_reward_model(options)
        else:
            yield from _check_reward(name, options)


def _check_reward_model(options: dict) -> Complaints:
    """What is wrong with the options of the recipe's reward model."""
    about = f"rewards.{names.LEARNED}"
    refusals = {}
    for key, value in options.items():
        if key in OF_LEARNED:
            refusals[key] = OF_LEARNED[key].refusal(value)
        else:
            near = nearest(key, OF_LEARNED)
            refusals[key] = f"trl asks the model itself, which has no such option{near}"
    if "model" not in options:
        yield (names.LEARNED,), f"{about}: it needs a `model`: {OF_LEARNED['model'].words}"
    elif not refusals["model"]:
        refusals["model"] = names.no_such_folder(options["model"])
    for key, refusal in refusals.items():
        if refusal:
            yield (names.LEARNED, key), f"{about}.{key}: {refusal}"


def _has_zero_weight(options: object) -> bool:
    return isinstance(options, dict) and options.get("weight", 1.0) == 0


def _check_reward(name: str, options: dict) -> Complaints:
    """Check a reward that is a function, and its options."""
    for key, rule in names.REWARD_KEYS.items():
        refusal = rule.refusal(options[key]) if key in options else None
        if refusal:
            yield (name, key), f"rewards.{name}.{key}: {refusal}"
    try:
        function = names.reward_function(name)
    except LookupError:
        advice = nearest_or_all(name, [*rewards.__all__, names.LEARNED])
        advice += "; your own has its file before its name, as mine.short_proofs"
        if name in GONE_REWARDS:
            advice = f": {GONE_REWARDS[name]}"
        yield (name,), f"unknown reward {name!r}{advice}"
    except ImportError as error:
        yield (name,), f"reward {name!r}: {error}"
    else:
        arguments = names.reward_arguments(options)
        yield from _check_arguments(name, function, arguments)
        yield from _check_parameters(name, function, arguments)


def _check_arguments(name: str, function: Callable, arguments: dict) -> Complaints:
    for key, value in arguments.items():
        if key not in names.TRAINER_ARGUMENTS:
            for message in names.argument_faults(function, {key: value}, names.REWARD_KEYS):
                yield (name, key), f"{name}: {message}"
    for key in names.TRAINER_ARGUMENTS:
        if key in arguments:
            yield (name, key), f"{name}: {key}: the trainer gives it; leave it out"
    longest = arguments.get("longest")
    if name == "brevity" and type(longest) in (int, type(None)):  # other types are refused above
        refusal = count().refusal(longest)
        if refusal:
            message = f"{refusal}; set it to grpo.max_completion_length"
            yield (name, "longest"), f"rewards.brevity.longest: {message}"


def _check_parameters(name: str, function: Callable, arguments: dict) -> Complaints:
    """Check that a factory gets all its arguments, and that a reward takes every column of the
    data. What else a reward needs must be columns of the data: see `names.missing_columns`."""
    if not names.is_reward(function):
        for message in names.missing_arguments(function, arguments):
            yield (name,), f"{name}: {message}"
    elif not names.takes_columns(function):
        message = "add `**columns` to its parameters: a reward is given every column of the data"
        yield (name,), f"{name}: {message}"


def _check_completion_rewards(section: dict, recipe: dict) -> Complaints:
    """Check that at least one reward is a function of whole completions, and that the rewards that
    are none, a reward of steps and the reward model, fit the rest of the recipe."""
    step_rewards = []
    for name, options in section.items():
        if isinstance(options, dict) and "steps" in options and name != names.LEARNED:
            step_rewards.append(name)
    if len(step_rewards) > 1:
        first, second = step_rewards[:2]
        message = f"{first} has `steps` already, and only one may"
        yield (second, "steps"), f"rewards.{second}.steps: {message}"
    if "correct_answer" in step_rewards:
        yield ("correct_answer", "steps"), "correct_answer: a step is no answer; leave `steps` out"
    if section and section.keys() <= {*step_rewards, names.LEARNED}:
        reason = "only the steps have one" if step_rewards else "only a model gives one"
        yield (), f"rewards: add one for whole completions, such as correct_answer: {reason}"
    one_turn = [name for name in section if name in step_rewards or name == names.LEARNED]
    if recipe.get("tools") and one_turn:
        yield (one_turn[0],), f"rewards.{one_turn[0]}: {ONE_TURN}"


CHECKS = {
    "model": check_model,
    "adapter": check_adapter,
    "quantization": check_quantization,
    "data": check_data,
    "rewards": check_rewards,
    **{section: partial(check_stage, section) for section in STAGES},
    "evaluate": check_evaluate,
}
