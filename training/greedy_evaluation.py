"""Evaluation inside training: held-out problems are answered greedily, as the last evaluation
answers them, with trl's own trainer."""

import copy

import torch

from schema.configs import WITHOUT_SIGNAL
from training.scoring import without_signal


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
