"""Zero-variance groups are replaced: dynamic sampling, as DAPO has it (Yu et al. 2025,
arXiv:2503.14476, section 3.2). A group whose completions all earn the same teaches nothing."""

import random
from collections import deque
from collections.abc import Sequence
from itertools import compress

import torch
from torch.nn.functional import pad

from schema.configs import SAMPLED_AGAIN, ZERO_VARIANCE


class DynamicSampling:
    """Put before `GRPO` among the bases, it replaces the zero-variance groups of a batch by groups
    of other problems, in one process. After the last round some may be left.

    Of a batch trl logs the completions that are trained on, the share of zero-variance groups that
    is left, and otherwise the figures of those that were sampled first, as without this class:
    after it hard and easy problems would count less.

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
        group_count = len(inputs) // size
        groups = list(compress(range(group_count), self.silent))
        silent_count = len(groups)
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
            logged = _take(self._logs)
            put(output, super()._generate_and_score_completions(sampled), rows)
            _put_logged(self._logs, logged, rows, len(inputs))
            _put_rows(batch.columns["prompts"], self.scores.batch.columns["prompts"], rows)
            sampled_again += len(rows)
            silent_count -= len(groups) - sum(self.silent)
            groups = list(compress(groups, self.silent))
        self.scores.batch = batch
        metrics |= first_figures | {"num_tokens": metrics["num_tokens"]}
        metrics[ZERO_VARIANCE][-1] = silent_count / group_count
        metrics[SAMPLED_AGAIN].append(sampled_again / len(inputs))
        return output

    def _other_problems(self, in_batch: set[str], count: int) -> list[dict]:
        """So many training problems, if there are as many, that a batch has not had. They follow
        from the seed and the batch, so that a resumed run draws them again."""
        draw = random.Random(f"{self.args.seed} {sorted(in_batch)}")
        indices = range(len(self.train_dataset))
        drawn = {}  # a problem that counts twice has two rows
        for index in draw.sample(indices, len(indices)):
            if len(drawn) == count:
                break
            row = self.train_dataset[index]
            if row["problem"] not in in_batch:
                drawn[row["problem"]] = row
        return list(drawn.values())


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
    """Shape (rows, width), as trl pads: a prompt before its tokens, a completion behind them, with
    0, or with a ratio of 1."""
    missing = width - value.shape[1]
    sides = (missing, 0) if name.startswith("prompt") else (0, missing)
    return pad(value, sides, value=float(name == "importance_sampling_ratio"))


def _columns(logs: dict) -> dict[tuple[str, str], deque]:
    """The columns of trl's table of completions, by their part of its logs and their name."""
    columns = {("", name): logs[name] for name in ("prompt", "completion", "advantages")}
    for part in ("rewards", "extra"):
        columns |= {(part, name): column for name, column in logs[part].items()}
    return columns


def _take(logs: dict) -> dict[tuple[str, str], list]:
    """What trl's table holds, which is empty afterwards."""
    contents = {}
    for name, column in _columns(logs).items():
        contents[name] = list(column)
        column.clear()
    return contents


def _put_logged(logs: dict, before: dict, rows: Sequence[int], count: int):
    """Fill trl's table again, with the new completions in these of its rows. A reward need not log
    a column each time: it has None then.

    Args:
        before: what it held.
        count: how many rows it has.
    """
    for name, column in _columns(logs).items():
        values = before.get(name) or [None] * count
        _put_rows(values, list(column) or [None] * len(rows), rows)
        column.clear()
        column.extend(values)


def _put_rows(values: list, new: list, rows: Sequence[int]):
    for row, value in zip(rows, new, strict=True):
        values[row] = value
