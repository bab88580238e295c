"""Which checkpoints can be trusted, and how to tell.

transformers writes a checkpoint file by file into its final folder, so a kill, a full disk or a
flipped bit leaves one that looks whole. Here a checkpoint counts only once it holds
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

MANIFEST = "manifest.json"


def is_adapter(trained: str | Path | None) -> bool:
    """Whether a stage's folder holds an adapter for the base model, and not a whole model."""
    return trained is not None and (Path(trained) / "adapter_config.json").is_file()


def damage(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint that a run is to be resumed from, or None."""
    return altered(checkpoint) or _wrong_state(checkpoint)


def altered(checkpoint: Path) -> str | None:
    """How a checkpoint's files differ from those that were written, or None."""
    if not (checkpoint / MANIFEST).is_file():
        return "it was not written to the end"
    told = (read_object(checkpoint / MANIFEST) or {}).get("files")
    if not isinstance(told, dict):
        return f"{MANIFEST} cannot be read"
    # Of what the manifest names, only what is there is opened.
    there = {str(each.relative_to(checkpoint)): each for each in files_of(checkpoint)}
    if missing := [name for name in told if name not in there]:
        return f"{ascii(missing[0][:200])[1:-1]} is missing"
    for name, file in there.items():
        # What a Mac or NFS leaves behind. A `.metadata` is read: torch unpickles it.
        if name not in told and not file.name.startswith((".DS_Store", ".nfs")):
            return f"{name} is not one of its files"
        if name in told and told[name] != [file.stat().st_size, sha256(file)]:
            return f"{name} is not the file that was written ({file.stat().st_size:,} bytes)"
    return None


def _wrong_state(checkpoint: Path) -> str | None:
    """What is wrong with the run's state in a checkpoint. It says how far the run has come; and at
    the end of a run transformers loads the best checkpoint that it names, wherever that is.

    Raises:
        RecipeError: the run is a copy, and the original is still there. Starting the copy over
            would lose it.
    """
    state = read_object(checkpoint / "trainer_state.json", LARGEST)
    try:
        step, epoch, best = (
            state[key] for key in ("global_step", "epoch", "best_model_checkpoint")
        )
        elsewhere = (
            best is not None
            and Path(best).exists()
            and Path(best).resolve().parent != checkpoint.parent.resolve()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return "trainer_state.json cannot be read"
    # An epoch has a step at least.
    if step != step_of(checkpoint) or type(epoch) not in (int, float) or not 0 <= epoch <= step:
        return f"trainer_state.json belongs to another step than {step_of(checkpoint)}"
    if elsewhere:
        message = (
            f"{checkpoint} names {best}, in another folder, as the best checkpoint: resume the run"
            " there, or "
        )
        raise RecipeError([f"{message}move that folder or {checkpoint.parent} away"])
    return None


def files_of(checkpoint: Path) -> list[Path]:
    """Every file of a checkpoint that belongs in its manifest."""
    return sorted(
        each for each in checkpoint.rglob("*") if each.is_file() and each.name != MANIFEST
    )


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
    """A mark on a manifest that only this account can make, with a key in its cache folder; None
    where no key can be kept."""
    try:
        key = Path.home() / ".cache/grpo-recipes/key"
        if not key.is_file():
            key.parent.mkdir(parents=True, exist_ok=True)
            whole = key.with_name(f"key.{os.getpid()}")
            whole.touch(0o600)
            whole.write_bytes(os.urandom(32))
            with contextlib.suppress(FileExistsError):  # another process was first
                os.link(whole, key)
            whole.unlink()
        return hmac.new(
            key.read_bytes(), json.dumps(files, sort_keys=True).encode(), "sha256"
        ).hexdigest()
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
    """The newest whole checkpoint of a run; says which newer ones were passed over, and why."""
    for checkpoint in checkpoints_of(folder):
        wrong = damage(checkpoint)
        if wrong is None:
            return str(checkpoint)
        say(f"passed over {checkpoint}: {wrong}")
    return None


def write_whole(file: Path, text: str):
    """Write a file so that it is there whole or not at all, whenever the machine stops."""
    partial = file.with_name(file.name + ".partial")
    with partial.open("w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    partial.rename(file)
    sync(file.parent)


def checkpoints_of(folder: Path) -> list[Path]:
    """All checkpoints of a run, the newest first."""
    found = [
        each
        for each in folder.glob("checkpoint-*")
        if re.fullmatch("[0-9]+", each.name[11:]) and each.is_dir()
    ]
    return sorted(found, key=step_of, reverse=True)


def step_of(checkpoint: Path) -> int:
    """The step after which it was written."""
    return int(checkpoint.name.rpartition("-")[2])


def kept(folder: Path) -> str:
    """What remains of a run that stops now, as a sentence."""
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
