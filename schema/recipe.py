"""Reading a recipe: one strict YAML file. All faults are found before any weight is loaded, and reported together."""

import os
from pathlib import Path

from schema import configs
from schema.draft import Draft
from schema.faults import Fault, RecipeError
from schema.sections import Recipe
from schema.stages import SECTIONS


def load_recipe(
    path: str | Path,
    overrides: list[str] = (),
    check: tuple[str, ...] = tuple(SECTIONS),
    saved: bool = False,
) -> Recipe:
    """Read, override and check a recipe.

    Args:
        overrides: `section.key=value`, the value read as YAML.
        saved: a run saved it, so what was removed since is no fault there, and left out.
        check: sections whose library config is also built, to find values that the library refuses. Under a launcher a
            stage names only its own section: a DeepSpeed plugin keeps what the first config of the process told it.

    Raises:
        RecipeError: all faults, each with its place and, for a misspelt name, the nearest valid one.
    """
    recipe, faults = read_recipe(path, overrides, check, saved)
    if faults:
        raise RecipeError(faults)
    return recipe


def read_recipe(
    path: str | Path,
    overrides: list[str] = (),
    check: tuple[str, ...] = tuple(SECTIONS),
    saved: bool = False,
) -> tuple[Recipe | None, list[Fault]]:
    """The recipe without its faulty keys, or None if the rest makes no recipe; and its faults, in the order of the
    file.

    Raises:
        RecipeError: the file is not there, or is not YAML.
    """
    draft = Draft(Path(path))
    draft.read(saved)
    for override in overrides:
        draft.override(override)
    draft.check()
    if draft.faults:
        return draft.what_is_sound(), draft.in_order()
    recipe = draft.recipe()
    return recipe, refused_values(recipe, check)


def refused_values(recipe: Recipe, sections: tuple[str, ...]) -> list[Fault]:
    """What the libraries' own configs say against these sections of a recipe without faults, each in the place of the
    first key that the complaint names."""
    faults = []
    for section in sections:
        values = getattr(recipe, section)
        if values is not None and (complaint := configs.complaint(recipe, section)):
            named = [key for key, value in values.items() if key in complaint or str(value) in complaint.split()]
            faults.append(Fault(recipe.place(section, *named[:1]), f"{section}: {complaint}"))
    return faults


def require_values(recipe: Recipe, section: str):
    """Refuse to begin a stage with values that its library refuses, or that the next stage's will refuse, where this is
    the only process. The stage's own config is built last, since building one leaves its mark on the process.

    Raises:
        RecipeError: names them.
    """
    alone = "WORLD_SIZE" not in os.environ  # see load_recipe
    others = tuple(each for each in SECTIONS if each != section) if alone else ()
    if faults := refused_values(recipe, ("adapter", "quantization", *others, section)):
        raise RecipeError(faults)
