"""What the rules for single keys cannot see: whether a name exists, whether its function takes the
given arguments, and whether the keys of a section, or two sections, go together. One function per
section; and settings that are valid but usually train badly.

Each is given its section, and the recipe, without the keys that are faulty already. A section of
the recipe that is not a mapping is empty there.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from math import gcd
from pathlib import Path

import rewards as rewards_room
from console.faults import (
    Complaints,
    Fault,
    NotReached,
    Place,
    RecipeError,
    item,
    nearest,
    nearest_or_all,
)
from data import SETS
from data.own import column_faults, of_file
from data.problems import data_set
from schema import configs, names, stages
from schema.configs import generation, processes, setting
from schema.refused_keys import GONE_REWARDS
from schema.reward_model import reward_model_faults
from schema.sections import Data, Evaluate, Recipe
from schema.stages import STAGES
from schema.values import BY_TRANSFORMERS, BY_VLLM, LARGEST_GROUP, count

SUGGESTED = 8  # group sizes, at most
# Losses of DPO for other divergences than reverse_kl (trl/trainer/dpo_trainer.py).
OF_ANY_DIVERGENCE = "sigmoid sigmoid_norm hinge ipo exo_pair robust discopop sft"
CLIPPED = ("grpo", "dr_grpo", "dapo", "bnpo", "luspo")
# Settings that trl reads only beside some values of another one (trl/trainer/grpo_trainer.py).
READ_FOR = {
    "delta": ("loss_type", CLIPPED),
    "sapo_temperature_neg": ("loss_type", ("sapo",)),
    "sapo_temperature_pos": ("loss_type", ("sapo",)),
    "entropy_target": ("use_adaptive_entropy", ("True",)),
    "scale_rewards": ("multi_objective_aggregation", ("sum_then_normalize",)),
}

# Rewards that pay for the answer, and rewards that pay for its form.
TRUTH = ("correct_answer", "partial_credit", "brevity")
FORM = ("format_tags", "tag_count", "language_consistency")

FEW = 50  # held-out problems: the 95% interval of an accuracy is then up to 27 points wide

NOT_BY_VLLM = "only transformers samples, vLLM has not been tried: leave one of them out"
ONE_TURN = "it learns from answers of one turn, and `tools` make several: leave one of them out"

LEVELS = {"note": "cyan", "warning": "yellow", "error": "bold red"}  # and their colours


def of_stage(name: str, section: dict, recipe: dict) -> Complaints:
    """A section of a stage that trains: what is its own, and its warm-up."""
    yield from OWN[name](section, recipe) if name in OWN else ()
    yield from _warm_up(name, configs.defaults(name) | section)


def dpo(section: dict, recipe: dict) -> Complaints:
    if recipe.get("tools"):
        yield (), f"dpo: {ONE_TURN}"
    values = configs.defaults("dpo") | section
    losses = section.get("loss_type", ["sigmoid"])  # trl's default, made in a function
    # These trl says only when DPO begins, after all of GRPO.
    if "exo_pair" in losses and not values["label_smoothing"]:
        message = "the loss exo_pair needs one above 0; its paper uses 1e-3"
        yield ("label_smoothing",), f"dpo.label_smoothing: {message}"
    sorting = {"aot", "aot_unpaired"} & set(losses)
    if values["use_weighting"] and sorting:
        message = f"the loss {min(sorting)} sorts its pairs, and has no weights"
        yield ("use_weighting",), f"dpo.use_weighting: {message}"
    of_one = [each for each in losses if each not in OF_ANY_DIVERGENCE.split()]
    if of_one and values["f_divergence_type"] != "reverse_kl":
        message = f"the loss {of_one[0]} is for reverse_kl alone; leave the key out"
        yield ("f_divergence_type",), f"dpo.f_divergence_type: {message}"
    if recipe.get("algorithm") == "rloo" and recipe.get("grpo", {}).get("beta"):
        message = "RLOO's advantages contain its KL, and DPO tells its pairs apart by them"
        yield (), f"grpo.beta: {message}: set it to 0"
    if recipe.get("grpo", {}).get("log_completions") is False:
        message = "DPO's pairs are the completions that the GRPO run writes: leave it out"
        yield (), f"grpo.log_completions: {message}"


def grpo(section: dict, recipe: dict) -> Complaints:
    values = configs.defaults("grpo") | section
    if recipe.get("algorithm"):
        yield from _lacking(stages.algorithm(recipe["algorithm"]), section, recipe)
    if values["use_vllm"] and recipe.get("model", {}).get("revision"):
        message = (
            "trl has vLLM load the newest revision of the model, not model.revision; download that"
            " one (`hf download … --revision … --local-dir folder`) and name the folder"
        )
        yield ("use_vllm",), f"grpo.use_vllm: {message}"
    if values["use_vllm"] and recipe.get("quantization"):
        message = (
            "vLLM cannot take the quantised weights that trl would send it: set it to false, or"
            " remove the section `quantization`"
        )
        yield ("use_vllm",), f"grpo.use_vllm: {message}"
    if values["eval_steps"]:
        yield from _validation(recipe)
    tools = recipe.get("tools", [])
    if tools and values["use_vllm"]:
        yield ("use_vllm",), f"grpo.use_vllm: with `tools` {NOT_BY_VLLM}"
    # trl looks at the last token, which ends the turn that called.
    if tools and values["mask_truncated_completions"]:
        message = (
            "with `tools` trl takes a completion whose last call found no room for a whole one;"
            " leave it out"
        )
        yield ("mask_truncated_completions",), f"grpo.mask_truncated_completions: {message}"
    if "max_tool_calling_iterations" in section and not tools:
        message = "only `tools` reads it; leave it out"
        yield ("max_tool_calling_iterations",), f"grpo.max_tool_calling_iterations: {message}"
    yield from _batch(values, section)
    yield from _losses(values, section)


def _lacking(other: stages.Algorithm, section: dict, recipe: dict) -> Complaints:
    """What GRPO has and another algorithm's trainer lacks."""
    for key in section:
        if key not in configs.fields(other.name):
            config = other.config.rpartition(".")[2]
            message = f"{other.made} has no such setting (trl.{config}): leave it out"
            yield (key,), f"grpo.{key}: {message}"
    rewards = recipe.get("rewards", {}).values()
    if any(isinstance(options, dict) and "steps" in options for options in rewards):
        message = "has one advantage for a completion, and none for its steps: leave `steps` out"
        yield ("algorithm",), f"algorithm: {other.name} {message}"
    if recipe.get("tools"):
        message = "has no loop of `tools`: leave one of them out"
        yield ("algorithm",), f"algorithm: {other.made} {message}"


