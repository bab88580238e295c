"""A GRPO run's folder as the page shows it. It only reads, and only inside the folder: a run may be a stranger's."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from evaluation.statistics import wilson
from runs.answers import evaluations
from runs.folder import inside, name_of, object_in, recipe_in
from runs.metrics import read_metrics
from schema import library_fields
from schema.configs import RIGHT
from schema.stages import algorithm
from schema.terminal import make_line
from training.watch import findings

# trl's settings that the page works with; their defaults are trl's own.
SETTINGS = (
    "num_generations",
    "scale_rewards",
    "multi_objective_aggregation",
    "loss_type",
    "beta",
    "epsilon",
    "epsilon_high",
    "learning_rate",
    "max_completion_length",
    "num_iterations",
    "max_steps",
    "use_vllm",
    "steps_per_generation",
    "gradient_accumulation_steps",
    "generation_batch_size",
    "mask_truncated_completions",
)
MOST_NUMBERS = 10_000_000  # steps × names of metrics


def describe(run: Path) -> dict[str, Any]:
    """What a run is, as JSON: its names, settings, rewards with their weights, state and where its time went."""
    recipe, summary = recipe_in(run), object_in(run, "summary.json")
    hardware = object_in(run, "versions.json").get("hardware")
    given = recipe.get("grpo") if isinstance(recipe.get("grpo"), dict) else {}
    rewards = recipe.get("rewards") if isinstance(recipe.get("rewards"), dict) else {}
    options = {str(name): each if isinstance(each, dict) else {} for name, each in rewards.items()}
    settings = {key: _plain((library_fields.defaults("grpo") | given).get(key)) for key in SETTINGS}
    settings |= algorithm(recipe.get("algorithm")).shown
    # A reward of steps is no part of a completion's total.
    weights = {name: 0.0 if "steps" in each else each.get("weight") for name, each in options.items()}
    of_steps = [each.get("weight") for each in options.values() if "steps" in each]
    return {
        "name": name_of(run),
        "folder": str(run),
        "explain": make_line("explain", STEP="%step", ROW="%row", RUN=[run]),
        "settings": settings,
        "rewards": {name: 1.0 if finite(weight) is None else finite(weight) for name, weight in weights.items()},
        "weight_of_steps": (1.0 if finite(of_steps[0]) is None else finite(of_steps[0])) if of_steps else None,
        "finished": bool(summary),
        "steps": finite(summary.get("steps")),
        "stopped": str(summary["stopped"])[:1000] if isinstance(summary.get("stopped"), str) else None,
        "result": Path(best).name if isinstance(best := summary.get("best_checkpoint"), str) else None,
        "hardware": [str(each)[:200] for each in hardware if isinstance(each, str)]
        if isinstance(hardware, list)
        else [],
        "evaluations": evaluations(run),
    }


def curves(run: Path) -> dict[str, list]:
    """Every number that a run logged, as columns: "step", in order, and under each name a value or None for each step;
    beside them `held_out/…`, how many problems an evaluation asked and the 95% interval of its accuracy. A resumed run
    rewrites its lines, so they are read again whenever the file has changed."""
    file = inside(run, "metrics.jsonl")
    state = file.stat()
    return _curves(run, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _curves(run: Path, _changed: int, _size: int) -> dict[str, list]:
    rows: dict[int, dict] = {}
    for line in read_metrics(run):
        row = rows.setdefault(line["step"], {})
        # An evaluation has a line of its own, with seconds of its own.
        spent = {key: row[key] + line[key] for key in row.keys() & line.keys() if _seconds(key, row[key], line[key])}
        row.update(line | spent | _interval(line.get(RIGHT)))
    steps = sorted(rows)
    if len(steps) * len(set().union(*rows.values())) > MOST_NUMBERS:
        raise ValueError(f"{run} logged more numbers than a page can show")
    names = sorted({key for row in rows.values() for key, value in row.items() if _number(value)} - {"step"})
    return {"step": steps} | {name: [finite(rows[step].get(name)) for step in steps] for name in names}


def _interval(judged: Any) -> dict[str, float]:
    """Of an evaluation in training, from which problems were right, as "0110"."""
    if not isinstance(judged, str) or not re.fullmatch("[01]{1,100000}", judged):
        return {}
    low, high = wilson(judged.count("1"), len(judged))
    return {"held_out/n": len(judged), "held_out/low": low, "held_out/high": high}


def _seconds(key: str, *values: Any) -> bool:
    return key.startswith("seconds/") and all(map(_number, values))


def advice(run: Path) -> list[dict[str, Any]]:
    """What the rules of docs/health.md say of the run so far."""
    return [each._asdict() for each in findings(read_metrics(run), recipe_in(run))]


def _plain(value: Any) -> Any:
    """A setting as the page may have it: text, a truth value or a number that JSON knows."""
    whole = type(value) is int and abs(value) < 2**53
    return value if whole or isinstance(value, str | bool) else finite(value)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def finite(value: Any) -> float | None:
    """The number with six digits; None for what JSON does not know as one, or what has no square."""
    return float(f"{value:.6g}") if _number(value) and abs(value) < 1e150 else None
