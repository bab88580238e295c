"""How good a run's model is, compared with the models that it started from: the figures and
sentences of the report, from the answers on disk."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from evaluation import report
from runs.folder import CONTROL, LABELS, evaluations, run_file, weights_hash
from viewer.runs import changed, finite, stage_of

FEW = 3  # won and lost questions beside a result


def results(run: Path) -> list[dict[str, Any]]:
    """The comparison of the run's model with those it started from on each benchmark, the held-out
    problems first: the `models` with their accuracy and its 95% interval; `verdicts`, the report's
    sentence for each pair of them; and `flips`, the first few questions that the run won and lost.
    `why`: the answers cannot be compared, or belong to other weights.
    """
    stage = stage_of(run)
    order = LABELS[: LABELS.index(stage) + 1] if stage in LABELS else ()
    comparisons = []
    for benchmark, evaluated in _held_out_first(evaluations(run)):
        labels = [label for label in order if label in evaluated]
        if not labels:
            continue
        states = []
        for label in labels:
            state = run_file(run.parent, f"eval/{benchmark}/{label}.jsonl").stat()
            states.append((state.st_mtime_ns, state.st_size))
        comparison = _compare(run, benchmark, tuple(labels), tuple(states), weights_hash(run))
        comparisons.append({"benchmark": benchmark} | comparison)
    return comparisons


def _held_out_first(benchmarks: dict[str, list[str]]) -> list[tuple[str, list[str]]]:
    return sorted(benchmarks.items(), key=lambda pair: (pair[0] != "held-out", pair[0]))


@lru_cache(maxsize=32)
def _compare(
    run: Path, benchmark: str, labels: tuple[str, ...], _states: tuple, weights: str | None
) -> dict[str, Any]:
    try:
        terms, answers, figures, _ = report.compare(run.parent / "eval" / benchmark, list(labels))
    except ValueError as error:
        return {"why": str(error)}
    verdicts = report.verdicts(answers)
    comparison = {
        "models": [_model(label, figures[label]) for label in labels],
        "verdicts": [[before, after, text] for (before, after), text in verdicts.items()],
    }
    stage = stage_of(run)
    if stage not in labels:
        return comparison
    if terms[stage].get("weights") != weights:
        comparison["why"] = (
            "The answers belong to other weights, or to these before the folder was copied."
        )
    earlier = [label for label in labels if label not in (CONTROL, "grpo", stage)]
    if earlier:
        comparison["flips"] = _flips(run, benchmark, earlier[-1], stage)
    return comparison


def _model(label: str, figures: dict) -> dict[str, Any]:
    return {
        "label": label,
        "interval": [finite(bound) for bound in figures["interval_95"]],
        "n": figures["n"],
        "accuracy": finite(figures["accuracy"]),
    }


def _flips(run: Path, benchmark: str, before: str, after: str) -> dict[str, Any]:
    changes = changed(run, benchmark, before, after)
    won = [row for row in changes["rows"] if row["kind"] == "won"]
    lost = [row for row in changes["rows"] if row["kind"] == "lost"]
    rows = won[:FEW] + lost[:FEW]
    return {"before": before, "after": after, "counts": changes["counts"], "rows": rows}
