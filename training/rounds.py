"""Iterative GRPO (Shao et al. 2024, arXiv:2402.03300, algorithm 1): a run in rounds, each of which takes the policy
that it begins with for its reference. trl's `sync_ref_model` does that for a whole model, and not for an adapter.
Between two rounds trl's `RewardTrainer` may go on with the reward model, on pairs that the policy sampled in the round
before."""

import contextlib
import dataclasses
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from accelerate.state import AcceleratorState, GradientState, PartialState
from accelerate.utils.memory import clear_device_cache
from peft import PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from transformers import PreTrainedModel, PrinterCallback, TrainerCallback
from trl import GRPOTrainer

from schema import configs
from schema.faults import Fault, RecipeError, RunStopped
from schema.names import LEARNED
from schema.recipe import Recipe
from schema.terminal import is_main_process, say
from training import model_files
from training.checkpoints import checkpoints_of, step_of
from training.pairs import PAIRS, RewardPair, pairs_of_batch, read_pairs, replayed, write_pairs
from training.reward_model import RewardModel, load_reward_model, reward_trainer
from training.scoring import Batch
from training.train import sharded

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
        folder = _there(Path(args.output_dir) / f"reference-{state.global_step - within}", "reference")
        reference = self.trainer.accelerator.unwrap_model(self.trainer.ref_model)
        _copy(type(reference).from_pretrained(model_files.model(folder), dtype=reference.dtype), reference)

    def on_step_begin(self, args, state, control, **kwargs):
        if not state.global_step or state.global_step % self.steps:
            return
        policy = self.trainer.accelerator.unwrap_model(self.trainer.model)
        if isinstance(policy, PeftModel):
            renew(policy)
        else:
            _copy(policy, self.trainer.accelerator.unwrap_model(self.trainer.ref_model))
            if is_main_process():
                now = Path(args.output_dir) / f"reference-{state.global_step}"
                with kept(now, lambda step: step - step % self.steps) as folder:
                    policy.save_pretrained(folder)
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