def _validation(recipe: dict) -> Complaints:
    """Whether the problems that choose the checkpoint can be judged, shared and spared."""
    if recipe.get("rewards") and "correct_answer" not in recipe["rewards"]:
        message = (
            "held-out accuracy is the mean of the reward `correct_answer`, which this recipe lacks;"
            " add it, with weight 0 if it should not be paid"
        )
        yield ("eval_steps",), f"grpo.eval_steps: {message}"
    choosing = recipe.get("evaluate", {}).get("checkpoint_problems", Evaluate.checkpoint_problems)
    validation = recipe.get("data", {}).get("validation", Data.validation)
    if choosing % processes():
        message = (
            f"{processes()} processes cannot share {choosing} problems evenly; take a multiple"
        )
        yield ("eval_steps",), f"evaluate.checkpoint_problems: {message} of {processes()}"
    if validation <= choosing:
        message = (
            f"evaluate.checkpoint_problems = {choosing} problems choose the checkpoint, and none of"
            f" the data.validation = {validation} is left to compare the stages: raise it"
        )
        yield ("eval_steps",), f"grpo.eval_steps: {message}"


def _batch(values: dict, section: dict) -> Complaints:
    """What is sampled at once holds whole groups, and no checkpoint falls between two samplings."""
    sampled, group = generation(section), values["num_generations"]
    if sampled.completions % group:
        sizes = range(2, min(sampled.completions, LARGEST_GROUP) + 1)
        fitting = [size for size in sizes if sampled.completions % size == 0]
        near = sorted(sorted(fitting, key=lambda size: abs(size - group))[:SUGGESTED])
        instead = f"take {', '.join(map(str, near))}, or " if near else ""
        word = "process" if processes() == 1 else "processes"
        message = (
            f"groups of {group} do not fill a generation batch of {sampled.completions} completions"
            f" ({processes()} {word} × {values['per_device_train_batch_size']}"
            f" per_device_train_batch_size × {sampled.steps} steps); {instead}change the batch"
        )
        yield ("num_generations",), f"grpo.num_generations: {message}"
    # Of a cycle's micro-steps and an update's, one must hold the other whole. Else a cycle ends
    # inside an update, and in each epoch elsewhere, because the last update of an epoch is shorter:
    # no `save_steps` would always fit.
    accumulated = values["gradient_accumulation_steps"]
    if sampled.cycle % accumulated and accumulated % sampled.cycle:
        whole = accumulated // sampled.cycle * sampled.cycle
        message = (
            f"{accumulated} neither divides a generation cycle of {sampled.cycle} micro-steps"
            " (steps_per_generation × num_iterations) nor is a multiple of it, and a run resumed"
            f" inside a cycle would differ; take {whole or gcd(accumulated, sampled.cycle)} or"
            f" {whole + sampled.cycle}"
        )
        yield ("gradient_accumulation_steps",), f"grpo.gradient_accumulation_steps: {message}"
        return
    # If neither is set, our own default of save_steps fits.
    saved = section.get("save_steps", values["eval_steps"])
    if values["save_strategy"] == "steps" and saved and saved % sampled.whole:
        key = "save_steps" if "save_steps" in section else "eval_steps"
        message = (
            f"a checkpoint after {saved} steps falls inside a generation cycle of {sampled.cycle}"
            f" micro-steps, and a run resumed there would differ; take a multiple of"
            f" {sampled.whole}"
        )
        yield (key,), f"grpo.save_steps: {message}"


