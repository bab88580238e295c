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
from training.writing import link_inside


def main(files: list[Path]):
    """Write the report of finished answers, or of a finished run, again."""
    alone = files[0] if len(files) == 1 else None
    if runs := (
        [each for each in (alone, alone / "grpo") if (each / "recipe.yaml").is_file()]
        if alone
        else []
    ):
        say(f"report: {run_pages.write(runs[0])}")
        return
    given, files = files, sorted(alone.glob("*.jsonl")) if alone and alone.is_dir() else files
    files = sorted((file for file in files if not file.name.endswith(".seconds.jsonl")), key=_age)
    try:
        strangers = [file for file in files if not file.is_file() or file.suffix != ".jsonl"]
        if not files or strangers or len({file.parent for file in files}) != 1:
            what = ", ".join(map(str, strangers or given)) or "nothing"
            raise ValueError(
                f"{what}: name the folder of one benchmark's answers or of a run,"
                f" FILE=folder{_known()}"
            )
        if wrong := link_inside(files[0].parent):
            raise ValueError(str(wrong))
        say_markdown(write(files[0].parent, [file.stem for file in files]))
    except ValueError as error:
        raise RecipeError([Fault("report", str(error))]) from None


def _known() -> str:
    folders = sorted({str(file.parent) for file in Path("outputs").glob("*/eval/**/*.jsonl")})
    return f"; there are: {', '.join(folders)}" if folders else ""


def _age(file: Path) -> tuple[int, str]:
    return (LABELS.index(file.stem) if file.stem in LABELS else len(LABELS)), file.stem


if __name__ == "__main__":
    what = "the answers to one benchmark (.jsonl), or their folder; or a run's folder"
    run("report", main, {"files": {"nargs": "*", "type": Path, "help": what}}, takes_recipe=False)
