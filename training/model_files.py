"""The files of a model or an adapter: which are fetched from the Hub, and what is refused before
anything is loaded. Nobody's code is run (`trust_remote_code=False`), and weights are read from
safetensors alone, for other formats may hold code."""

import json
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from console.faults import Fault, RecipeError
from schema import configs, refused_keys

CONFIG = "config.json"
ADAPTER_CONFIG = "adapter_config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_model.safetensors"
TOKENIZER = ("tokenizer_config.json", "tokenizer.json", "tokenizer.model", "spiece.model")
TOKENIZER += ("sentencepiece.bpe.model", "vocab.json", "vocab.txt")
# The files that are fetched from the Hub, without weights and with them.
SMALL = [CONFIG, ADAPTER_CONFIG, "generation_config.json", *TOKENIZER, "special_tokens_map.json"]
SMALL += ["merges.txt", "added_tokens.json", "chat_template.jinja"]
COMPLETE = [*SMALL, WEIGHTS, INDEX, "*-of-*.safetensors"]
# The keys that peft writes beside the settings of an adapter.
FACTS = ("fan_in_fan_out", "task_type", "base_model_name_or_path", "revision", "peft_type")
FACTS += ("peft_version", "inference_mode", "auto_mapping")


def require_model(folder: Path, weights: bool = True):
    """Refuse a folder that holds no model which can be trained.

    Args:
        weights: False where config and tokenizer are enough.

    Raises:
        RecipeError: it has no config, needs code of its own, has an adapter beside its weights, or
            these are quantised already, no safetensors, or not all there.
    """
    if not (folder / CONFIG).exists():
        raise _refused(folder, f"holds no {CONFIG}, so it is not a model{_instead(folder)}")
    config = read_json(folder / CONFIG)
    if config.get("auto_map") and config.get("model_type") not in CONFIG_MAPPING_NAMES:
        message = "the model comes with code of its own, which is never run: take another"
        raise _refused(folder / CONFIG, message)
    if config.get("quantization_config") is not None:
        message = "is quantised already: name the unquantised model, and set `quantization`"
        raise _refused(folder / CONFIG, message)
    if (folder / ADAPTER_CONFIG).exists():  # transformers would load it, whatever kind it is
        message = "is an adapter's, beside a whole model: move it and the adapter's weights away"
        raise _refused(folder / ADAPTER_CONFIG, message)
    if not weights or (folder / WEIGHTS).exists():
        return
    if not (folder / INDEX).exists():
        raise _refused(folder, f"holds no {WEIGHTS}: other formats may hold code and are not read")
    for name in sorted(set(read_json(folder / INDEX).get("weight_map", {}).values())):
        if not name.endswith(".safetensors") or "/" in name:  # a pickle, or in no hash of the model
            message = f"names {name:.60}: its parts are files of safetensors beside it"
            raise _refused(folder / INDEX, message)
        if not (folder / name).exists():
            raise _refused(folder, f"lacks its part {name}")


def require_tokenizer(folder: Path):
    """Refuse a model's folder without the files of a tokenizer."""
    if not any((folder / name).exists() for name in TOKENIZER):
        message = "holds no tokenizer: copy tokenizer.json and tokenizer_config.json there"
        raise _refused(folder, message)


def without_dropout(folder: Path) -> dict[str, float]:
    """The settings of a model's config that switch its dropout off: with it, the policy that is
    trained would differ from the one that sampled."""
    config = read_json(folder / CONFIG)
    return {
        key: 0.0 for key, value in config.items() if "drop" in key and type(value) in (int, float)
    }


def adapter(folder: Path, base: Path) -> dict[str, Any]:
    """The fields of `LoraConfig` that an adapter sets. A recipe may set all of them too.

    Args:
        base: the folder of its base model.

    Raises:
        RecipeError: it is not a plain LoRA adapter with safetensors, or its weights are not the
            ones that its settings ask of the base.
    """
    settings = _lora_settings(folder)
    if not (folder / ADAPTER).exists():
        raise _refused(folder, f"holds no {ADAPTER}: other formats may hold code and are not read")
    try:
        missing = _missing_weights(settings, folder, base)
    except (RuntimeError, ValueError, TypeError, SafetensorError) as error:
        complaint = " ".join(str(error).split())
        raise _refused(folder / ADAPTER, f"its weights are others: {complaint:.200}") from None
    if missing:
        raise _refused(folder / ADAPTER, f"lacks {missing[0]}")
    return settings


def base_of(folder: Path) -> str | None:
    """The base model that an adapter's settings name."""
    return read_json(folder / ADAPTER_CONFIG).get("base_model_name_or_path")


def read_json(file: Path) -> dict:
    """The object in a file of a model.

    Raises:
        RecipeError: the file holds none.
    """
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _refused(file, f"cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise _refused(file, "is not a JSON object")
    return value


def _missing_weights(settings: dict[str, Any], folder: Path, base: Path) -> list[str]:
    """The names of the weights that a LoRA adapter needs for its base and lacks; a library only
    warns. Neither model has storage here.

    Raises:
        RuntimeError: some have another shape.
    """
    lora = LoraConfig(task_type="CAUSAL_LM", **settings | {"init_lora_weights": False})
    config = AutoConfig.from_pretrained(base, trust_remote_code=False)
    with torch.device("meta"), safe_open(folder / ADAPTER, "np") as file:
        weights = {}
        for name in file.keys():  # noqa: SIM118 (a file of safetensors is no mapping)
            weights[name] = torch.empty(file.get_slice(name).get_shape())
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
        model = get_peft_model(model, lora)
        missing = set_peft_model_state_dict(model, weights).missing_keys
    return [name for name in missing if ".default" in name]


def _lora_settings(folder: Path) -> dict[str, Any]:
    """The fields of `LoraConfig` in an adapter's settings. Refuses one that a recipe may not
    set."""
    file = folder / ADAPTER_CONFIG
    config = read_json(file)
    kind = config.get("peft_type")
    if kind != "LORA":
        raise _refused(file, f"peft_type is {kind!r}; only plain LoRA adapters are read")
    fields = configs.fields("adapter")
    reserved = refused_keys.reserved("adapter")
    settings = {}
    for key, value in config.items():
        # Nothing in this repository reads a field of another version of peft.
        if key not in fields or key in FACTS or value in (None, {}, []):
            continue
        if key not in reserved:
            settings[key] = value
            refusal = configs.refusal("adapter", key, value, *fields[key])
            if refusal:
                raise _refused(file, f"{key}: {refusal}")
        elif value != fields[key].default:
            message = f"{key} is set to {value!r:.60}: only plain LoRA adapters are read"
            raise _refused(file, message)
    return settings


def _instead(folder: Path) -> str:
    """The end of the message on a folder that holds no model: the advice on what to name."""
    if (folder / ADAPTER_CONFIG).exists():
        return ", but an adapter: name its base model, or the folder that `make merge` writes"
    models = sorted(file.parent.name for file in folder.glob(f"*/{CONFIG}"))[:5]
    if models:
        return f"; in it are {', '.join(models)}"
    return ": name one that a model, or a stage, was saved in"


def _refused(place: Path, message: str) -> RecipeError:
    return RecipeError([Fault(str(place), message)])
