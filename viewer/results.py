"""How good a run's model is, beside what it began with: the figures and sentences of the report,
from the answers on disk."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from evaluation import report
from runs.folder import CONTROL, LABELS, evaluations, inside, weights_hash
from viewer.runs import changed, finite, stage_of

FEW = 3  # questions that were won, and that were lost, beside a result


def results(run: Path) -> list[dict[str, Any]]:
    """What each benchmark says of the run and of what it began with, the held-out problems first:
    the `models` with their accuracy and its 95% interval; the report's sentence for each pair of
    them, `verdicts`; and `flips`, the first few questions that the run won and lost. `why`: the
    answers cannot be compared, or are those of other weights.
    """
    own, found = stage_of(run), []
    order = LABELS[: LABELS.index(own) + 1] if own in LABELS else ()
    for benchmark, there in sorted(
        evaluations(run).items(), key=lambda each: (each[0] != "held-out", each[0])
    ):
        if labels := [label for label in order if label in there]:
            files = [
                inside(run.parent, f"eval/{benchmark}/{label}.jsonl").stat() for label in labels
            ]
            stamps = tuple((each.st_mtime_ns, each.st_size) for each in files)
            found.append(
                {"benchmark": benchmark}
                | _result(run, benchmark, tuple(labels), stamps, weights_hash(run))
            )
    return found


@lru_cache(maxsize=32)
def _result(
    run: Path, benchmark: str, labels: tuple[str, ...], _changed: tuple, weights: str | None
) -> dict[str, Any]:
    try:
        terms, answers, figures, _ = report.compare(run.parent / "eval" / benchmark, list(labels))
    except ValueError as error:
        return {"why": str(error)}
    numbers = {key: {"n": f["n"], "accuracy": finite(f["accuracy"])} for key, f in figures.items()}
    models = [
        {"label": key, "interval": [*map(finite, figures[key]["interval_95"])]} | numbers[key]
        for key in labels
    ]
    told = {
        "models": models,
        "verdicts": [[a, b, text] for (a, b), text in report.verdicts(answers).items()],
    }
    trained, own = [each for each in labels if each not in (CONTROL, "grpo")], stage_of(run)
    if own in labels and terms[own].get("weights") != weights:
        told["why"] = (
            "The answers belong to other weights, or to these before the folder was copied."
        )
    before = next((each for each in trained[::-1] if each != own), None)
    if own in labels and before:
        every = changed(run, benchmark, before, own)
        won, lost = (
            [row for row in every["rows"] if row["kind"] == kind][:FEW] for kind in ("won", "lost")
        )
        told["flips"] = {
            "before": before,
            "after": own,
            "counts": every["counts"],
            "rows": won + lost,
        }
    return told
