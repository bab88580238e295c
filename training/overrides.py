"""What our trainers do otherwise than trl's: a loss without what cannot change it, evaluations that
are greedy and sample a few questions, two mends of the training loop. The loss itself is trl's."""

import copy
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch.distributed.fsdp import FSDPModule
from torch.nn.functional import pad
from transformers import TrainerCallback, set_seed

from runs.records import SAME_QUESTIONS
from schema.configs import WITHOUT_SIGNAL
from training.cpu import keeping_order, sharing_prompts
from training.sampling import has_relative_positions
from training.scoring import without_signal
from training.train import sharded

# The losses that divide by the tokens of all micro-batches together.
WHOLE_BATCH = ("dapo", "cispo")
SAME = 4  # held-out questions, at most, that each evaluation also samples


class LeanLoss:
    """What GRPOTrainer does otherwise: its passes through the model read nothing that cannot change
    the loss. Put it before trl's class among the bases."""

    def _get_per_token_logps_and_entropies(
        self, model, input_ids, attention_mask, logits_to_keep, batch_size=None, **options
    ) -> tuple:
        """trl's, of each micro-batch without the columns that are padding in all its rows: trl pads
        to the longest prompt and completion of all that were sampled together. What is left out is
        0 in what it returns, of shape (rows, logits_to_keep). On a CPU a prompt is read once for
        all its completions."""
        unwrapped = self.accelerator.unwrap_model(model)
        begins_anywhere = has_relative_positions(unwrapped)
        rows, width = input_ids.shape
        first = width - logits_to_keep
        passes = []
        size = batch_size or rows
        for ids, mask in zip(input_ids.split(size), attention_mask.split(size), strict=True):
            columns = mask.any(0).nonzero()[:, 0].tolist()
            begin = columns[0] if begins_anywhere else 0
            end = max(columns[-1], first) + 1
            with sharing_prompts(unwrapped, first - begin):
                logps, entropies, auxiliary = super()._get_per_token_logps_and_entropies(
                    model, ids[:, begin:end], mask[:, begin:end], end - first, **options
                )
            if entropies is not None:
                entropies = pad(entropies, (0, width - end))
            passes.append((pad(logps, (0, width - end)), entropies, auxiliary))
        if len(passes) == 1:  # as a loss, which alone has entropies
            return passes[0]
        return torch.cat([logps for logps, _, _ in passes]), None, None

    def _prepare_inputs(self, generation_batch) -> dict:
        """trl's, which shuffles what was sampled and splits it into micro-batches. Where one update
        learns from all of them alike, a group stays together, so that it can share its prompt."""
        is_one_update = self.args.steps_per_generation == self.args.gradient_accumulation_steps
        is_one_loss = self.loss_type in WHOLE_BATCH and not self.compares_tokens()
        if is_one_update and is_one_loss:
            with keeping_order(self.accelerator.unwrap_model(self.model)):
                return super()._prepare_inputs(generation_batch)
        return super()._prepare_inputs(generation_batch)

    def _compute_loss(self, model, inputs: dict) -> torch.Tensor:
        if self.model.training:
            if self.reads_advantages_alone():
                inputs = with_advantage(inputs)
            inputs = without_padding(inputs)
        return super()._compute_loss(model, inputs)

    def reads_advantages_alone(self) -> bool:
        """Whether a completion without advantage leaves the loss as it is: nothing else pulls at
        it, and the loss is no mean over completions. Several processes gather equal numbers of
        them."""
        if self.args.world_size > 1 or self.loss_type not in WHOLE_BATCH:
            return False
        return not self.beta and not self._entropy_bonus_enabled and not self.compares_tokens()

    def compares_tokens(self) -> bool:
        """Whether what a token counts for depends on the others of its micro-batch."""
        return self.aux_loss_enabled or self.top_entropy_quantile < 1


def with_advantage(inputs: dict) -> dict:
    """A batch of the loss without the completions of groups that all earned the same. One stays
    where all did, if there is one whose tokens count."""
    has_tokens = inputs["completion_mask"].any(1)
    has_advantage = inputs["advantages"].reshape(len(has_tokens), -1).any(1)
    if has_advantage.any():
        rows = has_advantage.nonzero()[:, 0]
    else:
        rows = has_tokens.int().argmax()[None]
    by_completion = {
        key: value for key, value in inputs.items() if torch.is_tensor(value) and value.dim()
    }
    return inputs | {key: value[rows] for key, value in by_completion.items()}


def without_padding(inputs: dict) -> dict:
    """A batch of the loss without the columns that hold no token of its completions."""
    in_completion = inputs["completion_mask"].any(0)
    in_completion[0] = True  # with mask_truncated_completions, a batch may learn from no token
    cut = {}
    for key, value in inputs.items():
        is_by_token = torch.is_tensor(value) and value.dim() == 2 and value.shape[1] > 1
        if is_by_token and not key.startswith("prompt"):
            cut[key] = value[:, in_completion]
    return inputs | cut


