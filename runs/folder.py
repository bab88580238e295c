"""Reading what a run wrote, wherever it was made: which folder is its, what it says of itself, what
it logged and what it sampled, and the answers of an evaluation beside it. A run may be a
stranger's, so what no run writes is left out or refused in one message."""

import hashlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from console.faults import RecipeError
from data.json_files import LARGEST, all_lines, read_lines, read_object
from data.sources import DataError, read_parquet
from schema import configs
from schema.configs import RIGHT
from schema.stages import STAGES
from schema.text import Unreadable, saved

COMPLETIONS = re.compile(r"completions_(\d{1,15})\.parquet")
CONTROL = "base+example"
LABELS = ("base", CONTROL, *STAGES)  # of a recipe's models, in the order in which they are compared
# What is read of each answer.
ANSWER_KEYS = {
    "id",
    "sample",
    "problem",
    "gold",
    "answer",
    "right",
    "strict",
    "lenient",
    "truncated",
    "tokens",
}
WHOLE = ("id", "sample", "tokens")


def find(
    named: list[str], root: Path = Path("outputs"), stages: tuple[str, ...] = ("grpo",)
) -> list[Path]:
    """The folders of the runs that are named, each by its own folder or the one above it; with none
    named, the run that was written to last. `stages`: whose runs they may be; of those in one
    folder, the first is meant.

    Raises:
        RecipeError: there is no such run; the message lists those that there are.
    """
    logs = [file for stage in stages for file in root.glob(f"**/{stage}/metrics.jsonl")]
    logs.sort(key=lambda file: (file.parent.name == stages[0], file.stat().st_mtime), reverse=True)
    there = [each.parent for each in logs]
    what = "GRPO " if stages == ("grpo",) else ""
    known = (
        f": there are {', '.join(map(str, there[:8]))}"
        if there
        else f", and none in {root}: make grpo makes one"
    )
    if not named:
        if not there:
            raise RecipeError([f"no run to show{known}"])
        return there[:1]
    found = []
    for each in named:
        places = (*(Path(each) / stage for stage in stages), Path(each))
        path = next(
            (p for p in places if (p / "metrics.jsonl").is_file() and not (p / "grpo").exists()),
            None,
        )
        path = (
            None
            if path and path.name not in stages and not (path / "completions").is_dir()
            else path
        )
        if path is None:
            whole = Path(each).parent  # of one of its other stages
            meant = (
                f": name the whole run, RUN={whole}"
                if (whole / "grpo/metrics.jsonl").is_file()
                else known
            )
            raise RecipeError([f"RUN={each} is no folder of a {what}run{meant}"])
        found += [path] if path.resolve() not in [each.resolve() for each in found] else []
    return found


def inside(run: Path, name: str) -> Path:
    """A file of the run's folder.

    Raises:
        ValueError: it is not there, lies elsewhere, or is larger than a run writes.
    """
    file = run / name
    if not file.is_file() or not file.resolve().is_relative_to(run.resolve()):
        raise ValueError(f"{name}: there is no such file in {run}")
    if file.stat().st_size > LARGEST:
        raise ValueError(
            f"{file} has {file.stat().st_size / 2**20:,.0f} MiB, more than a run writes"
        )
    return file


@dataclass(frozen=True)
class Run:
    """What a finished run wrote. `summary`: of summary.json, what has the type that a run writes.
    `problems`: how many it trained on."""

    folder: Path
    recipe: dict
    versions: dict
    summary: dict
    problems: int | None

    def section(self, name: str) -> dict:
        """A section of its recipe; empty where it has none."""
        return section(self.recipe, name)

    @cached_property
    def metrics(self) -> list[dict]:
        """The lines that it logged."""
        return read_metrics(self.folder)

    @property
    def public_path(self) -> Path:
        """The folder's path from the current one, or where it lies elsewhere its last two names: a
        card is made to be published, and the folders above are nobody's business."""
        path, current = self.folder.absolute(), Path.cwd()
        return path.relative_to(current) if current in path.parents else Path(*path.parts[-2:])

    def completions_until(self, step: int) -> int | None:
        """How many completions it had sampled after so many steps; None where that is not known.
        Where an epoch ends inside an update, trl makes a shorter one, and the number is a batch too
        low for each."""
        values = configs.defaults("grpo") | self.section("grpo")
        processes = self.versions.get("processes")
        needed = [
            processes,
            values["per_device_train_batch_size"],
            values["gradient_accumulation_steps"],
            values["num_iterations"],
        ]
        optional = [values["steps_per_generation"], values["generation_batch_size"]]
        needed += [value for value in optional if value]
        if not all(is_of(value, int) and value > 0 for value in needed):
            return None
        batch = configs.generation(values, processes)
        backward_passes = step * values["gradient_accumulation_steps"]
        return batch.completions * math.ceil(backward_passes / batch.cycle)


