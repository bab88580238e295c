"""Writes the report of an evaluation, from the answers on disk alone: table, verdicts, a figure and
flips to read."""

import json
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from console.terminal import code, fenced, inline, row
from data.json_files import read_lines
from evaluation import pictures
from evaluation.statistics import change, interval, majority, paired_difference, pass_at_k, verdict
from runs.folder import CONTROL, read_answers
from schema.stages import CHAINS, STAGES
from training.checkpoints import write_whole

EXAMPLES = 3  # of each kind of flip
MOST = 50  # levels or subjects that get a row each
TERMS = ("problems", "samples", "temperature", "top_p", "max_new_tokens", "strict")

Samples = list[dict]  # the answers to one problem


class Comparison(NamedTuple):
    """`terms`: how each model answered, by its label. `answers`: to the problems that all have
    answered. `table`: the report's first part in Markdown, the table, and the verdict between each
    model and the next."""

    terms: dict[str, dict]
    answers: dict[str, list[Samples]]
    figures: dict[str, dict]
    table: list[str]


def write(folder: Path, labels: list[str]) -> str:
    """Write the report of a benchmark, and return its first part (see `Comparison`).

    The folder gets `report.md`, with accuracy by level and subject, how much of the gain is form,
    and flips to read; `summary.json` with the same figures; and `accuracy.png`.

    Raises:
        ValueError: answers are missing, or cannot be compared.
    """
    _, answers, figures, table = compare(folder, labels)
    flips = [
        line
        for before, after in pairwise(_trained(labels))
        for line in _flips(before, after, answers)
    ]
    parts = [*table, *_by(answers, "level"), *_by(answers, "subject"), *flips]
    write_whole(folder / "report.md", "\n".join(parts) + "\n")
    write_whole(folder / "summary.json", json.dumps(figures, indent=2) + "\n")
    whole = [
        (sum(shares) / len(shares), interval(shares)) for shares in map(_shares, answers.values())
    ]
    groups = [("all", figures[labels[0]]["n"], whole)]
    groups += [(f"level {value}", n, shares) for value, n, shares in _groups(answers, "level")]
    pictures.accuracies(folder / "accuracy.png", folder.name, labels, groups)
    return "\n".join(table)


def compare(folder: Path, labels: list[str]) -> Comparison:
    """Compare models by their answers in a benchmark's folder.

    Raises:
        ValueError: answers are missing, or cannot be compared.
    """
    files = {label: read_answers(folder / f"{label}.jsonl") for label in labels}
    if empty := [label for label, lines in files.items() if len(lines) < 2]:
        raise ValueError(f"{folder / empty[0]}.jsonl holds no answers")
    terms = {label: lines[0] for label, lines in files.items()}
    for label in labels[1:]:
        if differing := different(terms[labels[0]], terms[label]):
            raise ValueError(
                f"{label} and {labels[0]} cannot be compared: they differ in {', '.join(differing)}"
            )
    answers = {label: _by_problem(lines[1:]) for label, lines in files.items()}
    common = set.intersection(*(set(problems) for problems in answers.values()))
    answers = {label: [problems[i] for i in sorted(common)] for label, problems in answers.items()}
    if not common:
        raise ValueError(f"{folder}: {', '.join(labels)} have no answered problem in common")
    figures = {
        label: summary(problems, folder / f"{label}.seconds.jsonl")
        for label, problems in answers.items()
    }
    return Comparison(
        terms,
        answers,
        figures,
        [*_table(folder.name, figures, terms[labels[0]]), "", *_verdicts(answers)],
    )


def gained(folder: Path, labels: list[str]) -> list[str]:
    """What training has gained on a benchmark, in two lines: the accuracies, and the verdict on the
    last stage."""
    _, answers, figures, _ = compare(folder, labels)
    *_, before, after = labels = _trained(labels)
    steps = " → ".join(f"{label} {figures[label]['accuracy']:.1%}" for label in labels)
    average = f", {_mean(samples)}" if (samples := figures[after]["samples"]) > 1 else ""
    return [
        f"{folder.name}{average}: {steps}",
        f"{before} → {after}: {verdict(_shares(answers[before]), _shares(answers[after]))}",
    ]


