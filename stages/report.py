"""Write the report of an evaluation again, from the answers on disk alone; or a run's, with its
curves and its card, from the files in its folder.

`python -m stages report outputs/<recipe>/eval/gsm8k`, or `outputs/<recipe>/grpo`.
"""

from pathlib import Path

from console.faults import Fault, RecipeError
from console.terminal import say, say_markdown
from evaluation import run_pages
from evaluation.report import compare, write
from runs.files import lock
from runs.records import LABELS
from runs.state import read_run


def main(folder: Path) -> Path:
    """Write the report of finished answers, or of a finished run, again. Return the page."""
    for run_folder in (folder, folder / "grpo"):
        if any((run_folder / name).is_file() for name in ("recipe.yaml", "metrics.jsonl")):
            page = run_pages.write(read_run(run_folder))
            say(f"report: {page}")
            return page
    labels = []
    for file in folder.glob("*.jsonl"):
        if not file.name.endswith(".seconds.jsonl"):
            labels.append(file.stem)
    if not labels:
        message = "name the folder of one benchmark's answers or of a run, FILE=folder"
        folders = sorted({str(file.parent) for file in Path("outputs").glob("*/eval/**/*.jsonl")})
        if folders:
            message += f"; there are: {', '.join(folders)}"
        raise RecipeError([Fault("report", f"{folder}: {message}")])
    lock(folder)
    try:
        models = compare(folder, sorted(labels, key=_order))
    except ValueError as error:
        raise RecipeError([Fault("report", str(error))]) from None
    say_markdown(write(folder, models))
    return folder / "report.md"


def _order(label: str) -> tuple[int, str]:
    """The place of a model in a report: our stages in their order, then other models."""
    place = LABELS.index(label) if label in LABELS else len(LABELS)
    return place, label
