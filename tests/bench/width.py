"""Throughput of two processes against one on a CPU, with one thread each and the same whole batch:

    python -m tests.bench.width recipes/smollm2-arithmetic.yaml [section.key=value …] --steps 4 --pairs 3

Alternating pairs of short GRPO runs, whose completions all have the full length. A step's time is the median of all but
the first; two processes have to wait for each other, and that is in it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from schema.launch import recipe_arguments
from schema.recipe import load_recipe
from tests.support import ACCELERATE, TWO_PROCESSES


def seconds_of_a_step(recipe_file: str, overrides: list[str], processes: int, steps: int) -> float:
    keys = load_recipe(recipe_file, overrides, check=()).grpo
    given = ["sft=null", "data.own_solutions=null", "grpo.num_iterations=1", "grpo.logging_steps=1"]
    given += [f"grpo.max_steps={steps}", "grpo.save_strategy=no", *overrides]
    given += [f"grpo.per_device_train_batch_size={keys['per_device_train_batch_size'] // processes}"]
    given += [f"grpo.generation_kwargs={{min_new_tokens: {keys['max_completion_length']}}}"]
    launcher = [ACCELERATE, *TWO_PROCESSES] if processes == 2 else [sys.executable]
    with tempfile.TemporaryDirectory() as folder:
        command = [*launcher, "-m", "stages.grpo", recipe_file, *given, f"output_dir={folder}"]
        done = subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        lines = [json.loads(line) for line in (Path(folder) / "grpo/metrics.jsonl").read_text().splitlines()]
    return statistics.median([line["step_time"] for line in lines if "step_time" in line][1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    recipe_arguments(parser)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_intermixed_args()
    ratios = []
    for _ in range(options.pairs):
        one, two = (seconds_of_a_step(options.recipe, options.overrides, each, options.steps) for each in (1, 2))
        ratios.append(one / two)
        print(f"a step: {one:.2f} s on one process, {two:.2f} s on two: {ratios[-1]:.2f} times", flush=True)
    print(f"median {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), {options.pairs} pairs")


if __name__ == "__main__":
    main()
