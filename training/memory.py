"""What a recipe needs of each GPU's memory, part by part, from its model's config alone: no weight is loaded.

Parameters are counted on the model itself, built on torch's meta device, where tensors have shapes and no storage. The
activations are what autograd saves in a forward pass there, layer by layer. docs/memory.md has the formulas and how far
they are from what was measured.
"""

import copy
from dataclasses import dataclass
from typing import NamedTuple

import torch
from peft import get_peft_model
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from schema import configs
from schema.faults import said_by_library
from schema.recipe import Recipe
from training.exact_merge import adapted_layers
from training.model import base_model, looked_at, not_loaded

GIB = 2**30
# Tokens of a prompt where the data has not been read.
PROMPT_TOKENS = 256
# trl's fused LM head never holds all logits, but a tile of so many tokens by so many words
# (trl/kernels/chunked_logprob.py, trl/trainer/utils.py).
TILE = (4096, 32768)


class Setting(NamedTuple):
    """How many GPUs share the gradients and the optimizer (ZeRO-2), and the weights too (ZeRO-3, FSDP)."""

    optimizer_shards: int = 1
    weight_shards: int = 1


def shards(launched: dict) -> Setting:
    """What the processes of an accelerate config share."""
    processes = launched["num_processes"]
    zero = (launched.get("deepspeed_config") or {}).get("zero_stage", 0)
    whole = zero == 3 or launched.get("distributed_type") == "FSDP"
    return Setting(processes if whole or zero == 2 else 1, processes if whole else 1)


def this_card() -> float | None:
    """GiB of the GPU at hand, where there is one."""
    return torch.cuda.mem_get_info()[1] / GIB if torch.cuda.is_available() else None


@dataclass(frozen=True)
class Parts:
    """Bytes of each part on one GPU, while a GRPO step of the recipe is at its peak.

    `in_turns`: completions are sampled before the step trains on them, so what only sampling holds and what only
    training holds take turns; not where vLLM stays awake and keeps what it has.
    """

    weights: int
    trained_weights: int
    reference: int
    gradients: int
    optimizer: int
    activations: int
    logits: int
    kv_cache: int = 0
    copy_of_the_base: int = 0
    vllm_weights: int = 0
    vllm_cache: int = 0
    in_turns: bool = True

    @property
    def total(self) -> int:
        kept = self.weights + self.trained_weights + self.reference + self.gradients + self.optimizer
        training = self.activations + self.logits
        sampling = self.kv_cache + self.copy_of_the_base + self.vllm_weights + self.vllm_cache
        return kept + (max(training, sampling) if self.in_turns else training + sampling)


def estimate(
    recipe: Recipe,
    prompt_tokens: int = PROMPT_TOKENS,
    setting: Setting = Setting(),  # noqa: B008
    card: float | None = None,
) -> Parts:
    """What a GRPO step of the recipe needs of one GPU.

    Args:
        card: GiB of the GPU, at hand or not; vLLM takes its share of it. Without one, its cache is what one generation
            batch fills.

    Raises:
        RecipeError: the model's config cannot be read.
    """
    gpu = card is not None or torch.cuda.is_available()
    config = model_config(recipe)
    model = on_meta(recipe, config)
    frozen, trained = parameter_bytes(model, recipe)
    args = configs.training_config(recipe, "grpo")
    # The frozen copy of what is trained: trl keeps one of the warm start's adapter; without one it switches off the
    # adapter; a fully trained model has a second one beside it.
    reference = trained if args.beta and (recipe.adapter is None or recipe.sft is not None) else 0
    tokens, batch = prompt_tokens + args.max_completion_length, args.per_device_train_batch_size
    kv_cache = batch * args.steps_per_generation * tokens * cache_bytes_per_token(config, recipe)
    shared = max(setting.optimizer_shards, setting.weight_shards)
    return Parts(
        weights=frozen // setting.weight_shards,
        trained_weights=trained // setting.weight_shards,
        reference=reference // setting.weight_shards,
        gradients=trained // shared,
        optimizer=2 * trained // shared,  # AdamW's two moments, in the dtype of what they belong to
        activations=activation_bytes(recipe, config, batch, tokens, args.gradient_checkpointing, gpu),
        logits=logits_bytes(recipe, config, batch * tokens, gpu),
        **_sampling(recipe, model, args, kv_cache, card, gpu),
    )


def _sampling(recipe: Recipe, model: PreTrainedModel, args, kv_cache: int, card: float | None, gpu: bool) -> dict:
    """The parts that only sampling holds: transformers' KV cache, or vLLM's own copy of the weights and the rest of its
    share of the card."""
    if not args.use_vllm:
        held = []
        if recipe.adapter is not None and recipe.quantization is None and not gpu:
            held = [each for layer in adapted_layers(model) for each in layer.parameters(recurse=False)]
        return {"kv_cache": kv_cache, "copy_of_the_base": sum(each.numel() * each.element_size() for each in held)}
    if args.vllm_mode != "colocate":
        return {}
    sizes = [each.numel() * each.element_size() for name, each in model.named_parameters() if "lora_" not in name]
    weights = sum(sizes) // args.vllm_tensor_parallel_size
    if card:
        kv_cache = max(0, round(args.vllm_gpu_memory_utilization * card * GIB) - weights)
    return {"vllm_weights": weights, "vllm_cache": kv_cache, "in_turns": args.vllm_enable_sleep_mode}


