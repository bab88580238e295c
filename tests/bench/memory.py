"""One real GRPO step, every completion as long as it may be, against the estimate of `make memory`:

    python -m tests.bench.memory recipes/smollm2-arithmetic.yaml [section.key=value …]

On a GPU the peak is torch's own counter; without one it is the process's resident memory above what it had before the
model was loaded, which the libraries' own buffers are part of. Under a minute, on a recipe whose model is at hand.
"""

import argparse
import threading
import time

import psutil
import torch

from data import prompt
from stages import memory, probe_memory
from stages.model import load_tokenizer
from stages.problems import load_train
from stages.recipe import Recipe, load_recipe, recipe_arguments


class ResidentPeak:
    """The most resident memory of this process while the block runs, above what it had before, in bytes."""

    def __enter__(self):
        self.process, self.done = psutil.Process(), threading.Event()
        self.before = self.most = self.process.memory_info().rss
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def _watch(self):
        while not self.done.is_set():
            self.most = max(self.most, self.process.memory_info().rss)
            time.sleep(0.002)

    def __exit__(self, *error):
        self.done.set()
        self.thread.join()

    @property
    def bytes(self) -> int:
        return self.most - self.before


def step_peak(recipe: Recipe) -> int:
    """Bytes at the peak of the recipe's largest training step, from an empty process."""
    if torch.cuda.is_available():
        probe_memory.main(recipe)
        return torch.cuda.max_memory_allocated()
    with ResidentPeak() as peak:
        probe_memory.main(recipe)
    return peak.bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    recipe_arguments(parser)
    options = parser.parse_args()
    recipe = load_recipe(options.recipe, options.overrides)
    tokenizer = load_tokenizer(recipe)
    longest = probe_memory.longest_first(load_train(recipe)[0], tokenizer, recipe.prompt.system)[0]
    tokens = len(prompt.prompt_ids(tokenizer, prompt.messages(longest["problem"], recipe.prompt.system)))
    parts = memory.estimate(recipe, tokens)
    measured = step_peak(recipe)
    for name, size in parts.items():
        print(f"{name:<20}{size / memory.GIB:8.3f} GiB")
    print(f"{'measured':<20}{measured / memory.GIB:8.3f} GiB, {parts['total'] / measured:.2f} estimated ÷ measured")
    print(torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU")


if __name__ == "__main__":
    main()
