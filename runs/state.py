"""The folder of one run: new, resumed or finished, and never overwritten once it holds a
checkpoint. docs/run.md describes its files."""

import hashlib
import io
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

from console.faults import Fault, RecipeError
from console.terminal import is_main_process, make_command, say
from data.json_files import LARGEST, read_object
from data.problems import judged_by
from machine import hardware
from runs.checkpoints import has_training, newest_good, require_weights
from runs.files import size_and_hash, sync_tree, weights_of, write_whole
from runs.identity import (
    _command_elsewhere,
    changes,
    conflict,
    goes_on,
)
from runs.lock import lock
from runs.versions import sources_of, versions_of
from schema.configs import SECTIONS, without_place
from schema.recipe import Recipe, load_recipe
from schema.settings import usual
from schema.stages import STAGES, finished

# The pass rates that a probe has measured: see evaluation/sample.py.
PASS_RATES = "pass_rates.jsonl"
# A stage writes these files before its first checkpoint.
START_FILES = ("recipe.yaml", "versions.json", "data.json", "metrics.jsonl")


@dataclass(frozen=True)
class RunFolder:
    """`recipe`: as it is saved beside the run. `processes`: how many share each step."""

    path: Path
    finished: bool
    checkpoint: str | None
    recipe: dict
    processes: int = 1

    def begin(
        self,
        rows: list[dict],
        sampled: Sequence[list[str]] = (),
        data: dict[str, str] | None = None,
    ):
        """Write what the run depends on. Call it only after everything that a user's mistake can
        make fail: a folder written earlier would stand in the way of the corrected recipe.

        Args:
            sampled: the texts that the run learns from, for every example that a model has sampled.
            data: see `data.problems.data_of`.

        Raises:
            RecipeError: the run began with other training problems, or with other sampled texts.
        """
        lock(self.path)
        resumes = has_training(self.path)
        if not resumes:  # an earlier start may have trained nothing
            for name in START_FILES:
                (self.path / name).unlink(missing_ok=True)
        digest = problems_digest(rows, sampled) | (data or {})
        self._require_same_problems(self._at_start("data.json", digest, resumes), digest)
        versions = versions_of(self.recipe)
        versions["shared_by"] = self.processes
        versions["sources"] = sources_of(self.recipe, self.path, rows)
        if not resumes:
            versions["run"] = secrets.token_hex(8)  # in its checkpoints too
        before = self._at_start("versions.json", versions, resumes)
        self._require_same_sources(before, versions)
        self._say_what_changed(before, versions)
        # A run that goes on after its end is not finished, whenever the machine stops.
        (self.path / "summary.json").unlink(missing_ok=True)
        write_whole(self.path / "recipe.yaml", as_yaml(self.recipe))

    def _at_start(self, name: str, content: dict, resumes: bool) -> dict:
        """Read what the run's start wrote in a file. Without that, write the content, and return
        it."""
        file = self.path / name
        written = read_object(file, LARGEST)
        if written:
            return written
        if resumes:  # to refuse the run would lose its checkpoints
            say(
                f"{file} was lost: it is written anew, so that a change since the start goes unseen"
            )
        write_whole(file, json.dumps(content, indent=2) + "\n")
        return content

    def _require_same_problems(self, before: dict, now: dict):
        if all(before.get(key) == now[key] for key in ("problems", "sha256")):
            return
        words, _ = changes(before, now)
        how = "the data has changed"
        if words:
            how += f" ({words})"
        message = (
            f"{self.path} began with {_count(before)} training problems, which are not these"
            f" {_count(now)}: {how}, or the probe that chose them, or what a model"
            " sampled of them, or evaluate.benchmarks, whose problems are removed from training."
            f" Change it back, or move {self.path} away"
        )
        raise RecipeError([message])

    def _require_same_sources(self, before: dict, now: dict):
        """Refuse to go on with other models or columns than the run began with. A reward may have
        been corrected: where its code has changed, say so and note it."""
        sources = before.get("sources")
        if not isinstance(sources, dict):  # of an earlier version
            return
        changed = []
        for name, digest in now["sources"].items():
            if sources.get(name, digest) != digest:
                changed.append(name)
        if not changed:
            return
        difference = f"{self.path} began with other files behind {' and '.join(changed)}"
        if not all(name.startswith("rewards.") for name in changed):
            message = (
                f"{difference}: change them back, or give this run its own folder (output_dir), or,"
                f" to go on with them all the same, delete {self.path}/versions.json"
            )
            raise RecipeError([message])
        say(f"{difference}, and goes on with these")
        before["sources"] = sources | now["sources"]
        before.setdefault("changed", []).append({"from": self.checkpoint, "sources": changed})
        write_whole(self.path / "versions.json", json.dumps(before, indent=2) + "\n")

    def _say_what_changed(self, before: dict, now: dict):
        line = hardware.keep_threads(before.get("threads"))
        if line:
            say(f"{line}: the weights may differ in their last digits")
        if not self.checkpoint:
            return
        count = before.get("shared_by")
        if type(count) is int and count != self.processes:
            say(
                f"began on {count} processes, goes on with {self.processes}: the same problems,"
                " other random numbers"
            )
        packages = before.get("packages")
        if not isinstance(packages, dict):
            return
        packages = packages | {"commit": before.get("commit")}  # of the rewards and the verifier
        changes = []
        for name, version in (now["packages"] | {"commit": now["commit"]}).items():
            if version != packages.get(name):
                changes.append(f"{name} {packages.get(name)} → {version}")
        if changes:
            say(
                "resumed with other versions, with which the weights may differ in their last"
                f" digits: {', '.join(changes)}"
            )

    def finish(self, summary: dict):
        """Mark the run finished, once its files are on the disk."""
        sync_tree(self.path)
        weights = {file.name: size_and_hash(file) for file in weights_of(self.path)}
        text = json.dumps(summary | {"weights": weights}, indent=2)
        write_whole(self.path / "summary.json", f"{text}\n")


