"""A recipe without faults; its settings: every field that a library will get from it, with where
the value comes from; and the configs of the libraries, made of them. Settings are made once, and
whatever needs a value reads it there."""

import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from console.faults import REFUSALS, Fault, NotReached, Place, RecipeError, dotted, place_of
from schema import configs
from schema.configs import ACCURACY, SAVE_STEPS, SECTIONS, Generation
from schema.refused_keys import reserved
from schema.sections import CHOOSING, VALIDATION, Data, Evaluate, Model, Prompt
from schema.stages import STAGES

# Where a value comes from, if no line of the recipe sets it.
OURS = "our default"
MACHINE = "this machine"
SHARE = "the share of one of {} processes"
# Validation problems in a batch, for each completion of a training batch, if transformers answers.
EVALUATED = 2
# Validation problems of an evaluation that chooses no checkpoint: 5 points of standard error.
OF_CURVE = 96
SIZES = ("num_generations", "r")  # a page shows them even where they are defaults
EVEN = 8  # so many processes, and 2 and 4, choose the checkpoint by the same problems


class Machine(NamedTuple):
    """What the values of a recipe depend on in a machine: `machine.launch.this_machine` asks it.
    `has_bfloat16`: whether it computes in bfloat16 natively."""

    has_gpu: bool
    has_bfloat16: bool


@dataclass(frozen=True)
class Recipe:
    """A recipe without faults.

    Attributes:
        rewards: the weight and the arguments of each reward, by its name.
        asked_for: the options of `make` that name this recipe and its overrides.
        places: the file and line of each key.
        teacher: the folder or the Hub id of a model that distillation learns from.
        tools: the tools that the policy may call.
        processes: how many share each step.
        machine: the one that it is for; None until torch has been asked, which takes seconds.
    """

    name: str
    seed: int
    output_dir: str
    model: Model
    data: Data
    prompt: Prompt
    rewards: dict[str, dict]
    grpo: dict
    evaluate: Evaluate
    adapter: dict | None = None
    quantization: dict | None = None
    sft: dict | None = None
    distill: dict | None = None
    teacher: str | None = None
    tools: list | None = None
    asked_for: dict[str, Any] = field(default_factory=dict)
    places: dict[tuple, Place] = field(default_factory=dict)
    processes: int = 1
    machine: Machine | None = None

    def place(self, *keys: str | tuple) -> Place:
        """The file and line of a key, or of an item of a list, or else of the nearest section above
        it that the recipe has."""
        return place_of(keys, self.places, Place(f"recipe {self.name}"))

    def fault(self, level: str, keys: tuple, message: str) -> Fault:
        """The fault at the place of `keys`, with their names in its message."""
        return Fault(self.place(*keys), f"{dotted(keys)}: {message}", level)

    def faults_of(self, error: RecipeError, keys: tuple[str, ...], subject: str) -> list[Fault]:
        """The faults of an error, each at its own place of the recipe, or else at `keys`. Where the
        Hub could not be reached they are hints that `subject` has not been seen."""
        faults = []
        for fault in error.faults:
            prefix = ""
            place, message = fault.place, fault.message
            if not isinstance(place, Place):
                place, message = self.place(*keys), str(fault)
                prefix = f"{'.'.join(keys)}: "
            message = message.removesuffix(".")
            if isinstance(error, NotReached):
                message = f"{prefix}not seen: {message}"
                faults.append(Fault(place, message, "hint", unseen=subject))
            else:
                faults.append(Fault(place, f"{prefix}{message}"))
        return faults

    @cached_property
    def settings(self) -> "Settings":
        """Every field that a library will get."""
        return resolve(self, self.machine, self.processes)

    def sections(self) -> dict:
        """The recipe as plain dictionaries, without the sections that it lacks. Ours have their
        defaults."""
        values = asdict(self)
        for key in ("name", "asked_for", "places", "processes", "machine"):
            del values[key]
        return {key: value for key, value in values.items() if value is not None}

    def resolved(self) -> dict:
        """The recipe as it is meant, which a run saves: as asked, with the defaults of the
        libraries' fields, and a batch as what a step trains on, not as it is split. What this
        machine decides is left out."""
        resolved = self.sections()
        for section in SECTIONS:
            if section in resolved:
                resolved[section] = _as_meant(self, section)
        return resolved

    @property
    def strict(self) -> bool:
        """Whether an answer counts only inside a closed `<answer>` block."""
        return self.rewards.get("correct_answer", {}).get("strict", False)

    @property
    def tolerance(self) -> float:
        """By what share of a gold number a number may differ from it."""
        return self.rewards.get("correct_answer", {}).get("tolerance", 0.0)

    @property
    def weights(self) -> dict[str, float]:
        """The factor of each reward in a completion's total. By default it is 1."""
        return {name: float(options.get("weight", 1.0)) for name, options in self.rewards.items()}

    @property
    def weights_of_completions(self) -> dict[str, float]:
        """The weights, with 0 for a reward of steps, which is no part of a completion's total."""
        step_rewards = [name for name, options in self.rewards.items() if "steps" in options]
        return self.weights | dict.fromkeys(step_rewards, 0.0)

    @property
    def samples_from_server(self) -> bool:
        """Whether GRPO's completions come from a vLLM server of its own."""
        grpo = self.settings["grpo"]
        return grpo["use_vllm"] and grpo["vllm_mode"] == "server"

    def trackers(self, stage: str) -> list[str]:
        """The trackers to which a stage's run is reported."""
        names = self.settings[stage]["report_to"]
        if isinstance(names, str):
            names = [names]
        return [name for name in names if name != "none"]

    def stage_dir(self, stage: str) -> Path:
        return Path(self.output_dir) / stage