def model_config(recipe: Recipe) -> PretrainedConfig:
    try:
        with looked_at(base_model(recipe), recipe.model.revision):
            return AutoConfig.from_pretrained(
                base_model(recipe), revision=recipe.model.revision, trust_remote_code=False
            )
    except Exception as error:
        raise not_loaded(recipe, base_model(recipe), error) from error


def on_meta(recipe: Recipe, config: PretrainedConfig) -> PreTrainedModel:
    """The recipe's model, with its adapter, without storage."""
    dtype = getattr(torch, recipe.model.dtype)
    with torch.device("meta"):
        with said_by_library(recipe.place("model")):
            model = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=False)
        if recipe.adapter is not None:
            configs.require_modules(recipe, model)
            with said_by_library(recipe.place("adapter", "target_modules")):
                model = get_peft_model(model, configs.adapter_config(recipe))
    return model


def parameter_bytes(model: PreTrainedModel, recipe: Recipe) -> tuple[int, int]:
    """(bytes of frozen weights, bytes of trained weights). With NF4 a linear layer's weights, but for the head's, take
    half a byte each and their constants."""
    quantization = configs.quantization_config(recipe)
    linear = set()
    if quantization is not None and quantization.load_in_4bit:
        linear = {
            module.weight
            for name, module in model.named_modules()
            if isinstance(module, torch.nn.Linear) and "lora_" not in name and not name.endswith("lm_head")
        }
    frozen = trained = 0
    for parameter in model.parameters():
        if parameter.requires_grad:
            trained += parameter.numel() * parameter.element_size()
        elif parameter in linear:
            frozen += round(parameter.numel() * (0.5 + _nf4_constants(quantization)))
        else:
            frozen += parameter.numel() * parameter.element_size()
    return frozen, trained


def _nf4_constants(quantization) -> float:
    """Bytes a weight of the scales of its block of 64: float32, or one byte and a float32 for 256 of them (Dettmers et
    al. 2023, arXiv:2305.14314, section 3)."""
    return 1 / 64 + 4 / (64 * 256) if quantization.bnb_4bit_use_double_quant else 4 / 64


class _FusedAttention(torch.autograd.Function):
    """In shapes alone, what flash attention and its kind keep: queries, keys, values and the output, but no scores. The
    meta device has no such kernel, and would count the scores too."""

    @staticmethod
    def forward(ctx, query, key, value):
        output = torch.empty_like(query)
        ctx.save_for_backward(query, key, value, output)
        return output


def _fused_attention(module, query, key, value, attention_mask, **options):
    return _FusedAttention.apply(query, key, value).transpose(1, 2).contiguous(), None


def activation_bytes(
    recipe: Recipe, config: PretrainedConfig, batch: int, tokens: int, checkpointing: bool, gpu: bool = False
) -> int:
    """What a forward pass keeps for its backward pass. With checkpointing: the input of every layer, and while one is
    computed again, all of that one."""
    one, two = (_saved(recipe, config, layers, batch, tokens, gpu) for layers in (1, 2))
    layer, outside = two - one, max(0, 2 * one - two)
    layers = config.get_text_config().num_hidden_layers
    if not checkpointing:
        return outside + layers * layer
    kept = batch * tokens * config.get_text_config().hidden_size * getattr(torch, recipe.model.dtype).itemsize
    return outside + layers * kept + layer


def _saved(recipe: Recipe, config: PretrainedConfig, layers: int, batch: int, tokens: int, gpu: bool) -> int:
    """Bytes that autograd saves in the backbone of a model of that many layers, parameters and the mask apart."""
    config = copy.deepcopy(config)
    text = config.get_text_config()
    text.num_hidden_layers = layers
    if getattr(text, "layer_types", None):
        text.layer_types = (text.layer_types * layers)[:layers]
    model = on_meta(recipe, config)
    AttentionInterface.register("fused", _fused_attention)
    model.set_attn_implementation("fused")
    # Under bf16 autocast a float32 adapter computes, and saves, in bfloat16.
    if gpu:
        model = model.to(getattr(torch, recipe.model.dtype))
    known = {each.untyped_storage()._cdata for each in model.parameters()}
    saved = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in known:
            saved[storage._cdata] = storage  # kept alive, so that no other takes its place
        return tensor

    model.train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        backbone = (model.get_base_model() if recipe.adapter is not None else model).base_model
        ids = torch.zeros(batch, tokens, dtype=torch.long, device="meta")
        last = backbone(input_ids=ids, use_cache=False).last_hidden_state
    del last
    return sum(storage.nbytes() for storage in saved.values())


def logits_bytes(recipe: Recipe, config: PretrainedConfig, tokens: int, gpu: bool) -> int:
    """A tile of logits, the float32 gradient of what goes into the head, and of the head where it is trained. Without
    Triton, that is without a GPU, a tile has seven float32 copies and a mask beside it."""
    text = config.get_text_config()
    tile = min(tokens, TILE[0]) * min(text.vocab_size, TILE[1])
    size = getattr(torch, recipe.model.dtype).itemsize + (0 if gpu else 29)
    head = text.vocab_size * text.hidden_size * 4 if recipe.adapter is None else 0
    return tile * size + tokens * text.hidden_size * 4 + head


def cache_bytes_per_token(config: PretrainedConfig, recipe: Recipe) -> int:
    """Keys and values of one token in every layer."""
    text = config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return 2 * text.num_hidden_layers * heads * width * getattr(torch, recipe.model.dtype).itemsize


def fits(parts: Parts, card: float) -> bool:
    """Whether a card of so many GiB holds them; vLLM's weights too must leave something of its share."""
    return parts.total <= card * GIB and (parts.vllm_cache > 0 or not parts.vllm_weights)
