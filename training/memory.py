"""Estimates the memory that a recipe needs on each GPU, part by part, from the model's config: no
weight is loaded.

Parameters are counted on the model itself, built on torch's meta device, where tensors have shapes
but no storage. The activations are what autograd saves in a forward pass there, layer by layer.
docs/gpu.md has the formulas, and the estimates beside measurements.
"""

import copy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import torch
from peft import get_peft_model
from transformers import (
    AttentionInterface,
    AutoConfig,
    AutoModelForCausalLM,
    PretrainedConfig,
    PreTrainedModel,
)

from console.faults import Fault, RecipeError, said_by_library
from console.terminal import make_command
from machine.launch import shares_weights
from schema.recipe import Recipe
from schema.settings import adapter_config, quantization_config
from training.merging import adapted_layers
from training.model import base_model, checked_files, not_loaded, require_modules
from training.problem_sets import rows_that_fit

GIB = 2**30
# What vLLM's share of the GPU holds beside weights and cache: its largest forward pass, its
# sampler, its CUDA graphs. An estimate; it is not free while vLLM sleeps.
VLLM_WORK = round(1.2 * GIB)
# The assumed length of a prompt where the data has not been read.
PROMPT_TOKENS = 256
# trl's fused LM head never holds all logits, only a tile of this many tokens by this many of the
# vocabulary (trl/kernels/chunked_logprob.py, trl/trainer/utils.py).
TILE = (4096, 32768)


class Setting(NamedTuple):
    """The numbers of GPUs that share the gradients and the optimizer (ZeRO-2), and the weights too
    (ZeRO-3, FSDP). `copies_gradients`: DDP keeps all of them a second time, in the buckets that it
    sends (`gradient_as_bucket_view` is off, and transformers cannot set it)."""

    optimizer_shards: int = 1
    weight_shards: int = 1
    copies_gradients: bool = False


def shards(launched: dict) -> Setting:
    """The shards into which the processes of an accelerate config split the model and its
    training."""
    processes = launched["num_processes"]
    if shares_weights(launched):
        return Setting(optimizer_shards=processes, weight_shards=processes)
    if launched.get("deepspeed_config"):
        zero_stage = launched["deepspeed_config"].get("zero_stage", 0)
        return Setting(optimizer_shards=processes) if zero_stage == 2 else Setting()
    return Setting(copies_gradients=processes > 1)


def this_gpu() -> float | None:
    """The memory of this machine's GPU in GiB, or None without one."""
    if not torch.cuda.is_available():
        return None
    return torch.cuda.get_device_properties().total_memory / GIB


class NotEstimated(RecipeError):
    """The estimate does not count what this model has."""


