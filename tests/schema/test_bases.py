"""A recipe that builds on another: whose keys hold, and where a fault is."""

from operator import itemgetter
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from console.faults import RecipeError
from runs.writing import as_yaml
from schema.recipe import load_recipe
from tests.support import read_recipe, run_stage
from tests.tables import cases, lacking, rows, yaml_text

BASE = yaml_text(__file__, "base")


def load(folder: Path, text: str, *overrides: str, base: str = BASE):
    (folder / "base.yaml").write_text(base)
    (folder / "mine.yaml").write_text(text)
    return read_recipe(folder / "mine.yaml", list(overrides))


@cases(__file__, "the_recipes_own_keys_replace_the_bases")
def test_the_recipes_own_keys_replace_the_bases(own, keys, value, tmp_path):
    recipe, faults = load(tmp_path, f"base: base.yaml\n{own}")
    assert faults == []
    found = recipe.sections()
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    assert found == value
    assert recipe.name == "mine"


def test_the_last_of_several_bases_is_read_first(tmp_path):
    (tmp_path / "below.yaml").write_text(BASE)
    middle = "base: below.yaml\nsft: null\ngrpo: {max_steps: 3, beta: 0.1}\n"
    recipe, faults = load(
        tmp_path, "base: base.yaml\ngrpo: {beta: 0.2}\n", "grpo.epsilon=0.1", base=middle
    )
    assert faults == [] and recipe.sft is None
    places = {"max_steps": (3, "base.yaml", 3), "beta": (0.2, "mine.yaml", 2)}
    places["epsilon"] = (0.1, "override grpo.epsilon=0.1", 0)
    places["num_generations"] = (8, "below.yaml", 13)
    for key, expected in places.items():
        place = recipe.place("grpo", key)
        assert (recipe.grpo[key], Path(place.source).name, place.line) == expected


@pytest.mark.parametrize("row", rows(__file__, "incorrect_recipe_or_base"), ids=itemgetter("case"))
def test_a_fault_is_told_where_it_is_written(row, tmp_path):
    base = row.get("base", BASE) + row.get("end", "")
    if "old" in row:
        base = base.replace(row["old"], row["new"])
    try:
        _, faults = load(tmp_path, f"base: base.yaml\n{row['own']}", base=base)
    except RecipeError as error:
        faults = error.faults
    assert [str(fault.place) for fault in faults] == [f"{tmp_path}/{row['place']}"]
    assert lacking(row["names"], faults[0].message) == []


@cases(__file__, "bases")
def test_a_base_is_a_file_of_the_same_folder(text, names, tmp_path):
    folder = tmp_path / "folder"
    (folder / "folder.yaml").mkdir(parents=True)
    (tmp_path / "base.yaml").write_text(BASE)
    (folder / "circle.yaml").write_text("base: mine.yaml\n")
    for i in range(1, 5):
        (folder / f"{i}.yaml").write_text(f"base: {i + 1}.yaml\n")
    (folder / "5.yaml").write_text(BASE)
    (folder / "link.yaml").symlink_to("base.yaml")
    (folder / "away.yaml").symlink_to("../base.yaml")
    (folder / "loop.yaml").symlink_to("loop.yaml")
    (folder / "large.yaml").write_text("#" * 100_000)
    try:
        _, faults = load(folder, text)
    except RecipeError as error:
        faults = error.faults
    if names is None:
        assert faults == []
        return
    [message] = str(RecipeError(faults)).splitlines()
    names = [name.replace("{folder}", str(folder)) for name in names]
    assert lacking(names, message) == []


@cases(__file__, "the_command_line_is_above_both")
def test_the_command_line_is_above_both(override, incorrect, tmp_path):
    base = BASE + "  vllm_server_host: a.org\n" * ("host" in override)
    _, faults = load(tmp_path, "base: base.yaml\n", override, base=base)
    assert [str(each) for each in faults] == ([incorrect] if incorrect else [])


def test_faults_come_in_the_order_of_the_files(tmp_path):
    base = BASE.replace("max_steps: 2", "max_stepz: 2").replace("seed: 7", "seed: -7")
    _, faults = load(tmp_path, "base: base.yaml\ngrpo: {beta: high}\n", "grpo.epsilon=2", base=base)
    places = [(Path(fault.place.source).name, fault.place.line) for fault in faults]
    expected = [("override grpo.epsilon=2", 0), ("mine.yaml", 2), ("base.yaml", 1)]
    assert places == [*expected, ("base.yaml", 12)]


def test_a_saved_recipe_stands_alone(tmp_path):
    recipe, _ = load(tmp_path, "base: base.yaml\nsft: null\n")
    saved = tmp_path / "elsewhere/recipe.yaml"
    saved.parent.mkdir()
    saved.write_text(as_yaml(recipe.resolved()))
    assert "base" not in YAML(typ="safe", pure=True).load(saved.read_text())
    assert load_recipe(saved).resolved() == recipe.resolved()


def test_check_shows_the_whole_recipe(tmp_path):
    load(tmp_path, "base: base.yaml\ngrpo: {beta: 0.5}\n")
    words = [tmp_path / "mine.yaml", "--show", "grpo.max_completion_length=8", "data.validation=4"]
    shown = run_stage("check", *words, AUDIT="off").stdout
    file = tmp_path / "mine.yaml"
    origins = {
        "  beta: 0.5": f"{file}:2",
        "  num_generations: 8": f"{tmp_path}/base.yaml:13",
        "  max_completion_length: 8": "override grpo.max_completion_length=8",
        "  save_total_limit: 2": "our default",
        "  epsilon: 0.2": "trl",
        "  use_cpu: true": "this machine",
        "output_dir: outputs/mine": "our default",
    }
    for value, origin in origins.items():
        assert f"{value}  # {origin}\n" in shown
