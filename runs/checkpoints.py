"""Decides which checkpoints are whole.

transformers writes a checkpoint file by file into its final folder, so a kill, a full disk or a
flipped bit leaves one that looks whole. A checkpoint counts only once it holds
`manifest.json`, written last and renamed into place, with the size and hash of every file, all of
them already on the disk. Older checkpoints are removed only after that.
"""

import json
import re
from pathlib import Path

from console.faults import RecipeError
from console.terminal import say
from data.json_files import read_object
from runs.files import size_and_hash, sync, sync_tree, weights_of, write_whole
from runs.records import SAME_QUESTIONS
from schema.stages import finished

MANIFEST = "manifest.json"


def has_training(folder: Path) -> bool:
    """Whether a run's folder holds anything of its training."""
    return finished(folder) or bool(checkpoints_of(folder))


def altered(checkpoint: Path) -> str | None:
    """Say how a checkpoint's files differ from those that were written; None where they do not."""
    if not (checkpoint / MANIFEST).is_file():
        return "it was not written to the end"
    manifest = read_object(checkpoint / MANIFEST) or {}
    recorded = manifest.get("files")
    if not isinstance(recorded, dict):
        return f"{MANIFEST} cannot be read"
    run = _run_of(checkpoint)
    if run and manifest.get("run") not in (None, run):
        return "it is of another run"
    return _difference(recorded, checkpoint, files_of(checkpoint))


def _run_of(checkpoint: Path) -> str | None:
    """The mark of the run in a checkpoint's folder; an older version gave it none."""
    return (read_object(checkpoint.parent / "versions.json") or {}).get("run")


def altered_weights(run: Path) -> str | None:
    """Say how a finished run's weights differ from those that its summary names; None where they do
    not, or where an older version wrote the summary."""
    recorded = (read_object(run / "summary.json") or {}).get("weights")
    if not isinstance(recorded, dict):
        return None
    files = []
    for file in weights_of(run):
        if file.suffix == ".safetensors" or file.name in recorded:  # an older version had no others
            files.append(file)
    return _difference(recorded, run, files)


def _difference(recorded: dict, folder: Path, present: list[Path]) -> str | None:
    """Say how the files that are present differ from those recorded; None where they do not."""
    # What is recorded may name any path: only files that the folder holds are opened.
    files = {str(file.relative_to(folder)): file for file in present}
    for name in recorded:
        if name not in files:
            return f"{ascii(name[:200])[1:-1]} is missing"
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


def require_weights(folder: Path, command: str):
    """Refuse a finished run whose weights are gone, or are not those that it saved.

    Args:
        command: the command that trains the run.

    Raises:
        RecipeError: names the checkpoints that remain, and what to do.
    """
    fault = altered_weights(folder)
    if fault is None:
        return
    remedy = f"delete {folder}, and `{command}` trains it again"
    checkpoints = [checkpoint for checkpoint in checkpoints_of(folder) if not altered(checkpoint)]
    if checkpoints:
        names = ", ".join(checkpoint.name for checkpoint in checkpoints)
        remedy = f"delete {folder}/summary.json, and `{command}` goes on from its last checkpoint"
        remedy += f" ({names})"
    raise RecipeError([f"{folder} is finished, but {fault}: put it back, or {remedy}"])


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
    last = newest_good(folder)
    if last is None:
        return "Nothing has been saved yet"
    return f"The same command resumes from {last}"


def sync_records(run: Path):
    """Put on the disk what a run has written beside its checkpoints: metrics and completions."""
    if (run / "metrics.jsonl").is_file():
        sync(run / "metrics.jsonl")
    for name in ("completions", SAME_QUESTIONS):
        if (run / name).is_dir():
            sync_tree(run / name)
