"""Who is evaluated: the base model, the base shown one example, each finished stage, or any model that is named."""

import dataclasses
import re
from pathlib import Path
from typing import NamedTuple

from runs.answers import CONTROL
from schema.faults import Fault, RecipeError
from schema.names import no_such_folder
from schema.problem_sets import load_benchmarks
from schema.recipe import Recipe
from schema.stages import POLICIES, finished
from training.model import is_adapter


class Contestant(NamedTuple):
    """A model to evaluate. `trained`: the folder a stage wrote, None for the recipe's base model. `example`: a worked
    problem shown before each question. `sampling`: see `evaluation.engines.engine`."""

    label: str
    recipe: Recipe
    trained: Path | None = None
    example: dict | None = None
    sampling: dict | None = None


def benchmarks(recipe: Recipe) -> dict[str, list[dict]]:
    if not recipe.evaluate.benchmarks:
        raise RecipeError([Fault(recipe.place("evaluate"), "no evaluate.benchmarks to evaluate on")])
    return load_benchmarks(recipe)


def stages_of(recipe: Recipe) -> list[Contestant]:
    """The base model, and every finished stage."""
    done = [stage for stage in POLICIES if finished(recipe.stage_dir(stage))]
    return [Contestant("base", recipe), *(Contestant(stage, recipe, recipe.stage_dir(stage)) for stage in done)]


def control(recipe: Recipe, train: list[dict]) -> list[Contestant]:
    """The base model shown the form once, by the first worked problem of the training set: the part of a gain that is
    only form, it reaches without training. Empty where no problem has a worked solution."""
    worked = next((row for row in train if row["reasoning"] and row.get("answer") in (None, row["solution"])), None)
    return [Contestant(CONTROL, recipe, example=worked)] if worked else []


def named_model(recipe: Recipe, path: str) -> Contestant:
    """A model that the user names: a whole model replaces the recipe's base, with its own tokenizer and unquantised; an
    adapter is put on that base.

    Raises:
        RecipeError: the folder is not there.
    """
    if wrong := no_such_folder(path):
        raise RecipeError([f"MODEL={path}: {wrong}"])
    inside = Path(path).resolve().is_relative_to(Path(recipe.output_dir).resolve())
    label = str(Path(path).resolve().relative_to(Path(recipe.output_dir).resolve()) if inside else path)
    label = re.sub(r"[^\w.-]+", "--", label).strip("-.")
    if is_adapter(path):
        return Contestant(label, recipe, Path(path))
    base = dataclasses.replace(recipe.model, name_or_path=path, build=None, revision=None)
    return Contestant(label, dataclasses.replace(recipe, model=base, quantization=None, places={}))
