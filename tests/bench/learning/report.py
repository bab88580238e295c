"""The table and the plot of the benchmark of learning, from its lines."""

import math
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy.optimize import isotonic_regression

from evaluation.statistics import over_seeds
from tests.bench.learning.arms import DEFAULTS, TUNED, Task

FEW = 3  # seeds, at least, for an interval
START = 0.05  # accuracy of a warm start below which a seed is left out: ratios of areas near 0 are noise


def area(line: dict, completions: int) -> float:
    """Mean accuracy over the completions generated, by the trapezoid rule, in percent. An arm that throws some away
    may have gone beyond them."""
    at = np.union1d([each for each in line["generated"] if each < completions], completions)
    return 100 * float(np.trapezoid(accuracy(line, at), at)) / completions


def accuracy(line: dict, at) -> np.ndarray:
    """The curve at these counts of completions, between two of its points by a straight line."""
    return np.interp(at, line["generated"], line["accuracy"])


def smoothed(line: dict) -> dict:
    """The line with the rising curve that is nearest to its points (isotonic regression, Barlow et al. 1972): the first
    crossing of a noisy curve is too early."""
    return line | {"accuracy": isotonic_regression(line["accuracy"]).x.tolist()}


def reached(line: dict, wanted: float) -> float:
    """After how many completions the curve first reaches an accuracy; infinite where it never does."""
    before, earlier = 0, line["accuracy"][0]
    for at, found in zip(line["generated"], line["accuracy"], strict=True):
        if found >= wanted:
            return before + (at - before) * ((wanted - earlier) / (found - earlier) if found > earlier else 1.0)
        before, earlier = at, found
    return math.inf


def ratio(values: list[float]) -> str:
    """The geometric mean of one ratio per seed, and of three or more its 95% interval: Student's t over the seeds, of
    the logarithm."""
    if not values:
        return ""
    mean, half = over_seeds(np.log(values))
    bounds = f" ({math.exp(mean - half):.2f} to {math.exp(mean + half):.2f})" if len(values) >= FEW else ""
    return f"{math.exp(mean):.2f}{bounds}"


def median(values: list[float]) -> str:
    """The median of one value per seed, and the 95% percentile bootstrap interval of it over the seeds (Efron and
    Tibshirani 1993, chapter 13)."""
    if len(values) < FEW:
        return ""
    picks = np.random.default_rng(0).integers(len(values), size=(4000, len(values)))
    each = np.sort(np.median(np.asarray(values)[picks], axis=1))
    return f"{_number(np.median(values))} ({_number(each[100])} to {_number(each[-101])})"


def _number(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "never"


def by_arm(lines: list[dict]) -> dict[str, dict[int, dict]]:
    arms = defaultdict(dict)
    for line in lines:
        arms[line["arm"]][line["seed"]] = line
    return arms


def table(task: Task, lines: list[dict]) -> str:
    """One row for each arm, the best first. Ratios are taken within a seed; arms need not have the same seeds."""
    arms = by_arm(lines)
    areas = {arm: {seed: area(line, task.completions) for seed, line in each.items()} for arm, each in arms.items()}

    def over(arm: str, other: str) -> list[float]:
        both = sorted(areas[arm].keys() & areas.get(other, {}).keys())
        return [areas[arm][seed] / areas[other][seed] for seed in both if areas[arm][seed] and areas[other][seed]]

    def standing(arm: str) -> tuple[float, float]:
        within = over(arm, TUNED)
        return (np.mean(np.log(within)) if within else -math.inf), np.mean([*areas[arm].values()])

    rows = []
    for arm in sorted(arms, key=standing, reverse=True):
        needed = []
        for seed in sorted(arms[arm].keys() & arms.get(TUNED, {}).keys()):
            tuned = smoothed(arms[TUNED][seed])
            goal = float(accuracy(tuned, task.completions))
            needed.append(reached(smoothed(arms[arm][seed]), goal) / max(1.0, reached(tuned, goal)))
        mean, half = over_seeds([*areas[arm].values()])
        spread = f" ± {half:.1f}" if len(areas[arm]) >= FEW else ""
        final = 100 * np.mean([accuracy(line, task.completions) for line in arms[arm].values()])
        flat = np.mean([line["no_signal"] for line in arms[arm].values()])
        ratios = " | ".join(ratio(over(arm, other)) for other in (DEFAULTS, TUNED))
        rows.append(
            f"| {arm} | {len(arms[arm])} | {mean:.1f}{spread} | {ratios} | "
            f"{final:.1f} | {median(needed)} | {flat:.2f} |"
        )
    first = lines[0]
    return "\n".join(
        [
            f"{task.name}: {task.completions:,} completions, n = {first['n']} {first['problems']} problems\n",
            "| arm | seeds | area, % | ÷ trl's defaults | ÷ tuned trl | final, % | "
            "completions to tuned trl's final ÷ its own | no signal |",
            "| --- | ---: | ---: | :---: | :---: | ---: | :---: | ---: |",
            *rows,
        ]
    )


def plot(task: Task, lines: list[dict], file: Path):
    """Median of every arm's accuracy over its seeds, and the range of the middle half of them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    grid = np.linspace(0, task.completions, 4 * task.points + 1)
    for arm, seeds in by_arm(lines).items():
        curves = [100 * accuracy(line, grid) for line in seeds.values()]
        low, median, high = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
        (drawn,) = axes.plot(grid, median, label=f"{arm} ({len(seeds)} seeds)")
        axes.fill_between(grid, low, high, alpha=0.15, color=drawn.get_color())
    axes.set(xlabel="completions generated", ylabel="held-out accuracy, %", title=task.name, ylim=(0, 100))
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(file, dpi=120)


def write_report(task: Task, lines: list[dict], folder: Path) -> str:
    failed = sorted({line["seed"] for line in lines if line["accuracy"][0] < START})
    kept = [line for line in lines if line["seed"] not in failed]
    lines = kept or lines
    text = table(task, lines)
    if failed and kept:
        text += f"\n\nleft out, since their warm starts are right on less than {START:.0%}: seeds {failed}"
    (folder / "learning.md").write_text(text + "\n", encoding="utf-8")
    plot(task, lines, folder / "learning.png")
    return f"\n{text}\n\nlines, table and plot: {folder}"