@dataclass(frozen=True)
class Parts:
    """Bytes of every part on one GPU, at the peak of a GRPO step.

    `in_turns`: completions are sampled before the step trains on them, so the memory that only
    sampling needs and the memory that only training needs are not needed at the same time; False
    where vLLM stays awake and holds its memory.
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
    vllm_work: int = 0
    vllm_cache: int = 0
    in_turns: bool = True

    @property
    def always(self) -> int:
        model = self.weights + self.trained_weights + self.reference
        return model + self.gradients + self.optimizer + self.vllm_work

    @property
    def total(self) -> int:
        training = self.activations + self.logits
        sampling = self.kv_cache + self.copy_of_the_base + self.vllm_weights + self.vllm_cache
        if self.in_turns:
            return self.always + max(training, sampling)
        return self.always + training + sampling


def estimate(
    recipe: Recipe,
    prompt_tokens: int = PROMPT_TOKENS,
    setting: Setting = Setting(),  # noqa: B008
    gpu: float | None = None,
) -> Parts:
    """The memory that a GRPO step of the recipe needs on one GPU.

    Args:
        prompt_tokens: the length of the longest prompt.
        gpu: the GPU's memory in GiB, whether or not the GPU is in this machine; vLLM takes its
            share of it. Without it, vLLM's cache is what one generation batch fills.

    Raises:
        RecipeError: the model's config cannot be read. NotEstimated: it is a mixture of experts.
    """
    on_gpu = gpu is not None or torch.cuda.is_available()
    config = model_config(recipe)
    model = on_meta(recipe, config)
    _require_dense(model, recipe)
    frozen, trained = parameter_bytes(model, recipe)
    # Not trl's config, which one process may refuse and the launcher's processes may accept.
    args = SimpleNamespace(**recipe.settings["grpo"])
    # The frozen reference policy: trl keeps a copy of the warm start's adapter; without a warm
    # start it switches the adapter off; a fully trained model has a second model beside it.
    reference = 0
    if args.beta and (recipe.adapter is None or recipe.sft is not None):
        reference = trained
    batch = args.per_device_train_batch_size
    tokens = prompt_tokens + args.max_completion_length
    sampled_tokens = tokens
    if recipe.tools:  # trl gives every turn after a tool's the full length again, and then cuts it
        sampled_tokens += args.max_completion_length
    sequences = batch * recipe.settings.generation.steps
    kv_cache = sequences * sampled_tokens * cache_bytes_per_token(config, recipe)
    shared = max(setting.optimizer_shards, setting.weight_shards)
    return Parts(
        weights=frozen // setting.weight_shards,
        trained_weights=trained // setting.weight_shards,
        reference=reference // setting.weight_shards,
        gradients=trained // shared + (trained if setting.copies_gradients else 0),
        optimizer=2 * trained // shared,  # AdamW's two moments, in their parameters' dtype
        activations=activation_bytes(
            recipe, config, batch, tokens, args.gradient_checkpointing, on_gpu
        ),
        logits=logits_bytes(recipe, config, batch * tokens, on_gpu),
        **_sampling(recipe, model, args, kv_cache, gpu, on_gpu),
    )


def _require_dense(model: torch.nn.Module, recipe: Recipe):
    """Raise NotEstimated for a mixture of experts, and name the command that tries it."""
    if any(".experts." in name for name, _ in model.named_parameters()):
        message = "the memory of a mixture of experts is not estimated; it is tried by "
        message += make_command("probe-memory", recipe)
        raise NotEstimated([Fault(recipe.place("model"), message, "hint")])


def _sampling(
    recipe: Recipe, model: PreTrainedModel, args, kv_cache: int, gpu: float | None, on_gpu: bool
) -> dict:
    """The parts that only sampling holds: transformers' KV cache, or vLLM's copy of the weights and
    the cache that fills its share of the GPU."""
    if not args.use_vllm:
        copied = 0
        if recipe.adapter is not None and recipe.quantization is None and not on_gpu:
            for layer in adapted_layers(model):
                copied += sum(weight.nbytes for weight in layer.parameters(recurse=False))
        return {"kv_cache": kv_cache, "copy_of_the_base": copied}
    if args.vllm_mode != "colocate":
        return {}
    # In 16 bits, whatever the weights are trained in.
    numbers = 0
    for name, weight in model.named_parameters():
        if "lora_" not in name:
            numbers += weight.numel()
    weights = 2 * numbers // args.vllm_tensor_parallel_size
    work = 0
    if gpu:
        work = VLLM_WORK
        share = round(args.vllm_gpu_memory_utilization * gpu * GIB)
        kv_cache = max(0, share - weights - work)
    return {
        "vllm_weights": weights,
        "vllm_work": work,
        "vllm_cache": kv_cache,
        "in_turns": args.vllm_enable_sleep_mode,
    }


def model_config(recipe: Recipe) -> PretrainedConfig:
    try:
        with checked_files(base_model(recipe), recipe.model.revision, weights=False) as folder:
            return AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:
        raise not_loaded(recipe, base_model(recipe), error) from error


def validation_that_fit(recipe: Recipe, tokenizer, rows: list[dict]) -> list[dict]:
    """The validation rows that training would take, before they are shared: none may be shared out
    twice."""
    return rows_that_fit(recipe, model_config(recipe), tokenizer, rows, "validation problems")


def on_meta(recipe: Recipe, config: PretrainedConfig) -> PreTrainedModel:
    """The recipe's model, with its adapter, without storage."""
    dtype = getattr(torch, recipe.model.dtype)
    with torch.device("meta"):
        with said_by_library(recipe.place("model")):
            model = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=False)
        if recipe.adapter is not None:
            require_modules(recipe, model)
            with said_by_library(recipe.place("adapter", "target_modules")):
                model = get_peft_model(model, adapter_config(recipe))
    return model


def parameter_bytes(model: PreTrainedModel, recipe: Recipe) -> tuple[int, int]:
    """(bytes of frozen weights, bytes of trained weights). With NF4 the weights of linear layers
    other than the head take half a byte each, and their quantisation constants."""
    quantization = quantization_config(recipe)
    linear = set()
    if quantization is not None and quantization.load_in_4bit:
        for name, module in model.named_modules():
            is_base = "lora_" not in name and not name.endswith("lm_head")
            if is_base and isinstance(module, torch.nn.Linear):
                linear.add(module.weight)
    # Bytes per weight for the scales, one for a block of 64 weights: a float32, or with double
    # quantisation one byte and a float32 for 256 scales (Dettmers et al. 2023, arXiv:2305.14314,
    # section 3).
    scales = 4 / 64
    if linear and quantization.bnb_4bit_use_double_quant:
        scales = 1 / 64 + 4 / (64 * 256)
    frozen = 0
    trained = 0
    for parameter in model.parameters():
        if parameter.requires_grad:
            trained += parameter.nbytes
        elif parameter in linear:
            frozen += round(parameter.numel() * (0.5 + scales))
        else:
            frozen += parameter.nbytes
    return frozen, trained


