"""Which functions a recipe may name beside those of rewards and trl.rewards. Recipes are often
written by others, and a dotted path in one runs what it names. So it reaches only Python files
inside this working tree, where the user has put them, and in them only functions that are meant to
be named. A recipe that lies outside of the tree reaches none of them (schema/recipe.py).
"""

import ast
import contextlib
import inspect
import os
import reprlib
import sys
import sysconfig
import traceback
from collections.abc import Callable
from importlib.util import module_from_spec, resolve_name, spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent  # of the working tree
# The packages of this repository, whose code has a commit; any other is the user's.
OURS = ("console", "data", "evaluation", "machine", "rewards", "runs", "schema", "stages")
OURS += ("training", "viewer")


def in_working_tree(file: str | Path) -> bool:
    """Whether a file lies inside this working tree, wherever a link to it stands."""
    return Path(os.path.realpath(file)).is_relative_to(ROOT)


def named_function(path: str, parameter: str) -> Callable:
    """The function behind a dotted path from the root of this working tree, `file.function` or
    `folder.file.function`. It must be written in that very file and take `parameter`, which shows
    that it is meant to be named: `completions` for a reward, `split` for a data set.

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
    for file in files.values():
        if not in_working_tree(file):
            raise ImportError(
                f"a link leads to {file}, and a recipe may run only Python files inside this"
                f" working tree, {ROOT}: copy it there"
            )
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


def _files(module: str) -> dict[str, Path]:
    """The resolved files that a dotted path runs, by the names of their modules: its packages'
    first."""
    parts = module.split(".")
    files = {}
    for depth in range(1, len(parts) + 1):
        package = Path(ROOT, *parts[:depth], "__init__.py")
        if package.is_file():
            files[".".join(parts[:depth])] = package.resolve()
    file = Path(ROOT, *parts).with_suffix(".py")
    if file.is_file():
        files[module] = file.resolve()
    if module not in files:
        raise ImportError(
            f"there is no {'/'.join(parts)}.py in this working tree, {ROOT}; a recipe may call"
            " functions of rewards, of trl.rewards and of Python files in here alone"
        )
    return files


def files_run(module: str) -> list[Path]:
    """The files of the user's that a module runs: its own and, however deep, those that it
    imports. Of this repository it is the module's own alone: the rooms have a commit."""
    files = {}
    names = [module]
    while names:
        name = names.pop()
        is_ours = name.partition(".")[0] in OURS
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
            f"{file.relative_to(ROOT)} is hidden by another module {name}: give your file another"
            " name"
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
