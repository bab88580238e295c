"""The recipe: one YAML file, strict. Every fault is found before a weight is loaded, and all are reported together."""

import os
from pathlib import Path

from schema import configs
from schema.draft import Draft
from schema.faults import Fault, RecipeError
from schema.sections import Recipe


def load_recipe(path: str | Path, overrides: list[str] = (), check: tuple[str, ...] = ("sft", "grpo")) -> Recipe:
    """Read, override and check a recipe.

    Args:
        overrides: `section.key=value`, the value read as YAML.
        check: sections whose library config is also built, which finds bad values. A stage that runs under a launcher
            names only its own: a DeepSpeed plugin keeps what the first config of a process told it.

    Raises:
        RecipeError: one line per fault, each with its place and, for a misspelt name, the nearest valid one.
    """
    recipe, faults = read_recipe(path, overrides, check)
    if faults:
        raise RecipeError(faults)
    return recipe


def read_recipe(
    path: str | Path, overrides: list[str] = (), check: tuple[str, ...] = ("sft", "grpo")
) -> tuple[Recipe | None, list[Fault]]:
    """The recipe without its faulty keys, None where nothing can be made of the rest; and its faults, in the order of
    the file.

    Raises:
        RecipeError: there is no such file, or it is not YAML.
    """
    draft = Draft(Path(path))
    draft.read()
    for override in overrides:
        draft.override(override)
    draft.check()
    if draft.faults:
        return draft.what_is_sound(), draft.in_order()
    recipe = draft.recipe()
    return recipe, refused_values(recipe, check)


def refused_values(recipe: Recipe, sections: tuple[str, ...]) -> list[Fault]:
    """What the libraries' own configs say against sections of a sound recipe, each on the line of the first key that
    the complaint names."""
    faults = []
    for section in sections:
        values = getattr(recipe, section)
        if values is not None and (complaint := configs.complaint(recipe, section)):
            named = [key for key, value in values.items() if key in complaint or str(value) in complaint.split()]
            faults.append(Fault(recipe.place(section, *named[:1]), f"{section}: {complaint}"))
    return faults


def require_values(recipe: Recipe, section: str):
    """Refuse to begin a stage with values that its library refuses, or, where one process can ask that too, the stage
    after it. Last of all its own config is built: it leaves its mark on the process.

    Raises:
        RecipeError: names them.
    """
    alone = "WORLD_SIZE" not in os.environ  # a DeepSpeed plugin keeps what the first config of a process told it
    others = tuple(each for each in ("sft", "grpo") if each != section) if alone else ()
    if faults := refused_values(recipe, ("adapter", "quantization", *others, section)):
        raise RecipeError(faults)
