"""Samples with the adapter merged into its base: a token then costs no more than with the base
alone. The adapter is merged for vLLM at every sync, and for transformers at every sampling.

Subtracting the merged change does not restore the base exactly, so its weights would drift (in
bfloat16 soon by more than the adapter, trl issue 6688), and the saved adapter would belong to a
base that nobody has. This module restores the base from a copy, bit for bit.

Merging in 16 bits rounds, and a young adapter changes most weights by less than half of their last
digit: rounded to the nearest, the merged model would be nearly the base. This module rounds at
random, up or down, so that a weight is on average what it was before it was rounded.
"""

import contextlib
import functools
import inspect
import math
import random
import re
from collections import Counter
from collections.abc import Callable

import torch
from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers import DynamicCache, GenerationConfig, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

# The layers of a cache that hold keys and values and nothing else.
KEY_VALUE_LAYERS = (DynamicLayer, DynamicSlidingWindowLayer)
# Arguments of generate with which a row depends neither on the others nor on where its padding is.
PLAIN = {"input_ids", "attention_mask", "past_key_values", "max_new_tokens", "do_sample"}
PLAIN |= {"temperature", "top_k", "top_p", "min_p", "repetition_penalty", "disable_compile"}
PLAIN |= {"bos_token_id", "eos_token_id", "pad_token_id", "transformers_version", "use_cache"}
PLAIN |= {"stopping_criteria"}
# So many tokens that all prompts begin with are worth a pass of their own.
WORTH_SHARING = 8
# The bits that a float32 has more than a number of these dtypes.
MORE_BITS = {torch.bfloat16: 16, torch.float16: 13}


def keep_base_exact(model: PeftModel):
    """Make `model.unmerge_adapter()` restore the base weights as they were before
    `merge_adapter()`, bit for bit.

    The weights are copied to the CPU's memory, which takes as many bytes as the adapted layers. A
    model on a GPU is copied once; one on the CPU, where training needs that memory, at each merge.
    """
    merge = model.merge_adapter
    unmerge = model.unmerge_adapter

    def merge_adapter(*args, **kwargs):
        if not hasattr(model, "exact_base"):
            model.exact_base = [_copy(getattr(layer, name)) for layer, name in _parameters(model)]
        merge(*args, **kwargs)

    def unmerge_adapter(*args, **kwargs):
        unmerge(*args, **kwargs)
        parameters = _parameters(model)
        for (layer, name), (value, attributes) in zip(parameters, model.exact_base, strict=True):
            if attributes:
                value.__dict__.update(attributes)
                layer.weight = value
                layer.quant_state = value.quant_state
            else:
                # A GPU works in order: the next computation waits for the copy.
                getattr(layer, name).data.copy_(value, non_blocking=True)
        if all(getattr(layer, name).device.type == "cpu" for layer, name in parameters):
            del model.exact_base

    model.merge_adapter = merge_adapter
    model.unmerge_adapter = unmerge_adapter


def without_adapter(model: PreTrainedModel | PeftModel) -> PreTrainedModel:
    """The model itself, within its adapter where it has one."""
    if isinstance(model, PeftModel):
        return model.get_base_model()
    return model


def adapted_layers(model: PeftModel) -> list[torch.nn.Module]:
    """The base's layers that carry the adapter."""
    # A layer with several adapted parameters has several tuners.
    return list(dict.fromkeys(tuner.get_base_layer() for tuner in tuners_of(model)))


def _parameters(model: PeftModel) -> list[tuple[torch.nn.Module, str]]:
    """(layer, name) of every parameter that a merge may touch: weights, and with `lora_bias`
    biases."""
    parameters = []
    for layer in adapted_layers(model):
        parameters += [(layer, name) for name, _ in layer.named_parameters(recurse=False)]
    return parameters


def _copy(weight: torch.nn.Parameter) -> tuple[torch.Tensor, dict]:
    """(a copy on the CPU, {}); for a quantised weight, which merging replaces by a new object, the
    weight and its attributes."""
    if hasattr(weight, "quant_state"):
        return weight, dict(weight.__dict__)
    copy = weight.detach().to("cpu", copy=True)
    if weight.is_cuda:
        # Where the system has no more memory to pin, the way back is slower.
        with contextlib.suppress(RuntimeError):
            copy = copy.pin_memory()
    return copy, {}


def mergeable(model: PeftModel) -> bool:
    """Whether the merged model computes what the adapted model does. Merging rounds a quantised
    weight again, changes a weight that two layers share (a head tied to its embedding) in both, and
    cannot add the adapter's bias to a layer without a bias.
    """
    if getattr(model.get_base_model(), "is_quantized", False):
        return False
    layers = adapted_layers(model)
    if model.active_peft_config.lora_bias:
        if any(getattr(layer, "bias", None) is None for layer in layers):
            return False
    return not shared_layers(model)


