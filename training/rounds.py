"""Iterative GRPO (Shao et al. 2024, arXiv:2402.03300, algorithm 1): a run in rounds, each of which takes the policy
that it begins with for its reference. trl's `sync_ref_model` does that for a whole model, and not for an adapter."""

import shutil
from pathlib import Path

import torch
from peft import PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from transformers import PreTrainedModel, TrainerCallback
from trl import GRPOTrainer

from schema.faults import Fault, RecipeError, RunStopped
from schema.recipe import Recipe
from schema.terminal import is_main_process, say
from training import model_files
from training.checkpoints import checkpoints_of, step_of
from training.sharding import sharded

FROZEN = "ref"  # what trl calls an adapter that is the reference


class Rounds(TrainerCallback):
    """Renews the reference at the start of every round but the first.

    A checkpoint holds an adapter's reference beside the adapter. That of a whole model is kept in the run's folder, as
    `reference-<step>`, for a run that is resumed within a round.

    `steps`: the optimizer steps of a round; a round begins with completions that are newly sampled.

    Raises:
        RecipeError: no process has the whole policy.
    """

    def __init__(self, recipe: Recipe, trainer: GRPOTrainer):
        self.trainer, self.steps = trainer, trainer.args.max_steps // recipe.rounds
        if sharded(trainer):
            message = "rounds: no process has the whole policy under FSDP or DeepSpeed, to make it the reference"
            raise RecipeError([Fault(recipe.place("rounds"), message)])

    def on_train_begin(self, args, state, control, **kwargs):
        within = state.global_step % self.steps
        if self.trainer.ref_model is None or not within or state.global_step < self.steps:
            return
        kept = Path(args.output_dir) / f"reference-{state.global_step - within}"
        if not kept.is_dir():
            raise RunStopped(f"{kept} is missing, the reference of this round: the run cannot be resumed without it")
        reference = self.trainer.accelerator.unwrap_model(self.trainer.ref_model)
        _copy(type(reference).from_pretrained(model_files.model(kept), dtype=reference.dtype), reference)

    def on_step_begin(self, args, state, control, **kwargs):
        if not state.global_step or state.global_step % self.steps:
            return
        policy = self.trainer.accelerator.unwrap_model(self.trainer.model)
        if isinstance(policy, PeftModel):
            renew(policy)
        else:
            _copy(policy, self.trainer.accelerator.unwrap_model(self.trainer.ref_model))
            if is_main_process():
                keep(policy, Path(args.output_dir), state.global_step, self.steps)
            self.trainer.accelerator.wait_for_everyone()
        number = 1 + state.global_step // self.steps
        say(f"round {number} of {-(-state.max_steps // self.steps)}: the reference is now the policy")


@torch.no_grad()
def renew(policy: PeftModel):
    """Make a frozen copy of the adapter the reference. trl makes one only of an adapter that was trained before; of a
    new one the base is the reference."""
    if FROZEN not in policy.peft_config:
        policy.add_adapter(FROZEN, policy.peft_config["default"])
    set_peft_model_state_dict(policy, get_peft_model_state_dict(policy, adapter_name="default"), adapter_name=FROZEN)
    policy.set_adapter("default")
    for name, parameter in policy.named_parameters():
        if f".{FROZEN}." in name:
            parameter.requires_grad_(False)


def keep(policy: PreTrainedModel, folder: Path, step: int, steps: int):
    """Write the reference of a round, whole or not at all, and remove those that no checkpoint needs."""
    partial = folder / "reference.partial"
    shutil.rmtree(partial, ignore_errors=True)
    policy.save_pretrained(partial)
    now = folder / f"reference-{step}"
    shutil.rmtree(now, ignore_errors=True)
    partial.rename(now)
    at = [step_of(each) for each in checkpoints_of(folder)]
    needed = {f"reference-{each - each % steps}" for each in at} | {now.name}
    for each in folder.glob("reference-*/"):
        if each.name not in needed:
            shutil.rmtree(each)


@torch.no_grad()
def _copy(source: PreTrainedModel, target: PreTrainedModel):
    for mine, theirs in zip(target.parameters(), source.parameters(), strict=True):
        mine.copy_(theirs)
