"""A run's folder as its page shows it."""

import json
from pathlib import Path
from typing import Any

from evaluation import report
from evaluation.statistics import in_words, wilson
from runs.files import has_weights
from runs.records import (
    CONTROL,
    evaluations,
    name_of,
    read_completions,
    reduced,
    stage_of,
)
from runs.state import RunState
from schema.configs import EVAL_CORRECT, SAMPLED_AT_ONCE, SECTIONS, STEP, flat
from schema.settings import to_show
from training.watch import advice_on

# The settings that the page uses; their defaults are trl's.
SETTINGS = ("num_generations", "scale_rewards", "multi_objective_aggregation", "loss_type", "beta")
SETTINGS += ("epsilon", "epsilon_high", "learning_rate", "max_completion_length", "num_iterations")
SETTINGS += ("max_steps", "use_vllm", "mask_truncated_completions", SAMPLED_AT_ONCE, STEP["grpo"])
MOST_NUMBERS = 1_000_000  # steps × names of metrics: some 8 MB
EXCERPT = 160  # characters of a question in a list
CUT = 20_000  # characters of a completion
# The columns of an answer that a pair shows as they are.
PAIR_COLUMNS = ("answer", "correct", "reason", "tokens", "truncated")
# (correct before, correct after): how a question's answers changed, in the order of the list.
KINDS = {
    (False, True): "won",
    (True, False): "lost",
    (False, False): "incorrect twice",
    (True, True): "correct twice",
}


def describe(run: RunState) -> dict[str, Any]:
    """A run as JSON: its names, settings, rewards with their weights, state, hardware and
    evaluations."""
    stage = stage_of(run.folder)
    values = run.section(stage)
    weights, weight_of_steps = _weights(run.section("rewards"))
    best = run.summary.get("best_checkpoint")
    return {
        "name": name_of(run.folder),
        "stage": stage,
        "settings": {key: values.get(key) for key in SETTINGS},
        "rewards": weights,
        "weight_of_steps": weight_of_steps,
        "finished": run.finished,
        "steps": run.summary.get("steps"),
        "stopped": run.summary.get("stopped"),
        "result": Path(best).name if best else None,
        "hardware": run.versions.get("hardware", []),
        "evaluations": evaluations(run.folder),
    }


def _weights(rewards: dict[str, dict]) -> tuple[dict[str, float], float | None]:
    """(the weight of each reward in a completion's total, the weight of a reward of steps). A
    reward of steps is no part of a completion's total; None if there is none."""
    weights = {}
    weight_of_steps = None
    for name, options in rewards.items():
        weights[name] = options.get("weight", 1.0)
        if "steps" in options:
            weight_of_steps = weights[name]
            weights[name] = 0.0
    return weights, weight_of_steps


