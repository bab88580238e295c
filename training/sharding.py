"""What a run needs whose processes each hold only a part of the model, beyond what trl and transformers do: under FSDP
and DeepSpeed."""

from pathlib import Path

from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import FSDPModule
from transformers import PreTrainedModel, Trainer, TrainerCallback

from schema.faults import RecipeError


def sharded(trainer: Trainer) -> bool:
    """Whether a process may hold only a part of each weight."""
    return trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled


def require_same_sharding(trainer: Trainer, checkpoint: str | None):
    """Refuse a checkpoint that was written under another kind of launcher: its optimizer has another form, which
    transformers would silently go on without.

    Raises:
        RecipeError: names both.
    """
    if checkpoint is None:
        return
    now = "FSDP" if trainer.is_fsdp_enabled else "DeepSpeed" if trainer.is_deepspeed_enabled else "DDP or one process"
    files = {each.name for each in Path(checkpoint).iterdir()}
    fsdp = any(each.startswith("pytorch_model_fsdp") for each in files)
    began = "FSDP" if fsdp else "DeepSpeed" if "latest" in files else "DDP or one process"
    if began != now:
        raise RecipeError(
            [
                f"{checkpoint} was written under {began}, and this is {now}, which cannot resume its optimizer: launch "
                f"the run as it began, or delete {Path(checkpoint).parent}"
            ]
        )


def share_reference(trainer: Trainer, whole: PreTrainedModel):
    """Send the first process's weights of a reference model to all. With FSDP, transformers loads weights only in the
    first process of a machine. accelerate sends the policy's to the others, and trl forgets the reference, most
    of whose shards would be zeros.

    Args:
        whole: the reference, as it is before it is sharded.
    """
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(trainer.ref_model, whole.state_dict(), options=options)


class Reshard(TrainerCallback):
    """Shards the model again after each batch of an evaluation. As accelerate sets FSDP2 up, the norm, the embedding
    and the head stay whole after a forward pass without gradients, and trl cannot send them to vLLM for the next
    batch."""

    def on_prediction_step(self, args, state, control, model=None, **kwargs):
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()