def _losses(values: dict, section: dict) -> Complaints:
    """Settings of trl's losses that contradict each other, and sampling options of the other
    engine."""
    high = values["epsilon"] if values["epsilon_high"] is None else values["epsilon_high"]
    if values["loss_type"] == "cispo" and (values["epsilon_high"] or 0) < 1:
        message = "cispo caps each token's weight there; set it, to 1 or more (ScaleRL uses 5)"
        yield ("epsilon_high",), f"grpo.epsilon_high: {message}"
    if values["delta"] is not None and values["delta"] <= 1 + high:
        message = f"{values['delta']} must be above 1 + {high}, the upper clip, to have an effect"
        yield ("delta",), f"grpo.delta: {message}"
    for key in section.keys() & READ_FOR.keys():
        setting, readers = READ_FOR[key]
        if str(values[setting]) not in readers:
            named = " or ".join(readers).lower()
            message = f"only grpo.{setting}: {named} reads it; set that, or leave it out"
            yield (key,), f"grpo.{key}: {message}"
    engine, other = ("vLLM", "transformers") if values["use_vllm"] else ("transformers", "vLLM")
    not_its = BY_TRANSFORMERS if values["use_vllm"] else BY_VLLM
    if wrong := [key for key in values["generation_kwargs"] or {} if key in not_its]:
        message = f"{', '.join(wrong)} is an option of {other}, but {engine} samples here"
        yield ("generation_kwargs",), f"grpo.generation_kwargs: {message}"


