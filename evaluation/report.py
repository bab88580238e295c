"""Writes the report of an evaluation, from the completions on disk alone: table, verdicts, and
flips to read."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path

import numpy as np

from console.terminal import inline
from data.identity import fingerprint
from evaluation.pages import page
from evaluation.statistics import (
    change,
    in_words,
    interval,
    majority,
    paired_difference,
    pass_at_k,
    verdict,
)
from runs.files import read_lines, read_object, write_whole
from runs.records import CONTROL, read_completions
from schema.stages import STAGES
from training.trends import may_have_fallen

EXAMPLES = 3  # of each kind of flip
STORY_CHARACTERS = 300  # of a text in the lines for a person
MAX_GROUPS = 50  # beyond that many levels or subjects there is no table of them
TERMS = ("problems", "samples", "temperature", "top_p", "max_new_tokens", "strict", "tolerance")
TERMS += ("judge",)

Samples = list[dict]  # the judged completions of one problem


@dataclass(frozen=True)
class Answered:
    """A model's completions of the problems that all compared models have, by the problems'
    ids. `terms`: the settings that they depend on. `timed`: the file with the time of each batch.
    """

    terms: dict
    problems: dict[int, Samples]
    timed: Path

    def shares(self, key: str = "correct", ids: Iterable[int] = ()) -> list[float]:
        """For each problem, or those with these ids, the share of its completions that are
        correct."""
        shares = []
        for i in ids or self.problems:
            correct = [answer[key] is True for answer in self.problems[i]]
            shares.append(sum(correct) / len(correct))
        return shares

    @cached_property
    def figures(self) -> dict:
        """What the report says of the model. An answer whose gold the verifier cannot judge counts
        as not correct."""
        shares = self.shares()
        samples = min(map(len, self.problems.values()))
        figures = {"n": len(shares), "samples": samples, "accuracy": sum(shares) / len(shares)}
        figures["interval_95"] = list(interval(shares))
        if samples > 1:
            for name, values in _sample_measures(self.problems, samples).items():
                figures[name] = sum(values) / len(values)
                figures[f"{name}_interval_95"] = list(interval(values))
        completions = list(chain.from_iterable(self.problems.values()))
        totals = Counter()
        for completion in completions:
            totals["strict"] += completion["strict"] is True
            totals["lenient"] += completion["lenient"] is True
            totals["answered"] += completion["answer"] is not None
            totals["truncated"] += completion["truncated"]
            totals["mean_tokens"] += completion["tokens"]
        for name, total in totals.items():
            figures[name] = total / len(completions)
        seconds, tokens = batches(self.timed).sum(axis=0)
        if seconds:
            figures["tokens_per_second"] = float(tokens / seconds)
        return figures


def write(folder: Path, models: dict[str, Answered]) -> str:
    """Write the report of a benchmark: `report.md`, with accuracy by level and subject, how much of
    the gain is format, and flips to read, and `summary.json` with the same figures. Return its
    first part for a terminal, a table of six columns."""
    content = benchmark(folder, models)
    tables = [*_by(models, "level"), *_by(models, "subject")]
    flips = []
    for before, after in pairwise(_without_control(models)):
        flips += _flips(before, after, models)
    text = page("evaluation.md", content | {"tables": tables, "flips": flips})
    figures = {label: model.figures for label, model in models.items()}
    write_whole(folder / "report.md", text)
    write_whole(folder / "summary.json", json.dumps(figures, indent=2) + "\n")
    return page("benchmark.md", content | _few_columns(content["samples"])).rstrip("\n")


def _few_columns(samples: int) -> dict:
    """What of a benchmark's content a table of six columns has otherwise than `report.md`."""
    measures = ["answered", "truncated"]
    if samples > 1:
        measures[0] = f"pass@{samples}"
    return {"measures": measures, "has_speed": False}


def compare(folder: Path, labels: list[str]) -> dict[str, Answered]:
    """The models of a benchmark's folder by label, with their completions. Raises ValueError
    where completions are missing, or cannot be compared."""
    return compared(
        folder, {label: read_completions(folder / f"{label}.jsonl") for label in labels}
    )


