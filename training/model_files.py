"""The one way to the folder of a model, a tokenizer, an adapter or a checkpoint, which often is a
stranger's.

A library never reads that folder, but a private one that holds links to the plain files of a fixed
list, and copies of their settings without those that name more files, models or code. Nothing else
of the folder is read, and nothing else can be saved again. docs/security.md has the full list."""

import atexit
import functools
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

from console.faults import Fault, RecipeError
from schema import configs, refused_keys
from schema.values import as_list
from training import opening
from training.opening import CAUSAL_LM, Chat

LARGEST = 32 * 2**20  # bytes of a JSON file; the largest index of a known model has some 3 MB
SPARE = 2**26  # numbers that a config may ask for beyond its weights: a new head, buffers
CONFIG = "config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
ADAPTER_CONFIG = "adapter_config.json"
GENERATION = "generation_config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_model.safetensors"
VOCABULARY = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
VOCABULARY += ("spiece.model", "sentencepiece.bpe.model")
TOKENIZER = (*VOCABULARY, "merges.txt", "added_tokens.json", "chat_template.jinja")
# transformers reads either into the same arguments.
TOKENIZER_SETTINGS = (TOKENIZER_CONFIG, "special_tokens_map.json")
# The files that are fetched from the Hub, without weights and with them.
SMALL = [CONFIG, ADAPTER_CONFIG, GENERATION, *TOKENIZER_SETTINGS, *TOKENIZER]
COMPLETE = [*SMALL, WEIGHTS, INDEX, "*-of-*.safetensors"]

# The keys of a config that the recipe or the trainer decides, or that name code or more files.
DROPPED = ("attn_implementation", "_attn_implementation")
DROPPED += ("experts_implementation", "_experts_implementation")
DROPPED += ("auto_map", "transformers_weights", "_name_or_path", "name_or_path")
DROPPED += ("return_dict", "is_encoder_decoder", "output_attentions", "output_hidden_states")
# The settings of a tokenizer that hold text; the text of any other might be the path of a file.
TEXT_SETTINGS = r".*_tokens?|added_tokens_decoder|chat_template|tokenizer_class|errors|backend"
TEXT_SETTINGS += "|(padding|truncation)_side|model_input_names|tokenizer_type"
# The keys that peft writes beside the settings of an adapter.
FACTS = ("fan_in_fan_out", "task_type", "base_model_name_or_path", "revision", "peft_type")
FACTS += ("peft_version", "inference_mode", "auto_mapping")


def model(
    folder: Path, task: str = CAUSAL_LM, weights: bool = True, chat: Chat | None = None
) -> Path:
    """The private folder of a model.

    Args:
        task: the use of the model, one of `opening.AUTO`.
        weights: False where config and tokenizer are enough.
        chat: the conversations that its tokenizer must write.

    Raises:
        RecipeError: it is not a folder of a model for that task with safetensors, its config asks
            for more than its weights hold, or `opening` refuses it.
    """
    if not (folder / CONFIG).exists():
        raise _refused(folder, f"holds no {CONFIG}, so it is not a model{_instead(folder)}")
    config = _json(folder, CONFIG, DROPPED)
    _require_plain(config, folder / CONFIG)
    # With dropout, the policy being trained would differ from the one that sampled.
    for key, value in config.items():
        if "drop" in key and type(value) in (int, float):
            config[key] = 0.0
    copies = {CONFIG: config}
    links = [name for name in TOKENIZER if os.path.lexists(folder / name)]
    if chat is not None and not set(links) & set(VOCABULARY):
        message = "holds no tokenizer: copy tokenizer.json and tokenizer_config.json there"
        raise _refused(folder, message)
    for name in TOKENIZER_SETTINGS:
        if os.path.lexists(folder / name):
            copies[name] = _tokenizer_settings(_json(folder, name), folder / name)
    if os.path.lexists(folder / GENERATION):
        copies[GENERATION] = _special_tokens(_json(folder, GENERATION), folder / GENERATION)
    if weights:
        parts, index = _weight_files(folder)
        links += parts
        copies |= index
    private = _private(folder, links, copies)
    file = folder / CONFIG
    place = str(file)
    if chat is not None:
        place = chat.place
    failure = f"{config.get('model_type')!r:.80} cannot be opened as a {task}"
    arguments = (opening.sizes, config, private, task, chat)
    wanted, stored, complaint = opening.opened(file, place, failure, *arguments)
    if complaint:
        raise RecipeError([Fault(place, f"the chat template or the tokenizer {complaint}")])
    if weights and wanted > stored + SPARE:
        message = f"asks for {wanted:,} numbers, and the weights beside it are {stored:,}"
        raise _refused(file, message)
    return private


def adapter(folder: Path, base: Path) -> tuple[Path, dict[str, Any]]:
    """The private folder of an adapter, and the fields of `LoraConfig` that it sets. A recipe may
    set all of them too.

    Args:
        base: the private folder of its base model.

    Raises:
        RecipeError: it is not a plain LoRA adapter with safetensors, or its weights are not the
            ones that its settings ask of the base.
    """
    file = folder / ADAPTER_CONFIG
    settings = _lora_settings(folder)
    if not os.path.lexists(folder / ADAPTER):
        raise _refused(folder, f"holds no {ADAPTER}: other formats may hold code and are not read")
    private = _private(folder, [ADAPTER], {ADAPTER_CONFIG: {"peft_type": "LORA"} | settings})
    config = json.loads((base / CONFIG).read_text(encoding="utf-8"))
    arguments = (opening.missing_weights, config, settings, private)
    missing = opening.opened(file, str(file), "its weights are others", *arguments)
    if missing:
        raise _refused(folder / ADAPTER, f"lacks {missing[0]}")
    return private, settings


