"""Report what a recipe gains over several seeds, because one seed may be luck. `make seeds` trains
and evaluates every seed in its folder `outputs/<recipe>/seed-<n>`; this stage then reads their
evaluations on the held-out problems.
"""

import re

from console.faults import Fault, RecipeError
from console.terminal import inline, make_command, row, say, say_markdown
from data.json_files import parsed
from evaluation.report import compared_pairs
from evaluation.statistics import over_seeds, seeds_verdict
from runs.files import write_whole
from schema.recipe import Recipe
from schema.values import RULES
from stages.cli import run


def main(recipe: Recipe, seeds: list[str], check: bool = False):
    """Report the accuracy of each stage over seeds, and what each stage gained, with an interval
    over the seeds."""
    numbers = _read_seeds(seeds)
    if check:
        _check_recipe(recipe)
        return
    accuracies = {}
    sizes = set()
    for seed in numbers:
        accuracies[seed] = {}
        for label, (size, accuracy) in _read_summary(recipe, seed).items():
            accuracies[seed][label] = accuracy
            sizes.add(size)
    labels = list(next(iter(accuracies.values())))
    if len(sizes) > 1 or any(list(by_label) != labels for by_label in accuracies.values()):
        message = (
            f"the seeds in {recipe.output_dir} were not compared on the same problems and stages"
        )
        raise RecipeError([message])
    text = "\n".join(table(accuracies))
    heading = (
        f"held-out accuracy, n = {sizes.pop()}, {len(accuracies)} seeds,"
        " 95% intervals over seeds\n\n"
    )
    file = recipe.stage_dir("seeds.md")
    write_whole(file, heading + text + "\n")
    say()
    say_markdown(heading + text)
    say(f"\nresults: {file}")


def _read_seeds(texts: list[str]) -> list[int]:
    """The seeds as numbers, without repeats."""
    refusal = RULES["recipe"]["seed"].refusal
    numbers = []
    # The shell of make splits them in the same way, as only digits and blanks are accepted.
    for text in re.split("[ \t\n]+", " ".join(texts).strip(" \t\n")):
        if not re.fullmatch("0|[1-9][0-9]{0,9}", text) or refusal(int(text)):
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
    if "'" in recipe.name:  # the Makefile writes the name between two quotes
        message = f"{recipe.name}.yaml: a recipe with a quote in its name has no seeds: rename it"
        raise RecipeError([message])


def _read_summary(recipe: Recipe, seed: int) -> dict[str, tuple[int, float]]:
    """The number of held-out problems and the accuracy of every stage that one seed evaluated.
    Raises RecipeError where the summary is missing or damaged."""
    file = recipe.stage_dir(f"seed-{seed}") / "eval/held-out/summary.json"
    try:
        summary = parsed(file.read_text(encoding="utf-8"))
        return {
            label: (int(figures["n"]), float(figures["accuracy"]))
            for label, figures in summary.items()
        }
    except FileNotFoundError:
        message = f"{file} is not there: {make_command('seeds', recipe)} makes it"
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        message = f"{file} is not what an evaluation wrote ({type(error).__name__}): delete it"
    raise RecipeError([message])


def table(accuracies: dict[int, dict[str, float]]) -> list[str]:
    """Markdown: a row for each seed, a row for the mean over the seeds, and a line for each gain
    that an evaluation compares.

    Args:
        accuracies: the accuracy of each stage by its label, by seed.
    """
    labels = list(next(iter(accuracies.values())))
    lines = [row(["seed", *map(inline, labels)]), row(["---", *["---:"] * len(labels)])]
    for seed, by_label in accuracies.items():
        lines.append(row([str(seed), *(f"{by_label[label]:.1%}" for label in labels)]))
    if len(accuracies) < 2:
        return [*lines, "", "One seed says nothing about others: no interval."]
    means = ["mean"]
    for label in labels:
        mean, half_width = over_seeds([by_label[label] for by_label in accuracies.values()])
        means.append(f"{mean:.1%} ± {100 * half_width:.1f}")
    lines += [row(means), ""]
    for before, after in compared_pairs(labels):
        gains = [by_label[after] - by_label[before] for by_label in accuracies.values()]
        lines.append(f"- {inline(before)} → {inline(after)}: {seeds_verdict(gains)}")
    return lines


OPTIONS = {
    "--seeds": {"nargs": "*", "required": True},
    "--check": {
        "action": "store_true",
        "help": "only check what is given, before any seed is trained",
    },
}

if __name__ == "__main__":
    run("seeds", main, OPTIONS)