def compared(folder: Path, lines_of_models: dict[str, list[dict]]) -> dict[str, Answered]:
    """What `compare` returns, of the lines of the models' files."""
    terms = {}
    by_problem = {}
    labels = list(lines_of_models)
    for label, lines in lines_of_models.items():
        if len(lines) < 2:
            raise ValueError(f"{folder / label}.jsonl holds no completions")
        terms[label] = lines[0]
        differing = differing_settings(terms[labels[0]], lines[0])
        if differing:
            raise ValueError(
                f"{label} and {labels[0]} cannot be compared: they differ in {', '.join(differing)}"
            )
        by_problem[label] = defaultdict(list)
        for answer in lines[1:]:
            by_problem[label][answer["id"]].append(answer)
    common = sorted(set.intersection(*map(set, by_problem.values())))
    if not common:
        raise ValueError(f"{folder}: {', '.join(labels)} have no answered problem in common")
    models = {}
    for label in labels:
        problems = {i: by_problem[label][i] for i in common}
        models[label] = Answered(terms[label], problems, folder / f"{label}.seconds.jsonl")
    return models


def benchmark(folder: Path, models: dict[str, Answered]) -> dict:
    """The content of `benchmark.md`: figures of each model, a verdict between each and the next,
    and how many of the problems a run was trained on, by its label."""
    first = next(iter(models.values()))
    sampling = {}
    for key, default in (("temperature", 0), ("top_p", 1), ("tolerance", 0)):
        if first.terms.get(key, default) != default:
            sampling[key] = first.terms[key]
    measures = [key for key in first.figures if "@" in key and "interval" not in key]
    samples = first.figures["samples"]
    return {
        "name": folder.name,
        "n": first.figures["n"],
        "samples": samples,
        "sampling": sampling,
        "accuracy": _accuracy_name(samples),
        "measures": [*measures, "strict", "lenient", "answered", "truncated"],
        "has_speed": True,
        "models": {label: model.figures for label, model in models.items()},
        "verdicts": _verdicts(models),
        "advice": _advice_on_pairs(models),
        "gains": _gains_judged(models),
        "trained_on": _trained_on(folder, models),
    }


def _trained_on(folder: Path, models: dict[str, Answered]) -> dict[str, int]:
    """How many of the problems each run was trained on, by its data.json; only where it was."""
    problems = next(iter(models.values())).problems.values()
    fingerprints = Counter(fingerprint(samples[0]) for samples in problems)
    counts = {}
    for label, model in models.items():
        # a model that is no stage of this recipe may be the folder of another's run
        run = Path(str(model.terms.get("model")))
        if label in STAGES:
            run = folder.parent.parent / label
        data = read_object(run / "data.json") or {}
        trained = fingerprints.keys() & str(data.get("train")).split()
        trained -= {*str(data.get("overlapping")).split()}
        if trained:
            counts[label] = sum(map(fingerprints.get, trained))
    return counts


def warnings_of(folder: Path, models: dict[str, Answered]) -> list[str]:
    """What the report of a benchmark warns of."""
    n = len(next(iter(models.values())).problems)
    lines = []
    for label, count in _trained_on(folder, models).items():
        lines.append(f"{label} was trained on {count:,} of these {n:,} problems.")
    advice = _advice_on_pairs(models)
    if advice:
        lines.append(f"{advice}.")
    return lines


def story(before: str, after: str, models: dict[str, Answered]) -> tuple[dict, dict] | None:
    """The first completions of both models to the problem that was won and is read most quickly:
    if possible with an answer before, too, and none cut off. None where none was won."""
    won = []
    for number, samples in models[before].problems.items():
        old = samples[0]
        new = models[after].problems[number][0]
        if new["correct"] is True and old["correct"] is not True:
            won.append((old, new))
    return min(won, key=_reading_time, default=None)


def _reading_time(pair: tuple[dict, dict]) -> tuple:
    old, new = pair
    texts = (old["problem"], old.get("completion"), new.get("completion"))
    return old["answer"] is None, old["truncated"], sum(len(str(text)) for text in texts)