@contextlib.contextmanager
def kept(now: Path, begun: Callable[[int], int]) -> Iterator[Path]:
    """The folder to write a round's model into: it becomes `now`, `<name>-<step>`, whole or not at all. Those that no
    checkpoint needs are removed then; `begun` says with which step the round of a checkpoint at some step began."""
    name = now.name.rpartition("-")[0]
    partial = now.with_name(f"{name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    yield partial
    shutil.rmtree(now, ignore_errors=True)
    partial.rename(now)
    needed = {f"{name}-{begun(step_of(each))}" for each in checkpoints_of(now.parent)} | {now.name}
    for each in now.parent.glob(f"{name}-*/"):
        if each.name not in needed:
            shutil.rmtree(each)


def _there(folder: Path, what: str) -> Path:
    if not folder.is_dir():
        raise RunStopped(f"{folder} is missing, the {what} of this round: the run cannot be resumed without it")
    return folder


@torch.no_grad()
def _copy(source: PreTrainedModel, target: PreTrainedModel):
    for mine, theirs in zip(target.parameters(), source.parameters(), strict=True):
        mine.copy_(theirs)


class Refresh(TrainerCallback):
    """Trains the reward model of the reward `learned` at the start of every round but the first: on the pairs of the
    round before, and on a tenth as many of those before it, the pairs beside the first reward model among them.

    A checkpoint holds the pairs of its round so far. The run's folder holds the refreshed models that its checkpoints
    need, as `reward-model-<step>`, each with all pairs up to it.

    Args:
        reward: what the reward asks. `problems`: of the training data.
        steps: the optimizer steps of a round; a round begins with completions that are newly sampled.
    """

    def __init__(self, recipe: Recipe, reward: RewardModel, problems: set[str], steps: int):
        self.recipe, self.reward, self.problems, self.steps = recipe, reward, problems, steps
        first = Path(recipe.rewards[LEARNED]["model"]) / PAIRS
        self.pairs: list[RewardPair] = []  # of this round
        self.earlier = read_pairs(first) if first.is_file() else []

    def saw(self, batch: Batch):
        """Keep the pairs of a batch that was scored."""
        asked, verdicts = batch.columns, batch.rewards["correct_answer"]
        self.pairs += pairs_of_batch(asked["prompts"], asked["completions"], verdicts, self.problems)

    def on_train_begin(self, args, state, control, **kwargs):
        if not state.global_step:
            return
        folder, begun = Path(args.output_dir), self._begun(state.global_step)
        self.pairs = read_pairs(folder / f"checkpoint-{state.global_step}" / PAIRS)
        if begun:
            model = _there(folder / f"reward-model-{begun}", "reward model")
            self.earlier = read_pairs(model / PAIRS)
            with undisturbed():
                self._take(model)

    def on_step_begin(self, args, state, control, **kwargs):
        step = state.global_step
        if not step or step % self.steps:
            return
        folder = Path(args.output_dir)
        again = replayed(self.pairs, self.earlier, args.seed + step)
        with undisturbed():
            model, count = self._learn([*self.pairs, *again], folder)
            self.earlier += self.pairs
            with kept(folder / f"reward-model-{step}", self._begun) as now:
                model.save_pretrained(now)
                self.reward.tokenizer.save_pretrained(now)
                write_pairs(now / PAIRS, self.earlier)
            del model
            self._take(folder / f"reward-model-{step}")
        told = f"learned from {len(self.pairs):,} new pairs and {len(again):,} earlier ones"
        if not count:
            told = f"stays as it is: it could learn from none of {len(self.pairs):,} new pairs"
        say(f"round {1 + step // self.steps} of {state.max_steps // self.steps}: the reward model {told}")
        self.pairs = []

    def on_save(self, args, state, control, **kwargs):
        write_pairs(Path(args.output_dir) / f"checkpoint-{state.global_step}" / PAIRS, self.pairs)

    def _begun(self, step: int) -> int:
        """At which step the round began whose completions a run at this step has sampled last."""
        return (step - 1) // self.steps * self.steps

    def _learn(self, pairs: list[RewardPair], folder: Path) -> tuple[PreTrainedModel, int]:
        """The reward model, trained on the pairs that fit into `reward_model.max_length`, and how many these were."""
        if not pairs:
            return self.reward.model, 0
        given = configs.training_arguments(self.recipe, "reward_model")
        quiet = {"save_strategy": "no", "logging_strategy": "no", "report_to": "none", "disable_tqdm": True}
        args = configs.section_class("reward_model")(**given | quiet | {"output_dir": str(folder)})
        model = self.reward.model.requires_grad_(True)
        trainer = reward_trainer(self.recipe, args, self.reward.tokenizer, [each.row() for each in pairs], model)
        trainer.remove_callback(PrinterCallback)
        if count := len(trainer.train_dataset):
            trainer.train()
        model = trainer.accelerator.unwrap_model(trainer.model)
        model = model.merge_and_unload() if isinstance(model, PeftModel) else model
        if not all(torch.isfinite(each).all() for each in model.parameters()):
            raise RunStopped("a weight of the refreshed reward model is not finite: lower reward_model.learning_rate")
        return model, count

    def _take(self, folder: Path):
        """Reward by the model of this folder. It is loaded also where it has just been trained, as a resumed run loads
        it: so its weights are the same, and nothing of its trainer is left."""
        options = self.recipe.rewards[LEARNED] | {"model": str(folder), "revision": None}
        as_reward = self.recipe.rewards | {LEARNED: options}
        self.reward.model = None
        clear_device_cache(garbage_collection=True)
        self.reward.model = load_reward_model(dataclasses.replace(self.recipe, rewards=as_reward)).model


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """A trainer in this block leaves the one outside as it was: the random states, and what all objects of accelerate
    share, such as whether a step accumulates."""
    shared = [each._shared_state for each in (PartialState, AcceleratorState, GradientState)]
    before, python, numpy = [dict(each) for each in shared], random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(range(torch.cuda.device_count())):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        for now, then in zip(shared, before, strict=True):
            now.clear()
            now.update(then)
