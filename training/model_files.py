"""Checks the files of a model or an adapter before a library reads them, since such a folder often comes from a
stranger. The libraries run none of its code and unpickle nothing (trust_remote_code off, safetensors only), yet its
JSON can name kernels and tokenizers on the Hub, files outside the folder, an adapter type that compiles code, or sizes
that take all memory. docs/security.md has the whole list."""

import json
import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from schema import library_fields, refused_keys, values
from schema.faults import Fault, RecipeError

LARGEST = 32 * 2**20  # bytes of a JSON file; the largest index of a known model has some 3 MB
# No model is larger, and larger numbers take minutes and gigabytes before anything is refused.
MOST = {"num_hidden_layers": 1024, "num_labels": 1000, "vocab_size": 2**22, "hidden_size": 2**17}
MOST |= {"intermediate_size": 2**19, "num_attention_heads": 4096, "head_dim": 8192, "max_position_embeddings": 2**27}
ATTENTION = ("eager", "sdpa", "flex_attention", None)
# What peft writes beside the settings of an adapter.
FACTS = {
    "fan_in_fan_out",
    "task_type",
    "base_model_name_or_path",
    "revision",
    "peft_type",
    "peft_version",
    "inference_mode",
}


def require_model(folder: Path, task: str = "causal language model"):
    """Check a model's folder.

    Args:
        task: what the model is for: see `require_config`.

    Raises:
        RecipeError: it is not a plain folder of a model for that task with safetensors.
    """
    for file in folder.iterdir():
        if file.is_file() or file.is_symlink():
            _require_inside(file, folder)
    if (folder / "adapter_config.json").exists():
        raise _refused(folder, "holds an adapter beside the model, which would be loaded unasked: keep them apart")
    if not (folder / "config.json").is_file():
        raise _refused(folder, "holds no config.json, so it is not a model")
    require_config(folder / "config.json", task)
    require_tokenizer(folder / "tokenizer_config.json")
    parts = {"model.safetensors"}
    if (index := folder / "model.safetensors.index.json").exists():
        shards = read(index).get("weight_map")
        names = set(map(str, shards.values())) if isinstance(shards, dict) else {"no parts"}
        for name in names:
            if Path(name).name != name or not name.endswith(".safetensors"):
                raise _refused(index, f"names {name!r} as a part, which is no safetensors file beside it")
            if not (folder / name).is_file():
                raise _refused(folder, f"lacks its part {name}")
        parts = names
    elif not (folder / "model.safetensors").is_file():
        raise _refused(folder, "holds no model.safetensors: other formats may hold code and are not read")
    for name in sorted(parts):
        _require_names(folder / name)


def _require_names(weights: Path):
    """Names of weights that do not fit are printed on the terminal, so they must be plain."""
    try:
        with safe_open(weights, "np") as opened:
            odd = [name for name in opened.keys() if not re.fullmatch(r"[\w./-]{1,500}", name)]  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise _refused(weights, f"cannot be read: {error}") from None
    if odd:
        raise _refused(weights, f"has a weight of the name {odd[0]!r:.60}")


def require_config(file: Path, task: str = "causal language model"):
    """Look at a model's `config.json`, wherever it lies. `task`: one of those that are known here."""
    from transformers.models.auto import modeling_auto

    known = {
        "causal language model": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        "sequence classification": modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
        "token classification": modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    }
    config = read(file)
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in known[task]:
        name = task if task.endswith("model") else f"model for {task}"
        raise _refused(file, f"{kind!r:.80} is no {name} that transformers has")
    _require_tokenizer_class(config.get("tokenizer_class"), file)
    for key, value in _pairs(config):
        if key in ("attn_implementation", "_attn_implementation", "experts_implementation", "_experts_implementation"):
            if value not in ATTENTION and not isinstance(value, dict):
                raise _refused(file, f"asks for the kernel {value!r}: remove {key}, the recipe chooses the attention")
        elif key == "quantization_config" and value is not None:
            raise _refused(file, "is quantised already: name the unquantised model, and set `quantization`")
        elif (key == "transformers_weights" or key.startswith("backbone")) and value is not None:
            raise _refused(file, f"{key} names other files or models")
        elif key == "id2label" and isinstance(value, dict) and len(value) > MOST["num_labels"]:
            raise _refused(file, f"{key} has {len(value):,} entries")
        elif key in MOST and isinstance(value, int | float) and value > MOST[key]:
            raise _refused(file, f"{key} is {value:,}, and no model has more than {MOST[key]:,}")


