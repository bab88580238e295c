"""How long do the parts of a GRPO step on a CPU take, with and without training/cpu.py, beside what
the machine can do?

    python -m tests.bench.cpu_step recipes/smollm2-arithmetic.yaml [key=value …]

Trains the recipe's policy for three steps from its base model, by turns without and with what
training/cpu.py does, each time in a process of its own, and prints the medians. The first step
warms up; the second is timed; in the third torch's profiler counts kinds of operations.

The limits, of the matrix and memory rates that are measured first: all weights are read once for
each token of the longest completion, and multiplied with each token that is sampled. The update
multiplies a token once forward and once back (a frozen base has no gradients of its own), those of
a prompt once for each micro-batch, and the head only those of the completions. All completions are
learned from.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile
from transformers import TrainerCallback

import training.cpu
import training.trainer
from machine.hardware import cpu_name
from schema.recipe import load_recipe
from stages import grpo
from stages.cli import recipe_arguments
from tests.support import ROOT

# Kind → how the names of its operations begin.
KINDS = {
    "products": ("aten::mm", "aten::addmm", "aten::bmm"),
    "attention": ("aten::_scaled_dot_product",),
    "drawing": ("aten::exponential_", "aten::argmax", "aten::cumsum", "aten::searchsorted"),
    "copies": ("aten::copy_", "aten::cat", "aten::index", "aten::fill_"),
}
WAYS = ("without", "with")
TIMED, PROFILED = 2, 3  # steps


class Clock(TrainerCallback):
    """Times what a trainer does. `result`: the seconds of `sampling` and `update`, the shares of
    their kinds of operations, the tokens, and the model's size."""

    def __init__(self, trainer: training.trainer.GRPO):
        self.result = {}
        self.step = 0
        self.updating = False
        self.generate = trainer.model.generate
        self.loss = trainer._compute_loss
        trainer.model.generate = self.timed_generate
        trainer._compute_loss = self.watched_loss
        head = trainer.accelerator.unwrap_model(trainer.model).get_output_embeddings().weight
        body = -head.numel()  # which is among the modules too
        for module in trainer.model.modules():
            is_product = isinstance(module, torch.nn.Linear)
            if is_product and not module.weight.requires_grad:
                body += module.weight.numel()
        self.result["body"] = body
        self.result["head"] = head.numel()
        self.result["bytes"] = head.element_size()
        self.result["dtype"] = str(head.dtype).removeprefix("torch.")

    def timed_generate(self, *args, **kwargs) -> torch.Tensor:
        self._begin()
        tokens = self.generate(*args, **kwargs)
        self._end("sampling")
        if self.step == TIMED:
            self.result["rows"] = len(tokens)
            self.result["drawn"] = tokens.shape[1] - kwargs["input_ids"].shape[1]
        return tokens

    def watched_loss(self, model, inputs: dict) -> torch.Tensor:
        if not self.updating:
            self.updating = True
            self._begin()
        if self.step == TIMED:
            prompts = torch.cat([inputs["prompt_mask"], inputs["prompt_ids"]], 1).unique(dim=0)
            different = prompts[:, : inputs["prompt_mask"].shape[1]]
            for part, mask in (("prompt", different), ("completion", inputs["completion_mask"])):
                self.result[part] = self.result.get(part, 0) + int(mask.sum())
        # A base model earns nothing: without an advantage there would be no update to measure.
        return self.loss(model, inputs | {"advantages": torch.ones_like(inputs["advantages"])})

    def on_step_begin(self, args, state, control, **kwargs):
        self.step += 1

    def on_step_end(self, args, state, control, **kwargs):
        self._end("update")
        self.updating = False

    def _begin(self):
        self.profile = None
        if self.step == PROFILED:
            self.profile = profile(activities=[ProfilerActivity.CPU])
            self.profile.start()
        self.began = time.perf_counter()

    def _end(self, part: str):
        if self.step == TIMED:
            self.result[part] = time.perf_counter() - self.began
        if self.profile:
            self.profile.stop()
            self.result[f"{part} by kind"] = shares(self.profile.key_averages())


