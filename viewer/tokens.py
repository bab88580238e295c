"""The completions that `make explain` has worked out token by token, from the files that it wrote into the run."""

import re
from pathlib import Path
from typing import Any

from data.json_files import parsed
from runs.folder import inside

FILE = re.compile(r"(\d{1,12})-(\d{1,12})\.json")
# Of each token, beside its text.
NUMBERS = ("new", "old", "reference", "entropy", "ratio", "unclipped", "clipped", "kl", "loss", "stopped")


def explained(run: Path) -> list[dict[str, int]]:
    """`step` and `row` of every completion that was worked out."""
    folder = run / "explain"
    if folder.is_symlink() or not folder.is_dir():
        return []
    found = [FILE.fullmatch(each.name) for each in folder.iterdir()]
    return sorted(({"step": int(m[1]), "row": int(m[2])} for m in found if m), key=lambda each: tuple(each.values()))


def tokens(run: Path, step: int, row: int) -> dict[str, Any]:
    """A completion token by token, as `evaluation.explain.explained` gives it.

    Raises:
        ValueError: it has not been worked out, or the file is not what that wrote.
    """
    file = inside(run, f"explain/{step}-{row}.json")
    try:
        found = parsed(file.read_text(encoding="utf-8"))
        count = len(found["tokens"])
        found.setdefault("advantages", [found["advantage"]] * count)  # before there were rewards of steps
        if any(len(found[name]) != count for name in (*NUMBERS, "advantages")):
            raise ValueError("its columns are of different lengths")
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{file} is not what make explain wrote ({error})") from None
    return found
