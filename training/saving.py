"""Seals every checkpoint that a run writes, so that a partial one never passes for whole (see checkpoints.py)."""

import json
import shutil
from pathlib import Path

from accelerate import PartialState
from transformers import TrainerCallback

from schema.faults import RunStopped
from training.checkpoints import MANIFEST, checkpoints_of, files_of, kept, seal, sha256, step_of, sync, write_whole


class Checkpoints(TrainerCallback):
    """Seals every checkpoint with its manifest, then prunes old ones; stops before one that would not fit on the disk.

    Args:
        keep: how many to keep besides the best; None keeps all.
    """

    def __init__(self, keep: int | None):
        self.keep = keep

    def on_step_end(self, args, state, control, model=None, **kwargs):
        if not control.should_save or not state.is_world_process_zero:
            return
        folder = Path(args.output_dir)
        last = next(iter(checkpoints_of(folder)), None)
        # For the first one: the trained weights and AdamW's two moments of them.
        trained = sum(each.numel() * each.element_size() for each in model.parameters() if each.requires_grad)
        needed = sum(file.stat().st_size for file in last.rglob("*") if file.is_file()) if last else 3 * trained
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise RunStopped(
                f"no room for a checkpoint at step {state.global_step}: it needs {needed / 1e6:,.0f} MB, and {folder} "
                f"has {free / 1e6:,.0f} MB left. Make room, or lower save_total_limit. {kept(folder)}"
            )

    def on_save(self, args, state, control, **kwargs):
        PartialState().wait_for_everyone()  # each process writes a file of its own
        if state.is_world_process_zero:
            checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            files = {}
            for file in files_of(checkpoint):
                sync(file)
                files[str(file.relative_to(checkpoint))] = [file.stat().st_size, sha256(file)]
            sync(checkpoint)
            write_whole(
                checkpoint / MANIFEST,
                json.dumps({"step": state.global_step, "files": files, "seal": seal(files)}, indent=1),
            )
            self._prune(Path(args.output_dir), state)
        PartialState().wait_for_everyone()

    def _prune(self, folder: Path, state):
        best = state.best_model_checkpoint
        # A higher number belongs to a run that could not be resumed: it must not push out this run's.
        whole = [
            each
            for each in checkpoints_of(folder)
            if (each / MANIFEST).is_file() and step_of(each) <= state.global_step
        ]
        kept = {each.name for each in whole[: self.keep]} | ({Path(best).name} if best else set())
        for checkpoint in checkpoints_of(folder) if self.keep else []:
            if checkpoint.name not in kept:
                (checkpoint / MANIFEST).unlink(missing_ok=True)  # half removed, the checkpoint must not look whole
                shutil.rmtree(checkpoint)
