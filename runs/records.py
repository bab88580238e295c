"""Reads the files of a run: its recipe and summary, its logs, its completions, and the answers of
the evaluations beside it. A run may be a stranger's, so content that no run writes is ignored or
refused in one message."""

import math
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from console.faults import RecipeError
from data.files import DataError, read_parquet
from data.json_files import LARGEST, all_lines, read_lines, read_object
from schema import configs
from schema.configs import RIGHT, SAMPLED_AT_ONCE, SPLIT, STEP
from schema.settings import usual
from schema.stages import STAGES
from schema.text import Unreadable, saved

COMPLETIONS = re.compile(r"completions_(\d{1,15})\.parquet")
SAME_QUESTIONS = "same_questions"  # the folder of the questions that every evaluation samples
CONTROL = "base+example"
# The labels of a recipe's models, in the order in which they are compared.
LABELS = ("base", CONTROL, *STAGES)
INTEGERS = ("id", "sample", "tokens")
ANSWER_KEYS = {*INTEGERS, "problem", "gold", "answer", "right", "strict", "lenient", "truncated"}
SUMMARY_TYPES = {
    "steps": int,
    "seconds": float,
    "best_accuracy": float,
    "adapter_error": float,
    "time": dict,
    "own_solutions": dict,
    "best_checkpoint": str,
    "resumed_from": str,
    "stopped": str,
}


def find_runs(
    names: list[str], root: Path = Path("outputs"), stages: tuple[str, ...] = ("grpo",)
) -> list[Path]:
    """The folders of the named runs; a name is the run's folder or the folder above it. Without
    names, the run that was written to last. `stages`: the stages whose runs are accepted; if a
    folder has several, the first of them. Raises RecipeError where there is no such run."""
    logs = []
    for stage in stages:
        logs += root.glob(f"**/{stage}/metrics.jsonl")
    logs.sort(key=lambda file: (file.parent.name == stages[0], file.stat().st_mtime), reverse=True)
    existing = [file.parent for file in logs]
    choices = f", and none in {root}: make grpo makes one"
    if existing:
        choices = f": there are {', '.join(map(str, existing[:8]))}"
    elif not names:
        raise RecipeError([f"no run to show{choices}"])
    if not names:
        return existing[:1]
    runs = []
    for name in names:
        run = _run_in(Path(name), stages)
        if run is None:
            kind = "GRPO " if stages == ("grpo",) else ""
            parent = Path(name).parent
            if (parent / "grpo/metrics.jsonl").is_file():  # `name` is another stage's folder
                choices = f": name the whole run, RUN={parent}"
            raise RecipeError([f"RUN={name} is no folder of a {kind}run{choices}"])
        if run.resolve() not in [earlier.resolve() for earlier in runs]:
            runs.append(run)
    return runs


def _run_in(folder: Path, stages: tuple[str, ...]) -> Path | None:
    """The folder of the first of these stages in it, or the folder itself, if a run wrote it."""
    for path in (*(folder / stage for stage in stages), folder):
        if (path / "metrics.jsonl").is_file() and not (path / "grpo").exists():
            is_run = path.name in stages or (path / "completions").is_dir()
            return path if is_run else None
    return None


def run_file(run: Path, name: str) -> Path:
    """A file of the run's folder. Raises ValueError where it does not exist, lies elsewhere, or is
    larger than a run writes."""
    file = run / name
    if not file.is_file() or not file.resolve().is_relative_to(run.resolve()):
        raise ValueError(f"{name}: there is no such file in {run}")
    if file.stat().st_size > LARGEST:
        mebibytes = file.stat().st_size / 2**20
        raise ValueError(f"{file} has {mebibytes:,.0f} MiB, more than a run writes")
    return file


@dataclass(frozen=True)
class Run:
    """The files of a finished run. `summary`: the values of summary.json that have the type that a
    run writes. `problems`: the number of problems that it trained on."""

    folder: Path
    recipe: dict
    versions: dict
    summary: dict
    problems: int | None

    def section(self, name: str) -> dict:
        """A section of its recipe; empty if the recipe lacks it."""
        return section(self.recipe, name)

    @cached_property
    def metrics(self) -> list[dict]:
        """The lines of metrics.jsonl."""
        return read_metrics(self.folder)

    @property
    def public_path(self) -> Path:
        """The folder's path relative to the current folder, or only its last two names if it lies
        elsewhere: a card is published, and the names of the folders above are private."""
        return _public_path(self.folder.absolute())

    def completions_until(self, step: int) -> int | None:
        """How many completions it had sampled after so many steps; None if its settings do not
        determine that. If an epoch ends inside an update, trl makes a shorter update, and the
        number is a batch too low for every such epoch."""
        grpo = self.section("grpo")
        numbers = list(map(grpo.get, (STEP["grpo"], SAMPLED_AT_ONCE, "num_iterations")))
        if not all(has_type(number, int) and number > 0 for number in numbers):
            return None
        per_step, sampled, iterations = numbers
        return sampled * math.ceil(step * per_step / (sampled * iterations))


