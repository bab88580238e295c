"""Decides which checkpoints are whole, which to keep, and whether there is room for one more.

transformers writes a checkpoint file by file into its final folder, so a kill, a full disk or a
flipped bit leaves one that looks whole. A checkpoint counts only once it holds
`manifest.json`, written last and renamed into place, with the size and hash of every file, all of
them already on the disk. Older checkpoints are removed only after that.
"""

import json
import re
import shutil
from pathlib import Path

from console.faults import RunStopped
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


def require_room(folder: Path, step: int, needed: int):
    """Stop a run before a checkpoint for which the disk of its folder has no room.

    Args:
        needed: the bytes of a run's first checkpoint; any other takes as many as the one before.

    Raises:
        RunStopped: says how much there is, and what to do.
    """
    checkpoints = checkpoints_of(folder)
    if checkpoints:
        files = checkpoints[0].rglob("*")
        needed = sum(file.stat().st_size for file in files if file.is_file())
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
