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
from runs.folder import sha256
from schema.stages import finished

MANIFEST = "manifest.json"
KEY_BYTES = 32
BEGINNING = 2**24  # bytes of a file that are read: weights may have hundreds of times that


def is_adapter(folder: str | Path | None) -> bool:
    """Whether a stage's folder holds an adapter for the base model, and not a complete model."""
    return folder is not None and (Path(folder) / "adapter_config.json").is_file()


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


def weights_of(run: Path) -> list[Path]:
    """The files of a run's trained model or adapter that decide what it answers."""
    names = ("config.json", "adapter_config.json", "tokenizer.json", "chat_template.jinja")
    files = run.glob("*")
    return sorted(file for file in files if file.suffix == ".safetensors" or file.name in names)


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
    """Seal a checkpoint whose files are all written: from now on it counts."""
    sync_tree(checkpoint)
    files = {
        str(file.relative_to(checkpoint)): size_and_hash(file) for file in files_of(checkpoint)
    }
    run = _run_of(checkpoint)
    manifest = {"step": step_of(checkpoint), "run": run, "files": files, "seal": seal(files)}
    write_whole(checkpoint / MANIFEST, json.dumps(manifest, indent=1))


def seal(files: dict | None) -> str | None:
    """Compute a mark on a manifest that only this account can write, with a key in its cache
    folder; None where no key can be stored, or the one there is not this account's."""
    try:
        key = Path.home() / ".cache/grpo-recipes/key"
        if not key.is_file():
            key.parent.mkdir(parents=True, exist_ok=True)
            new_key = key.with_name(f"key.{os.getpid()}")
            new_key.touch(0o600)
            new_key.write_bytes(os.urandom(KEY_BYTES))
            with contextlib.suppress(FileExistsError):  # another process was first
                os.link(new_key, key)
            new_key.unlink()
        # Another's key, or an empty one, would be a mark that another account can write.
        status = key.stat()
        if (status.st_uid, status.st_size) != (os.getuid(), KEY_BYTES):  # a pipe has no size
            return None
        secret = key.read_bytes()
        text = json.dumps(files, sort_keys=True)
        return hmac.new(secret, text.encode(), "sha256").hexdigest()
    except (OSError, RuntimeError):
        return None


def require_ours(run: Path, checkpoint: Path | None = None):
    """Refuse to resume or to write into what this account did not seal, unless the user says that
    it is trusted: a checkpoint may hold any behaviour, and under DeepSpeed and FSDP pickles, which
    run code.

    Args:
        checkpoint: the one to resume; otherwise the finished run is asked, or else its newest one.

    Raises:
        RecipeError: names what is not ours, and the way out.
    """
    otherwise = "read it with make view or make compare"
    if checkpoint is not None:
        otherwise = "give this run its own folder (output_dir)"
    content = read_object(run / "summary.json", LARGEST) or {}
    if checkpoint is None and "seal" not in content:  # it goes on, or an older version finished it
        checkpoint = next(iter(checkpoints_of(run)), None)
        if checkpoint is None and not finished(run):
            return  # nothing to resume, and of such a run nothing is written
    files = content.get("weights")
    if checkpoint is not None:
        content = read_object(checkpoint / MANIFEST, LARGEST) or {}
        files = content.get("files")
    mark = seal(files)
    if mark is None or not hmac.compare_digest(mark, str(content.get("seal"))):
        require_trust(
            f"{checkpoint or run} was written by another account or machine, or by an older"
            " version, or ~/.cache/grpo-recipes/key has changed since",
            otherwise,
        )


def require_trust(difference: str, otherwise: str):
    """Go on with what may not be what the user takes it for only under TRUST_RUN=1.

    Args:
        difference: what is not as it was, a sentence without its end.
        otherwise: what to do where it is not trusted.

    Raises:
        RecipeError: the user has not said so.
    """
    if os.environ.get("TRUST_RUN") != "1":
        advice = "If you trust it, put TRUST_RUN=1 before the command; if not"
        raise RecipeError([f"{difference}. {advice}, {otherwise}"])


def require_best_beside(checkpoint: Path):
    """Refuse to resume a copied run whose best checkpoint, loaded at the end, is at its old place
    alone.

    Raises:
        RecipeError: names both places.
    """
    state = read_object(checkpoint / "trainer_state.json", LARGEST) or {}
    best = state.get("best_model_checkpoint")
    is_elsewhere = best and Path(best).resolve().parent != checkpoint.parent.resolve()
    copied = checkpoint.parent / f"checkpoint-{state.get('best_global_step')}"
    if is_elsewhere and Path(best).exists() and not copied.is_dir():
        message = (
            f"{checkpoint} names {best}, in another folder, as the best checkpoint: resume the run"
            f" there, or move that folder or {checkpoint.parent} away"
        )
        raise RecipeError([message])


def require_weights(folder: Path, command: str):
    """Refuse a finished run whose weights are gone, or are not those that it saved.

    Args:
        command: the command that trains the run.

    Raises:
        RecipeError: names the checkpoints that remain, and what to do.
    """
    fault = altered_weights(folder)
    if fault is None:
        _name_other_base(folder)
        return
    remedy = f"delete {folder}, and `{command}` trains it again"
    checkpoints = [checkpoint for checkpoint in checkpoints_of(folder) if not altered(checkpoint)]
    if checkpoints:
        names = ", ".join(checkpoint.name for checkpoint in checkpoints)
        remedy = f"delete {folder}/summary.json, and `{command}` goes on from its last checkpoint"
        remedy += f" ({names})"
    raise RecipeError([f"{folder} is finished, but {fault}: put it back, or {remedy}"])


def hash_of_files(files: list[Path]) -> str:
    """The hash of the names, the sizes and the beginnings of files."""
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            digest.update(f"{file.name} {file.stat().st_size}".encode(errors="replace"))
            with file.open("rb") as opened:
                digest.update(opened.read(BEGINNING))
    return digest.hexdigest()


def _name_other_base(folder: Path):
    """Say if the files of an adapter's base model have changed since it was trained."""
    if not is_adapter(folder):
        return
    base = (read_object(folder / "adapter_config.json") or {}).get("base_model_name_or_path")
    sources = (read_object(folder / "versions.json") or {}).get("sources") or {}
    expected = sources.get("model.name_or_path")
    if expected is None or not base or not Path(base).is_dir():
        return
    if hash_of_files(sorted(Path(base).iterdir())) != expected:
        say(
            f"to look at: files in {base} have changed since the adapter in {folder} was trained on"
            " that model"
        )


def newest_good(folder: Path, to_resume: bool = False) -> str | None:
    """Find a run's newest checkpoint without damage; print why newer ones were passed over.

    Raises:
        RecipeError: it is to be resumed, and is not ours: its files are not even read.
    """
    for checkpoint in checkpoints_of(folder):
        if to_resume and read_object(checkpoint / MANIFEST, LARGEST):
            require_ours(folder, checkpoint)
        reason = altered(checkpoint)
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
    if last is None:
        return "Nothing has been saved yet"
    return f"The same command resumes from {last}"


def size_and_hash(file: Path) -> list:
    return [file.stat().st_size, sha256(file)]


def sync_tree(folder: Path):
    """Put a folder's files on the disk, so that a power cut after this takes none of them."""
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def sync(path: Path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a disk that syncs no folders
            raise
    finally:
        os.close(descriptor)
