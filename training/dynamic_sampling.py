"""Zero-variance groups are replaced: dynamic sampling, as DAPO has it (Yu et al. 2025,
arXiv:2503.14476, section 3.2). A group whose completions all earn the same teaches nothing."""

import random
from collections import deque
from collections.abc import Sequence

import torch
from torch.nn.functional import pad

from schema.configs import SAMPLED_AGAIN


class DynamicSampling:
    """Put before `GRPO` among the bases, it replaces the zero-variance groups of a batch by groups
    of other problems, in one process. After the last round some may be left.

    Of a batch trl logs the completions that are trained on, and the figures of those that were
    sampled first, as without this class: after it hard and easy problems would count less.

    Attributes:
        extra_rounds: how often the groups of a batch are replaced, at most.
    """

    extra_rounds: int

    def _generate_and_score_completions(self, inputs: list[dict]) -> dict:
        output = super()._generate_and_score_completions(inputs)
        if not self.model.training:  # an evaluation has no groups
            return output
        metrics = self._metrics["train"]
        first_figures = {name: list(values) for name, values in metrics.items()}
        batch = self.scores.batch
        size = self.num_generations
        groups = [group for group, is_silent in enumerate(self.silent) if is_silent]
        in_batch = {row["problem"] for row in inputs}
        sampled_again = 0
        for _ in range(self.extra_rounds):
            problems = self._other_problems(in_batch, len(groups))
            in_batch |= {row["problem"] for row in problems}
            groups = groups[: len(problems)]
            if not groups:
                break
            rows = [group * size + place for group in groups for place in range(size)]
            sampled = [problem for problem in problems for _ in range(size)]
            logged = {name: list(column) for name, column in _columns(self._logs).items()}
            put(output, super()._generate_and_score_completions(sampled), rows)
            columns = _columns(self._logs)
            for name, values in logged.items():
                _put_rows(values, list(columns[name])[-len(rows) :], rows)
                columns[name].extend(values)
            _put_rows(batch.columns["prompts"], self.scores.batch.columns["prompts"], rows)
            sampled_again += len(rows)
            groups = [
                group for group, is_silent in zip(groups, self.silent, strict=True) if is_silent
            ]
        self.scores.batch = batch
        metrics |= first_figures | {"num_tokens": metrics["num_tokens"]}
        metrics[SAMPLED_AGAIN].append(sampled_again / len(inputs))
        return output

    def _other_problems(self, in_batch: set[str], count: int) -> list[dict]:
        """So many training problems, if there are as many, that a batch has not had. They follow
        from the seed and the batch, so that a resumed run draws them again."""
        indices = range(len(self.train_dataset))
        enough = min(len(indices), count + len(in_batch))
        draw = random.Random(f"{self.args.seed} {sorted(in_batch)}")
        drawn = {}  # a problem that counts twice has two rows
        for index in draw.sample(indices, enough):
            row = self.train_dataset[index]
            drawn[row["problem"]] = row
        return [row for problem, row in drawn.items() if problem not in in_batch][:count]


def put(output: dict, new: dict, rows: Sequence[int]):
    """Put new completions into these rows of a batch, which is padded to the longest of both.

    Args:
        output, new: what trl's `_generate_and_score_completions` returns.
    """
    for name, value in output.items():
        if value.dim() == 2:
            width = max(value.shape[1], new[name].shape[1])
            output[name] = _padded(value, width, name)
            new[name] = _padded(new[name], width, name)
        if value.dim():
            output[name][list(rows)] = new[name]
    output["num_items_in_batch"] = output["completion_mask"].sum()


def _padded(value: torch.Tensor, width: int, name: str) -> torch.Tensor:
    """Shape (rows, width), as trl pads: a prompt before its tokens, a completion behind them. The
    masks have 0 there too, so that any token may stand there."""
    missing = width - value.shape[1]
    return pad(value, (missing, 0) if name.startswith("prompt") else (0, missing))


def _columns(logs: dict) -> dict[str, deque]:
    """The columns of trl's table of completions, each as long as a batch, by name."""
    columns = logs["rewards"] | logs["extra"]
    return columns | {name: logs[name] for name in ("prompt", "completion", "advantages")}


def _put_rows(values: list, new: list, rows: Sequence[int]):
    for row, value in zip(rows, new, strict=True):
        values[row] = value
