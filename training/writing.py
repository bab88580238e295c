"""Writing into a folder: as the only process, through no link, and with one message where the disk refuses."""

import contextlib
import errno
import fcntl
import os
import shlex
import time
from pathlib import Path
from typing import IO

from schema.faults import Fault, RecipeError, RunStopped
from schema.requirements import finished
from training.checkpoints import kept

_locks: dict[Path, IO] = {}
_made: list[list[Path]] = []


def lock(path: Path):
    """Lock a folder that is to be written, before anything there is read that decides what to do, for as long as this
    process lives; the kernel releases the lock with it. A folder that is made for that alone is removed by
    `remove_unused`.

    Raises:
        RecipeError: another process has it, it cannot be made, or it holds a link.
    """
    if path in _locks:
        return
    if wrong := link_inside(path):
        raise RecipeError([wrong])
    made = [each for each in (path, *path.parents) if not each.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        file = (path / ".lock").open("a+", encoding="utf-8")
    except OSError as error:
        message = f"cannot be written ({error.strerror}): give the run another output_dir"
        raise RecipeError([Fault(str(path), message)]) from None
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        time.sleep(0.2)  # until it has written its number
        file.seek(0)
        raise RecipeError(
            [
                f"{path} is in use by process {file.read().strip() or '?'}: wait for it, stop it, or give "
                "this run its own folder (output_dir)"
            ]
        ) from None
    if os.fstat(file.fileno()).st_nlink == 0:  # removed since it was opened
        lock(path)
        return
    file.truncate(0)
    file.write(f"{os.getpid()}\n")
    file.flush()
    _locks[path] = file
    _made.append(made)


def remove_unused():
    """Remove the folders that were made for a lock and hold nothing else. Call it when the program ends."""
    for made in filter(None, _made):
        with contextlib.suppress(OSError):
            if [each.name for each in made[0].iterdir()] == [".lock"]:
                (made[0] / ".lock").unlink()
                for each in made:
                    each.rmdir()


def link_inside(path: Path) -> Fault | None:
    """The fault where a folder to be written is a link or holds one, which would write elsewhere, or holds a pipe,
    which would wait for ever."""
    for each in (path, *path.rglob("*")):
        if each.is_symlink():
            return Fault(str(each), "is a link, and a run writes only inside its own folder: remove it")
        if each.exists() and not each.is_file() and not each.is_dir():
            return Fault(str(each), "is neither a file nor a folder: remove it")
    return None


# The folders that this process has begun to train in.
begun: list[Path] = []
# A disk that is full, or is none to write on.
NO_ROOM = tuple(map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)))


def unwritten(error: Exception) -> RunStopped | None:
    """The end of a stage that could not write a file, whoever's code wrote it; None for any other error."""
    # Libraries in Rust and C++ raise errors of their own, with the system's words.
    reason = next((each for each in NO_ROOM if each in str(error)), None)
    named = Path(getattr(error, "filename", None) or (begun or ["a file"])[-1])
    if isinstance(error, PermissionError) and error.filename:
        reason = error.strerror
    if reason is None:
        return None
    verb = "read" if named.exists() and not os.access(named, os.R_OK) else "write"
    message = f"cannot {verb} {named} ({reason}): make room there, or allow it."
    if not begun:
        return RunStopped(f"{message} The same command goes on", 2)
    if finished(begun[-1]):
        return RunStopped(f"{message} The run is finished; make report FILE={shlex.quote(str(begun[-1]))}")
    return RunStopped(f"{message} {kept(begun[-1])}")
