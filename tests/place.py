"""Decides what a test may see. Imported before any library, and by each process that a test forks.

A session of tests has a folder of its own, which its workers share: a copy of the checkout, without
`outputs/`, where all tests run, a home, and caches. The environment holds the names of PASSED and
those that `_set_environment` sets, and no other. Python code that opens a file of the user's
outputs or home fails at once; what libraries in C++ and Rust open, nobody sees.
"""

import atexit
import os
import shutil
import signal
import stat
import sys
import tempfile
from pathlib import Path

# Started processes inherit where the first one stands, and would take the copy for the checkout.
SOURCE = Path(os.environ.setdefault("REAL_CHECKOUT", str(Path(__file__).parent.parent)))
# What a test may know of the machine: its programs, temporary folder, indexes of packages.
PASSED = (
    "PATH",
    "LD_LIBRARY_PATH",
    "TMPDIR",
    "CHROMIUM",
    "PLACE",
    "REAL_DATA",
    "REAL_HOME",
    "REAL_CHECKOUT",
)
PASSED_PREFIXES = ("PYTEST_", "PIP_", "UV_", "PLAYWRIGHT_")
REAL_HOME = Path(os.environ.setdefault("REAL_HOME", str(Path.home())))
OUTSIDE_PATHS = (SOURCE / "outputs", REAL_HOME)
# Code that a test runs may lie below the home, and so may the checkout and the temporary folder,
# which is the home itself in a container that is given HOME=/tmp.
TEMPORARY = Path(tempfile.gettempdir())
ALLOWED_PATHS = (SOURCE, Path(sys.prefix), Path(sys.base_prefix), TEMPORARY)
WATCHED_EVENTS = {"open", "os.listdir", "os.scandir", "os.mkdir", "os.remove", "os.rmdir"}
WATCHED_EVENTS |= {"os.chmod", "os.utime", "os.truncate", "shutil.rmtree"}
# These have two paths. Where a symbolic link leads does not matter until somebody follows it.
PATHS_OF_EVENT = {"os.rename": slice(2), "os.link": slice(2), "os.symlink": slice(1, 2)}
PATHS_OF_EVENT |= dict.fromkeys(WATCHED_EVENTS, slice(1))


class SeenOutside(BaseException):
    """Raised where a test reaches for a file of the user. No `except Exception` swallows it."""


def enter() -> Path:
    """Move this process into the session's place, which the first one makes; returns its
    checkout."""
    first = "PLACE" not in os.environ
    if first:
        # pytest's workers find both in their environment.
        os.environ["PLACE"] = tempfile.mkdtemp(prefix="grpo-recipes-tests-")
        os.environ["REAL_DATA"] = os.environ.get("MATH_DATA_DIR", "")
        atexit.register(shutil.rmtree, os.environ["PLACE"], ignore_errors=True)
    place = Path(os.environ["PLACE"])
    if first:
        (place / "home").mkdir()
        shutil.copytree(SOURCE, place / "checkout", ignore=not_copied, symlinks=True)
        _make_writable(place / "checkout")
        if (SOURCE / ".venv").is_dir():
            (place / "checkout/.venv").symlink_to(SOURCE / ".venv")  # `make` looks for it there
        sys.addaudithook(_refuse_outside)
    _set_environment(place)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # under nohup the first is ignored, by children too
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # some runners block signals, for children too
    os.umask(0o022)
    os.chdir(place / "checkout")
    return place / "checkout"


def _make_writable(folder: Path):
    """A copy of a checkout that is read-only has its permissions."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | stat.S_IWUSR)


def not_copied(folder: str, names: list[str]) -> set[str]:
    """What a test must not see: what runs leave and, beside the rooms, a user's own rewards, for
    which a test would take the file of that name."""
    ignored = shutil.ignore_patterns("outputs", ".git", ".venv*", ".*_cache")
    hidden = ignored(folder, names)
    if Path(folder) == SOURCE:
        hidden |= {name for name in names if name.endswith(".py")}
    return hidden


def set_working_tree(folder: Path):
    """Let rooms that are imported already take this folder for the working tree, in which recipes
    may name functions, or the one that a test names in WORKING_TREE."""
    from data import imports

    imports.ROOT = Path(os.environ.get("WORKING_TREE", folder)).resolve()


def _set_environment(place: Path):
    on_gpu = "GPU_TESTS" in os.environ
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    for name in list(os.environ):
        if name not in PASSED and not name.startswith(PASSED_PREFIXES):
            del os.environ[name]
    os.environ |= {
        "HOME": str(place / "home"),
        "HF_HOME": str(place / "huggingface"),
        "MPLCONFIGDIR": str(place / "matplotlib"),
        "HF_HUB_OFFLINE": "1",  # a test that would need the Hub must fail, not wait
        "TQDM_DISABLE": "1",
        "OMP_NUM_THREADS": "1",  # tiny models gain nothing by a second thread
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    if not on_gpu:
        # Many tests compare weights to the bit, which a GPU's kernels need not repeat, and fork
        # what has loaded bitsandbytes, which initialises CUDA.
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    else:
        os.environ["GPU_TESTS"] = "1"
        if visible is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = visible


def _refuse_outside(event: str, arguments: tuple):
    """Relative paths are not judged: they lead into the copy, where tests stand, or into a folder
    that `shutil.rmtree` holds open."""
    if event not in PATHS_OF_EVENT:
        return
    for argument in arguments[PATHS_OF_EVENT[event]]:
        if isinstance(argument, int):
            continue
        path = os.path.normpath(os.fsdecode(argument or "."))
        for outside in OUTSIDE_PATHS:
            if _is_below(path, outside) and not _is_allowed(path, outside):
                message = f"{event} {path}: a test sees nothing of the machine it did not make"
                raise SeenOutside(message)


def _is_below(path: str, folder: Path) -> bool:
    return path == str(folder) or path.startswith(f"{folder}{os.sep}")


def _is_allowed(path: str, outside: Path) -> bool:
    """Whether a path below a forbidden folder lies in an allowed folder further inside."""
    return any(
        _is_below(path, folder) and _is_below(str(folder), outside) for folder in ALLOWED_PATHS
    )


if "PLACE" in os.environ:  # not in a program that only shares helpers with the tests
    sys.addaudithook(_refuse_outside)
