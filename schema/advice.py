"""Warnings and notes about a recipe, and what could not be checked."""

from collections.abc import Iterator

from console.faults import Fault, NotReached, Place, RecipeError, dotted
from schema import rules
from schema.settings import Recipe

LEVELS = {"note": "cyan", "warning": "yellow", "error": "bold red"}  # with their colours


def tolerance_of(recipe: Recipe) -> str:
    """Which numbers a recipe with a tolerance counts as correct."""
    return f"tolerance: a number is correct within {recipe.tolerance:.3g} times its gold"


def warnings_of(recipe: Recipe) -> Iterator[Fault]:
    """Yield the warnings and notes about a recipe, each at the key to change."""
    for keys, message in rules.broken(recipe.sections(), rules.WARN):
        yield fault_at(recipe, "warning", keys, message)


def fault_at(recipe: Recipe, level: str, keys: tuple, message: str) -> Fault:
    """The fault at the place where the recipe has `keys`, with their names in its message."""
    return Fault(recipe.place(*keys), f"{dotted(keys)}: {message}", level)


def faults_of_error(
    recipe: Recipe, error: RecipeError, keys: tuple[str, ...], subject: str
) -> Iterator[Fault]:
    """Yield the faults of an error, each at its own place of the recipe, or else at `keys`. Where
    the Hub could not be reached they are notes that `subject` has not been seen."""
    for fault in error.faults:
        place = fault.place
        prefix = ""
        message = fault.message
        if not isinstance(place, Place):
            place = recipe.place(*keys)
            prefix = f"{'.'.join(keys)}: "
            message = str(fault)
        message = message.removesuffix(".")
        if isinstance(error, NotReached):
            yield Fault(place, f"{prefix}not seen: {message}", "note", unseen=subject)
        else:
            yield Fault(place, f"{prefix}{message}")