class _FusedAttention(torch.autograd.Function):
    """Saves what flash attention and similar kernels save, as shapes alone: queries, keys, values
    and the output, but no scores. The meta device has no such kernel, so the scores would be
    counted too."""

    @staticmethod
    def forward(ctx, query, key, value):
        output = torch.empty_like(query)
        ctx.save_for_backward(query, key, value, output)
        return output


def _fused_attention(module, query, key, value, attention_mask, **options):
    return _FusedAttention.apply(query, key, value).transpose(1, 2).contiguous(), None


def activation_bytes(
    recipe: Recipe,
    config: PretrainedConfig,
    batch: int,
    tokens: int,
    checkpointing: bool,
    on_gpu: bool = False,
) -> int:
    """Bytes that a forward pass saves for its backward pass. With checkpointing: the input of every
    layer and, while one layer is recomputed, everything of that layer."""
    with_one = _saved_bytes(recipe, config, 1, batch, tokens, on_gpu)
    with_two = _saved_bytes(recipe, config, 2, batch, tokens, on_gpu)
    layer = with_two - with_one
    outside = max(0, with_one - layer)
    text = config.get_text_config()
    if not checkpointing:
        return outside + text.num_hidden_layers * layer
    layer_input = batch * tokens * text.hidden_size * getattr(torch, recipe.model.dtype).itemsize
    return outside + text.num_hidden_layers * layer_input + layer


def _saved_bytes(
    recipe: Recipe, config: PretrainedConfig, layers: int, batch: int, tokens: int, on_gpu: bool
) -> int:
    """Bytes that autograd saves in the backbone of the model, cut to that many layers, without
    parameters and the mask."""
    config = copy.deepcopy(config)
    text = config.get_text_config()
    text.num_hidden_layers = layers
    if getattr(text, "layer_types", None):
        text.layer_types = (text.layer_types * layers)[:layers]
    model = on_meta(recipe, config)
    AttentionInterface.register("fused", _fused_attention)
    model.set_attn_implementation("fused")
    # Under bf16 autocast a float32 adapter computes, and saves, in bfloat16.
    if on_gpu:
        model = model.to(getattr(torch, recipe.model.dtype))
    parameters = {weight.untyped_storage()._cdata for weight in model.parameters()}
    storages = {}

    def record(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in parameters:
            storages[storage._cdata] = storage  # stays alive, so that no new one takes its address
        return tensor

    model.train()
    with torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor):
        backbone = model.base_model
        if recipe.adapter is not None:
            backbone = model.get_base_model().base_model
        ids = torch.zeros(batch, tokens, dtype=torch.long, device="meta")
        last = backbone(input_ids=ids, use_cache=False).last_hidden_state
    del last
    return sum(storage.nbytes() for storage in storages.values())


def logits_bytes(recipe: Recipe, config: PretrainedConfig, tokens: int, on_gpu: bool) -> int:
    """Bytes of a tile of logits, of the float32 gradient of the head's input, and of the head's
    gradient where it is trained. Without Triton, that is without a GPU, seven float32 copies of the
    tile and a mask come on top.
    """
    text = config.get_text_config()
    tile = min(tokens, TILE[0]) * min(text.vocab_size, TILE[1])
    bytes_per_logit = getattr(torch, recipe.model.dtype).itemsize
    if not on_gpu:
        bytes_per_logit += 7 * 4 + 1
    head = 0
    if recipe.adapter is None:
        head = text.vocab_size * text.hidden_size * 4
    return tile * bytes_per_logit + tokens * text.hidden_size * 4 + head


def cache_bytes_per_token(config: PretrainedConfig, recipe: Recipe) -> int:
    """Bytes of the KV cache per token: its keys and values in every layer."""
    text = config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return 2 * text.num_hidden_layers * heads * width * getattr(torch, recipe.model.dtype).itemsize


def vllm_cache_bytes(recipe: Recipe, tokens: int | None = None) -> float:
    """Bytes of vLLM's cache on one GPU, in 16 bits, for so many tokens; or for the longest text
    that it serves, without which it does not start."""
    config = model_config(recipe)
    args = SimpleNamespace(**recipe.settings["grpo"])
    window = config.get_text_config().max_position_embeddings
    per_token = cache_bytes_per_token(config, recipe) / args.vllm_tensor_parallel_size
    per_token *= min(1, 2 / getattr(torch, recipe.model.dtype).itemsize)
    return (tokens or args.vllm_max_model_length or window) * per_token


def fits(recipe: Recipe, parts: Parts, gpu: float) -> bool:
    """Whether a GPU of `gpu` GiB holds all parts, and vLLM's share of it what it must."""
    has_cache = not parts.vllm_weights or parts.vllm_cache >= vllm_cache_bytes(recipe)
    return parts.total <= gpu * GIB and has_cache