def shared_layers(model: PeftModel) -> list[torch.nn.Module]:
    """The adapted layers with a weight that another layer has too."""
    uses = Counter()
    for module in model.modules():
        uses.update(id(weight) for weight in module.parameters(recurse=False))
    layers = []
    for layer in adapted_layers(model):
        if any(uses[id(weight)] > 1 for weight in layer.parameters(recurse=False)):
            layers.append(layer)
    return layers


def tuners_of(model: PeftModel) -> list[BaseTunerLayer]:
    return [module for module in model.modules() if isinstance(module, BaseTunerLayer)]


def merge_at_random(model: PeftModel, seed: Callable[[], str]):
    """Make every merge of the adapter into 16 bits round at random.

    Args:
        seed: returns the text that the random numbers depend on, at each merge: the same text, the
            same weights.
    """
    for number, tuner in enumerate(tuners_of(model)):
        tuner.merge = functools.partial(_merge, tuner, tuner.merge, number, seed)


@torch.no_grad()
def _merge(tuner: BaseTunerLayer, merge: Callable, number: int, seed: Callable, *args, **kwargs):
    """Merge one layer's adapter in float32, then round its weights at random into their memory."""
    rounded = []
    for parameter in tuner.get_base_layer().parameters(recurse=False):
        # A weight that FSDP has sharded is a tensor of another type.
        if parameter.dtype in MORE_BITS and type(parameter.data) is torch.Tensor:
            rounded.append((parameter, parameter.data))
            parameter.data = parameter.data.float()
    try:
        merge(*args, **kwargs)
    finally:
        number_of_layer = random.Random(f"{seed()} {number}").getrandbits(63)
        for parameter, weight in rounded:
            generator = torch.Generator(weight.device).manual_seed(number_of_layer)
            weight.copy_(round_at_random(parameter.data, weight.dtype, generator))
            parameter.data = weight


def round_at_random(
    exact: torch.Tensor, dtype: torch.dtype, generator: torch.Generator
) -> torch.Tensor:
    """Round float32 numbers to a dtype, up or down, in proportion to how near each of the two is:
    a number that the dtype has stays as it is, and the mean of many roundings is exact."""
    size = 2 ** MORE_BITS[dtype]
    options = {"generator": generator, "device": exact.device, "dtype": torch.int32}
    noise = torch.randint(size, exact.shape, **options)
    return ((exact.view(torch.int32) + noise) & -size).view(torch.float32).to(dtype)


def separate_shared(model: PeftModel):
    """Give every adapted layer whose weight is another's too, as that of a head tied to its
    embedding, a weight of its own, so that merging changes this layer alone."""
    for layer in shared_layers(model):
        for name, weight in layer.named_parameters(recurse=False):
            setattr(layer, name, torch.nn.Parameter(weight.detach().clone(), requires_grad=False))
        model.get_base_model().config.get_text_config().tie_word_embeddings = False
        model.get_base_model().config.tie_word_embeddings = False


def share_prompts(model: PreTrainedModel | PeftModel, with_beginnings: bool = False):
    """Make `model.generate` compute a prompt once that neighbouring rows of a batch share, as the
    completions of a group do: each row starts with a copy of its keys and values. A model that
    caches anything else stays as it is.

    Args:
        with_beginnings: whether what different prompts begin with is computed once, too.
    """
    base = without_adapter(model)
    is_plain = has_plain_cache(base, KEY_VALUE_LAYERS)
    if not is_plain or not base._supports_default_dynamic_cache():
        return
    if "position_ids" not in inspect.signature(base.base_model.forward).parameters:
        return
    generate = model.generate

    def generate_sharing(*args, **kwargs):
        return generate(*args, **(kwargs | _prompt_cache(base, with_beginnings, **kwargs)))

    model.generate = generate_sharing


def empty_cache(model: PreTrainedModel) -> DynamicCache:
    return DynamicCache(config=model.config.get_text_config(decoder=True))


def has_plain_cache(model: PreTrainedModel | PeftModel, kinds=(DynamicLayer,)) -> bool:
    layers = empty_cache(without_adapter(model)).layers
    return bool(layers) and all(type(layer) in kinds for layer in layers)


def generation_settings(
    model: PreTrainedModel | PeftModel, config: GenerationConfig | None, options: dict
) -> dict:
    """What a call of `generate` asks for: by the model's settings, by a config, by arguments."""
    settings = model.generation_config.to_diff_dict()
    if config is not None:
        settings |= config.to_diff_dict()
    # What a config says of itself begins with "_"; what is False is not asked for.
    names = [key for key, value in settings.items() if key[0] != "_" and value is not False]
    return {name: settings[name] for name in names} | options


