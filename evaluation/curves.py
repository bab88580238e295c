"""Draws what a run logged, one small picture for each quantity, over the steps."""

from pathlib import Path
from typing import NamedTuple

from evaluation.report import drawn
from evaluation.statistics import wilson
from schema.configs import ACCURACY, RIGHT, WITHOUT_SIGNAL

Points = list[tuple[int, float]]
COLUMNS = 3
FEW = 30  # points; that many can each be seen
MOST = 8  # rewards in one picture


class Panel(NamedTuple):
    """`keys`: trl's metrics and the word for each. `share`: of something, from 0 to 1."""

    title: str
    keys: dict[str, str]
    share: bool = False


PANELS = [
    Panel("reward", {"reward": ""}),
    Panel("held-out accuracy", {ACCURACY: ""}, share=True),
    Panel("completion length (tokens)", {"completions/mean_length": "mean", "completions/max_length": "longest"}),
    Panel("truncated completions", {"completions/clipped_ratio": ""}, share=True),
    Panel("groups without signal", {WITHOUT_SIGNAL: ""}, share=True),
    Panel("entropy (nats a token)", {"entropy": ""}),
    Panel("KL to the reference", {"kl": ""}),
    Panel("learning rate", {"learning_rate": ""}),
]


def draw(file: Path, metrics: list[dict]) -> bool:
    """Draw the curves that the lines of `metrics.jsonl` hold, and say whether there were any.

    Args:
        metrics: see `evaluation.run_report.read_metrics`.
    """
    from matplotlib.figure import Figure

    rewards = sorted({key for line in metrics for key in line if key.startswith("rewards/") and key.endswith("/mean")})
    words = {key: key.removeprefix("rewards/").removesuffix("/mean") for key in rewards[:MOST]}
    parts = Panel("rewards, unweighted", words)
    curves = []
    for panel in (PANELS[0], parts, *PANELS[1:]):
        lines = {word: points for key, word in panel.keys.items() if (points := _points(metrics, key))}
        curves += [(panel, lines)] if lines else []
    if not curves:
        return False
    rows = -(-len(curves) // COLUMNS)
    figure = Figure(figsize=(8, 2.1 * rows), layout="constrained")  # 800 pixels wide where a reader sees it
    every = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    for axes, (panel, lines) in zip(every, curves, strict=False):
        _panel(axes, panel, lines)
        if ACCURACY in panel.keys:
            _interval(axes, metrics)
    for axes in every[len(curves) :]:
        axes.set_axis_off()
    partial = file.with_name(file.name + ".partial")
    figure.savefig(partial, dpi=200, format="png")
    partial.replace(file)
    return True


def _points(metrics: list[dict], key: str) -> Points:
    return [(line["step"], line[key]) for line in metrics if key in line]


def _panel(axes, panel: Panel, lines: dict[str, Points]):
    for word, points in lines.items():
        marker = "." if len(points) <= FEW else None
        axes.plot(*zip(*points, strict=True), marker=marker, linewidth=1.2, markersize=4, label=drawn(word[:24]))
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel("step", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.locator_params(axis="x", nbins=5, integer=True)
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.share:
        axes.set_ylim(-0.02, 1.02)  # whole, or the noise of a quantity that stays near 0 would fill the picture
    form = "{:.0%}" if panel.share else "{:.3g}"
    axes.yaxis.set_major_formatter(lambda value, _: form.format(value))
    if any(lines):
        axes.legend(fontsize=7, frameon=False)


def _interval(axes, metrics: list[dict]):
    """Wilson's 95% interval of each accuracy, where the line says which problems were right."""
    judged = [(line["step"], line[RIGHT]) for line in metrics if ACCURACY in line and RIGHT in line]
    if judged:
        bounds = [wilson(right.count("1"), len(right)) for _, right in judged]
        axes.fill_between([step for step, _ in judged], *zip(*bounds, strict=True), alpha=0.2, linewidth=0)
        axes.set_title(f"held-out accuracy (n = {len(judged[-1][1])})", fontsize=9)
