"""Whether a stage's folder holds a run of another recipe, and what its user can do then."""

from dataclasses import replace
from pathlib import Path

from console.faults import Fault
from console.terminal import make_command
from data.json_files import read_object
from machine import fit
from schema import configs
from schema.configs import processes, setting, without_place
from schema.recipe import Recipe
from schema.sections import flat
from schema.stages import STAGES, algorithm, chain, finished
from schema.text import Unreadable, saved
from training.checkpoints import has_training
from training.writing import link_inside

BATCH_SIZE = "per_device_train_batch_size"
ACCUMULATION = "gradient_accumulation_steps"
GENERATION = "steps_per_generation"
DTYPES = {"model.dtype", "quantization.bnb_4bit_compute_dtype"}


def conflict(recipe: Recipe, stage: str) -> Fault | None:
    """Find out whether the stage's folder holds a run of another recipe. The fault names the keys
    that differ, and the ways out; None where nothing stands in the way."""
    path = recipe.stage_dir(stage)
    fault = link_inside(path)
    if fault:
        return fault
    if not has_training(path):
        return None
    try:
        saved_recipe = saved(path / "recipe.yaml")
    except Unreadable as error:
        message = (
            f"says what the run beside it was trained with, and cannot be read ({error}): put it"
            f" back, or move {path} away, or give this run its own folder (output_dir)"
        )
        return Fault(str(path / "recipe.yaml"), message)
    wanted = _dependencies(fit.to_machine(recipe), stage)
    trained = _saved_dependencies(saved_recipe, wanted, stage)
    wanted, trained = _by_batch(path, stage, flat(wanted), flat(trained))
    wanted = _with_defaults(wanted, trained)
    trained = _with_defaults(trained, wanted)
    keys = sorted(wanted.keys() | trained.keys())
    differing = [key for key in keys if wanted.get(key) != trained.get(key)]
    if not differing:
        return None
    lines = ["a run of another recipe is there:"]
    lines += [f"  {key}: {trained.get(key)} there, {wanted.get(key)} here" for key in differing]
    lines += _dtype_advice(differing, wanted, trained)
    lines.append(f"Give this run its own folder: {_command_elsewhere(recipe, stage)}")
    lines.append("Or copy the recipe under a new name, or move that run away.")
    return Fault(str(path), "\n".join(lines))


def processes_at_start(folder: Path) -> int | None:
    """The number of processes that a folder's run began with; None where it does not say."""
    count = (read_object(folder / "versions.json") or {}).get("processes")
    return count if type(count) is int else None


def _dependencies(recipe: Recipe, stage: str) -> dict:
    """The sections and keys of a recipe that change what the stage trains."""
    resolved = without_place(recipe.resolved())
    sections = {key: resolved.get(key) for key in STAGES[stage].depends_on}
    sections["data"] = _data_dependencies(sections["data"], stage)
    if "grpo" in sections and setting(recipe, "grpo", "eval_steps"):
        sections["evaluate"] = {
            "checkpoint_problems": recipe.evaluate.checkpoint_problems,
            "patience": recipe.evaluate.patience,
        }
    if stage == "sft" and recipe.data.own_solutions is not None:
        sections["grpo"] = _sampling_dependencies(recipe.grpo)
    return sections


def _saved_dependencies(saved_recipe: dict, wanted: dict, stage: str) -> dict:
    """The same sections and keys of a recipe that a run saved, as `wanted` has them."""
    sections = {key: saved_recipe.get(key) for key in wanted}
    if isinstance(sections["data"], dict):
        sections["data"] = _data_dependencies(sections["data"], stage)
    if isinstance(sections.get("evaluate"), dict):
        evaluate = sections["evaluate"]
        sections["evaluate"] = {key: evaluate.get(key) for key in wanted["evaluate"]}
    if stage == "sft" and isinstance(sections.get("grpo"), dict):
        sections["grpo"] = _sampling_dependencies(sections["grpo"])
    return sections


def _sampling_dependencies(grpo: dict) -> dict:
    """The keys of the section `grpo` that the base model's own solutions depend on: they are cut
    where GRPO would cut them."""
    settings = configs.defaults("grpo") | grpo
    return {"max_completion_length": settings["max_completion_length"]}


