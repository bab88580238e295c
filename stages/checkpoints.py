"""Which checkpoints can be trusted, and how the others are told from them.

transformers writes a checkpoint file by file into its final folder, so a kill, a full disk or a flipped bit leaves one
that looks whole. Here a checkpoint counts once it holds `manifest.json`, written last and renamed into place: the size
and the hash of every file, all of them already on the disk. Older ones are removed only after that.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path

from accelerate import PartialState
from transformers import TrainerCallback

from stages.cli import RunStopped, say

MANIFEST = "manifest.json"


def fault(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint, or None."""
    try:
        files = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))["files"]
    except FileNotFoundError:
        return "its writing was not finished"
    except (ValueError, KeyError):
        return f"{MANIFEST} cannot be read"
    for name, (size, digest) in files.items():
        file = checkpoint / name
        if not file.is_file():
            return f"{name} is missing"
        if file.stat().st_size != size:
            return f"{name} has {file.stat().st_size:,} bytes, not {size:,}"
        if _digest(file) != digest:
            return f"{name} is not what was written"
    return None


def newest_good(folder: Path) -> str | None:
    """The newest checkpoint of a run that is whole; newer ones that are not are named."""
    for checkpoint in _checkpoints(folder):
        wrong = fault(checkpoint)
        if wrong is None:
            return str(checkpoint)
        say(f"passed over {checkpoint}: {wrong}")
    return None


def write_whole(file: Path, text: str):
    """Write a file that is there whole, or not at all, whenever the machine stops."""
    partial = file.with_name(file.name + ".partial")
    with partial.open("w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    partial.rename(file)
    _sync(file.parent)


class Checkpoints(TrainerCallback):
    """Seals every checkpoint with its manifest, then prunes; refuses to begin one that will not fit on the disk.

    Args:
        keep: how many to keep, besides the best; None for all.
    """

    def __init__(self, keep: int | None):
        self.keep = keep

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if not control.should_save or not state.is_world_process_zero:
            return
        folder = Path(args.output_dir)
        last = next(iter(_checkpoints(folder)), None)
        # The first one: the weights that are trained and AdamW's two moments of them.
        trained = sum(each.numel() * each.element_size() for each in model.parameters() if each.requires_grad)
        needed = sum(file.stat().st_size for file in last.rglob("*") if file.is_file()) if last else 3 * trained
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise RunStopped(
                f"no room for a checkpoint at step {state.global_step}: it needs {needed / 1e6:,.0f} MB and {folder} "
                f"has {free / 1e6:,.0f} MB left. Make room, or set save_total_limit lower. {kept(folder)}"
            )

    def on_save(self, args, state, control, **kwargs):
        PartialState().wait_for_everyone()  # each process writes a file of its own
        if state.is_world_process_zero:
            checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            files = {}
            for file in sorted(each for each in checkpoint.rglob("*") if each.is_file() and each.name != MANIFEST):
                _sync(file)
                files[str(file.relative_to(checkpoint))] = [file.stat().st_size, _digest(file)]
            _sync(checkpoint)
            write_whole(checkpoint / MANIFEST, json.dumps({"step": state.global_step, "files": files}, indent=1))
            self._prune(Path(args.output_dir), state.best_model_checkpoint)
        PartialState().wait_for_everyone()

    def _prune(self, folder: Path, best: str | None):
        whole = [each for each in _checkpoints(folder) if (each / MANIFEST).is_file()]
        kept = {each.name for each in whole[: self.keep]} | ({Path(best).name} if best else set())
        for checkpoint in _checkpoints(folder) if self.keep else []:
            if checkpoint.name not in kept:
                (checkpoint / MANIFEST).unlink(missing_ok=True)  # half removed, it must not look whole
                shutil.rmtree(checkpoint)


def _checkpoints(folder: Path) -> list[Path]:
    """The newest first."""
    found = [each for each in folder.glob("checkpoint-*") if each.is_dir() and each.name[11:].isdigit()]
    return sorted(found, key=lambda each: -int(each.name[11:]))


def kept(folder: Path) -> str:
    """What is left of a run that stops now, in words."""
    last = newest_good(folder)
    return f"{last} stays, and the same command goes on from it" if last else "Nothing was saved yet"


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _sync(path: Path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
