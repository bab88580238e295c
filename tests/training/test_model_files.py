"""What a library sees of the folder of a model, a tokenizer, an adapter or a checkpoint: links to
the plain files of a fixed list, and settings that name no other files, models or code."""

import errno
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import filter_repo_objects
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from console.faults import RecipeError
from data import hub
from schema.refused_keys import reserved
from tests.tables import cases
from tests.waits import in_time
from training import model_files, opening
from training.model import looked_at
from training.tiny_models import built_model

BASE = built_model("tiny-qwen3", 42)


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(BASE, tmp_path / "model")


def change(file, **keys):
    value = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps(value | keys))


def names_in(folder) -> set[str]:
    """The files in a folder and below it."""
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_nothing_but_the_files_of_the_list_is_seen(folder, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("a key")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates/a.jinja").symlink_to(secret)
    (folder / "evil.py").write_text("1 / 0")
    os.mkfifo(folder / "README.md")
    change(folder / "adapter_config.json", base_model_name_or_path="x/y")
    place = model_files.model(folder)
    names = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json"}
    assert names_in(place) == names | {"tokenizer_config.json", "chat_template.jinja"}
    saved = tmp_path / "saved"
    AutoTokenizer.from_pretrained(place).save_pretrained(saved)
    text = "".join(file.read_text() for file in saved.rglob("*"))
    assert "a key" not in text and str(place) not in text


def test_settings_that_name_other_files_or_code_are_left_out(folder):
    kernels = {"attn_implementation": "some/kernel", "_attn_implementation": {"": "some/kernel"}}
    named = {"auto_map": {"AutoModel": "evil.Model"}, "transformers_weights": "../x"}
    named |= {"_name_or_path": "x/y", "return_dict": False, "is_encoder_decoder": True}
    change(folder / "config.json", x=kernels, **kernels, **named)
    ends = {"eos_token_id": [1, 2], "temperature": 9.0}
    change(folder / "generation_config.json", custom_generate="x/y", **ends)
    files = {"vocab": "/etc/passwd", "merges": "/etc/passwd", "gguf_file": "x"}
    files |= {"fast_tokenizer_files": ["../x.json"], "auto_map": {"AutoTokenizer": ["evil.E"]}}
    maps = dict.fromkeys(("vocab_file", "tokenizer_file"), "/etc/passwd")
    change(folder / "special_tokens_map.json", eos_token="<eos>", **maps)
    change(folder / "tokenizer_config.json", model_max_length=512, **files)
    place = model_files.model(folder)

    def read(name: str) -> dict:
        return json.loads((place / f"{name}.json").read_text())

    config, tokens, ends = read("config"), read("tokenizer_config"), read("generation_config")
    assert not config.keys() & (kernels.keys() | named.keys()) and config["x"] == {}
    assert not tokens.keys() & files.keys() and tokens["model_max_length"] == 512
    assert read("special_tokens_map") == {"eos_token": "<eos>"}
    assert ends.keys() == {"bos_token_id", "eos_token_id", "pad_token_id"}
    assert ends["eos_token_id"] == [1, 2]


@cases(__file__, "configs")
def test_what_a_config_may_not_ask_for(keys, message, folder, monkeypatch):
    monkeypatch.setattr(opening, "SECONDS", 2)
    monkeypatch.setattr(opening, "MEMORY", 0.1)
    change(folder / "config.json", **keys)
    with in_time(), pytest.raises(RecipeError, match=message):
        model_files.model(folder)


@cases(__file__, "files")
def test_what_other_files_may_not_say(file, text, message, folder):
    if "index" in file:
        (folder / "model.safetensors").unlink()
    (folder / file).write_text("{" * 200_000 if text == "{{{" else text)
    with pytest.raises(RecipeError, match=message):
        model_files.model(folder)


def test_no_dropout_comes_from_a_config(folder):
    change(folder / "config.json", attention_dropout=0.1, embd_pdrop=1, classifier_dropout=None)
    config = json.loads((model_files.model(folder) / "config.json").read_text())
    keys = ("attention_dropout", "embd_pdrop", "classifier_dropout")
    assert [config[key] for key in keys] == [0.0, 0.0, None]


def test_a_header_of_a_hundred_megabytes_is_not_read(folder):
    with (folder / "model.safetensors").open("wb") as file:
        file.write((10**8).to_bytes(8, "little"))
        file.truncate(10**8 + 8)
    with pytest.raises(RecipeError, match=r"model\.safetensors cannot be read: .*header"):
        model_files.model(folder)


def test_links_to_one_part_hold_its_numbers_once(folder):
    """Two hundred of them would let a config ask for two hundred times as much."""
    (folder / "model.safetensors").rename(folder / "x-0.safetensors")
    for number in range(1, 1000):
        (folder / f"x-{number}.safetensors").symlink_to("x-0.safetensors")
    parts = {str(number): f"x-{number}.safetensors" for number in range(1000)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    change(folder / "config.json", vocab_size=2**20)
    with pytest.raises(RecipeError, match="and the weights beside it are"):
        model_files.model(folder)


def test_pickled_weights_are_not_looked_for(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(RecipeError, match=r"holds no model\.safetensors"):
        model_files.model(folder)
    model_files.model(folder, weights=False)


def test_a_link_stays_in_its_folder_or_in_its_cache(folder, tmp_path):
    weights = folder / "model.safetensors"
    weights.rename(tmp_path / "elsewhere")
    weights.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RecipeError, match="outside its folder"):
        model_files.model(folder)
    cache = tmp_path / "models--a--b"  # as the Hub's client lays it out
    (cache / "blobs").mkdir(parents=True)
    (cache / "snapshots").mkdir()
    (tmp_path / "elsewhere").rename(cache / "blobs/1234")
    snapshot = shutil.move(folder, cache / "snapshots/main")
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").symlink_to("../../blobs/1234")
    model_files.model(snapshot)
    (cache / "secret").write_text("a key")
    (snapshot / "chat_template.jinja").unlink()
    (snapshot / "chat_template.jinja").symlink_to("../../secret")
    with pytest.raises(RecipeError, match="outside its folder"):
        model_files.model(snapshot)


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
    change(theirs / "adapter_config.json", use_rslora=True, **strange)
    place, settings = model_files.adapter(theirs, BASE)
    assert settings["r"] == 8 and settings["use_rslora"]
    assert set(settings["target_modules"]) == {"q_proj", "v_proj"}
    assert not settings.keys() & reserved("adapter").keys() and "of_another_version" not in settings
    config = json.loads((place / "adapter_config.json").read_text())
    assert config == {"peft_type": "LORA"} | settings
    assert names_in(place) == {"adapter_config.json", "adapter_model.safetensors"}


@cases(__file__, "adapters")
def test_what_an_adapter_may_not_say(keys, message, theirs):
    change(theirs / "adapter_config.json", **keys)
    with pytest.raises(RecipeError, match=re.escape(message)):
        model_files.adapter(theirs, BASE)


def test_an_adapter_with_modules_without_end_is_not_opened_for_long(theirs, monkeypatch):
    monkeypatch.setattr(opening, "SECONDS", 1)
    modules = ["q_proj", *(f"m{i}" for i in range(2 * 10**5))]
    change(theirs / "adapter_config.json", target_modules=modules)
    with pytest.raises(RecipeError, match="opening it takes more than 1 s: take another"):
        model_files.adapter(theirs, BASE)


def test_a_folder_is_loaded_with_the_hub_switched_off(folder, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with looked_at(str(folder), None):
        assert constants.is_offline_mode()
    assert not constants.is_offline_mode()
    with hub.unasked():
        assert constants.is_offline_mode()


def test_a_model_of_the_hub_is_loaded_from_the_files_of_the_list(folder, tmp_path, monkeypatch):
    """From the cache here, laid out as the Hub's client does."""
    commit = "c" * 40
    cache = tmp_path / "hub/models--a--b"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs/main").write_text(commit)
    cached = shutil.copytree(folder, cache / "snapshots" / commit)
    (cached / "evil.py").write_text("1 / 0")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    with looked_at("a/b", None) as place:
        assert (place / "model.safetensors").is_file() and not (place / "evil.py").exists()
    (cached / "model.safetensors").unlink()
    with looked_at("a/b", None, weights=False):
        pass
    with pytest.raises(FileNotFoundError, match="was not downloaded before"):
        looked_at("a/b", None).__enter__()


def test_what_the_hub_is_asked_for():
    parts = [f"model{between}-00001-of-00002.safetensors" for between in ("", ".safetensors")]
    wanted = [*parts, "model.safetensors.index.json", "config.json"]
    others = ["consolidated.safetensors", "modeling_x.py", "README.md"]
    others += ["pytorch_model-00001-of-00002.bin"]
    files = filter_repo_objects([*wanted, *others], allow_patterns=model_files.COMPLETE)
    assert list(files) == wanted


def test_the_private_folder_goes_with_its_process(folder, monkeypatch):
    place = model_files.model(folder, weights=False)
    assert place.name == "model" and Path(place).parent.parent.name.startswith("grpo-recipes-")

    def full(**options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(model_files.tempfile, "mkdtemp", full)
    with pytest.raises(OSError, match="No space left on device"):
        model_files.model(folder, weights=False)