def base_of(folder: Path) -> str | None:
    """The base model that an adapter's settings name."""
    base = _json(folder, ADAPTER_CONFIG).get("base_model_name_or_path")
    if not isinstance(base, str | None):
        raise _refused(folder, f"base_model_name_or_path is {base!r:.60}")
    return base


def _private(folder: Path, links: list[str], copies: dict[str, dict]) -> Path:
    """Create a private folder with links to these files, and with copies of these objects."""
    target_of = {name: _plain(folder / name) for name in links}
    private = Path(tempfile.mkdtemp(dir=_root(os.getpid())), folder.resolve().name or "model")
    private.mkdir()
    for name, target in target_of.items():
        (private / name).parent.mkdir(exist_ok=True)
        (private / name).symlink_to(target)
    for name, content in copies.items():
        (private / name).write_text(json.dumps(content), encoding="utf-8")
    return private


@functools.cache
def _root(process: int) -> Path:
    """Create the folder of a process's private folders, which is removed when the process ends."""
    root = Path(tempfile.mkdtemp(prefix="grpo-recipes-model-"))
    atexit.register(lambda: os.getpid() == process and shutil.rmtree(root, ignore_errors=True))
    return root


def _plain(file: Path) -> Path:
    """Follow a link to the regular file behind it. A link may lead to the same model's files in the
    Hub's cache (snapshots/x → ../../blobs), or within its folder, but not away."""
    folder = file.parent.resolve()
    target = file.resolve()
    allowed = [folder]
    if folder.parent.name == "snapshots":
        allowed.append(folder.parent.parent / "blobs")
    if file.is_symlink() and target.parent not in allowed:
        raise _refused(file, f"is a link to {target}, outside its folder")
    if not target.is_file():
        raise _refused(file, "is not a regular file")
    return target


def _json(folder: Path, name: str, without: tuple[str, ...] = ()) -> dict:
    """The object in a file, without these keys in it and in the objects within it."""
    file = _plain(folder / name)

    def drop_keys(content: dict) -> dict:
        return {key: value for key, value in content.items() if key not in without}

    try:
        if file.stat().st_size > LARGEST:
            raise _refused(folder / name, f"has {file.stat().st_size:,} bytes")
        value = json.loads(file.read_text(encoding="utf-8"), object_hook=drop_keys)
    except (OSError, ValueError, RecursionError) as error:
        raise _refused(folder / name, f"cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise _refused(folder / name, "is not a JSON object")
    return value


def _weight_files(folder: Path) -> tuple[list[str], dict[str, dict]]:
    """The names of the files with a model's weights, and their index by its name where they are
    several."""
    if os.path.lexists(folder / WEIGHTS):
        return [WEIGHTS], {}
    if not os.path.lexists(folder / INDEX):
        raise _refused(folder, f"holds no {WEIGHTS}: other formats may hold code and are not read")
    shards = _json(folder, INDEX).get("weight_map")
    names = ["no parts"]
    if isinstance(shards, dict):
        names = sorted(set(map(str, shards.values())))
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            message = f"names {name!r} as a part, which is no safetensors file beside it"
            raise _refused(folder / INDEX, message)
        if not os.path.lexists(folder / name):
            raise _refused(folder, f"lacks its part {name}")
    return names, {INDEX: {"metadata": {}, "weight_map": shards}}


def _require_plain(config: dict, file: Path):
    _require_tokenizer_class(config.get("tokenizer_class"), file)
    if config.get("quantization_config") is not None:
        raise _refused(
            file, "is quantised already: name the unquantised model, and set `quantization`"
        )
    match = re.search(r'"(backbone\w*)": (?!null)', json.dumps(config))
    if match:
        raise _refused(file, f"{match[1]} names other models")


def _tokenizer_settings(settings: dict, file: Path) -> dict:
    _require_tokenizer_class(settings.get("tokenizer_class"), file)
    safe = {}
    for key, value in settings.items():
        if isinstance(value, int | float | None) or re.fullmatch(TEXT_SETTINGS, key):
            safe[key] = value
    return safe


def _require_tokenizer_class(name: Any, file: Path):
    """Refuse a name that is not a tokenizer's. transformers looks up any of its attributes under
    that name, and some of these load more models."""
    names = {"TokenizersBackend", "PreTrainedTokenizer"}
    names.update(name.removesuffix("Fast") for name in TOKENIZER_MAPPING_NAMES.values() if name)
    names.discard("RagTokenizer")
    if name is not None and str(name).removesuffix("Fast") not in names:
        raise _refused(file, f"tokenizer_class {name!r} is no tokenizer of transformers")


def _special_tokens(settings: dict, file: Path) -> dict:
    """The tokens with which answers begin and end. The recipe alone says how they are sampled."""
    tokens = {}
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        value = settings.get(key)
        tokens[key] = value
        if value is not None and any(type(token) is not int for token in as_list(value)):
            raise _refused(file, f"{key} {value!r:.60} is not a token id")
    return tokens


def _lora_settings(folder: Path) -> dict[str, Any]:
    """The fields of `LoraConfig` in an adapter's settings. Refuses one that a recipe may not
    set."""
    file = folder / ADAPTER_CONFIG
    config = _json(folder, ADAPTER_CONFIG)
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
