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
    faults = []
    for file in files:
        message = _refusal(file)
        if message:
            faults.append(Fault(f"FILE={file}", message))
    if faults:
        raise RecipeError(faults)
    if not files:
        raise RecipeError(["name a Python file of yours: make trust FILE=my_rewards.py"])
    added = [imports.as_trusted(Path(file).resolve()) for file in files]
    lines = dict.fromkeys([*imports.trusted_lines(), *added])
    imports.TRUSTED.write_text("".join(f"{line}\n" for line in lines), "utf-8", "surrogateescape")
    for file in added:
        permission = f"recipes may now run {file}"
        if file.endswith(".yaml"):
            permission = f"{file} may now send its runs to a tracker"
        say(f"{permission}; to take it back, remove the line from {imports.TRUSTED}")


def _refusal(name: str) -> str | None:
    """The reason why a file cannot be trusted, or None."""
    file = Path(name).resolve()
    if not file.exists():
        names = sorted(path.name for path in file.parent.glob("*.py"))
        if not names:
            return "there is no such file; its folder has no Python file"
        return f"there is no such file{nearest_or_all(file.name, names[:8])}"
    if file.is_dir():
        return "is a folder; name its Python files"
    if not file.is_file() or file.suffix not in (".py", ".yaml"):
        return "is no Python file or recipe, whose name ends in .py or .yaml"
    if not str(file).isprintable():
        return "its path has characters that cannot be shown: rename it"
    return None


if __name__ == "__main__":
    run("trust", main, {"files": {"nargs": "*"}}, takes_recipe=False)
