"""The problems of a recipe: its training rows, its held-out rows, and its benchmarks."""

from accelerate import PartialState

from data.problems import load, split_validation
from stages.cli import say
from stages.meaning import named
from stages.recipe import Recipe


def load_train(recipe: Recipe) -> tuple[list[dict], list[dict]]:
    """(training rows, held-out rows) of all the recipe's training sets together."""
    rows = []
    with PartialState().main_process_first():
        for entry in recipe.data.train:
            name, arguments = named(entry)
            loaded, report = load(name, "train", arguments, recipe.data.dir)
            rows += loaded
            say(f"data: {report}")
    return split_validation(rows, recipe.data.validation)


def load_benchmark(recipe: Recipe, entry: str | dict) -> list[dict]:
    """The test problems of one benchmark, the first `evaluate.limit` of them."""
    name, arguments = named(entry)
    rows, report = load(name, "test", arguments, recipe.data.dir)
    say(f"data: {report}")
    return rows[: recipe.evaluate.limit]
