"""JSON files: reading what this repository wrote, or a stranger; and the text of one with lines."""

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

# Bytes of a file that is read by its lines: some 100,000 logging steps, or half a million problems.
LARGEST = 2**28


def read_object(file: Path, max_bytes: int = 4 * 2**20) -> dict | None:
    """The object in a JSON file; None where it is not there or holds none, as one that a full disk
    or a crash left, or has more than `max_bytes`."""
    if not file.is_file() or file.stat().st_size > max_bytes:
        return None
    try:
        value = parsed(file.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_lines(file: Path) -> Iterator[dict]:
    """The objects in the lines of a file. Skips a line that holds none: a full disk tore it, or it
    is being written. Yields nothing where there is no file, or one larger than `LARGEST`."""
    if not file.is_file() or file.stat().st_size > LARGEST:
        return
    # Not splitlines: a text may hold a line separator of Unicode's.
    for text in file.read_text(encoding="utf-8", errors="replace").split("\n"):
        with contextlib.suppress(ValueError):
            if isinstance(line := parsed(text), dict):
                yield line


def all_lines(file: Path) -> list[Any]:
    """The values in the lines of a file, without a torn last line.

    Raises:
        ValueError: a line is no JSON.
    """
    return [parsed(line) for line in file.read_text(encoding="utf-8").split("\n")[:-1]]


def json_lines(values: Iterable[dict]) -> str:
    """The text of a file with a value in each line."""
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def parsed(text: str) -> Any:
    """The value of a JSON text, which may be a stranger's.

    Raises:
        ValueError: it is none, or has a whole number that no run writes and no float holds.
    """
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _integer(digits: str) -> int:
    if len(digits) > 16:  # 2**53 has so many
        raise ValueError(f"it has a number of {len(digits)} digits")
    return int(digits)
