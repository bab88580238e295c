"""Samples with the adapter merged into its base: a token then costs no more than the base's. The
adapter is merged for vLLM at every sync, and for transformers at every sampling, and taken out
again leaving every bit of the base as it was.

Subtracting what was added does not restore the base exactly, so its weights would drift (in
bfloat16 soon by more than the adapter, trl issue 6688), and the saved adapter would belong to a
base that nobody has. Here the base is restored from a copy.
"""

import contextlib
import inspect
import math
from collections import Counter

import torch
from peft import PeftModel
from peft.tuners.lora import ParamWrapper
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

COPIED = (
    DynamicLayer,
    DynamicSlidingWindowLayer,
)  # of a cache, those that hold keys and values and nothing else
# the share of the adapter's change that must survive the rounding of the merged weights
SURVIVES = 0.95


def keep_base_exact(model: PeftModel):
    """Make `model.unmerge_adapter()` restore, to the bit, the base weights that `merge_adapter()`
    found.

    They are copied to the CPU's memory, which takes as many bytes as the adapted layers. For a
    model on a GPU the copy is made once and kept; for one on the CPU, where training needs that
    memory, it is made anew at each merge.
    """
    merge, unmerge = model.merge_adapter, model.unmerge_adapter

    def merge_adapter(*args, **kwargs):
        if not hasattr(model, "exact_base"):
            model.exact_base = [_copy(getattr(layer, name)) for layer, name in _parameters(model)]
        merge(*args, **kwargs)

    def unmerge_adapter(*args, **kwargs):
        unmerge(*args, **kwargs)
        held = _parameters(model)
        for (layer, name), (value, attributes) in zip(held, model.exact_base, strict=True):
            if attributes:
                value.__dict__.update(attributes)
                layer.weight, layer.quant_state = value, value.quant_state
            else:
                # A GPU works in order: what is computed next finds it there.
                getattr(layer, name).data.copy_(value, non_blocking=True)
        if all(getattr(layer, name).device.type == "cpu" for layer, name in held):
            del model.exact_base

    model.merge_adapter, model.unmerge_adapter = merge_adapter, unmerge_adapter


def adapted_layers(model: PeftModel) -> list[torch.nn.Module]:
    """The base's layers that carry the adapter."""
    layers = [each.get_base_layer() for each in model.modules() if isinstance(each, BaseTunerLayer)]
    return list(dict.fromkeys(layers))  # a layer with several adapted parameters is found for each


def _parameters(model: PeftModel) -> list[tuple[torch.nn.Module, str]]:
    """(layer, name) of every parameter that a merge may touch: weights, and with `lora_bias`
    biases."""
    return [
        (layer, name)
        for layer in adapted_layers(model)
        for name, _ in layer.named_parameters(recurse=False)
    ]


def _copy(weight: torch.nn.Parameter) -> tuple[torch.Tensor, dict]:
    """(a copy on the CPU, {}); for a quantised weight, which merging replaces by another, itself
    and its attributes."""
    if hasattr(weight, "quant_state"):
        return weight, dict(weight.__dict__)
    copy = weight.detach().to("cpu", copy=True)
    if weight.is_cuda:
        with contextlib.suppress(
            RuntimeError
        ):  # the system has no more memory to pin: the way back is slower then
            copy = copy.pin_memory()
    return copy, {}


def mergeable(model: PeftModel) -> bool:
    """Whether merging gives the adapted model. It rounds a quantised weight anew, changes a weight
    that two layers share (a head tied to its embedding) in both, and cannot add the adapter's bias
    to a layer without one.
    """
    config, layers = model.active_peft_config, adapted_layers(model)
    shared = Counter(
        id(each) for module in model.modules() for each in module.parameters(recurse=False)
    )
    tied = any(shared[id(each)] > 1 for layer in layers for each in layer.parameters(recurse=False))
    unbiased = config.lora_bias and any(getattr(layer, "bias", None) is None for layer in layers)
    quantised = getattr(model.get_base_model(), "is_quantized", False)
    return not (tied or unbiased or quantised)


@torch.no_grad()
def surviving_share(model: PeftModel) -> float:
    """The share of the active adapter's change to the weights that survives merging: the projection
    of the rounded change on the true one, over all layers. It is 1 in float32. In bfloat16 a young
    adapter moves most weights by less than half of their last digit, and the merged model is then
    nearly the base; the same share of any further move survives."""
    there = true = 0.0
    for layer in (each for each in model.modules() if isinstance(each, BaseTunerLayer)):
        weight = (
            layer.get_param() if isinstance(layer, ParamWrapper) else layer.get_base_layer().weight
        )
        if weight.dtype == torch.float32:
            return 1.0
        for adapter in layer.active_adapters:
            move = layer.get_delta_weight(adapter)
            rounded = (weight + move.to(weight.dtype)) - weight
            there += torch.sum(rounded * move, dtype=torch.float32).item()
            true += torch.sum(move * move, dtype=torch.float32).item()
    return there / true if true else 1.0


def share_prompts(model: PreTrainedModel | PeftModel):
    """Make `model.generate` read a prompt once that neighbouring rows of a batch share, as those of
    a group do: they begin with copies of its keys and values. A model that remembers anything else
    is left as it is.
    """
    base = model.get_base_model() if isinstance(model, PeftModel) else model
    copied = (
        all(type(each) in COPIED for each in _cache(base).layers)
        and base._supports_default_dynamic_cache()
    )
    if (
        not copied
        or not {"position_ids", "logits_to_keep"}
        <= inspect.signature(base.forward).parameters.keys()
    ):
        return
    generate = model.generate

    def shared(*args, **kwargs):
        return generate(*args, **kwargs, **_prompts_read(base, **kwargs))

    model.generate = shared


def _cache(base: PreTrainedModel) -> DynamicCache:
    return DynamicCache(config=base.config.get_text_config(decoder=True))


@torch.no_grad()
def _prompts_read(
    base, input_ids: torch.Tensor, attention_mask: torch.Tensor, generation_config=None, **_
) -> dict:
    same = torch.unique_consecutive(
        torch.cat([input_ids, attention_mask], 1), dim=0, return_counts=True
    )[1]
    times = math.gcd(*same.tolist())
    if (
        times == 1
        or input_ids.shape[1] == 1
        or getattr(generation_config, "cache_implementation", None)
    ):
        return {}
    cache = _cache(base)
    # The last token is left to `generate`, which samples from what follows it.
    ids, mask = input_ids[::times, :-1], attention_mask[::times, :-1]
    read = {
        "position_ids": (mask.cumsum(-1) - 1).clamp(min=0),
        "past_key_values": cache,
        "use_cache": True,
    }
    base(input_ids=ids, attention_mask=mask, logits_to_keep=1, **read)
    cache.batch_repeat_interleave(times)
    return {"past_key_values": cache}


def sample_merged(model: PeftModel):
    """Make `model.generate` run with the active adapter merged, and restore the base weights to the
    bit afterwards. While rounding would lose more than 5% of the adapter's change, it runs with the
    adapter beside its base.
    """
    keep_base_exact(model)
    generate = model.generate

    def merged(*args, **kwargs):
        if surviving_share(model) < SURVIVES:
            return generate(*args, **kwargs)
        model.merge_adapter()
        try:
            return generate(*args, **kwargs)
        finally:
            model.unmerge_adapter()

    model.generate = merged