@dataclass(frozen=True)
class Settings:
    """The fields of the libraries' sections, by section and name: `settings["grpo"]["beta"]`.

    Attributes:
        values: as each process gets them.
        origins: the recipe's place that sets a value, or in words what else does.
        generation: what trl samples at once.
    """

    values: dict[str, dict[str, Any]]
    origins: dict[str, dict[str, Place | str]]
    generation: Generation

    def __getitem__(self, section: str) -> dict[str, Any]:
        return self.values[section]

    def arguments(self, section: str) -> dict[str, Any]:
        """The values that are not the library's own defaults."""
        package = library(section)
        origins = self.origins[section]
        return {key: value for key, value in self[section].items() if origins[key] != package}

    def cycle(self, stage: str) -> int:
        """The number of a stage's steps after which it may be resumed: see `Generation`."""
        return self.generation.aligned_steps if STAGES[stage].samples else 1


def library(section: str) -> str:
    """The package whose config takes the section."""
    return SECTIONS[section].partition(".")[0]


def usual(section: str) -> dict[str, Any]:
    """The defaults, ours or else the library's, of the fields that a recipe may set."""
    values = configs.defaults(section)
    if section in STAGES:
        values = values | configs.shared_defaults(section)
    return {key: value for key, value in values.items() if key not in reserved(section)}


def without_usual(section: str, values: dict[str, Any]) -> dict[str, Any]:
    """The values of a section that are no defaults."""
    defaults = usual(section)
    chosen = {}
    for key, value in values.items():
        if key not in defaults or value != defaults[key]:
            chosen[key] = value
    return chosen


def to_show(section: str, values: dict[str, Any]) -> dict[str, Any]:
    """The values of a section that a page shows: those that are no defaults, and the size of a
    group and of an adapter, which a reader looks for."""
    sizes = {key: values[key] for key in SIZES if key in values}
    return sizes | without_usual(section, values)


