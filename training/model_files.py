"""The one way to the folder of a model, a tokenizer, an adapter or a checkpoint, which often is a
stranger's.

A library is never given that folder, but a private one that holds links to the plain files of a
fixed list, and copies of their settings without those that name other files, other models or code.
Nothing else of the folder is read, and nothing else can be saved again. docs/security.md has the
whole list."""

import atexit
import contextlib
import fcntl
import functools
import json
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

from console.faults import Fault, RecipeError
from schema import configs, refused_keys, values
from training import opening
from training.opening import CAUSAL_LM, Chat

LARGEST = 32 * 2**20  # bytes of a JSON file; the largest index of a known model has some 3 MB
SPARE = 2**26  # numbers that a config may ask for beyond its weights: a new head, buffers
CONFIG, TOKENIZER_CONFIG, ADAPTER_CONFIG = (
    "config.json",
    "tokenizer_config.json",
    "adapter_config.json",
)
GENERATION, WEIGHTS, INDEX = (
    "generation_config.json",
    "model.safetensors",
    "model.safetensors.index.json",
)
ADAPTER = "adapter_model.safetensors"
VOCABULARY = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
)
TOKENIZER = (*VOCABULARY, "merges.txt", "added_tokens.json", "chat_template.jinja")
TOKENIZER_SETTINGS = (
    TOKENIZER_CONFIG,
    "special_tokens_map.json",
)  # transformers reads either into the same arguments
STATE = (
    "optimizer.pt",
    "scheduler.pt",
    "scaler.pt",
    "trainer_state.json",
    "entropy_ctrl_state.json",
)
# What the Hub is asked for, before weights and with them.
SMALL = [CONFIG, ADAPTER_CONFIG, GENERATION, *TOKENIZER_SETTINGS, *TOKENIZER]
WHOLE = [*SMALL, WEIGHTS, INDEX, "*-of-*.safetensors"]

# Of a config, what the recipe or the trainer decides, or names code or other files.
DROPPED = (
    "attn_implementation",
    "_attn_implementation",
    "experts_implementation",
    "_experts_implementation",
)
DROPPED += ("auto_map", "transformers_weights", "_name_or_path", "name_or_path")
DROPPED += ("return_dict", "is_encoder_decoder", "output_attentions", "output_hidden_states")
# The settings of a tokenizer that hold text; any other text might be the path of a file.
OF_TOKENIZER = r".*_tokens?|added_tokens_decoder|chat_template|tokenizer_class|errors|backend"
OF_TOKENIZER += "|(padding|truncation)_side|model_input_names|tokenizer_type"
# What peft writes beside the settings of an adapter.
FACTS = (
    "fan_in_fan_out",
    "task_type",
    "base_model_name_or_path",
    "revision",
    "peft_type",
    "peft_version",
)
FACTS += ("inference_mode", "auto_mapping")


def model(
    folder: Path, task: str = CAUSAL_LM, weights: bool = True, chat: Chat | None = None
) -> Path:
    """The private folder of a model.

    Args:
        task: what the model is for, one of `opening.AUTO`.
        weights: False where config and tokenizer are enough.
        chat: what its tokenizer is to be used for.

    Raises:
        RecipeError: it is not a folder of a model for that task with safetensors, its config asks
            for more than its weights hold, or `opening` refuses it.
    """
    if not (folder / CONFIG).exists():
        adapter_alone = ", but an adapter: name its base model" * (folder / ADAPTER_CONFIG).exists()
        instead = adapter_alone or _models_in(folder)
        raise _refused(folder, f"holds no {CONFIG}, so it is not a model{instead}")
    config = _json(folder, CONFIG, DROPPED)
    _require_plain(config, folder / CONFIG)
    # With dropout, the policy being trained would differ from the one that sampled.
    config |= {
        key: 0.0 for key, value in config.items() if "drop" in key and type(value) in (int, float)
    }
    copies, links = {CONFIG: config}, [name for name in TOKENIZER if os.path.lexists(folder / name)]
    if chat is not None and not set(links) & set(VOCABULARY):
        message = "holds no tokenizer: copy tokenizer.json and tokenizer_config.json there"
        raise _refused(folder, message)
    for name in TOKENIZER_SETTINGS:
        if os.path.lexists(folder / name):
            copies[name] = _tokenizer_settings(_json(folder, name), folder / name)
    if os.path.lexists(folder / GENERATION):
        copies[GENERATION] = _ends(_json(folder, GENERATION), folder / GENERATION)
    if weights:
        parts, index = _parts(folder)
        links, copies = [*links, *parts], copies | index
    private = _private(folder, links, copies)
    file = folder / CONFIG
    place = str(file) if chat is None else chat.place
    failure = f"{config.get('model_type')!r:.80} cannot be opened as a {task}"
    arguments = (opening.sizes, config, private, task, chat)
    numbers, held, complaint = opening.opened(file, place, failure, *arguments)
    if complaint:
        raise RecipeError([Fault(place, f"the chat template or the tokenizer {complaint}")])
    if weights and numbers > held + SPARE:
        message = f"asks for {numbers:,} numbers, and the weights beside it are {held:,}"
        raise _refused(file, message)
    return private