def _warm_up(name: str, values: dict) -> Complaints:
    """Whether steps are left to train at the learning rate. A warm-up that is no whole number is a
    share of them, and -1 steps follow from the epochs."""
    steps, warmup = values["max_steps"], values["warmup_steps"]
    if steps > 0 and isinstance(warmup, int) and steps <= warmup:
        message = f"all {steps} steps would be warm-up; take fewer than that"
        yield ("warmup_steps",), f"{name}.warmup_steps: {message}"


OWN = {"grpo": grpo, "dpo": dpo}
PACKAGES = {"flash_attention_2": "flash_attn", "flash_attention_3": "flash_attn_interface"}


def model(section: dict, recipe: dict) -> Complaints:
    if (section.get("name_or_path") is None) == (section.get("build") is None):
        message = "set exactly one of `name_or_path` (a Hub id or a folder) and `build` (made here)"
        if section.get("build") is not None:
            message += "; `build: null`, or `name_or_path: null`, takes away a base's"
        yield (), f"model: {message}"
    name = section.get("name_or_path")
    if name and (wrong := names.no_such_folder(name)):
        yield ("name_or_path",), f"model.name_or_path: {wrong}"
    build = section.get("build")
    if isinstance(build, str) and build not in names.BUILDERS:
        yield ("build",), f"model.build: no builder {build!r}{nearest(build, names.BUILDERS)}"
    attention = section.get("attn_implementation")
    if section.get("dtype") == "float16":
        instead = None
        if not recipe.get("adapter"):
            instead = "add an `adapter` section"
        elif recipe["adapter"].get("modules_to_save"):
            instead = "leave adapter.modules_to_save out"
        if instead:
            message = "float16 weights cannot be trained, only an adapter beside them"
            yield ("dtype",), f"model.dtype: {message}: {instead}, or take float32"
    package = PACKAGES.get(str(attention))
    if package and find_spec(package) is None:
        message = (
            f"{attention} needs the package {package}, which is not installed; transformers would"
            " download a kernel from the Hub instead; sdpa is as fast for most models"
        )
        yield ("attn_implementation",), f"model.attn_implementation: {message}"


def adapter(section: dict, recipe: dict) -> Complaints:
    """What peft and vLLM cannot do with an adapter on parameters, such as a layer's experts."""
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


def quantization(section: dict, recipe: dict) -> Complaints:
    if recipe.get("adapter") is None:
        yield (), "quantization: quantised weights cannot be trained; add an `adapter` section"
    if [section.get(key) for key in ("load_in_4bit", "load_in_8bit")].count(True) != 1:
        yield (), "quantization: set exactly one of load_in_4bit and load_in_8bit to true"


def data(section: dict, recipe: dict) -> Complaints:
    if section.get("train", []) == []:
        yield ("train",) if "train" in section else (), "data.train: name at least one data set"
    yield from _data_sets("data", "train", section.get("train"), names.TRAIN_KEYS)
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


def evaluate(section: dict, recipe: dict) -> Complaints:
    entries = section.get("benchmarks", [])
    default = {key: getattr(Evaluate, key) for key in names.SAMPLED}
    own = {key: section[key] for key in default if key in section}
    yield from _data_sets("evaluate", "benchmarks", entries, names.BENCHMARK_KEYS, default | own)
    if isinstance(entries, list) and all(
        isinstance(e, str) or (isinstance(e, dict) and e) for e in entries
    ):
        for label, times in Counter(names.benchmark_labels(entries)).items():
            if times > 1:
                message = f"{label} is named {times} times; their results would mix"
                yield ("benchmarks",), f"evaluate.benchmarks: {message}"
    for message in _greedy(default, own | {"top_p": 1}, "evaluate."):
        yield ("samples",), f"evaluate.{message}"
    if section.get("engine") == "vllm" and recipe.get("quantization"):
        message = "vllm would serve the adapter on unquantised weights, on which it was not trained"
        yield ("engine",), f"evaluate.engine: {message}: set it to transformers"
    if section.get("engine") == "vllm" and recipe.get("tools"):
        yield ("engine",), f"evaluate.engine: with `tools` {NOT_BY_VLLM}"


