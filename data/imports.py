"""Which code a recipe may name. A recipe is often another's, and a dotted path in it runs what it names: so it reaches
the functions of the reader's own files, made to be named, and nothing that merely happens to be importable."""

import importlib
import inspect
import os
import sysconfig
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUTS = ROOT / "outputs"  # runs, which may be another's too


def named_function(path: str, parameter: str) -> Callable:
    """The function behind a dotted path, `file.function`, in a folder of the reader's own: this repository's, the one
    the command is given in, or one of PYTHONPATH. It must be written in that very file and take `parameter`, which says
    that it is meant to be named: `completions` a reward, `split` a data set.

    Of an installed package nothing is reached, unless the environment's TRUST_PACKAGES names it: then any callable is.

    Raises:
        ImportError: it may not be named, is not there, or its file fails; the message says which.
    """
    module, _, name = path.rpartition(".")
    if not all(part.isidentifier() and not part.startswith("_") for part in path.split(".")):
        raise ImportError("a dotted path is file.function, of names that do not begin with _")
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
        raise ImportError(f"{name} is not of {module}: it is written in {function.__module__}, so name it there")
    if parameter not in inspect.signature(function).parameters:
        raise ImportError(f"{name} takes no `{parameter}`; where a decorator hides it, functools.wraps shows it")
    return function


def _require_own(module: str):
    """ImportError, before any of it is imported, where a part of the dotted path is no source file of the reader's."""
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        if depth > 1:
            _imported(".".join(parts[: depth - 1]))  # which the turn before allowed
        try:
            found = find_spec(name)
        except (ImportError, ValueError):
            found = None
        if found is None:
            raise ImportError(f"No module named {name!r}")
        if found.origin in ("built-in", "frozen"):
            _refuse(parts[0])
        places = [found.origin] if found.origin else list(found.submodule_search_locations)
        if any(not _is_own(Path(place).resolve()) for place in places):
            _refuse(parts[0])
        if found.origin and not found.origin.endswith(".py"):
            raise ImportError(f"{found.origin} is no Python source")


def _refuse(package: str):
    raise ImportError(
        f"{package} is not a file of yours, and a recipe runs no other code by itself; TRUST_PACKAGES={package} before "
        f"the command lets recipes run anything of {package}, with arguments of theirs"
    )


def _is_own(place: Path) -> bool:
    folders = [ROOT, Path.cwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    folders = {Path(folder).resolve() for folder in folders} - {Path(place.anchor)}  # below / is everything
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
    except BaseException as error:  # a file of the reader's may raise anything, and may call sys.exit
        raise ImportError(f"{own_line(error)}: {type(error).__name__}: {error}") from error


def own_line(error: BaseException, function: Callable | None = None) -> str:
    """File and line of the reader's own code where an error arose: the deepest that is no library's."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    home = inspect.getsourcefile(function) if function is not None else None
    own = [f for f in frames if f.filename == home] or [f for f in frames if _is_own(Path(f.filename).resolve())]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else "?"
