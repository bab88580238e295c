"""Writes a run's folder: what a run begins with, and that it is finished. Its checkpoints are
written by transformers (runs/checkpoints.py), its metrics and completions while it trains."""

import hashlib
import io
import json
import secrets
from collections.abc import Sequence
from pathlib import Path

from ruamel.yaml import YAML

from console.faults import RecipeError
from console.terminal import say
from data.problems import judged_by
from machine import hardware
from runs.files import size_and_hash, sync_tree, weights_of, write_whole
from runs.identity import changes
from runs.lock import lock
from runs.state import RunState
from runs.versions import sources_of, versions_of
from schema.configs import SECTIONS, without_place
from schema.settings import Recipe, usual

# A stage writes these files before its first checkpoint.
START_FILES = ("recipe.yaml", "versions.json", "data.json", "metrics.jsonl")


def begin(
    run: RunState,
    recipe: Recipe,
    rows: list[dict],
    sampled: Sequence[list[str]] = (),
    data: dict[str, str] | None = None,
):
    """Write what a run depends on. Call it only after everything that a user's mistake can make
    fail: a folder written earlier would stand in the way of the corrected recipe.

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
    problems = problems_digest(rows, sampled) | (data or {})
    if run.data:
        _require_same_problems(run, problems)
    else:
        _write_start(run, "data.json", problems)
    resolved = without_place(recipe.resolved())
    versions = versions_of(resolved)
    versions["shared_by"] = recipe.processes
    versions["sources"] = sources_of(resolved, folder, rows)
    if run.versions:
        _require_same_sources(run, versions["sources"])
        _say_what_changed(run, versions)
    else:
        if run.is_new:
            versions["run"] = secrets.token_hex(8)  # in its checkpoints too
        _write_start(run, "versions.json", versions)
    # A run that goes on after its end is not finished, whenever the machine stops.
    (folder / "summary.json").unlink(missing_ok=True)
    write_whole(folder / "recipe.yaml", as_yaml(resolved))


def finish(folder: Path, summary: dict):
    """Mark a run finished, once its files are on the disk."""
    sync_tree(folder)
    weights = {file.name: size_and_hash(file) for file in weights_of(folder)}
    _write_object(folder / "summary.json", summary | {"weights": weights})


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


def _require_same_sources(run: RunState, sources: dict[str, str]):
    """Refuse to go on with other models or columns than the run began with. A reward may have been
    corrected: where its code has changed, say so and note it."""
    before = run.versions.get("sources", sources)  # an earlier version had none
    changed = [name for name in sources if before.get(name, sources[name]) != sources[name]]
    if not changed:
        return
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