def _greedy(default: dict, own: dict, section: str = "") -> list[str]:
    """What is wrong with a benchmark's own sampling, or a section's, where its answers are
    greedy."""
    asked, wrong = default | own, []
    if asked["temperature"]:
        return []
    if asked["samples"] > 1 and own.keys() & {"samples", "temperature"}:
        message = "greedy answers to a problem would all be the same"
        wrong.append(f"samples: {asked['samples']} {message}; set {section}temperature")
    if own.get("top_p", 1) < 1:
        wrong.append("top_p: greedy answers do not read it; set temperature, or leave it out")
    return wrong


def _data_sets(
    section: str, key: str, entries: object, shared: dict, sampling: dict | None = None
) -> Complaints:
    """`shared`: the keys of every set, each with its rule. `sampling`: how benchmarks are answered
    that do not say."""
    for entry in entries if isinstance(entries, list) else []:
        for message in _against_entry(f"{section}.{key}", entry, shared, sampling):
            yield (key, item(entry)), message


def _against_entry(key: str, entry: object, shared: dict, sampling: dict | None) -> list[str]:
    """What is wrong with one data set in a list of them."""
    if not isinstance(entry, str) and not (isinstance(entry, dict) and len(entry) == 1):
        return [f"{key}: {entry!r} is neither a name nor a single `name: {{arguments}}`"]
    name, options = names.named(entry)
    if not isinstance(options, dict):
        return [f"{name}: expected arguments such as {{digits: 2}}, got {options!r}"]
    try:
        function = data_set(name)
    except LookupError:
        return [f"unknown data set {name!r}{nearest_or_all(name, sorted(SETS))}"]
    except ImportError as error:
        return [f"data set {name!r}: {error}"]
    messages = _of_set(function, options, shared)
    if sampling and not messages:
        messages = _greedy(sampling, names.own_sampling(entry))
    return [f"{name}: {message}" for message in messages]


def _of_set(function: Callable, options: dict, shared: dict) -> list[str]:
    """What is wrong with the arguments of a data set, those that it shares with all others among
    them."""
    takes = inspect.signature(function).parameters
    ours = {key: options[key] for key in shared if key in options and key not in takes}
    given = {key: value for key, value in options.items() if key not in ours}
    own = (
        []
        if isinstance(function, partial)
        else [key for key in given if key in ("split", "folder")]
    )
    wrong = [f"{key!r} is not a recipe's to give: the stage sets it" for key in own]
    others = (("data.train", names.TRAIN_KEYS), ("evaluate.benchmarks", names.BENCHMARK_KEYS))
    others += (("a file, a folder or a set of the Hub", {"columns"}),)
    elsewhere = {key: where for where, keys in others for key in given.keys() & keys - takes.keys()}
    wrong += [f"{key!r} is for {where}: leave it out here" for key, where in elsewhere.items()]
    given = {key: value for key, value in given.items() if key not in elsewhere}
    if (
        isinstance(function, partial)
        and function.func is of_file
        and given.pop("split", None) is not None
    ):
        wrong.append(
            "split: a file has no splits: leave it out, or name a folder that has a file for each"
        )
    wrong += names.wrong_arguments(function, given, shared) + names.missing_arguments(
        function, ["split", *given]
    )
    refused = [(key, shared[key].refusal(value)) for key, value in ours.items()]
    wrong += [f"{key}: {each}" for key, each in refused if each]
    if isinstance(function, partial) and isinstance(given.get("columns"), dict):
        wrong += column_faults(given["columns"])
    return wrong


