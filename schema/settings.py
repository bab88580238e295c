"""A recipe without faults, and its settings: every field that a library will get from it, with
where the value comes from. They are made once, and whatever needs a value reads it there."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from console.faults import Place, place_of
from schema import configs
from schema.configs import ACCURACY, SAVE_STEPS, SECTIONS, Generation
from schema.refused_keys import reserved
from schema.sections import Data, Evaluate, Model, Prompt
from schema.stages import STAGES

# Where a value comes from, if no line of the recipe sets it.
OURS = "our default"
MACHINE = "this machine"
SHARE = "the share of one of {} processes"
# Validation problems in a batch, for each completion of a training batch, if transformers answers.
EVALUATED = 2
SIZES = ("num_generations", "r")  # a page shows them even where they are defaults


class Machine(NamedTuple):
    """What the values of a recipe depend on in a machine: `machine.launch.this_machine` asks it.

    `has_bfloat16`: whether it computes in bfloat16 natively.
    """

    has_gpu: bool
    has_bfloat16: bool


@dataclass(frozen=True)
class Recipe:
    """A recipe without faults.

    Attributes:
        rewards: the weight and the arguments of each reward, by its name.
        asked_for: the options of `make` that name this recipe and its overrides.
        places: the file and line of each key.
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
    tools: list | None = None
    asked_for: dict[str, Any] = field(default_factory=dict)
    places: dict[tuple, Place] = field(default_factory=dict)
    processes: int = 1
    machine: Machine | None = None

    def place(self, *keys: str | tuple) -> Place:
        """The file and line of a key, or of an item of a list, or else of the nearest section above
        it that the recipe has."""
        return place_of(keys, self.places, Place(f"recipe {self.name}"))

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
    """The settings of a recipe's sections.

    Args:
        machine: None leaves out the fields that depend on it.
        processes: how many share each step.
    """
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
    values = {
        "output_dir": str(folder),
        "seed": recipe.seed,
        "run_name": "/".join(folder.parts[-2:]),
    }
    values |= configs.shared_defaults(section)
    if section == "grpo":
        aligned_steps = configs.generation(recipe.grpo, processes).aligned_steps
        values["save_steps"] = math.ceil(SAVE_STEPS / aligned_steps) * aligned_steps
        values |= _validation_defaults(recipe, processes)
        values["reward_weights"] = list(recipe.weights_of_completions.values())
    return values


def _validation_defaults(recipe: Recipe, processes: int) -> dict[str, Any]:
    """Our defaults for trl's settings that go with `grpo.eval_steps`: one answer per problem, a
    checkpoint with every evaluation, and the best checkpoint loaded at the end."""
    grpo = configs.shared("grpo", recipe.grpo, processes) or recipe.grpo
    values = configs.defaults("grpo") | grpo
    if not values["eval_steps"]:
        return {}
    problems = recipe.evaluate.checkpoint_problems
    at_most = EVALUATED * values["per_device_train_batch_size"]
    if values["use_vllm"]:
        # One batch, since for each batch vLLM wakes up, loads the weights and goes to sleep again.
        at_most = problems
    return {
        "eval_strategy": "steps",
        "num_generations_eval": 1,
        "per_device_eval_batch_size": even_batch(problems, at_most, processes),
        "save_steps": values["eval_steps"],
        "load_best_model_at_end": True,
        "metric_for_best_model": ACCURACY,
        "greater_is_better": True,
    }


def even_batch(problems: int, at_most: int, processes: int) -> int:
    """The largest batch of at most `at_most` problems that every process can fill, or 0. trl
    averages the means of the batches, which is the share of correct answers only if all batches are
    full."""
    for size in range(at_most, 0, -1):
        if problems % (size * processes) == 0:
            return size
    return 0


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
