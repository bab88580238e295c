"""Which functions a recipe may name. Recipes are often written by others, and a dotted path in one runs what it names.
So it reaches only functions in the user's own files that are meant to be named, not whatever can be imported."""

import importlib
import inspect
import os
import sysconfig
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUTS = ROOT / "outputs"  # the folders of runs, which others may have made


def named_function(path: str, parameter: str) -> Callable:
    """The function behind a dotted path, `file.function`, in one of the user's own folders: this repository, the
    current directory, or a folder on PYTHONPATH. It must be written in that very file and take `parameter`, which shows
    that it is meant to be named: `completions` for a reward, `split` for a data set.

    Installed packages are out of reach, except those that the environment's TRUST_PACKAGES names: any callable in them
    may be named.

    Raises:
        ImportError: the function may not be named, does not exist, or its file fails; the message says which.
    """
    module, _, name = path.rpartition(".")
    if not all(part.isidentifier() and not part.startswith("_") for part in path.split(".")):
        raise ImportError("a dotted path is file.function, with names that do not begin with _")
    package = module.partition(".")[0]
    if package in os.environ.get("TRUST_PACKAGES", "").replace(",", " ").split():
        function = getattr(_imported(module), name, None)
        if not callable(function):
            raise ImportError(f"{module} has no function {name}")
        return function
    _require_own(module)
    function = getattr(_imported(module), name, None)
    if function is None:
        raise ImportError(f"{module} has no function {name}")
    if not inspect.isfunction(function):
        raise ImportError(f"{name} is not a function written in {module}: write a `def` around it")
    if function.__module__ != module:
        raise ImportError(
            f"{name} is not defined in {module}: it is written in {function.__module__}, so name it there"
        )
    if parameter not in inspect.signature(function).parameters:
        raise ImportError(f"{name} takes no `{parameter}`; where a decorator hides it, functools.wraps shows it")
    return function


def _require_own(module: str):
    """Raise ImportError before importing any part of the dotted path that is not the user's own source file."""
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        if depth > 1:
            _imported(".".join(parts[: depth - 1]))  # allowed by the previous turn of this loop
        try:
            found = find_spec(name)
        except (ImportError, ValueError):
            found = None
        if found is None:
            raise ImportError(f"No module named {name!r}")
        if found.origin in ("built-in", "frozen"):
            _refuse(parts[0])
        hidden = Path(f"{parts[0]}.py")
        if depth == 1 and found.submodule_search_locations and hidden.is_file():
            raise ImportError(f"{hidden} is hidden by the folder {parts[0]}/: give your file another name")
        places = [found.origin] if found.origin else list(found.submodule_search_locations)
        if any(not _is_own(Path(place).resolve()) for place in places):
            _refuse(parts[0])
        if found.origin and not found.origin.endswith(".py"):
            raise ImportError(f"{found.origin} is not a Python source file")


def _refuse(package: str):
    raise ImportError(
        f"{package} is not a file of yours, and recipes cannot run other code; TRUST_PACKAGES={package} before the "
        f"command lets recipes run anything in {package}, with arguments of their choice"
    )


def _is_own(place: Path) -> bool:
    folders = [ROOT, Path.cwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    folders = {Path(folder).resolve() for folder in folders} - {Path(place.anchor)}  # every file is below /
    own = bool(folders & {place, *place.parents})
    installed = {Path(sysconfig.get_path(each)).resolve() for each in ("stdlib", "platstdlib", "purelib", "platlib")}
    return (
        own
        and not {*installed, OUTPUTS.resolve()} & {place, *place.parents}
        and not {"site-packages", "dist-packages"} & set(place.parts)
    )


def _imported(module: str):
    try:
        return importlib.import_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's file may raise anything, and may call sys.exit
        raise ImportError(f"{own_line(error)}: {type(error).__name__}: {error}") from error


def own_line(error: BaseException, function: Callable | None = None) -> str:
    """File and line of the user's own code where an error arose, at its deepest frame outside libraries; else "?"."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    home = inspect.getsourcefile(function) if function is not None else None
    own = [f for f in frames if f.filename == home] or [f for f in frames if _is_own(Path(f.filename).resolve())]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else "?"
