"""Sampling through transformers with the adapter merged into its base: a token then costs what the base alone costs."""

from collections import Counter

from peft import PeftModel

from stages.exact_merge import adapted_layers, keep_base_exact


def mergeable(model: PeftModel) -> bool:
    """Whether the merged model is the adapted one. A weight that two layers share (a head tied to its embedding) would
    change in both; and an adapter that begins at certain tokens is in no one weight."""
    shared = Counter(id(each) for module in model.modules() for each in module.parameters(recurse=False))
    tied = any(shared[id(each)] > 1 for layer in adapted_layers(model) for each in layer.parameters(recurse=False))
    return not tied and not model.active_peft_config.alora_invocation_tokens


def sample_merged(model: PeftModel):
    """From now on `model.generate` runs with the active adapter merged, and leaves the very base weights it found.

    Not for quantised bases, which merging rounds, nor for weights that are sharded over processes.
    """
    keep_base_exact(model)
    generate = model.generate

    def merged(*args, **kwargs):
        model.merge_adapter()
        try:
            return generate(*args, **kwargs)
        finally:
            model.unmerge_adapter()

    model.generate = merged
