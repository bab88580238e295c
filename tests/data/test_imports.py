"""Which code a recipe may name: functions of Python files inside the working tree, and nothing else
runs."""

import importlib.util
import py_compile
import shutil
import sys
from pathlib import Path

import pytest

from data import imports
from data.imports import named_function
from tests.support import ROOT
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
    """The user's working tree, with `mine_here.py`."""
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(imports, "ROOT", folder)
    written("mine_here.py", FILE)
    yield folder
    for name in [each for each in sys.modules if "_here" in each]:
        del sys.modules[name]


def written(name: str, text: str):
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)


def reward(path: str):
    return named_function(path, "completions")


def refused(path: str) -> str:
    with pytest.raises(ImportError) as error:
        reward(path)
    return str(error.value)


def test_a_function_of_a_file_in_the_tree_is_found(own):
    assert reward("mine_here.reward")(["a"]) == [0.0]
    assert named_function("mine_here.puzzles", "split")("train") == []
    # a package without __init__.py
    written("pack_here/sub.py", "def reward(completions):\n    return [1.0]\n")
    assert reward("pack_here.sub.reward")(["a"]) == [1.0]


def test_a_package_is_the_files_it_runs(own):
    written("pack_here/__init__.py", "LIMIT = 3\n")
    text = (
        "from . import LIMIT\nfrom .near import f\n\ndef reward(completions):\n    return LIMIT\n"
    )
    written("pack_here/sub.py", text)
    # a file may import what it likes
    written("pack_here/near.py", "def f(completions):\n    pass\n")
    assert reward("pack_here.sub.reward")([]) == 3
    assert sys.modules["pack_here"].sub is sys.modules["pack_here.sub"]
    # A run notices a change of any of them.
    names = ["__init__.py", "near.py", "sub.py"]
    assert imports.files_run("pack_here.sub") == [own / "pack_here" / name for name in names]


def test_our_packages_are_told_from_the_users():
    packages = {file.parent.name for file in ROOT.glob("*/__init__.py")}
    assert set(imports.OURS) <= packages
    assert imports.files_run("rewards.verifier.units") == [ROOT / "rewards/verifier/units.py"]


def test_a_path_begins_in_the_tree_wherever_the_command_is_given(own, tmp_path, monkeypatch):
    written("jobs/one_here.py", FILE)
    monkeypatch.chdir(tmp_path)
    assert reward("jobs.one_here.reward")(["a"]) == [0.0]
    monkeypatch.setenv("PYTHONPATH", str(own / "jobs"))
    assert "there is no one_here.py in this working tree" in refused("one_here.reward")


@cases(__file__, "what_may_not_be_named")
def test_what_may_not_be_named(own, path, message):
    assert message in refused(path)
    assert "this" not in sys.modules


@pytest.mark.parametrize("link", ["theirs_here.py", "pack_here", "pack_here/__init__.py"])
def test_what_lies_outside_the_tree_does_not_run(own, link):
    """A file or a folder counts where it lies, wherever a link to it stands."""
    for name in ("x.py", "pack/x.py", "pack/__init__.py"):
        written(f"../theirs/{name}", NOT_RUN)
    written("pack_here/x.py", NOT_RUN)
    target = {"theirs_here.py": "x.py", "pack_here": "pack"}.get(link, "pack/__init__.py")
    if link == "pack_here":
        shutil.rmtree(link)
    Path(link).symlink_to(own.parent / "theirs" / target)
    message = refused("theirs_here.f" if link == "theirs_here.py" else "pack_here.x.f")
    file = own.parent / "theirs" / ("x.py" if link == "theirs_here.py" else "pack/__init__.py")
    assert message.startswith(f"a link leads to {file}, ") and message.endswith(": copy it there")


def test_a_link_inside_the_tree_is_the_file_that_it_leads_to(own):
    Path("good_here.py").symlink_to("mine_here.py")
    assert reward("good_here.reward")(["a"]) == [0.0]


def test_nothing_runs_in_place_of_the_file(own):
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
    written("statistics.py", FILE)
    importlib.import_module("statistics")
    expected = "statistics.py is hidden by another module statistics: give your file another name"
    assert refused("statistics.reward") == expected


@cases(__file__, "a_file_that_fails_is_told_with_its_line")
def test_a_file_that_fails_is_told_with_its_line(own, text, message):
    written("broken_here.py", text)
    assert message in refused("broken_here.reward")
    assert message in refused("broken_here.reward")  # and nothing half imported is left behind
