"""Compare finished runs from the files in their folders alone: what each cost and reached, and
whether they differ.

`python -m stages compare outputs/a outputs/b …`, each a run's folder, the one above it, or a
recipe's seeds' folder.
"""

import glob
from pathlib import Path

from console.terminal import say, say_markdown
from runs.files import lock, write_whole

FOLDER = Path("outputs/compare")  # made again by every comparison


def main(runs: list[str]) -> str:
    """Compare finished runs, the seeds of one recipe taken together. Return the report."""
    from evaluation import compare_runs  # imports torch, which a wrong option does not need

    folders = []
    for pattern in runs:
        folders += sorted(glob.glob(pattern)) or [pattern]  # noqa: PTH207 - Path.glob takes no absolute pattern
    arms = compare_runs.read_arms(folders)
    lock(FOLDER)
    text = compare_runs.comparison(arms)
    report = FOLDER / "report.md"
    write_whole(report, text)
    say_markdown(text.rstrip("\n"))
    say(f"\nresults: {report}")
    return text
