"""What a library sees of the folder of a model, a tokenizer, an adapter or a checkpoint: links to
the plain files of a fixed list, and settings that name no other files, models or code."""

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
from tests.waits import in_time
from training import model_files, opening
from training.model import looked_at
from training.tiny_models import built_model


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(built_model("tiny-qwen3", 42), tmp_path / "model")


def change(file, **keys):
    value = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps(value | keys))


def test_nothing_but_the_files_of_the_list_is_seen(folder, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("a key")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates/a.jinja").symlink_to(secret)
    (folder / "evil.py").write_text("1 / 0")
    os.mkfifo(folder / "README.md")
    change(folder / "adapter_config.json", base_model_name_or_path="x/y")
    place = model_files.model(folder)
    seen = {each.name for each in place.rglob("*")}
    assert seen == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
    } | {
        "tokenizer_config.json",
        "chat_template.jinja",
    }
    saved = tmp_path / "saved"
    AutoTokenizer.from_pretrained(place).save_pretrained(saved)
    assert not any(
        "a key" in each.read_text() or str(place) in each.read_text() for each in saved.rglob("*")
    )


def test_settings_that_name_other_files_or_code_are_left_out(folder):
    kernels = {"attn_implementation": "some/kernel", "_attn_implementation": {"": "some/kernel"}}
    named = {
        "auto_map": {"AutoModel": "evil.Model"},
        "transformers_weights": "../x",
        "_name_or_path": "x/y",
    }
    named |= {"return_dict": False, "is_encoder_decoder": True}
    change(folder / "config.json", x=kernels, **kernels, **named)
    change(
        folder / "generation_config.json",
        custom_generate="x/y",
        temperature=9.0,
        eos_token_id=[1, 2],
    )
    files = {
        "vocab": "/etc/passwd",
        "merges": "/etc/passwd",
        "fast_tokenizer_files": ["../x.json"],
        "gguf_file": "x",
    }
    change(
        folder / "special_tokens_map.json",
        vocab_file="/etc/passwd",
        tokenizer_file="/etc/passwd",
        eos_token="<eos>",
    )
    change(
        folder / "tokenizer_config.json",
        auto_map={"AutoTokenizer": ["evil.E"]},
        model_max_length=512,
        **files,
    )
    place = model_files.model(folder)
    config, tokens, ends = (
        json.loads((place / f"{name}.json").read_text())
        for name in ("config", "tokenizer_config", "generation_config")
    )
    assert not config.keys() & (kernels.keys() | named.keys()) and config["x"] == {}
    assert not tokens.keys() & (files.keys() | {"auto_map"}) and tokens["model_max_length"] == 512
    assert json.loads((place / "special_tokens_map.json").read_text()) == {"eos_token": "<eos>"}
    assert ends.keys() == {"bos_token_id", "eos_token_id", "pad_token_id"} and ends[
        "eos_token_id"
    ] == [1, 2]


MILLION = {"num_hidden_layers": 1_000_000, "layer_types": None}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"quantization_config": {"quant_method": "bitnet"}}, "is quantised already"),
        ({"text_config": {"backbone": "a/b"}}, "backbone names other models"),
        ({"model_type": "detr"}, "'detr' cannot be opened as a causal language model"),
        ({"model_type": ["qwen3"]}, "cannot be opened as a causal language model"),
        ({"tokenizer_class": "AutoBackbone"}, "is no tokenizer"),
        ({"vocab_size": 2**22, "hidden_size": 2**12}, "and the weights beside it are"),
        ({"hidden_size": "x"}, "cannot be opened as a causal language model"),
        ({"num_attention_heads": 0}, "cannot be opened as a causal language model"),
        ({"model_type": "bloom", **MILLION}, "opening it takes more than"),
        ({"model_type": "mamba", "state_size": -1}, "cannot be opened as a causal language model"),
    ],
)
def test_what_a_config_may_not_ask_for(keys, message, folder, monkeypatch):
    monkeypatch.setattr(opening, "SECONDS", 2)
    monkeypatch.setattr(opening, "MEMORY", 0.1)
    change(folder / "config.json", **keys)
    with in_time(), pytest.raises(RecipeError, match=message):
        model_files.model(folder)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("config.json", "[1]", "is not a JSON object"),
        ("config.json", "{" * 200_000, "cannot be read as JSON"),
        ("generation_config.json", '{"eos_token_id": 0.5}', r"eos_token_id 0\.5 is not a token id"),
        (
            "tokenizer_config.json",
            '{"tokenizer_class": "AutoConfig"}',
            "is no tokenizer of transformers",
        ),
        (
            "model.safetensors.index.json",
            '{"weight_map": {"a": "../x.safetensors"}}',
            "no safetensors file beside it",
        ),
        (
            "model.safetensors.index.json",
            '{"weight_map": {"a": "x.bin"}}',
            "no safetensors file beside it",
        ),
        (
            "model.safetensors.index.json",
            '{"weight_map": {"a": "x.safetensors"}}',
            "lacks its part x.safetensors",
        ),
    ],
)
def test_what_other_files_may_not_say(file, text, message, folder):
    if "index" in file:
        (folder / "model.safetensors").unlink()
    (folder / file).write_text(text)
    with pytest.raises(RecipeError, match=message):
        model_files.model(folder)


