"""Makes a step on a CPU cheaper, for models that are large enough to gain: the same numbers, or the
same distribution, by other ways of computing them (docs/results.md#what-does-a-step-on-a-cpu-cost).
"""

import copy
import ctypes
import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import trl.trainer.utils
from peft import PeftModel
from peft.tuners.lora import Linear
from torch.nn.functional import pad, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from transformers import (
    AttentionInterface,
    GenerationConfig,
    PreTrainedModel,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from trl.trainer import grpo_trainer

from machine.hardware import SMALL, has_gpu
from training.sampling import (
    PLAIN,
    beginning_first,
    common_beginning,
    empty_cache,
    generation_settings,
    has_plain_cache,
    has_relative_positions,
    positions,
    read_prompts,
    share_prompts,
    without_adapter,
)

# Of mallopt(3): how much free memory stays, and how many blocks are mapped one by one.
TRIM_THRESHOLD, MMAP_MAX = -1, -4
ALWAYS = 2**31 - 1

# What a model may ask of attention here; a window is in its mask.
PLAIN_OPTIONS = {"dropout", "scaling", "is_causal", "position_ids", "use_cache", "sliding_window"}

# From so many keys on, the weights of attention take more memory than a faster pass is worth.
MANY_KEYS = 192


def speed_up(model: PreTrainedModel):
    """Let a model of more than `SMALL` parameters compute and sample cheaply, where the CPU does
    it."""
    if not is_large_on_cpu(model):
        return
    keep_memory()
    AttentionInterface.register("sdpa", attention)
    trl.trainer.utils._use_triton = is_compact
    generate = model.generate

    @functools.wraps(generate)
    def generate_cheaply(*args, **kwargs):
        with DrawOnce():
            return generate(*args, **kwargs)

    model.generate = generate_cheaply


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


class HalfEnded(StoppingCriteria):
    """Stops a generation when half of its rows or more have ended.

    `going_on`: whether each row has not ended, shape (rows,).
    """

    def __init__(self, rows: int, end_tokens: int | list[int], criteria: StoppingCriteriaList):
        self.going_on = torch.ones(rows, dtype=torch.bool)
        self.end_tokens = torch.tensor(end_tokens)
        self.criteria = criteria

    def __call__(self, input_ids: torch.Tensor, scores, **kwargs) -> torch.Tensor:
        self.going_on &= ~torch.isin(input_ids[:, -1], self.end_tokens)
        self.going_on &= ~self.criteria(input_ids, scores, **kwargs)
        is_half = 2 * self.going_on.sum() <= len(self.going_on)
        return ~self.going_on | is_half


def answer_cheaply(model: PreTrainedModel | PeftModel):
    """Make `model.generate` compute neither rows that have ended nor twice what prompts share. Not
    for a model in shards, whose processes have to compute equally often."""
    if is_large_on_cpu(model):
        model.generate = generate_shrinking(model)
        share_prompts(model, with_beginnings=True)


def generate_shrinking(model: PreTrainedModel | PeftModel) -> Callable:
    """`model.generate`, but each time that half of the rows have ended, the others go on without
    them. transformers multiplies padding for every row until the longest has ended: half of the
    time where one answer of 64 is twice as long as the others.
    """
    generate = model.generate

    @functools.wraps(generate)
    def generate_rows(*args, generation_config: GenerationConfig | None = None, **options):
        settings = generation_settings(model, generation_config, options)
        can_shrink = not args and settings.keys() <= PLAIN and has_plain_cache(model)
        values = [settings.get(name) for name in ("max_new_tokens", "eos_token_id", "pad_token_id")]
        if not can_shrink or None in values:
            return generate(*args, generation_config=generation_config, **options)
        return generate_in_rounds(generate, *values, generation_config, **options)

    return generate_rows


def generate_in_rounds(
    generate: Callable,
    limit: int,
    end_tokens: int | list[int],
    pad_token: int,
    config: GenerationConfig | None,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    stopping_criteria: StoppingCriteriaList | None = None,
    **options,
) -> torch.Tensor:
    """What `generate` returns, shape (rows, tokens). A round ends when half of its rows have, and
    the next goes on with the others.

    Args:
        limit: how many tokens a row may get.
        config: what `generate` takes its settings from, if not from `options`.
    """
    config = copy.deepcopy(config)
    criteria = stopping_criteria or StoppingCriteriaList()
    width = input_ids.shape[1] + limit
    tokens = torch.full((len(input_ids), width), pad_token)
    tokens[:, : input_ids.shape[1]] = input_ids
    rows = torch.arange(len(input_ids))
    length = input_ids.shape[1]
    while True:
        changes = {"max_new_tokens": width - length, "return_dict_in_generate": True}
        if config is None:
            options |= changes
        else:
            config.update(**changes)
        half = HalfEnded(len(rows), end_tokens, criteria)
        output = generate(
            input_ids=tokens[rows, :length],
            attention_mask=attention_mask,
            generation_config=config,
            stopping_criteria=StoppingCriteriaList([half]),
            **options,
        )
        drawn = output.sequences.shape[1] - length
        length += drawn
        tokens[rows, :length] = output.sequences
        if length == width or not half.going_on.any():
            return tokens[:, :length]
        rows = rows[half.going_on]
        attention_mask = pad(attention_mask, (0, drawn), value=1)[half.going_on]
        options["past_key_values"] = output.past_key_values
        options["past_key_values"].batch_select_indices(half.going_on.nonzero().squeeze(1))


@contextmanager
def sharing_prompts(model: PreTrainedModel | PeftModel, columns: int) -> Iterator[None]:
    """Inside this block the model's passes compute the first so many columns once for all rows that
    have the same tokens in them, as the completions of a group have their prompt. Their gradients
    flow back through the keys and values that the rows share."""
    base = without_adapter(model)
    is_worth_it = columns > 0 and is_large_on_cpu(base) and has_relative_positions(base)
    is_worth_it = is_worth_it and not drops_out(model)  # in each row by itself
    # A pass that computes its layers again on its way back keeps no keys and values.
    if not is_worth_it or base.is_gradient_checkpointing or not has_plain_cache(base):
        yield
        return
    backbone = base.base_model
    forward = backbone.forward
    backbone.forward = functools.partial(forward_sharing, base, forward, columns)
    try:
        yield
    finally:
        backbone.forward = forward


def drops_out(model: PreTrainedModel | PeftModel) -> bool:
    dropouts = [module for module in model.modules() if isinstance(module, torch.nn.Dropout)]
    return any(dropout.training and dropout.p for dropout in dropouts)


@contextmanager
def keeping_order(model: PreTrainedModel | PeftModel) -> Iterator[None]:
    """Inside this block trl does not shuffle the completions that it has sampled."""
    shuffle = grpo_trainer.shuffle_sequence_dict
    if is_large_on_cpu(model):
        grpo_trainer.shuffle_sequence_dict = lambda batch: batch
    try:
        yield
    finally:
        grpo_trainer.shuffle_sequence_dict = shuffle


def forward_sharing(
    model: PreTrainedModel,
    forward: Callable,
    columns: int,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    **options,
):
    """What `forward`, the model's backbone, returns for rows of tokens, shape (rows, width)."""
    prompts = torch.cat([input_ids[:, :columns], attention_mask[:, :columns]], 1)
    prompts, prompt_of = prompts.unique(dim=0, return_inverse=True)
    passed = {key for key, value in options.items() if value is not None}
    if len(prompts) == len(input_ids) or passed - {"use_cache", "return_dict"}:
        return forward(input_ids=input_ids, attention_mask=attention_mask, **options)
    cache = empty_cache(model)
    ids, mask = prompts[:, :columns], prompts[:, columns:]
    size = common_beginning(model, ids, mask)
    order = beginning_first(mask, size)
    ids, mask = ids.gather(1, order), mask.gather(1, order)
    of_prompts = read_prompts(forward, ids, mask, size, cache)
    of_prompts = of_prompts[torch.arange(len(ids))[:, None], order.argsort(1)]
    cache.batch_select_indices(prompt_of)
    mask = torch.cat([mask[prompt_of], attention_mask[:, columns:]], 1)
    output = forward(
        input_ids=input_ids[:, columns:],
        attention_mask=mask,
        position_ids=positions(mask)[:, columns:],
        past_key_values=cache,
        use_cache=True,
    )
    output.last_hidden_state = torch.cat([of_prompts[prompt_of], output.last_hidden_state], 1)
    return output


class DrawOnce(TorchFunctionMode):
    """Inside this block `torch.multinomial` draws one random number for each row, where torch draws
    one for each token of the vocabulary: a fifth to a half of the time that sampling takes."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.multinomial and kwargs == {"num_samples": 1}:
            return draw(*args)
        return function(*args, **(kwargs or {}))


def draw(probabilities: torch.Tensor) -> torch.Tensor:
    """An index of each row, drawn by its probabilities, shape (rows, 1): where their running sum
    passes a random share of the whole."""
    sums = probabilities.cumsum(-1)
    total = sums[:, -1:]
    if not total.isfinite().all():
        return torch.multinomial(probabilities, 1)  # which says what is wrong with them
    threshold = torch.rand_like(total) * total
    # Rounded up to the whole, it would be passed nowhere.
    threshold = threshold.minimum(total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(sums, threshold, right=True)