def _public_path(path: Path) -> Path:
    if Path.cwd() in path.parents:
        return path.relative_to(Path.cwd())
    return Path(*path.parts[-2:])


def public(text: str, *folders: Path) -> str:
    """A text as it may be published: in it these folders, and what lies below the current one or
    the home, have the names of `Run.public_path`."""
    for folder in folders:
        path = folder.absolute()
        text = text.replace(str(path), str(_public_path(path)))
    home = os.path.expanduser("~")  # noqa: PTH111, which raises where there is none
    roots = "|".join(map(re.escape, (str(Path.cwd()), home)))
    paths = rf"(?<![\w./-])(?:{roots})(?:/[^\s/'\"`<>|:,;]+)+"
    return re.sub(paths, lambda match: str(_public_path(Path(match[0]))), text)


def reduced(value: Any) -> Any:
    """A value of a recipe with the last name of each absolute path in place of the path. A prompt
    is no path."""
    if isinstance(value, dict):
        result = {}
        for key, entry in value.items():
            if key not in ("system", "chat_template"):
                entry = reduced(entry)
            result[reduced(key)] = entry
        return result
    if isinstance(value, list):
        return [reduced(entry) for entry in value]
    if isinstance(value, str) and re.match(r"[/~\\]|[A-Za-z]:[/\\]", value):
        return re.split(r"[/\\]", value.rstrip("/\\"))[-1]
    return value


def section(recipe: dict, name: str) -> dict:
    """A section of a recipe's contents; empty if the recipe lacks it."""
    value = recipe.get(name)
    if isinstance(value, dict):
        return value
    return {}


def read_run(folder: Path) -> Run:
    """The files of a finished run. Raises RecipeError where it is not finished, or a file is not
    what a run wrote."""
    if not (folder / "summary.json").is_file():
        raise RecipeError([f"{folder} holds no finished run"])
    try:
        recipe = read_recipe(folder / "recipe.yaml")
    except Unreadable as error:
        raise RecipeError([f"{folder / 'recipe.yaml'} is not what a run wrote ({error})"]) from None
    require_grpo(folder, recipe)
    contents = []
    for name in ("versions.json", "summary.json", "data.json"):
        content = read_object(folder / name, LARGEST)
        if content is None:
            raise RecipeError([f"{folder / name} is not what a run wrote"])
        contents.append(content)
    versions, summary, data = contents
    for key, value in list(summary.items()):
        if key not in SUMMARY_TYPES or not has_type(value, SUMMARY_TYPES[key]):
            del summary[key]
    problems = data.get("problems")
    if not has_type(problems, int):
        problems = None
    return Run(folder, recipe, versions, summary, problems)


def read_recipe(file: Path) -> dict:
    """The recipe that a run saved, as it was meant. Raises Unreadable where it is no mapping in
    YAML."""
    return filled(saved(file))


def filled(recipe: dict) -> dict:
    """A saved recipe as `Recipe.resolved` makes it. An earlier version saved what the recipe set,
    and how it split a batch; and a field that the libraries have had since then has its default."""
    recipe = dict(recipe)
    for name in configs.SECTIONS:
        if not isinstance(recipe.get(name), dict):
            continue
        written = recipe[name]
        values = usual(name) | written
        if name in STAGES:
            if values.get("eval_steps") and "save_steps" not in written:
                values["save_steps"] = values["eval_steps"]
            batch = {key: written[key] for key in (STEP[name], SAMPLED_AT_ONCE) if key in written}
            if all(isinstance(values[key], int) for key in SPLIT[:2]):  # as every run writes it
                values = configs.with_totals(name, values, 1) | batch
        recipe[name] = values
    return recipe


def require_grpo(run: Path, recipe: dict):
    """Refuse a run that an earlier version trained with RLOO: its figures would pass for GRPO's."""
    algorithm = recipe.get("algorithm")
    if stage_of(run) == "grpo" and algorithm is not None:
        message = f"{run} was trained with algorithm: {algorithm!s:.20}; the version of the tag"
        raise RecipeError([f"{message} before-the-cuts shows it"])


def recipe_in(run: Path) -> dict:
    """The recipe that a run saved, finished or not; empty where it cannot be read."""
    try:
        return read_recipe(run_file(run, "recipe.yaml"))
    except ValueError:
        return {}


def object_in(run: Path, name: str) -> dict:
    """The object in one of its JSON files; empty where it cannot be read."""
    try:
        return read_object(run_file(run, name)) or {}
    except ValueError:
        return {}