def rewards(section: dict, recipe: dict) -> Complaints:
    mappings = {name: each for name, each in section.items() if isinstance(each, dict)}
    weights = [options.get("weight", 1.0) for options in mappings.values()]
    if not section:
        yield (), "rewards: name at least one reward"
    elif len(mappings) == len(section) and all(weight == 0 for weight in weights):
        yield (), "rewards: all weights are 0, so nothing would be learned"
    yield from _steps_and_model(section, recipe)
    for name, options in section.items():
        if not isinstance(options, dict):
            message = f"expected a mapping such as {{weight: 1.0}}, got {options!r}"
            yield (name,), f"rewards.{name}: {message}"
            continue
        if name == names.LEARNED:
            yield from reward_model_faults(options)
            continue
        for key, rule in names.REWARD_KEYS.items():
            if key in options and (wrong := rule.refusal(options[key])):
                yield (name, key), f"rewards.{name}.{key}: {wrong}"
        try:
            function = names.reward_function(name)
        except LookupError:
            advice = nearest_or_all(name, [*rewards_room.__all__, names.LEARNED])
            if name in GONE_REWARDS:
                advice = f": {GONE_REWARDS[name]}"
            yield (name,), f"unknown reward {name!r}{advice}"
            continue
        except ImportError as error:
            yield (name,), f"reward {name!r}: {error}"
            continue
        arguments = {key: value for key, value in options.items() if key not in names.REWARD_KEYS}
        free = {key: value for key, value in arguments.items() if key not in names.GIVEN}
        for key, value in free.items():
            for message in names.wrong_arguments(function, {key: value}, also=names.REWARD_KEYS):
                yield (name, key), f"{name}: {message}"
        for key in [each for each in names.GIVEN if each in arguments]:
            yield (name, key), f"{name}: {key}: the trainer gives it; leave it out"
        longest = options.get("longest")  # of another type: said above
        refused = count().refusal(longest) if type(longest) in (int, type(None)) else None
        if name == "brevity" and refused:
            message = f"{refused}; set it to grpo.max_completion_length"
            yield (name, "longest"), f"rewards.brevity.longest: {message}"
        # Whatever else a reward needs must be columns of the data: see missing_columns.
        if not names.is_reward(function):
            for message in names.missing_arguments(function, arguments):
                yield (name,), f"{name}: {message}"
        elif not names.takes_columns(function):
            message = (
                "add `**columns` to its parameters: a reward is given every column of the data"
            )
            yield (name,), f"{name}: {message}"


def _steps_and_model(section: dict, recipe: dict) -> Complaints:
    """What is wrong with the rewards that are no function of whole completions."""
    steps = []
    for name, options in section.items():
        if isinstance(options, dict) and "steps" in options and name != names.LEARNED:
            steps.append(name)
    if len(steps) > 1:
        message = f"{steps[0]} has `steps` already, and only one may"
        yield (steps[1], "steps"), f"rewards.{steps[1]}.steps: {message}"
    if "correct_answer" in steps:
        yield ("correct_answer", "steps"), "correct_answer: a step is no answer; leave `steps` out"
    if section and section.keys() <= {*steps, names.LEARNED}:
        lack = "only the steps have one" if steps else "only a model gives one"
        yield (), f"rewards: add one for whole completions, such as correct_answer: {lack}"
    one_turn = [name for name in section if name in steps or name == names.LEARNED]
    if recipe.get("tools") and one_turn:
        yield (one_turn[0],), f"rewards.{one_turn[0]}: {ONE_TURN}"


CHECKS = {
    "model": model,
    "adapter": adapter,
    "quantization": quantization,
    "data": data,
    "rewards": rewards,
    **{section: partial(of_stage, section) for section in STAGES},
    "evaluate": evaluate,
}


