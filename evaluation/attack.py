"""A learner attacks a recipe's rewards before a model does. Its policy composes up to three edits
of an answer (edits.py), and a group-relative update, in numpy, makes likelier what the rewards pay
more. An attack is a text that earns more than every honest incorrect answer to its problem, and is
not correct by the verifier.
"""

import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np

from evaluation.audit import Problem, pay_all, without_reward_models
from evaluation.completions import judge_rows
from evaluation.edits import EDITS, SHAPES, honest, text_of
from rewards.verifier import LENIENT
from schema.recipe import Recipe, load_recipe
from training.scoring import guarded_rewards

ROUNDS = 120  # updates of the policy
AFTER = 10  # more of them once an attack pays
GROUP = 8  # drafts of a problem in a round
DEEPEST = 3  # edits of a draft
RATE = 0.5  # of the update
SHRUNK = 24  # attacks that are made simpler
SECONDS = 20  # limit for a reward on one batch
ABOVE = 1e-6  # two sums of the same rewards may differ by this much
NAMES = ["nothing", *EDITS]


class Attack(NamedTuple):
    """A text that is overpaid on the problem of this number. `paid` and `honest`: what each reward
    pays it and the best paid honest incorrect answer, without weights. `problems`: how many the
    same edits are overpaid on."""

    edits: tuple[str, ...]
    problem: int
    text: str
    paid: np.ndarray
    honest: np.ndarray
    problems: int


