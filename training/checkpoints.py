"""Decides which checkpoints can be trusted.

transformers writes a checkpoint file by file into its final folder, so a kill, a full disk or a
flipped bit leaves one that looks whole. A checkpoint counts only once it holds
`manifest.json`, written last and renamed into place, with the size and hash of every file, all of
them already on the disk. Older checkpoints are removed only after that.
"""

import contextlib
import errno
import hashlib
import hmac
import json
import os
import re
from pathlib import Path

from console.faults import RecipeError
from console.terminal import say
from data.json_files import LARGEST, read_object
from schema.stages import finished

MANIFEST = "manifest.json"


def is_adapter(folder: str | Path | None) -> bool:
    """Whether a stage's folder holds an adapter for the base model, and not a complete model."""
    return folder is not None and (Path(folder) / "adapter_config.json").is_file()


def has_training(folder: Path) -> bool:
    """Whether a run's folder holds anything of its training."""
    return finished(folder) or bool(checkpoints_of(folder))


def damage(checkpoint: Path) -> str | None:
    """Say what is damaged in a checkpoint that a run is to be resumed from; None for nothing.

    Raises:
        RecipeError: the run is a copy, and the original is still there. Starting the copy over
            would lose it.
    """
    return altered(checkpoint) or _state_damage(checkpoint)


def altered(checkpoint: Path) -> str | None:
    """Say how a checkpoint's files differ from those that were written; None where they do not."""
    if not (checkpoint / MANIFEST).is_file():
        return "it was not written to the end"
    recorded = (read_object(checkpoint / MANIFEST) or {}).get("files")
    if not isinstance(recorded, dict):
        return f"{MANIFEST} cannot be read"
    # The manifest may name any path: only files that the folder holds are opened.
    files = {str(file.relative_to(checkpoint)): file for file in files_of(checkpoint)}
    for name in recorded:
        if name not in files:
            return f"{ascii(name[:200])[1:-1]} is missing"
    for name, file in files.items():
        # A Mac or NFS leaves these behind. A `.metadata` is read: torch unpickles it.
        if name not in recorded and not file.name.startswith((".DS_Store", ".nfs")):
            return f"{name} is not one of its files"
        if name in recorded and recorded[name] != [file.stat().st_size, sha256(file)]:
            return f"{name} is not the file that was written ({file.stat().st_size:,} bytes)"
    return None


def _state_damage(checkpoint: Path) -> str | None:
    """Say what is damaged in a checkpoint's trainer_state.json. It holds how far the run has come;
    and at the end of a run transformers loads the best checkpoint that it names, wherever that is.
    """
    state = read_object(checkpoint / "trainer_state.json", LARGEST)
    try:
        step = state["global_step"]
        epoch = state["epoch"]
        best = state["best_model_checkpoint"]
        is_copy = best is not None and _is_elsewhere(Path(best), checkpoint.parent)
    except (OSError, ValueError, KeyError, TypeError):
        return "trainer_state.json cannot be read"
    is_number = type(epoch) in (int, float)
    # An epoch has at least one step.
    if step != step_of(checkpoint) or not is_number or not 0 <= epoch <= step:
        return f"trainer_state.json belongs to another step than {step_of(checkpoint)}"
    if is_copy:
        message = (
            f"{checkpoint} names {best}, in another folder, as the best checkpoint: resume the run"
            f" there, or move that folder or {checkpoint.parent} away"
        )
        raise RecipeError([message])
    return None


def _is_elsewhere(checkpoint: Path, run: Path) -> bool:
    """Whether a checkpoint exists in another folder than that run's."""
    return checkpoint.exists() and checkpoint.resolve().parent != run.resolve()


def files_of(checkpoint: Path) -> list[Path]:
    """Every file of a checkpoint that belongs in its manifest."""
    files = sorted(checkpoint.rglob("*"))
    return [file for file in files if file.is_file() and file.name != MANIFEST]


def write_manifest(checkpoint: Path):
    """Seal a checkpoint whose files are all written: from now on it counts."""
    files = {}
    for file in files_of(checkpoint):
        sync(file)
        files[str(file.relative_to(checkpoint))] = [file.stat().st_size, sha256(file)]
    sync(checkpoint)
    manifest = {"step": step_of(checkpoint), "files": files, "seal": seal(files)}
    write_whole(checkpoint / MANIFEST, json.dumps(manifest, indent=1))


def seal(files: dict) -> str | None:
    """Compute a mark on a manifest that only this account can write, with a key in its cache
    folder; None where no key can be stored."""
    try:
        key = Path.home() / ".cache/grpo-recipes/key"
        if not key.is_file():
            key.parent.mkdir(parents=True, exist_ok=True)
            new_key = key.with_name(f"key.{os.getpid()}")
            new_key.touch(0o600)
            new_key.write_bytes(os.urandom(32))
            with contextlib.suppress(FileExistsError):  # another process was first
                os.link(new_key, key)
            new_key.unlink()
        text = json.dumps(files, sort_keys=True)
        return hmac.new(key.read_bytes(), text.encode(), "sha256").hexdigest()
    except (OSError, RuntimeError):
        return None


def sealed_here(checkpoint: Path) -> bool:
    """Whether this account wrote the checkpoint. DeepSpeed's files, and FSDP's `.metadata`, are
    pickles, which run code when they are read, so a sharded checkpoint from elsewhere is only
    resumed when the user says so.
    """
    manifest = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
    mark = seal(manifest["files"])
    return mark is not None and hmac.compare_digest(mark, str(manifest.get("seal")))


def newest_good(folder: Path) -> str | None:
    """Find a run's newest checkpoint without damage; print why newer ones were passed over."""
    for checkpoint in checkpoints_of(folder):
        reason = damage(checkpoint)
        if reason is None:
            return str(checkpoint)
        say(f"passed over {checkpoint}: {reason}")
    return None


def write_whole(file: Path, text: str):
    """Write a file so that it exists completely or not at all, whenever the machine stops."""
    partial = file.with_name(file.name + ".partial")
    with partial.open("w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    partial.rename(file)
    sync(file.parent)


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
    return f"The same command resumes from {last}" if last else "Nothing has been saved yet"


def sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def sync(path: Path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a disk that syncs no folders
            raise
    finally:
        os.close(descriptor)
