"""Which functions a recipe may name. Recipes are often written by others, and a dotted path in one
runs what it names. So it reaches only the Python files that the user has trusted, and in them only
functions that are meant to be named.
"""

import ast
import contextlib
import inspect
import os
import reprlib
import shlex
import sys
import sysconfig
import traceback
from collections.abc import Callable
from importlib.util import module_from_spec, resolve_name, spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
TRUSTED = ROOT / ".trusted"  # what `make trust` writes: one file per line


def named_function(path: str, parameter: str) -> Callable:
    """The function behind a dotted path, `file.function`, in a file that the user has trusted, in
    the current directory or a folder on PYTHONPATH. It must be written in that very file and take
    `parameter`, which shows that it is meant to be named: `completions` for a reward, `split` for a
    data set.

    Raises:
        ImportError: the function may not be named, does not exist, or its file fails; the message
            says which.
    """
    module, _, name = path.rpartition(".")
    if (
        not all(part.isidentifier() and part[0] != "_" for part in path.split("."))
        or len(path.encode()) > 250
    ):
        raise ImportError(
            "a dotted path is file.function, of at most 250 letters, with names that do not begin"
            " with _"
        )
    files = _files(module)
    _require_trusted(files.values())
    for module_name, file in files.items():  # the last is the module itself
        loaded = _loaded(module_name, file)
    function = vars(loaded).get(name)
    if function is None:
        raise ImportError(f"{module} has no function {name}{_functions_of(loaded)}")
    if not inspect.isfunction(function):
        raise ImportError(f"{name} is not a function written in {module}: write a `def` around it")
    if function.__module__ != module:
        raise ImportError(
            f"{name} is not written in {module}, but in {function.__module__}: write a `def`"
            " around it"
        )
    with contextlib.suppress(TypeError, ValueError):  # of what a decorator made
        if parameter in inspect.signature(function).parameters:
            return function
    raise ImportError(
        f"{name} takes no `{parameter}`; where a decorator hides it, functools.wraps shows it"
    )


def _functions_of(module: ModuleType) -> str:
    """`; it has f, g`: the functions that a file defines, for a message; empty for none."""
    names = []
    for name, value in vars(module).items():
        if inspect.isfunction(value) and value.__module__ == module.__name__:
            names.append(name)
    if not names:
        return ""
    return f"; it has {', '.join(names[:10])}"


def as_trusted(file: Path) -> str:
    """A resolved path as a line of `.trusted`: below the repository relative to it, for clones
    move."""
    if file.is_relative_to(ROOT):
        return str(file.relative_to(ROOT))
    return str(file)


def _files(module: str) -> dict[str, Path]:
    """The resolved files that a dotted path runs, by the names of their modules: its packages'
    first."""
    parts = module.split(".")
    names = [".".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
    for folder in [Path.cwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]:
        files = {}
        for depth, name in enumerate(names, 1):
            package = Path(folder, *parts[:depth], "__init__.py")
            if package.is_file():
                files[name] = package.resolve()
        file = Path(folder, *parts).with_suffix(".py")
        if file.is_file():
            files[module] = file.resolve()
        if module in files:
            return files
    raise ImportError(
        f"there is no {'/'.join(parts)}.py in this folder, {Path.cwd()}, nor in one on PYTHONPATH; "
        "a recipe may run only files of your own"
    )


def files_run(module: str) -> list[Path]:
    """The files of the user's that a module runs: its own and, however deep, those that it
    imports. Of this repository it is the module's own alone: the rooms have a commit."""
    files = {}
    names = [module]
    while names:
        name = names.pop()
        is_ours = (ROOT / name.partition(".")[0] / "__init__.py").is_file()
        if is_ours and name != module:
            continue
        try:
            new = _files(name)
        except (ImportError, ValueError):  # of a library
            continue
        for part, file in new.items():
            if part not in files and (part == name or not is_ours):
                files[part] = file
                names += _imported(part, file)
    return sorted(set(files.values()))


def _imported(module: str, file: Path) -> list[str]:
    """The names of the modules that a module's file may import, wherever in it."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    names = []
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            with contextlib.suppress(ImportError):  # beyond its package
                base = resolve_name("." * node.level + (node.module or ""), package)
                names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return names


def trusted_lines() -> list[str]:
    """The lines of `.trusted`, none where there is no such file."""
    if not TRUSTED.is_file():
        return []
    return list(filter(None, TRUSTED.read_text("utf-8", "surrogateescape").split("\n")))


def is_trusted(file: Path) -> bool:
    """Whether the user has named the file: a Python file, or a recipe that may send its runs to a
    tracker."""
    trusted = set(map(ROOT.joinpath, trusted_lines()))
    for name in os.environ.get("TRUST_FILES", "").split(","):  # a name may hold spaces
        trusted.add(Path(name.strip()).resolve())
    return file.resolve() in trusted


def _require_trusted(files: list[Path]):
    names = [as_trusted(file) for file in dict.fromkeys(files) if not is_trusted(file)]
    if not "".join(names).isprintable():
        raise ImportError(f"{names}: rename what has characters that cannot be shown")
    if names:
        raise ImportError(
            f"you have not trusted {' and '.join(names)} yet, and a recipe may run only Python"
            " files that you have. If you wrote or have read what is there: make trust"
            f" FILE={shlex.quote(shlex.join(names))}"
        )


def _loaded(name: str, file: Path) -> ModuleType:
    """The module of exactly this file: Python's own search could find another, or compiled code
    that stands for it."""
    module = sys.modules.get(name)
    if module is None:
        folder = [str(file.parent)] if file.name == "__init__.py" else None
        module = module_from_spec(
            spec_from_file_location(name, file, submodule_search_locations=folder)
        )
        sys.modules[name] = module
        try:
            exec(compile(file.read_bytes(), file, "exec"), vars(module))
        except BaseException as error:  # a user's file may raise anything, and may call sys.exit
            del sys.modules[name]
            if isinstance(error, KeyboardInterrupt):
                raise
            raise ImportError(raised(error)) from error
        package, _, last = name.rpartition(".")
        if package in sys.modules:
            setattr(sys.modules[package], last, module)
    if Path(str(getattr(module, "__file__", None))).resolve() != file:
        raise ImportError(
            f"{as_trusted(file)} is hidden by another module {name}: give your file another name"
        )
    return module


LIBRARIES = ("<", *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")))


def raised(error: BaseException, function: Callable | None = None) -> str:
    """An exception of a user's function in one line, with file and line: the deepest frame outside
    libraries and the caller's file, which the first frame is in; or else the function's own line,
    where it is known; or else the deepest frame."""
    try:
        text = " ".join(str(error).split())[:500]
    except Exception:  # its own `__str__` may raise any
        text = "it has no text"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {text}"
    frames = traceback.extract_tb(error.__traceback__)
    skipped = (*LIBRARIES, frames[0].filename)
    user_frames = [frame for frame in frames if not frame.filename.startswith(skipped)]
    frame = (user_frames or frames)[-1]
    place = f"{frame.filename}:{frame.lineno}"
    if function and not user_frames:
        code = getattr(inspect.unwrap(function), "__code__", None)
        if code:
            place = f"{code.co_filename}:{code.co_firstlineno}"
    return f"{place}: {type(error).__name__}: {text}"


def short_repr(value: object) -> str:
    """The value that a user's function returned, cut short; its `__repr__` may raise."""
    cut = reprlib.Repr()
    cut.maxstring = cut.maxother = 80
    try:
        return cut.repr(value)
    except Exception:  # a number of 5,000 digits, say
        return f"something of type {type(value).__name__}"