def require_tokenizer(file: Path):
    """Check a `tokenizer_config.json`, if there is one."""
    if not file.exists():
        return
    config = read(file)
    _require_tokenizer_class(config.get("tokenizer_class"), file)
    for key in ("fast_tokenizer_files", "gguf_file"):
        if config.get(key) is not None:
            raise _refused(file, f"{key} names other files")


def _require_tokenizer_class(name: Any, file: Path):
    """transformers looks up any attribute of its own under that name, and some of these load other models."""
    from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

    known = {each.removesuffix("Fast") for each in TOKENIZER_MAPPING_NAMES.values() if each} - {"RagTokenizer"}
    known |= {"TokenizersBackend", "PreTrainedTokenizer"}
    if name is not None and str(name).removesuffix("Fast") not in known:
        raise _refused(file, f"tokenizer_class {name!r} is no tokenizer of transformers")


def adapter_settings(folder: Path) -> dict[str, Any]:
    """The fields of `LoraConfig` that an adapter's folder sets; each must be one that a recipe may set too.

    Raises:
        RecipeError: it is not a plain LoRA adapter with safetensors.
    """
    file = folder / "adapter_config.json"
    config = read(file)
    if config.get("peft_type") != "LORA":
        raise _refused(file, f"peft_type is {config.get('peft_type')!r}; only plain LoRA adapters are read")
    if not (weights := folder / "adapter_model.safetensors").is_file():
        raise _refused(folder, "holds no adapter_model.safetensors: other formats may hold code and are not read")
    _require_inside(weights, folder)
    _require_names(weights)
    _require_inside(file, folder)
    known, settings = library_fields.fields("adapter"), {}
    for key, value in config.items():
        if key in FACTS or value is None or value in ({}, []):
            continue
        if key not in known:  # a field of another version of peft, which nothing here reads
            continue
        default = known[key].default
        if key in refused_keys.RESERVED["adapter"]:
            if value != default and not (default is library_fields.UNKNOWN and not value):
                raise _refused(file, f"{key} is set to {value!r:.60}: only plain LoRA adapters are read")
        elif value != default:
            if wrong := values.refusal("adapter", key, value, *known[key]):
                raise _refused(file, f"{key}: {wrong}")
            settings[key] = value
    return settings


def read(file: Path) -> dict:
    """The mapping that a JSON file holds."""
    try:
        if not file.is_file():
            raise _refused(file, "is not a file")
        if file.stat().st_size > LARGEST:
            raise _refused(file, f"has {file.stat().st_size:,} bytes")
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _refused(file, f"cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise _refused(file, "is not a JSON object")
    return value


def _require_inside(file: Path, folder: Path):
    """A link may lead to other files of the same model, as in the Hub's cache (snapshots/x → ../../blobs), but not
    away."""
    root = folder.resolve()
    root = root.parent.parent if root.parent.name == "snapshots" else root
    if file.is_symlink() and root not in file.resolve().parents:
        raise _refused(file, f"is a link to {file.resolve()}, outside its folder")
    if not file.resolve().is_file():
        raise _refused(file, "is not a regular file")


def _pairs(tree: Any):
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield key, value
            yield from _pairs(value)
    elif isinstance(tree, list):
        for each in tree:
            yield from _pairs(each)


def _refused(place: Path, message: str) -> RecipeError:
    return RecipeError([Fault(str(place), message)])
