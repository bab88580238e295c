"""What a recipe gains over several seeds: one seed is a story. `make seeds` trains and compares
each in a folder of its own, `outputs/<recipe>/seed-<n>`, and this reads their comparisons on the
held-out problems.
"""

import re
from pathlib import Path

from console.faults import Fault, RecipeError
from console.terminal import inline, make_command, row, say, say_markdown
from data.json_files import parsed
from evaluation.report import compared
from evaluation.statistics import over_seeds, seeds_verdict
from schema.recipe import Recipe
from schema.values import RULES
from stages.cli import run
from training.checkpoints import write_whole
from training.writing import link_inside


def main(recipe: Recipe, seeds: list[str], check: bool = False):
    """Report the accuracy of each stage over seeds, and what each stage gained, with an interval
    over the seeds."""
    # make's shell parts them again: of plain numbers and blanks it makes the same.
    seeds = re.split("[ \t\n]+", " ".join(seeds).strip(" \t\n"))
    refusal = RULES["recipe"]["seed"].refusal
    if wrong := [
        each for each in seeds if not re.fullmatch("0|[1-9][0-9]{0,9}", each) or refusal(int(each))
    ]:
        raise RecipeError(
            [f'SEEDS: expected whole numbers such as SEEDS="1 2 3", got "{wrong[0]}"']
        )
    if check:
        # Each seed's own; the stages are given them after whatever the recipe says.
        if taken := [key for key in ("seed", "output_dir") if (key,) in recipe.places]:
            message = "make seeds sets it for each seed: leave it out"
            raise RecipeError([Fault(recipe.place(key), f"{key}: {message}") for key in taken])
        if "'" in recipe.name:  # the Makefile puts it between two
            raise RecipeError(
                [f"{recipe.name}.yaml: a recipe with a quote in its name has no seeds: rename it"]
            )
        return
    if wrong := link_inside(Path(recipe.output_dir)):
        raise RecipeError([wrong])
    found = {}
    for seed in dict.fromkeys(map(int, seeds)):
        file = recipe.stage_dir(f"seed-{seed}") / "eval/held-out/summary.json"
        try:
            figures = parsed(file.read_text(encoding="utf-8"))
            found[seed] = {
                label: (int(each["n"]), float(each["accuracy"])) for label, each in figures.items()
            }
        except FileNotFoundError:
            raise RecipeError(
                [f"{file} is not there: {make_command('seeds', recipe)} makes it"]
            ) from None
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            raise RecipeError(
                [f"{file} is not what an evaluation wrote ({type(error).__name__}): delete it"]
            ) from None
    labels = list(next(iter(found.values())))
    sizes = {n for each in found.values() for n, _ in each.values()}
    if len(sizes) > 1 or any(list(each) != labels for each in found.values()):
        raise RecipeError(
            [f"the seeds in {recipe.output_dir} were not compared on the same problems and stages"]
        )
    accuracies = {
        seed: {label: accuracy for label, (_, accuracy) in each.items()}
        for seed, each in found.items()
    }
    text = "\n".join(table(accuracies))
    heading = (
        f"held-out accuracy, n = {sizes.pop()}, {len(found)} seeds, 95% intervals over seeds\n\n"
    )
    file = recipe.stage_dir("seeds.md")
    write_whole(file, heading + text + "\n")
    say()
    say_markdown(heading + text)
    say(f"\nresults: {file}")


def table(accuracies: dict[int, dict[str, float]]) -> list[str]:
    """Markdown: a row for each seed, one for the mean over them, and a line for each gain in the
    same seed that an evaluation compares."""
    labels = list(next(iter(accuracies.values())))
    lines = [row(["seed", *map(inline, labels)]), row(["---", *["---:"] * len(labels)])]
    lines += [
        row([str(seed), *(f"{each[of]:.1%}" for of in labels)]) for seed, each in accuracies.items()
    ]
    if len(accuracies) < 2:
        return [*lines, "", "One seed says nothing about others: no interval."]
    means = [over_seeds([each[label] for each in accuracies.values()]) for label in labels]
    lines += [row(["mean", *(f"{mean:.1%} ± {100 * half:.1f}" for mean, half in means)]), ""]
    for before, after in compared(labels):
        gains = seeds_verdict([each[after] - each[before] for each in accuracies.values()])
        lines.append(f"- {inline(before)} → {inline(after)}: {gains}")
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
