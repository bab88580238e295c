"""Ways to spend samples that no recipe has, tried by the benchmark of learning: each changes what trl trains on
after it has sampled, and none is kept unless it pays."""

import random

import torch

from training.trainer import GreedyEvaluation

GENERATED = "generated"  # completions so far, those thrown away included
FLAT = "trained_without_signal"  # the share of groups without signal among those that are trained on

# A completion's tensors, one row each; the first two are padded on the left.
ROWS = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages", "old_per_token_logps")


class Choosing(GreedyEvaluation):
    """`chosen` makes the batch to train on; the completions it samples are counted."""

    def _generate_and_score_completions(self, inputs: list[dict]) -> dict:
        if not self.model.training:
            return super()._generate_and_score_completions(inputs)
        self.generated = getattr(self, "generated", 0)
        batch = self.chosen(inputs)
        batch["num_items_in_batch"] = batch["completion_mask"].sum()
        flat = [not mixed(group) for group in self.groups(batch)]
        self._metrics["train"][FLAT].append(sum(flat) / len(flat))
        self._metrics["train"][GENERATED] = [self.generated]
        return batch

    def sampled(self, inputs: list[dict]) -> dict:
        self.generated += len(inputs)
        return super()._generate_and_score_completions(inputs)

    def others(self, count: int) -> list[dict]:
        """Groups of other problems, at random."""
        self.random = getattr(self, "random", None) or random.Random(self.args.seed)
        rows = self.random.sample(range(len(self.train_dataset)), count)
        return [self.train_dataset[row] for row in rows for _ in range(self.num_generations)]

    def groups(self, batch: dict) -> list[dict]:
        size = self.num_generations
        return [
            {key: batch[key][i : i + size] for key in ROWS if batch.get(key) is not None}
            for i in range(0, len(batch["advantages"]), size)
        ]

    def joined(self, batch: dict, groups: list[dict]) -> dict:
        """The batch with these groups for its own, padded to the longest."""
        assert batch.keys() <= {*ROWS, "num_items_in_batch"}, "something else belongs to each completion"
        pads = {"prompt_ids": self._tokenizer.pad_token_id, "completion_ids": self._tokenizer.pad_token_id}
        for key in groups[0]:
            rows = [group[key] for group in groups]
            width = max(each.shape[1] for each in rows) if rows[0].dim() > 1 else 0
            padded = [
                torch.nn.functional.pad(
                    each,
                    (width - each.shape[1], 0) if key.startswith("prompt") else (0, width - each.shape[1]),
                    value=pads.get(key, 0),
                )
                if width
                else each
                for each in rows
            ]
            batch[key] = torch.cat(padded)
        return batch


def mixed(group: dict) -> bool:
    """Whether its rewards differ; rounding alone gives advantages of up to 1e-3."""
    return bool(group["advantages"].abs().max() > 1e-2)


class Replay(Choosing):
    """Groups without signal make room for the newest mixed groups of earlier batches, each used once more, with the
    log-probabilities of the policy that sampled them."""

    KEPT = 32

    def chosen(self, inputs: list[dict]) -> dict:
        batch = self.sampled(inputs)
        self.stored = getattr(self, "stored", [])
        groups = self.groups(batch)
        fresh = [group for group in groups if mixed(group)]
        taken = [self.stored.pop() for _ in range(min(len(self.stored), len(groups) - len(fresh)))]
        self.stored = (self.stored + fresh)[-self.KEPT :]
        flat = [group for group in groups if not mixed(group)]
        return self.joined(batch, fresh + taken + flat[: len(groups) - len(fresh) - len(taken)])


class Refill(Choosing):
    """Dynamic sampling (DAPO, arXiv:2503.14476, section 3.2): other problems are sampled until the batch is full of
    mixed groups, or four batches are spent."""

    def chosen(self, inputs: list[dict]) -> dict:
        batch = self.sampled(inputs)
        groups = self.groups(batch)
        kept = [group for group in groups if mixed(group)]
        for _ in range(3):
            if len(kept) >= len(groups):
                break
            more = self.sampled(self.others(len(groups)))
            kept += [group for group in self.groups(more) if mixed(group)]
        flat = [group for group in groups if not mixed(group)]
        return self.joined(batch, (kept + flat)[: len(groups)])


class Oracle(Choosing):
    """What no sampler has: of four times as many problems at random, those whose rewards differ most in a group of
    samples that is not counted. Their groups are then sampled anew."""

    def chosen(self, inputs: list[dict]) -> dict:
        count = len(inputs) // self.num_generations
        before, candidates = self.generated, self.others(4 * count)
        tried = self.groups(self.sampled(candidates))
        self.generated = before
        order = sorted(range(len(tried)), key=lambda i: -float(tried[i]["advantages"].abs().mean()))
        size = self.num_generations
        return self.sampled([row for i in order[:count] for row in candidates[i * size : (i + 1) * size]])


TRAINERS = {"replay": Replay, "refill": Refill, "oracle": Oracle}