class GreedyEvaluation:
    """What a trainer of trl's that samples completions does otherwise: it answers held-out problems
    greedily and samples a few, and counts the groups without signal. Put it before trl's class."""

    def _calculate_rewards(self, *inputs) -> torch.Tensor:
        """trl's rewards, shape (completions, rewards), and a metric of their groups."""
        rewards = super()._calculate_rewards(*inputs)
        if self.model.training:  # held-out problems are answered once each, in no groups
            share = without_signal(rewards, self.reward_weights, self.num_generations)
            self._log_metric(WITHOUT_SIGNAL, share)
        return rewards

    def log(self, logs: dict[str, float], start_time: float | None = None):
        # A run that resumes from its last checkpoint samples nothing, and must not empty that
        # step's file.
        writes_completions = self.log_completions
        self.log_completions = writes_completions and bool(self._logs["prompt"])
        super().log(logs, start_time)
        self.log_completions = writes_completions

    def evaluate(self, *args, **kwargs) -> dict[str, float]:
        if self.log_completions and not self.use_vllm and not sharded(self):
            self.sample_same_questions()
        if self.use_vllm:
            generator = self.vllm_generation
            greedy = {"temperature": 0.0}
        else:
            # What only sampling reads is left out: transformers warns of it.
            generator = self.generation_config
            greedy = {"do_sample": False}
            greedy |= dict.fromkeys(("temperature", "top_p", "top_k", "min_p"))
        sampling = {key: getattr(generator, key) for key in greedy}
        # transformers lets a model's own config, which trl fills from these, override a `False`.
        config = getattr(self, "generation_kwargs", {})
        config_before = dict(config)
        # At its end a run writes these again, and must not write these answers.
        logs_before = copy.deepcopy(self._logs)
        try:
            vars(generator).update(greedy)
            config.update(greedy)
            self.log_completions = False  # this step's file is for its training completions
            return super().evaluate(*args, **kwargs)
        finally:
            vars(generator).update(sampling)
            config.update(config_before)
            self.log_completions = self.args.log_completions
            self._logs = logs_before

    def sample_same_questions(self):
        """Sample a few held-out questions, the same ones at each evaluation, from the same seed,
        and write their groups; of training's random numbers, metrics and logs nothing changes. They
        are a batch, no larger than training's, which each process samples whole."""
        size = self.num_generations
        at_once = self.args.per_device_train_batch_size * self.args.steps_per_generation
        number = min(SAME, at_once // size, len(self.eval_dataset))
        rows = []
        for place in range(number):
            rows += [self.eval_dataset[place * len(self.eval_dataset) // number]] * size
        if not rows:
            return
        before = (self._logs, self.num_generations_eval, self.model.training)
        self._logs = defaultdict(list, rewards=defaultdict(list), extra=defaultdict(list))
        self.num_generations_eval = size
        self.model.eval()
        try:
            with own_random_numbers(self.args.seed, self.accelerator.device):
                self.prediction_step(self.model, rows, prediction_loss_only=True)
            if self.accelerator.is_main_process:
                folder = Path(self.args.output_dir, SAME_QUESTIONS)
                write_completions(folder, self.state.global_step, self._logs, len(rows))
        finally:
            self._logs, self.num_generations_eval, was_training = before
            self.model.train(was_training)
            self._metrics["eval"].clear()  # an evaluation begins with none

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        """Answers a batch and rewards the answers. trl would also pass the whole batch through the
        model at once, for a loss that nothing reads and a reference; what is left of that goes in
        batches of training's size.
        """
        args = self.args
        batch_size = args.per_device_eval_batch_size
        args.per_device_eval_batch_size = args.per_device_train_batch_size
        try:
            self._prepare_inputs(inputs)
        finally:
            args.per_device_eval_batch_size = batch_size
        return None, None, None


@contextmanager
def own_random_numbers(seed: int, device: torch.device) -> Iterator[None]:
    """Draw from a seed. After the block torch, numpy and Python go on as if nothing was drawn."""
    of_python = random.getstate()
    of_numpy = np.random.get_state()
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        try:
            set_seed(seed)
            yield
        finally:
            random.setstate(of_python)
            np.random.set_state(of_numpy)


def write_completions(folder: Path, step: int, logs: dict, rows: int):
    """Write the first `rows` of a trainer's `_logs` as trl writes a step's completions."""
    columns = {"step": step, "prompt": logs["prompt"], "completion": logs["completion"]}
    columns |= logs["rewards"] | logs["extra"] | {"advantage": logs["advantages"]}
    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(columns)[:rows].to_parquet(folder / f"completions_{step:05d}.parquet")


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
