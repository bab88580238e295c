"""Evaluations while a run trains: validation problems are answered greedily, and a few of them are
sampled, the same ones each time."""

import copy
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from transformers import set_seed

from runs.records import SAME_QUESTIONS
from training.train import sharded

SAME = 4  # validation questions, at most, that each evaluation also samples


class GreedyEvaluation:
    """What a trainer of trl's that samples completions does otherwise: it answers validation
    problems greedily, and samples a few. Put it before trl's class."""

    step_written: int | None = None  # the last whose completions are in a file

    def log(self, logs: dict[str, float], start_time: float | None = None):
        """trl's, which writes a step's completions each time. At its end a run logs once more: it
        must not empty the file of a step that it did not sample, and must not write again what its
        checkpoint has put on the disk, since a power cut would tear it."""
        writes_completions = self.log_completions
        step = self.state.global_step
        is_new = bool(self._logs["prompt"]) and step != self.step_written
        self.log_completions = writes_completions and is_new
        super().log(logs, start_time)
        if self.log_completions:
            self.step_written = step
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
        # At its end a run may write these, and must not write these answers.
        logs_before = copy.deepcopy(self._logs)
        try:
            vars(generator).update(greedy)
            config.update(greedy)
            self.log_completions = False  # this step's file is for its training completions
            with self.random_numbers():
                return super().evaluate(*args, **kwargs)
        finally:
            vars(generator).update(sampling)
            config.update(config_before)
            self.log_completions = self.args.log_completions
            self._logs = logs_before

    def random_numbers(self) -> AbstractContextManager:
        """Those that an evaluation draws, for the order of its problems. One that chooses no
        checkpoint takes none from the training, which goes on as if there had been none."""
        if self.args.load_best_model_at_end:
            return nullcontext()
        return own_random_numbers(self.args.seed, self.accelerator.device)

    def sample_same_questions(self):
        """Sample a few validation questions, the same ones at each evaluation, from the same seed,
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
