"""What a run's folder holds, read once: a new run, an unfinished or a finished one; and its
checkpoints. Whether it is the recipe's run says runs/identity.py; runs/writing.py writes it.
docs/run.md describes its files.

transformers writes a checkpoint file by file into its final folder, so a kill, a full disk or a
flipped bit leaves one that looks whole. A checkpoint counts only once it holds
`manifest.json`, written last and renamed into place, with the size and hash of every file, all of
them already on the disk. Older checkpoints are removed only after that.
"""

import json
import math
import re
import shutil
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from console.faults import RecipeError, RunStopped
from console.terminal import say
from runs.files import read_object, size_and_hash, sync, sync_tree, weights_of, write_whole
from runs.records import SAME_QUESTIONS, public_path, read_metrics, renamed, with_finite_numbers
from schema import configs
from schema.configs import SAMPLED_AGAIN, SAMPLED_AT_ONCE, STEP
from schema.recipe import Recipe, load_recipe
from schema.settings import usual
from schema.stages import STAGES, finished
from schema.text import Unreadable, saved


@dataclass(frozen=True)
class RunState:
    """What the folder of a stage that trains holds.

    Attributes:
        checkpoints: their folders, the newest first, whole or not.
        recipe: as the run saved it. This and the others are empty where nothing wrote them.
        versions: what it was made with (runs/writing.py).
        data: its training problems, by their number and fingerprints.
        summary: what it came to. It is written last, and so empty where the run is unfinished.
        logged: the lines that its trainer has logged, if this process trained it.
    """

    folder: Path
    checkpoints: list[Path] = field(default_factory=list)
    recipe: dict = field(default_factory=dict)
    versions: dict = field(default_factory=dict)
    data: dict = field(default_factory=dict)
    summary: dict = field(default_factory=dict)
    logged: list[dict] | None = None

    @classmethod
    def read(cls, folder: Path) -> "RunState":
        """Read a stage's folder, which need not exist.

        Raises:
            RecipeError: a file in it is not what a run wrote, or the run is of an earlier version
                whose figures would pass for those of this one.
        """
        checkpoints = checkpoints_of(folder)
        summary = read_ours(folder / "summary.json")
        recipe = _read_recipe(folder, is_needed=bool(checkpoints or summary))
        versions = read_ours(folder / "versions.json")
        data = read_ours(folder / "data.json")
        return cls(folder, checkpoints, recipe, versions, data, summary)

    @property
    def is_new(self) -> bool:
        """Whether nothing is left of a training. An earlier start may have written all else."""
        return not self.checkpoints and not self.finished

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end."""
        return bool(self.summary)

    @cached_property
    def checkpoint(self) -> str | None:
        """The newest checkpoint without damage of an unfinished run, from which it goes on."""
        return None if self.finished else newest_good(self.folder)

    @cached_property
    def metrics(self) -> list[dict]:
        """The lines of metrics.jsonl."""
        if self.logged is None:
            return read_metrics(self.folder)
        return list(map(with_finite_numbers, self.logged))

    @property
    def problems(self) -> int | None:
        """The number of problems that it trained on; None where data.json was lost."""
        return self.data.get("problems")

    @property
    def public_path(self) -> Path:
        """The folder's path as a card may name it: see `records.public_path`."""
        return public_path(self.folder.absolute())

    def section(self, name: str) -> dict:
        """A section of its recipe; empty if the recipe lacks it."""
        return self.recipe.get(name) or {}

    def completions_until(self, step: int) -> int:
        """How many completions it had sampled after so many steps; those of dynamic sampling by the
        means in metrics.jsonl, which after a stop cover only a part of their steps. If an epoch
        ends inside an update, trl makes a shorter update, and the number is a batch too low for
        every such epoch."""
        grpo = self.section("grpo")
        sampled = grpo[SAMPLED_AT_ONCE]

        def batches(step: int) -> int:
            return math.ceil(step * grpo[STEP["grpo"]] / (sampled * grpo["num_iterations"]))

        count = batches(step)
        before = 0
        for line in self.metrics:
            if SAMPLED_AGAIN in line and line["step"] <= step:
                count += line[SAMPLED_AGAIN] * (batches(line["step"]) - before)
                before = batches(line["step"])
        return round(sampled * count)

    def require_weights(self, command: str):
        """Refuse a finished run whose weights are gone, or are not those that it saved.

        Args:
            command: the command that trains the run.

        Raises:
            RecipeError: names the checkpoints that remain, and what to do.
        """
        fault = altered_weights(self.folder, self.summary.get("weights"))
        if fault is None:
            return
        remedy = f"delete {self.folder}, and `{command}` trains it again"
        remaining = [path.name for path in self.checkpoints if not altered(path)]
        if remaining:
            remedy = f"delete {self.folder}/summary.json, and `{command}` goes on from its last"
            remedy += f" checkpoint ({', '.join(remaining)})"
        raise RecipeError([f"{self.folder} is finished, but {fault}: put it back, or {remedy}"])


