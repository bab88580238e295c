"""Two mends of what trl's and accelerate's training loop forgets."""

import torch
from torch.distributed.fsdp import FSDPModule
from transformers import TrainerCallback


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