def gain_lines(benchmark: str, models: dict[str, Answered]) -> list[str]:
    """What training has gained on a benchmark, for a person: a problem that the last model solves
    and the one before did not, with both completions; the accuracies, the gain in words, and where
    to look if that made the model worse."""
    labels = _without_control(models)
    before, after = labels[-2:]
    heading = benchmark
    samples = models[after].figures["samples"]
    if samples > 1:
        heading += f", {_accuracy_name(samples)}"
    steps = [f"{label} {models[label].figures['accuracy']:.1%}" for label in labels]
    lines = [
        *_story_lines(before, after, models),
        f"{heading}: {' → '.join(steps)}",
        "; ".join(in_words(models[before].shares(), models[after].shares())),
    ]
    advice = _advice(before, after, models)
    if advice:
        lines.append(advice)
    return lines


def _story_lines(before: str, after: str, models: dict[str, Answered]) -> list[str]:
    """A problem that was won, and both completions to it; none where none was won."""
    pair = story(before, after, models)
    if pair is None:
        return []
    lines = [_shortened(pair[0]["problem"])]
    width = max(len(before), len(after))
    for label, sign, answer in zip((before, after), "✗✓", pair, strict=True):
        lines.append(f"  {label:<{width}}  {sign}  {_shortened(answer.get('completion'))}")
    return [*lines, ""]


def _shortened(text: object) -> str:
    """A text on one line, its end left out where it is long."""
    line = " ".join(str(text or "").split())
    return line if len(line) <= STORY_CHARACTERS else f"{line[:STORY_CHARACTERS]} …"


def _sample_measures(problems: dict[int, Samples], samples: int) -> dict[str, list[float]]:
    """pass@k for k = 2, 4, 8 … and all samples, and maj@n: each measure of every problem."""
    sizes = [samples]
    k = 2
    while k < samples:
        sizes.insert(-1, k)
        k *= 2
    measures = defaultdict(list)
    for problem in problems.values():
        flags = [answer["correct"] is True for answer in problem]
        for size in sizes:
            measures[f"pass@{size}"].append(pass_at_k(len(flags), sum(flags), size))
        answers = [answer["answer"] for answer in problem]
        measures[f"maj@{samples}"].append(majority(answers, flags))
    return measures


def batches(file: Path) -> np.ndarray:
    """Seconds and tokens of each batch that was answered, of shape (batches, 2), from the file that
    records them. A full disk leaves a torn line, which counts nothing."""
    timed = [(batch["seconds"], batch["tokens"]) for batch in read_lines(file)]
    return np.array(timed).reshape(-1, 2)


def _accuracy_name(samples: int) -> str:
    """The name of the mean over a problem's samples, and then over the problems."""
    return f"avg@{samples}" if samples > 1 else "accuracy"


def _without_control(labels: Iterable[str]) -> list[str]:
    return [label for label in labels if label != CONTROL]


def compared_pairs(labels: list[str]) -> list[tuple[str, str]]:
    """The pairs of models that get a verdict: each model and the next, and the first and the
    last."""
    pairs = list(pairwise(labels))
    if len(labels) > 2:
        pairs.append((labels[0], labels[-1]))
    return pairs


def changes(models: dict[str, Answered]) -> dict[tuple[str, str], tuple[float, str]]:
    """(what is claimed as changed, the verdict) for each pair that is compared."""
    verdicts = {}
    for before, after in compared_pairs(_without_control(models)):
        verdicts[before, after] = change(models[before].shares(), models[after].shares())
    return verdicts