def read_ours(file: Path) -> dict:
    """The object in a JSON file that a run wrote; empty where there is no such file.

    Raises:
        RecipeError: it is not what a run wrote.
    """
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        reason = str(error)
    else:
        if isinstance(value, dict):
            return renamed(value)
        reason = "it holds no object"
    raise RecipeError(
        [f"{file} is not what a run wrote ({reason:.200}): put it back, or delete it"]
    )


def _read_recipe(folder: Path, is_needed: bool) -> dict:
    """The recipe that a run saved, in the form in which this version saves it: runs of earlier ones
    have `data.order: shuffled`, as every run is now. Empty where there is none and it is not
    needed.

    Raises:
        RecipeError: it is not what a run wrote, or RLOO trained the run, whose figures would pass
            for GRPO's.
    """
    file = folder / "recipe.yaml"
    if not is_needed and not file.is_file():
        return {}
    try:
        recipe = renamed(saved(file))
    except Unreadable as error:
        message = (
            f"{file} is not what a run wrote ({error}): put it back, or move {folder} away, or give"
            " this run its own folder (output_dir)"
        )
        raise RecipeError([message]) from None
    data = recipe.get("data") or {}
    if data.get("order") == "shuffled":
        del data["order"]
    algorithm = recipe.get("algorithm")
    if folder.name != "sft" and algorithm is not None:
        message = (
            f"{folder} was trained with algorithm: {algorithm!s:.20}; the version of the tag"
            " before-the-cuts shows it, and this one takes another folder (output_dir)"
        )
        raise RecipeError([message])
    return filled(recipe)


def filled(recipe: dict) -> dict:
    """A saved recipe as `Recipe.resolved` makes it. An earlier version saved what the recipe set,
    and how it split a batch; and a field that the libraries have had since then has its default."""
    recipe = dict(recipe)
    for name in configs.SECTIONS:
        written = recipe.get(name)
        if written is None:
            continue
        values = usual(name) | written
        if name in STAGES:
            if values.get("eval_steps") and "save_steps" not in written:
                values["save_steps"] = values["eval_steps"]
            batch = {key: written[key] for key in (STEP[name], SAMPLED_AT_ONCE) if key in written}
            values = configs.with_totals(name, values, 1) | batch
        recipe[name] = values
    return recipe


def read_run(folder: Path) -> RunState:
    """The finished run in a folder. Raises RecipeError where there is none, or a file is not what a
    run wrote."""
    run = RunState.read(folder)
    if not run.finished:
        raise RecipeError([f"{folder} holds no finished run"])
    return run


