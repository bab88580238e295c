"""Writing into a folder: as the only process, through no link, and with one message where the disk
refuses."""

import contextlib
import errno
import fcntl
import os
import re
import shutil
import time
from pathlib import Path
from typing import IO

from console.faults import Fault, RecipeError, RunStopped
from console.terminal import make_line, say
from schema.stages import finished
from training.checkpoints import resume_advice

_locks: dict[Path, IO] = {}
_made: list[list[Path]] = []
# A fork that outlives this process, as one that reads a file may, must not hold its folders.
os.register_at_fork(after_in_child=lambda: [each.close() for each in _locks.values()])


def lock(path: Path):
    """Lock a folder that is to be written, before anything there is read that decides what to do,
    for as long as this process lives; the kernel releases the lock with it. A folder that is made
    for that alone is removed by `remove_unused`.

    Raises:
        RecipeError: another process has it, it cannot be made, or it holds a link.
    """
    if (place := path.resolve()) in _locks:
        return
    if wrong := link_inside(path):
        raise RecipeError([wrong])
    made = [each for each in (path, *path.parents) if not each.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        file = (path / ".lock").open("a+", encoding="ascii", errors="replace")
    except OSError as error:
        message = f"cannot be written ({error.strerror}): give the run another output_dir"
        raise RecipeError([Fault(str(path), message)]) from None
    try:
        # Not lockf: its locks fall as soon as anything in this process opens and closes the file.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(0.2)  # until it has written its number
        file.seek(0)
        number = file.read(20).strip()
        message = (
            f"{path} is in use by process {number if number.isdecimal() else '?'}: wait for it,"
            " stop it, or "
        )
        raise RecipeError([f"{message}give this run its own folder (output_dir)"]) from None
    except OSError as error:  # of NFS without its lock service, say
        say(f"{path} is on a disk without locks ({error.strerror}): start no second run in it")
    if os.fstat(file.fileno()).st_nlink == 0:  # removed since it was opened
        lock(path)
        return
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    _locks[place] = file
    _made.append(made)


def remove_unused():
    """Remove the folders that were made for a lock and hold nothing else. Call it when the program
    ends."""
    for made in filter(None, _made):
        with contextlib.suppress(OSError):
            if [each.name for each in made[0].rglob("*") if not each.is_dir()] == [".lock"]:
                shutil.rmtree(made[0])
                for each in made[1:]:
                    each.rmdir()


# What a run writes as a file. Its folders have no such names.
FILES = {
    ".json",
    ".jsonl",
    ".yaml",
    ".md",
    ".png",
    ".txt",
    ".parquet",
    ".safetensors",
    ".bin",
    ".jinja",
    ".partial",
}


def link_inside(path: Path) -> Fault | None:
    """The fault where a folder to be written is a link or holds one, which would write elsewhere,
    or holds a pipe, which would wait for ever, or a folder in the place of a file."""
    for each in (path, *path.rglob("*")):
        if each.is_symlink():
            return Fault(
                str(each), "is a link, and a run writes only inside its own folder: remove it"
            )
        if each.is_dir():
            if (
                each.suffix in FILES and each != path and each.parent.name != "eval"
            ):  # which has one for each benchmark
                return Fault(str(each), "is a folder, where a run writes a file: remove it")
        elif each.exists() and not each.is_file():
            return Fault(str(each), "is neither a file nor a folder: remove it")
        elif re.fullmatch("checkpoint-[0-9]+", each.name):
            return Fault(str(each), "is a file, where a run writes a folder: move it")
    return None


# The folders that this process has begun to train in.
begun: list[Path] = []
# A disk that is full, or is none to write on.
NO_ROOM = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)))


def unwritten(error: Exception) -> RunStopped | None:
    """The end of a stage that the system refused a file, whoever's code asked for it; None for any
    other error. A file that is not there is a mistake of ours, unless the run's folder is gone."""
    if str(error).startswith("Symlink loop from "):  # Path.resolve, before Python 3.13
        error = OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(error)[19:-1])
    # Libraries in Rust and C++ raise errors of their own, with the system's words.
    reason = next((each for each in NO_ROOM if each in str(error)), None)
    named, run = getattr(error, "filename", None), begun[-1] if begun else None
    gone = run is not None and not run.is_dir()
    if isinstance(error, OSError) and named and (gone or not isinstance(error, FileNotFoundError)):
        reason = error.strerror
    if reason is None:
        return None
    named = str(named or run or "a file or standard output")
    message, then = f"{named[:300]}: {reason}.", ""
    if isinstance(error, PermissionError) or reason in NO_ROOM:
        verb = "read" if Path(named).exists() and not os.access(named, os.R_OK) else "write"
        message, then = (
            f"cannot {verb} {named} ({reason}): make room there, or allow it.",
            " The same command goes on",
        )
    if run is None:
        return RunStopped(message + then, 2)
    if gone:
        return RunStopped(
            f"{message} {run} was moved or removed: put it back, and the same command resumes"
        )
    if finished(run):
        return RunStopped(f"{message} The run is finished; {make_line('report', FILE=[run])}")
    return RunStopped(f"{message} {resume_advice(run)}")
