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
)
from console.terminal import say
from data import hub, prompt
from machine import hardware
from schema import configs
from schema.recipe import Recipe
from training import model_files
from training.chat_template import arguments_set, template_of
from training.checkpoints import is_adapter
from training.opening import AUTO, CAUSAL_LM, Chat
from training.tiny_models import built_model

# Where a model comes with its own code, transformers asks at the terminal whether to run it. Here
# it must not ask.
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
    written = ("model", "name_or_path") in recipe.places and name == recipe.model.name_or_path
    return refused(
        recipe.place("model", "name_or_path") if written else "", f"model {name}", name, error
    )


def refused(place: Place | str, what: str, name: str, error: Exception) -> RecipeError:
    """What a library says of the model `name`, in one line."""
    unreachable = isinstance(error, OSError) and not Path(name).is_dir() and hub.is_offline()
    said = " ".join(str(error).split())[:300] or type(error).__name__
    if isinstance(error, LocalEntryNotFoundError):
        said = "it is not on this machine, and the Hub is not reached: "
        said += f"`hf download {name}` where it is, or name a folder"
    return (NotReached if unreachable else RecipeError)([Fault(place, f"{what}: {said}")])


def checked(
    name: str,
    revision: str | None,
    task: str = CAUSAL_LM,
    weights: bool = True,
    chat: Chat | None = None,
) -> Path:
    """The folder to load a model from, once its files are checked: see `model_files.model`. It
    stays for as long as this process lives.

    Args:
        name: a folder or a Hub id. `weights`: False where config and tokenizer are enough, so that
            none are fetched.

    Raises:
        RecipeError: a file is refused, or the Hub has no such model for this account.
        OSError: the Hub cannot be reached, and it was never fetched.
    """
    folder = Path(name)
    if not folder.is_dir():
        files = model_files.WHOLE if weights else model_files.SMALL
        try:
            folder = Path(snapshot_download(name, revision=revision, allow_patterns=files))
        except GatedRepoError:
            message = f"model {name}: ask for it at https://huggingface.co/{name}, and set HF_TOKEN"
            raise RecipeError([message]) from None
        except RepositoryNotFoundError:
            raise RecipeError(
                [f"model {name}: the Hub has none of this name, or hides it: set HF_TOKEN"]
            ) from None
        needed = (model_files.WEIGHTS, model_files.INDEX) if weights else (model_files.CONFIG,)
        if hub.is_offline() and not any((folder / each).exists() for each in needed):
            raise FileNotFoundError(f"its {needed[0]} was not downloaded before")
    return model_files.model(folder, task, weights, chat)


@contextlib.contextmanager
def looked_at(
    name: str,
    revision: str | None,
    task: str = CAUSAL_LM,
    weights: bool = True,
    chat: Chat | None = None,
) -> Iterator[Path]:
    """What `checked` returns; in the block the Hub is asked for nothing more."""
    folder = checked(name, revision, task, weights, chat)
    with hub.unasked():
        yield folder


def load_tokenizer(recipe: Recipe) -> PreTrainedTokenizerBase:
    """The base model's tokenizer, with a chat template, an eos token that really ends a turn, and a
    pad token.

    Later stages load it from the base model too, never from a checkpoint: a saved tokenizer may
    come back changed.
    """
    name = base_model(recipe)
    own, arguments = recipe.model.chat_template, recipe.model.chat_template_kwargs or {}
    key = "chat_template_kwargs" if arguments else "chat_template"
    place = recipe.place("model", key) if own or arguments else f"model {name}"
    chat = Chat(place, recipe.prompt.system, own, arguments)
    try:
        with looked_at(name, recipe.model.revision, weights=False, chat=chat) as folder:
            tokenizer = AutoTokenizer.from_pretrained(
                folder, padding_side="left", trust_remote_code=False
            )
    except Exception as error:
        raise not_loaded(recipe, name, error) from error
    tokenizer.chat_template = template_of(tokenizer, own, arguments)
    if end := prompt.end_of_turn(tokenizer):
        tokenizer.eos_token = end
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if recipe.tools:
        from training.tools import use_tools  # imports trl, which others need not wait for

        use_tools(tokenizer, recipe, arguments_set(arguments))
    return tokenizer


def adapter_of(recipe: Recipe, adapter: Path) -> tuple[Path, LoraConfig]:
    """The folder to load a trained adapter from, and its LoRA settings: see `model_files.adapter`.

    Raises:
        RecipeError: it is not a plain LoRA adapter, or it belongs to another base model, whose
            shapes often fit and whose answers would be nonsense.
    """
    trained_on, base = model_files.base_of(adapter), base_model(recipe)
    # A model may have moved, or be named by its Hub id here and by its folder there.
    if trained_on and Path(trained_on).name != Path(base).name:
        raise RecipeError(
            [f"{adapter} is an adapter of {trained_on:.200}, but the recipe's base model is {base}"]
        )
    try:
        with looked_at(base, recipe.model.revision, weights=False) as model:
            folder, settings = model_files.adapter(adapter, model)
    except Exception as error:
        raise not_loaded(recipe, base, error) from error
    return folder, LoraConfig(task_type="CAUSAL_LM", base_model_name_or_path=base, **settings)


