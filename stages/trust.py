"""Let recipes run functions of your own Python files, and a recipe of yours send its runs to a
tracker: `python -m stages.trust my_rewards.py recipes/mine.yaml`."""

from pathlib import Path

from console.faults import Fault, RecipeError, nearest_or_all
from console.terminal import say
from data import imports
from stages.cli import run


def main(files: list[str]):
    """Let recipes run functions of these Python files, and these recipes send runs to a tracker,
    now and after you edit them. To take it back, remove their lines from .trusted."""
    if faults := [Fault(f"FILE={file}", wrong) for file in files if (wrong := _wrong(file))]:
        raise RecipeError(faults)
    if not files:
        raise RecipeError(["name a Python file of yours: make trust FILE=my_rewards.py"])
    added = [imports.as_trusted(Path(file).resolve()) for file in files]
    lines = dict.fromkeys([*imports.trusted_lines(), *added])
    imports.TRUSTED.write_text("".join(f"{line}\n" for line in lines), "utf-8", "surrogateescape")
    for file in added:
        now = (
            f"{file} may now send its runs to a tracker"
            if file.endswith(".yaml")
            else f"recipes may now run {file}"
        )
        say(f"{now}; to take it back, remove the line from {imports.TRUSTED}")


def _wrong(name: str) -> str | None:
    file = Path(name).resolve()
    if not file.exists():
        files = sorted(each.name for each in file.parent.glob("*.py"))
        beside = (
            nearest_or_all(file.name, files[:8]) if files else "; its folder has no Python file"
        )
        return f"there is no such file{beside}"
    if file.is_dir():
        return "is a folder; name its Python files"
    if not file.is_file() or file.suffix not in (".py", ".yaml"):
        return "is no Python file or recipe, whose name ends in .py or .yaml"
    return (
        None
        if str(file).isprintable()
        else "its path has characters that cannot be shown: rename it"
    )


if __name__ == "__main__":
    run("trust", main, {"files": {"nargs": "*"}}, takes_recipe=False)
