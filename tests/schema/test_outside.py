"""What a recipe may name that lies outside the working tree, which may be a stranger's."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from data import imports
from tests.support import read_recipe
from tests.tables import cases, yaml_text

BASE = yaml_text(__file__, "base")
FUNCTIONS = """
print("it runs")
def pay(completions, **columns): ...
def rows(split): ...
"""


@pytest.fixture
def folders(tmp_path, monkeypatch) -> Iterator[tuple[Path, Path]]:
    """The folder of recipes in a working tree with a file of functions, and a folder outside."""
    inside, outside = tmp_path / "tree/recipes", tmp_path / "outside"
    inside.mkdir(parents=True)
    outside.mkdir()
    (inside.parent / "mine_here.py").write_text(FUNCTIONS)
    monkeypatch.setattr(imports, "ROOT", inside.parent)
    sys.modules.pop("mine_here", None)  # of another test
    yield inside, outside
    sys.modules.pop("mine_here", None)


def read(folder: Path, text: str, *overrides: str, base: str = ""):
    (folder / "base.yaml").write_text(BASE + base)
    (folder / "mine.yaml").write_text(f"base: base.yaml\n{text}")
    return read_recipe(folder / "mine.yaml", overrides)


@cases(__file__, "functions_of_the_users")
def test_a_recipe_outside_the_tree_calls_no_function_of_it(recipe, base, refused, folders, capsys):
    inside, outside = folders
    _, faults = read(outside, recipe, base=base)
    assert [f"{Path(fault.place.source).name}:{fault.place.line}" for fault in faults] == refused
    words = "a recipe outside this working tree may call functions of rewards and of trl.rewards"
    for fault in faults:
        assert f"{words} alone: read it, and copy it to recipes/" in fault.message
    assert "it runs" not in capsys.readouterr().out
    assert read(inside, recipe, base=base)[1] == []  # copied
    assert "it runs" in capsys.readouterr().out


@cases(__file__, "what_any_recipe_may_name")
def test_any_recipe_may_name_rewards_of_ours_and_trls_and_trackers(recipe, folders):
    assert read(folders[1], recipe)[1] == []


def test_a_recipe_counts_where_it_lies(folders):
    """Not where a link to it stands; and the command line may name what it likes."""
    inside, outside = folders
    assert len(read(outside, "rewards: {mine_here.pay: {}}\n")[1]) == 1
    (inside / "link.yaml").symlink_to(outside / "mine.yaml")
    (inside / "base.yaml").write_text(BASE)
    assert len(read_recipe(inside / "link.yaml")[1]) == 1
    assert read(outside, "", "rewards={mine_here.pay: {}}")[1] == []
    (outside / "link.yaml").symlink_to(inside / "real.yaml")
    (inside / "real.yaml").write_text(BASE.replace("correct_answer", "mine_here.pay"))
    assert read_recipe(outside / "link.yaml")[1] == []


@cases(__file__, "what_lies_elsewhere")
def test_a_recipe_inside_the_tree_may_read_elsewhere(recipe, folders):
    inside, outside = folders
    elsewhere = outside.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "sums.csv").write_text("problem,answer\n1?,1\n")
    recipe = recipe.replace("{elsewhere}", str(elsewhere))
    [fault] = read(outside, recipe)[1]
    words = "only the command line may ask for that, or a recipe inside this working tree"
    assert fault.place.line == 2 and words in fault.message
    assert read(inside, recipe)[1] == []


@pytest.mark.parametrize("key", ["output_dir: /tmp/x", "grpo: {vllm_server_host: a.org}"])
def test_what_writes_or_sends_elsewhere_is_for_the_command_line_alone(key, folders):
    for folder in folders:
        [fault] = read(folder, f"{key}\n")[1]
        assert fault.place.line == 2
        assert "only the command line may ask for that (ARGS=" in fault.message
