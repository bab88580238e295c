"""Groups without signal are sampled again, as DAPO's dynamic sampling does (arXiv:2503.14476,
section 3.2): an experiment, off unless SAMPLE_AGAIN says how many extra rounds a batch may have."""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.nn.functional import pad
from torch.optim.lr_scheduler import LambdaLR
from transformers import TrainerCallback


def rounds() -> int:
    return int(os.environ.get("SAMPLE_AGAIN", 0))


class SampledAgain(TrainerCallback):
    """Put it before `GRPO` among the bases. A run ends, and its learning rate is zero, with as many
    sampled completions as its recipe has without extra rounds. One process, a linear schedule.

    Attributes:
        sampled, before: completions sampled so far, and before the newest batch.
        batches: of each batch the groups without signal after each round.
    """

    sampled = before = 0

    def _generate_and_score_completions(self, inputs: list[dict]) -> dict:
        if not self.model.training:
            return super()._generate_and_score_completions(inputs)
        if self.sampled == 0:
            self.add_callback(self)
            self.batches = []
            self.problems = self.other_problems()
        size = self.num_generations
        inputs = inputs[: self.budget() - self.sampled]
        self.before = self.sampled
        self.sampled += len(inputs)
        output = super()._generate_and_score_completions(inputs)
        silent = without_signal(output["advantages"], size)
        counts = [len(silent)]
        for _ in range(rounds()):
            silent = silent[: (self.budget() - self.sampled) // size]
            if not silent:
                break
            rows = [row for _ in silent for row in [next(self.problems)] * size]
            self.sampled += len(rows)
            replace(output, super()._generate_and_score_completions(rows), silent, size)
            silent = without_signal(output["advantages"], size)
            counts.append(len(silent))
        self.batches.append(counts)
        return output

    def budget(self) -> int:
        return self.args.max_steps * self.args.per_device_train_batch_size // self.num_iterations

    def other_problems(self) -> Iterator[dict]:
        order = random.Random(self.args.seed)
        while True:
            for number in order.sample(range(len(self.train_dataset)), len(self.train_dataset)):
                yield self.train_dataset[number]

    def create_scheduler(self, num_training_steps: int, optimizer=None) -> LambdaLR:
        def left(step: int) -> float:
            """A batch's updates share what it sampled. At its first, it is not yet sampled."""
            part = step % self.num_iterations / self.num_iterations
            spent = self.sampled
            if part:
                spent = self.before + part * (self.sampled - self.before)
            return 1 - spent / self.budget()

        self.lr_scheduler = LambdaLR(optimizer or self.optimizer, left)
        return self.lr_scheduler

    def on_step_end(self, args, state, control, **kwargs):
        if self.sampled >= self.budget() and state.global_step % self.num_iterations == 0:
            control.should_training_stop = True
            facts = {"sampled": self.sampled, "updates": state.global_step, "silent": self.batches}
            Path(args.output_dir, "sampled-again.json").write_text(json.dumps(facts))


def without_signal(advantages: torch.Tensor, size: int) -> list[int]:
    """Groups, by their numbers in the batch."""
    return (advantages.view(-1, size) == 0).all(1).nonzero()[:, 0].tolist()


def replace(output: dict, new: dict, groups: list[int], size: int):
    """Put new groups in the place of these in a batch, which is padded to the longest of both."""
    rows = torch.tensor([group * size + place for group in groups for place in range(size)])
    for key, value in output.items():
        if value.dim() == 2:
            values = []
            for tensor in (value, new[key]):
                missing = max(value.shape[1], new[key].shape[1]) - tensor.shape[1]
                sides = (missing, 0) if key.startswith("prompt") else (0, missing)
                values.append(pad(tensor, sides))  # whatever stands there is masked
            output[key], new[key] = values
        if value.dim():
            output[key][rows] = new[key]
    output["num_items_in_batch"] = output["completion_mask"].sum()
