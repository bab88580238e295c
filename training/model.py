"""Loads the model, adapter and tokenizer of a recipe, in the same way for every stage."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from huggingface_hub import snapshot_download
from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError
from peft import LoraConfig, PeftModel
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    dynamic_module_utils,
)
from transformers.integrations import is_deepspeed_zero3_enabled

from console.faults import (
    NO_MEMORY,
    OUT_OF_MEMORY,
    Fault,
    NotReached,
    Place,
    RecipeError,
    RunStopped,
    is_out_of_memory,
    nearest,
)
from console.terminal import say
from data import hub, prompt
from machine import hardware
from runs.files import hash_of_model, is_adapter
from runs.identity import BASE, model_when_trained
from schema.recipe import Recipe
from schema.settings import quantization_config
from training import chat_templates, model_files
from training.cpu import is_large_on_cpu, speed_up, speed_up_adapter
from training.merging import without_adapter
from training.sampling import Rollout
from training.tiny_models import built_model

# Where a model comes with its own code, transformers asks at the terminal whether to run it. It
# must not ask during a run.
dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0


def base_model(recipe: Recipe) -> str:
    """Hub id or folder of the recipe's base model; a model that this repository builds is built
    now."""
    if recipe.model.build is None:
        if not Path(recipe.model.name_or_path).is_dir():
            hub.reach()
        return recipe.model.name_or_path
    with PartialState().main_process_first():
        return str(built_model(recipe.model.build, recipe.seed))


def not_loaded(recipe: Recipe, name: str, error: Exception) -> RecipeError | RunStopped:
    """The error to raise for a model that a library cannot load; a NotReached where the Hub cannot
    be reached, and a RunStopped where memory does not suffice."""
    if isinstance(error, RecipeError):
        return error
    if is_out_of_memory(error):
        return RunStopped(f"model {name}: {NO_MEMORY}", OUT_OF_MEMORY)
    place = ""
    if ("model", "name_or_path") in recipe.places and name == recipe.model.name_or_path:
        place = recipe.place("model", "name_or_path")
    return refused(place, f"model {name}", name, error)


def refused(place: Place | str, subject: str, name: str, error: Exception) -> RecipeError:
    """The error to raise with a library's words about the model `name`, in one line.

    Args:
        subject: what the message is about, its first words.
    """
    message = " ".join(str(error).split())[:300] or type(error).__name__
    if isinstance(error, LocalEntryNotFoundError):
        message = "it is not on this machine, and the Hub is not reached: "
        message += f"`hf download {name}` where it is, or name a folder"
    fault = Fault(place, f"{subject}: {message}")
    if isinstance(error, OSError) and not Path(name).is_dir() and hub.is_offline():
        return NotReached([fault])
    return RecipeError([fault])


def checked(name: str, revision: str | None, weights: bool = True) -> Path:
    """The folder to load a model from, once its files are checked: see
    `model_files.require_model`.

    Args:
        name: a folder or a Hub id. `weights`: False where config and tokenizer are enough, so that
            none are fetched.

    Raises:
        RecipeError: a file is refused, or the Hub has no such model for this account.
        OSError: the Hub cannot be reached, and it was never fetched.
    """
    folder = Path(name)
    if not folder.is_dir():
        files = model_files.SMALL
        needed = [model_files.CONFIG]
        if weights:
            files = model_files.COMPLETE
            needed = [model_files.WEIGHTS, model_files.INDEX]
        try:
            folder = Path(snapshot_download(name, revision=revision, allow_patterns=files))
        except GatedRepoError:
            message = f"model {name}: ask for it at https://huggingface.co/{name}, and set HF_TOKEN"
            raise RecipeError([message]) from None
        except RepositoryNotFoundError:
            message = f"model {name}: the Hub has none of this name, or hides it: set HF_TOKEN"
            raise RecipeError([message]) from None
        if hub.is_offline() and not any((folder / file).exists() for file in needed):
            raise FileNotFoundError(f"its {needed[0]} was not downloaded before")
    model_files.require_model(folder, weights)
    return folder


@contextlib.contextmanager
def checked_files(name: str, revision: str | None, weights: bool = True) -> Iterator[Path]:
    """The folder that `checked` returns; in the block no library asks the Hub for more."""
    folder = checked(name, revision, weights)
    with hub.offline():
        yield folder


def load_tokenizer(recipe: Recipe) -> PreTrainedTokenizerBase:
    """The base model's tokenizer, with a chat template, an eos token that really ends a turn, and a
    pad token.

    Later stages load it from the base model too, never from a checkpoint: a saved tokenizer may
    come back changed.
    """
    name = base_model(recipe)
    template = recipe.model.chat_template
    arguments = recipe.model.chat_template_kwargs or {}
    place = f"model {name}"
    if template:
        place = recipe.place("model", "chat_template")
    if arguments:
        place = recipe.place("model", "chat_template_kwargs")
    try:
        with checked_files(name, recipe.model.revision, weights=False) as folder:
            model_files.require_tokenizer(folder)
            tokenizer = AutoTokenizer.from_pretrained(
                folder, padding_side="left", trust_remote_code=False
            )
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:
        raise not_loaded(recipe, name, error) from error
    try:
        tokenizer.chat_template = chat_templates.template_of(tokenizer, template, arguments)
        vocabulary = config.get_text_config().vocab_size
        complaint = chat_templates.complaint(tokenizer, recipe.prompt.system, vocabulary)
    except ValueError as error:  # the template reads no such argument
        complaint = str(error)
    if complaint:
        raise RecipeError([Fault(place, f"the chat template or the tokenizer {complaint}")])
    end_token = prompt.end_of_turn(tokenizer)
    if end_token:
        tokenizer.eos_token = end_token
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if recipe.tools:
        from training.tools import use_tools  # imports trl, for which no other recipe waits

        use_tools(tokenizer, recipe, chat_templates.arguments_set(arguments))
    return tokenizer


def adapter_settings(recipe: Recipe, adapter: Path) -> LoraConfig:
    """The LoRA settings of a trained adapter: see `model_files.adapter`.

    Raises:
        RecipeError: it is not a plain LoRA adapter, or it belongs to another base model, whose
            shapes often fit and whose answers would be nonsense.
    """
    adapted = model_files.base_of(adapter)
    base = base_model(recipe)
    trained_on = model_when_trained(adapter, BASE)
    if trained_on and Path(base).is_dir():
        if hash_of_model(Path(base)) != trained_on:
            message = (
                f"{adapter} was trained on another base than the files that are in {base} now: put"
                " those back, or name the model that it was trained on (model.name_or_path)"
            )
            raise RecipeError([message])
    # One of the two may name a model's folder, and the other its Hub id.
    elif adapted and Path(adapted).name != Path(base).name:
        message = f"{adapter} is an adapter of {adapted:.200}, but the recipe's base model is"
        raise RecipeError([f"{message} {base}"])
    try:
        with checked_files(base, recipe.model.revision, weights=False) as model:
            settings = model_files.adapter(adapter, model)
    except Exception as error:
        raise not_loaded(recipe, base, error) from error
    return LoraConfig(task_type="CAUSAL_LM", base_model_name_or_path=base, **settings)


def name_base(model: PreTrainedModel | PeftModel, base: str):
    """Name the base model in what will be saved, in place of the folder that it was fetched into.
    The libraries load by that name, so this comes after the trainer has its reference, and vLLM its
    model."""
    inner = without_adapter(model)
    inner.name_or_path = inner.config._name_or_path = base
    for config in getattr(model, "peft_config", {}).values():
        config.base_model_name_or_path = base


def _stopping(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str
) -> GenerationConfig:
    """The tokens at which a policy stops: its template's end of a turn, which must be a token of
    the model, and its authors' end tokens. The authors' sampling settings are not used: a run
    samples as its recipe says. No number beyond the vocabulary is a token."""
    vocabulary = range(model.config.get_text_config().vocab_size)
    end = tokenizer.eos_token_id
    if end not in vocabulary:
        message = f"model {name}: its end token {tokenizer.eos_token!r} is number {end}, and its"
        message += f" model knows {len(vocabulary):,}: no completion could end"
        raise RecipeError([message])
    begin = model.generation_config.bos_token_id
    if begin not in vocabulary:
        begin = None
    authors_ends = model.generation_config.eos_token_id
    if not isinstance(authors_ends, list):
        authors_ends = [authors_ends]
    ends = [end]
    for token in authors_ends:
        if token in vocabulary and token not in ends:
            ends.append(token)
    return GenerationConfig(
        bos_token_id=begin, eos_token_id=ends, pad_token_id=tokenizer.pad_token_id
    )


def load_weights(folder: Path, recipe: Recipe, **options: Any) -> PreTrainedModel:
    """The model in a folder whose files are checked, in the dtype of the recipe's model.

    Raises:
        ValueError: its weights are not the ones that its config asks for.
    """
    model, report = AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=getattr(torch, recipe.model.dtype),
        use_safetensors=True,
        trust_remote_code=False,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # they are refused below, in fewer words
        **model_files.without_dropout(folder),
        **options,
    )
    unmatched = sorted(map(str, [*report["missing_keys"], *report["mismatched_keys"]]))
    if unmatched:
        raise ValueError(
            f"its weights do not match its config.json; {unmatched[0]} is missing or has another"
            " shape"
        )
    return model


def load_model(
    recipe: Recipe, tokenizer: PreTrainedTokenizerBase, trained: str | Path | None = None
) -> PreTrainedModel:
    """The recipe's base model, or the model that an earlier stage trained from it.

    Args:
        trained: the folder of an earlier stage, which holds an adapter (loaded trainable on the
            base) or a complete model; None loads the base model without an adapter.

    Raises:
        RecipeError: the model or the adapter cannot be loaded, or its files are refused.
    """
    has_adapter = is_adapter(trained)
    if has_adapter:
        settings = adapter_settings(recipe, Path(trained))
    name = str(trained)
    revision = None
    if trained is None or has_adapter:
        name = base_model(recipe)
        revision = recipe.model.revision
    quantization = quantization_config(recipe)
    options = {
        "attn_implementation": recipe.model.attn_implementation,
        "quantization_config": quantization,
    }
    # bitsandbytes places the weights while it quantises them; the trainer places all others.
    if quantization and torch.cuda.is_available():
        options["device_map"] = {"": PartialState().device}
    try:
        with checked_files(name, revision) as folder:
            model = load_weights(folder, recipe, **options)
    except Exception as error:
        raise not_loaded(recipe, name, error) from error
    require_modules(recipe, model)
    hardware.choose_threads(model.num_parameters())
    speed_up(model)
    _prepare(model, recipe)
    model.generation_config = _stopping(model, tokenizer, name)
    if has_adapter:
        # ZeRO-3 gathers parameters into buffers of one dtype (trl issue 6089).
        cast = not (is_deepspeed_zero3_enabled() and quantization is None)
        try:
            with hub.offline():
                model = PeftModel.from_pretrained(
                    model, trained, is_trainable=True, autocast_adapter_dtype=cast, config=settings
                )
        except Exception as error:  # its weights do not match its settings, or this base
            raise not_loaded(recipe, str(trained), error) from error
        speed_up_adapter(model)  # the arithmetic that it was trained with
    return model


def require_modules(recipe: Recipe, model: PreTrainedModel):
    """Refuse an adapter that names modules or parameters which the model does not have: peft
    silently ignores such names as long as another name exists.

    Raises:
        RecipeError: names the first missing name, and the nearest name that exists.
    """
    modules = [name for name, _ in model.named_modules()]
    parameters = [name for name, _ in model.named_parameters()]
    for key in ("target_modules", "exclude_modules", "modules_to_save"):
        _require_names(recipe, key, "module", modules)
    _require_names(recipe, "target_parameters", "parameter", parameters)
    for key in ("rank_pattern", "alpha_pattern"):
        _require_names(recipe, key, "module", modules + parameters)


def _require_names(recipe: Recipe, key: str, kind: str, existing: list[str]):
    """Refuse a key of the adapter with a name that ends none of the existing names. A parameter is
    suggested with the name of its module."""
    names = (recipe.adapter or {}).get(key) or []
    parts = 1
    if kind == "parameter":
        parts = 2
    if names == "all-linear":
        return
    for name in names:
        ending = "." + name.removeprefix(r".*\.")  # as peft writes the name of experts in patterns
        if not any(f".{candidate}".endswith(ending) for candidate in existing):
            endings = {".".join(candidate.split(".")[-parts:]) for candidate in existing}
            message = f"the model has no {kind} {name}{nearest(name, sorted(endings))}"
            raise RecipeError([recipe.fault("error", ("adapter", key), message)])


def _prepare(model: PreTrainedModel, recipe: Recipe):
    """Say which attention a loaded model uses, where the announced one is another, and work around
    two faults of its libraries."""
    attention = model.config._attn_implementation
    announced = recipe.model.attn_implementation or hardware.ATTENTION
    if attention != announced:
        say(f"attention: {attention}, because this model does not support {announced}")
    for module in model.modules():
        # On a CPU with AVX512-BF16, bitsandbytes would repack its weights for forward passes
        # without gradients, and back for every state_dict, losing digits every time (0.50.2):
        # saving the adapter would change its base.
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False


def load_teacher(recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> PreTrainedModel:
    """The model that distillation learns from: what the recipe's `teacher` names.

    Raises:
        RecipeError: it cannot be loaded, or numbers a token as the student does not: trl compares
            their probabilities by these numbers.
    """
    name = str(recipe.teacher)
    if not Path(name).is_dir():
        hub.reach()
    if not is_adapter(name):  # an adapter has the student's own base
        try:
            with checked_files(name, None, weights=False) as folder:
                model_files.require_tokenizer(folder)
                teachers = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        except Exception as error:
            raise refused(recipe.place("teacher"), f"teacher {name}", name, error) from error
        by_number = {number: token for token, number in teachers.get_vocab().items()}
        for token, number in tokenizer.get_vocab().items():
            if by_number.get(number, token) != token:
                message = (
                    f"teacher: its token {number} is {by_number[number]!r}, the student's"
                    f" {token!r}: take one of the student's family"
                )
                raise RecipeError([Fault(recipe.place("teacher"), message)])
    return load_model(recipe, tokenizer, name)


def load_for_sampling(
    recipe: Recipe, tokenizer: PreTrainedTokenizerBase, trained: str | Path | None = None
) -> PreTrainedModel:
    """Load a model as `load_model` does, on the GPU if the machine has one, in evaluation mode."""
    model = load_model(recipe, tokenizer, trained).eval()
    if is_large_on_cpu(model):
        model.generate = Rollout(model)
    if getattr(model, "is_quantized", False) or not hardware.has_gpu():
        return model  # a quantised model is on the GPU already
    return model.to("cuda")


def require_reward_model(recipe: Recipe, name: str, weights: bool):
    """Refuse a model under `rewards` that trl could not ask. Its weights are not loaded.

    Args:
        weights: False where config and tokenizer are enough, so that no weights are fetched.

    Raises:
        RecipeError: it cannot be read, or its answer to a conversation would be no single number.
    """
    try:
        if not Path(name).is_dir():
            hub.reach()
        with checked_files(name, None, weights) as folder:
            model_files.require_tokenizer(folder)
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        kind = (config.architectures or ["a model of no kind"])[0]
        if not kind.endswith("ForSequenceClassification") or config.num_labels != 1:
            message = "take a model …ForSequenceClassification with one label"
            raise ValueError(f"it is {kind} (labels: {config.num_labels}): {message}")
        if not tokenizer.chat_template:
            raise ValueError("its tokenizer has no chat template: add chat_template.jinja")
    except Exception as error:
        place = recipe.place("rewards", name)
        raise refused(place, f"reward model {name}", name, error) from error


def load_reward_model(recipe: Recipe, name: str) -> PreTrainedModel:
    """The model of a key of `rewards`, as trl loads it by this name, but from safetensors alone.

    Raises:
        RecipeError: it cannot be loaded: see `require_reward_model`.
    """
    require_reward_model(recipe, name, weights=True)
    try:
        with hub.offline():
            return AutoModelForSequenceClassification.from_pretrained(
                str(Path(name)), num_labels=1, use_safetensors=True, trust_remote_code=False
            )
    except Exception as error:
        if is_out_of_memory(error):
            raise
        place = recipe.place("rewards", name)
        raise refused(place, f"reward model {name}", name, error) from error
