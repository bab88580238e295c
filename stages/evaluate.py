"""Evaluate a recipe's models on its validation problems or its benchmarks, with the verifier that
also rewards them.

Each model has one `<label>.jsonl` in `outputs/<recipe>/eval/<benchmark>/`, with one answer on each
line; a killed evaluation resumes at the batch it was working on. `summary.json` and `report.md` are
made from those files alone. Libraries that take seconds to import are imported once the problems
are read.
"""

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from console.faults import Fault, RecipeError
from console.terminal import make_command, make_line, say, say_markdown
from runs.files import lock
from runs.records import VALIDATION
from runs.state import read_run
from schema.names import samplings
from schema.recipe import Recipe
from schema.sections import Sampling
from schema.stages import STAGES, finished
from stages.cli import begin
from training.problem_sets import load_benchmarks, share_validation, train_and_validation

if TYPE_CHECKING:
    from evaluation.completions import Contestant, StoredCompletions
    from evaluation.report import Answered


def main(
    recipe: Recipe, validation: bool = False, model: list[str] | None = None
) -> dict[str, dict[str, dict]]:
    """Evaluate a recipe's base model, its warm start and its trained policy, with the recipe's
    prompt. Return the figures of each model on each benchmark."""
    if not validation:
        _require_benchmarks(recipe)
    say(f"evaluate: {recipe.name} on its {'validation problems' if validation else 'benchmarks'}")
    recipe = begin("evaluate", recipe, ("evaluate",))
    root = recipe.stage_dir("eval")
    if model:
        root = root / "models"
    has_control = recipe.evaluate.control and not validation and not model
    train = train_and_validation(recipe)[0] if has_control else []
    problems, sampling = _problems(recipe, validation)

    from evaluation import report

    for name in problems:
        lock(root / name)
    contestants = _contestants(recipe, model, train)
    lines = _completions(contestants, root, problems, sampling)
    models = {name: report.compared(root / name, lines[name]) for name in problems}
    tables = [report.write(root / name, models[name]) for name in problems]
    if not model:
        _report_gains(contestants, models)
    for table in tables:
        say()
        say_markdown(table)
    say(f"\nresults: {root}")
    if validation and recipe.evaluate.benchmarks and not model:
        say(f"next: {make_command('evaluate', recipe)}")
    trained = [STAGES.get(contestant.label) for contestant in contestants]
    has_policy = any(stage and stage.warm_start for stage in trained)
    _say_next(recipe, has_policy, model is None)
    return {name: _figures(answered) for name, answered in models.items()}


def _figures(answered: dict) -> dict[str, dict]:
    return {label: answers.figures for label, answers in answered.items()}


def _require_benchmarks(recipe: Recipe):
    if not recipe.evaluate.benchmarks:
        message = "no evaluate.benchmarks to evaluate on"
        raise RecipeError([Fault(recipe.place("evaluate"), message)])


def _say_next(recipe: Recipe, has_policy: bool, is_of_recipe: bool):
    """Say what to run after an evaluation; of models that are no stages of the recipe, nothing."""
    if has_policy:
        say(f"next: {make_line('view', RUN=[recipe.output_dir])}")
    elif is_of_recipe:
        say(f"next: {make_command('grpo', recipe)}")


def _completions(
    contestants: "list[Contestant]",
    root: Path,
    problems: dict[str, list[dict]],
    sampling: dict[str, Sampling],
) -> dict[str, dict[str, list[dict]]]:
    """The judged completions of each contestant for each benchmark, as the lines of their files.
    One engine answers for all contestants that can share it."""
    from evaluation.engines import shared

    lines: dict[str, dict[str, list[dict]]] = {name: {} for name in problems}
    for _, group in groupby(contestants, key=lambda model: shared(model.recipe, model.trained)):
        for stored in complete(list(group), root, problems, sampling):
            lines[stored.file.parent.name][stored.file.stem] = [stored.settings, *stored.lines]
    return lines


