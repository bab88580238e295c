"""Throughput of two processes against one on a CPU, with one thread each and the same whole batch:

    python -m tests.bench.width recipes/smollm2-arithmetic.yaml [section.key=value …] --steps 4 --pairs 3

Alternating short GRPO runs, whose completions all have the full length: one process; two that train together; and two
at once that know nothing of each other, with half the batch each. The last is what the machine has to give: its cores
share memory, and may be two threads of one. A step's time is the median of all but the first; two processes that train
together have to wait for each other, and that is in it.
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

ALONE = [sys.executable]
TOGETHER = [ACCELERATE, *TWO_PROCESSES]


def seconds_of_a_step(recipe_file: str, overrides: list[str], steps: int, rows: int, launchers: list) -> float:
    """Of runs that begin at once, one for each launcher, with `rows` completions on each process."""
    length = load_recipe(recipe_file, overrides, check=()).grpo["max_completion_length"]
    given = ["sft=null", "data.own_solutions=null", "grpo.num_iterations=1", "grpo.logging_steps=1"]
    given += [f"grpo.max_steps={steps}", "grpo.save_strategy=no", *overrides]
    given += [f"grpo.per_device_train_batch_size={rows}", f"grpo.generation_kwargs={{min_new_tokens: {length}}}"]
    with tempfile.TemporaryDirectory() as parent:
        runs, environment = {}, os.environ | {"OMP_NUM_THREADS": "1"}
        for number, launcher in enumerate(launchers):
            folder = Path(parent) / str(number)
            command = [*launcher, "-m", "stages.grpo", recipe_file, *given, f"output_dir={folder}"]
            runs[folder] = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for run in runs.values():
            said = run.communicate()[0].decode()
            assert run.returncode == 0, said[-3000:]
        return statistics.mean(median_step(folder) for folder in runs)


def median_step(folder: Path) -> float:
    lines = [json.loads(line) for line in (folder / "grpo/metrics.jsonl").read_text().splitlines()]
    return statistics.median([line["step_time"] for line in lines if "step_time" in line][1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    recipe_arguments(parser)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_intermixed_args()
    rows = load_recipe(options.recipe, options.overrides, check=()).grpo["per_device_train_batch_size"]
    ratios, limits = [], []
    for _ in range(options.pairs):
        cases = (rows, [ALONE]), (rows // 2, [TOGETHER]), (rows // 2, [ALONE, ALONE])
        one, two, apart = (seconds_of_a_step(options.recipe, options.overrides, options.steps, *each) for each in cases)
        ratios.append(one / two)
        limits.append(one / apart)
        print(f"a step: {one:.2f} s on one process, {two:.2f} s on two: {ratios[-1]:.2f} times", end="; ")
        print(f"on two that do not wait for each other {apart:.2f} s: {limits[-1]:.2f}", flush=True)
    for name, found in (("together", ratios), ("apart", limits)):
        print(f"{name}: median {statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f}), n = {len(found)}")


if __name__ == "__main__":
    main()
