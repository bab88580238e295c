"""Writes the report of an evaluation, from the answers on disk alone: table, verdicts, and flips to
read."""

import json
from contextlib import suppress
from itertools import chain, pairwise
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from console.terminal import code, fenced, inline, row
from data.identity import fingerprint
from data.json_files import LARGEST, read_lines, read_object
from evaluation.statistics import change, interval, majority, paired_difference, pass_at_k, verdict
from runs.folder import CONTROL, read_answers
from schema.stages import CHAINS, STAGES
from training.checkpoints import write_whole

EXAMPLES = 3  # of each kind of flip
MAX_GROUPS = 50  # beyond that many levels or subjects there is no table of them
TERMS = ("problems", "samples", "temperature", "top_p", "max_new_tokens", "strict")

Samples = list[dict]  # the answers to one problem


class Comparison(NamedTuple):
    """Models compared on one benchmark; each dictionary is by the models' labels.

    Attributes:
        terms: the settings that the answers depend on.
        answers: the answers to the problems that all models have answered.
        figures: what `summary` measures of them.
        table: the report's first part in Markdown: the table, and the verdict between each model
            and the next.
    """

    terms: dict[str, dict]
    answers: dict[str, list[Samples]]
    figures: dict[str, dict]
    table: list[str]


def write(folder: Path, labels: list[str]) -> str:
    """Write the report of a benchmark: `report.md`, with accuracy by level and subject, how much of
    the gain is form, and flips to read, and `summary.json` with the same figures. Return its first
    part (see `Comparison`). Raises ValueError where answers are missing, or cannot be compared."""
    _, answers, figures, table = compare(folder, labels)
    lines = [*table, *_by(answers, "level"), *_by(answers, "subject")]
    for before, after in pairwise(_without_control(labels)):
        lines += _flips(before, after, answers)
    write_whole(folder / "report.md", "\n".join(lines) + "\n")
    write_whole(folder / "summary.json", json.dumps(figures, indent=2) + "\n")
    return "\n".join(table)


def compare(folder: Path, labels: list[str]) -> Comparison:
    """Compare models by their answers in a benchmark's folder. Raises ValueError where answers are
    missing, or cannot be compared."""
    terms = {}
    by_problem = {}
    for label in labels:
        lines = read_answers(folder / f"{label}.jsonl")
        if len(lines) < 2:
            raise ValueError(f"{folder / label}.jsonl holds no answers")
        terms[label] = lines[0]
        differing = differing_settings(terms[labels[0]], lines[0])
        if differing:
            raise ValueError(
                f"{label} and {labels[0]} cannot be compared: they differ in {', '.join(differing)}"
            )
        by_problem[label] = {}
        for answer in lines[1:]:
            by_problem[label].setdefault(answer["id"], []).append(answer)
    common = sorted(set.intersection(*map(set, by_problem.values())))
    if not common:
        raise ValueError(f"{folder}: {', '.join(labels)} have no answered problem in common")
    answers = {}
    figures = {}
    for label, problems in by_problem.items():
        answers[label] = [problems[i] for i in common]
        figures[label] = summary(answers[label], folder / f"{label}.seconds.jsonl")
    table = [*_table(folder.name, figures, terms[labels[0]]), "", *_verdict_lines(answers)]
    table += _trained_on(folder, labels, answers[labels[0]])
    return Comparison(terms, answers, figures, table)


def _trained_on(folder: Path, labels: list[str], answers: list[Samples]) -> list[str]:
    """A line for each stage that was trained on some of the problems, by its data.json."""
    fingerprints = [fingerprint(samples[0]) for samples in answers]
    lines = []
    for label in labels:
        data = read_object(folder.parent.parent / label / "data.json", LARGEST) or {}
        trained = set(str(data.get("train")).split())
        count = sum(problem in trained for problem in fingerprints)
        if label in STAGES and count:
            lines += [
                "",
                f"**{label} was trained on {count:,} of these {len(fingerprints):,} problems.**",
            ]
    return lines


def gain_lines(folder: Path, labels: list[str]) -> list[str]:
    """What training has gained on a benchmark, in two lines: the accuracies, and the verdict on the
    last stage."""
    comparison = compare(folder, labels)
    figures = comparison.figures
    labels = _without_control(labels)
    before, after = labels[-2:]
    steps = " → ".join(f"{label} {figures[label]['accuracy']:.1%}" for label in labels)
    samples = figures[after]["samples"]
    average = f", {_accuracy_name(samples)}" if samples > 1 else ""
    before_shares = shares_of(comparison.answers[before])
    after_shares = shares_of(comparison.answers[after])
    return [
        f"{folder.name}{average}: {steps}",
        f"{before} → {after}: {verdict(before_shares, after_shares)}",
    ]


