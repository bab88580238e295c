"""What our trainers do otherwise than trl's: a loss without what cannot change it, greedy
evaluations, and two mends of the training loop. The loss itself is trl's."""

import copy
import re

import torch
from torch.distributed.fsdp import FSDPModule
from torch.nn.functional import pad
from transformers import TrainerCallback

from schema.configs import WITHOUT_SIGNAL
from training.scoring import without_signal


class LeanLoss:
    """What GRPOTrainer does otherwise: its passes through the model read nothing that cannot change
    the loss. Put it before trl's class among the bases."""

    def _get_per_token_logps_and_entropies(
        self, model, input_ids, attention_mask, logits_to_keep, batch_size=None, **options
    ) -> tuple:
        """trl's, of each micro-batch without the columns that are padding in all its rows: trl pads
        to the longest prompt and completion of all that were sampled together. What is left out is
        0 in what it returns, of shape (rows, logits_to_keep)."""
        begins_anywhere = counts_no_padding(self.accelerator.unwrap_model(model).config)
        rows, width = input_ids.shape
        first = width - logits_to_keep
        passes = []
        size = batch_size or rows
        for ids, mask in zip(input_ids.split(size), attention_mask.split(size), strict=True):
            columns = mask.any(0).nonzero()[:, 0].tolist()
            begin = columns[0] if begins_anywhere else 0
            end = max(columns[-1], first) + 1
            logps, entropies, auxiliary = super()._get_per_token_logps_and_entropies(
                model, ids[:, begin:end], mask[:, begin:end], end - first, **options
            )
            if entropies is not None:
                entropies = pad(entropies, (0, width - end))
            passes.append((pad(logps, (0, width - end)), entropies, auxiliary))
        if len(passes) == 1:  # as a loss, which alone has entropies
            return passes[0]
        return torch.cat([logps for logps, _, _ in passes]), None, None

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
        if self.args.world_size > 1 or self.loss_type not in ("dapo", "cispo"):
            return False
        reads_every_completion = (
            self.beta
            or self._entropy_bonus_enabled
            or self.aux_loss_enabled
            or self.top_entropy_quantile < 1
        )
        return not reads_every_completion


def counts_no_padding(config) -> bool:
    """Whether a model computes the same wherever in a row a text begins: by rotations whose
    frequencies do not depend on the row's length."""
    rotations = getattr(config.get_text_config(), "rope_parameters", None)
    return bool(rotations) and not re.search("dynamic|longrope", str(rotations))


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
    greedily, and counts the groups without signal. Put it before trl's class among the bases."""

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
