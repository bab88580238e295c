"""Accuracies with their intervals, and paired differences, from the answers on disk."""

import json
import math
from itertools import pairwise
from pathlib import Path

from scipy.stats import binomtest


def wilson(right: int, n: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927), which stays inside 0 to 1 and is honest for small n."""
    interval = binomtest(right, n).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)


def paired_difference(before: list[bool], after: list[bool]) -> tuple[float, float]:
    """(mean, standard error) of after − before over the same problems: with d = after − before per problem, the
    standard error is sqrt(var(d) / n)."""
    differences = [int(b) - int(a) for a, b in zip(before, after, strict=True)]
    n = len(differences)
    mean = sum(differences) / n
    variance = sum((d - mean) ** 2 for d in differences) / (n - 1) if n > 1 else math.nan
    return mean, math.sqrt(variance / n)


def summary(items: list[dict]) -> dict:
    """Figures of one model on one benchmark. A gold the verifier cannot judge counts as not right."""
    n, right = len(items), sum(item["right"] is True for item in items)
    low, high = wilson(right, n)
    return {
        "n": n,
        "accuracy": right / n,
        "interval_95": [low, high],
        "strict": sum(item["strict"] is True for item in items) / n,
        "lenient": sum(item["lenient"] is True for item in items) / n,
        "answered": sum(item["answer"] is not None for item in items) / n,
        "truncated": sum(item["truncated"] for item in items) / n,
        "mean_tokens": sum(item["tokens"] for item in items) / n,
    }


def report(folder: Path, labels: list[str]) -> str:
    """The table of a benchmark's models over the problems all of them answered; also left in the folder as `report.md`,
    with the figures in `summary.json`."""
    answers = {label: _read(folder / f"{label}.jsonl") for label in labels}
    common = set.intersection(*(set(items) for items in answers.values()))
    answers = {label: [items[i] for i in sorted(common)] for label, items in answers.items()}
    figures = {label: summary(items) for label, items in answers.items()}
    lines = [
        f"| {folder.name} (n = {len(common)}) | accuracy | 95 % interval | strict | lenient | answered | truncated "
        "| tokens |",
        "| --- | ---: | :---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for label, f in figures.items():
        low, high = f["interval_95"]
        lines.append(
            f"| {label} | {f['accuracy']:.1%} | {low:.1%} to {high:.1%} | {f['strict']:.1%} | {f['lenient']:.1%} "
            f"| {f['answered']:.1%} | {f['truncated']:.1%} | {f['mean_tokens']:.0f} |"
        )
    for before, after in pairwise(labels):
        right = [[item["right"] is True for item in answers[label]] for label in (before, after)]
        lines += ["", _sentence(before, after, *paired_difference(*right))]
    text = "\n".join(lines)
    (folder / "report.md").write_text(text + "\n", encoding="utf-8")
    (folder / "summary.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return text


def _sentence(before: str, after: str, mean: float, error: float) -> str:
    verdict = "" if abs(mean) > 2 * error else ": no significant change"
    return f"{before} → {after}: {100 * mean:+.1f} ± {200 * error:.1f} points (paired, 2 standard errors){verdict}"


def _read(file: Path) -> dict[int, dict]:
    lines = file.read_text(encoding="utf-8").splitlines()[1:]
    return {item["id"]: item for item in map(json.loads, lines)}
