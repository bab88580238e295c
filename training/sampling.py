"""Sampling through transformers with the adapter merged into its base: a token then costs what the base alone costs."""

from collections import Counter

import torch
from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer

from training.exact_merge import adapted_layers, keep_base_exact

SURVIVES = 0.95  # of the adapter's move must survive the rounding of the merged weights


def mergeable(model: PeftModel) -> bool:
    """Whether the merged model is the adapted one. A quantised weight is rounded anew by a merge; one that two layers
    share (a head tied to its embedding) would change in both; and one with a bias needs a bias to be merged into."""
    config, layers = model.active_peft_config, adapted_layers(model)
    shared = Counter(id(each) for module in model.modules() for each in module.parameters(recurse=False))
    tied = any(shared[id(each)] > 1 for layer in layers for each in layer.parameters(recurse=False))
    unbiased = config.lora_bias and any(getattr(layer, "bias", None) is None for layer in layers)
    quantised = getattr(model.get_base_model(), "is_quantized", False)
    return not (tied or unbiased or quantised)


@torch.no_grad()
def surviving_share(model: PeftModel) -> float:
    """How much of what the active adapter adds to the weights is there when they are merged: the projection of the
    rounded move on the true one, over all layers. 1 in float32. In bfloat16 a young adapter moves most weights by less
    than half of their last digit, and the merged model is then nearly the base; what it is moved by later survives in
    the same share."""
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
    """From now on `model.generate` runs with the active adapter merged, and leaves the very base weights it found.
    While rounding would swallow more than a twentieth of the adapter, it runs with the adapter beside its base."""
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
