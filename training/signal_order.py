"""Draws each batch's problems by how likely their groups are to be mixed, as learned while the run goes on.

A group whose completions all earn the same teaches nothing (group_signal.py). Whether a problem's group will be mixed
is learned from the groups of problems like it, and the policy changes, so old groups count less and less. Nothing is
sampled to find out, and no group thrown away, as in dynamic sampling (Yu et al. 2025, arXiv:2503.14476).

The problems of a generation batch are a function of the seed, of the batch's number and of the groups of all batches
before it but the last few. Those are left out because batches are drawn ahead of the training: so it does not matter
how far ahead, and a resumed run draws what the uninterrupted one did.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from accelerate.utils import gather_object
from torch.utils.data import Sampler
from transformers import TrainerCallback, TrainerState
from transformers.trainer_callback import ExportableState
from trl import GRPOConfig
from trl.trainer.utils import RepeatSampler

from schema.faults import RunStopped
from training.group_signal import without_signal

COLUMN = "drawn_row"  # of the training data: the number of each row
HALF_LIFE = 10  # generation batches after which a group counts half
LOW, MIXED, HIGH = range(3)  # outcomes of a group: all rewards equal and low, not all equal, all equal and high


class Belief:
    """How likely the next group of each row is to be mixed: for each class of rows, the mean of a Beta posterior with a
    flat prior over the groups seen of that class, in which old groups fade. So a class that is not drawn for long
    returns to 1/2, and is tried again.

    A row's class is its label until it has been seen, and then the outcome of its last group.

    Args:
        labels: one for each row, equal for rows that should be alike.
    """

    def __init__(self, labels: Sequence):
        number = {label: HIGH + i for i, label in enumerate(dict.fromkeys(labels), 1)}
        self.classes = np.array([number[label] for label in labels])  # (N,)
        self.mixed, self.groups = np.zeros((2, HIGH + 1 + len(number)))

    def learn(self, rows: list[int], outcomes: list[int]):
        """The groups of one generation batch."""
        self.mixed *= 0.5 ** (1 / HALF_LIFE)
        self.groups *= 0.5 ** (1 / HALF_LIFE)
        np.add.at(self.groups, self.classes[rows], 1)
        np.add.at(self.mixed, self.classes[rows], np.array(outcomes) == MIXED)
        self.classes[rows] = outcomes

    def signal(self) -> np.ndarray:
        """(N,) probabilities, each above 0."""
        return ((1 + self.mixed) / (2 + self.groups))[self.classes]


class SignalOrder(TrainerCallback, ExportableState):
    """Draws the problems, learns from their rewards, and keeps what it has seen in each checkpoint's
    `trainer_state.json`.

    `seen`: of each generation batch so far, its rows and their groups' outcomes; all else follows from it.

    Args:
        labels: see `Belief`.
        batch: problems in a generation batch, of all processes.
        high: rewards that are all equal are high above it, and else low.
        lag: how many batches directly before a batch its draw does not know.
    """

    def __init__(self, labels: Sequence, batch: int, seed: int, high: float, lag: int):
        self.belief, self.rows, self.batch, self.seed = Belief(labels), len(labels), batch, seed
        self.classes = len(set(labels))  # of rows, before any was seen
        self.high, self.lag = high, lag
        self.seen: list[tuple[list[int], list[int]]] = []
        self.learned = 0  # batches of `seen` that the belief knows
        self.drawn: dict[int, tuple[list[int], dict[str, float]]] = {}  # and not yet seen

    def __str__(self) -> str:
        if self.classes == 1:
            return "by signal, but all problems are of one source, level and length class: the first epoch is shuffled"
        return f"by signal, from {self.classes} classes of problems"

    def epoch(self) -> Iterator[list[int]]:
        """The rows of each generation batch of the epoch that the run is in, from its start; no row twice."""
        batches, left = self.rows // self.batch, np.ones(self.rows, bool)
        first = len(self.seen) // batches * batches
        for number in range(first, first + batches):
            rows = self.seen[number][0] if number < len(self.seen) else self._draw(number, np.flatnonzero(left))
            left[rows] = False
            yield rows

    def _draw(self, number: int, left: np.ndarray) -> list[int]:
        while self.learned <= number - 1 - self.lag:
            self.belief.learn(*self.seen[self.learned])
            self.learned += 1
        signal, random = self.belief.signal()[left], np.random.default_rng([self.seed, number])
        chosen = random.choice(len(left), self.batch, replace=False, p=signal / signal.sum())
        rows = left[chosen].tolist()
        expected = {"expected_signal/drawn": signal[chosen].mean(), "expected_signal/left": signal.mean()}
        self.drawn[number] = rows, expected
        return rows

    def observe(self, columns: dict[str, list], earned: list[float | None], log_metric):
        """Learn the weighted rewards of this process's completions of the next generation batch. All processes call it
        at once, and all learn from the completions of all. Held-out problems have no such column, and are not seen."""
        if COLUMN not in columns:
            return
        groups = defaultdict(list)
        for row, reward in gather_object(list(zip(columns[COLUMN], earned, strict=True))):
            groups[row].append(reward)
        drawn, expected = self.drawn.pop(len(self.seen))
        if groups.keys() != set(drawn):
            raise RuntimeError("the trainer samples from other problems than were drawn for this batch")
        self.seen.append((drawn, [self._outcome(groups[row]) for row in drawn]))
        for name, value in expected.items():
            log_metric(name, float(value))

    def _outcome(self, rewards: list[float | None]) -> int:
        if without_signal(rewards, len(rewards)) == 0:
            return MIXED
        return HIGH if max((each for each in rewards if each is not None), default=0) > self.high else LOW

    def state(self) -> dict:
        """What transformers writes into a checkpoint, a text for each batch: `row:outcome row:outcome …`."""
        batches = [" ".join(f"{row}:{outcome}" for row, outcome in zip(*each, strict=True)) for each in self.seen]
        return {"args": {}, "attributes": {"seen": batches}}

    def on_train_begin(self, args, state, control, **kwargs):
        """Of a resumed run, `state` is the checkpoint's. transformers itself would make another callback of it, which
        draws nothing.

        Raises:
            RunStopped: it does not hold what a run of these batches has seen at its step.
        """
        try:
            saved = state.stateful_callbacks[type(self).__name__]["attributes"]["seen"]
            self.seen = [self._read(batch) for batch in saved]
            self._check(args, state)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunStopped(
                f"trainer_state.json of checkpoint-{state.global_step} does not say which problems a run of "
                f"{self.batch} at a time had drawn by then: resume with as many processes as it began with, or delete "
                "the checkpoint, and the same command resumes from the one before it"
            ) from error

    def _check(self, args: GRPOConfig, state: TrainerState):
        """Whether `seen` has the batches that trl has sampled by the state's step, and no row twice in an epoch.

        Raises:
            ValueError: it has not, or the step is inside a generation cycle and the run goes on.
        """
        cycle, accumulated = args.steps_per_generation * args.num_iterations, args.gradient_accumulation_steps
        batches = self.rows // self.batch
        epochs, updates = divmod(state.global_step, -(-batches * cycle // accumulated))
        sampled, inside = divmod(updates * accumulated, cycle)
        if len(self.seen) != epochs * batches + sampled + bool(inside):
            raise ValueError(f"{len(self.seen)} batches")
        if inside and state.global_step < state.max_steps:
            raise ValueError("inside a cycle, which trl samples anew")
        for first in range(0, len(self.seen), batches):
            rows = [row for each, _ in self.seen[first : first + batches] for row in each]
            if len(set(rows)) < len(rows):
                raise ValueError("a row twice in an epoch")

    def _read(self, text: str) -> tuple[list[int], list[int]]:
        pairs = [tuple(map(int, each.split(":"))) for each in text.split(" ")]
        rows, outcomes = map(list, zip(*pairs, strict=True))
        fits = len(rows) == len(set(rows)) == self.batch and all(0 <= row < self.rows for row in rows)
        if not fits or not set(outcomes) <= {LOW, MIXED, HIGH}:
            raise ValueError(text)
        return rows, outcomes


class Drawn(Sampler):
    """The rows that an order draws, in the layout of trl's own sampler: each row once for each completion, and the
    batch again for each time that it is trained on."""

    def __init__(self, layout: RepeatSampler, order: SignalOrder):
        self.layout, self.order = layout, order

    def __iter__(self) -> Iterator[int]:
        for rows in self.order.epoch():
            for _ in range(self.layout.repeat_count):
                for row in rows:
                    yield from [row] * self.layout.mini_repeat_count

    def __len__(self) -> int:
        return len(self.layout)


def order_by_signal(rows: list[dict], args: GRPOConfig) -> SignalOrder:
    """The order for a run on these rows."""
    cycle = args.steps_per_generation * args.num_iterations
    return SignalOrder(
        labels=labels(rows),
        batch=args.generation_batch_size // args.num_generations,
        seed=args.seed,
        high=sum(args.reward_weights) / 2,
        # transformers fetches the micro-batches of a step before it trains on the first, and accelerate one more.
        lag=max(1, -(-args.gradient_accumulation_steps // cycle)),
    )


def labels(rows: list[dict]) -> list[tuple]:
    """What is known of each row before it was seen: its source, its level where the data has one, and whether its
    problem is short, middling or long among all of them."""
    lengths = [len(row["problem"]) for row in rows]
    thirds = np.searchsorted(np.quantile(lengths, [1 / 3, 2 / 3]), lengths).tolist()
    return [(row["source"], row.get("level"), third) for row, third in zip(rows, thirds, strict=True)]