def shares(events) -> dict[str, float]:
    """Kind of operation → its share of the time that torch's operations took by themselves."""
    total = sum(event.self_cpu_time_total for event in events)
    by_kind = {}
    for kind, beginnings in KINDS.items():
        times = [event.self_cpu_time_total for event in events if event.key.startswith(beginnings)]
        by_kind[kind] = sum(times) / total
    by_kind["the rest"] = 1 - sum(by_kind.values())
    return by_kind


def measure(options: argparse.Namespace):
    """Train three steps in this process and write what the clock says."""
    clocks = []
    set_rollout = training.trainer.set_rollout

    def watch(trainer, recipe):
        set_rollout(trainer, recipe)
        clocks.append(Clock(trainer))
        trainer.add_callback(clocks[0])

    training.trainer.set_rollout = watch
    if options.way == "without":
        training.cpu.SMALL = 10**15  # parameters: no model is large enough to gain
    with tempfile.TemporaryDirectory() as folder:
        overrides = ["sft=null", "grpo.max_steps=3", "grpo.save_steps=3", f"output_dir={folder}"]
        grpo.main(load_recipe(options.recipe, [*options.overrides, *overrides]))
    options.result.write_text(json.dumps(clocks[0].result))


def matrix_rate(dtype: torch.dtype, rows: int) -> float:
    """Multiplications and additions a second, of rows with a square of 1,024."""
    numbers = torch.randn(rows, 1024).to(dtype)
    square = torch.randn(1024, 1024).to(dtype)
    return 2 * rows * 1024**2 / fastest(lambda: numbers @ square)


def memory_rate() -> float:
    """Bytes a second that are read."""
    numbers = torch.ones(2**27)
    return numbers.nbytes / fastest(numbers.sum)


def fastest(function) -> float:
    """Seconds of the fastest of 20 calls."""
    times = []
    for _ in range(20):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def limits(result: dict) -> dict[str, float]:
    """The seconds that the machine needs at least for each part."""
    dtype = getattr(torch, result["dtype"])
    size = result["body"] + result["head"]
    reading = result["drawn"] * size * result["bytes"] / memory_rate()
    computing = 2 * size * result["completion"] / matrix_rate(dtype, result["rows"])
    tokens = result["prompt"] + result["completion"]
    products = tokens * result["body"] + result["completion"] * result["head"]
    return {
        "sampling": max(reading, computing),
        "update": 2 * 2 * products / matrix_rate(dtype, 2048),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    recipe_arguments(parser)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    if options.way:
        measure(options)
        return
    results = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "result.json")
        words = [sys.executable, "-m", "tests.bench.cpu_step", options.recipe, *options.overrides]
        for _ in range(options.rounds):
            for way in WAYS:
                subprocess.run([*words, "--way", way, "--result", file], cwd=ROOT, check=True)
                results[way].append(json.loads(file.read_text()))
    print(f"\n{cpu_name()}, {torch.get_num_threads()} threads, {options.rounds} rounds")
    limit = limits(results["with"][0])
    counts = results["with"][0]
    print(f"{counts['dtype']}, {counts['rows']} completions, {counts['completion']} tokens")
    for part in ("sampling", "update"):
        medians = {}
        for way in WAYS:
            medians[way] = statistics.median(result[part] for result in results[way])
        ratio = medians["without"] / medians["with"]
        share = limit[part] / medians["with"]
        print(
            f"{part}: {medians['without']:.1f} s → {medians['with']:.1f} s ({ratio:.2f} times as"
            f" fast); the limit is {limit[part]:.1f} s, {share:.0%} reached"
        )
        for way in WAYS:
            by_kind = results[way][-1][f"{part} by kind"]
            print(f"  {way}: " + ", ".join(f"{kind} {by_kind[kind]:.0%}" for kind in by_kind))


if __name__ == "__main__":
    main()
