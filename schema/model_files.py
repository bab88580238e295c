"""What the files of a model or of an adapter may say, looked at before a library reads them: such a folder is often a
stranger's. The libraries run no code of it and unpickle nothing (trust_remote_code off, safetensors only), yet its JSON
can name kernels and tokenizers on the Hub, files outside it, another kind of adapter that compiles code, or sizes that
take all memory. docs/security.md has the whole list."""

import json
import re
from pathlib import Path
from typing import Any

from schema import library_fields, refused_keys, values
from schema.faults import Fault, RecipeError

LARGEST = 32 * 2**20  # bytes of a JSON file that is read here; the largest index of a known model has some 3 MB
# No model is larger, and a number beyond takes minutes and gigabytes before anything is refused.
MOST = {"num_hidden_layers": 1024, "num_labels": 1000, "vocab_size": 2**22, "hidden_size": 2**17}
MOST |= {"intermediate_size": 2**19, "num_attention_heads": 4096, "head_dim": 8192, "max_position_embeddings": 2**27}
ATTENTION = ("eager", "sdpa", "flex_attention", None)
# Facts that peft writes beside the settings of an adapter.
FACTS = {
    "fan_in_fan_out",
    "task_type",
    "base_model_name_or_path",
    "revision",
    "peft_type",
    "peft_version",
    "inference_mode",
}


def require_model(folder: Path):
    """Look at a model's folder.

    Raises:
        RecipeError: it is not a plain folder of a causal language model with safetensors.
    """
    for file in folder.iterdir():
        if file.is_file() or file.is_symlink():
            _require_inside(file, folder)
    if (folder / "adapter_config.json").exists():
        raise _refused(folder, "holds an adapter beside the model, which would be loaded unasked: keep them apart")
    if not (folder / "config.json").is_file():
        raise _refused(folder, "holds no config.json: it is no model")
    require_config(folder / "config.json")
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
    """Names of weights are told to the terminal where they do not fit."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(weights, "np") as opened:
            odd = [name for name in opened.keys() if not re.fullmatch(r"[\w./-]{1,500}", name)]  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise _refused(weights, f"cannot be read: {error}") from None
    if odd:
        raise _refused(weights, f"has a weight of the name {odd[0]!r:.60}")


def require_config(file: Path):
    """Look at a model's `config.json`, wherever it lies."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    config = read(file)
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise _refused(file, f"{kind!r:.80} is no causal language model that transformers has")
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
    """Look at a `tokenizer_config.json`, where there is one."""
    if not file.exists():
        return
    config = read(file)
    _require_tokenizer_class(config.get("tokenizer_class"), file)
    for key in ("fast_tokenizer_files", "gguf_file"):
        if config.get(key) is not None:
            raise _refused(file, f"{key} names other files")


def _require_tokenizer_class(name: Any, file: Path):
    """transformers would look for any attribute of its own under that name, and some of these load other models."""
    from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

    known = {each.removesuffix("Fast") for each in TOKENIZER_MAPPING_NAMES.values() if each} - {"RagTokenizer"}
    known |= {"TokenizersBackend", "PreTrainedTokenizer"}
    if name is not None and str(name).removesuffix("Fast") not in known:
        raise _refused(file, f"tokenizer_class {name!r} is no tokenizer of transformers")


def adapter_settings(folder: Path) -> dict[str, Any]:
    """The fields of `LoraConfig` that an adapter's folder sets, each allowed to a recipe too.

    Raises:
        RecipeError: it is no plain LoRA adapter with safetensors.
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
        if key not in known:  # of another version of peft; nothing here reads it
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
    """A JSON file with a mapping."""
    try:
        if not file.is_file():
            raise _refused(file, "is not a file")
        if file.stat().st_size > LARGEST:
            raise _refused(file, f"has {file.stat().st_size:,} bytes")
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _refused(file, f"cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise _refused(file, "is no JSON object")
    return value


def _require_inside(file: Path, folder: Path):
    """A link may lead to the same model's other files, as in the Hub's cache (snapshots/x → ../../blobs), not away."""
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
