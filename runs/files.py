"""Files written so that they exist whole or not at all, files put on the disk, and files and
models by their hashes."""

import contextlib
import errno
import hashlib
import json
import os
from functools import cache
from pathlib import Path

from data.json_files import read_object

HASHES = Path("outputs/.hashes.json")
LARGE = 2**26  # bytes, which take a tenth of a second


def write_whole(file: Path, text: str):
    """Write a file so that it exists completely or not at all, whenever the machine stops."""
    partial = file.with_name(file.name + ".partial")
    partial.unlink(missing_ok=True)  # it may be a link of somebody else's run to another file
    try:
        with partial.open("w", encoding="utf-8") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        partial.rename(file)
    except OSError:
        partial.unlink(missing_ok=True)  # its bytes are needed where the disk is full
        raise
    sync(file.parent)


def sync_tree(folder: Path):
    """Put a folder's files on the disk, so that a power cut after this takes none of them."""
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def sync(path: Path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a disk that syncs no folders
            raise
    finally:
        os.close(descriptor)


def file_hash(file: Path) -> str:
    """The sha256 of a whole file, which takes half a second or more per GB: that of a large one is
    remembered in HASHES for as long as the file is there and its size and time stay."""
    state = file.stat()
    if state.st_size < LARGE:
        return _read_hash(file, state.st_size, state.st_mtime)
    path = str(file.resolve())
    remembered = read_object(HASHES) or {}
    *size_and_time, digest = remembered.get(path, [None])
    if size_and_time == [state.st_size, state.st_mtime]:
        return digest
    digest = _read_hash(file, state.st_size, state.st_mtime)
    remembered[path] = [state.st_size, state.st_mtime, digest]
    remaining = {name: value for name, value in remembered.items() if Path(name).is_file()}
    with contextlib.suppress(OSError):  # outputs/ may be read-only, or full
        HASHES.parent.mkdir(exist_ok=True)
        partial = HASHES.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(remaining), encoding="utf-8")
        partial.replace(HASHES)
    return digest


@cache
def _read_hash(file: Path, size: int, time: float) -> str:
    """The hash of a file that has this size and time."""
    return sha256(file)


def sha256(file: Path) -> str:
    """The hash of what the file holds now. A flipped bit changes neither its size nor its time."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def hash_of(value: list) -> str:
    """16 hexadecimal digits that identify a JSON value."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def weights_hash(folder: Path) -> list[str] | None:
    """The hashes of a folder's weights; None for a Hub id."""
    files = [file for file in sorted(folder.glob("*.safetensors")) if file.is_file()]
    return list(map(file_hash, files)) or None


def has_weights(folder: Path, terms: dict) -> bool:
    """Whether answers with these settings were made with the weights in a folder."""
    return terms.get("weights") == weights_hash(folder)


def size_and_hash(file: Path) -> list:
    return [file.stat().st_size, sha256(file)]


def hash_of_files(files: list[Path]) -> str:
    """The hash of the names and the contents of files."""
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            digest.update(f"{file.name} {file_hash(file)}".encode(errors="replace"))
    return digest.hexdigest()


def weights_of(run: Path) -> list[Path]:
    """The files of a run's trained model or adapter that decide what it answers."""
    names = ("config.json", "adapter_config.json", "tokenizer.json", "chat_template.jinja")
    files = run.glob("*")
    return sorted(file for file in files if file.suffix == ".safetensors" or file.name in names)


def hash_of_model(folder: Path) -> str:
    """The hash of the files in a folder that decide what its model or adapter answers."""
    return hash_of_files(weights_of(folder))


def is_adapter(folder: str | Path | None) -> bool:
    """Whether a stage's folder holds an adapter for the base model, and not a complete model."""
    return folder is not None and (Path(folder) / "adapter_config.json").is_file()
