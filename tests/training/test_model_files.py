"""Which models and adapters are refused before they are loaded, and what is fetched of one."""

import json
import re
import shutil

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import filter_repo_objects
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from console.faults import RecipeError
from data import hub
from schema.recipe import load_recipe
from schema.refused_keys import reserved
from tests.made_runs import change_json
from tests.tables import cases
from training import model_files
from training.model import checked_files, load_model, load_tokenizer
from training.tiny_models import built_model

TINY = "recipes/tiny-arithmetic.yaml"
BASE = built_model("tiny-qwen3", 42)


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(BASE, tmp_path / "model")


@cases(__file__, "files")
def test_what_a_folder_may_not_hold(file, text, message, folder):
    (folder / file).write_text(text)
    if "index" in file:
        (folder / "model.safetensors").unlink()
    with pytest.raises(RecipeError, match=message):
        model_files.require_model(folder)


def test_a_model_runs_no_code_of_its_own(folder):
    """One that needs it is refused; in any other it is left alone."""
    (folder / "evil.py").write_text("1 / 0")
    maps = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    change_json(folder / "config.json", auto_map=maps)
    change_json(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.T", "evil.T"]})
    recipe = load_recipe(TINY, [f"model={{name_or_path: {folder}}}"])
    load_model(recipe, load_tokenizer(recipe))
    change_json(folder / "config.json", model_type="evil")
    with pytest.raises(RecipeError, match="code of its own, which is never run: take another"):
        load_tokenizer(recipe)


def test_an_adapter_beside_a_whole_model_is_not_loaded_with_it(folder):
    recipe = load_recipe(TINY, [f"model={{name_or_path: {folder}}}"])
    tokenizer = load_tokenizer(recipe)
    change_json(
        folder / "adapter_config.json", peft_type="LORA", base_model_name_or_path="elsewhere"
    )
    with pytest.raises(RecipeError, match="is an adapter's, beside a whole model: move it"):
        load_model(recipe, tokenizer)


def test_no_dropout_comes_from_a_config(folder):
    change_json(
        folder / "config.json", attention_dropout=0.1, embd_pdrop=1, classifier_dropout=None
    )
    assert model_files.without_dropout(folder) == {"attention_dropout": 0.0, "embd_pdrop": 0.0}
    recipe = load_recipe(TINY, [f"model={{name_or_path: {folder}}}"])
    config = load_model(recipe, load_tokenizer(recipe)).config
    assert (config.attention_dropout, config.embd_pdrop) == (0.0, 0.0)


def test_weights_that_are_missing_are_named(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    recipe = load_recipe(TINY, [f"model={{name_or_path: {folder}}}"])
    tokenizer = load_tokenizer(recipe)
    with pytest.raises(RecipeError, match=r"config\.json; model\.norm\.weight is missing"):
        load_model(recipe, tokenizer)


def test_pickled_weights_are_not_looked_for(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(RecipeError, match=r"holds no model\.safetensors"):
        model_files.require_model(folder)
    model_files.require_model(folder, weights=False)


@pytest.fixture
def theirs(tmp_path):
    """An adapter as plain peft saves one, which says of what class its base is."""
    model = AutoModelForCausalLM.from_pretrained(BASE)
    config = LoraConfig(target_modules=["q_proj", "v_proj"])
    get_peft_model(model, config).save_pretrained(tmp_path / "x")
    assert json.loads((tmp_path / "x/adapter_config.json").read_text())["auto_mapping"]
    return tmp_path / "x"


def test_an_adapters_settings_are_loras(theirs):
    strange = {"megatron_config": None, "of_another_version": 1}
    change_json(theirs / "adapter_config.json", use_rslora=True, **strange)
    settings = model_files.adapter(theirs, BASE)
    assert settings["r"] == 8 and settings["use_rslora"]
    assert set(settings["target_modules"]) == {"q_proj", "v_proj"}
    assert not settings.keys() & reserved("adapter").keys() and "of_another_version" not in settings


@cases(__file__, "adapters")
def test_what_an_adapter_may_not_say(keys, message, theirs):
    change_json(theirs / "adapter_config.json", **keys)
    with pytest.raises(RecipeError, match=re.escape(message)):
        model_files.adapter(theirs, BASE)


def test_a_folder_is_loaded_with_the_hub_switched_off(folder, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with checked_files(str(folder), None):
        assert constants.is_offline_mode()
    assert not constants.is_offline_mode()
    with hub.offline():
        assert constants.is_offline_mode()


def test_a_model_of_the_hub_is_loaded_from_the_files_of_the_list(folder, tmp_path, monkeypatch):
    """From the cache here, laid out as the Hub's client does."""
    commit = "c" * 40
    cache = tmp_path / "hub/models--a--b"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs/main").write_text(commit)
    cached = shutil.copytree(folder, cache / "snapshots" / commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    with checked_files("a/b", None) as place:
        assert (place / "model.safetensors").is_file()
    (cached / "model.safetensors").unlink()
    with checked_files("a/b", None, weights=False):
        pass
    with pytest.raises(FileNotFoundError, match="was not downloaded before"):
        checked_files("a/b", None).__enter__()


def test_what_the_hub_is_asked_for():
    parts = [f"model{between}-00001-of-00002.safetensors" for between in ("", ".safetensors")]
    wanted = [*parts, "model.safetensors.index.json", "config.json"]
    others = ["consolidated.safetensors", "modeling_x.py", "README.md"]
    others += ["pytorch_model-00001-of-00002.bin"]
    files = filter_repo_objects([*wanted, *others], allow_patterns=model_files.COMPLETE)
    assert list(files) == wanted