def section(recipe: dict, name: str) -> dict:
    """A section of a recipe that was read; empty where it has none."""
    value = recipe.get(name)
    return value if isinstance(value, dict) else {}


def read_run(folder: Path) -> Run:
    """The files of a finished run.

    Raises:
        RecipeError: it is not finished, or a file is not what a run wrote.
    """
    if not (folder / "summary.json").is_file():
        raise RecipeError([f"{folder} holds no finished run"])
    try:
        recipe = saved(folder / "recipe.yaml")
    except Unreadable as error:
        raise RecipeError([f"{folder / 'recipe.yaml'} is not what a run wrote ({error})"]) from None
    found = {
        name: read_object(folder / name) for name in ("versions.json", "summary.json", "data.json")
    }
    if wrong := [
        f"{folder / name} is not what a run wrote" for name in found if found[name] is None
    ]:
        raise RecipeError(wrong)
    kinds = {
        "steps": int,
        "seconds": float,
        "best_accuracy": float,
        "adapter_error": float,
        "time": dict,
    }
    kinds |= {"own_solutions": dict, "best_checkpoint": str, "resumed_from": str, "stopped": str}
    summary = {
        key: value for key, value in found["summary.json"].items() if is_of(value, kinds.get(key))
    }
    problems = found["data.json"].get("problems")
    return Run(
        folder,
        recipe,
        found["versions.json"],
        summary,
        problems if is_of(problems, int) else None,
    )


def recipe_in(run: Path) -> dict:
    """The recipe that a run saved, finished or not; empty where it cannot be read."""
    try:
        return saved(inside(run, "recipe.yaml"))
    except ValueError:
        return {}


def object_in(run: Path, name: str) -> dict:
    """The object in one of its JSON files; empty where it cannot be read."""
    try:
        return read_object(inside(run, name)) or {}
    except ValueError:
        return {}


def read_metrics(run: Path) -> list[dict]:
    """The lines that a run logged, each with its step and the numbers in it, and which problems
    were right (see `schema.configs.RIGHT`). What no run writes is left out, as is a line that a
    full disk tore."""
    lines = []
    for line in read_lines(run / "metrics.jsonl"):
        if is_of(line.get("step"), int):
            numbers = {key: value for key, value in line.items() if is_of(value, float)}
            right = line.get(RIGHT)
            answered = isinstance(right, str) and re.fullmatch("[01]+", right)
            lines.append(numbers | ({RIGHT: right} if answered else {}))
    return lines


def is_of(value: Any, kind: type | None) -> bool:
    """Whether a value that was read is of that type, and a number one that a run can have
    measured."""
    number = type(value) in (int, float) and abs(value) < 2**53
    return (
        number and (kind is float or type(value) is kind)
        if kind in (int, float)
        else type(value) is kind
    )


