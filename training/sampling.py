"""Samples through transformers with the adapter merged into its base: a token then costs no more than the base's."""

from collections import Counter

import torch
from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer

from training.exact_merge import adapted_layers, keep_base_exact

SURVIVES = 0.95  # the share of the adapter's change that must survive the rounding of the merged weights


def mergeable(model: PeftModel) -> bool:
    """Whether merging gives the adapted model. It rounds a quantised weight anew, changes a weight that two layers
    share (a head tied to its embedding) in both, and cannot add the adapter's bias to a layer without one."""
    config, layers = model.active_peft_config, adapted_layers(model)
    shared = Counter(id(each) for module in model.modules() for each in module.parameters(recurse=False))
    tied = any(shared[id(each)] > 1 for layer in layers for each in layer.parameters(recurse=False))
    unbiased = config.lora_bias and any(getattr(layer, "bias", None) is None for layer in layers)
    quantised = getattr(model.get_base_model(), "is_quantized", False)
    return not (tied or unbiased or quantised)


@torch.no_grad()
def surviving_share(model: PeftModel) -> float:
    """The share of the active adapter's change to the weights that survives merging: the projection of the rounded
    change on the true one, over all layers. It is 1 in float32. In bfloat16 a young adapter moves most weights by less
    than half of their last digit, and the merged model is then nearly the base; the same share of any further move
    survives."""
    there = true = 0.0
    for layer in (each for each in model.modules() if isinstance(each, BaseTunerLayer)):
        weight = layer.get_base_layer().weight
        if weight.dtype == torch.float32:
            return 1.0
        for adapter in layer.active_adapters:
            move = layer.get_delta_weight(adapter)
            rounded = (weight + move.to(weight.dtype)) - weight
            there += torch.sum(rounded * move, dtype=torch.float32).item()
            true += torch.sum(move * move, dtype=torch.float32).item()
    return there / true if true else 1.0


def sample_merged(model: PeftModel):
    """Make `model.generate` run with the active adapter merged, and restore the base weights to the bit afterwards.
    While rounding would lose more than 5% of the adapter's change, it runs with the adapter beside its base."""
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
