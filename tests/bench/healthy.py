"""Draws six logged numbers of a run, each line pale and its mean over eight lines strong:

python -m tests.bench.healthy docs/img/healthy-run.png outputs/tiny-arithmetic
"""

import argparse
import json
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from training.watch import WINDOW

NUMBERS = (
    "rewards/correct_answer/mean",
    "rewards/format_tags/mean",
    "entropy",
    "zero_variance_groups",
    "completions/mean_length",
    "grad_norm",
)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("picture", type=Path)
    parser.add_argument("run", type=Path)
    options = parser.parse_args()
    text = (options.run / "grpo/metrics.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    figure = Figure(figsize=(9, 4), layout="constrained")  # inches
    for axes, key in zip(figure.subplots(2, 3, sharex=True).flat, NUMBERS, strict=True):
        steps = [line["step"] for line in lines if key in line]
        values = [line[key] for line in lines if key in line]
        axes.plot(steps, values, color="tab:blue", linewidth=1, alpha=0.3)
        means = np.convolve(values, np.full(WINDOW, 1 / WINDOW), mode="valid")
        axes.plot(steps[WINDOW - 1 :], means, color="tab:blue", linewidth=2)
        axes.set_title(key, fontsize=9)
        axes.set_ylim(0, 1.15 * max(values))
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.3)
    figure.supxlabel("step", fontsize=9)
    figure.savefig(options.picture, dpi=110)


if __name__ == "__main__":
    main()
