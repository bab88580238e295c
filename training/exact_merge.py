"""The adapter is merged into its base for vLLM at every sync, and for transformers at every sampling, and taken out
again. What is added and subtracted does not come back to the bit, so the base weights drift (in bfloat16 soon by more
than the adapter, trl issue 6688), and the adapter that is saved belongs to a base nobody has. Here the base is put back
as it was.
"""

from collections.abc import Callable

import torch
from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer


def keep_base_exact(model: PeftModel):
    """From now on `model.unmerge_adapter()` ends with the very base weights that `merge_adapter()` found.

    They are copied to the memory of the CPU: as many bytes as the adapted layers. Of a model on a GPU the copy
    is made once and kept; of one on the CPU, which needs that memory to train, it is made anew each time.
    """
    model.merge_adapter, model.unmerge_adapter = _merging(model), _restoring(model)


def adapted_layers(model: PeftModel) -> list[torch.nn.Module]:
    """The base's layers that carry the adapter."""
    layers = [each.get_base_layer() for each in model.modules() if isinstance(each, BaseTunerLayer)]
    return list(dict.fromkeys(layers))  # one with several adapted parameters is found for each


def _parameters(model: PeftModel) -> list[tuple[torch.nn.Module, str]]:
    """(layer, name) of every parameter that a merge may touch: weights, and with `lora_bias` biases."""
    return [(layer, name) for layer in adapted_layers(model) for name, _ in layer.named_parameters(recurse=False)]


def _copy(weight: torch.nn.Parameter) -> tuple[torch.Tensor, dict]:
    """A copy on the CPU; of a quantised weight itself, which merging replaces by another, and its attributes."""
    if hasattr(weight, "quant_state"):
        return weight, dict(weight.__dict__)
    return weight.detach().to("cpu", copy=True), {}


def _merging(model: PeftModel) -> Callable:
    merge = model.merge_adapter

    def merge_adapter(*args, **kwargs):
        if not hasattr(model, "exact_base"):
            model.exact_base = [_copy(getattr(layer, name)) for layer, name in _parameters(model)]
        merge(*args, **kwargs)

    return merge_adapter


def _restoring(model: PeftModel) -> Callable:
    unmerge = model.unmerge_adapter

    def unmerge_adapter(*args, **kwargs):
        unmerge(*args, **kwargs)
        held = _parameters(model)
        for (layer, name), (value, attributes) in zip(held, model.exact_base, strict=True):
            if attributes:
                value.__dict__.update(attributes)
                layer.weight, layer.quant_state = value, value.quant_state
            else:
                getattr(layer, name).data.copy_(value)
        if all(getattr(layer, name).device.type == "cpu" for layer, name in held):
            del model.exact_base

    return unmerge_adapter


@torch.inference_mode()
def log_probabilities(model: torch.nn.Module, prompts: list[list[int]], bf16: bool = False) -> torch.Tensor:
    """Of each prompt's own tokens, one after the other; shape (tokens of all prompts,). `bf16`: under autocast."""
    training = model.training
    model.eval()
    found = []
    for ids in prompts:
        batch = torch.tensor([ids], device=next(model.parameters()).device)
        with torch.autocast(batch.device.type, torch.bfloat16, enabled=bf16):
            logits = model(input_ids=batch).logits[0, :-1].float()
        found.append(torch.log_softmax(logits, -1).gather(-1, batch[0, 1:, None])[:, 0].cpu())
    model.train(training)
    return torch.cat(found)


def adapter_error(
    trained: torch.nn.Module, clean: torch.nn.Module, prompts: list[list[int]], bf16: bool = False
) -> float:
    """How far, in nats, the log-probabilities of the policy that was trained are from those of its saved adapter on a
    clean base: the largest difference of any token. `bf16`: the trainer has wrapped the policy in autocast to it."""
    clean = clean.to(next(trained.parameters()).device)
    return (log_probabilities(trained, prompts, bf16) - log_probabilities(clean, prompts, bf16)).abs().max().item()