def summary(problems: list[Samples], seconds: Path | None = None) -> dict:
    """The figures of one model on one benchmark. An answer whose gold the verifier cannot judge
    counts as not right. `seconds`: the file with the time of each batch."""
    shares = shares_of(problems)
    samples = min(map(len, problems))
    figures = {"n": len(problems), "samples": samples, "accuracy": sum(shares) / len(shares)}
    figures["interval_95"] = list(interval(shares))
    if samples > 1:
        for name, values in _sample_measures(problems, samples).items():
            figures[name] = sum(values) / len(values)
            figures[f"{name}_interval_95"] = list(interval(values))
    answers = list(chain.from_iterable(problems))
    figures["strict"] = fmean(answer["strict"] is True for answer in answers)
    figures["lenient"] = fmean(answer["lenient"] is True for answer in answers)
    figures["answered"] = fmean(answer["answer"] is not None for answer in answers)
    figures["truncated"] = fmean(answer["truncated"] for answer in answers)
    figures["mean_tokens"] = sum(answer["tokens"] for answer in answers) / len(answers)
    timed = batches(seconds) if seconds else []
    total = sum(batch_seconds for batch_seconds, _ in timed)
    if total:
        figures["tokens_per_second"] = sum(tokens for _, tokens in timed) / total
    return figures


def _sample_measures(problems: list[Samples], samples: int) -> dict[str, list[float]]:
    """pass@k for k = 2, 4, 8 … and all samples, and maj@n: each measure of every problem."""
    right = [[answer["right"] is True for answer in problem] for problem in problems]
    measures = {}
    k = 2
    while k < 2 * samples:
        size = min(k, samples)
        measures[f"pass@{size}"] = [pass_at_k(len(flags), sum(flags), size) for flags in right]
        k *= 2
    votes = []
    for problem, flags in zip(problems, right, strict=True):
        votes.append(majority([answer["answer"] for answer in problem], flags))
    measures[f"maj@{samples}"] = votes
    return measures


def batches(file: Path) -> list[tuple[float, float]]:
    """(seconds, tokens) of each batch that was answered, from the file that records them. A full
    disk leaves a torn line, which counts nothing."""
    timed = []
    for batch in read_lines(file):
        with suppress(ValueError, TypeError, LookupError):
            timed.append((max(0.0, float(batch["seconds"])), float(batch["tokens"])))
    return timed


def shares_of(problems: list[Samples], key: str = "right") -> list[float]:
    """For each problem, the share of its answers that are right."""
    return [fmean(answer[key] is True for answer in samples) for samples in problems]


def _accuracy_name(samples: int) -> str:
    """The name of the mean over a problem's samples, and then over the problems."""
    return f"avg@{samples}" if samples > 1 else "accuracy"


def _table(name: str, figures: dict[str, dict], terms: dict) -> list[str]:
    """A row for each model, as Markdown."""
    first = next(iter(figures.values()))
    n = f"n = {first['n']}"
    if first["samples"] > 1:
        n += f" × {first['samples']}"
    for key, default in (("temperature", 0), ("top_p", 1)):
        if terms.get(key, default) != default:
            n += f", {key} {inline(str(terms[key]))}"
    measures = [key for key in first if "@" in key and "interval" not in key]
    measures += ["strict", "lenient", "answered", "truncated"]
    head = [f"{inline(name)} ({n})", _accuracy_name(first["samples"]), "95% interval"]
    head += [*measures, "tokens", "tokens/s"]
    lines = [row(head), row(["---", "---:", ":---:", *["---:"] * (len(head) - 3)])]
    for label, values in figures.items():
        low, high = values["interval_95"]
        cells = [inline(label), f"{values['accuracy']:.1%}", f"{low:.1%} to {high:.1%}"]
        cells += [f"{values[key]:.1%}" for key in measures]
        cells.append(f"{values['mean_tokens']:.0f}")
        has_speed = "tokens_per_second" in values
        cells.append(f"{values['tokens_per_second']:.0f}" if has_speed else "")
        lines.append(row(cells))
    return lines


def _without_control(labels: list[str]) -> list[str]:
    return [label for label in labels if label != CONTROL]


def compared_pairs(labels: list[str]) -> list[tuple[str, str]]:
    """The pairs of models that get a verdict: each model and the next, the warm start and every
    stage that began with it, and the first and the last."""
    pairs = list(pairwise(labels))
    for stage in CHAINS:
        pair = ("sft", stage)
        if set(pair) <= set(labels) and pair not in pairs:
            pairs.append(pair)
    if len(labels) > 2:
        pairs.append((labels[0], labels[-1]))
    return pairs


def verdicts(answers: dict[str, list[Samples]]) -> dict[tuple[str, str], str]:
    """A sentence for each pair that is compared."""
    right = {label: shares_of(problems) for label, problems in answers.items()}
    pairs = compared_pairs(_without_control(list(answers)))
    return {(before, after): verdict(right[before], right[after]) for before, after in pairs}


