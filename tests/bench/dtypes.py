"""Seconds a step of a bfloat16 recipe on a CPU without its arithmetic: in float32, which is what a run does there, and
in bfloat16, which such a CPU emulates. On one that has it, oneDNN is told not to use it:

    ONEDNN_MAX_CPU_ISA=AVX512_CORE python -m tests.bench.dtypes recipes/smollm2-arithmetic.yaml [key=value …]
    python -m tests.bench.dtypes recipes/smollm2-arithmetic.yaml [key=value …]      # in bfloat16 for real, where it is
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from schema import hardware
from tests.support import read_lines

STAGE = """
import importlib
import sys
from schema import hardware
from stages.cli import run
stage, dtype = sys.argv.pop(1), sys.argv.pop(1)
hardware.has_arithmetic = lambda asked: asked == dtype
run(stage, importlib.import_module(f"stages.{stage}").main)
"""


def seconds(recipe: list[str], dtype: str, steps: int) -> tuple[float, float]:
    """Of a step of the warm start, and of GRPO; the median, without the first."""
    with tempfile.TemporaryDirectory() as folder:
        short = ["sft.logging_steps=1", "grpo.logging_steps=1", f"sft.max_steps={steps}", f"grpo.max_steps={steps}"]
        for stage in ("sft", "grpo"):
            command = [sys.executable, "-c", STAGE, stage, dtype, *recipe, *short, f"output_dir={folder}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr[-3000:])
        lines = {stage: read_lines(Path(folder) / stage / "metrics.jsonl") for stage in ("sft", "grpo")}
        whole = next(line["train_runtime"] for line in lines["sft"] if "train_runtime" in line)
        return whole / steps, statistics.median(
            [line["step_time"] for line in lines["grpo"] if "step_time" in line][1:]
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="+")
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_intermixed_args()
    own = "has" if hardware.has_arithmetic("bfloat16") else "has not"
    print(f"{hardware.device()}, which {own} bfloat16 | s/step of SFT | s/step of GRPO |")
    for dtype in ("float32", "bfloat16"):
        sft, grpo = seconds(options.recipe, dtype, options.steps)
        print(f"| {dtype} | {sft:.1f} | {grpo:.1f} |", flush=True)


if __name__ == "__main__":
    main()