def _problems(
    recipe: Recipe, validation: bool
) -> tuple[dict[str, list[dict]], dict[str, Sampling]]:
    """The problems of each benchmark, or those that are held out, and how they are sampled. The
    validation ones fit the model and have not chosen a checkpoint."""
    if not validation:
        return load_benchmarks(recipe), samplings(recipe)
    _, validation = train_and_validation(recipe)

    from training.memory import validation_that_fit
    from training.model import load_tokenizer

    fitting = validation_that_fit(recipe, load_tokenizer(recipe), validation)
    _, comparing = share_validation(recipe, fitting)
    return {VALIDATION: comparing}, {VALIDATION: recipe.evaluate.sampling()}


def _contestants(recipe: Recipe, model: list[str] | None, train: list[dict]) -> "list[Contestant]":
    """The models that the user named, or else the recipe's finished stages, with a control by an
    example of the training problems where there are any. Names the stages that are not finished."""
    from evaluation.completions import control, named_model, stages_of

    if model:
        return [named_model(recipe, path) for path in model]
    contestants = stages_of(recipe)
    if train:
        contestants[1:1] = control(recipe, train)
    unfinished = []
    for stage in STAGES:
        folder = recipe.stage_dir(stage)
        if folder.exists() and not finished(folder):
            unfinished.append(stage)
    if unfinished:
        say(f"left out, for it is not finished: {', '.join(unfinished)}")
    return contestants


def _report_gains(contestants: "list[Contestant]", models: "dict[str, dict[str, Answered]]"):
    """Write the evaluated runs' cards and pages again, and print what each benchmark shows of the
    last of them in a person's words, and where its page is."""
    from evaluation import report

    runs = [contestant.trained for contestant in contestants if contestant.trained]
    if not runs:
        return
    page = None
    for run_folder in runs:
        page = write_again(run_folder)
    for name, answered in models.items():
        say()
        say("\n".join(report.gain_lines(name, answered)))
    if page:  # of the last stage, beside those before it
        say(f"\npage: {page}, for any browser")


def complete(
    contestants: "list[Contestant]",
    root: Path,
    problems: dict[str, list[dict]],
    sampling: dict[str, Sampling],
) -> "list[StoredCompletions]":
    """Write the missing completions of contestants that share one engine, and return all of them.

    Args:
        sampling: how the completions of a benchmark are sampled, by its name.
    """
    from evaluation.completions import StoredCompletions
    from evaluation.engines import engine, max_new_tokens
    from training.memory import model_config
    from training.model import load_tokenizer
    from training.problem_sets import window_of

    recipe = contestants[0].recipe
    tokenizer = load_tokenizer(recipe)
    room = window_of(model_config(recipe)) - max_new_tokens(recipe)
    completions = []
    unfinished = []
    for contestant in contestants:
        for name, rows in problems.items():
            sampled = contestant._replace(sampling=sampling[name])
            stored = StoredCompletions(root / name, sampled, tokenizer, rows, room)
            completions.append(stored)
            if stored.missing():
                unfinished.append((contestant.trained, stored))
    if not unfinished:
        return completions
    models = list(dict.fromkeys(trained for trained, _ in unfinished))
    longest = max(stored.longest_prompt for _, stored in unfinished)
    if longest == 0:
        message = f"{max_new_tokens(recipe)} tokens of answer leave no prompt any room in the model"
        raise RecipeError([Fault(recipe.place("evaluate"), f"evaluate.max_new_tokens: {message}")])
    with engine(recipe, tokenizer, models, longest) as completers:
        for trained, stored in unfinished:
            stored.complete(completers[models.index(trained)])
    return completions


def write_again(folder: Path) -> Path | None:
    """Write a run's card, report and page with the new results, or say why they cannot be written.
    Return the page."""
    from evaluation import run_pages
    from viewer.page import write_beside

    try:
        run = read_run(folder)
        report = run_pages.write(run)
    except RecipeError as error:
        say(f"not written: the report of {folder} ({error})")
        return None
    if report.name == "report.md":
        say(f"report: {report}")
    return write_beside(run)
