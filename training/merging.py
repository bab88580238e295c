"""Merges an adapter into its base to sample with: a token then costs no more than with the base
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
import random
from collections import Counter
from collections.abc import Callable

import torch
from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from transformers import PreTrainedModel

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


@torch.inference_mode()
def log_probabilities(
    model: torch.nn.Module, prompts: list[list[int]], autocast: torch.dtype | None = None
) -> torch.Tensor:
    """Log-probabilities of the prompts' own tokens, all but each prompt's first: shape (sum of
    len(prompt) - 1,).

    Args:
        prompts: token ids.
        autocast: compute under autocast to it.
    """
    training = model.training
    model.eval()
    by_prompt = []
    for ids in prompts:
        batch = torch.tensor([ids], device=next(model.parameters()).device)
        with torch.autocast(batch.device.type, autocast, enabled=autocast is not None):
            logits = model(input_ids=batch).logits[0, :-1].float()
        by_prompt.append(torch.log_softmax(logits, -1).gather(-1, batch[0, 1:, None])[:, 0].cpu())
    model.train(training)
    return torch.cat(by_prompt)


def adapter_error(
    trained: torch.nn.Module,
    clean: torch.nn.Module,
    prompts: list[list[int]],
    autocast: torch.dtype | None = None,
) -> float:
    """The largest difference, in nats, between a token's log-probability under the trained policy
    and under its saved adapter on a clean base. `autocast`: to which the trainer has wrapped the
    policy."""
    clean = clean.to(next(trained.parameters()).device)
    of_policy = log_probabilities(trained, prompts, autocast)
    of_saved = log_probabilities(clean, prompts, autocast)
    return (of_policy - of_saved).abs().max().item()