def adapter(folder: Path, base: Path) -> tuple[Path, dict[str, Any]]:
    """The private folder of an adapter, and the fields of `LoraConfig` that it sets; each is one
    that a recipe may set too.

    Args:
        base: the private folder of its base model.

    Raises:
        RecipeError: it is not a plain LoRA adapter with safetensors, or its weights are not those
            that its settings ask of the base.
    """
    file, settings = folder / ADAPTER_CONFIG, _lora_settings(folder)
    if not os.path.lexists(folder / ADAPTER):
        raise _refused(folder, f"holds no {ADAPTER}: other formats may hold code and are not read")
    private = _private(folder, [ADAPTER], {ADAPTER_CONFIG: {"peft_type": "LORA"} | settings})
    config = json.loads((base / CONFIG).read_text(encoding="utf-8"))
    arguments = (opening.missing_weights, config, settings, private)
    missing = opening.opened(file, str(file), "its weights are others", *arguments)
    if missing:
        raise _refused(folder / ADAPTER, f"lacks {missing[0]}")
    return private, settings


def checkpoint(folder: Path) -> Path:
    """The private folder of a checkpoint that a trainer resumes: the weights of a model or an
    adapter, those of the frozen adapter that is its reference, and the state of the training. The
    trainer has the settings of both.

    Raises:
        RecipeError: its weights are refused.
    """
    there = [each.name for each in folder.iterdir()]
    links = [
        name for name in there if name in STATE or re.fullmatch(r"rng_state(_\d+)?\.pth", name)
    ]
    adapters = [each for each in (ADAPTER, f"ref/{ADAPTER}") if os.path.lexists(folder / each)]
    parts, copies = ([], {}) if ADAPTER in adapters else _parts(folder)
    return _private(folder, [*links, *adapters, *parts], copies)


def base_of(folder: Path) -> str | None:
    """The base model that an adapter's settings name."""
    base = _json(folder, ADAPTER_CONFIG).get("base_model_name_or_path")
    if not isinstance(base, str | None):
        raise _refused(folder, f"base_model_name_or_path is {base!r:.60}")
    return base


def _private(folder: Path, links: list[str], copies: dict[str, dict]) -> Path:
    place = Path(tempfile.mkdtemp(dir=_root(os.getpid())), folder.resolve().name or "model")
    place.mkdir()
    for name in links:
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).symlink_to(_plain(folder / name))
    for name, content in copies.items():
        (place / name).write_text(json.dumps(content), encoding="utf-8")
    return place


@functools.cache
def _root(process: int) -> Path:
    """A process's own, which it locks; the kernel releases the lock with it. So what is not locked
    was left by one that a signal or os._exit ended, and goes."""
    for left in Path(tempfile.gettempdir()).glob("grpo-recipes-links-*"):
        with contextlib.suppress(OSError):  # locked, another user's, or on a disk without locks
            if time.time() - left.lstat().st_mtime > 60:  # a new one may not be locked yet
                os.close(_locked(left))
                shutil.rmtree(left)
    root = Path(tempfile.mkdtemp(prefix="grpo-recipes-links-"))
    with contextlib.suppress(OSError):
        os.set_inheritable(_locked(root), True)  # by what takes this process's place: vLLM's server
    atexit.register(lambda: os.getpid() == process and shutil.rmtree(root, ignore_errors=True))
    return root


def _locked(folder: Path) -> int:
    held = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise
    return held


def _plain(file: Path) -> Path:
    """Where a file really lies. A link may lead to the files of the same model in the Hub's cache
    (snapshots/x → ../../blobs), or within its folder, but not away."""
    folder, found = file.parent.resolve(), file.resolve()
    allowed = (
        {folder, folder.parent.parent / "blobs"} if folder.parent.name == "snapshots" else {folder}
    )
    if file.is_symlink() and found.parent not in allowed:
        raise _refused(file, f"is a link to {found}, outside its folder")
    if not found.is_file():
        raise _refused(file, "is not a regular file")
    return found


