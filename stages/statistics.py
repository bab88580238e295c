"""Accuracies with their intervals, and the verdict of paired differences, from the answers on disk alone."""

import json
import math
from itertools import pairwise
from pathlib import Path

from scipy.stats import binomtest

ALPHA = 0.05
EXAMPLES = 3  # of each kind of flip, in report.md


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


def mcnemar(won: int, lost: int) -> float:
    """Exact p of as uneven a split of the flips if wins and losses were equally likely (McNemar 1947, two-sided)."""
    return float(binomtest(won, won + lost).pvalue) if won + lost else 1.0


def verdict(before: list[bool], after: list[bool]) -> str:
    """What changed over the same problems, in one sentence. A change is claimed only where it is both over two standard
    errors and of p < 0.05."""
    mean, error = paired_difference(before, after)
    won = sum(b and not a for a, b in zip(before, after, strict=True))
    lost = sum(a and not b for a, b in zip(before, after, strict=True))
    p = mcnemar(won, lost)
    figures = f"{100 * mean:+.1f} ± {200 * error:.1f} points"
    counted = f"n = {len(before)}, {won} won, {lost} lost, p = {p:.2g}"
    if abs(mean) > 2 * error and p < ALPHA:
        return f"{figures} ({counted})"
    return f"no significant change ({figures}, {counted})"


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
    """The table of a benchmark's models over the problems all of them answered, and the verdict between each two
    neighbours. Left in the folder as `report.md`, with accuracies by level and subject and with flips to read, and as
    figures in `summary.json`."""
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
    flips = []
    for before, after in pairwise(labels):
        right = [[item["right"] is True for item in answers[label]] for label in (before, after)]
        lines += ["", f"{before} → {after}: {verdict(*right)}"]
        flips += _flips(before, after, answers[before], answers[after])
    text = "\n".join(lines)
    parts = [text, *_by(answers, "level"), *_by(answers, "subject"), *flips]
    (folder / "report.md").write_text("\n".join(parts) + "\n", encoding="utf-8")
    (folder / "summary.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return text


def _by(answers: dict[str, list[dict]], key: str) -> list[str]:
    """Accuracy of every model by level or subject, where the data has them."""
    values = sorted({item[key] for items in answers.values() for item in items if item.get(key)})
    if not values:
        return []
    lines = ["", f"| {key} | n | {' | '.join(answers)} |", "| --- | ---: |" + " ---: |" * len(answers)]
    for value in values:
        shares = []
        for items in answers.values():
            right = [item["right"] is True for item in items if item.get(key) == value]
            low, high = wilson(sum(right), len(right))
            shares.append(f"{sum(right) / len(right):.1%} ({low:.0%} to {high:.0%})")
        lines.append(f"| {value} | {len(right)} | {' | '.join(shares)} |")
    return lines


def _flips(before: str, after: str, old: list[dict], new: list[dict]) -> list[str]:
    """The first few problems won and lost, to read."""
    lines = []
    for kind, gained in (("won", True), ("lost", False)):
        flipped = [
            (a, b) for a, b in zip(old, new, strict=True) if (b["right"] is True) == gained != (a["right"] is True)
        ]
        if flipped:
            lines += ["", f"## {before} → {after}: {kind}, {min(EXAMPLES, len(flipped))} of {len(flipped)}"]
        for a, b in flipped[:EXAMPLES]:
            lines += [
                "",
                f"{a['problem']}",
                "",
                f"gold `{a['gold']}`, {before} `{a['answer']}`, {after} `{b['answer']}`",
            ]
    return lines


def _read(file: Path) -> dict[int, dict]:
    lines = file.read_text(encoding="utf-8").splitlines()[1:]
    return {item["id"]: item for item in map(json.loads, lines)}