def texts(value: Any) -> list[str]:
    """The texts of a list that was read; none of anything else."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def title(path: Path) -> str:
    """`tiny-arithmetic/grpo`, of `outputs/tiny-arithmetic/grpo`."""
    return re.sub(r"[^\w./ -]", "_", "/".join(part for part in path.parts if part != "outputs"))


def name_of(run: Path) -> str:
    """`tiny-arithmetic` of outputs/tiny-arithmetic/grpo, `tiny-arithmetic/seed-1` of a run over
    seeds."""
    parts = [each for each in run.resolve().parts if each != "/"]
    last = len(parts) - parts[::-1].index("outputs") if "outputs" in parts else -3
    parts = parts[last:]
    return "/".join(parts[:-1] if parts[-1] == "grpo" else parts)


def weights_hash(folder: Path) -> str | None:
    """Changes when a folder's weights are replaced; None for a Hub id."""
    files = sorted(folder.glob("*.safetensors"))
    return (
        hash_of([[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files])
        if files
        else None
    )


def hash_of(value: list) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


# What it sampled: completions/completions_<step>.parquet, the batch of each logged step -----------


def completion_files(run: Path) -> list[Path]:
    """The files of completions, by step."""
    folder = run / "completions"
    if folder.is_symlink() or not folder.is_dir():
        return []
    names = [each.name for each in folder.iterdir() if COMPLETIONS.fullmatch(each.name)]
    names.sort(key=lambda name: int(name[12:-8]))
    return [
        folder / name
        for name in names
        if (folder / name).is_file() and not (folder / name).is_symlink()
    ]


def sampled_batches(run: Path, columns: tuple[str, ...]) -> Iterator[tuple[Path, list[dict]]]:
    """The files of completions that a GRPO run wrote, by step, each with its rows; one that is used
    for several steps, and written at each, once.

    Raises:
        DataError: a file is not what a run wrote.
    """
    before = None
    for file in completion_files(run):
        rows = read_parquet(file, columns)
        batch = [[row[name] for name in columns] for row in rows]
        if batch != before:
            yield file, rows
        before = batch


def some_groups(run: Path) -> list[list[dict]]:
    """The first group of the first, the middle and the last file of completions: rows of one
    prompt."""
    there, groups = completion_files(run), []
    for i in sorted({0, len(there) // 2, len(there) - 1}) if there else []:
        try:
            rows = read_parquet(there[i], ("step", "prompt", "completion", "advantage", "gold"))
        except DataError:  # torn by a full disk, or a stranger's
            continue
        mine = [row for row in rows if row["prompt"] == rows[0]["prompt"]]
        groups += [mine] if mine else []
    return groups


# What an evaluation wrote beside it: eval/<benchmark>/<label>.jsonl -------------------------------


def evaluations(run: Path) -> dict[str, list[str]]:
    """The evaluations beside a run, by benchmark: the labels of the models that were judged."""
    found, order = {}, {label: i for i, label in enumerate(LABELS)}
    root = run.parent / "eval"
    for folder in sorted(
        each for each in ([] if root.is_symlink() else root.glob("*/")) if not each.is_symlink()
    ):
        files = [
            each for each in folder.glob("*.jsonl") if each.is_file() and not each.is_symlink()
        ]
        files = [each for each in files if not each.name.endswith(".seconds.jsonl")]
        files.sort(key=lambda file: (order.get(file.stem, len(order)), file.stat().st_mtime))
        if files and folder.name != "models":
            found[folder.name] = [file.stem for file in files]
    return found


def read_answers(file: Path) -> list[dict]:
    """What an evaluation wrote: the settings of its answers, then one answer per line. A torn last
    line is left out.

    Raises:
        ValueError: the file is not what an evaluation wrote.
    """
    try:
        lines = all_lines(file)
        if not all(isinstance(each, dict) for each in lines):
            raise TypeError("a line is not a JSON object")
        if missing := next(
            (ANSWER_KEYS - each.keys() for each in lines[1:] if ANSWER_KEYS - each.keys()), None
        ):
            raise KeyError(min(missing))
        if any(
            type(each[key]) is not int or not 0 <= each[key] < 2**53
            for each in lines[1:]
            for key in WHOLE
        ):
            raise TypeError(f"one of {', '.join(WHOLE)} is no whole number")
    except (ValueError, TypeError, LookupError) as error:
        raise ValueError(
            f"{file} is not what an evaluation wrote ({type(error).__name__}: {error})"
        ) from None
    lines[:1] = [
        {"top_p": 1.0} | head for head in lines[:1]
    ]  # once it was that of all, and was not written
    return lines
