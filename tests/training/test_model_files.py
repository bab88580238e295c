"""What the files of a model or an adapter may say."""

import json
import shutil

import numpy as np
import pytest
from huggingface_hub import constants
from safetensors.numpy import save_file

from data import hub
from schema.faults import RecipeError
from schema.local_models import built_model
from training import model_files

CONFIG = [  # changed keys of config.json, and what is said
    ({"attn_implementation": "some/kernel"}, "asks for the kernel 'some/kernel'"),
    ({"text_config": {"_attn_implementation": "flash_attention_2"}}, "asks for the kernel"),
    ({"experts_implementation": "some/kernel"}, "asks for the kernel"),
    ({"quantization_config": {"quant_method": "bitnet"}}, "is quantised already"),
    ({"transformers_weights": "x.bin"}, "transformers_weights names other files"),
    ({"backbone": "a/b"}, "backbone names other files"),
    ({"model_type": "detr"}, "'detr' is no causal language model"),
    ({"model_type": ["qwen3"]}, "is no causal language model"),
    ({"tokenizer_class": "AutoBackbone"}, "is no tokenizer"),
    ({"num_labels": 3_000_000}, "num_labels is 3,000,000"),
    ({"id2label": {str(i): "x" for i in range(2000)}}, "id2label has 2,000 entries"),
    ({"num_hidden_layers": 2000}, "num_hidden_layers is 2,000"),
]


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(built_model("tiny-qwen3", 42), tmp_path / "model")


def change(file, **keys):
    value = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps(value | keys))


def test_a_plain_model_passes(folder):
    model_files.require_model(folder)
    change(folder / "config.json", attn_implementation="sdpa", auto_map={"AutoModel": "evil.Model"})
    model_files.require_model(folder)  # remote code is off, and a model of transformers' own may name some


@pytest.mark.parametrize(("keys", "message"), CONFIG)
def test_what_a_config_may_not_say(keys, message, folder):
    change(folder / "config.json", **keys)
    with pytest.raises(RecipeError, match=message):
        model_files.require_model(folder)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("config.json", "[1]", "is not a JSON object"),
        ("config.json", "{" * 200_000, "cannot be read as JSON"),
        ("tokenizer_config.json", '{"tokenizer_class": "AutoConfig"}', "is no tokenizer of transformers"),
        ("tokenizer_config.json", '{"fast_tokenizer_files": ["../x.json"]}', "fast_tokenizer_files names other files"),
        ("model.safetensors.index.json", '{"weight_map": {"a": "../x.safetensors"}}', "no safetensors file beside it"),
        ("model.safetensors.index.json", '{"weight_map": {"a": "x.bin"}}', "no safetensors file beside it"),
        ("model.safetensors.index.json", '{"weight_map": {"a": "x.safetensors"}}', "lacks its part x.safetensors"),
        ("adapter_config.json", "{}", "holds an adapter beside the model"),
    ],
)
def test_what_other_files_may_not_say(file, text, message, folder):
    (folder / file).write_text(text)
    with pytest.raises(RecipeError, match=message):
        model_files.require_model(folder)


def test_pickled_weights_are_not_looked_for(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(RecipeError, match=r"holds no model\.safetensors"):
        model_files.require_model(folder)


def test_a_link_stays_in_its_folder_or_in_its_cache(folder, tmp_path):
    weights = folder / "model.safetensors"
    weights.rename(tmp_path / "elsewhere")
    weights.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RecipeError, match="outside its folder"):
        model_files.require_model(folder)
    cache = tmp_path / "models--a--b"  # as the Hub's client lays it out
    (cache / "blobs").mkdir(parents=True)
    (cache / "snapshots").mkdir()
    (tmp_path / "elsewhere").rename(cache / "blobs/1234")
    snapshot = shutil.move(folder, cache / "snapshots/main")
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").symlink_to("../../blobs/1234")
    model_files.require_model(snapshot)


def adapter(folder, **keys):
    folder.mkdir(exist_ok=True)
    save_file({"x": np.zeros(1)}, folder / "adapter_model.safetensors")
    written = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 16, "target_modules": ["q_proj", "v_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(written | {"of_another_version": 1} | keys))
    return folder


def test_an_adapters_settings_are_loras(tmp_path):
    settings = model_files.adapter_settings(
        adapter(tmp_path / "x", use_dora=True, fan_in_fan_out=True, loftq_config={}, megatron_config=None)
    )
    assert settings == {"r": 16, "target_modules": ["q_proj", "v_proj"], "use_dora": True}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"peft_type": "BOFT"}, "only plain LoRA adapters are read"),
        ({"peft_type": "PROMPT_TUNING", "tokenizer_kwargs": {"trust_remote_code": True}}, "only plain LoRA adapters"),
        ({"megatron_core": "os"}, "megatron_core is set to 'os'"),
        ({"auto_mapping": {"parent_library": "os"}}, "auto_mapping is set"),
        ({"layer_replication": [[0, 400]]}, "layer_replication is set"),
        ({"corda_config": {"cache_file": "x"}}, "corda_config is set"),
        ({"target_modules": "(a+)+$"}, "expected a list that is not empty"),
        ({"rank_pattern": {"(a+)+$": 3}}, "expected the name of a module"),
        ({"r": 200_000}, "from 1 to 4,096"),
        ({"init_lora_weights": "pissa_niter_999999"}, "is not one of"),
    ],
)
def test_what_an_adapter_may_not_say(keys, message, tmp_path):
    with pytest.raises(RecipeError) as refused:
        model_files.adapter_settings(adapter(tmp_path / "x", **keys))
    assert message in str(refused.value)


def test_a_folder_is_loaded_with_the_hub_switched_off(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with hub.unasked():
        assert constants.is_offline_mode()
    assert not constants.is_offline_mode()
