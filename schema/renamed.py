"""What other libraries call the keys of a recipe, as the table of docs/migrate.md has it."""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs/migrate.md"


def rows() -> Iterator[tuple[str, str]]:
    """Yield each name of another library, and what a recipe has in its place."""
    if not PAGE.is_file():
        return
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("|"):
            replacement, *cells = line.strip("|").split("|")
            for name in re.findall(r"`([\w.]+)`", " ".join(cells)):
                yield name, replacement.strip()


@cache
def _remedies() -> dict[str, str]:
    """Name to remedy, of whole names, and of last parts for which the table has one remedy."""
    remedies = dict(rows())
    by_last_part = defaultdict(set)
    for name, replacement in rows():
        by_last_part[name.rpartition(".")[2]].add(replacement)
    for name, replacements in by_last_part.items():
        if len(replacements) == 1:
            remedies.setdefault(name, *replacements)
    return remedies


def remedy(*names: str) -> str:
    """What to write for the first of these names that another library has; empty where none has
    it."""
    for name in names:
        if name in _remedies():
            return f"write {_remedies()[name]} (docs/migrate.md)"
    return ""
