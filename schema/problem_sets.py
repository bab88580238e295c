"""The problems of a recipe: its training rows, its held-out rows, and its benchmarks."""

import random

from accelerate import PartialState

from data import prompt
from data.gold import RUNS, read_check
from data.problems import Overlap, load, overlaps, split_validation
from data.sources import DataError
from data.sources import NotReached as DataNotReached
from rewards import correct_answer
from schema.configs import setting
from schema.faults import Fault, NotReached, RecipeError
from schema.names import benchmark_label, named
from schema.recipe import Recipe
from schema.terminal import say


def load_train(recipe: Recipe) -> tuple[list[dict], list[dict]]:
    """(training, held-out) rows of all the recipe's training sets together, the training rows without those that
    overlap with a problem of its benchmarks."""
    with PartialState().main_process_first():
        rows, held_out = train_and_held_out(recipe)
        found = overlaps_to_drop(rows, recipe)
    if found:
        say(f"data: {len(found):,} training problems dropped that overlap with the benchmarks (make decontaminate)")
    dropped = {overlap.row for overlap in found}
    return [row for i, row in enumerate(rows) if i not in dropped], held_out


def train_and_held_out(recipe: Recipe) -> tuple[list[dict], list[dict]]:
    """(training, held-out) rows before any is dropped: one more benchmark moves no problem to the other side."""
    rows = []
    for entry in recipe.data.train:
        rows += _load(recipe, entry, "train")
    columns = dict.fromkeys(key for row in rows for key in row)  # of the whole, where one of several sets has it
    rows = [columns | row for row in rows]
    try:
        return split_validation(rows, recipe.data.validation)
    except DataError as error:
        raise RecipeError([Fault(recipe.place("data", "validation"), str(error))]) from error


def share_held_out(recipe: Recipe, held_out: list[dict]) -> tuple[list[dict], list[dict]]:
    """(problems that choose the checkpoint while training, those that compare the stages afterwards): never the same,
    for a checkpoint chosen by a measurement looks better in it than it is."""
    choosing = recipe.evaluate.checkpoint_problems if setting(recipe, "grpo", "eval_steps") else 0
    return held_out[:choosing], held_out[choosing:]


def prompt_lengths(rows: list[dict], tokenizer, system: str | None) -> list[int]:
    """Tokens of the prompts of up to a thousand of the rows, ascending."""
    sample = random.Random(0).sample(rows, min(1000, len(rows)))
    return sorted(len(prompt.prompt_ids(tokenizer, prompt.messages(row["problem"], system))) for row in sample)


def overlapping(rows: list[dict], recipe: Recipe) -> list[Overlap]:
    return overlaps(rows, load_benchmarks(recipe))


def overlaps_to_drop(rows: list[dict], recipe: Recipe) -> list[Overlap]:
    """The training rows that are dropped, since a benchmark asks them too.

    Raises:
        RecipeError: they are all the rows.
    """
    found = overlapping(rows, recipe)
    if len(found) == len(rows):
        message = "data.train: every problem is also in a benchmark; nothing is left to train on"
        raise RecipeError([Fault(recipe.place("data", "train"), message)])
    return found


def load_benchmarks(recipe: Recipe) -> dict[str, list[dict]]:
    """Label to test problems of every benchmark of the recipe."""
    return {benchmark_label(entry): _load(recipe, entry, "test") for entry in recipe.evaluate.benchmarks}


def _load(recipe: Recipe, entry: str | dict, part: str) -> list[dict]:
    name, arguments = named(entry)
    place = recipe.place(*(("data", "train") if part == "train" else ("evaluate", "benchmarks")), name)
    try:
        rows, report = load(name, part, arguments, recipe.data.dir)
    except DataError as error:
        about = "" if name in str(error) else f"{name}: "
        kind = NotReached if isinstance(error, DataNotReached) else RecipeError
        raise kind([Fault(place, f"{about}{error}")]) from error
    if wrong := _not_runnable(recipe, rows):
        raise RecipeError([Fault(place, f"{name}: its answers are programs, and judging one runs it: {wrong}")])
    say(f"data: {report}")
    return rows


def _not_runnable(recipe: Recipe, rows: list[dict]) -> str | None:
    """Why answers that are programs cannot be judged; None where they can, or where there are none."""
    if not any(read_check(row["check"])[0] in RUNS for row in rows if row.get("check")):
        return None
    if not recipe.runs_programs:
        return "set rewards.correct_answer.run_programs: true (docs/security.md)"
    try:
        one = '{"python": {"function": "f", "cases": [[[], 0]]}}'
        correct_answer(["<answer>f = int</answer>"], ["0"], check=[one], run_programs=True)
    except RuntimeError as error:  # NotHeld: found here, and not in the middle of a run
        return str(error)
    return None
