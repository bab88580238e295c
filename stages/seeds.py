"""Report what a recipe gains over several seeds, because one seed may be luck. `make seeds` trains
and evaluates every seed in its folder `outputs/<recipe>/seed-<n>`; this stage then reads their
evaluations on the validation problems.
"""

import re
from collections.abc import Sequence

from console.faults import Fault, RecipeError
from console.terminal import say, say_markdown
from runs.files import write_whole
from schema.recipe import Recipe
from schema.value_types import type_fault
from schema.values import TYPES


def main(recipe: Recipe, seeds: list[str], check: bool = False):
    """Report the accuracy of each stage over seeds, and what each stage gained, with an interval
    over the seeds."""
    numbers = read_seeds(seeds)
    if check:
        _check_recipe(recipe)
        return
    from evaluation import compare_runs  # imports torch, which a wrong option does not need

    arm = compare_runs.read_seeds(recipe.stage_dir(""), numbers)
    text = compare_runs.over_its_seeds(arm)
    file = recipe.stage_dir("seeds.md")
    write_whole(file, text)
    say()
    say_markdown(text.rstrip("\n"))
    say(f"\nresults: {file}")


def read_seeds(texts: Sequence[str]) -> list[int]:
    """The seeds as numbers, without repeats."""
    seed = TYPES["recipe"]["seed"]
    numbers = []
    for text in re.split("[ \t\n]+", " ".join(texts).strip(" \t\n")):
        if not re.fullmatch("0|[1-9][0-9]{0,9}", text) or type_fault(seed, int(text)):
            message = f'SEEDS: expected whole numbers such as SEEDS="1 2 3", got "{text}"'
            raise RecipeError([message])
        numbers.append(int(text))
    return list(dict.fromkeys(numbers))


def _check_recipe(recipe: Recipe):
    """Refuse a recipe that cannot be trained with several seeds."""
    keys = [key for key in ("seed", "output_dir") if (key,) in recipe.places]
    if keys:
        message = "make seeds sets it for each seed: leave it out"
        raise RecipeError([Fault(recipe.place(key), f"{key}: {message}") for key in keys])