def recipe_of(run: Path) -> Recipe:
    """The recipe of the run in a stage's folder, with that folder's present place as its
    output_dir.

    Raises:
        RecipeError: the saved recipe is not one, or names what a recipe may not.
    """
    file = run / "recipe.yaml"
    if not file.is_file():
        raise RecipeError([f"{file} is not there: put it back"])
    folder = str(run.parent)
    # YAML reads a plain path as it stands. Any other is quoted, without escapes: YAML reads no
    # surrogates.
    if not re.fullmatch(r"[\w.-]*(/[\w.-]+)+", folder, re.ASCII):
        folder = json.dumps(folder, ensure_ascii=False)
    # Its model is asked where it is, as when the run began; nothing of it is sent anywhere.
    place = [f"output_dir={folder}"]
    return load_recipe(file, place, reads_anywhere=True)


# Checkpoints -------------------------------------------------------------------------------------

MANIFEST = "manifest.json"


def has_training(folder: Path) -> bool:
    """Whether a run's folder holds anything of its training."""
    return finished(folder) or bool(checkpoints_of(folder))


def altered(checkpoint: Path) -> str | None:
    """Say how a checkpoint's files differ from those that were written; None where they do not."""
    if not (checkpoint / MANIFEST).is_file():
        return "it was not written to the end"
    manifest = read_object(checkpoint / MANIFEST) or {}
    if "files" not in manifest:
        return f"{MANIFEST} cannot be read"
    run = _run_of(checkpoint)
    if run and manifest.get("run") not in (None, run):
        return "it is of another run"
    return _difference(manifest["files"], checkpoint, files_of(checkpoint))


def _run_of(checkpoint: Path) -> str | None:
    """The mark of the run in a checkpoint's folder; an older version gave it none."""
    return (read_object(checkpoint.parent / "versions.json") or {}).get("run")


def altered_weights(run: Path, recorded: dict | None) -> str | None:
    """Say how a finished run's weights differ from those that its summary names; None where they do
    not, or where an older version wrote the summary."""
    if recorded is None:
        return None
    files = []
    for file in weights_of(run):
        if file.suffix == ".safetensors" or file.name in recorded:  # an older version had no others
            files.append(file)
    return _difference(recorded, run, files)


def _difference(recorded: dict, folder: Path, present: list[Path]) -> str | None:
    """Say how the files that are present differ from those recorded; None where they do not."""
    files = {str(file.relative_to(folder)): file for file in present}
    for name in recorded:
        if name not in files:
            return f"{name} is missing"
    for name, file in files.items():
        # A Mac or NFS leaves these behind. A `.metadata` is read: torch unpickles it.
        if name not in recorded and not file.name.startswith((".DS_Store", ".nfs")):
            return f"{name} is not one of its files"
        if name in recorded and recorded[name] != size_and_hash(file):
            return f"{name} is not the file that was written ({file.stat().st_size:,} bytes)"
    return None


def files_of(checkpoint: Path) -> list[Path]:
    """Every file of a checkpoint that belongs in its manifest."""
    files = sorted(checkpoint.rglob("*"))
    return [file for file in files if file.is_file() and file.name != MANIFEST]


def write_manifest(checkpoint: Path):
    """Write the manifest of a checkpoint whose files are all written: from now on it counts."""
    sync_tree(checkpoint)
    files = {
        str(file.relative_to(checkpoint)): size_and_hash(file) for file in files_of(checkpoint)
    }
    manifest = {"step": step_of(checkpoint), "run": _run_of(checkpoint), "files": files}
    write_whole(checkpoint / MANIFEST, json.dumps(manifest, indent=1))


def bytes_of(checkpoint: Path) -> int:
    """What a checkpoint takes on the disk."""
    return sum(file.stat().st_size for file in checkpoint.rglob("*") if file.is_file())


def most_checkpoints(saves: int, keep: int | None, chooses: bool) -> int:
    """How many of a run's checkpoints are on the disk at once, at most: those that it keeps, the
    newest before an older one goes, and the best.

    Args:
        saves: how many it writes in all.
        keep: how many it keeps besides the best; None keeps all.
        chooses: whether validation problems choose the best.
    """
    if keep is None:
        return saves
    return min(saves, keep + 1 + chooses)


