"""Does a second round pay? tiny-arithmetic for 240 steps, beside 120 steps of it and then 120 of
tiny-second-round, whose reference is the first round's policy, over five seeds:

    OMP_NUM_THREADS=1 python -m tests.bench.second_round

Some 4 minutes a seed on a quiet core; finished runs in outputs/ are kept. Prints the accuracy on
held-out problems of both, and the paired difference over the seeds.
"""

import argparse
import json
import shutil
from pathlib import Path

from evaluation.statistics import over_seeds
from tests.support import run_stage

SEEDS = [1, 2, 3, 4, 5]
OUTPUTS = Path("outputs")


def train(seed: int) -> dict[str, float]:
    """The accuracy of the one run, and of the first round's second, for a seed."""
    one, first, second = [
        OUTPUTS / name / f"seed-{seed}"
        for name in ("tiny-arithmetic", "first-round", "tiny-second-round")
    ]
    words = ["recipes/tiny-arithmetic.yaml", f"seed={seed}"]
    for stage in ("sft", "grpo"):
        run_stage(stage, *words, f"output_dir={one}")
    run_stage("evaluate", *words, f"output_dir={one}", "--held-out")
    if not (first / "sft").exists():
        shutil.copytree(one / "sft", first / "sft")
    run_stage("grpo", *words, "grpo.max_steps=120", f"output_dir={first}")
    words = ["recipes/tiny-second-round.yaml", f"seed={100 + seed}"]
    words += [f"model.name_or_path={first / 'grpo'}", f"output_dir={second}"]
    run_stage("grpo", *words)
    run_stage("evaluate", *words, "--held-out")
    accuracies = {}
    for folder in (one, second):
        summary = json.loads((folder / "eval/held-out/summary.json").read_text(encoding="utf-8"))
        accuracies[folder.parent.name] = summary["grpo"]["accuracy"]
    return accuracies


def main():
    argparse.ArgumentParser(description=__doc__.split("\n\n")[0]).parse_args()
    differences = []
    for seed in SEEDS:
        accuracies = train(seed)
        print(f"seed {seed}: {accuracies}", flush=True)
        differences.append(accuracies["tiny-second-round"] - accuracies["tiny-arithmetic"])
    print("second round − one run:", over_seeds(differences))


if __name__ == "__main__":
    main()