@torch.no_grad()
def _prompt_cache(
    base,
    with_beginnings: bool,
    input_ids: torch.Tensor,
    attention_mask: torch.Tensor,
    generation_config=None,
    **options,
) -> dict:
    """The arguments of `generate` that change: the prompts' keys and values, and the tokens in
    their order; none if no rows share any."""
    settings = generation_settings(base, generation_config, options)
    if not settings.keys() <= PLAIN or input_ids.shape[1] == 1:
        return {}
    rows = torch.cat([input_ids, attention_mask], 1)
    _, counts = torch.unique_consecutive(rows, dim=0, return_counts=True)
    repeats = math.gcd(*counts.tolist())
    size = 0
    if with_beginnings and len(counts) > 1:
        size = common_beginning(base, input_ids[::repeats], attention_mask[::repeats])
        size = min(size, input_ids.shape[1] - 2)  # each prompt has something to read by itself
    if repeats == 1 and size == 0:
        return {}
    order = beginning_first(attention_mask, size)
    ids = input_ids.gather(1, order)
    mask = attention_mask.gather(1, order)
    cache = empty_cache(base)
    # `generate` computes the last token, because it samples from what follows it.
    read_prompts(base.base_model, ids[::repeats, :-1], mask[::repeats, :-1], size, cache)
    cache.batch_repeat_interleave(repeats)
    return {"past_key_values": cache, "input_ids": ids, "attention_mask": mask}


def common_beginning(base: PreTrainedModel, ids: torch.Tensor, mask: torch.Tensor) -> int:
    """How many tokens all prompts begin with; 0 if it does not pay, or the model cannot have
    padding behind them.

    Args:
        ids, mask: shape (prompts, width), padded on the left.
    """
    if not has_relative_positions(base) or not has_plain_cache(base):
        return 0
    first = mask.argmax(1, keepdim=True)
    columns = (first + torch.arange(mask.shape[1])).clamp(max=mask.shape[1] - 1)
    tokens = ids.gather(1, columns)
    is_common = (tokens == tokens[:1]).all(0)
    shortest = int(mask.sum(1).min())
    size = int(is_common[: shortest - 1].long().cumprod(0).sum())
    return size if size >= WORTH_SHARING else 0


def has_relative_positions(model: PreTrainedModel) -> bool:
    """Whether a model computes the same wherever in a row a text begins: by rotations whose
    frequencies do not depend on the row's length."""
    rotations = getattr(model.config.get_text_config(decoder=True), "rope_parameters", None)
    return bool(rotations) and not re.search("dynamic|longrope", str(rotations))


def beginning_first(mask: torch.Tensor, size: int) -> torch.Tensor:
    """The order of columns, shape (prompts, width), in which the first `size` tokens of each prompt
    stand before its padding.

    Args:
        mask: shape (prompts, width), padded on the left.
    """
    columns = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    padding = (mask == 0).sum(1, keepdim=True)
    order = torch.where(columns < size + padding, columns - size, columns)
    return torch.where(columns < size, columns + padding, order)


def positions(mask: torch.Tensor) -> torch.Tensor:
    """Of each token among those of its row that are no padding."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


def read_prompts(
    forward: Callable, ids: torch.Tensor, mask: torch.Tensor, size: int, cache: DynamicCache
) -> torch.Tensor:
    """Fill the cache with the keys and values of prompts, and return their hidden states, shape
    (prompts, width, size of a state).

    Args:
        forward: the model without its head.
        size: of their common beginning, which is read once.
    """
    hidden = []
    places = positions(mask)
    options = {"past_key_values": cache, "use_cache": True}
    if size:
        beginning = forward(
            input_ids=ids[:1, :size],
            attention_mask=mask[:1, :size],
            position_ids=places[:1, :size],
            **options,
        )
        cache.batch_repeat_interleave(len(ids))
        hidden.append(beginning.last_hidden_state.expand(len(ids), -1, -1))
    last = forward(
        input_ids=ids[:, size:],
        attention_mask=mask,
        position_ids=places[:, size:],
        **options,
    )
    return torch.cat([*hidden, last.last_hidden_state], 1)


def sample_merged(model: PeftModel):
    """Make `model.generate` run with the active adapter merged, and restore the base weights
    afterwards, bit for bit."""
    keep_base_exact(model)
    generate = model.generate

    def generate_merged(*args, **kwargs):
        model.merge_adapter()
        try:
            return generate(*args, **kwargs)
        finally:
            model.unmerge_adapter()

    model.generate = generate_merged
