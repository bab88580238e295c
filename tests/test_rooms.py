"""The house as CONTRIBUTING.md draws it: which room may know which, and how its files are kept."""

import ast
import importlib
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support import ROOT, tracked

# Not a reader's own file, in a room or beside them. A tracked one may be deleted already.
FILES = [
    Path(name)
    for name in tracked("*.py")
    if not name.startswith("tests/") and (ROOT / name).is_file()
]
LONGEST = 500  # lines of a file
# What the house may have: statements of Python, which no packing of lines makes fewer, lines of
# tests, and lines of JavaScript, of the page and of the lab. A change that needs more raises its
# number and says why in its message.
BUDGET = {"rewards/verifier/": 3_240, "everything else": 15_105}
TEST_LINES = 26_395
SCRIPT_LINES = 3_725
SCRIPTS = [path for name in ("viewer/page", "docs/lab") for path in (ROOT / name).glob("*.js")]
WIDEST = 100  # columns of a line of Python, which ruff holds, or of JavaScript
# The words, by white space, of the pages in docs/, of the longest of them, and of the README.
WORDS = {"docs/": 15_600, "docs/learn.md": 2_600, "README.md": 1_100}
PAGES = 15  # with the README
# Words that say nothing of what a name holds. A few are left; their number may only fall.
VAGUE = set(
    re.findall(
        r"\w+",
        "asked done each found given held here kept known left least made mine most one ones other"
        " others ours own rest said seen shown taken theirs them there they thing things told what"
        " which whole incorrect",
    )
)
VAGUE_NAMES = 0
NESTED_COMPREHENSIONS = 2
# Take seconds to import, or need not be installed.
HEAVY = set(
    re.findall(
        r"\S+",
        "accelerate datasets httpx huggingface_hub.utils inspect_ai math_verify matplotlib peft"
        " py3langid pyarrow rich safetensors scipy sympy tokenizers torch transformers trl vllm",
    )
)
# A package of its own, whose tables take a fifth of a second to load: no recipe waits for them.
VERIFIER = "rewards/verifier/"


def table() -> dict[str, list[str]]:
    """Room to what it may know, both as paths: the rows of CONTRIBUTING.md whose rooms hold
    Python."""
    rows = re.findall(
        r"^\| `([\w/]+/)` \|[^|]*\|([^|]*)\|$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M
    )
    return {
        room: re.findall(r"`([\w/.]+)`", knows)
        for room, knows in rows
        if any((ROOT / room).rglob("*.py"))
    }


ROOMS = table()


def room_of(path: str) -> str:
    """The innermost room of the table that a file is in."""
    return max((room for room in ROOMS if path.startswith(room)), key=len, default="")


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


@cache
def imports(file: Path) -> list[tuple[str, int, bool]]:
    """(module, line, whether inside a function) of every import of a file; `from a import b` names
    a.b where that is a module."""
    inside = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside |= {id(child) for child in ast.walk(node)}
    lines = []
    for node in ast.walk(tree(file)):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            folders = file.parts[: -node.level] if node.level else ()
            source = ".".join([*folders, *filter(None, [node.module])])
            named = {f"{source}.{alias.name}" for alias in node.names}
            modules = sorted(filter(path_of, named)) or [source]
        lines += [(module, node.lineno, id(node) in inside) for module in modules]
    return lines


def path_of(module: str) -> str | None:
    """The file of a module of this repository."""
    for path in (f"{module.replace('.', '/')}.py", f"{module.replace('.', '/')}/__init__.py"):
        if (ROOT / path).is_file() and room_of(path):
            return path
    return None


@cache
def is_heavy(path: str) -> bool:
    """Whether importing a file of ours imports a heavy library, or the verifier from outside."""
    for module, _, inside in imports(Path(path)):
        own = path_of(module)
        if inside or own == path:
            continue
        if module.split(".")[0] in HEAVY or (own and (is_late(path, own) or is_heavy(own))):
            return True
    return False


def is_late(path: str, imported: str) -> bool:
    return imported.startswith(VERIFIER) and not path.startswith(VERIFIER)


def test_every_file_is_in_a_room_of_the_table():
    assert len(ROOMS) >= 7 and "tests/" in ROOMS
    assert [str(each) for each in FILES if not room_of(str(each))] == []


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_room_knows_only_what_the_table_allows(file):
    room = room_of(str(file))
    for module, line, _ in imports(file):
        path = path_of(module)
        if path is None or room_of(path) == room:
            continue
        allowed = any(path == known or room_of(path) == known for known in ROOMS[room])
        assert allowed, f"{file}:{line} imports {module}: {room} may know {', '.join(ROOMS[room])}"


def test_the_verifier_knows_nothing_of_the_house_and_not_its_own_name():
    """It is installed under another, so it imports itself by relative imports alone."""
    assert ROOMS[VERIFIER] == []
    rooms = "|".join({room.split("/")[0] for room in ROOMS})
    for file in (ROOT / VERIFIER).glob("*.py"):
        named = re.search(rf"^ *(?:from|import) (?:{rooms})\b.*", file.read_text("utf-8"), re.M)
        assert named is None, f"{file}: {named[0]}"


def paths_imported(file: Path) -> set[str]:
    """The files of this repository that a file imports."""
    return {path_of(module) for module, _, _ in imports(file)} - {None}


def test_the_table_allows_nothing_that_is_not_used():
    used = {room: set() for room in ROOMS}
    for file in FILES:
        used[room_of(str(file))] |= paths_imported(file)
    for room in {room_of(str(file)) for file in FILES}:
        names = used[room] | {room_of(path) for path in used[room]}
        assert [known for known in ROOMS[room] if known not in names] == [], room


