"""Ways of spending the same completions, side by side: a table, a sentence and a picture, made of
outcomes alone. An outcome is a line for each arm, seed and measure, which says which problems are
correct; docs/study/methods/ holds such lines too:

- `arm`: the method, or what one of its earlier rounds made; `method`, and `start`, the arm that it
  began with
- `needs`, `completions` and `seconds`: what it takes
- `measure`: `greedy`; `lenient`, the same answers read leniently; `answered`, whether they hold an
  answer; `sampled`, several answers at temperature 1
- `samples`, and `correct`: of a problem's samples how many are, a digit for each problem
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evaluation.pages import page
from evaluation.report import Answered
from evaluation.statistics import over_seeds
from runs.files import write_whole
from runs.records import BASE

CONTROL = "GRPO"
PANELS = {"greedy": "greedily", "sampled": "sampled at temperature 1"}


def lines_of(facts: dict, greedy: Answered, sampled: Answered) -> list[dict]:
    """The outcomes of a model. `facts`: what its lines say besides."""
    answered = [float(answers[0]["answer"] is not None) for answers in greedy.problems.values()]
    shares = {"greedy": greedy.shares(), "lenient": greedy.shares("lenient"), "answered": answered}
    lines = []
    for measure, of_problems in (shares | {"sampled": sampled.shares()}).items():
        samples = sampled.figures["samples"] if measure == "sampled" else 1
        correct = "".join(str(round(samples * share)) for share in of_problems)
        lines.append(facts | {"measure": measure, "samples": samples, "correct": correct})
    return lines


def in_percent(values: Sequence[float], sign: str = "") -> str:
    """The mean over seeds in percent, with its 95 % interval where there is more than one. `sign`:
    `+` for a difference."""
    mean, half = over_seeds(values)
    interval = f" ± {100 * half:.1f}" if len(values) > 1 else ""
    return f"{100 * mean:{sign}.1f}{interval}"


def scores(lines: list[dict], arm: str, measure: str) -> np.ndarray:
    """The shares of correct samples, shape (seeds, problems), the seeds in their order."""
    chosen = [line for line in lines if (line["arm"], line["measure"]) == (arm, measure)]
    chosen.sort(key=lambda line: line["seed"])
    return np.array([list(map(int, line["correct"])) for line in chosen]) / chosen[0]["samples"]


def row(lines: list[dict], name: str) -> dict:
    """What a method took and gained; each difference is paired by seed and problem."""
    base, policy, control = (scores(lines, arm, "greedy") for arm in (BASE, name, CONTROL))
    lenient = scores(lines, name, "lenient") - scores(lines, BASE, "lenient")
    answered = scores(lines, BASE, "answered")
    on_answered = ""
    if answered.any(1).all():
        on_answered = in_percent(np.average(policy - base, 1, answered), "+")
    runs = [line for line in lines if (line["arm"], line["measure"]) == (name, "greedy")]
    return {
        "name": name,
        "needs": runs[0]["needs"],
        "completions": np.mean([line["completions"] for line in runs]),
        "minutes": np.mean([line["seconds"] for line in runs]) / 60,
        "correct": in_percent(policy.mean(1)),
        "gain": in_percent((policy - base).mean(1), "+"),
        "lenient": in_percent(lenient.mean(1), "+"),
        "on_answered": on_answered,
        "to_control": in_percent((policy - control).mean(1), "+") if name != CONTROL else "",
        "solved": in_percent((scores(lines, name, "sampled") > 0).mean(1)),
    }


def sentence(lines: list[dict], names: Sequence[str]) -> str:
    """Which method is the most correct greedily, and from which others, or the base, its difference
    does not exceed the interval over seeds. One seed, or no spread over seeds, makes no
    interval."""
    shares = {name: scores(lines, name, "greedy").mean(1) for name in (BASE, *names)}
    best = max(shares, key=lambda name: shares[name].mean())
    seeds = f"{len(shares[best])} seeds" if len(shares[best]) > 1 else "one seed"
    if best == BASE:
        return f"On these problems no method is more correct than the base ({seeds})."
    rivals = []
    for name in shares:
        mean, half = over_seeds(shares[best] - shares[name])
        if name != best and (mean <= half or np.ptp(shares[best] - shares[name]) < 1e-9):
            rivals.append("the base" if name == BASE else name)
    certainty = f"but not surely more than {', '.join(rivals)}"
    if not rivals:
        certainty = "by more than the 95% interval of its lead over the base and each other method"
    return (
        f"On these problems {best} is the most correct, {certainty} ({seeds}). The same problems"
        " chose it, so expect a smaller lead on others."
    )


def write(folder: Path, lines: list[dict], notes: Sequence[str] = ()) -> str:
    """Write report.md and methods.png, and return the former. `notes`: what else to know."""
    by_name = {line["method"]: line for line in lines}
    names = [name for name in by_name if name != BASE]
    base = scores(lines, BASE, "greedy")
    content = {
        "rows": [row(lines, name) for name in names],
        "sentence": sentence(lines, names),
        "seeds": sorted({line["seed"] for line in lines}),
        "n": base.shape[1],
        "base": in_percent(base.mean(1)),
        "samples": max(line["samples"] for line in lines),
        "sampled_n": scores(lines, BASE, "sampled").shape[1],
        "control": CONTROL,
        "notes": notes,
    }
    draw(folder / "methods.png", lines, names)
    write_whole(folder / "report.md", page("methods.md", content))
    return page("methods.md", content)


def draw(file: Path, lines: list[dict], names: Sequence[str]):
    """Draw each method's share of correct answers over the completions that it had sampled, from
    the model that it began with, with a band for its 95 % interval over seeds; none for one
    seed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")  # inches
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (measure, title) in zip(panels, PANELS.items(), strict=True):
        for name in names:
            of_method = [line for line in lines if line["method"] == name]
            arms = {line["arm"] for line in of_method}
            arms |= {line["start"] for line in of_method if line["completions"]}
            completions = {line["arm"]: line["completions"] for line in lines}
            points = []
            for arm in arms:
                shares = scores(lines, arm, measure).mean(1)
                points.append((completions[arm], *over_seeds(shares)))
            places, means, halves = np.nan_to_num(np.transpose(sorted(points)), posinf=0)
            curve = axes.errorbar(places, means, halves, marker=".", capsize=3, label=name)
            band = (means - halves, means + halves)
            axes.fill_between(places, *band, alpha=0.15, color=curve.lines[0].get_color())
        axes.set(title=title, xlabel="sampled completions", ylim=(-0.02, 1.02))
    panels[0].set_ylabel("correct")
    panels[1].legend(fontsize=7, frameon=False)
    figure.savefig(file, dpi=150)
