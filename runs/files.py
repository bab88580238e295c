"""The files of a run: written so that they exist whole or not at all, put on the disk, read, and
hashed; and the lock by which one process alone writes into a folder."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

from console.faults import RecipeError, RunStopped
from console.terminal import say

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


# JSON -------------------------------------------------------------------------------------------


def read_object(file: Path) -> dict | None:
    """The object in a JSON file; None where it is not there or holds none, as one that a full disk
    or a crash left."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def read_lines(file: Path) -> Iterator[dict]:
    """The objects in the lines of a file. Skips a line that holds none: a full disk tore it, or it
    is being written. Yields nothing where there is no file."""
    if not file.is_file():
        return
    # Not splitlines: a text may hold a line separator of Unicode's.
    for text in file.read_text(encoding="utf-8", errors="replace").split("\n"):
        with contextlib.suppress(ValueError):
            if isinstance(line := json.loads(text), dict):
                yield line


def all_lines(file: Path) -> list[Any]:
    """The values in the lines of a file, without a torn last line.

    Raises:
        ValueError: a line is no JSON.
    """
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n")[:-1]]


def json_lines(values: Iterable[dict]) -> str:
    """The text of a file with a value in each line."""
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


# One process in a folder ------------------------------------------------------------------------

LONGEST_HOLDER = 300  # letters in a lock's file


class Lock(NamedTuple):
    """A folder's lock. `mark`: the last word in its file, which no other process writes."""

    file: IO
    mark: str


_locks: dict[Path, Lock] = {}
# The folders that were created for a lock, with those above them, the innermost first.
_created: list[list[Path]] = []


def _close_locks():
    for our_lock in _locks.values():
        our_lock.file.close()


# A fork that outlives this process, as one that reads a file may, must not hold its folders.
os.register_at_fork(after_in_child=_close_locks)


def lock(path: Path):
    """Lock a folder for as long as this process lives; the kernel releases the lock with it. Call
    it before anything is read from the folder that decides what will be written. `remove_unused`
    removes a folder that was created for its lock alone.

    Raises:
        RecipeError: another process has it.
    """
    if path.resolve() in _locks:
        return
    created = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    file = (path / ".lock").open("a+", encoding="utf-8", errors="replace")
    try:
        # Not lockf: its locks fall as soon as anything in this process opens and closes the file.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(0.2)  # until it has written its number
        file.seek(0)
        message = (
            f"{path} is in use by {_holder(file.read(LONGEST_HOLDER))}: wait for it, stop it, or"
            " give this run its own folder (output_dir)"
        )
        raise RecipeError([message]) from None
    except OSError as error:  # from NFS without its lock service, for example
        say(f"{path} is on a disk without locks ({error.strerror}): start no second run in it")
    if os.fstat(file.fileno()).st_nlink == 0:  # removed since it was opened
        lock(path)
        return
    mark = secrets.token_hex(8)
    file.truncate(0)
    file.write(f"{os.getpid()} {platform.node()} {mark}\n")
    file.flush()
    sync(path / ".lock")  # another machine reads it
    _locks[path.resolve()] = Lock(file, mark)
    if created:
        _created.append(created)


def _holder(text: str) -> str:
    """The process that wrote this into a lock's file. An earlier version wrote its number alone."""
    match = re.match(r"(\d{1,20}) ([\w.-]{1,253}) \w+\n", text, re.ASCII)
    if match:
        return f"process {match[1]} on {match[2]}"
    number = text.strip()
    return f"process {number}" if re.fullmatch(r"\d{1,20}", number, re.ASCII) else "a process"


def require_lock(path: Path):
    """Refuse to write into a folder that another process has locked since this one did: on some
    disks a lock holds on one machine alone, or there is none. The later process goes on, because a
    preempted run that begins again on another machine cannot know whether the first one is gone.

    Raises:
        RunStopped: names the process and its machine.
    """
    our_lock = _locks.get(path.resolve())
    file = path / ".lock"
    if our_lock is None or not file.is_file():
        return
    with file.open(encoding="utf-8", errors="replace") as opened:
        text = opened.read(LONGEST_HOLDER)
    if text.split()[-1:] != [our_lock.mark]:
        raise RunStopped(
            f"{path} was taken over by {_holder(text)}, on a disk that keeps no lock between"
            " machines: this run stops, and that one goes on"
        )


def remove_unused():
    """Remove the folders that were created for a lock and hold nothing else. Call it when the
    program ends."""
    for folder, *parents in _created:
        with contextlib.suppress(OSError):
            if [path.name for path in folder.rglob("*") if not path.is_dir()] == [".lock"]:
                shutil.rmtree(folder)
                for parent in parents:
                    parent.rmdir()
