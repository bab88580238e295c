"""Iterative GRPO with a reward model that learns while the policy does (Shao et al. 2024, arXiv:2402.03300, algorithm
1): between two rounds trl's `RewardTrainer` goes on with it, on pairs that the policy sampled in the round before."""

import contextlib
import dataclasses
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from accelerate.state import AcceleratorState, GradientState, PartialState
from accelerate.utils.memory import clear_device_cache
from peft import PeftModel
from transformers import PreTrainedModel, PrinterCallback, TrainerCallback

from schema import configs
from schema.faults import RunStopped
from schema.names import LEARNED
from schema.recipe import Recipe
from schema.terminal import say
from training.checkpoints import checkpoints_of, step_of
from training.reward_model import RewardModel, load_reward_model, reward_trainer
from training.reward_pairs import PAIRS, RewardPair, pairs_of_batch, read_pairs, replayed, write_pairs
from training.scoring import Batch


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
        prompts, completions, verdicts = (
            *map(batch.columns.get, ("prompts", "completions")),
            batch.rewards["correct_answer"],
        )
        self.pairs += pairs_of_batch(prompts, completions, verdicts, self.problems)

    def on_train_begin(self, args, state, control, **kwargs):
        if not state.global_step:
            return
        folder, begun = Path(args.output_dir), self._begun(state.global_step)
        self.pairs = read_pairs(folder / f"checkpoint-{state.global_step}" / PAIRS)
        if begun:
            kept = folder / f"reward-model-{begun}"
            if not kept.is_dir():
                message = f"{kept} is missing, the reward model of this round: the run cannot be resumed without it"
                raise RunStopped(message)
            self.earlier = read_pairs(kept / PAIRS)
            with undisturbed():
                self._take(kept)

    def on_step_begin(self, args, state, control, **kwargs):
        step = state.global_step
        if not step or step % self.steps:
            return
        folder = Path(args.output_dir)
        again = replayed(self.pairs, self.earlier, args.seed + step)
        with undisturbed():
            model, count = self._learn([*self.pairs, *again], folder)
            self.earlier += self.pairs
            self._keep(model, folder, step)
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

    def _keep(self, model: PreTrainedModel, folder: Path, step: int):
        """Write the model of a round, whole or not at all, and remove those that no checkpoint needs."""
        partial, now = folder / "reward-model.partial", folder / f"reward-model-{step}"
        shutil.rmtree(partial, ignore_errors=True)
        model.save_pretrained(partial)
        self.reward.tokenizer.save_pretrained(partial)
        write_pairs(partial / PAIRS, self.earlier)
        shutil.rmtree(now, ignore_errors=True)
        partial.rename(now)
        needed = {self._begun(step_of(each)) for each in checkpoints_of(folder)} | {step}
        for each in folder.glob("reward-model-*/"):
            if each.name not in {f"reward-model-{begun}" for begun in needed}:
                shutil.rmtree(each)

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