def _data_dependencies(data: dict, stage: str) -> dict:
    """The keys of the section `data` that a stage depends on. The warm start also trains on the
    problems that a probe's pass rates exclude."""
    return {key: value for key, value in data.items() if stage != "sft" or key != "pass_rate"}


def _with_defaults(recipe: dict, compared: dict) -> dict:
    """Add the library's default of every key that only the compared recipe sets, in a section that
    both have. Both recipes are flat."""
    sections = {key.partition(".")[0] for key in recipe if "." in key}
    added = {}
    for key in compared.keys() - recipe.keys():
        section, _, name = key.partition(".")
        if section not in configs.CLASSES or section not in sections:
            continue
        if section == "grpo":
            section = algorithm(recipe.get("algorithm")).name
        added[key] = configs.defaults(section).get(name)
    return recipe | added


def _by_batch(folder: Path, stage: str, wanted: dict, trained: dict) -> tuple[dict, dict]:
    """Make two flat recipes comparable, this one and the folder's: where the number of processes
    changed, the size of the complete batch replaces the keys that split it among processes.

    trl takes from a recipe what one process does, so that twice the processes would silently make
    a batch twice as large. The problems and their order stay the same; the completions do not, for
    every process draws its own random numbers."""
    count = processes_at_start(folder)
    if count in (None, processes()):
        return wanted, trained
    split_keys = [f"{stage}.{key}" for key in (BATCH_SIZE, ACCUMULATION, GENERATION)]
    # A finished run keeps its number of processes, however many are asked for now.
    if finished(folder) and all(wanted.get(key) == trained.get(key) for key in split_keys):
        return wanted, trained
    return _with_totals(stage, wanted, processes()), _with_totals(stage, trained, count)


def _with_totals(stage: str, recipe: dict, count: int) -> dict[str, object]:
    """Replace the keys that split a batch among `count` processes by the rows of an optimizer step
    and of a generation. The new keys say which product they are."""
    defaults = configs.defaults(stage)
    merged = dict(recipe)
    numbers = {}
    for key in (BATCH_SIZE, ACCUMULATION, GENERATION):
        numbers[key] = merged.pop(f"{stage}.{key}", defaults.get(key))
    size = numbers[BATCH_SIZE]
    accumulation = numbers[ACCUMULATION]
    generation = numbers[GENERATION] or accumulation
    if any(type(number) is not int for number in (size, accumulation, generation)):
        merged[f"{stage}.{BATCH_SIZE}"] = size  # no run writes such a value
        return merged
    merged[f"{stage}.{BATCH_SIZE} × {ACCUMULATION} × processes"] = size * accumulation * count
    merged[f"{stage}.{BATCH_SIZE} × {GENERATION} × processes"] = size * generation * count
    return merged


def _dtype_advice(differing: list[str], wanted: dict, trained: dict) -> list[str]:
    """The line on how to resume where only the dtypes differ, because the run began on another
    machine."""
    if not DTYPES.issuperset(differing):
        return []
    if all(trained.get(key) == "float32" for key in differing):
        override = " ".join(f"{key}=float32" for key in differing)
        dtype = wanted["model.dtype"]
        return [f'That run began on a machine without {dtype}; ARGS="{override}" resumes it.']
    if all(wanted.get(key) == "float32" for key in differing):
        line = f"This machine has no arithmetic for {trained['model.dtype']}: resume that run on"
        return [f"{line} the machine where it began."]
    return []


def _command_elsewhere(recipe: Recipe, stage: str) -> str:
    """The user's command with a new output_dir: the recipe's name with the first free number."""
    number = 2
    while Path(f"{recipe.output_dir}-{number}").exists():
        number += 1
    overrides = recipe.asked_for.get("ARGS", ())
    overrides = [word for word in overrides if word.partition("=")[0].strip() != "output_dir"]
    overrides.append(f"output_dir={recipe.output_dir}-{number}")
    arguments = recipe.asked_for | {"ARGS": overrides}
    return make_command(chain() or stage, replace(recipe, asked_for=arguments))
