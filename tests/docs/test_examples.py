"""docs/examples/from_trl.yaml: the recipe that docs/migrate.md makes of a script of trl."""

import importlib.util
import re
from functools import partial

import datasets
import pytest
import trl

from schema.recipe import load_recipe
from tests.support import ROOT

EXAMPLES = ROOT / "docs/examples"
PAGE = (ROOT / "docs/migrate.md").read_text(encoding="utf-8")


@pytest.fixture
def script(monkeypatch):
    """The script's settings, with two rows in the place of GSM8K, and without a GPU."""
    rows = [{"question": "3 + 4?", "answer": "7 it is.\n#### 7"}] * 2
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: datasets.Dataset.from_list(rows))
    monkeypatch.setattr(trl, "GRPOConfig", partial(trl.GRPOConfig, use_cpu=True, bf16=False))
    spec = importlib.util.spec_from_file_location("from_trl", EXAMPLES / "from_trl.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def recipe(own_file, tmp_path):
    text = (EXAMPLES / "from_trl.py").read_text(encoding="utf-8")
    own_file("mine.py", re.search(r"^def short.*?\n\n\n", text, re.M | re.S)[0])
    own_file("from_trl.yaml", (EXAMPLES / "from_trl.yaml").read_text(encoding="utf-8"))
    return load_recipe(tmp_path / "from_trl.yaml")


def test_the_page_shows_the_recipe_word_for_word():
    text = (EXAMPLES / "from_trl.yaml").read_text(encoding="utf-8")
    assert text.partition("\n")[2] in PAGE


def test_the_recipe_is_what_the_script_says(script, recipe):
    assert recipe.model.name_or_path == script.model
    assert recipe.prompt.system == script.SYSTEM
    assert script.data[0]["solution"] == "7"
    for key in ("r", "lora_alpha", "target_modules"):
        assert recipe.adapter[key] == getattr(script.adapter, key)
    keys = [key for key in recipe.grpo if f"  {key}: " in PAGE]
    assert len(keys) == 6
    for key in keys:
        assert recipe.grpo[key] == getattr(script.args, key), key
    rewards = [reward.__name__ for reward in (script.accuracy_reward, script.short)]
    assert rewards == ["accuracy_reward", "short"] and len(recipe.rewards) == 2