def read_metrics(run: Path) -> list[dict]:
    """The lines that a run logged, with their step and numbers, and which problems were right (see
    `schema.configs.RIGHT`). Anything that no run writes is ignored, as is a line that a full disk
    tore."""
    lines = []
    for line in read_lines(run / "metrics.jsonl"):
        if has_type(line.get("step"), int):
            values = {key: value for key, value in line.items() if has_type(value, float)}
            right = line.get(RIGHT)
            if isinstance(right, str) and re.fullmatch("[01]+", right):
                values[RIGHT] = right
            lines.append(values)
    return lines


def has_type(value: Any, kind: type) -> bool:
    """Whether a value from a file has this type; a number must be one that a run can measure, and
    an integer is a float too."""
    if kind not in (int, float):
        return type(value) is kind
    is_number = type(value) in (int, float) and abs(value) < 2**53
    return is_number and (kind is float or type(value) is int)


def texts(value: Any) -> list[str]:
    """The texts in a list from a file; none if the value is no list."""
    if not isinstance(value, list):
        return []
    return [text for text in value if isinstance(text, str)]


def title(path: Path) -> str:
    """`tiny-arithmetic/grpo`, of `outputs/tiny-arithmetic/grpo`."""
    return re.sub(r"[^\w./ -]", "_", "/".join(part for part in path.parts if part != "outputs"))


def stage_of(run: Path) -> str:
    """The stage whose run this is, by the folder's name; the name of a copied GRPO run is free."""
    if run.name in STAGES:
        return run.name
    return "grpo"


def name_of(run: Path) -> str:
    """`tiny-arithmetic` of outputs/tiny-arithmetic/grpo, `tiny-arithmetic/seed-1` of a run over
    seeds."""
    path = run.resolve().as_posix()
    _, has_outputs, name = path.rpartition("/outputs/")
    if not has_outputs:
        name = "/".join(path.strip("/").split("/")[-3:])
    return name.removesuffix("/grpo")


# Its completions: completions/completions_<step>.parquet, the batch of each logged step -----------


def completion_files(run: Path, names: tuple[str, ...] = ("completions",)) -> list[Path]:
    """The files of completions in these folders of a run, by step."""
    steps: dict[Path, int] = {}
    for name in names:
        folder = run / name
        if folder.is_symlink() or not folder.is_dir():
            continue
        for file in folder.iterdir():
            match = COMPLETIONS.fullmatch(file.name)
            if match and file.is_file() and not file.is_symlink():
                steps[file] = int(match[1])
    return sorted(steps, key=steps.__getitem__)


def some_groups(run: Path) -> list[list[dict]]:
    """The first group of the first, the middle and the last file of completions: rows of one
    prompt."""
    files = completion_files(run)
    groups = []
    for file in dict.fromkeys([*files[:1], *files[len(files) // 2 :][:1], *files[-1:]]):
        try:
            rows = read_parquet(file, ("step", "prompt", "completion", "advantage", "gold"))
        except DataError:  # torn by a full disk, or a stranger's
            continue
        if rows:
            groups.append([row for row in rows if row["prompt"] == rows[0]["prompt"]])
    return groups


# The evaluations beside it: eval/<benchmark>/<label>.jsonl -------------------------------


def evaluations(run: Path, last: str | None = None) -> dict[str, list[str]]:
    """The evaluations beside a run by benchmark, the held-out problems first: the labels of the
    models that were judged. With `last`, only that of the run and those that come before it."""
    root = run.parent / "eval"
    if root.is_symlink():
        return {}
    labels = LABELS
    if last is not None:
        labels = LABELS[: LABELS.index(last) + 1]
    benchmarks = {}
    for folder in sorted(root.glob("*/"), key=lambda path: (path.name != "held-out", path.name)):
        if folder.is_symlink() or folder.name == "models":
            continue
        files = [folder / f"{label}.jsonl" for label in labels]
        judged = [file.stem for file in files if file.is_file() and not file.is_symlink()]
        if judged:
            benchmarks[folder.name] = judged
    return benchmarks


def read_answers(file: Path) -> list[dict]:
    """The lines of an evaluation: the settings of its answers, then one answer per line. A torn
    last line is ignored. Raises ValueError where the file is not what an evaluation wrote."""
    try:
        lines = all_lines(file)
        _check_answers(lines)
    except (ValueError, TypeError, LookupError) as error:
        description = f"{type(error).__name__}: {error}"
        raise ValueError(f"{file} is not what an evaluation wrote ({description})") from None
    if lines:
        lines[0] = {"top_p": 1.0} | lines[0]  # older evaluations all had this one, and no key
    return lines


def _check_answers(lines: list):
    if not all(isinstance(line, dict) for line in lines):
        raise TypeError("a line is not a JSON object")
    for answer in lines[1:]:
        missing = ANSWER_KEYS - answer.keys()
        if missing:
            raise KeyError(min(missing))
        for key in INTEGERS:
            if type(answer[key]) is not int or not 0 <= answer[key] < 2**53:
                raise TypeError(f"one of {', '.join(INTEGERS)} is no whole number")
        if type(answer["truncated"]) is not bool:
            raise TypeError("truncated is neither true nor false")