def test_no_import_goes_in_a_circle():
    arrows = {str(file): paths_imported(file) for file in FILES}
    leaves = True
    while leaves:
        leaves = [file for file, paths in arrows.items() if not paths & arrows.keys()]
        for file in leaves:
            del arrows[file]
    assert arrows == {}


@pytest.mark.parametrize("file", FILES, ids=str)
def test_an_import_inside_a_function_saves_time_or_is_optional(file):
    for module, line, inside in imports(file):
        if inside:
            path = path_of(module)
            late = bool({module, module.split(".")[0]} & HEAVY)
            if path:
                late = is_late(str(file), path) or is_heavy(path)
            assert late, f"{file}:{line} imports {module} inside a function, for nothing"


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_file_says_what_it_holds_and_is_short(file):
    text = (ROOT / file).read_text(encoding="utf-8")
    assert not text or ast.get_docstring(ast.parse(text)), "it opens with a line on what it holds"
    assert text.count("\n") <= LONGEST


def statements(file: Path) -> int:
    return sum(isinstance(node, ast.stmt) for node in ast.walk(tree(file)))


def lines_of(files: list[Path]) -> int:
    texts = [(ROOT / file).read_text(encoding="utf-8") for file in files]
    return sum(text.count("\n") for text in texts)


def test_the_house_keeps_within_its_budget():
    sizes = dict.fromkeys(BUDGET, 0)
    for file in FILES:
        part = VERIFIER if str(file).startswith(VERIFIER) else "everything else"
        sizes[part] += statements(file)
    assert sizes["everything else"] > 0
    for part, size in sizes.items():
        assert size <= BUDGET[part], part
    tests = [Path(name) for name in tracked("tests/*.py") if (ROOT / name).is_file()]
    assert 0 < lines_of(tests) <= TEST_LINES
    assert 0 < lines_of(SCRIPTS) <= SCRIPT_LINES


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda path: path.name)
def test_a_script_has_short_lines_and_names_that_say_what_they_hold(file):
    text = file.read_text(encoding="utf-8")
    assert text.startswith('"use strict";\n') and text.count("\n") <= LONGEST
    wide = [line for line in text.splitlines() if len(line) > WIDEST]
    assert wide == []
    declared = re.findall(r"\b(?:const|let|function) (\w+)", text)
    assert [name for name in declared if name in VAGUE] == []


def test_the_lab_needs_nothing_of_the_pages():
    page = (ROOT / "docs/lab/index.html").read_text(encoding="utf-8")
    names = re.findall(r'(?:src|href)="([^"]*)"', page)
    # Beside its own files it links to the page that explains.
    files = {name for name in names if not name.startswith(("#", "data:", "../learn.md#"))}
    folder = {path.name for path in (ROOT / "docs/lab").iterdir()}
    assert files | {"index.html"} == folder


def names_used(file: Path) -> list[tuple[int, str, str]]:
    """(line, module, name) of every name that a file takes of an imported module of ours."""
    modules = {}
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    names = []
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id, "")
            if path_of(module):
                names.append((node.lineno, module, node.attr))
    return names


def test_what_runs_on_a_gpu_alone_takes_no_name_that_is_gone():
    """Tests and benches that no laptop runs: their first hour on a GPU is dear."""
    files = [Path(name) for name in tracked("tests/*.py") if not name.endswith("test_rooms.py")]
    gone = []
    for file in files:
        if "gpu" not in (ROOT / file).read_text(encoding="utf-8").lower():
            continue
        for line, module, name in names_used(file):
            if not hasattr(importlib.import_module(module), name):
                gone.append(f"{file}:{line} {module}.{name}")
    assert gone == []


def test_the_docs_keep_within_their_budget():
    pages = [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")]
    pages.append("README.md")
    assert 1 < len(pages) <= PAGES
    for part, words in WORDS.items():
        texts = [(ROOT / page).read_text("utf-8") for page in pages if page.startswith(part)]
        assert 0 < sum(len(text.split()) for text in texts) <= words, part


def test_tests_mirror_the_rooms():
    """Beside them: the injection of faults, the benchmarks, and what is of all rooms."""
    rooms = {f"tests/{room}" for room in ROOMS if room != "tests/"} | {
        "tests/faults/",
        "tests/bench/",
        "tests/",
    }
    files = [each.relative_to(ROOT) for each in (ROOT / "tests").rglob("test_*.py")]
    assert [str(each) for each in files if f"{each.parent}/" not in rooms] == []


def test_python_alone_has_no_room_of_its_own_name():
    """A room that is called as a module of the standard library is would be found in its place."""
    assert not {room.split("/")[0] for room in ROOMS} & set(sys.stdlib_module_names)


def bound_names(file: Path) -> list[tuple[int, str]]:
    """(line, name) of every variable, argument, function and class of a file."""
    names = []
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append((node.lineno, node.id))
        elif isinstance(node, ast.arg):
            names.append((node.lineno, node.arg))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append((node.lineno, node.name))
    return names


def test_names_say_what_they_hold():
    vague = []
    for file in FILES:
        for line, name in bound_names(file):
            if name.strip("_") in VAGUE:
                vague.append(f"{file}:{line} {name}")
    assert len(vague) <= VAGUE_NAMES, "\n".join(vague)


def test_hardly_a_comprehension_holds_another():
    kinds = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    nested = []
    for file in FILES:
        for node in ast.walk(tree(file)):
            inner = [child for child in ast.walk(node) if isinstance(child, kinds)]
            if isinstance(node, kinds) and len(inner) > 1:
                nested.append(f"{file}:{node.lineno}")
    assert len(nested) <= NESTED_COMPREHENSIONS, "\n".join(nested)
