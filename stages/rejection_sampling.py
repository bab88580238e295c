"""Rejection sampling: the base model solves training problems, and the warm start then learns from
its correct solutions.

A stage of its own, which one process runs: a launcher's other processes would wait for it, some
only for half an hour.
"""

from console.faults import Fault, RecipeError
from console.terminal import make_command, say
from runs.files import lock
from runs.identity import find_run
from schema.recipe import Recipe
from stages.cli import begin
from training.problem_sets import load_train


def main(recipe: Recipe, if_needed: bool = False) -> dict:
    """Sample the solutions that the warm start of a recipe with `data.rejection_sampling` learns
    from. Return the figures, which are empty where there is nothing to do."""
    if recipe.data.rejection_sampling is None:
        if if_needed:
            return {}
        message = (
            "it has no `data.rejection_sampling`: its warm start learns from the data's worked"
            " solutions"
        )
        raise RecipeError([Fault(recipe.place("data"), message)])
    sft = find_run(recipe, "sft")
    if sft.finished:
        say(f"rejection sampling: the warm start is finished already, in {sft.folder}")
        return {}
    recipe = begin("rejection sampling", recipe, ("sft", "evaluate"))

    from evaluation import sample
    from training.model import load_tokenizer

    folder = recipe.stage_dir(sample.REJECTION_SAMPLING)
    lock(folder)
    tokenizer = load_tokenizer(recipe)
    rows, _ = load_train(recipe)
    stored = sample.completions_to_learn_from(recipe, tokenizer, rows)
    say(sample.announcement(recipe, rows))
    sample.sample_missing(stored, tokenizer)
    solutions = sample.solutions_to_learn(recipe, stored)
    sample.write_solutions(folder, solutions.rows)
    cost = f"{solutions.figures['tokens']:,} tokens, {solutions.figures['seconds']:,.0f} seconds"
    say(f"rejection sampling: {sample.accepted_of(solutions.figures)}, in {folder} ({cost})")
    if not if_needed:
        say(f"next: {make_command('sft', recipe)}")
    return solutions.figures
