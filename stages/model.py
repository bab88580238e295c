"""The model, adapter and tokenizer of a recipe, the same for every stage."""

import json
from pathlib import Path

import torch
from accelerate import PartialState
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.integrations import is_deepspeed_zero3_enabled

from data import hub, prompt
from stages import configs, hardware
from stages.cli import say
from stages.faults import RecipeError
from stages.local_models import built_model
from stages.recipe import Recipe

ADAPTER_CONFIG = "adapter_config.json"


def base_model(recipe: Recipe) -> str:
    """Hub id or folder of the recipe's base model; a model that is built here is built now."""
    if recipe.model.build is None:
        if not Path(recipe.model.name_or_path).is_dir():
            hub.reach()
        return recipe.model.name_or_path
    with PartialState().main_process_first():
        return str(built_model(recipe.model.build, recipe.seed))


def load_tokenizer(recipe: Recipe) -> PreTrainedTokenizerBase:
    """The base model's tokenizer, with a chat template, an eos token that really ends a turn, and a pad token.

    Later stages load it from the base model too, never from a checkpoint: a tokenizer may come back changed.
    """
    name = base_model(recipe)
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            name, revision=recipe.model.revision, padding_side="left", trust_remote_code=False
        )
    except OSError as error:  # no such folder, no such model on the Hub, or no way to reach it
        raise RecipeError([f"model {name}: {str(error).splitlines()[0]}"]) from error
    if recipe.model.chat_template is not None:
        tokenizer.chat_template = recipe.model.chat_template
    elif tokenizer.chat_template is None:
        tokenizer.chat_template = prompt.PLAIN_CHAT_TEMPLATE
    if end := prompt.end_of_turn(tokenizer):
        tokenizer.eos_token = end
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def is_adapter(trained: str | Path | None) -> bool:
    """Whether what a stage left is an adapter, to be put on the base model, and not a whole one."""
    return trained is not None and (Path(trained) / ADAPTER_CONFIG).is_file()


def check_base(recipe: Recipe, adapter: Path):
    """An adapter of another base model often fits by its shapes, and then answers nonsense."""
    config = json.loads((adapter / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    trained_on, base = config.get("base_model_name_or_path"), base_model(recipe)
    # A model may have moved, or be named by its Hub id here and by its folder there.
    if trained_on and Path(trained_on).name != Path(base).name:
        raise RecipeError([f"{adapter} is an adapter of {trained_on}, but the recipe's base model is {base}"])


def load_model(
    recipe: Recipe, tokenizer: PreTrainedTokenizerBase, trained: str | Path | None = None
) -> PreTrainedModel:
    """The recipe's base model, or what an earlier stage made of it.

    Args:
        trained: a folder an earlier stage left: an adapter, loaded trainable on the base, or a whole model. None for
            the base model without any adapter.
    """
    on_base = is_adapter(trained)
    if on_base:
        check_base(recipe, Path(trained))
    quantization = configs.quantization_config(recipe)
    # bitsandbytes places the weights while it quantises them; everything else is placed by the trainer.
    placed = {"device_map": {"": PartialState().device}} if quantization and torch.cuda.is_available() else {}
    model = AutoModelForCausalLM.from_pretrained(
        base_model(recipe) if trained is None or on_base else trained,
        revision=recipe.model.revision if trained is None or on_base else None,
        dtype=getattr(torch, recipe.model.dtype),
        attn_implementation=recipe.model.attn_implementation,
        quantization_config=quantization,
        use_safetensors=True,
        trust_remote_code=False,
        **placed,
    )
    used, announced = model.config._attn_implementation, recipe.model.attn_implementation or hardware.ATTENTION
    if used != announced:
        say(f"attention is {used}: this model has no {announced}")
    for module in model.modules():
        # On a CPU that has it bitsandbytes would repack its weights for the forwards without gradients, and back for
        # every state_dict, and lose digits of them each time (0.50.2): to save the adapter would change its base.
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
    # A policy stops where its template ends a turn, and still where its makers said it stops.
    ends = model.generation_config.eos_token_id
    ends = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
    model.generation_config.eos_token_id = list(dict.fromkeys([tokenizer.eos_token_id, *ends]))
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    if on_base:
        # ZeRO-3 gathers parameters into buffers of one dtype (trl issue 6089).
        cast = not (is_deepspeed_zero3_enabled() and quantization is None)
        model = PeftModel.from_pretrained(model, trained, is_trainable=True, autocast_adapter_dtype=cast)
    return model
