"""Which code a recipe may name: functions of the reader's own files, by a rule, not what happens to be importable."""

import importlib
import sys
from pathlib import Path

import pytest

from data import imports
from data.imports import named_function

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


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder of the reader's own."""
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.syspath_prepend(folder)
    (folder / "mine_here.py").write_text(FILE)
    (folder / "again_here.py").write_text("from mine_here import reward\n")
    yield folder
    for name in [each for each in sys.modules if "_here" in each]:
        del sys.modules[name]


def test_a_function_of_ones_own_is_found(own):
    assert named_function("mine_here.reward", "completions")(["a"]) == [0.0]
    assert named_function("mine_here.puzzles", "split")("train") == []
    (own / "pack_here").mkdir()  # a package without __init__.py
    (own / "pack_here/sub.py").write_text("def reward(completions):\n    return [1.0]\n")
    assert named_function("pack_here.sub.reward", "completions")(["a"]) == [1.0]
    assert named_function("tests.varied_reward.varied", "completions")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("mine_here.nothing", "mine_here has no function nothing"),
        ("mine_here.other", "takes no `completions`"),
        ("mine_here.Reward", "not a function written in mine_here"),
        ("mine_here.bound", "not a function written in mine_here"),
        ("mine_here.system", "not a function written in mine_here"),
        ("mine_here.completions_dumps", "is not defined in mine_here: it is written in json, so name it there"),
        ("again_here.reward", "is written in mine_here, so name it there"),
        ("mine_here._hidden", "do not begin with _"),
        ("mine_here.reward.__globals__", "do not begin with _"),
        ("os.system", "os is not a file of yours"),
        ("subprocess.run", "subprocess is not a file of yours"),
        ("builtins.exec", "builtins is not a file of yours"),
        ("torch.hub.load", "torch is not a file of yours"),
        ("trl.trainer.grpo_trainer.CommitScheduler", "trl is not a file of yours"),
        ("data.imports.find_spec", "is not defined in data.imports"),
        ("evaluation.engines.looked_at", "is not defined in evaluation.engines"),
        ("no_such_here.reward", "No module named 'no_such_here'"),
        ("mine_here.sub.reward", "No module named 'mine_here.sub'"),
        ("..reward", "a dotted path is file.function"),
        ("a/b.reward", "a dotted path is file.function"),
    ],
)
def test_what_may_not_be_named(own, path, message):
    with pytest.raises(ImportError, match=message):
        named_function(path, "completions")


def test_a_file_that_a_folder_hides_is_told_so(own, monkeypatch):
    """The rooms of this repository would be found in its place."""
    monkeypatch.chdir(own)
    Path("training.py").write_text(FILE)
    with pytest.raises(ImportError, match=r"training.py is hidden by the folder training/"):
        named_function("training.reward", "completions")


def test_nothing_is_imported_to_refuse_it(own, tmp_path):
    """An installed package may do anything while it is imported."""
    assert "this" not in sys.modules
    with pytest.raises(ImportError, match="this is not a file of yours"):
        named_function("this.s", "completions")
    assert "this" not in sys.modules


def test_a_link_to_what_is_installed_is_installed(own):
    for name in ("peft", "typing_extensions.py"):
        target = Path(imports.sysconfig.get_path("purelib")) / name
        (own / f"linked_here{target.suffix}").symlink_to(target)
        importlib.invalidate_caches()
        with pytest.raises(ImportError, match="not a file of yours"):
            named_function("linked_here.x", "completions")
        (own / f"linked_here{target.suffix}").unlink()


def test_what_lies_in_outputs_is_nobodys_own(own, monkeypatch):
    monkeypatch.setattr(imports, "OUTPUTS", own / "outputs_here")
    (own / "outputs_here").mkdir()
    (own / "outputs_here/evil.py").write_text("raise SystemExit('imported')\n")
    with pytest.raises(ImportError, match="outputs_here is not a file of yours"):
        named_function("outputs_here.evil.reward", "completions")


def test_a_compiled_module_is_not_read(own):
    (own / "built_here.so").write_bytes(b"\x7fELF")
    with pytest.raises(ImportError, match=r"No module named|not a Python source file"):
        named_function("built_here.reward", "completions")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def reward(:\n", r"broken_here.py:1: SyntaxError"),
        ("\n\n1 / 0\n", r"broken_here.py:3: ZeroDivisionError: division by zero"),
        ("import no_such_package\n", r"broken_here.py:1: ModuleNotFoundError: No module named 'no_such_package'"),
        ("import sys\nsys.exit('bye')\n", r"broken_here.py:2: SystemExit: bye"),
    ],
)
def test_a_file_that_fails_is_told_with_its_line(own, text, message):
    (own / "broken_here.py").write_text(text)
    with pytest.raises(ImportError, match=message):
        named_function("broken_here.reward", "completions")


def test_so_is_a_package_that_fails(own):
    (own / "pack_fails_here").mkdir()
    (own / "pack_fails_here/__init__.py").write_text("{}['no']\n")
    (own / "pack_fails_here/sub.py").touch()
    with pytest.raises(ImportError, match=r"__init__.py:1: KeyError: 'no'"):
        named_function("pack_fails_here.sub.reward", "completions")


def test_a_trusted_package_is_trusted_whole(own, monkeypatch):
    monkeypatch.setenv("TRUST_PACKAGES", "numpy, json")
    assert named_function("json.dumps", "completions")([]) == "[]"
    with pytest.raises(ImportError, match="json has no function nothing"):
        named_function("json.nothing", "completions")
    with pytest.raises(ImportError, match="os is not a file of yours"):
        named_function("os.system", "completions")
