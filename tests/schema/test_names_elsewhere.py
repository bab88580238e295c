"""Each name in the table of docs/migrate.md, written in a recipe, is answered with its line's
remedy, and a recipe takes the remedy."""

import re
import shlex

import pytest

from console.faults import RecipeError
from schema import refused_keys
from schema.recipe import KEYS, _fields, load_recipe
from schema.refused_keys import reserved
from stages.table import FOR_ALL, TARGETS
from tests.support import ROOT

TINY = "recipes/tiny-arithmetic.yaml"
ROWS = list(refused_keys.names_elsewhere())
MODEL = ("model", "`model.name_or_path`")  # a section here, whose message names its first key


def refusal(override: str) -> str:
    with pytest.raises(RecipeError) as error:
        load_recipe(TINY, [override])
    return str(error.value)


def test_the_table_has_the_names_of_each_library():
    names = {name for name, _ in ROWS}
    assert {"model_name_or_path", "reward_funcs", "random_state"} < names  # TRL, open-r1, unsloth
    assert {"base_model", "trl.num_generations", "sleep_level", "cutoff_len"} < names
    assert {"actor_rollout_ref.rollout.n", "data.train_files", "trainer.total_epochs"} < names
    assert len(dict(ROWS)) == len(set(ROWS)), "a name has two remedies"


@pytest.mark.parametrize(("name", "replacement"), sorted({*ROWS} - {MODEL}))
def test_a_name_of_another_library_is_answered_with_the_remedy(name, replacement):
    message = refusal(f"{name}=1")
    assert f"override {name}=1: " in message
    assert f"{name.partition('.')[0]}" in message
    assert f"write {replacement} (docs/migrate.md)" in message


def test_a_models_name_alone_is_answered_with_the_key_that_takes_it():
    assert MODEL in ROWS
    assert "model: {name_or_path: " in refusal("model=a/b")


def test_a_section_of_another_library_is_answered_key_by_key(tmp_path):
    text = (ROOT / TINY).read_text("utf-8")
    line = text.count("\n") + 1
    (tmp_path / "mine.yaml").write_text(f"{text}trl:\n  num_generations: 8\n  vllm_mode: server\n")
    with pytest.raises(RecipeError) as error:
        load_recipe(tmp_path / "mine.yaml", reads_anywhere=True)
    places = [str(fault.place).rpartition(":")[2] for fault in error.value.faults]
    assert places == [str(line + 1), str(line + 2)]
    known, unknown = (fault.message for fault in error.value.faults)
    assert "trl.num_generations: write `grpo.num_generations`" in known
    assert unknown == "unknown key trl.vllm_mode"


def test_a_last_part_alone_is_answered_where_the_table_has_one_remedy():
    assert "write `grpo.learning_rate`" in refusal("grpo.lr=1")
    assert refused_keys.remedy("path") == ""  # of a model, and of a file of rewards


@pytest.mark.parametrize("replacement", sorted({replacement for _, replacement in ROWS}))
def test_a_recipe_takes_the_remedy(replacement, own_file):
    own_file("mine.py", "def f(completions, **columns): return [0.0] * len(completions)\n")
    codes = re.findall("`(.*?)`", replacement)
    assert codes
    for code in codes:
        key, colon, value = code.partition(": ")
        section, _, field = key.rpartition(".")
        if code.startswith("make "):
            assert code.removeprefix("make ") in TARGETS
        elif "=" in code:
            names = [word.partition("=")[0] for word in shlex.split(code)]
            variables = TARGETS["grpo"].variables
            assert all(name in variables or FOR_ALL.fullmatch(name) for name in names)
        elif colon:
            load_recipe(TINY, ["adapter={r: 8}", f"{key}={value}"])
        elif section:
            assert field in _fields(section) and field not in reserved(section)
        else:
            assert key in KEYS
