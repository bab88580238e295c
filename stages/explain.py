"""Work out what the loss says to each token of one completion that a run sampled.

`python -m stages.explain outputs/<recipe>/grpo --step 40 --row 3`; the result is a file in the
run's folder, which `make view` draws.
"""

import json

from console.faults import RecipeError
from console.terminal import make_line, say
from machine import fit
from runs.folder import completion_files, find
from stages.cli import quiet_libraries, run
from training.checkpoints import write_whole
from training.run_folder import recipe_of
from training.writing import link_inside
from viewer import groups

FOLDER = "explain"
SHOWN = 8  # tokens on the terminal


def main(run: list[str], step: str | None, row: str):
    """Work out what the loss says to each token of one completion."""
    if wrong := [
        f"{name}={each}"
        for name, each in (("STEP", step or "0"), ("ROW", row))
        if not each.isdecimal()
    ]:
        raise RecipeError([f"{wrong[0]}: expected a whole number, as `make view` shows it"])
    path = find(run)[0]
    if wrong := link_inside(path):
        raise RecipeError([wrong])
    try:
        if step is None:
            raise ValueError("name a step, STEP=…, and a completion of it, ROW=…")
        step, row = int(step), int(row)
        group = groups.of_row(path, step, row)
    except ValueError as error:
        steps = [each.stem[12:].lstrip("0") for each in completion_files(path)]
        some = ", ".join(steps if len(steps) < 30 else [*steps[:10], "…", *steps[-10:]])
        told = (
            ""
            if "has no completion" in str(error)
            else f"; the steps whose completions were written: {some}"
        )
        raise RecipeError([f"{error}{told}"]) from None
    recipe = fit.to_machine(recipe_of(path))
    quiet_libraries()

    from evaluation.explain import explained
    from training.model import load_tokenizer

    warm_start = recipe.stage_dir("sft") if recipe.sft is not None else None
    place = next(i for i, each in enumerate(group["rows"]) if each["row"] == row)
    found = explained(recipe, load_tokenizer(recipe), path, warm_start, step, group, place)
    file = path / FOLDER / f"{step}-{row}.json"
    file.parent.mkdir(exist_ok=True)
    write_whole(file, json.dumps(found) + "\n")
    _say(found)
    say(
        f"explain: all {len(found['tokens'])} tokens are in {file}\nnext:"
        f" {make_line('view', RUN=[path])}"
    )


def _say(found: dict):
    """The policies, and the tokens that the run has moved furthest."""
    used = found["policies"]
    say(
        f"sampled by {used['old']} or one after it, compared with {used['new']}; the reference is"
        f" {used['reference']}"
    )
    for note in found["notes"]:
        say(f"note: {note}")
    moved = sorted(
        range(len(found["tokens"])), key=lambda i: -abs(found["new"][i] - found["old"][i])
    )[:SHOWN]
    say(f"advantage {found['advantage']:.3f}; the tokens that moved furthest, in their order:")
    say(f"{'token':>14}  {'advantage':>9}  {'ratio':>9}  {'kl':>9}  {'entropy':>9}  {'loss':>9}")
    for i in sorted(moved):
        shown = ("advantages", "ratio", "kl", "entropy", "loss")
        numbers = "  ".join(f"{found[name][i]:9.4f}" for name in shown)
        say(f"{found['tokens'][i]!r:>14.14}  {numbers}{'  clipped' if found['stopped'][i] else ''}")


OPTIONS = {
    "run": {"nargs": "*", "help": "the folder of a GRPO run, else the newest"},
    "--step": {"help": "a step whose completions were written"},
    "--row": {"default": "0", "help": "the completion's number in that step"},
}

if __name__ == "__main__":
    run("explain", main, OPTIONS, takes_recipe=False)