def problems_digest(rows: list[dict], sampled: Sequence[list[str]] = ()) -> dict:
    """The content of data.json: the number of a run's problems, and a hash of their texts."""
    text = json.dumps([judged_by(row) for row in rows] + list(sampled))
    return {"problems": len(rows), "sha256": hashlib.sha256(text.encode()).hexdigest()}


def _count(data: dict) -> str:
    problems = data.get("problems")
    return f"{problems:,}" if type(problems) is int else "other"


def as_yaml(resolved: dict) -> str:
    """The text of a recipe as a run saves it (see `Recipe.resolved`). What is None is left out,
    unless the recipe says so in place of a default."""
    sections = _without_none(resolved)
    for name in SECTIONS:
        for key, value in usual(name).items():
            if value is not None and resolved.get(name, {}).get(key, value) is None:
                sections[name][key] = None
    text = io.StringIO()
    YAML().dump(sections, text)
    return text.getvalue()


def _without_none(tree: dict) -> dict:
    """Copy a tree without the keys that are None."""
    copied = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            copied[key] = _without_none(value)
        elif value is not None:
            copied[key] = value
    return copied


def find_run(recipe: Recipe, stage: str, to_train: bool = False) -> RunFolder:
    """Look up the run folder of a recipe's stage.

    Args:
        to_train: lock the folder, unless its run is finished.

    Raises:
        RecipeError: another process trains in the folder, or it holds a run of another recipe, or
            its weights are no longer those that it wrote; the message names what differs and the
            ways out.
    """
    path = recipe.stage_dir(stage)
    was_finished = finished(path)
    is_finished = was_finished and not (to_train and goes_on(recipe, stage))
    if was_finished and not is_finished:
        _require_no_successor(recipe, stage)
    if to_train and is_main_process() and not is_finished:
        lock(path)
    fault = conflict(recipe, stage, to_train)
    if fault:
        raise RecipeError([fault])
    if is_finished:
        require_weights(path, make_command(stage, recipe))
    checkpoint = None
    if not is_finished:
        checkpoint = newest_good(path)
    if was_finished and not is_finished and checkpoint is None:
        raise RecipeError([f"{path} has no checkpoint to go on from: change the recipe back"])
    resolved = without_place(recipe.resolved())
    return RunFolder(path, is_finished, checkpoint, resolved, recipe.processes)


def _require_no_successor(recipe: Recipe, stage: str):
    """Refuse to train a warm start on in its folder once another stage began from it, whose start
    would be lost. Raises RecipeError with the ways out."""
    path = recipe.stage_dir(stage)
    for successor, description in STAGES.items():
        folder = recipe.stage_dir(successor)
        if stage == "sft" and description.warm_start and has_training(folder):
            message = (
                f"{folder} began from the warm start in {path}, which would be another one: give"
                f" the longer one its own folder: {_command_elsewhere(recipe, stage)}. Or move"
                f" {folder} away"
            )
            raise RecipeError([message])


def recipe_of(run: Path) -> Recipe:
    """The recipe of the run in a stage's folder, with that folder's present place as its
    output_dir.

    Raises:
        RecipeError: the saved recipe is not one, or names what a recipe may not.
    """
    folder = str(run.parent)
    # YAML reads a plain path as it stands. Any other is quoted, without escapes: YAML reads no
    # surrogates.
    if not re.fullmatch(r"[\w.-]*(/[\w.-]+)+", folder, re.ASCII):
        folder = json.dumps(folder, ensure_ascii=False)
    # Its model is asked where it is, as when the run began; nothing of it is sent anywhere.
    place = [f"output_dir={folder}"]
    return load_recipe(run / "recipe.yaml", place, check=(), reads_anywhere=True)


def warm_start_of(recipe: Recipe) -> Path | None:
    """The folder of the finished warm start that GRPO begins with; None where the recipe has none.

    Raises:
        RecipeError: it is not finished, or is one of another recipe.
    """
    if recipe.sft is None:
        return None
    path = recipe.stage_dir("sft")
    if not find_run(recipe, "sft").finished:
        raise RecipeError(
            [f"the warm start in {path} is not finished: run `{make_command('sft', recipe)}` first"]
        )
    return path


def not_probed(recipe: Recipe) -> Fault | None:
    """The fault where a recipe asks for pass rates that no finished probe has measured, and GRPO is
    yet to use them."""
    if recipe.data.pass_rate is None or finished(recipe.stage_dir("grpo")):
        return None
    if (recipe.stage_dir("probe") / PASS_RATES).is_file():
        return None
    commands = make_command("probe", recipe)
    if recipe.sft is not None and not finished(recipe.stage_dir("sft")):
        commands = f"{make_command('sft', recipe)} && {commands}"
    message = f"data.pass_rate needs the pass rates of a finished probe: {commands}"
    return Fault(recipe.place("data", "pass_rate"), message)
