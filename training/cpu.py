"""Makes a step on a CPU cheaper, for models that are large enough to gain: the same numbers
by other ways of computing them (docs/study/engineering.md).
"""

import ctypes
import sys

import torch
import trl.trainer.utils
from peft import PeftModel
from peft.tuners.lora import Linear
from torch.nn.functional import scaled_dot_product_attention
from transformers import (
    AttentionInterface,
    PreTrainedModel,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from machine.hardware import SMALL, has_gpu

# Of mallopt(3): how much free memory stays, and how many blocks are mapped one by one.
TRIM_THRESHOLD, MMAP_MAX = -1, -4
ALWAYS = 2**31 - 1

# What a model may ask of attention here; a window is in its mask.
PLAIN_OPTIONS = {"dropout", "scaling", "is_causal", "position_ids", "use_cache", "sliding_window"}

# From so many keys on, the weights of attention take more memory than a faster pass is worth.
MANY_KEYS = 192


def speed_up(model: PreTrainedModel):
    """Let a model compute cheaply, and one of more than `SMALL` parameters in more ways, where the
    CPU does it."""
    head = model.get_output_embeddings()
    if head is not None:
        head.register_forward_pre_hook(make_contiguous)
    if not is_large_on_cpu(model):
        return
    keep_memory()
    AttentionInterface.register("sdpa", attention)
    trl.trainer.utils._use_triton = is_compact


def make_contiguous(module: torch.nn.Module, inputs: tuple) -> tuple:
    """Copy a head's input into one piece. It is the last position of a prompt: a slice, which torch
    multiplies with frozen weights row by row, and in 16 bits on a CPU with a copy of the weights
    for every row (pytorch issue 151934). In one piece it is one product.
    """
    return tuple(value.contiguous() if torch.is_tensor(value) else value for value in inputs)


def is_large_on_cpu(model: PreTrainedModel | PeftModel) -> bool:
    return not has_gpu() and model.num_parameters() >= SMALL


def speed_up_adapter(model: PreTrainedModel | PeftModel):
    """Let an adapter on a CPU multiply in its base's 16 bits. Its weights and their gradients stay
    in float32, in which peft multiplies too: four times as slow a product, and a copy of the inputs
    of each layer."""
    if not is_large_on_cpu(model) or not isinstance(model, PeftModel):
        return
    for tuner in model.modules():
        is_exact = isinstance(tuner, Linear) and tuner.cast_input_dtype_enabled
        is_exact = is_exact and not tuner.lora_variant
        if is_exact and tuner.get_base_layer().weight.dtype == torch.bfloat16:
            tuner.cast_input_dtype_enabled = False
            tuner.forward = torch.autocast("cpu", torch.bfloat16)(tuner.forward)


def keep_memory():
    """Let the C library keep what is freed. It gives large blocks back to the system, and each new
    tensor then waits until the system has cleared its pages: a third of a step."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        if hasattr(library, "mallopt"):  # not with musl
            library.mallopt(MMAP_MAX, 0)
            library.mallopt(TRIM_THRESHOLD, ALWAYS)


def is_compact(device: torch.device) -> bool:
    """Whether trl's head reads the hidden states of the completions alone. Without Triton trl lets
    it read those of the prompts and of the padding too, for the sake of compilers that we do not
    use; their log-probabilities are then dropped."""
    return True


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options,
) -> tuple[torch.Tensor, None]:
    """transformers' attention. The queries that share a key are the rows of one product, without a
    copy of the keys and values for each: where each row asks for one token, and in bfloat16 where
    there are few keys, for which torch's own way back takes four times as long.

    Args:
        query: shape (rows, heads, tokens, size of a head).
        key, value: shape (rows, key heads, tokens so far, size of a head).
        attention_mask: shape (rows, 1, tokens, tokens so far).

    Returns:
        the output, shape (rows, tokens, heads, size of a head), and None for the weights.
    """
    rows, heads, tokens, size = query.shape
    key_heads = key.shape[1]
    is_plain = options.keys() <= PLAIN_OPTIONS and not options.get("dropout")
    is_short = query.dtype == torch.bfloat16 and tokens > 1 and key.shape[2] < MANY_KEYS
    if is_plain and is_short and is_mask_of_rows(attention_mask):
        scaling = options.get("scaling") or size**-0.5
        return attention_by_products(query, key, value, attention_mask, scaling), None
    if tokens > 1 or heads == key_heads or torch.is_grad_enabled() or not is_plain:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    shared = heads // key_heads
    if attention_mask is not None:
        attention_mask = attention_mask.expand(rows, 1, shared, -1)
    output = scaled_dot_product_attention(
        query.reshape(rows, key_heads, shared, size),
        key,
        value,
        attn_mask=attention_mask,
        scale=options.get("scaling"),
    )
    return output.reshape(rows, 1, heads, size), None


def is_mask_of_rows(mask: torch.Tensor | None) -> bool:
    """Whether a mask says for each row, and alike for all heads, which keys are attended to."""
    return mask is not None and mask.dtype == torch.bool and mask.shape[1] == 1


def attention_by_products(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    scaling: float,
) -> torch.Tensor:
    """The output of attention, shape (rows, tokens, heads, size), with its weights in float32 and
    its products in the queries' dtype, as transformers' "eager" attention has them.

    Args:
        mask: shape (rows, 1, tokens, keys), True where a key is attended to.
    """
    rows, heads, tokens, size = query.shape
    key_heads = key.shape[1]
    shared = heads // key_heads
    queries = query.reshape(rows, key_heads, shared * tokens, size) * scaling
    scores = (queries @ key.transpose(2, 3)).view(rows, key_heads, shared, tokens, -1)
    scores = scores.masked_fill(~mask[:, :, None], torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
    output = weights.view(rows, key_heads, shared * tokens, -1) @ value
    return output.view(rows, heads, tokens, -1).transpose(1, 2)