def curves(run: RunState, limit: int | None = None) -> dict[str, list]:
    """Every number that a run logged, as columns: "step", in order, and for each metric a value or
    None for each step; and `validation/…`, the number of problems in an evaluation and the 95%
    interval of its accuracy. A run that logged more than `limit` numbers has an even sample of its
    steps, and all with an evaluation."""
    limit = limit or MOST_NUMBERS
    rows: dict[int, dict] = {}
    for line in map(dict, run.metrics):
        row = rows.setdefault(line["step"], {})
        correct = line.pop(EVAL_CORRECT, None)
        if correct:
            low, high = wilson(correct.count("1"), len(correct))
            line |= {"validation/n": len(correct), "validation/low": low, "validation/high": high}
        # A step with an evaluation has two lines, and the seconds of both count.
        for key in row.keys() & line.keys():
            if key.startswith("seconds/"):
                line[key] += row[key]
        row.update(line)
    steps = sorted(rows)
    names = set().union(*rows.values())
    if len(steps) * len(names) > limit:
        steps = _fewer_steps(rows, limit // len(names))
    columns = {}
    for name in sorted(names):
        columns[name] = [finite(rows[step].get(name)) for step in steps]
    return columns | {"step": steps}


def _fewer_steps(rows: dict[int, dict], count: int) -> list[int]:
    """So many of the steps of `rows`, chosen evenly, beside those with an evaluation. The seconds
    of a step that is left out are added to the next that stays."""
    chosen = set(evenly(sorted(rows), count))
    seconds: dict[str, float] = {}
    steps = []
    for step in sorted(rows):
        row = rows[step]
        for key, value in row.items():
            if key.startswith("seconds/"):
                seconds[key] = seconds.get(key, 0.0) + value
        if step in chosen or "validation/n" in row:
            row |= seconds
            seconds = {}
            steps.append(step)
    return steps


def evenly(rows: list, count: int) -> list:
    """At most `count` of the rows, at even distances, including the first and the last."""
    if len(rows) <= count or count < 2:
        return rows[: max(0, count)]
    return [rows[round(i * (len(rows) - 1) / (count - 1))] for i in range(count)]


def advice(run: RunState) -> list[dict[str, Any]]:
    """The advice of docs/trouble.md's rules, which are for GRPO, on the run so far."""
    if stage_of(run.folder) != "grpo":
        return []
    advice = advice_on(run.metrics, run.recipe, run.finished)
    return [sentence._asdict() for sentence in advice]


def finite(value: Any) -> float | None:
    """The number with six digits; None for anything that is no number in JSON, or whose square is
    not finite."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and abs(value) < 1e150:
        return float(f"{value:.6g}")
    return None


def about(run: RunState) -> dict[str, dict[str, str]]:
    """The inputs of a run, as texts by `section.key`: its `recipe` without defaults of the
    libraries' fields, and `filled` with them, as it was saved; its `data`; and the `versions` of
    the software."""
    short = dict(run.recipe)
    for name in SECTIONS:
        if run.section(name):
            short[name] = to_show(name, run.section(name))
    data = {key: run.data[key] for key in ("problems", "sha256") if key in run.data}
    return {
        "recipe": _texts_by_key(reduced(short)),
        "filled": _texts_by_key(reduced(run.recipe)),
        "data": _texts_by_key(data),
        "versions": _texts_by_key(run.versions),
    }


def _texts_by_key(content: dict) -> dict[str, str]:
    by_key = {}
    for key, value in flat(content).items():
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            value = ", ".join(value)
        if not isinstance(value, str):
            value = json.dumps(value, ensure_ascii=False, default=str)
        by_key[str(key)] = value[:2000]
    return by_key


# How good its model is, and the same questions before and after training --------------------------


def results(run: Path) -> list[dict[str, Any]]:
    """The comparison of the run's model with those it started from on each benchmark: the `models`
    with their accuracy and its 95% interval; `verdicts`, the report's sentence for each pair of
    them; `warnings`, what the report warns of; and of the run's model and the one before it
    `headline`, the gain in words, `flips`, how many questions were won and lost, and `story`, one
    that was won. `why`: the answers cannot be compared, or belong to other weights."""
    stage = stage_of(run)
    comparisons = []
    for benchmark, labels in evaluations(run, stage).items():
        comparisons.append({"benchmark": benchmark} | _compare(run, benchmark, labels, stage))
    return comparisons


def _compare(run: Path, benchmark: str, labels: list[str], stage: str) -> dict[str, Any]:
    try:
        models = report.compare(run.parent / "eval" / benchmark, labels)
    except ValueError as error:
        return {"why": str(error)}
    comparison: dict[str, Any] = {"models": [], "verdicts": []}
    for label, model in models.items():
        entry = {"label": label, "interval": list(map(finite, model.figures["interval_95"]))}
        entry |= {"n": model.figures["n"], "accuracy": finite(model.figures["accuracy"])}
        comparison["models"].append(entry)
    for names, (_, verdict) in report.changes(models).items():
        comparison["verdicts"].append([*names, verdict])
    comparison["warnings"] = report.warnings_of(run.parent / "eval" / benchmark, models)
    if stage not in labels:
        return comparison
    if not has_weights(run, models[stage].terms):
        comparison["why"] = "The answers belong to other weights."
    earlier = [label for label in labels if label not in (CONTROL, "grpo", stage)]
    if earlier:
        comparison |= _gain(earlier[-1], stage, models)
    return comparison


def _gain(before: str, after: str, models: dict[str, report.Answered]) -> dict[str, Any]:
    """What `results` says of a run's model and the one before it."""
    answers = {}
    for label in (before, after):
        problems = models[label].problems
        answers[label] = {number: samples[0] for number, samples in problems.items()}
    counts = changed(answers, before, after)["counts"]
    gain, luck = in_words(models[before].shares(), models[after].shares())
    chosen = report.story(before, after, models)
    quickest = None
    if chosen:
        number = chosen[0]["id"]
        quickest = {"id": number} | pair(answers, before, after, number)
    return {
        "headline": {"gain": gain, "luck": luck},
        "flips": {"before": before, "after": after, "counts": counts},
        "story": quickest,
    }


def first_completions(run: Path, benchmark: str, label: str) -> dict[int, dict]:
    """A model's first answer to each question, by the question's id; further ones, which the report
    counts too, are left out. Raises ValueError where the file is not what an evaluation wrote."""
    answers: dict[int, dict] = {}
    file = run.parent / "eval" / benchmark / f"{label}.jsonl"
    for answer in read_completions(file)[1:]:
        answers.setdefault(answer["id"], answer)
    return answers


def changed(answers: dict[str, dict[int, dict]], before: str, after: str) -> dict[str, Any]:
    """Every question that both models answered, with the kind of its change, flips first.

    Args:
        answers: the first answers of each model, by its label.
    """
    counts = dict.fromkeys(KINDS.values(), 0)
    rows = []
    for question in sorted(answers[before].keys() & answers[after].keys()):
        first = answers[before][question]
        kind = KINDS[first["correct"] is True, answers[after][question]["correct"] is True]
        rows.append({"id": question, "question": str(first["problem"])[:EXCERPT], "kind": kind})
        counts[kind] += 1
    rows.sort(key=lambda row: list(counts).index(row["kind"]))
    return {"rows": rows, "counts": counts, "before": before, "after": after}


def pair(
    answers: dict[str, dict[int, dict]], before: str, after: str, question: int
) -> dict[str, Any]:
    """A question and both answers to it, as in `changed`."""
    first = answers[before][question]
    second = answers[after][question]
    return {
        "question": str(first["problem"])[:CUT],
        "gold": str(first["gold"])[:CUT],
        "answers": [_pair_entry(before, first), _pair_entry(after, second)],
    }


def _pair_entry(label: str, answer: dict) -> dict[str, Any]:
    entry = {key: answer.get(key) for key in PAIR_COLUMNS}
    return entry | {"label": label, "text": str(answer.get("completion") or "")[:CUT]}