def name_base(model: PreTrainedModel | PeftModel, base: str):
    """Name the base model in what will be saved, in place of the private folder that it came from.
    The libraries load by that name, so this comes after the trainer has its reference, and vLLM its
    model."""
    inner = model.get_base_model() if isinstance(model, PeftModel) else model
    inner.name_or_path = inner.config._name_or_path = base
    for each in getattr(model, "peft_config", {}).values():
        each.base_model_name_or_path = base


def _whole(module: torch.nn.Module, inputs: tuple) -> tuple:
    """A head is given the last position only of a prompt: a slice, which torch multiplies with
    frozen weights row by row, and in 16 bits on a CPU with a copy of them for each (pytorch issue
    151934). In one piece it is one product.
    """
    return tuple(each.contiguous() if isinstance(each, torch.Tensor) else each for each in inputs)


def _stopping(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str
) -> GenerationConfig:
    """A policy stops where its template ends a turn, and also where its authors said it stops. None
    of their other sampling settings are used: a run samples as its recipe says. No number beyond
    the vocabulary is a token.
    """
    known = range(model.config.get_text_config().vocab_size)
    if (end := tokenizer.eos_token_id) not in known:
        of = (
            f"its end token {tokenizer.eos_token!r} is number {end}, and its model knows"
            f" {len(known):,}"
        )
        raise RecipeError([f"model {name}: {of}: no completion could end"])
    begin, ends = model.generation_config.bos_token_id, model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    return GenerationConfig(
        bos_token_id=begin if begin in known else None,
        eos_token_id=list(dict.fromkeys([end, *(each for each in ends if each in known)])),
        pad_token_id=tokenizer.pad_token_id,
    )


def load_weights(
    folder: Path, recipe: Recipe, task: str = CAUSAL_LM, **options: Any
) -> PreTrainedModel:
    """The model in a folder that has been looked at, in the dtype of the recipe's own.

    Raises:
        ValueError: its weights are not those that its config asks for.
    """
    model, told = AUTO[task].from_pretrained(
        folder,
        dtype=getattr(torch, recipe.model.dtype),
        use_safetensors=True,
        trust_remote_code=False,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # they are refused below, in fewer words
        **options,
    )
    lacking = sorted(map(str, [*told["missing_keys"], *told["mismatched_keys"]]))
    if lacking:
        raise ValueError(
            f"its weights do not match its config.json; {lacking[0]} is missing or has another"
            " shape"
        )
    return model


def load_model(
    recipe: Recipe, tokenizer: PreTrainedTokenizerBase, trained: str | Path | None = None
) -> PreTrainedModel:
    """The recipe's base model, or what an earlier stage made of it.

    Args:
        trained: the folder of an earlier stage, which holds an adapter (loaded trainable on the
            base) or a whole model; None loads the base model without an adapter.

    Raises:
        RecipeError: the model or the adapter cannot be loaded, or its files are refused.
    """
    on_base = is_adapter(trained)
    adapter, settings = adapter_of(recipe, Path(trained)) if on_base else (None, None)
    quantization = configs.quantization_config(recipe)
    # bitsandbytes places the weights while it quantises them; everything else is placed by the
    # trainer.
    placed = (
        {"device_map": {"": PartialState().device}}
        if quantization and torch.cuda.is_available()
        else {}
    )
    name = base_model(recipe) if trained is None or on_base else str(trained)
    revision = recipe.model.revision if trained is None or on_base else None
    try:
        with looked_at(name, revision) as folder:
            given = {
                "attn_implementation": recipe.model.attn_implementation,
                "quantization_config": quantization,
            }
            model = load_weights(folder, recipe, **given, **placed)
    except Exception as error:
        raise not_loaded(recipe, name, error) from error
    configs.require_modules(recipe, model)
    hardware.choose_threads(model.num_parameters())
    used, announced = (
        model.config._attn_implementation,
        recipe.model.attn_implementation or hardware.ATTENTION,
    )
    if used != announced:
        say(f"attention: {used}, because this model does not support {announced}")
    for module in model.modules():
        # On a CPU with AVX512-BF16, bitsandbytes would repack its weights for forward passes
        # without gradients, and back for every state_dict, losing digits each time (0.50.2): saving
        # the adapter would change its base.
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
    if (head := model.get_output_embeddings()) is not None:
        head.register_forward_pre_hook(_whole)
    model.generation_config = _stopping(model, tokenizer, name)
    if on_base:
        # ZeRO-3 gathers parameters into buffers of one dtype (trl issue 6089).
        cast = not (is_deepspeed_zero3_enabled() and quantization is None)
        try:
            with hub.unasked():
                model = PeftModel.from_pretrained(
                    model, adapter, is_trainable=True, autocast_adapter_dtype=cast, config=settings
                )
        except Exception as error:  # its weights do not match its settings, or this base
            raise not_loaded(recipe, str(trained), error) from error
    return model


def load_for_answers(
    recipe: Recipe, tokenizer: PreTrainedTokenizerBase, trained: str | Path | None = None
) -> PreTrainedModel:
    """`load_model`, on the GPU where there is one, and in evaluation mode."""
    model = load_model(recipe, tokenizer, trained).eval()
    # A quantised model has been placed already.
    placed = getattr(model, "is_quantized", False) or hardware.gpu() is None
    return model if placed else model.to(hardware.gpu())
