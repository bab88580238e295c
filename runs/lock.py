"""Writes into a folder as the only process, and with one message where the disk refuses."""

import contextlib
import errno
import fcntl
import os
import shutil
import time
from pathlib import Path
from typing import IO

from console.faults import RecipeError, RunStopped
from console.terminal import make_line, say
from runs.checkpoints import resume_advice
from schema.stages import finished

_locks: dict[Path, IO] = {}
# The folders that were created for a lock, with those above them, the innermost first.
_created: list[list[Path]] = []


def _close_locks():
    for file in _locks.values():
        file.close()


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
    file = (path / ".lock").open("a+", encoding="ascii", errors="replace")
    try:
        # Not lockf: its locks fall as soon as anything in this process opens and closes the file.
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(0.2)  # until it has written its number
        file.seek(0)
        number = file.read(20).strip()
        if not number.isdecimal():
            number = "?"
        message = (
            f"{path} is in use by process {number}: wait for it, stop it, or give this run its own"
            " folder (output_dir)"
        )
        raise RecipeError([message]) from None
    except OSError as error:  # from NFS without its lock service, for example
        say(f"{path} is on a disk without locks ({error.strerror}): start no second run in it")
    if os.fstat(file.fileno()).st_nlink == 0:  # removed since it was opened
        lock(path)
        return
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    _locks[path.resolve()] = file
    if created:
        _created.append(created)


def remove_unused():
    """Remove the folders that were created for a lock and hold nothing else. Call it when the
    program ends."""
    for folder, *parents in _created:
        with contextlib.suppress(OSError):
            if [path.name for path in folder.rglob("*") if not path.is_dir()] == [".lock"]:
                shutil.rmtree(folder)
                for parent in parents:
                    parent.rmdir()


# The folders in which this process has begun to train.
run_folders: list[Path] = []
# The system's words for a path that it refuses. Libraries in Rust and C++ say them in errors of
# their own, and so does Path.resolve before Python 3.13.
NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
REFUSED = ("Symlink loop from ", *map(os.strerror, NUMBERS))


def unwritten(error: Exception) -> RunStopped | None:
    """The one sentence with which a stage ends after the system refused a file, whoever's code
    wanted it; None for any other error."""
    name = getattr(error, "filename", None)
    reason = getattr(error, "strerror", None) or str(error)
    is_named = isinstance(error, OSError) and name
    if not is_named and not any(words in reason for words in REFUSED):
        return None
    run = run_folders[-1] if run_folders else None
    name = str(name or run or "a file or standard output")[:300]
    remedy = "make room there, or allow it"
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        remedy = "choose a shorter name"
    message = f"{name} cannot be written or read ({reason}): {remedy}."
    if run is None:
        return RunStopped(message, 2)
    if not run.is_dir():
        message += f" {run} was moved or removed: put it back, and the same command resumes"
        return RunStopped(message)
    if finished(run):
        return RunStopped(f"{message} The run is finished; {make_line('report', FILE=[run])}")
    return RunStopped(f"{message} {resume_advice(run)}")
