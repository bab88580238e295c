"""The answers that an evaluation wrote beside a run: `eval/<benchmark>/<label>.jsonl`."""

from pathlib import Path

from data.json_files import parsed
from schema.stages import POLICIES

CONTROL = "base+example"
LABELS = ("base", CONTROL, *POLICIES)  # of a recipe's models, in the order in which they are compared
# What is read of each answer.
KEYS = {"id", "sample", "problem", "gold", "answer", "right", "strict", "lenient", "truncated", "tokens"}
WHOLE = ("id", "sample", "tokens")


def evaluations(run: Path) -> dict[str, list[str]]:
    """The evaluations beside a run, by benchmark: the labels of the models that were judged."""
    found, order = {}, {label: i for i, label in enumerate(LABELS)}
    root = run.parent / "eval"
    for folder in sorted(each for each in ([] if root.is_symlink() else root.glob("*/")) if not each.is_symlink()):
        files = [each for each in folder.glob("*.jsonl") if each.is_file() and not each.is_symlink()]
        files = [each for each in files if not each.name.endswith(".seconds.jsonl")]
        files.sort(key=lambda file: (order.get(file.stem, len(order)), file.stat().st_mtime))
        if files and folder.name != "models":
            found[folder.name] = [file.stem for file in files]
    return found


def read(file: Path) -> list[dict]:
    """What an evaluation wrote: the settings of its answers, then one answer per line. A torn last line is left out.

    Raises:
        ValueError: the file is not what an evaluation wrote.
    """
    try:
        # Not splitlines: a response may hold a line separator of Unicode's.
        lines = [parsed(line) for line in file.read_text(encoding="utf-8").split("\n")[:-1]]
        if not all(isinstance(each, dict) for each in lines):
            raise TypeError("a line is not a JSON object")
        if missing := next((KEYS - each.keys() for each in lines[1:] if KEYS - each.keys()), None):
            raise KeyError(min(missing))
        if any(type(each[key]) is not int or not 0 <= each[key] < 2**53 for each in lines[1:] for key in WHOLE):
            raise TypeError(f"one of {', '.join(WHOLE)} is no whole number")
    except (ValueError, TypeError, LookupError) as error:
        raise ValueError(f"{file} is not what an evaluation wrote ({type(error).__name__}: {error})") from None
    return lines
