"""Which checkpoints can be trusted, and how the others are told from them.

transformers writes a checkpoint file by file into its final folder, so a kill, a full disk or a flipped bit leaves one
that looks whole. Here a checkpoint counts once it holds `manifest.json`, written last and renamed into place: the size
and the hash of every file, all of them already on the disk. Older ones are removed only after that.
"""

import hashlib
import json
import os
from pathlib import Path

from stages.cli import say

MANIFEST = "manifest.json"


def fault(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint, or None."""
    try:
        files = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))["files"]
    except FileNotFoundError:
        return "its writing was not finished"
    except (ValueError, KeyError):
        return f"{MANIFEST} cannot be read"
    for name, (size, digest) in files.items():
        file = checkpoint / name
        if not file.is_file():
            return f"{name} is missing"
        if file.stat().st_size != size:
            return f"{name} has {file.stat().st_size:,} bytes, not {size:,}"
        if sha256(file) != digest:
            return f"{name} is not what was written"
    return None


def newest_good(folder: Path) -> str | None:
    """The newest checkpoint of a run that is whole; newer ones that are not are named."""
    for checkpoint in checkpoints_of(folder):
        wrong = fault(checkpoint)
        if wrong is None:
            return str(checkpoint)
        say(f"passed over {checkpoint}: {wrong}")
    return None


def write_whole(file: Path, text: str):
    """Write a file that is there whole, or not at all, whenever the machine stops."""
    partial = file.with_name(file.name + ".partial")
    with partial.open("w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    partial.rename(file)
    sync(file.parent)


def checkpoints_of(folder: Path) -> list[Path]:
    """The newest first."""
    found = [each for each in folder.glob("checkpoint-*") if each.is_dir() and each.name[11:].isdigit()]
    return sorted(found, key=lambda each: -int(each.name[11:]))


def kept(folder: Path) -> str:
    """What is left of a run that stops now, in words."""
    last = newest_good(folder)
    return f"{last} stays, and the same command goes on from it" if last else "Nothing was saved yet"


def sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def sync(path: Path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
