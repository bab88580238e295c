"""What a run has beside its trainer, in one list: transformers calls one after another at each
event, and what one writes the next one reads."""

from pathlib import Path

import torch
from torch.distributed.fsdp import FSDPModule
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerCallback

from schema.recipe import Recipe
from training.progress import Metrics, ShowAdvice, Stopwatch
from training.saving import Checkpoints, FiniteNumbers


def callbacks_of(
    trainer: Trainer,
    recipe: Recipe,
    folder: Path,
    interrupts: TrainerCallback,
    write_page: TrainerCallback,
) -> list[TrainerCallback]:
    """The callbacks of a run of either stage, in their order; ours in place of the library's bars
    and prints. A trainer that samples has `scores`.

    The order matters for what one callback leaves to the next:

    - `interrupts` orders a checkpoint at the end of a step. `FiniteNumbers`, which looks at the
      weights first, and `Checkpoints`, which looks at the room on the disk, come after it.
    - `KeepBest` writes into the newest line of the history which problems were answered correct.
      `ShowAdvice` reads that line, and `Metrics` copies it into metrics.jsonl.
    - `Stopwatch` counts what was done since it last heard: as an evaluation the page that
      `write_page` writes, as saving the manifest that `Checkpoints` writes. So it comes after them,
      and before `Metrics`, because it adds its seconds to the same line.
    """
    callbacks = [interrupts, *_of_libraries(trainer)]
    if hasattr(trainer, "scores"):
        stopwatch = trainer.stopwatch
        callbacks += [FiniteNumbers(trainer.scores), SameOrder(), trainer.keep_best]
        callbacks.append(ShowAdvice(recipe))
        if trainer.is_fsdp_enabled:
            callbacks.append(Reshard())
    else:
        stopwatch = Stopwatch()
        callbacks.append(FiniteNumbers())
    callbacks += [write_page, Checkpoints(trainer.args.save_total_limit)]
    callbacks += [interrupts.progress, stopwatch, Metrics(folder)]
    return callbacks


def _of_libraries(trainer: Trainer) -> list[TrainerCallback]:
    """What the libraries have added, such as trackers, without what prints: `PrinterCallback` does
    on every machine."""
    callbacks = []
    for callback in trainer.callback_handler.callbacks:
        if not isinstance(callback, ProgressCallback | PrinterCallback):
            callbacks.append(callback)
    return callbacks


class SameOrder(TrainerCallback):
    """Gives a resumed run its problems in their order. trl draws the order of each epoch from a
    generator that no checkpoint holds, so a run resumed in its third epoch would see the order of
    the first again."""

    def on_train_begin(self, args, state, control, train_dataloader=None, **kwargs):
        batches = train_dataloader.batch_sampler
        # Under a launcher a process has a shard of them.
        sampler = getattr(batches, "batch_sampler", batches).sampler
        if not sampler.shuffle:
            return
        finished_epochs = min(int(state.epoch or 0), state.max_steps)
        for _ in range(finished_epochs):
            torch.randperm(sampler.num_samples, generator=sampler.generator)


class Reshard(TrainerCallback):
    """Shards the model again after each batch of an evaluation. As accelerate sets FSDP2 up, the
    norm, the embedding and the head stay unsharded after a forward pass without gradients, and trl
    cannot send them to vLLM for the next batch."""

    def on_prediction_step(self, args, state, control, model=None, **kwargs):
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()