def summary(problems: list[Samples], seconds: Path | None = None) -> dict:
    """The figures of one model on one benchmark. An answer whose gold the verifier cannot judge
    counts as not right."""
    every = [item for samples in problems for item in samples]
    shares = _shares(problems)
    samples = min(len(each) for each in problems)
    figures = {"n": len(problems), "samples": samples, "accuracy": sum(shares) / len(shares)}
    figures["interval_95"] = list(interval(shares))
    if samples > 1:
        right = [[item["right"] is True for item in each] for each in problems]
        ks = [*(2**i for i in range(1, samples.bit_length()) if 2**i < samples), samples]
        more = {f"pass@{k}": [pass_at_k(len(each), sum(each), k) for each in right] for k in ks}
        voted = zip(problems, right, strict=True)
        more[f"maj@{samples}"] = [
            majority([item["answer"] for item in each], verdicts) for each, verdicts in voted
        ]
        for name, each in more.items():
            figures |= {name: sum(each) / len(each), f"{name}_interval_95": list(interval(each))}
    figures |= {
        "strict": sum(item["strict"] is True for item in every) / len(every),
        "lenient": sum(item["lenient"] is True for item in every) / len(every),
        "answered": sum(item["answer"] is not None for item in every) / len(every),
        "truncated": sum(item["truncated"] for item in every) / len(every),
        "mean_tokens": sum(item["tokens"] for item in every) / len(every),
    }
    timed = batches(seconds) if seconds else []
    if took := sum(each for each, _ in timed):
        figures["tokens_per_second"] = sum(tokens for _, tokens in timed) / took
    return figures


def batches(file: Path) -> list[tuple[float, float]]:
    """(seconds, tokens) of each batch that was answered, from the file that records them. A full
    disk leaves a torn line, which counts nothing."""
    timed = []
    for batch in read_lines(file):
        with suppress(ValueError, TypeError, LookupError):
            timed.append((max(0.0, float(batch["seconds"])), float(batch["tokens"])))
    return timed


def _shares(problems: list[Samples], key: str = "right") -> list[float]:
    """For each problem, the share of its answers that are right."""
    return [sum(item[key] is True for item in samples) / len(samples) for samples in problems]


def _mean(samples: int) -> str:
    """What the mean over the samples of a problem, and then over the problems, is called."""
    return f"avg@{samples}" if samples > 1 else "accuracy"


def _table(name: str, figures: dict[str, dict], terms: dict) -> list[str]:
    first = next(iter(figures.values()))
    n = f"n = {first['n']}" + (f" × {first['samples']}" if first["samples"] > 1 else "")
    for key, usual in (("temperature", 0), ("top_p", 1)):
        n += f", {key} {inline(str(terms[key]))}" if terms.get(key, usual) != usual else ""
    extra = [key for key in first if "@" in key and "interval" not in key]
    head = [
        f"{inline(name)} ({n})",
        _mean(first["samples"]),
        "95% interval",
        *extra,
        "strict",
        "lenient",
        "answered",
        "truncated",
    ]
    head += ["tokens", "tokens/s"]
    lines = [row(head), row(["---", "---:", ":---:", *["---:"] * (len(head) - 3)])]
    for label, f in figures.items():
        low, high = f["interval_95"]
        shares = [f"{f[key]:.1%}" for key in (*extra, "strict", "lenient", "answered", "truncated")]
        speed = f"{f['tokens_per_second']:.0f}" if "tokens_per_second" in f else ""
        cells = [inline(label), f"{f['accuracy']:.1%}", f"{low:.1%} to {high:.1%}", *shares]
        lines.append(row([*cells, f"{f['mean_tokens']:.0f}", speed]))
    return lines


def _trained(labels: list[str]) -> list[str]:
    return [label for label in labels if label != CONTROL]


def compared(labels: list[str]) -> list[tuple[str, str]]:
    """Each model and the next, the warm start and what else began with it, and the first and the
    last."""
    pairs = list(pairwise(labels))
    began = [("sft", each) for each in CHAINS if {"sft", each} <= set(labels)]
    pairs += [each for each in began if each not in pairs]
    return pairs + ([(labels[0], labels[-1])] if len(labels) > 2 else [])


def verdicts(answers: dict[str, list[Samples]]) -> dict[tuple[str, str], str]:
    """A sentence for each pair that is compared."""
    right = {label: _shares(problems) for label, problems in answers.items()}
    return {(a, b): verdict(right[a], right[b]) for a, b in compared(_trained(list(answers)))}