def warnings_of(recipe: Recipe) -> Iterator[Fault]:
    """Warnings and notes about a recipe, each in the place of the key to change."""
    for keys, message in _unwise(recipe):
        yield fault_at(recipe, "warning", keys, message)
    if names.LEARNED in recipe.rewards and not setting(recipe, "grpo", "beta"):
        message = (
            "without a KL term nothing keeps the policy near what the reward model has seen:"
            " grpo.beta, say 0.04"
        )
        yield fault_at(recipe, "note", ("rewards", names.LEARNED), message)


def _unwise(recipe: Recipe) -> Complaints:
    """Each by the keys to change, those of the section too."""
    rate, group = (setting(recipe, "grpo", key) for key in ("learning_rate", "num_generations"))
    if recipe.adapter is not None and rate < 4e-6:
        message = "is a learning rate for full fine-tuning; an adapter wants ten times that or more"
        yield ("grpo", "learning_rate"), f"{rate:g} {message}: try 1e-5"
    if group < 4:
        message = "the mean says little, and most groups are all right or all wrong; take 8 or more"
        yield ("grpo", "num_generations"), f"in a group of {group} {message}"
    paid = recipe.weights
    form = sum(weight for name, weight in paid.items() if name in FORM)
    truth = sum(weight for name, weight in paid.items() if name not in FORM)
    if form >= truth:
        message = "the policy learns what pays more; give form a quarter of the answer's weight"
        yield ("rewards",), f"form is paid {form:g} and a right answer {truth:g}: {message}"
    held_out, choosing = recipe.data.validation, recipe.evaluate.checkpoint_problems
    left = held_out - choosing if setting(recipe, "grpo", "eval_steps") else held_out
    if 0 < left < FEW:
        of = f" ({choosing} of the {held_out} choose the checkpoint)" if left < held_out else ""
        message = (
            f"{left} problems are left to compare the stages{of}, too few to show a gain: raise it"
        )
        yield ("data", "validation"), message
    # A policy that is optimised against a reward model long enough is rewarded for the model's
    # mistakes (Gao et al. 2022, arXiv:2210.10760).
    if names.LEARNED in paid and not any(paid.get(name, 0) > 0 for name in TRUTH):
        message = (
            "a model's word alone is gamed: put a rule beside it that says what is right, such as"
            " correct_answer"
        )
        yield ("rewards", names.LEARNED), message
    answered = [recipe.evaluate, *names.samplings(recipe).values()]
    if recipe.evaluate.top_p < 1 and not any(each.temperature for each in answered):
        message = "greedy answers do not read it: set evaluate.temperature, or leave it out"
        yield ("evaluate", "top_p"), message
    if recipe.model.dtype == "float16":
        message = "float16 overflows above 65,504, and such a step is skipped"
        yield ("model", "dtype"), f"{message}: take it on a GPU without bfloat16"
    strict = recipe.strict or not any(name in paid for name in TRUTH)
    if recipe.sft is None and strict and set(paid) <= {*TRUTH, *FORM} and "tag_count" not in paid:
        message = (
            "without a warm start a model seldom writes the tags, and no reward here pays without"
            " them: add an "
        )
        yield ("rewards",), message + "sft section, or `tag_count`, or leave `strict` out"


def fault_at(recipe: Recipe, level: str, keys: tuple, message: str) -> Fault:
    """A fault of the recipe's value below `keys`."""
    return Fault(recipe.place(*keys), f"{'.'.join(keys)}: {message}", level)


def not_seen(
    recipe: Recipe, error: RecipeError, keys: tuple[str, ...], what: str
) -> Iterator[Fault]:
    """Each fault at its own place of the recipe, or else at the keys'; a note where the Hub cannot
    be reached."""
    for fault in error.faults:
        if isinstance(fault.place, Place):
            place, about, message = fault.place, "", fault.message
        else:
            place, about, message = recipe.place(*keys), f"{'.'.join(keys)}: ", str(fault)
        message = message.removesuffix(".")
        if isinstance(error, NotReached):
            yield Fault(place, f"{about}not seen: {message}", "note", unseen=what)
        else:
            yield Fault(place, f"{about}{message}")
