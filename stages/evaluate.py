"""Evaluate a recipe's models on its held-out problems or its benchmarks, with the verifier that
also rewards them.

Each model has one `<label>.jsonl` in `outputs/<recipe>/eval/<benchmark>/`, with one answer on each
line; a killed evaluation resumes at the batch it was working on. `summary.json`, `report.md` and
`accuracy.png` are made from those files alone. What takes seconds to import is imported once the
problems are read; torch and what needs it only if an answer is missing, or something has changed
since all were there.
"""

import inspect
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from console.faults import Fault, RecipeError
from console.terminal import make_command, make_line, say, say_markdown, say_panel
from machine import fit
from machine.launch import require
from runs.folder import hash_of, weights_hash
from schema.names import samplings, tools_of
from schema.recipe import Recipe
from schema.sections import Sampling
from schema.stages import STAGES, finished
from stages.cli import quiet_libraries, run
from training.checkpoints import write_whole
from training.problem_sets import load_benchmarks, share_held_out, train_and_held_out
from training.run_folder import PACKAGES
from training.tiny_models import built_model
from training.writing import link_inside, lock

if TYPE_CHECKING:
    from evaluation.answers import Contestant

HELD_OUT = "held-out"
CHECKED = "checked.txt"  # what the answers were complete with: see `state`


def main(recipe: Recipe, held_out: bool = False, model: list[str] | None = None):
    """Evaluate a recipe's base model, its warm start and its trained policy, with the recipe's
    prompt."""
    if not held_out and not recipe.evaluate.benchmarks:
        raise RecipeError(
            [Fault(recipe.place("evaluate"), "no evaluate.benchmarks to evaluate on")]
        )
    say(f"evaluate: {recipe.name} on its {'held-out problems' if held_out else 'benchmarks'}")
    dtype, recipe = recipe.model.dtype, fit.to_machine(recipe)
    require(recipe, ("evaluate",))
    root = recipe.stage_dir("eval") / "models" if model else recipe.stage_dir("eval")
    if wrong := link_inside(recipe.stage_dir("eval")):
        raise RecipeError([wrong])
    train, validation = (
        train_and_held_out(recipe)
        if held_out or (recipe.evaluate.control and not model)
        else ([], [])
    )
    problems = (
        {HELD_OUT: share_held_out(recipe, validation)[1]} if held_out else load_benchmarks(recipe)
    )
    asked = {HELD_OUT: recipe.evaluate.sampling()} if held_out else samplings(recipe)

    from evaluation import report
    from evaluation.answers import control, named_model, stages_of

    for benchmark in problems:
        lock(root / benchmark)
    contestants = [named_model(recipe, path) for path in model] if model else stages_of(recipe)
    if not held_out and not model and recipe.evaluate.control:
        contestants[1:1] = control(recipe, train)
    begun = [
        each
        for each in STAGES
        if recipe.stage_dir(each).exists() and not finished(recipe.stage_dir(each))
    ]
    if begun and not model:
        say(f"left out, for it is not finished: {', '.join(begun)}")
    if not all(is_checked(root / name, contestants, rows) for name, rows in problems.items()):
        say(f"evaluate: {fit.device_line(recipe, dtype)}")
        quiet_libraries()

        from evaluation.engines import shared

        for _, together in groupby(contestants, key=lambda each: shared(each.recipe, each.trained)):
            complete(list(together), root, problems, asked)
        for name, rows in problems.items():
            write_whole(root / name / CHECKED, state(root / name, contestants, rows))
    labels = [contestant.label for contestant in contestants]
    for benchmark in problems:
        say()
        say_markdown(report.write(root / benchmark, labels))
    say(f"\nresults: {root}")
    for contestant in contestants if not model else []:
        if contestant.trained:
            write_again(contestant.trained)
    if not model and any(contestant.trained for contestant in contestants):
        lines = [line for benchmark in problems for line in report.gained(root / benchmark, labels)]
        say_panel(recipe.name, lines)
    if held_out and recipe.evaluate.benchmarks:
        say(f"next: {make_command('evaluate', recipe)}")
    if "grpo" in labels and not model:
        say(f"next: {make_line('view', RUN=[recipe.output_dir])}")


def is_checked(folder: Path, contestants: "list[Contestant]", rows: list[dict]) -> bool:
    """Whether a folder's answers were complete, and nothing has changed since."""
    file = folder / CHECKED
    return file.is_file() and file.read_bytes() == state(folder, contestants, rows).encode()


def state(folder: Path, contestants: "list[Contestant]", rows: list[dict]) -> str:
    """A hash that changes with the answers in a folder and with all that they depend on: recipe,
    problems, models and their tokenizers, tools, packages, this code. It needs no library."""
    files = [*Path(__file__).parents[1].glob("*/*.py")]
    files += [folder / f"{contestant.label}.jsonl" for contestant in contestants]
    for contestant in contestants:
        model, seed = contestant.recipe.model, contestant.recipe.seed
        base = built_model(model.build, seed) if model.build else Path(model.name_or_path)
        files += base.glob("*")
        files += map(inspect.getsourcefile, tools_of(contestant.recipe).values())
    stats = {str(file): Path(file).stat() for file in files if Path(file).is_file()}
    facts = [[name, stat.st_size, stat.st_mtime_ns] for name, stat in sorted(stats.items())]
    facts += [contestant.trained and weights_hash(contestant.trained) for contestant in contestants]
    return hash_of([repr(contestants), repr(rows), *facts, *map(version, PACKAGES)])


def complete(
    contestants: "list[Contestant]",
    root: Path,
    problems: dict[str, list[dict]],
    asked: dict[str, Sampling],
):
    """Write what is missing of the answers of contestants whom one engine serves. `asked`: how, by
    benchmark."""
    from evaluation.answers import Answers
    from evaluation.engines import engine
    from training.model import load_tokenizer

    recipe = contestants[0].recipe
    tokenizer = load_tokenizer(recipe)
    every = [
        (
            contestant.trained,
            Answers(root / name, contestant._replace(sampling=asked[name]), tokenizer, rows),
        )
        for contestant in contestants
        for name, rows in problems.items()
    ]
    unfinished = [(trained, answers) for trained, answers in every if answers.missing()]
    if not unfinished:
        return
    models = list(dict.fromkeys(trained for trained, _ in unfinished))
    longest = max(answers.longest_prompt for _, answers in unfinished)
    with engine(recipe, tokenizer, models, longest) as served:
        for trained, answers in unfinished:
            answers.complete(served[models.index(trained)])


def write_again(folder: Path):
    """Write a run's card and report with the new results; what cannot be written is left as it
    is."""
    from evaluation import run_pages

    try:
        written = run_pages.write(folder)
        if written.name == "report.md":
            say(f"report: {written}")
    except RecipeError as error:
        say(f"not written: the report of {folder} ({error})")


OPTIONS = {
    "--held-out": {
        "action": "store_true",
        "help": "on held-out problems instead of the benchmarks",
    },
    "--model": {
        "action": "append",
        "help": "a model (folder or Hub id) or an adapter's folder; for several, say it again",
    },
}

if __name__ == "__main__":
    run("evaluate", main, OPTIONS)