def _verdicts(models: dict[str, Answered]) -> list[dict[str, str]]:
    """A verdict for each pair that is compared, and with several samples one on whether a problem
    has a correct answer at all."""
    verdicts = []
    for (before, after), (_, sentence) in changes(models).items():
        names = {"before": before, "after": after}
        verdicts.append(names | {"measure": "", "sentence": sentence})
    samples = min(model.figures["samples"] for model in models.values())
    if samples > 1:
        for before, after in compared_pairs(_without_control(models)):
            # 1 for a problem that has a correct answer
            has_correct = np.sign([models[before].shares(), models[after].shares()])
            names = {"before": before, "after": after}
            verdicts.append(
                names | {"measure": f", pass@{samples}", "sentence": verdict(*has_correct)}
            )
    return verdicts


def _advice_on_pairs(models: dict[str, Answered]) -> str | None:
    """The advice on the first pair whose later model became worse, or may have."""
    for before, after in compared_pairs(_without_control(models)):
        advice = _advice(before, after, models)
        if advice:
            return advice
    return None


def _advice(before: str, after: str, models: dict[str, Answered]) -> str | None:
    """Where to look if a stage made the model worse, or may have: few lost problems prove nothing,
    but are worth a look."""
    shares = (models[before].shares(), models[after].shares())
    pairs = list(zip(*shares, strict=True))
    won = sum(b > a for a, b in pairs)
    lost = sum(a > b for a, b in pairs)
    word = "is" if change(*shares)[0] < 0 else "may be"
    if after not in STAGES or (word == "may be" and not may_have_fallen(won, lost)):
        return None
    paid = ", or incorrect ones paid (`make audit`)" if STAGES[after].samples else ""
    return (
        f"{after} {word} worse than {inline(before)}: read what it lost (`make view`). Are its"
        f" completions cut off{paid}? Else take a lower {after}.learning_rate"
    )


def _gains_judged(models: dict[str, Answered]) -> list[dict[str, str]]:
    """How much of the gain of the last model over the first is format: the gain judged strictly,
    judged leniently, and over the first model that is shown one worked example."""
    labels = _without_control(models)
    if len(labels) < 2:
        return []
    controls = [(labels[0], "strict"), (labels[0], "lenient")]
    if CONTROL in models:
        controls.append((CONTROL, "lenient"))
    gains = []
    for before, key in controls:
        last = models[labels[-1]].shares(key)
        mean, error = paired_difference(models[before].shares(key), last)
        points = f"{100 * mean:+.1f} ± {200 * error:.1f}"
        gains.append({"before": before, "after": labels[-1], "judged": key, "points": points})
    return gains


def _by(models: dict[str, Answered], key: str) -> list[dict]:
    """A table of the accuracy of every model by level or subject, where the data has them."""
    groups: dict[str, dict[str, list[float]]] = {}
    for label, model in models.items():
        for samples, share in zip(model.problems.values(), model.shares(), strict=True):
            if samples[0].get(key):
                by_label = groups.setdefault(str(samples[0][key]), {})
                by_label.setdefault(label, []).append(share)
    if not 0 < len(groups) <= MAX_GROUPS:
        return []
    rows = []
    for value, by_label in sorted(groups.items()):
        accuracies = []
        for shares in by_label.values():
            accuracies.append((sum(shares) / len(shares), *interval(shares)))
        rows.append({"value": value, "n": len(shares), "accuracies": accuracies})
    return [{"key": key, "rows": rows}]


def _flips(before: str, after: str, models: dict[str, Answered]) -> list[dict]:
    """A few problems that were won and lost, to read, with the first sample of each model."""
    flips = {"won": [], "lost": []}
    for i, samples in models[before].problems.items():
        old = samples[0]
        new = models[after].problems[i][0]
        if new["correct"] is True and old["correct"] is not True:
            flips["won"].append((old, new))
        if old["correct"] is True and new["correct"] is not True:
            flips["lost"].append((old, new))
    names = {"before": before, "after": after}
    sections = []
    for kind, pairs in flips.items():
        if pairs:
            section = names | {"kind": kind, "count": len(pairs), "examples": pairs[:EXAMPLES]}
            sections.append(section)
    return sections


def differing_settings(first: dict, second: dict, keys: Iterable[str] = TERMS) -> list[str]:
    """The settings in which two models' completions must agree to be compared, and do not."""
    return [key for key in keys if first.get(key) != second.get(key)]
