"""Write the report of an evaluation again, from the answers on disk alone; or a run's, with its
curves and its card, from the files in its folder.

`python -m stages.report outputs/<recipe>/eval/gsm8k`, or some of the `.jsonl` files in it, or
`outputs/<recipe>/grpo`.
"""

from pathlib import Path

from console.faults import Fault, RecipeError
from console.terminal import say, say_markdown
from evaluation import run_pages
from evaluation.report import write
from runs.folder import LABELS
from stages.cli import run
from training.writing import require_no_link


def main(files: list[Path]):
    """Write the report of finished answers, or of a finished run, again."""
    answers = files
    if len(files) == 1:
        for folder in (files[0], files[0] / "grpo"):
            if (folder / "recipe.yaml").is_file():
                say(f"report: {run_pages.write(folder)}")
                return
        if files[0].is_dir():
            answers = files[0].glob("*.jsonl")
    answers = [file for file in answers if not file.name.endswith(".seconds.jsonl")]
    answers.sort(key=_order)
    try:
        say_markdown(write(_folder_of(answers, files), [file.stem for file in answers]))
    except ValueError as error:
        raise RecipeError([Fault("report", str(error))]) from None


def _folder_of(answers: list[Path], files: list[Path]) -> Path:
    """The folder of one benchmark's answers, found among the files that the user named.

    Raises:
        ValueError: there are no answers, or not in one folder, or the folder holds a link.
    """
    strangers = [file for file in answers if not file.is_file() or file.suffix != ".jsonl"]
    folders = {file.parent for file in answers}
    if strangers or len(folders) != 1:
        names = ", ".join(map(str, strangers or files)) or "nothing"
        raise ValueError(
            f"{names}: name the folder of one benchmark's answers or of a run,"
            f" FILE=folder{_list_folders()}"
        )
    [folder] = folders
    require_no_link(folder)
    return folder


def _list_folders() -> str:
    """The folders of answers in `outputs`, as the end of a message."""
    folders = sorted({str(file.parent) for file in Path("outputs").glob("*/eval/**/*.jsonl")})
    return f"; there are: {', '.join(folders)}" if folders else ""


def _order(file: Path) -> tuple[int, str]:
    """The place of a file of answers in a report: our stages in their order, then other models."""
    place = LABELS.index(file.stem) if file.stem in LABELS else len(LABELS)
    return place, file.stem


if __name__ == "__main__":
    files_help = "the answers to one benchmark (.jsonl), or their folder; or a run's folder"
    options = {"files": {"nargs": "*", "type": Path, "help": files_help}}
    run("report", main, options, takes_recipe=False)
