"""Draws how the seeds of a recipe learned: what was correct in training and on validation problems,
over the completions that each had sampled.

    python -m tests.bench.curves docs/img/svamp.png 0.31 outputs/x/seed-1 outputs/x/seed-2 …

0.31: the accuracy before it (python -m stages evaluate x.yaml grpo.eval_steps=null --validation).
"""

import argparse
import json
from pathlib import Path

from matplotlib.figure import Figure

from runs.state import RunState
from schema.configs import ACCURACY

TITLES = {
    "rewards/correct_answer/mean": "correct in training, sampled",
    ACCURACY: "correct on validation problems, greedily",
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("picture", type=Path)
    parser.add_argument("before", type=float)
    parser.add_argument("runs", type=Path, nargs="+")
    options = parser.parse_args()
    figure = Figure(figsize=(8, 3), layout="constrained")  # inches
    all_axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for run in options.runs:
        recipe = RunState.read(run / "grpo").recipe
        size = recipe["grpo"]["completions_per_generation"]
        text = (run / "grpo" / "metrics.jsonl").read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        for axes, (key, title) in zip(all_axes, TITLES.items(), strict=True):
            points = [(line["step"] * size, line[key]) for line in lines if key in line]
            axes.plot(*zip(*points, strict=True), marker=".", linewidth=1, label=run.name)
            axes.set_title(title, fontsize=9)
            axes.set_xlabel("completions", fontsize=8)
    all_axes[1].axhline(options.before, linestyle="--", color="gray", label="before")
    all_axes[1].legend(fontsize=7, frameon=False)
    all_axes[0].set(xlim=(0, None), ylim=(0, 1))
    figure.savefig(options.picture, dpi=150)


if __name__ == "__main__":
    main()
