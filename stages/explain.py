"""Work out how the loss moves each token of one completion that a run sampled.

`python -m stages.explain outputs/<recipe>/grpo --step 40 --row 3`; the result is a file in the
run's folder, which `make view` draws.
"""

import json
from pathlib import Path

from console.faults import RecipeError
from console.terminal import make_line, say
from machine.launch import to_machine
from runs.folder import completion_files, find_runs
from stages.cli import quiet_libraries, run
from training.checkpoints import write_whole
from training.run_folder import recipe_of
from viewer import groups

FOLDER = "explain"
SHOWN = 8  # tokens on the terminal


def main(run: list[str], step: str | None, row: str):
    """Work out how the loss moves each token of one completion."""
    for name, number in (("STEP", step or "0"), ("ROW", row)):
        if not number.isdecimal():
            message = f"{name}={number}: expected a whole number, as `make view` shows it"
            raise RecipeError([message])
    path = find_runs(run)[0]
    try:
        if step is None:
            raise ValueError("name a step, STEP=…, and a completion of it, ROW=…")
        step = int(step)
        row = int(row)
        group = groups.group_of_row(path, step, row)
    except ValueError as error:
        message = str(error)
        if "has no completion" not in message:
            message += f"; the steps whose completions were written: {_steps(path)}"
        raise RecipeError([message]) from None
    recipe = to_machine(recipe_of(path))
    quiet_libraries()

    from evaluation.explain import explained
    from training.model import load_tokenizer

    warm_start = None
    if recipe.sft is not None:
        warm_start = recipe.stage_dir("sft")
    place = [completion["row"] for completion in group["rows"]].index(row)
    terms = explained(recipe, load_tokenizer(recipe), path, warm_start, step, group, place)
    file = path / FOLDER / f"{step}-{row}.json"
    file.parent.mkdir(exist_ok=True)
    write_whole(file, json.dumps(terms) + "\n")
    _say_terms(terms)
    say(f"explain: all {len(terms['tokens'])} tokens are in {file}")
    say(f"next: {make_line('view', RUN=[path])}")


def _steps(path: Path) -> str:
    """The steps whose completions were written, the first and last ten where they are many."""
    steps = [file.stem[12:].lstrip("0") for file in completion_files(path)]
    if len(steps) >= 30:
        steps = [*steps[:10], "…", *steps[-10:]]
    return ", ".join(steps)


def _say_terms(terms: dict):
    """Print the compared policies, and the terms of the loss for the tokens whose probability the
    run has changed most."""
    policies = terms["policies"]
    say(
        f"sampled by {policies['old']} or one after it, compared with {policies['new']}; the"
        f" reference is {policies['reference']}"
    )
    for note in terms["notes"]:
        say(f"note: {note}")
    changes = [abs(new - old) for new, old in zip(terms["new"], terms["old"], strict=True)]
    furthest = sorted(range(len(changes)), key=lambda i: -changes[i])[:SHOWN]
    say(f"advantage {terms['advantage']:.3f}; the tokens that moved furthest, in their order:")
    say(f"{'token':>14}  {'advantage':>9}  {'ratio':>9}  {'kl':>9}  {'entropy':>9}  {'loss':>9}")
    for i in sorted(furthest):
        columns = ("advantages", "ratio", "kl", "entropy", "loss")
        numbers = "  ".join(f"{terms[name][i]:9.4f}" for name in columns)
        if terms["stopped"][i]:
            numbers += "  clipped"
        say(f"{terms['tokens'][i]!r:>14.14}  {numbers}")


OPTIONS = {
    "run": {"nargs": "*", "help": "the folder of a GRPO run, else the newest"},
    "--step": {"help": "a step whose completions were written"},
    "--row": {"default": "0", "help": "the completion's number in that step"},
}

if __name__ == "__main__":
    run("explain", main, OPTIONS, takes_recipe=False)
