"""Sampling with the head as one product for all rows against row by row, as torch has it (training/model.py):

    python -m tests.bench.head recipes/smollm2-arithmetic.yaml [section.key=value …] --pairs 5 --tokens 30

Seconds of a sampled batch, in alternating pairs of one run.
"""

import argparse
import statistics
import time

from schema import hardware
from schema.launch import recipe_arguments
from schema.recipe import load_recipe
from tests.bench.merged import batch_of, policy_in, sample
from training.model import load_tokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    recipe_arguments(parser)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=30)
    options = parser.parse_intermixed_args()
    asked = load_recipe(options.recipe, options.overrides, check=())
    recipe = hardware.fitted(asked)
    tokenizer = load_tokenizer(recipe)
    model = policy_in(recipe, recipe.model.dtype, tokenizer)
    batch = batch_of(recipe, tokenizer, model)
    print(
        f"{hardware.line(recipe, asked.model.dtype)}; {len(batch['input_ids'])} completions of {options.tokens} tokens"
    )
    hooks = model.get_output_embeddings()._forward_pre_hooks
    mended, ratios = dict(hooks), []

    def seconds(whole: bool) -> float:
        hooks.clear()
        hooks.update(mended if whole else {})
        began = time.perf_counter()
        sample(model, batch, options.tokens)
        return time.perf_counter() - began

    seconds(True), seconds(False)  # the machine's caches, and whatever is made once
    for pair in range(options.pairs):
        took = {whole: seconds(whole) for whole in ((True, False) if pair % 2 else (False, True))}
        ratios.append(took[False] / took[True])
        print(f"pair {pair + 1}: {took[False]:.1f} s row by row, {took[True]:.1f} s, {ratios[-1]:.2f}", flush=True)
    print(f"row by row ÷ one product: median {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