def _verdict_lines(answers: dict[str, list[Samples]]) -> list[str]:
    """One verdict for each pair that is compared, where to look if a stage made the model worse,
    and how much of the gain over the first model is form."""
    labels = _without_control(list(answers))
    pairs = compared_pairs(labels)
    lines = []
    for (before, after), sentence in verdicts(answers).items():
        lines.append(f"- {inline(before)} → {inline(after)}: {sentence}")
    samples = min(len(problem) for problems in answers.values() for problem in problems)
    right = {label: shares_of(answers[label]) for label in labels}
    if samples > 1:
        best = {label: [float(share > 0) for share in right[label]] for label in labels}
        for before, after in pairs:
            sentence = verdict(best[before], best[after])
            lines.append(f"- {inline(before)} → {inline(after)}, pass@{samples}: {sentence}")
    for before, after in pairs:
        if after in STAGES and change(right[before], right[after])[0] < 0:
            lines.append(_advice(before, after))
            break
    if len(labels) > 1:
        lines.append(_form_line(answers, labels[0], labels[-1]))
    return lines


def _advice(before: str, after: str) -> str:
    """Where to look if a stage made the model worse."""
    paid = ", or wrong ones paid (`make audit`)" if STAGES[after].samples else ""
    return (
        f"- {after} is worse than {inline(before)}: read what it lost (`make view`). Are its"
        f" answers cut off{paid}? Else take a lower {after}.learning_rate"
    )


def _form_line(answers: dict[str, list[Samples]], first: str, last: str) -> str:
    """How much of the gain of the last model over the first is form: the gain judged strictly,
    judged leniently, and over the first model that is shown one worked example."""
    controls = [(first, "strict"), (first, "lenient")]
    if CONTROL in answers:
        controls.append((CONTROL, "lenient"))
    gains = []
    for before, key in controls:
        mean, error = paired_difference(
            shares_of(answers[before], key), shares_of(answers[last], key)
        )
        gains.append(
            f"{inline(before)} → {inline(last)}, {key} {100 * mean:+.1f} ± {200 * error:.1f}"
        )
    return f"- form or reasoning? {'; '.join(gains)} points"


def _by(answers: dict[str, list[Samples]], key: str) -> list[str]:
    """Accuracy of every model by level or subject, where the data has them."""
    lines = []
    for value, n, shares in _groups(answers, key):
        cells = [f"{mean:.1%} ({low:.0%} to {high:.0%})" for mean, (low, high) in shares]
        lines.append(row([inline(value), str(n), *cells]))
    head = [row([key, "n", *map(inline, answers)]), row(["---", "---:", *["---:"] * len(answers)])]
    return ["", *head, *lines] if lines else []


def _groups(answers: dict[str, list[Samples]], key: str) -> list[tuple[str, int, list]]:
    """(value, n, [(accuracy, interval) of every model]) for each level or subject."""
    values = set()
    for samples in chain.from_iterable(answers.values()):
        if samples[0].get(key):
            values.add(str(samples[0][key]))
    if len(values) > MAX_GROUPS:
        return []
    groups = []
    for value in sorted(values):
        means = []
        for problems in answers.values():
            members = [samples for samples in problems if str(samples[0].get(key)) == value]
            shares = shares_of(members)
            means.append((sum(shares) / len(shares), interval(shares)))
            n = len(members)
        groups.append((value, n, means))
    return groups


def _flips(before: str, after: str, answers: dict[str, list[Samples]]) -> list[str]:
    """A few problems that were won and lost, to read, with the first sample of each."""
    won = []
    lost = []
    for old_samples, new_samples in zip(answers[before], answers[after], strict=True):
        old = old_samples[0]
        new = new_samples[0]
        if new["right"] is True and old["right"] is not True:
            won.append((old, new))
        if old["right"] is True and new["right"] is not True:
            lost.append((old, new))
    names = f"{inline(before)} → {inline(after)}"
    lines = []
    for kind, flipped in (("won", won), ("lost", lost)):
        if flipped:
            lines += ["", f"## {names}: {kind}, {min(EXAMPLES, len(flipped))} of {len(flipped)}"]
        for old, new in flipped[:EXAMPLES]:
            sentence = (
                f"gold {code(old['gold'])}, {inline(before)} {code(old['answer'])}, {inline(after)}"
                f" {code(new['answer'])}"
            )
            lines += ["", *fenced(str(old["problem"])), "", sentence]
    return lines


def differing_settings(first: dict, second: dict) -> list[str]:
    """The settings in which two models' answers must agree to be compared, and do not."""
    return [key for key in TERMS if first.get(key) != second.get(key)]
