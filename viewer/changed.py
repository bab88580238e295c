"""The same held-out questions before and after training: which were won, which lost, and both answers to each."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from runs.answers import evaluations, read
from runs.folder import inside
from viewer.groups import CUT, EXCERPT

# (right before, right after): what became of a question, in the order of the list.
KINDS = {(False, True): "won", (True, False): "lost", (False, False): "wrong twice", (True, True): "right twice"}


def changed(run: Path, benchmark: str, before: str, after: str) -> dict[str, Any]:
    """Each question that both models answered, with what became of it, flips first. With several samples a question,
    the first of each counts here; the report has them all.

    Raises:
        ValueError: there is no such evaluation.
    """
    answers = [_first(run, benchmark, label) for label in (before, after)]
    of_kind = {kind: [] for kind in KINDS.values()}
    for each in sorted(answers[0].keys() & answers[1].keys()):
        kind = KINDS[answers[0][each]["right"] is True, answers[1][each]["right"] is True]
        of_kind[kind].append({"id": each, "question": str(answers[0][each]["problem"])[:EXCERPT], "kind": kind})
    counts = {kind: len(rows) for kind, rows in of_kind.items()}
    rows = [row for rows in of_kind.values() for row in rows]
    return {"rows": rows, "counts": counts, "before": before, "after": after}


def pair(run: Path, benchmark: str, before: str, after: str, question: int) -> dict[str, Any]:
    """A question and both answers to it.

    Raises:
        ValueError: there is no such evaluation or question.
    """
    answers = [_first(run, benchmark, label) for label in (before, after)]
    if any(question not in each for each in answers):
        raise ValueError(f"{benchmark} has no question {question} that both answered")
    shown = [
        {key: each[question].get(key) for key in ("answer", "right", "reason", "tokens", "truncated")}
        | {"label": label, "text": str(each[question].get("response") or "")[:CUT]}
        for label, each in zip((before, after), answers, strict=True)
    ]
    first = answers[0][question]
    return {"question": str(first["problem"])[:CUT], "gold": str(first["gold"])[:CUT], "answers": shown}


def _first(run: Path, benchmark: str, label: str) -> dict[int, dict]:
    there = evaluations(run)
    if label not in there.get(benchmark, []):
        raise ValueError(f"there is no evaluation of {label} on {benchmark}")
    file = inside(run.parent, f"eval/{benchmark}/{label}.jsonl")
    state = file.stat()
    return _answers(file, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4)
def _answers(file: Path, _changed: int, _size: int) -> dict[int, dict]:
    first: dict[int, dict] = {}
    for each in read(file)[1:]:
        first.setdefault(each["id"], each)
    return first
