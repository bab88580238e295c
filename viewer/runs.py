"""A GRPO run's folder as the page shows it. It only reads, and only inside the folder: a run may be a stranger's."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from evaluation.report import LABELS
from evaluation.statistics import wilson
from schema import library_fields
from schema.configs import RIGHT
from schema.faults import RecipeError
from schema.requirements import read_lines, read_object
from schema.stages import algorithm
from schema.strict_yaml import saved
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
LONGEST_FILE = 256 * 2**20  # bytes of a file that is read whole
MOST_NUMBERS = 10_000_000  # steps × names of metrics


def find(named: list[str], root: Path = Path("outputs")) -> list[Path]:
    """The folders of the GRPO runs that are named, each by its own folder or the one above it; with none named, the run
    that was written to last.

    Raises:
        RecipeError: there is no such run; the message lists those that there are.
    """
    there = sorted((each.parent for each in root.glob("**/grpo/metrics.jsonl")), key=_written, reverse=True)
    known = f": there are {', '.join(map(str, there[:8]))}" if there else f", and none in {root}: make grpo makes one"
    if not named:
        if not there:
            raise RecipeError([f"no run to show{known}"])
        return there[:1]
    found = []
    for each in named:
        places = (Path(each) / "grpo", Path(each))
        path = next((p for p in places if (p / "metrics.jsonl").is_file() and not (p / "grpo").exists()), None)
        path = None if path and path.name != "grpo" and not (path / "completions").is_dir() else path
        if path is None:
            raise RecipeError([f"RUN={each} is no folder of a GRPO run{known}"])
        found += [path] if path.resolve() not in [each.resolve() for each in found] else []
    return found


def _written(run: Path) -> float:
    return (run / "metrics.jsonl").stat().st_mtime


def inside(run: Path, name: str) -> Path:
    """A file of the run's folder.

    Raises:
        ValueError: it is not there, lies elsewhere, or is larger than a page can show.
    """
    file = run / name
    if not file.is_file() or not file.resolve().is_relative_to(run.resolve()):
        raise ValueError(f"{name}: there is no such file in {run}")
    if file.stat().st_size > LONGEST_FILE:
        raise ValueError(f"{file} has {file.stat().st_size / 2**20:,.0f} MiB, more than a page can show")
    return file


def describe(run: Path) -> dict[str, Any]:
    """What a run is, as JSON: its names, settings, rewards with their weights, state and where its time went."""
    recipe, summary = _yaml(run), _json(run, "summary.json")
    hardware = _json(run, "versions.json").get("hardware")
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


def name_of(run: Path) -> str:
    """`tiny-arithmetic` of outputs/tiny-arithmetic/grpo, `tiny-arithmetic/seed-1` of a run over seeds."""
    parts = [each for each in run.resolve().parts if each != "/"]
    last = len(parts) - parts[::-1].index("outputs") if "outputs" in parts else -3
    parts = parts[last:]
    return "/".join(parts[:-1] if parts[-1] == "grpo" else parts)


def evaluations(run: Path) -> dict[str, list[str]]:
    """The evaluations beside a run, by benchmark: the labels of the models that were judged."""
    found = {}
    root = run.parent / "eval"
    for folder in sorted(each for each in ([] if root.is_symlink() else root.glob("*/")) if not each.is_symlink()):
        files = [each for each in folder.glob("*.jsonl") if each.is_file() and not each.is_symlink()]
        files.sort(key=lambda file: file.stat().st_mtime)
        labels = [file.stem for file in files if not file.name.endswith(".seconds.jsonl")]
        order = {label: i for i, label in enumerate(LABELS)}
        if labels and folder.name != "models":
            found[folder.name] = sorted(labels, key=lambda label: order.get(label, len(order)))
    return found


def curves(run: Path) -> dict[str, list]:
    """Every number that a run logged, as columns: "step", in order, and under each name a value or None for each step;
    beside them `held_out/…`, how many problems an evaluation asked and the 95% interval of its accuracy. A resumed run
    rewrites its lines, so they are read again whenever the file has changed."""
    file = inside(run, "metrics.jsonl")
    state = file.stat()
    return _curves(file, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _curves(file: Path, _changed: int, _size: int) -> dict[str, list]:
    rows: dict[int, dict] = {}
    for line in _lines(file):
        row = rows.setdefault(line["step"], {})
        # An evaluation has a line of its own, with seconds of its own.
        spent = {key: row[key] + line[key] for key in row.keys() & line.keys() if _seconds(key, row[key], line[key])}
        row.update(line | spent | _interval(line.get(RIGHT)))
    steps = sorted(rows)
    if len(steps) * len(set().union(*rows.values())) > MOST_NUMBERS:
        raise ValueError(f"{file} holds more numbers than a page can show")
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


def _lines(file: Path) -> list[dict]:
    """The lines that a run logged, without one that is being written, or is not a run's."""
    return [line for line in read_lines(file) if type(line.get("step")) is int]


def advice(run: Path) -> list[dict[str, Any]]:
    """What the rules of docs/health.md say of the run so far."""
    try:
        found = findings(_lines(inside(run, "metrics.jsonl")), _yaml(run))
    except (TypeError, KeyError, AttributeError, ArithmeticError):
        return []  # values that no run writes
    return [each._asdict() for each in found]


def _plain(value: Any) -> Any:
    """A setting as the page may have it: text, a truth value or a number that JSON knows."""
    whole = type(value) is int and abs(value) < 2**53
    return value if whole or isinstance(value, str | bool) else finite(value)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def finite(value: Any) -> float | None:
    """The number with six digits; None for what JSON does not know as one, or what has no square."""
    return float(f"{value:.6g}") if _number(value) and abs(value) < 1e150 else None


def _yaml(run: Path) -> dict:
    try:
        return saved(inside(run, "recipe.yaml"))
    except ValueError:
        return {}


def _json(run: Path, name: str) -> dict:
    try:
        return read_object(inside(run, name)) or {}
    except ValueError:
        return {}