def _verdicts(answers: dict[str, list[Samples]]) -> list[str]:
    """One verdict for each pair that is compared, where to look if a stage made it worse, and how
    much of the gain over the first model is form: that gain judged strictly, judged leniently, and
    shown one worked example.
    """
    labels = _trained(list(answers))
    pairs = compared(labels)
    right = {label: _shares(problems) for label, problems in answers.items()}
    lines = [
        f"- {inline(a)} → {inline(b)}: {sentence}" for (a, b), sentence in verdicts(answers).items()
    ]
    samples = min(len(each) for problems in answers.values() for each in problems)
    if samples > 1:
        best = {label: [float(share > 0) for share in right[label]] for label in labels}
        lines += [
            f"- {inline(a)} → {inline(b)}, pass@{samples}: {verdict(best[a], best[b])}"
            for a, b in pairs
        ]
    for a, b in [(a, b) for a, b in pairs if b in STAGES and change(right[a], right[b])[0] < 0][:1]:
        paid = ", or wrong ones paid (`make audit`)" * STAGES[b].samples
        look = (
            f"read what it lost (`make view`). Are its answers cut off{paid}? Else take a lower"
            f" {b}.learning_rate"
        )
        lines.append(f"- {b} is worse than {inline(a)}: {look}")
    if len(labels) > 1:
        first, last = labels[0], labels[-1]
        controls = [
            (f"{inline(first)} → {inline(last)}, {how}", first, how)
            for how in ("strict", "lenient")
        ]
        controls += (
            [(f"{CONTROL} → {inline(last)}, lenient", CONTROL, "lenient")]
            if CONTROL in answers
            else []
        )
        gains = []
        for words, before, how in controls:
            mean, error = paired_difference(
                _shares(answers[before], how), _shares(answers[last], how)
            )
            gains.append(f"{words} {100 * mean:+.1f} ± {200 * error:.1f}")
        lines += [f"- form or reasoning? {'; '.join(gains)} points"]
    return lines


def _by(answers: dict[str, list[Samples]], key: str) -> list[str]:
    """Accuracy of every model by level or subject, where the data has them."""
    lines = []
    for value, n, shares in _groups(answers, key):
        cells = [f"{mean:.1%} ({low:.0%} to {high:.0%})" for mean, (low, high) in shares]
        lines.append(row([inline(value), str(n), *cells]))
    head = [row([key, "n", *map(inline, answers)]), row(["---", "---:", *["---:"] * len(answers)])]
    return ["", *head, *lines] if lines else []


def _groups(answers: dict[str, list[Samples]], key: str) -> list[tuple[object, int, list]]:
    """(value, n, [(accuracy, interval) of every model]) for each level or subject."""
    values = {
        str(samples[0][key])
        for problems in answers.values()
        for samples in problems
        if samples[0].get(key)
    }
    if len(values) > MOST:
        return []
    groups = []
    for value in sorted(values, key=str):
        shares = [
            _shares([each for each in problems if str(each[0].get(key)) == value])
            for problems in answers.values()
        ]
        groups.append(
            (value, len(shares[0]), [(sum(each) / len(each), interval(each)) for each in shares])
        )
    return groups


def _flips(before: str, after: str, answers: dict[str, list[Samples]]) -> list[str]:
    """A few problems that were won and lost, to read, with the first sample of each."""
    lines, names = [], f"{inline(before)} → {inline(after)}"
    pairs = [(old[0], new[0]) for old, new in zip(answers[before], answers[after], strict=True)]
    for kind, gained in (("won", 1), ("lost", 0)):
        flipped = [
            each
            for each in pairs
            if (each[gained]["right"] is True) > (each[1 - gained]["right"] is True)
        ]
        if flipped:
            lines += ["", f"## {names}: {kind}, {min(EXAMPLES, len(flipped))} of {len(flipped)}"]
        for a, b in flipped[:EXAMPLES]:
            said = (
                f"gold {code(a['gold'])}, {inline(before)} {code(a['answer'])}, {inline(after)}"
                f" {code(b['answer'])}"
            )
            lines += ["", *fenced(str(a["problem"])), "", said]
    return lines


def different(terms: dict, others: dict) -> list[str]:
    """What two models must have in common to be compared, and have not."""
    return [key for key in TERMS if terms.get(key) != others.get(key)]


def _by_problem(items: list[dict]) -> dict[int, Samples]:
    problems: dict[int, Samples] = {}
    for item in items:
        problems.setdefault(item["id"], []).append(item)
    return problems