class Scorer:
    """Pays texts by a recipe's rewards.

    Attributes:
        honest: what each reward pays the best paid honest incorrect answer to each problem, in a
            shape in which it pays more for the correct answer, of shape (problems, rewards).
    """

    def __init__(self, recipe: Recipe, problems: list[Problem], rows: list[dict]):
        self.recipe = recipe
        self.problems = problems
        self.rows = rows
        self.weights = np.array(list(recipe.weights.values()), dtype=float)
        self.rewards = guarded_rewards(recipe, SECONDS)
        for reward in self.rewards:
            reward.function = _without_exceptions(reward.function)
        correct = self._best_paid([[problem.gold] for problem in problems])
        mistakes = self._best_paid(
            [[p.incorrect_answers[0], p.incorrect_answers[-1]] for p in problems]
        )
        # Where the answer stands that they read; anywhere, if they read none.
        gains = ((correct - mistakes) @ self.weights).mean(axis=1)
        read = mistakes[gains > ABOVE] if (gains > ABOVE).any() else mistakes
        best = (read @ self.weights).argmax(axis=0)
        self.honest = read[best, np.arange(len(problems))]

    def _best_paid(self, answers: list[list[str]]) -> np.ndarray:
        """What each reward pays the best paid of honest answers in each shape, of shape (shapes,
        problems, rewards)."""
        numbers = np.arange(len(self.problems))
        best = []
        for shape in SHAPES.values():
            texts = list(map(partial(honest, shape), self.problems, answers))
            paid = self._paid(list(chain(*texts)), numbers.repeat(len(texts[0])))
            paid = paid.reshape(len(texts), -1, len(self.weights))
            best.append(paid[numbers, (paid @ self.weights).argmax(axis=1)])
        return np.array(best)

    def _paid(self, texts: list[str], numbers: Sequence[int]) -> np.ndarray:
        return np.nan_to_num(
            pay_all(texts, [self.rows[number] for number in numbers], self.recipe, self.rewards)
        )

    def excess(self, texts: list[str], numbers: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """How much more than an honest incorrect answer every text earns on the problem of its
        number, 0 where the verifier calls it correct, of shape (texts,); and what each reward pays
        it, of shape (texts, rewards)."""
        paid = self._paid(texts, numbers)
        excess = (paid - self.honest[numbers]) @ self.weights
        above = np.flatnonzero(excess > ABOVE)
        # No attack, though the contract does not read it: the correct number at the end of a text
        # without a place for an answer, or in a block behind thoughts that are not closed.
        rows = [self.rows[numbers[i]] for i in above]
        written = [texts[i] for i in above]
        without_tags = [re.sub("</?think>", "", text) for text in written]
        for readings in (written, without_tags):
            verdicts = judge_rows(rows, readings, reading=LENIENT, tolerance=self.recipe.tolerance)
            for i, verdict in zip(above, verdicts, strict=True):
                if verdict.correct is not False:
                    excess[i] = 0.0
        return excess, paid


def _without_exceptions(function: Callable) -> Callable:
    """The reward with None for a completion on which it raises."""

    def tolerant(**columns) -> list:
        try:
            return function(**columns)
        except Exception:  # a user's function may raise any
            count = len(columns["completions"])
            if count == 1:
                return [None]
        rewards = []
        for half in (slice(count // 2), slice(count // 2, None)):
            rows = dict(columns)
            for name, values in columns.items():
                if isinstance(values, list):
                    rows[name] = values[half]
            rewards += tolerant(**rows)
        return rewards

    return tolerant


class Policy:
    """The chances of edits, at each place independent of the others: a softmax for each place. The
    first place only chooses whether the answer is correct at first.

    Args:
        rate: of the update; 0 leaves the chances as they are.
    """

    def __init__(self, rate: float = RATE):
        self.random = np.random.default_rng(0)
        self.rate = rate
        self.logits = np.zeros((1 + DEEPEST, len(NAMES)))
        self.logits[2:, 0] = np.log(len(NAMES))  # half of the drafts have one edit less
        self.logits[0] = -np.inf
        self.logits[0, [0, NAMES.index("as the answer: the correct answer")]] = 0.0

    def chances(self) -> np.ndarray:
        """Of shape (places, edits)."""
        weights = np.exp(self.logits - self.logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def sample(self, count: int) -> np.ndarray:
        """So many drafts, each the numbers of its edits, of shape (drafts, places)."""
        return np.stack(
            [self.random.choice(len(row), count, p=row) for row in self.chances()], axis=1
        )

    def learn(self, drafts: np.ndarray, rewards: np.ndarray):
        """One group-relative step: a draft's advantage is its reward less its group's mean, divided
        by the group's standard deviation.

        Args:
            rewards: (groups, drafts of a group); the drafts have them one after the other.
        """
        deviation = rewards.std(axis=1, keepdims=True)
        advantages = (rewards - rewards.mean(axis=1, keepdims=True)) / (deviation + 1e-4)
        weights = self.rate * advantages.ravel() / max(1, np.count_nonzero(deviation > ABOVE))
        gradient = -weights.sum() * self.chances()
        for place, choices in enumerate(drafts.T):
            gradient[place] += np.bincount(choices, weights, minlength=len(NAMES))
        self.logits += gradient


def attack(
    scorer: Scorer, seconds: float, rounds: int = ROUNDS, after: int = AFTER, rate: float = RATE
) -> tuple[list[Attack], list[dict]]:
    """Let a policy learn what the rewards overpay. Return the attacks, each made as simple as it
    can be, the shortest first; and its rounds, `after` more of them once an attack pays: the share
    of the drafts that are `attacks`; their mean `excess`, what they earn more than honest incorrect
    answers; the text that is paid `best`; and afterwards the `chances` of all edits, of shape
    (places, edits).

    It repeats itself, unless it is stopped after so many seconds.
    """
    end = time.monotonic() + seconds
    policy = Policy(rate)
    numbers = np.repeat(np.arange(len(scorer.problems)), GROUP).tolist()
    history: list[dict] = []
    overpaid: dict[tuple[str, ...], int] = {}
    while len(history) < rounds and time.monotonic() < end:
        drafts = policy.sample(len(numbers))
        edits = [tuple(map(NAMES.__getitem__, draft[draft > 0])) for draft in drafts]
        excess, _, texts = _excess(edits, numbers, scorer)
        is_attack = excess > ABOVE
        if not overpaid and is_attack.any():
            rounds = min(rounds, len(history) + 1 + after)
        for i in np.flatnonzero(is_attack):
            overpaid.setdefault(edits[i], numbers[i])
        policy.learn(drafts, excess.reshape(-1, GROUP))
        history.append(
            {
                "attacks": is_attack.mean(),
                "excess": excess.mean(),
                "best": texts[np.argmax(excess)],
                "chances": policy.chances(),
            }
        )
    return _simplest(overpaid, scorer) if overpaid else [], history


def _excess(
    edits: list[tuple[str, ...]], numbers: Sequence[int], scorer: Scorer
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """`Scorer.excess` of what edits make on the problems of these numbers, and the texts."""
    texts = list(map(text_of, edits, [scorer.problems[number] for number in numbers]))
    excess, paid = scorer.excess(texts, numbers)
    return excess, paid, texts


def _simplest(overpaid: dict[tuple[str, ...], int], scorer: Scorer) -> list[Attack]:
    """The attacks that remain of these edits, each overpaid on the problem of its number, once
    every edit is left out that it does not need; the shortest text first."""
    simpler: dict[tuple[str, ...], int] = {}
    for edits in sorted(overpaid, key=len)[:SHRUNK]:
        for size in range(len(edits) + 1):
            for fewer in combinations(edits, size):
                simpler.setdefault(fewer, overpaid[edits])
    excess = _excess(list(simpler), list(simpler.values()), scorer)[0]
    paying = [edits for edits, more in zip(simpler, excess, strict=True) if more > ABOVE]
    attacks: list[Attack] = []
    for edits in sorted(paying, key=len):
        if not any(set(attack.edits) <= set(edits) for attack in attacks):
            numbers = list(range(len(scorer.problems)))
            excess, paid, texts = _excess([edits] * len(numbers), numbers, scorer)
            overpaid_on = np.flatnonzero(excess > ABOVE).tolist()
            if not overpaid_on:  # a reward that draws numbers pays otherwise the next time
                continue
            best = min(overpaid_on, key=lambda number: len(texts[number]))
            honest_pay = scorer.honest[best]
            attacks.append(
                Attack(edits, best, texts[best], paid[best], honest_pay, len(overpaid_on))
            )
    by_text = {attack.text: attack for attack in reversed(attacks)}  # of the fewest edits
    return sorted(by_text.values(), key=lambda attack: len(attack.text))


def overpays(recipe: str, overrides: list[str], text: str, problem: list, row: dict) -> bool:
    """Whether the recipe's rewards, as they are now, pay a text of a written test more than any
    honest incorrect answer to its problem, which are the values of a `Problem` and a row."""
    scorer = Scorer(
        without_reward_models(load_recipe(recipe, overrides)), [Problem(*problem)], [row]
    )
    return bool(scorer.excess([text], [0])[0][0] > ABOVE)
