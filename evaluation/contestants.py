"""Who is evaluated: the base model, the base shown one example, each finished stage, or any model that is named."""

import dataclasses
import re
from pathlib import Path
from typing import NamedTuple

from evaluation import report
from schema.faults import RecipeError
from schema.meaning import no_such_folder
from schema.problem_sets import load_benchmarks
from schema.recipe import Recipe
from training.model import is_adapter


class Contestant(NamedTuple):
    """A model to be judged. `trained`: what a stage left, None for the recipe's base model. `example`: a worked problem
    that stands before the question."""

    label: str
    recipe: Recipe
    trained: Path | None = None
    example: dict | None = None


def benchmarks(recipe: Recipe) -> dict[str, list[dict]]:
    if not recipe.evaluate.benchmarks:
        raise RecipeError([f"{recipe.name} names no evaluate.benchmarks"])
    return load_benchmarks(recipe)


def stages_of(recipe: Recipe) -> list[Contestant]:
    """What there is to evaluate: the base model, and every finished stage."""
    done = [stage for stage in ("sft", "grpo") if (recipe.stage_dir(stage) / "summary.json").is_file()]
    return [Contestant("base", recipe), *(Contestant(stage, recipe, recipe.stage_dir(stage)) for stage in done)]


def control(recipe: Recipe, train: list[dict]) -> list[Contestant]:
    """The base model shown the form of an answer once, by the first worked problem of the training set: what of a gain
    is form, it can do without training. None where no problem is worked out."""
    worked = next((row for row in train if row["reasoning"] and row.get("answer") in (None, row["solution"])), None)
    return [Contestant(report.CONTROL, recipe, example=worked)] if worked else []


def named_model(recipe: Recipe, path: str) -> Contestant:
    """A whole model, which brings its own tokenizer, in place of the recipe's base, unquantised; an adapter stays on
    that base.

    Raises:
        RecipeError: a folder is meant, and is not there.
    """
    if fault := no_such_folder(path):
        raise RecipeError([f"MODEL={path}: {fault}"])
    inside = Path(path).resolve().is_relative_to(Path(recipe.output_dir).resolve())
    label = str(Path(path).resolve().relative_to(Path(recipe.output_dir).resolve()) if inside else path)
    label = re.sub(r"[^\w.-]+", "--", label).strip("-.")
    if is_adapter(path):
        return Contestant(label, recipe, Path(path))
    base = dataclasses.replace(recipe.model, name_or_path=path, build=None, revision=None)
    return Contestant(label, dataclasses.replace(recipe, model=base, quantization=None, places={}))