def require_room_for_all(folder: Path, count: int, size: int):
    """Stop a run before its first step if its checkpoints will not fit on the disk.

    Args:
        count: the most checkpoints that are there at once.
        size: the bytes of one.

    Raises:
        RunStopped: says how much they take, and what to do.
    """
    needed = count * size - sum(map(bytes_of, checkpoints_of(folder)))
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise RunStopped(
            f"no room for the run's checkpoints: {count} of {size / 1e6:,.0f} MB are there at once,"
            f" and {folder} has {free / 1e6:,.0f} MB left. Make room, or lower save_total_limit."
        )


def require_room(folder: Path, step: int, needed: int):
    """Stop a run before a checkpoint for which the disk of its folder has no room.

    Args:
        needed: the bytes of a run's first checkpoint; any other takes as many as the one before.

    Raises:
        RunStopped: says how much there is, and what to do.
    """
    checkpoints = checkpoints_of(folder)
    if checkpoints:
        needed = bytes_of(checkpoints[0])
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise RunStopped(
            f"no room for a checkpoint at step {step}: it needs {needed / 1e6:,.0f} MB, and"
            f" {folder} has {free / 1e6:,.0f} MB left. Make room, or lower save_total_limit."
            f" {resume_advice(folder)}"
        )


def prune(folder: Path, keep: int, step: int, best: str | None):
    """Remove a run's checkpoints but the newest ones and the best.

    Args:
        keep: how many of the newest.
        step: of the run. A higher number belongs to a run that could not be resumed: it must not
            push out this run's.
    """
    checkpoints = checkpoints_of(folder)
    counted = [path.name for path in checkpoints if (path / MANIFEST).is_file()]
    names = [name for name in counted if step_of(Path(name)) <= step][:keep]
    if best:
        names.append(Path(best).name)
    for checkpoint in checkpoints:
        if checkpoint.name in names:
            continue
        try:
            # A checkpoint that is removed in part must not count.
            (checkpoint / MANIFEST).unlink(missing_ok=True)
            shutil.rmtree(checkpoint)
        except OSError as error:  # NFS keeps a file that a backup has open
            say(f"{checkpoint} cannot be deleted ({error.strerror}): delete it yourself")


def newest_good(folder: Path) -> str | None:
    """Find a run's newest checkpoint without damage; print why newer ones were passed over."""
    for checkpoint in checkpoints_of(folder):
        reason = altered(checkpoint)
        if reason is None:
            return str(checkpoint)
        say(f"passed over {checkpoint}: {reason}")
    return None


def checkpoints_of(folder: Path) -> list[Path]:
    """All checkpoints of a run, the newest first."""
    checkpoints = []
    for path in folder.glob("checkpoint-*"):
        if re.fullmatch("checkpoint-[0-9]+", path.name) and path.is_dir():
            checkpoints.append(path)
    return sorted(checkpoints, key=step_of, reverse=True)


def step_of(checkpoint: Path) -> int:
    """The step after which a checkpoint was written."""
    return int(checkpoint.name.rpartition("-")[2])


def resume_advice(folder: Path) -> str:
    """The sentence that says what a run that stops now can be resumed from."""
    try:
        last = newest_good(folder)
    except OSError:  # the disk reads no more either
        return "The same command resumes once it can be read"
    if last is None:
        return "Nothing has been saved yet"
    return f"The same command resumes from {last}"


def sync_records(run: Path):
    """Put on the disk what a run has written beside its checkpoints, metrics and completions, and
    that its folder holds them and the newest checkpoint."""
    if (run / "metrics.jsonl").is_file():
        sync(run / "metrics.jsonl")
    for name in ("completions", SAME_QUESTIONS):
        if (run / name).is_dir():
            sync_tree(run / name)
    sync(run)
