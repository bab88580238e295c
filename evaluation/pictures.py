"""The pictures: what a run logged, accuracies with their intervals, and the histogram of a
probe."""

import math
from pathlib import Path
from typing import NamedTuple

from console.terminal import clean
from evaluation.statistics import wilson
from schema.configs import ACCURACY, RIGHT, WITHOUT_SIGNAL

COLUMNS = 3
FEW_POINTS = 30  # up to that many, each is drawn as a dot
MAX_REWARDS = 8  # in one panel


class Panel(NamedTuple):
    """Metrics drawn together over the steps.

    Attributes:
        names: the name of each metric in the legend, by its key in `metrics.jsonl`.
        is_share: whether the values are shares, from 0 to 1.
    """

    title: str
    names: dict[str, str]
    is_share: bool = False


PANELS = [
    Panel("reward", {"reward": ""}),
    Panel("held-out accuracy", {ACCURACY: ""}, is_share=True),
    Panel(
        "completion length (tokens)",
        {"completions/mean_length": "mean", "completions/max_length": "longest"},
    ),
    Panel("truncated completions", {"completions/clipped_ratio": ""}, is_share=True),
    Panel("groups without signal", {WITHOUT_SIGNAL: ""}, is_share=True),
    Panel("entropy (nats a token)", {"entropy": ""}),
    Panel("KL to the reference", {"kl": ""}),
    Panel("learning rate", {"learning_rate": ""}),
]


def canvas(width: float, height: float):
    """An empty figure; width and height are in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure, file: Path, dpi: int = 200):
    """Write a picture in one step, so that a killed run leaves no part of one."""
    partial = file.with_name(file.name + ".partial")
    figure.savefig(partial, dpi=dpi, format="png")
    partial.replace(file)


def escaped(text: str) -> str:
    """The text as matplotlib must be passed it to draw it unchanged: a $ would begin a formula, and
    a leading _ would hide the text from a legend."""
    return clean(text).replace("$", r"\$").lstrip("_")


def error_bars(shares: list[float], bounds: list[tuple[float, float]]) -> list[list[float]]:
    """The distances from each share down and up to the bounds of its interval, in the form in which
    matplotlib takes error bars."""
    pairs = list(zip(shares, bounds, strict=True))
    below = [max(0, share - low) for share, (low, _) in pairs]
    above = [max(0, high - share) for share, (_, high) in pairs]
    return [below, above]


def bounds_of(line: dict) -> tuple[float, float]:
    """Wilson's 95% interval of the accuracy in a line of `metrics.jsonl` that says which problems
    were right."""
    return wilson(line[RIGHT].count("1"), len(line[RIGHT]))


def curves(file: Path, metrics: list[dict]) -> bool:
    """Draw the lines of a run's `metrics.jsonl`, a panel for each quantity over the steps, and
    return whether there was anything to draw."""
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
    rows = math.ceil(len(panels) / COLUMNS)
    figure = canvas(8, 2.1 * rows)  # 800 pixels wide where a reader sees it
    all_axes = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    for axes, (panel, lines) in zip(all_axes, panels, strict=False):
        _draw_panel(axes, panel, lines)
        if ACCURACY in panel.names:
            _draw_interval(axes, metrics)
    for axes in all_axes[len(panels) :]:
        axes.set_axis_off()
    save(figure, file)
    return True


def _rewards_panel(metrics: list[dict]) -> Panel:
    """The panel with the mean of each reward that was logged."""
    logged = {key for line in metrics for key in line}
    names = {}
    for key in sorted(logged):
        if key.startswith("rewards/") and key.endswith("/mean"):
            names[key] = key.removeprefix("rewards/").removesuffix("/mean")
    return Panel("rewards, unweighted", dict(list(names.items())[:MAX_REWARDS]))


def _draw_panel(axes, panel: Panel, lines: dict[str, list[tuple[int, float]]]):
    """Draw the (step, value) points of each metric."""
    for name, points in lines.items():
        steps, values = zip(*points, strict=True)
        marker = "." if len(points) <= FEW_POINTS else None
        label = escaped(name[:24])
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
    """Draw the 95% interval of each accuracy whose line says which problems were right."""
    judged = [line for line in metrics if ACCURACY in line and RIGHT in line]
    if not judged:
        return
    steps = [line["step"] for line in judged]
    lows, highs = zip(*map(bounds_of, judged), strict=True)
    axes.fill_between(steps, lows, highs, alpha=0.2, linewidth=0)
    axes.set_title(f"held-out accuracy (n = {len(judged[-1][RIGHT])})", fontsize=9)


def accuracies(file: Path, title: str, labels: list[str], groups: list[tuple[str, int, list]]):
    """Draw the accuracies of models on groups of problems, as bars with their intervals.

    Args:
        labels: the models'.
        groups: (name, number of problems, [(accuracy, interval) of every model]).
    """
    figure = canvas(max(4.0, 1.2 * len(groups) + 2.5), 3.6)
    axes = figure.subplots()
    width = 0.8 / len(labels)
    for i, label in enumerate(labels):
        heights, bounds = zip(*(means[i] for _, _, means in groups), strict=True)
        offset = (i - (len(labels) - 1) / 2) * width
        centres = [group + offset for group in range(len(groups))]
        bars = error_bars(heights, bounds)
        axes.bar(centres, heights, width, yerr=bars, capsize=3, label=escaped(label[:32]))
    ticks = [f"{escaped(name[:24])}\nn = {n}" for name, n, _ in groups]
    axes.set_xticks(range(len(groups)), ticks)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_title(f"{escaped(title[:60])}: accuracy, 95% intervals", fontsize=10)
    axes.legend(
        fontsize=8,
        frameon=False,
        ncols=len(labels),
        loc="upper center",
        bbox_to_anchor=(0.5, -0.15),
    )
    save(figure, file, 150)


def histogram(file: Path, title: str, bins: list[tuple[str, int]]):
    """Draw the number of problems in each bin, of which each is (name, number)."""
    figure = canvas(max(4.0, 0.5 * len(bins) + 1.5), 3.6)
    axes = figure.subplots()
    names, counts = zip(*bins, strict=True)
    axes.bar(names, counts)
    axes.tick_params(axis="x", labelsize=8, rotation=60)
    axes.set_ylabel("problems")
    axes.set_title(title, fontsize=10)
    save(figure, file, 150)
