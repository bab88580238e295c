"""Reads what a run writes while it trains: its logs and its completions; and the answers of the
evaluations beside it. Finds runs, and names them as a page may."""

import os
import re
from math import isfinite
from pathlib import Path
from typing import Any

from console.faults import RecipeError
from data.files import DataError, read_parquet
from runs.files import all_lines, read_lines
from schema.configs import EVAL_CORRECT
from schema.stages import STAGES

COMPLETIONS = re.compile(r"completions_(\d{1,15})\.parquet")
SAME_QUESTIONS = "same_questions"  # the folder of the questions that every evaluation samples
BASE = "base"
CONTROL = "base+example"
# The labels of a recipe's models, in the order in which they are compared.
LABELS = (BASE, CONTROL, *STAGES)
COMPLETION_KEYS = ("id", "sample", "tokens", "problem", "gold", "answer", "correct", "strict")
COMPLETION_KEYS += ("lenient", "truncated")
VALIDATION = "validation"  # in eval/, the folder of the answers to validation problems
# Names in the files of earlier versions, and what they are called now.
FORMER_NAMES = {
    "own_solutions": "rejection_sampling",
    "held_out": "validation",
    "groups_without_signal": "zero_variance_groups",
    "right": "correct",
    "eval_right": "eval_correct",
}
FORMER_FOLDER = "held-out"


def find_runs(
    names: list[str], root: Path = Path("outputs"), stages: tuple[str, ...] = ("grpo",)
) -> list[Path]:
    """The folders of the named runs; a name is the run's folder or the folder above it. Without
    names, the run that was written to last. `stages`: the stages whose runs are accepted; if a
    folder has several, the first of them. Raises RecipeError where there is no such run."""
    existing = all_runs(root, stages)
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


def all_runs(root: Path, stages: tuple[str, ...]) -> list[Path]:
    """The folders of these stages' runs: those of the first stage before the others, and of a stage
    first the one that was written to last."""
    logs = []
    for stage in stages:
        logs += root.glob(f"**/{stage}/metrics.jsonl")
    logs.sort(key=lambda file: (file.parent.name == stages[0], file.stat().st_mtime), reverse=True)
    return [file.parent for file in logs]


def _run_in(folder: Path, stages: tuple[str, ...]) -> Path | None:
    """The folder of the first of these stages in it, or the folder itself, if a run wrote it."""
    for path in (*(folder / stage for stage in stages), folder):
        if (path / "metrics.jsonl").is_file() and not (path / "grpo").exists():
            is_run = path.name in stages or (path / "completions").is_dir()
            return path if is_run else None
    return None


def renamed(values: dict) -> dict:
    """What an earlier version wrote, with the names of this one. Raises TypeError where it is no
    object."""
    if not isinstance(values, dict):
        raise TypeError("a line is not an object")
    result = {}
    for key, value in values.items():
        if isinstance(value, dict):
            value = renamed(value)
        result[FORMER_NAMES.get(key, key)] = value
    return result


def validation_folder(run: Path) -> Path:
    """The folder of the answers to validation problems beside a run; that of an earlier version if
    it has no other."""
    folder = run.parent / "eval" / VALIDATION
    former = run.parent / "eval" / FORMER_FOLDER
    return former if former.is_dir() and not folder.exists() else folder


def public_path(path: Path) -> Path:
    """A folder's path relative to the current folder, or only its last two names if it lies
    elsewhere: a card is published, and the names of the folders above are private."""
    if Path.cwd() in path.parents:
        return path.relative_to(Path.cwd())
    return Path(*path.parts[-2:])


def public(text: str, *folders: Path) -> str:
    """A text as it may be published: in it these folders, and what lies below the current one or
    the home, have the names of `public_path`."""
    for folder in folders:
        path = folder.absolute()
        text = text.replace(str(path), str(public_path(path)))
    home = os.path.expanduser("~")  # noqa: PTH111, which raises where there is none
    roots = "|".join(map(re.escape, (str(Path.cwd()), home)))
    paths = rf"(?<![\w./-])(?:{roots})(?:/[^\s/'\"`<>|:,;]+)+"
    return re.sub(paths, lambda match: str(public_path(Path(match[0]))), text)


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


def read_metrics(run: Path) -> list[dict]:
    """The lines that a run logged, with their step, their finite numbers, and which problems were
    correct (see `schema.configs.EVAL_CORRECT`). A line that a full disk tore is left out."""
    lines = map(renamed, read_lines(run / "metrics.jsonl"))
    return list(map(with_finite_numbers, lines))


def with_finite_numbers(line: dict) -> dict:
    """A line of metrics without the numbers that are not finite, which are saved as null."""
    numbers = {}
    for key, value in line.items():
        if key == EVAL_CORRECT or (value is not None and isfinite(value)):
            numbers[key] = value
    return numbers


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
        for file in (run / name).glob("*"):
            match = COMPLETIONS.fullmatch(file.name)
            if match:
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
    """The evaluations beside a run by benchmark, the validation problems first: the labels of the
    models that were judged. With `last`, only that of the run and those that come before it."""
    root = run.parent / "eval"
    labels = LABELS
    if last is not None:
        labels = LABELS[: LABELS.index(last) + 1]
    benchmarks = {}
    first = validation_folder(run).name
    for folder in sorted(root.glob("*/"), key=lambda path: (path.name != first, path.name)):
        judged = [label for label in labels if (folder / f"{label}.jsonl").is_file()]
        if judged and folder.name != "models":
            benchmarks[folder.name] = judged
    return benchmarks


def read_completions(file: Path) -> list[dict]:
    """The lines of an evaluation: the settings of its answers, then one answer per line. A torn
    last line is ignored. Raises ValueError where the file is not what an evaluation wrote."""
    try:
        lines = [renamed(line) for line in all_lines(file)]
        for answer in lines[1:]:
            if "response" in answer:  # as an earlier version called it
                answer["completion"] = answer.pop("response")
            for key in COMPLETION_KEYS:
                answer[key]
    except (ValueError, TypeError, LookupError) as error:
        description = f"{type(error).__name__}: {error}"
        raise ValueError(f"{file} is not what an evaluation wrote ({description})") from None
    if lines:
        lines[0] = {"top_p": 1.0} | lines[0]  # older evaluations all had this one, and no key
    return lines
