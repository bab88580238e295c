"""The pictures: what a run logged, accuracies with their intervals, and the histogram of a
probe."""

from pathlib import Path
from typing import NamedTuple

from console.terminal import clean
from evaluation.statistics import wilson
from schema.configs import ACCURACY, RIGHT, WITHOUT_SIGNAL

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
    Panel(
        "completion length (tokens)",
        {"completions/mean_length": "mean", "completions/max_length": "longest"},
    ),
    Panel("truncated completions", {"completions/clipped_ratio": ""}, share=True),
    Panel("groups without signal", {WITHOUT_SIGNAL: ""}, share=True),
    Panel("entropy (nats a token)", {"entropy": ""}),
    Panel("KL to the reference", {"kl": ""}),
    Panel("learning rate", {"learning_rate": ""}),
]


def canvas(width: float, height: float):
    """A figure of so many inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure, file: Path, dpi: int = 200):
    """Write a picture so that it is there whole or not at all."""
    partial = file.with_name(file.name + ".partial")
    figure.savefig(partial, dpi=dpi, format="png")
    partial.replace(file)


def drawn(text: str) -> str:
    """A text as matplotlib draws it as it is: a $ is no formula, and a leading _ would hide it from
    a legend."""
    return clean(text).replace("$", r"\$").lstrip("_")


def beside(shares: list[float], bounds: list[tuple[float, float]]) -> list[list[float]]:
    """How far the bounds of shares lie below and above them, as matplotlib draws error bars."""
    both = list(zip(shares, bounds, strict=True))
    return [
        [max(0, share - low) for share, (low, _) in both],
        [max(0, high - share) for share, (_, high) in both],
    ]


def bounds_of(line: dict) -> tuple[float, float]:
    """Wilson's 95% interval of the accuracy in a line of `metrics.jsonl` that says which problems
    were right."""
    return wilson(line[RIGHT].count("1"), len(line[RIGHT]))


def curves(file: Path, metrics: list[dict]) -> bool:
    """Draw the lines of a run's `metrics.jsonl`, a panel for each quantity over the steps, and say
    whether there was anything to draw."""
    rewards = sorted(
        {
            key
            for line in metrics
            for key in line
            if key.startswith("rewards/") and key.endswith("/mean")
        }
    )
    words = {key: key.removeprefix("rewards/").removesuffix("/mean") for key in rewards[:MOST]}
    parts = Panel("rewards, unweighted", words)
    panels = []
    for panel in (PANELS[0], parts, *PANELS[1:]):
        lines = {
            word: points for key, word in panel.keys.items() if (points := _points(metrics, key))
        }
        panels += [(panel, lines)] if lines else []
    if not panels:
        return False
    rows = -(-len(panels) // COLUMNS)
    figure = canvas(8, 2.1 * rows)  # 800 pixels wide where a reader sees it
    every = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    for axes, (panel, lines) in zip(every, panels, strict=False):
        _panel(axes, panel, lines)
        if ACCURACY in panel.keys:
            _interval(axes, metrics)
    for axes in every[len(panels) :]:
        axes.set_axis_off()
    save(figure, file)
    return True


def _points(metrics: list[dict], key: str) -> list[tuple[int, float]]:
    return [(line["step"], line[key]) for line in metrics if key in line]


def _panel(axes, panel: Panel, lines: dict[str, list[tuple[int, float]]]):
    for word, points in lines.items():
        marker = "." if len(points) <= FEW else None
        axes.plot(
            *zip(*points, strict=True),
            marker=marker,
            linewidth=1.2,
            markersize=4,
            label=drawn(word[:24]),
        )
    axes.set_title(panel.title, fontsize=9)
    axes.set_xlabel("step", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.locator_params(axis="x", nbins=5, integer=True)
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.share:
        # whole, or the noise of a quantity that stays near 0 would fill the picture
        axes.set_ylim(-0.02, 1.02)
    form = "{:.0%}" if panel.share else "{:.3g}"
    axes.yaxis.set_major_formatter(lambda value, _: form.format(value))
    if any(lines):
        axes.legend(fontsize=7, frameon=False)


def _interval(axes, metrics: list[dict]):
    """The 95% interval of each accuracy, where it is known."""
    judged = [line for line in metrics if ACCURACY in line and RIGHT in line]
    if judged:
        steps, bounds = [line["step"] for line in judged], map(bounds_of, judged)
        axes.fill_between(steps, *zip(*bounds, strict=True), alpha=0.2, linewidth=0)
        axes.set_title(f"held-out accuracy (n = {len(judged[-1][RIGHT])})", fontsize=9)


def accuracies(file: Path, title: str, labels: list[str], groups: list[tuple[str, int, list]]):
    """Draw (name, n, [(accuracy, interval) of every model]) of groups of problems as bars with
    their intervals."""
    figure = canvas(max(4.0, 1.2 * len(groups) + 2.5), 3.6)
    axes, width = figure.subplots(), 0.8 / len(labels)
    for i, label in enumerate(labels):
        heights, bounds = zip(*(shares[i] for _, _, shares in groups), strict=True)
        places = [g + (i - (len(labels) - 1) / 2) * width for g in range(len(groups))]
        axes.bar(
            places, heights, width, yerr=beside(heights, bounds), capsize=3, label=drawn(label[:32])
        )
    axes.set_xticks(range(len(groups)), [f"{drawn(name[:24])}\nn = {n}" for name, n, _ in groups])
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.set_title(f"{drawn(title[:60])}: accuracy, 95% intervals", fontsize=10)
    axes.legend(
        fontsize=8,
        frameon=False,
        ncols=len(labels),
        loc="upper center",
        bbox_to_anchor=(0.5, -0.15),
    )
    save(figure, file, 150)


def histogram(file: Path, title: str, bins: list[tuple[str, int]]):
    """Draw the number of problems in each bin."""
    figure = canvas(max(4.0, 0.5 * len(bins) + 1.5), 3.6)
    axes = figure.subplots()
    axes.bar(*zip(*bins, strict=True))
    axes.tick_params(axis="x", labelsize=8, rotation=60)
    axes.set_ylabel("problems")
    axes.set_title(title, fontsize=10)
    save(figure, file, 150)
