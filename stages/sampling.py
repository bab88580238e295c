"""Sampling through transformers with the adapter merged into its base: a token then costs what the base alone costs."""

from peft import PeftModel

from stages.exact_merge import keep_base_exact


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
