"""Which code a recipe may name: functions of the Python files that the user has trusted, and
nothing else runs."""

import importlib.util
import py_compile
import sys
from pathlib import Path

import pytest

from data import imports
from data.imports import named_function
from tests.tables import cases

FILE = """\
from functools import partial
from os import system
from json import dumps as completions_dumps

def reward(completions, **columns):
    return [0.0] * len(completions)

def other(text):
    return text

def puzzles(split):
    return []

class Reward:
    def __call__(self, completions):
        return []

bound = partial(reward, limit=3)
_hidden = reward
"""
NOT_RUN = "raise SystemExit('it ran')\n"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The user's folder, with `mine_here.py`, which is trusted, and `.trusted`."""
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.delenv("TRUST_FILES", raising=False)
    monkeypatch.setattr(imports, "ROOT", folder)
    monkeypatch.setattr(imports, "TRUSTED", folder / ".trusted")
    trusted("mine_here.py", FILE)
    yield folder
    for name in [each for each in sys.modules if "_here" in each]:
        del sys.modules[name]


def written(name: str, text: str):
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)


def trusted(name: str, text: str):
    written(name, text)
    with imports.TRUSTED.open("a") as file:
        file.write(f"{name}\n")


def reward(path: str):
    return named_function(path, "completions")


def refused(path: str) -> str:
    with pytest.raises(ImportError) as error:
        reward(path)
    return str(error.value)


def test_a_function_of_a_trusted_file_is_found(own):
    assert reward("mine_here.reward")(["a"]) == [0.0]
    assert named_function("mine_here.puzzles", "split")("train") == []
    # a package without __init__.py
    trusted("pack_here/sub.py", "def reward(completions):\n    return [1.0]\n")
    assert reward("pack_here.sub.reward")(["a"]) == [1.0]


def test_a_package_is_the_files_it_runs(own):
    trusted("pack_here/__init__.py", "LIMIT = 3\n")
    text = (
        "from . import LIMIT\nfrom .near import f\n\ndef reward(completions):\n    return LIMIT\n"
    )
    trusted("pack_here/sub.py", text)
    # a trusted file may import what it likes
    written("pack_here/near.py", "def f(completions):\n    pass\n")
    assert reward("pack_here.sub.reward")([]) == 3
    assert sys.modules["pack_here"].sub is sys.modules["pack_here.sub"]
    assert "make trust FILE=pack_here/near.py" in refused("pack_here.near.f")


def test_a_file_is_trusted_whatever_it_says_later(own):
    written("mine_here.py", "def changed(completions):\n    return [1.0]\n")
    assert reward("mine_here.changed")([]) == [1.0]


def test_a_moved_clone_keeps_what_was_trusted(own, monkeypatch):
    moved = own.rename(own.with_name("moved"))
    monkeypatch.chdir(moved)
    monkeypatch.setattr(imports, "ROOT", moved)
    monkeypatch.setattr(imports, "TRUSTED", moved / ".trusted")
    assert reward("mine_here.reward")


def test_the_environment_trusts_for_one_command(own, monkeypatch):
    for name in ("one_here.py", "two_here.py", "three_here.py"):
        written(f"jobs/{name}", "def f(completions):\n    pass\n")
    monkeypatch.setenv("PYTHONPATH", str(own / "jobs"))
    monkeypatch.setenv(
        "TRUST_FILES", f"jobs/one_here.py, {own}/jobs/two_here.py, my jobs/three_here.py"
    )
    assert reward("one_here.f") and reward("two_here.f")
    assert "make trust FILE=jobs/three_here.py" in refused("three_here.f")


@cases(__file__, "what_may_not_be_named")
def test_what_may_not_be_named(own, path, message):
    assert message in refused(path)
    assert "this" not in sys.modules


@cases(__file__, "what_was_not_trusted_does_not_run")
def test_what_was_not_trusted_does_not_run(own, files, path, given):
    """Files of others, the dotted path of one, and what `make trust` would have to be given."""
    for file in files:
        written(file, NOT_RUN)
    if path == "p_here.link.f":
        Path("p_here/link.py").symlink_to(own / files[1])
    message = refused(path)
    assert message.startswith("you have not trusted ")
    assert message.endswith(f": make trust FILE={given}")


def test_a_trusted_module_of_an_untrusted_package_does_not_run(own):
    written("pack_here/__init__.py", NOT_RUN)
    trusted("pack_here/sub.py", NOT_RUN)
    assert refused("pack_here.sub.f").endswith("make trust FILE=pack_here/__init__.py")


def test_a_link_is_what_it_leads_to(own):
    written("theirs_here.py", NOT_RUN)
    Path("link_here.py").symlink_to("theirs_here.py")
    Path("good_here.py").symlink_to("mine_here.py")
    assert refused("link_here.f").endswith("make trust FILE=theirs_here.py")
    assert reward("good_here.reward")
    Path("mine_here.py").unlink()  # and then another's in its place
    Path("mine_here.py").symlink_to("theirs_here.py")
    del sys.modules["good_here"]
    assert refused("mine_here.reward").endswith("make trust FILE=theirs_here.py")


def test_nothing_runs_in_place_of_a_trusted_file(own):
    """Python would rather import the folder, the compiled module, or what was compiled of another
    source."""
    written("mine_here/__init__.py", NOT_RUN)
    written("mine_here.so", "")
    written("other.py", NOT_RUN)
    cached = importlib.util.cache_from_source(own / "mine_here.py")
    py_compile.compile(
        "other.py", cached, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    assert reward("mine_here.reward")


def test_a_file_is_not_another_that_was_imported_before(own):
    trusted("statistics.py", FILE)
    importlib.import_module("statistics")
    expected = "statistics.py is hidden by another module statistics: give your file another name"
    assert refused("statistics.reward") == expected


def test_a_name_that_cannot_be_shown_is_not_told_as_a_command(own):
    written("a\u202eb\n/theirs.py", NOT_RUN)
    Path("link_here.py").symlink_to(own / "a\u202eb\n/theirs.py")
    expected = r"['a\u202eb\n/theirs.py']: rename what has characters that cannot be shown"
    assert refused("link_here.f") == expected


@cases(__file__, "a_file_that_fails_is_told_with_its_line")
def test_a_file_that_fails_is_told_with_its_line(own, text, message):
    trusted("broken_here.py", text)
    assert message in refused("broken_here.reward")
    assert message in refused("broken_here.reward")  # and nothing half imported is left behind
