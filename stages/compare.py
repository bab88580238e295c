"""Compare finished runs from the files in their folders alone: what each cost and reached, and
whether they differ.

`python -m stages.compare outputs/a outputs/b …`, each a run's folder, the one above it, or a
recipe's seeds' folder.
"""

import glob
from pathlib import Path

from console.faults import RecipeError
from console.terminal import say, say_markdown
from stages.cli import run
from training.checkpoints import write_whole
from training.writing import link_inside

FOLDER = Path("outputs/compare")  # made again by every comparison


def main(runs: list[str]):
    """Compare finished runs, the seeds of one recipe taken together."""
    from evaluation import compare_runs  # imports torch, which a wrong option does not need

    found = [sorted(glob.glob(each)) or [each] for each in runs]  # noqa: PTH207 - Path.glob takes no absolute one
    arms = compare_runs.read_arms([run for each in found for run in each])
    if wrong := link_inside(FOLDER):
        raise RecipeError([wrong])
    text = "\n".join(compare_runs.table(arms))
    FOLDER.mkdir(parents=True, exist_ok=True)
    drawn = compare_runs.draw(FOLDER / "curves.png", arms)
    report = FOLDER / "report.md"
    write_whole(report, text + ("\n\n![what the runs logged](curves.png)\n" if drawn else "\n"))
    say_markdown(text)
    say(f"\nresults: {report}")


if __name__ == "__main__":
    run(
        "compare",
        main,
        {"runs": {"nargs": "*", "help": "folders of runs, or of a recipe's seeds"}},
        takes_recipe=False,
    )