def test_no_dropout_comes_from_a_config(folder):
    change(folder / "config.json", attention_dropout=0.1, embd_pdrop=1, classifier_dropout=None)
    config = json.loads((model_files.model(folder) / "config.json").read_text())
    assert [config[key] for key in ("attention_dropout", "embd_pdrop", "classifier_dropout")] == [
        0.0,
        0.0,
        None,
    ]


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


@pytest.fixture(scope="module")
def base():
    return built_model("tiny-qwen3", 42)


@pytest.fixture
def theirs(base, tmp_path):
    """An adapter as plain peft saves one, which says of what class its base is."""
    model = AutoModelForCausalLM.from_pretrained(base)
    get_peft_model(model, LoraConfig(target_modules=["q_proj", "v_proj"])).save_pretrained(
        tmp_path / "x"
    )
    assert json.loads((tmp_path / "x/adapter_config.json").read_text())["auto_mapping"]
    return tmp_path / "x"


def test_an_adapters_settings_are_loras(theirs, base):
    change(
        theirs / "adapter_config.json", use_rslora=True, megatron_config=None, of_another_version=1
    )
    place, settings = model_files.adapter(theirs, base)
    assert (
        settings["r"] == 8
        and set(settings["target_modules"]) == {"q_proj", "v_proj"}
        and settings["use_rslora"]
    )
    assert not settings.keys() & reserved("adapter").keys() and "of_another_version" not in settings
    assert (
        json.loads((place / "adapter_config.json").read_text()) == {"peft_type": "LORA"} | settings
    )
    assert {each.name for each in place.iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
    }


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"peft_type": "BOFT"}, "only plain LoRA adapters are read"),
        (
            {"peft_type": "PROMPT_TUNING", "tokenizer_kwargs": {"trust_remote_code": True}},
            "only plain LoRA adapters",
        ),
        ({"megatron_core": "os"}, "megatron_core is set to 'os'"),
        ({"layer_replication": [[0, 400]]}, "layer_replication is set"),
        ({"corda_config": {"cache_file": "x"}}, "corda_config is set"),
        ({"target_modules": "(a+)+$"}, "expected a list that is not empty"),
        ({"rank_pattern": {"(a+)+$": 3}}, "expected the name of a module"),
        ({"r": 10_000_000}, "from 1 to 4,096"),
        ({"r": 4096}, "size mismatch"),
        (
            {"target_modules": ["q_proj", "v_proj", "k_proj"]},
            "lacks base_model.model.model.layers.0.self_attn.k_proj.",
        ),
        ({"use_dora": True}, "lacks base_model"),
        (
            {"target_modules": ["q_proj", *(f"m{i}" for i in range(2 * 10**5))]},
            "opening it takes more than 1 s: take another",
        ),
        ({"init_lora_weights": "pissa_niter_999999"}, "is not one of"),
        ({"init_lora_weights": "olora"}, "is not one of"),
    ],
)
def test_what_an_adapter_may_not_say(keys, message, theirs, base, monkeypatch):
    if "1 s" in message:
        monkeypatch.setattr(opening, "SECONDS", 1)
    change(theirs / "adapter_config.json", **keys)
    with pytest.raises(RecipeError, match=re.escape(message)):
        model_files.adapter(theirs, base)


def test_a_folder_is_loaded_with_the_hub_switched_off(folder, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with looked_at(str(folder), None):
        assert constants.is_offline_mode()
    assert not constants.is_offline_mode()
    with hub.unasked():
        assert constants.is_offline_mode()


def test_a_model_of_the_hub_is_loaded_from_the_files_of_the_list(folder, tmp_path, monkeypatch):
    """From the cache here, laid out as the Hub's client does."""
    theirs = tmp_path / "hub/models--a--b"
    (theirs / "refs").mkdir(parents=True)
    (theirs / "refs/main").write_text("c" * 40)
    shutil.copytree(folder, theirs / "snapshots" / ("c" * 40))
    (theirs / "snapshots" / ("c" * 40) / "evil.py").write_text("1 / 0")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    with looked_at("a/b", None) as place:
        assert (place / "model.safetensors").is_file() and not (place / "evil.py").exists()
    (theirs / "snapshots" / ("c" * 40) / "model.safetensors").unlink()
    with looked_at("a/b", None, weights=False):
        pass
    with (
        pytest.raises(FileNotFoundError, match="was not downloaded before"),
        looked_at("a/b", None),
    ):
        pass


def test_what_the_hub_is_asked_for():
    parts = [f"model{between}-00001-of-00002.safetensors" for between in ("", ".safetensors")]
    there = [*parts, "model.safetensors.index.json", "config.json"]
    others = [
        "consolidated.safetensors",
        "modeling_x.py",
        "pytorch_model-00001-of-00002.bin",
        "README.md",
    ]
    assert (
        list(filter_repo_objects([*there, *others], allow_patterns=model_files.COMPLETE)) == there
    )


def test_the_private_folder_goes_with_its_process(folder):
    place = model_files.model(folder, weights=False)
    assert place.name == "model" and Path(place).parent.parent.name.startswith("grpo-recipes-")
