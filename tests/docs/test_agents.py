"""AGENTS.md: its example is followed, file by file and command by command."""

import re
import sys

import pytest

from tests.support import ROOT, run_stage

PAGE = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
MOST_LINES = 60


def test_it_is_short_and_says_where_more_is():
    assert PAGE.count("\n") <= MOST_LINES
    for link in re.findall(r"\]\(([^)]+)\)", PAGE):
        assert (ROOT / link).is_file(), link


@pytest.fixture
def followed(own_file, tmp_path):
    """The files of the example in a folder of their own, which is the working tree for recipes."""
    blocks = re.findall(r"`([\w/.]+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.M | re.S)
    assert [name for name, _ in blocks] == ["mine.py", "recipes/mine.yaml"]
    (tmp_path / "recipes").mkdir()
    for name, text in blocks:
        own_file(name, text)
    return tmp_path / "recipes/mine.yaml"


def test_its_commands_do_what_they_promise(followed, tmp_path):
    commands = re.findall(r"^make (\w+) RECIPE=mine", PAGE, re.M)
    assert commands == ["check", "audit", "attack", "grpo"]  # attack: test_attack.py
    out = [f"output_dir={tmp_path}/out"]
    checked = run_stage("check", followed, *out)
    assert "mine.sums" in checked.stdout and "ready" in checked.stdout
    audited = run_stage("audit", followed, *out, check=False)
    assert audited.returncode == 0, audited.stdout
    run_stage("grpo", followed, *out, "grpo.max_steps=2")
    assert (tmp_path / "out/grpo/summary.json").is_file()


def test_its_functions_are_the_kinds_that_it_says(followed):
    sys.modules.pop("mine", None)
    scope = {}
    exec((followed.parent.parent / "mine.py").read_text(encoding="utf-8"), scope)
    assert scope["sums"]("test")[0] == {"problem": "What is 300 + 7?", "answer": "307"}
    assert scope["brief"]([[{"role": "assistant", "content": "5"}]]) == [1.0]
