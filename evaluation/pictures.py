"""The picture of what a run logged."""

import math
from pathlib import Path
from typing import NamedTuple

from console.terminal import clean
from evaluation.statistics import wilson
from schema.configs import ACCURACY, EVAL_CORRECT, ZERO_VARIANCE

FEW_POINTS = 30  # up to that many, each is drawn as a dot
MAX_REWARDS = 8  # in one panel


class Panel(NamedTuple):
    """Metrics drawn together over the steps. `names`: the name of each metric in the legend, by its
    key in `metrics.jsonl`. `is_share`: whether the values are shares, from 0 to 1."""

    title: str
    names: dict[str, str]
    is_share: bool = False


PANELS = [
    Panel("reward", {"reward": ""}),
    Panel("validation accuracy", {ACCURACY: ""}, is_share=True),
    Panel(
        "completion length (tokens)",
        {"completions/mean_length": "mean", "completions/max_length": "longest"},
    ),
    Panel("truncated completions", {"completions/clipped_ratio": ""}, is_share=True),
    Panel("zero-variance groups", {ZERO_VARIANCE: ""}, is_share=True),
    Panel("entropy (nats a token)", {"entropy": ""}),
    Panel("KL to the reference", {"kl": ""}),
    Panel("learning rate", {"learning_rate": ""}),
]


def curves(file: Path, metrics: list[dict]) -> bool:
    """Draw the lines of a run's `metrics.jsonl`, a panel for each quantity over the steps, and
    return whether there was anything to draw."""
    from matplotlib.figure import Figure

    panels = []
    for panel in (PANELS[0], _rewards_panel(metrics), *PANELS[1:]):
        lines = {}
        for key, name in panel.names.items():
            points = [(line["step"], line[key]) for line in metrics if key in line]
            if points:
                lines[name] = points
        if lines:
            panels.append((panel, lines))
    if not panels:
        return False
    rows = math.ceil(len(panels) / 3)
    figure = Figure(figsize=(8, 2.1 * rows), layout="constrained")  # inches: 800 pixels on a page
    all_axes = list(figure.subplots(rows, 3, squeeze=False).flat)
    for axes, (panel, lines) in zip(all_axes, panels, strict=False):
        _draw_panel(axes, panel, lines)
        if ACCURACY in panel.names:
            _draw_interval(axes, metrics)
    for axes in all_axes[len(panels) :]:
        axes.set_axis_off()
    partial = file.with_name(file.name + ".partial")  # a killed run leaves no part of a picture
    figure.savefig(partial, dpi=200, format="png")
    partial.replace(file)
    return True


def _rewards_panel(metrics: list[dict]) -> Panel:
    """The panel with the mean of each reward that was logged."""
    names = {}
    for key in sorted(set().union(*metrics)):
        if key.startswith("rewards/") and key.endswith("/mean"):
            names[key] = key.removeprefix("rewards/").removesuffix("/mean")
    return Panel("rewards, unweighted", dict(list(names.items())[:MAX_REWARDS]))


def _draw_panel(axes, panel: Panel, lines: dict[str, list[tuple[int, float]]]):
    """Draw the (step, value) points of each metric."""
    for name, points in lines.items():
        steps, values = zip(*points, strict=True)
        marker = "." if len(points) <= FEW_POINTS else None
        # A $ would begin a formula, and a leading _ would hide the text from the legend.
        label = clean(name[:24]).replace("$", r"\$").lstrip("_")
        axes.plot(steps, values, marker=marker, linewidth=1.2, markersize=4, label=label)
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel("step", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.locator_params(axis="x", nbins=5, integer=True)
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.is_share:
        # All of 0 to 1, or the noise of a share that stays near 0 would fill the picture.
        axes.set_ylim(-0.02, 1.02)
    number_format = "{:.0%}" if panel.is_share else "{:.3g}"
    axes.yaxis.set_major_formatter(lambda value, _: number_format.format(value))
    if any(lines):
        axes.legend(fontsize=7, frameon=False)


def _draw_interval(axes, metrics: list[dict]):
    """Draw the 95% interval of each accuracy whose line says which problems were correct."""
    steps = []
    lows = []
    highs = []
    for line in metrics:
        if ACCURACY in line and EVAL_CORRECT in line:
            n = len(line[EVAL_CORRECT])
            low, high = wilson(line[EVAL_CORRECT].count("1"), n)
            steps.append(line["step"])
            lows.append(low)
            highs.append(high)
    if steps:
        axes.fill_between(steps, lows, highs, alpha=0.2, linewidth=0)
        axes.set_title(f"validation accuracy (n = {n})", fontsize=9)
