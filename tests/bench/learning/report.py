"""The table and the plot of the benchmark of learning, from its lines."""

import math
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.bench.learning.arms import DEFAULTS, TUNED, Task


def area(line: dict, completions: int) -> float:
    """Mean accuracy over the completions generated, by the trapezoid rule, in percent. An arm that throws some away
    may have gone beyond them."""
    at = np.union1d([each for each in line["generated"] if each < completions], completions)
    return 100 * float(np.trapezoid(accuracy(line, at), at)) / completions


def accuracy(line: dict, at) -> np.ndarray:
    """The curve at these counts of completions, between two of its points by a straight line."""
    return np.interp(at, line["generated"], line["accuracy"])


def reached(line: dict, wanted: float) -> float:
    """After how many completions the curve first reaches an accuracy; infinite where it never does."""
    before, earlier = 0, line["accuracy"][0]
    for at, found in zip(line["generated"], line["accuracy"], strict=True):
        if found >= wanted:
            return before + (at - before) * ((wanted - earlier) / (found - earlier) if found > earlier else 1.0)
        before, earlier = at, found
    return math.inf


def interval(values: list[float], middle: Callable = np.mean) -> str:
    """The middle of one value per seed, and its 95% percentile bootstrap interval over the seeds (Efron and Tibshirani
    1993, chapter 13)."""
    if len(values) < 3:
        return _number(middle(values)) if values else ""
    picks = np.random.default_rng(0).integers(len(values), size=(4000, len(values)))
    each = np.sort(middle(np.asarray(values)[picks], axis=1))
    return f"{_number(middle(values))} ({_number(each[100])} to {_number(each[-101])})"


def _number(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "never"


def by_arm(lines: list[dict]) -> dict[str, dict[int, dict]]:
    arms = defaultdict(dict)
    for line in lines:
        arms[line["arm"]][line["seed"]] = line
    return arms


def table(task: Task, lines: list[dict]) -> str:
    """One row for each arm, the best area first. Ratios are taken within a seed."""
    arms = by_arm(lines)
    areas = {arm: {seed: area(line, task.completions) for seed, line in each.items()} for arm, each in arms.items()}

    def over(arm: str, other: str) -> str:
        both = sorted(areas[arm].keys() & areas.get(other, {}).keys())
        return interval([areas[arm][seed] / areas[other][seed] for seed in both if areas[other][seed]])

    rows = []
    for arm in sorted(arms, key=lambda arm: -np.mean([*areas[arm].values()])):
        of, tuned = arms[arm], arms.get(TUNED, {})
        ends = {seed: accuracy(line, task.completions) for seed, line in tuned.items()}
        needed = [reached(of[seed], ends[seed]) / task.completions for seed in sorted(of.keys() & ends.keys())]
        found = [*areas[arm].values()]
        error = np.std(found, ddof=1) / math.sqrt(len(found)) if len(found) > 1 else math.nan
        final = 100 * np.mean([accuracy(line, task.completions) for line in of.values()])
        flat = np.mean([line["no_signal"] for line in of.values()])
        rows.append(
            f"| {arm} | {len(of)} | {np.mean(found):.1f} ± {2 * error:.1f} | {over(arm, DEFAULTS)} | "
            f"{over(arm, TUNED)} | {final:.1f} | {interval(needed, np.median)} | {flat:.2f} |"
        )
    first = lines[0]
    return "\n".join(
        [
            f"{task.name}: {task.completions:,} completions, n = {first['n']} {first['problems']} problems\n",
            "| arm | seeds | area, % | ÷ trl's defaults | ÷ tuned trl | final, % | completions to tuned trl's final | "
            "no signal |",
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
    text = table(task, lines)
    (folder / "learning.md").write_text(text + "\n", encoding="utf-8")
    plot(task, lines, folder / "learning.png")
    return f"\n{text}\n\nlines, table and plot: {folder}"
