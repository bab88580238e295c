"""What the system refuses to write or to read, and the sentence with which a stage then ends."""

import errno
import os
import re
import resource
from pathlib import Path

from console.faults import RunStopped
from console.terminal import make_line
from runs.files import write_whole
from runs.state import resume_advice
from schema.stages import finished

# The folders in which this process has begun to train.
run_folders: list[Path] = []
# What the system says of a path that it refuses, and what helps. Libraries in Rust and C++ say its
# words in errors of their own, and so does Path.resolve before Python 3.13.
REMEDIES = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there",
    errno.EFBIG: "raise the limit of a file's size (`ulimit -f`)",
    errno.EROFS: "make it writable again",
    errno.EIO: "look at its disk, or the network to it (`dmesg`)",
    errno.ESTALE: "look at the network to its disk, and mount it again",
    errno.ENAMETOOLONG: "choose a shorter name",
}
LOOP = "Symlink loop from "
# torch says so where the system refused a part of its file, and not why.
TORCH_WRITER = re.compile("inline_container.cc.*(unexpected pos|file write failed)", re.DOTALL)


def unwritten(error: Exception) -> RunStopped | None:
    """The one sentence with which a stage ends after the system refused a file, whoever's code
    wanted it; None for any other error."""
    run = run_folders[-1] if run_folders else None
    refusal = _refusal(error, run)
    if refusal is None:
        return None
    name = str(getattr(error, "filename", None) or run or "a file or standard output")[:300]
    remedy = REMEDIES.get(refusal.errno, "make room there, or allow it")
    if refusal.errno == errno.ENOSPC and run and run.is_dir() and _is_without_inodes(run):
        remedy = "delete files there, whose number is at its limit (`df -i`)"
    if _is_a_cache(name):
        remedy += ", or set HOME to another folder"
    message = f"{name} cannot be written or read ({refusal.strerror}): {remedy}."
    if run is None:
        return RunStopped(message, 2)
    if not run.is_dir():
        message += f" {run} was moved or removed: put it back, and the same command resumes"
        return RunStopped(message)
    if finished(run):
        return RunStopped(f"{message} The run is finished; {make_line('report', FILE=[run])}")
    return RunStopped(f"{message} {resume_advice(run)}")


def _refusal(error: Exception, run: Path | None) -> OSError | None:
    """The system's refusal of a file that an error tells of; None where it tells of none."""
    if isinstance(error, OSError) and error.filename:
        return error
    text = str(error)
    for number in REMEDIES:
        if os.strerror(number) in text:
            return OSError(number, os.strerror(number))
    if LOOP in text:
        return OSError(errno.ELOOP, text)
    if run is not None and TORCH_WRITER.search(text):
        return _tried(run)
    return None


def _tried(folder: Path) -> OSError:
    """What the system answers to a file that is written into a folder, where it has just refused
    another."""
    try:
        write_whole(folder / ".tried", "x" * 4096)
    except OSError as error:
        return error
    (folder / ".tried").unlink()
    number = errno.ENOSPC
    if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
        number = errno.EFBIG
    return OSError(number, os.strerror(number))


def _is_a_cache(name: str) -> bool:
    """Whether a path lies in a hidden folder of the home, as the libraries' caches do."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111, which raises where there is none
    path = Path(name).absolute()
    return path.is_relative_to(home) and f"{path.relative_to(home)}".startswith(".")


def _is_without_inodes(folder: Path) -> bool:
    """Whether the disk has as many files as it may have. Many count none."""
    disk = os.statvfs(folder)
    return disk.f_files > 0 and disk.f_favail == 0
