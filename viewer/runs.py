"""A run's folder as the page shows it. It only reads, and only inside the folder: a run may be a
stranger's."""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from console.terminal import make_line
from evaluation.statistics import wilson
from runs.folder import (
    evaluations,
    inside,
    name_of,
    object_in,
    read_answers,
    read_metrics,
    recipe_in,
    section,
    texts,
)
from schema import configs
from schema.configs import RIGHT
from schema.sections import flat
from schema.stages import STAGES, algorithm
from training.watch import advice_on

# trl's settings that the page works with; their defaults are trl's own.
SETTINGS = (
    "num_generations",
    "scale_rewards",
    "multi_objective_aggregation",
    "loss_type",
    "beta",
    "epsilon",
)
SETTINGS += (
    "epsilon_high",
    "learning_rate",
    "max_completion_length",
    "num_iterations",
    "max_steps",
    "use_vllm",
)
SETTINGS += ("steps_per_generation", "gradient_accumulation_steps", "generation_batch_size")
SETTINGS += ("mask_truncated_completions",)
MOST_NUMBERS = 10_000_000  # steps × names of metrics
EXCERPT = 160  # characters of a question in a list
CUT = 20_000  # characters of a completion, unless it is asked for whole
# (right before, right after): what became of a question, in the order of the list.
KINDS = {
    (False, True): "won",
    (True, False): "lost",
    (False, False): "wrong twice",
    (True, True): "right twice",
}


def describe(run: Path) -> dict[str, Any]:
    """What a run is, as JSON: its names, settings, rewards with their weights, state and where its
    time went."""
    recipe, summary = recipe_in(run), object_in(run, "summary.json")
    stage = stage_of(run)
    given = configs.defaults(stage) | section(recipe, stage)
    settings = {key: _plain(given.get(key)) for key in SETTINGS} | algorithm(
        recipe.get("algorithm")
    ).shown
    options = {
        str(name): each if isinstance(each, dict) else {}
        for name, each in section(recipe, "rewards").items()
    }
    weights = {name: finite(each.get("weight")) for name, each in options.items()}
    weights = {name: 1.0 if weight is None else weight for name, weight in weights.items()}
    of_steps = [name for name, each in options.items() if "steps" in each]
    return {
        "name": name_of(run),
        "stage": stage,
        "folder": str(run),
        "explain": make_line("explain", STEP="%step", ROW="%row", RUN=[run]),
        "settings": settings,
        # A reward of steps is no part of a completion's total.
        "rewards": weights | dict.fromkeys(of_steps, 0.0),
        "weight_of_steps": weights[of_steps[0]] if of_steps else None,
        "finished": bool(summary),
        "steps": finite(summary.get("steps")),
        "stopped": (
            str(summary["stopped"])[:1000] if isinstance(summary.get("stopped"), str) else None
        ),
        "result": (
            Path(best).name if isinstance(best := summary.get("best_checkpoint"), str) else None
        ),
        "hardware": [each[:200] for each in texts(object_in(run, "versions.json").get("hardware"))],
        "evaluations": evaluations(run),
    }


def stage_of(run: Path) -> str:
    return run.name if run.name in STAGES else "grpo"


def curves(run: Path) -> dict[str, list]:
    """Every number that a run logged, as columns: "step", in order, and under each name a value or
    None for each step; beside them `held_out/…`, how many problems an evaluation asked and the 95%
    interval of its accuracy. A resumed run rewrites its lines, so they are read again whenever the
    file has changed."""
    file = inside(run, "metrics.jsonl")
    state = file.stat()
    return _curves(run, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _curves(run: Path, _changed: int, _size: int) -> dict[str, list]:
    rows: dict[int, dict] = {}
    for line in read_metrics(run):
        row = rows.setdefault(line["step"], {})
        if right := line.pop(RIGHT, None):
            low, high = wilson(right.count("1"), len(right))
            line |= {"held_out/n": len(right), "held_out/low": low, "held_out/high": high}
        # An evaluation has a line of its own, with seconds of its own.
        spent = {
            key: row[key] + line[key]
            for key in row.keys() & line.keys()
            if key.startswith("seconds/")
        }
        row.update(line | spent)
    steps, names = sorted(rows), set().union(*rows.values())
    if len(steps) * len(names) > MOST_NUMBERS:
        raise ValueError(f"{run} logged more numbers than a page can show")
    columns = {name: [finite(rows[step].get(name)) for step in steps] for name in sorted(names)}
    return columns | {"step": steps}


def advice(run: Path) -> list[dict[str, Any]]:
    """What the rules of docs/health.md, which are for GRPO, say of the run so far."""
    if stage_of(run) != "grpo":
        return []
    return [advice._asdict() for advice in advice_on(read_metrics(run), recipe_in(run))]


def _plain(value: Any) -> Any:
    """A setting as the page may have it: text, a truth value or a number that JSON knows."""
    whole = type(value) is int and abs(value) < 2**53
    return value if whole or isinstance(value, str | bool) else finite(value)


def finite(value: Any) -> float | None:
    """The number with six digits; None for what JSON does not know as one, or what has no
    square."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(f"{value:.6g}") if number and abs(value) < 1e150 else None


def about(run: Path) -> dict[str, dict[str, str]]:
    """What a run was made of, as texts by `section.key`: its `recipe` as it was saved; that
    `filled` with the libraries' defaults; its `data`, and the `versions` of all that trained it."""
    recipe = recipe_in(run)
    filled = {
        name: configs.defaults(name) | STAGES[name].defaults | each
        for name, each in recipe.items()
        if name in STAGES and isinstance(each, dict)
    }
    found = {"recipe": recipe, "filled": recipe | filled}
    found |= {name: object_in(run, f"{name}.json") for name in ("data", "versions")}
    return {
        name: {str(key): _text(value) for key, value in flat(each).items()}
        for name, each in found.items()
    }


def _text(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        value = ", ".join(value)
    return (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    )[:2000]


# The same held-out questions before and after training --------------------------------------------


def changed(run: Path, benchmark: str, before: str, after: str) -> dict[str, Any]:
    """Each question that both models answered, with what became of it, flips first. With several
    samples a question, the first of each counts here; the report has them all.

    Raises:
        ValueError: there is no such evaluation.
    """
    answers = [_first(run, benchmark, label) for label in (before, after)]
    of_kind = {kind: [] for kind in KINDS.values()}
    for each in sorted(answers[0].keys() & answers[1].keys()):
        kind = KINDS[answers[0][each]["right"] is True, answers[1][each]["right"] is True]
        of_kind[kind].append(
            {"id": each, "question": str(answers[0][each]["problem"])[:EXCERPT], "kind": kind}
        )
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
        {
            key: each[question].get(key)
            for key in ("answer", "right", "reason", "tokens", "truncated")
        }
        | {"label": label, "text": str(each[question].get("response") or "")[:CUT]}
        for label, each in zip((before, after), answers, strict=True)
    ]
    first = answers[0][question]
    return {
        "question": str(first["problem"])[:CUT],
        "gold": str(first["gold"])[:CUT],
        "answers": shown,
    }


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
    for each in read_answers(file)[1:]:
        first.setdefault(each["id"], each)
    return first