def _as_meant(recipe: Recipe, section: str) -> dict[str, Any]:
    """The fields of a section that a recipe may set: first those that this one sets."""
    settings = recipe.settings[section]
    values = {}
    for key in [*getattr(recipe, section), *usual(section)]:
        origin = recipe.settings.origins[section][key]
        # Ours for the batches of an evaluation fits the number of processes.
        is_derived = key == "per_device_eval_batch_size" and origin == OURS
        if origin != MACHINE and not is_derived:
            values[key] = settings[key]
    if section in STAGES:
        values = configs.with_totals(section, values, recipe.processes)
    return values


def from_saved(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a recipe's file. A run saves a recipe as it is meant, and there a section
    becomes again what a recipe may say: without defaults, and with its batch split."""
    sections = dict(values)
    for stage in STAGES:
        section = values.get(stage)
        if isinstance(section, dict) and configs.STEP[stage] in section:
            sections[stage] = without_usual(stage, configs.with_split(stage, section))
    return sections


def resolve(recipe: Recipe, machine: Machine | None, processes: int) -> Settings:
    """The settings of a recipe's sections. `machine`: None leaves out the fields that depend on it;
    `processes`: how many share each step."""
    values: dict[str, dict[str, Any]] = {}
    origins: dict[str, dict[str, Place | str]] = {}
    for section in SECTIONS:
        values[section] = {}
        origins[section] = {}
        for origin, layer in _layers(recipe, section, machine, processes):
            values[section] |= layer
            origins[section] |= dict.fromkeys(layer, origin)
    return Settings(values, origins, configs.generation(recipe.grpo, processes))


def _layers(
    recipe: Recipe, section: str, machine: Machine | None, processes: int
) -> Iterator[tuple[Place | str, dict[str, Any]]]:
    """Yield values of a section with where they come from, each replacing those before."""
    yield library(section), configs.defaults(section)
    if section in STAGES and machine is not None:
        yield MACHINE, precision(machine, recipe.model.dtype)
    yield OURS, _own_defaults(recipe, section, processes)
    values = getattr(recipe, section) or {}
    for key, value in configs.with_floats(section, values).items():
        yield recipe.place(section, key), {key: value}
    split = configs.shared(section, values, processes) or values
    share = {key: value for key, value in split.items() if value != values.get(key)}
    yield SHARE.format(processes), share


def precision(machine: Machine, dtype: str | None) -> dict[str, bool]:
    """Our defaults that depend on the machine, for a model of this data type."""
    is_float16 = machine.has_gpu and dtype == "float16"
    is_bfloat16 = machine.has_gpu and not is_float16 and machine.has_bfloat16
    # For float16 accelerate scales the loss.
    return {"use_cpu": not machine.has_gpu, "bf16": is_bfloat16, "fp16": is_float16}


def _own_defaults(recipe: Recipe, section: str, processes: int) -> dict[str, Any]:
    """Our defaults for a section, which are the same on every machine."""
    if section == "adapter":
        # With dropout, the policy being trained would differ from the policy that sampled.
        return {"task_type": "CAUSAL_LM", "lora_dropout": 0.0}
    if section not in STAGES:
        return {}
    folder = recipe.stage_dir(section)
    values = {"output_dir": str(folder), "seed": recipe.seed}
    values["run_name"] = "/".join(folder.parts[-2:])
    values |= configs.shared_defaults(section)
    if section == "distill":
        grpo = configs.defaults("grpo") | recipe.grpo
        values["max_completion_length"] = grpo["max_completion_length"]
    if recipe.adapter is not None:
        # Each forward pass uses all of it. transformers lets DDP search each for unused weights.
        values["ddp_find_unused_parameters"] = False
    if section == "grpo":
        aligned_steps = configs.generation(recipe.grpo, processes).aligned_steps
        values["save_steps"] = math.ceil(SAVE_STEPS / aligned_steps) * aligned_steps
        values |= _validation_defaults(recipe, processes)
        values["reward_weights"] = list(recipe.weights_of_completions.values())
    return values


def _validation_defaults(recipe: Recipe, processes: int) -> dict[str, Any]:
    """Our defaults for trl's settings that go with `grpo.eval_steps`: one answer per problem, and
    where they choose the checkpoint one with each, and the best loaded at the end."""
    grpo = configs.shared("grpo", recipe.grpo, processes) or recipe.grpo
    values = configs.defaults("grpo") | grpo
    problems = evaluated_problems(recipe, recipe.data.validation or VALIDATION)
    if not values["eval_steps"] or not problems:
        return {}
    at_most = EVALUATED * values["per_device_train_batch_size"]
    if values["use_vllm"]:
        # One batch, since for each batch vLLM wakes up, loads the weights and goes to sleep again.
        at_most = problems
    evaluation = {
        "eval_strategy": "steps",
        "num_generations_eval": 1,
        "per_device_eval_batch_size": configs.even_batch(problems, at_most, processes),
    }
    if recipe.evaluate.checkpoint_problems == 0:
        return evaluation
    return evaluation | {
        "save_steps": values["eval_steps"],
        "load_best_model_at_end": True,
        "metric_for_best_model": ACCURACY,
        "greater_is_better": True,
    }


def evaluated_problems(recipe: Recipe, validation: int) -> int:
    """How many of so many validation problems an evaluation of the training asks: those that choose
    the checkpoint, or where none does some that draw a curve, if a reward judges them."""
    if recipe.evaluate.checkpoint_problems != 0:
        return choosing_problems(recipe, validation)
    if "correct_answer" not in recipe.rewards:
        return 0
    problems = min(OF_CURVE, validation)
    return problems - problems % recipe.processes


def choosing_problems(recipe: Recipe, validation: int) -> int:
    """How many of so many validation problems choose the checkpoint: as the recipe says, or else
    half of them, at most CHOOSING, which the processes can share."""
    if recipe.evaluate.checkpoint_problems is not None:
        return recipe.evaluate.checkpoint_problems
    problems = min(CHOOSING, validation // 2)
    if problems >= EVEN:
        problems -= problems % EVEN
    return problems - problems % recipe.processes


def size_of_run(recipe: Recipe) -> tuple[int, int, int] | None:
    """The number of GRPO's steps, and the completions and tokens that all processes sample in them
    if every completion has its greatest length. None if epochs decide the number of steps."""
    grpo = recipe.settings["grpo"]
    steps = grpo["max_steps"]
    if steps <= 0:
        return None
    sampled = recipe.settings.generation
    cycles = math.ceil(steps * grpo["gradient_accumulation_steps"] / sampled.cycle)
    completions = cycles * sampled.completions
    return steps, completions, completions * grpo["max_completion_length"]


# The libraries' own configs, and what the libraries refuse ----------------------------------------


@cache
def section_class(section: str) -> type:
    module, _, name = SECTIONS[section].rpartition(".")
    return getattr(import_module(module), name)


def training_config(recipe: Recipe, section: str):
    """The config of a stage's trainer, for a recipe that knows its machine.

    Raises:
        RecipeError: the process was launched to shard the model, which this machine would not do,
            or would do in float16.
    """
    arguments = recipe.settings.arguments(section)
    launched_in = os.environ.get("ACCELERATE_MIXED_PRECISION")
    if launched_in == "bf16" and not recipe.machine.has_bfloat16:
        os.environ["ACCELERATE_MIXED_PRECISION"] = "no"  # or it would contradict our `bf16`
    fsdp = os.environ.get("ACCELERATE_USE_FSDP") == "true"
    deepspeed = os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"
    if arguments["fp16"] and (fsdp or deepspeed):
        message = "float16 is not sharded here: take ACCELERATE=ddp"
        raise RecipeError([Fault(recipe.place("model", "dtype"), message)])
    config = section_class(section)(**arguments)
    if fsdp and config.distributed_state.distributed_type == "MULTI_CPU":
        message = "accelerate has FSDP for GPUs alone, and would silently train with DDP"
        raise RecipeError([f"{message}: ACCELERATE=cpu2"])
    return config


def adapter_config(recipe: Recipe):
    """`LoraConfig` of a recipe, or None if all weights are trained."""
    if recipe.adapter is None:
        return None
    return section_class("adapter")(**recipe.settings.arguments("adapter"))


def quantization_config(recipe: Recipe):
    """`BitsAndBytesConfig` of a recipe, or None."""
    if not recipe.quantization:
        return None
    return section_class("quantization")(**recipe.settings.arguments("quantization"))


def vllm_dtype(recipe: Recipe) -> str:
    """The data type in which vLLM computes, on a server and in an evaluation: bfloat16 for float32
    weights if training computes in it too (autocast), as vLLM does by itself in the trainer's
    process. Float32 would be several times slower.
    """
    autocast = recipe.settings["grpo"]["bf16"] and recipe.machine.has_bfloat16
    if autocast and recipe.model.dtype == "float32":
        return "bfloat16"
    return recipe.model.dtype


def complaint(recipe: Recipe, section: str) -> str | None:
    """The reason why the library's own config refuses the section, or None. The user reads it in a
    fault."""
    build = {"adapter": adapter_config, "quantization": quantization_config}
    try:
        if section in build:
            build[section](recipe)
        else:
            return _schedule_complaint(training_config(recipe, section))
    except (*REFUSALS, AttributeError) as error:
        return " ".join(str(error).split()) or type(error).__name__
    return None


def _schedule_complaint(config) -> str | None:
    """The reason why transformers refuses the schedule of the learning rate. Or else that the
    schedule never reaches the learning rate, because its phases do not fit into the steps, or that
    it rises above it."""
    import torch
    from transformers import get_scheduler

    key = "lr_scheduler_kwargs" if config.lr_scheduler_kwargs else "lr_scheduler_type"
    steps = config.max_steps if config.max_steps > 0 else 1000
    warmup = config.get_warmup_steps(steps)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=config.learning_rate)
    arguments = (config.lr_scheduler_type, optimizer, warmup, steps, config.lr_scheduler_kwargs)
    sampled_steps = {0, warmup, *range(0, steps, steps // 1000 + 1)}
    try:
        share = get_scheduler(*arguments).lr_lambdas[0]
        highest = max(share(step) for step in sampled_steps)
    except (TypeError, ValueError, ArithmeticError) as error:
        return f"{key}: {error}"
    if config.max_steps < 1 or 0.99 <= highest <= 1.01:
        return None
    rate = f"{highest * config.learning_rate:g}"
    return f"{key}: the rate reaches {rate}, not learning_rate, {config.learning_rate:g}"


def refused_values(recipe: Recipe, sections: tuple[str, ...]) -> list[Fault]:
    """The complaints of the libraries' own configs about these sections of a recipe without faults,
    each at the place of the first key that the complaint mentions."""
    faults = []
    for section in sections:
        values = getattr(recipe, section)
        if values is None:
            continue
        reason = complaint(recipe, section)
        if reason:
            words = reason.split()
            keys = [key for key in values if key in reason or str(values[key]) in words]
            faults.append(Fault(recipe.place(section, *keys[:1]), f"{section}: {reason}"))
    return faults


def require_values(recipe: Recipe, section: str, is_launched: bool):
    """Refuse to begin a stage with values that its library refuses, or with values that the library
    will refuse in another stage. The stage's own config is built last, since building a config
    changes the process.

    Args:
        is_launched: whether a launcher started the process. Then other stages' configs are not
            built: a DeepSpeed plugin keeps the values of the first config of the process.

    Raises:
        RecipeError: names the values.
    """
    sections = ["adapter", "quantization"]
    if not is_launched:
        sections += [stage for stage in STAGES if stage != section]
    faults = refused_values(recipe, (*sections, section))
    if faults:
        raise RecipeError(faults)
