"""How long a wrong recipe takes to be refused, here and in another checkout, through what `make` runs.

python -m tests.bench.refusals ../before
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOOD = """\
model: {build: tiny-qwen3}
data: {train: [arithmetic]}
rewards: {correct_answer: {weight: 1.0}}
sft: {max_steps: 2}
grpo: {max_steps: 2, num_generations: 8}
"""
BOMB = "a: &a [x]\n" + "".join(
    f"{n}: &{n} [{', '.join([f'*{m}'] * 8)}]\n" for m, n in ("ab", "bc", "cd", "de", "ef", "fg", "gh")
)
WRONG = {
    "a misspelt key": GOOD.replace("max_steps: 2, num", "max_step: 2, num"),
    "a rate below 0 in the second stage": GOOD.replace("{max_steps: 2, num", "{learning_rate: -1, max_steps: 2, num"),
    "no steps in the second stage": GOOD.replace("{max_steps: 2, num", "{max_steps: 0, num"),
    "a kernel": GOOD.replace("tiny-qwen3}", "tiny-qwen3, attn_implementation: some/kernel}"),
    "an upload through trl": GOOD.replace(
        "{correct_answer", "{trl.trainer.grpo_trainer.CommitScheduler: {}, correct_answer"
    ),
    "a folder elsewhere": "output_dir: ../../x\n" + GOOD,
    "a folder that cannot be written": "output_dir: /proc/x\n" + GOOD,
    "eight levels of aliases": BOMB,
}
STAGES = ("--stages", "sft", "grpo", "evaluate")
SECONDS = 120


def refused(checkout: Path, recipe: Path, python: str) -> str:
    began = time.monotonic()
    command = [python, "-m", "stages.preflight", str(recipe), *STAGES]
    try:
        done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"not within {SECONDS} s"
    seconds = f"{time.monotonic() - began:.1f} s"
    if done.returncode == 0:
        return f"passed ({seconds})"
    return f"a stack trace ({seconds})" if "Traceback" in done.stderr else seconds


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.bench.refusals", description=__doc__)
    parser.add_argument("before", type=Path, help="another checkout")
    options = parser.parse_args()
    print("| wrong | before | here |\n| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in WRONG.items():
            recipe = Path(folder) / "mine.yaml"
            recipe.write_text(text)
            times = [refused(place, recipe, sys.executable) for place in (options.before, Path())]
            print(f"| {name} | {times[0]} | {times[1]} |")


if __name__ == "__main__":
    main()
