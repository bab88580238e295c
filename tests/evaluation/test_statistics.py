"""Intervals and paired differences, by hand and against scipy."""

import math
import random
from itertools import combinations

import pytest
from scipy.stats import ttest_rel

from evaluation.statistics import (
    in_words,
    interval,
    majority,
    mcnemar,
    paired_difference,
    pass_at_k,
    resampled,
    verdict,
    wilson,
)
from tests.tables import cases


def test_wilson_is_the_formula_of_1927():
    correct, n, z = 411, 1319, 1.959964
    p = correct / n
    centre, half = (p + z * z / (2 * n)), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    expected = pytest.approx(((centre - half) / scale, (centre + half) / scale), abs=1e-6)
    assert wilson(correct, n) == expected
    assert wilson(0, 10)[0] == 0.0
    assert wilson(10, 10)[1] == 1.0


def test_the_paired_standard_error_is_that_of_the_t_test():
    before = [i % 3 == 0 for i in range(200)]
    after = [i % 2 == 0 or i % 3 == 0 for i in range(200)]
    mean, error = paired_difference(before, after)
    assert mean == pytest.approx((sum(after) - sum(before)) / 200)
    assert mean / error == pytest.approx(
        ttest_rel([int(b) for b in after], [int(b) for b in before]).statistic
    )
    assert math.isnan(paired_difference([True], [True])[1])  # one problem has none


@pytest.mark.parametrize(
    ("won", "lost", "p"), [(0, 0, 1), (5, 5, 1), (0, 6, 2 * 0.5**6), (9, 1, 2 * 11 * 0.5**10)]
)
def test_mcnemars_p_is_that_of_a_fair_coin(won, lost, p):
    assert mcnemar(won, lost) == pytest.approx(p)


def simulated(gain: float, n: int, rng: random.Random) -> tuple[list[bool], list[bool]]:
    """Problems of mixed difficulty, answered by two models of which the second is correct `gain`
    more often."""
    difficulty = [rng.uniform(0.1, 0.8) for _ in range(n)]
    return [rng.random() < d for d in difficulty], [rng.random() < d + gain for d in difficulty]


def test_of_a_thousand_equal_models_few_are_said_to_differ():
    rng = random.Random(1)
    actual = sum("no significant" not in verdict(*simulated(0.0, 300, rng)) for _ in range(1000))
    assert actual <= 60


def test_the_interval_covers_the_true_difference_as_often_as_it_says():
    rng = random.Random(2)
    found = [paired_difference(*simulated(0.1, 300, rng)) for _ in range(1000)]
    assert 930 <= sum(abs(mean - 0.1) <= 1.96 * error for mean, error in found) <= 970


@pytest.mark.parametrize(
    ("n", "correct", "k"), [(8, 3, 1), (8, 3, 4), (8, 0, 8), (8, 8, 1), (5, 4, 2), (6, 1, 6)]
)
def test_pass_at_k_is_the_share_of_draws_with_a_correct_answer(n, correct, k):
    draws = list(combinations([True] * correct + [False] * (n - correct), k))
    assert pass_at_k(n, correct, k) == pytest.approx(sum(map(any, draws)) / len(draws))


@cases(__file__, "the_majority", (["5", "6", "7"], [True, False, False], pytest.approx(1 / 3)))
def test_the_majority(answers, correct, expected):
    assert majority(answers, correct) == expected


@cases(__file__, "words")
def test_a_gain_is_said_in_words(before, after, words):
    """`before` and `after`: a value for each problem, `[count, value]` for as many equal ones."""
    shares = []
    for values in (before, after):
        shares.append([value for count, value in values for _ in range(count)])
    assert list(in_words(*shares)) == words


def test_with_several_samples_a_problem_still_counts_once():
    rng, covered, claimed = random.Random(3), 0, 0
    for _ in range(300):
        difficulty = [rng.choice([0.0, 0.1, 0.9, 1.0]) for _ in range(100)]
        first, second = (
            [sum(rng.random() < d for _ in range(4)) / 4 for d in difficulty] for _ in range(2)
        )
        low, high = resampled(first)
        covered += low <= 0.5 <= high
        claimed += "no significant" not in verdict(first, second)
    assert 0.91 <= covered / 300 <= 0.98  # 95%, give or take what 300 simulations can tell
    assert claimed / 300 <= 0.08


def test_the_same_values_give_the_same_interval_and_equal_ones_none():
    values = [0.25, 0.5, 1.0, 0.0, 0.75] * 20
    assert resampled(values) == resampled(values)
    assert resampled([0.5] * 10) == (0.5, 0.5)
    assert interval([1, 0, 1, 1]) == wilson(3, 4)
