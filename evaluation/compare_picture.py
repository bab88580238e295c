"""The picture of `make compare`: what each arm got right, over what it had sampled."""

from pathlib import Path

from evaluation.compare_runs import Arm, ComparedRun
from evaluation.report import drawn
from evaluation.statistics import over_seeds, wilson
from schema.configs import ACCURACY, RIGHT

TITLES = {"rewards/correct_answer/mean": "right in training", ACCURACY: "right of the held-out problems"}
WINDOWS = 16  # of a curve over seeds: single batches of a run are too few completions to tell arms apart
BANDS = 3  # arms; the bands of more hide one another


def draw(file: Path, arms: list[Arm]) -> bool:
    """Draw what the runs logged of `correct_answer`, in training and on held-out problems, over the completions that
    each had sampled, or over the steps where that is not known of all; and say whether there was anything to draw. Of
    several seeds the mean in each of `WINDOWS` parts of the run, of up to `BANDS` arms with its 95% interval.
    """
    from matplotlib.figure import Figure

    logged = {key: [r for arm in arms for r in arm.runs if any(key in line for line in r.metrics)] for key in TITLES}
    keys = [key for key, runs in logged.items() if runs]
    if not keys:
        return False
    known = all(each.generated(1) is not None for runs in logged.values() for each in runs)
    figure = Figure(figsize=(max(4.5 * len(keys), 6), 3.6), layout="constrained")
    for key, axes in zip(keys, figure.subplots(1, len(keys), squeeze=False).flat, strict=True):
        for number, arm in enumerate(arms):
            look = {"color": f"C{number % 10}", "linestyle": "-" if number < 10 else "--", "linewidth": 1.3}
            label = drawn(arm.name[-32:])
            runs = [points for each in arm.runs if (points := _points(each, key, known))]
            if len(runs) > 1 and len({tuple(x for x, _ in points) for points in runs}) == 1:
                x, mean, half = zip(*over_windows(runs), strict=True)
                axes.plot(x, mean, label=label, **look)
                if len(arms) <= BANDS:
                    low, high = ([m + sign * h for m, h in zip(mean, half, strict=True)] for sign in (-1, 1))
                    axes.fill_between(x, low, high, color=look["color"], alpha=0.2, linewidth=0)
                continue
            for points in runs:
                axes.plot(*zip(*points, strict=True), label=label, **look)
                label = None  # once for all seeds
            for each in arm.runs if len(arm.runs) == 1 else ():
                _intervals(axes, each, key, known, look["color"])
        axes.set(title=TITLES[key], xlabel="completions sampled" if known else "step", ylim=(-0.02, 1.02))
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.legend(fontsize=7, frameon=False, loc="lower right")
    partial = file.with_name(file.name + ".partial")
    figure.savefig(partial, dpi=200, format="png")
    partial.replace(file)
    return True


def over_windows(runs: list[list[tuple[float, float]]]) -> list[tuple[float, float, float]]:
    """(place, mean, half of the 95% interval over runs) of up to `WINDOWS` parts of runs with the same places."""
    size = -(-len(runs[0]) // WINDOWS)
    parts = [[points[i : i + size] for points in runs] for i in range(0, len(runs[0]), size)]
    return [
        (sum(x for x, _ in part[0]) / len(part[0]), *over_seeds([sum(y for _, y in each) / len(each) for each in part]))
        for part in parts
    ]


def _points(each: ComparedRun, key: str, known: bool) -> list[tuple[float, float]]:
    return [(_place(each, line, known), line[key]) for line in each.metrics if key in line]


def _place(each: ComparedRun, line: dict, known: bool) -> float:
    return each.generated(line["step"]) if known else line["step"]


def _intervals(axes, each: ComparedRun, key: str, known: bool, color: str):
    """The 95% interval of each held-out evaluation."""
    for line in each.metrics:
        if key == ACCURACY and key in line and RIGHT in line:
            share, (low, high) = line[key], wilson(line[RIGHT].count("1"), len(line[RIGHT]))
            error = [[max(0, share - low)], [max(0, high - share)]]
            axes.errorbar([_place(each, line, known)], [share], yerr=error, fmt=".", capsize=2, color=color)