def _json(folder: Path, name: str, without: tuple[str, ...] = ()) -> dict:
    """The object in a file; in it and those within it, without these keys."""
    file = _plain(folder / name)
    try:
        if file.stat().st_size > LARGEST:
            raise _refused(folder / name, f"has {file.stat().st_size:,} bytes")
        value = json.loads(
            file.read_text(encoding="utf-8"),
            object_hook=lambda found: {
                key: each for key, each in found.items() if key not in without
            },
        )
    except (OSError, ValueError, RecursionError) as error:
        raise _refused(folder / name, f"cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise _refused(folder / name, "is not a JSON object")
    return value


def _parts(folder: Path) -> tuple[list[str], dict[str, dict]]:
    """The files of a model's weights, and the index of them where there are several."""
    if os.path.lexists(folder / WEIGHTS):
        return [WEIGHTS], {}
    if not os.path.lexists(folder / INDEX):
        raise _refused(folder, f"holds no {WEIGHTS}: other formats may hold code and are not read")
    shards = _json(folder, INDEX).get("weight_map")
    names = sorted(set(map(str, shards.values()))) if isinstance(shards, dict) else ["no parts"]
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise _refused(
                folder / INDEX, f"names {name!r} as a part, which is no safetensors file beside it"
            )
        if not os.path.lexists(folder / name):
            raise _refused(folder, f"lacks its part {name}")
    return names, {INDEX: {"metadata": {}, "weight_map": shards}}


def _require_plain(config: dict, file: Path):
    _require_tokenizer_class(config.get("tokenizer_class"), file)
    if config.get("quantization_config") is not None:
        raise _refused(
            file, "is quantised already: name the unquantised model, and set `quantization`"
        )
    if named := re.search(r'"(backbone\w*)": (?!null)', json.dumps(config)):
        raise _refused(file, f"{named[1]} names other models")


def _tokenizer_settings(settings: dict, file: Path) -> dict:
    _require_tokenizer_class(settings.get("tokenizer_class"), file)
    return {
        key: value
        for key, value in settings.items()
        if isinstance(value, int | float | None) or re.fullmatch(OF_TOKENIZER, key)
    }


def _require_tokenizer_class(name: Any, file: Path):
    """transformers looks up any attribute of its own under that name, and some of these load other
    models."""
    known = {each.removesuffix("Fast") for each in TOKENIZER_MAPPING_NAMES.values() if each} - {
        "RagTokenizer"
    }
    known |= {"TokenizersBackend", "PreTrainedTokenizer"}
    if name is not None and str(name).removesuffix("Fast") not in known:
        raise _refused(file, f"tokenizer_class {name!r} is no tokenizer of transformers")


def _ends(settings: dict, file: Path) -> dict:
    """Where answers begin and end. How they are sampled is the recipe's to say."""
    kept = {key: settings.get(key) for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    for key, value in kept.items():
        ids = value if isinstance(value, list) else [] if value is None else [value]
        if any(type(each) is not int for each in ids):
            raise _refused(file, f"{key} {value!r:.60} is not a token id")
    return kept


def _lora_settings(folder: Path) -> dict[str, Any]:
    file, config = folder / ADAPTER_CONFIG, _json(folder, ADAPTER_CONFIG)
    if config.get("peft_type") != "LORA":
        raise _refused(
            file, f"peft_type is {config.get('peft_type')!r}; only plain LoRA adapters are read"
        )
    known, reserved, settings = configs.fields("adapter"), refused_keys.reserved("adapter"), {}
    for key, value in config.items():
        # A field of another version of peft is read by nothing here.
        if key not in known or key in FACTS or value in (None, {}, []):
            continue
        if key not in reserved:
            settings[key] = value
            if wrong := values.refusal("adapter", key, value, *known[key]):
                raise _refused(file, f"{key}: {wrong}")
        elif value != known[key].default:
            raise _refused(
                file, f"{key} is set to {value!r:.60}: only plain LoRA adapters are read"
            )
    return settings


def _models_in(folder: Path) -> str:
    """What may be meant by a folder that holds no model."""
    inside = sorted(each.parent.name for each in folder.glob(f"*/{CONFIG}"))[:5]
    return (
        f"; in it are {', '.join(inside)}"
        if inside
        else ": name one that a model, or a stage, was saved in"
    )


def _refused(place: Path, message: str) -> RecipeError:
    return RecipeError([Fault(str(place), message)])
