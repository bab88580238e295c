"""Accuracies with their intervals, and verdicts on paired differences. All models answer the same
problems, and each problem counts once, however many samples it has."""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from scipy.stats import binomtest, bootstrap, t

ALPHA = 0.05
RESAMPLES = 2000
SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def wilson(correct: int, n: int) -> tuple[float, float]:
    """95% interval of a share (Wilson 1927), which stays inside 0 to 1 and is honest for small
    n."""
    interval = binomtest(correct, n).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)


def resampled(values: Sequence[float]) -> tuple[float, float]:
    """95% percentile bootstrap interval of the mean over problems (Efron and Tibshirani 1993,
    chapter 13). A problem's samples stay together, because they are one value here. The same values
    always give the same interval.
    """
    if len(values) < 2:
        return math.nan, math.nan
    if len(set(values)) == 1:
        return values[0], values[0]
    rng = np.random.default_rng(0)
    result = bootstrap(
        (values,), np.mean, n_resamples=RESAMPLES, batch=100, method="percentile", rng=rng
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """95% interval of a mean over problems: Wilson's where each is correct or incorrect, else by
    resampling problems."""
    if set(values) <= {0, 1}:
        return wilson(round(sum(values)), len(values))
    return resampled(values)


def from_to(bounds: Sequence[float]) -> str:
    """An interval of shares, as a report has it."""
    return f"{bounds[0]:.1%} to {bounds[1]:.1%}"


def over_seeds(values: Sequence[float]) -> tuple[float, float]:
    """(mean, half its 95% interval) of one value per seed: Student's t with n − 1 degrees of
    freedom, s / sqrt(n) its standard error. Infinite for a single seed, which says nothing of
    others."""
    if len(values) < 2:
        return values[0], math.inf
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return float(np.mean(values)), float(t.ppf(1 - ALPHA / 2, len(values) - 1)) * error


def seeds_verdict(gains: Sequence[float]) -> str:
    """What changed in the mean over two seeds or more, in points, each seed compared with itself. A
    change is claimed only where it exceeds its interval."""
    mean, half = over_seeds(gains)
    if np.ptp(gains) < 1e-9:
        return f"{100 * mean:+.1f} points in every seed; without a spread there is no interval"
    figures = f"{100 * mean:+.1f} ± {100 * half:.1f} points"
    if abs(mean) > half:
        return figures
    return f"no significant change: {figures}"


def pass_at_k(n: int, correct: int, k: int) -> float:
    """pass@k: the chance that k answers drawn from n, of which c = `correct` are correct, include a
    correct one: 1 − C(n−c, k) / C(n, k), the unbiased estimate of Chen et al. 2021
    (arXiv:2107.03374)."""
    return 1 - math.comb(n - correct, k) / math.comb(n, k)


def all_alike(n: int, correct: int, group: int) -> float:
    """The chance that a group drawn from n answers, of which c = `correct` are correct, is all
    correct or all incorrect: [C(c, g) + C(n−c, g)] / C(n, g). Its mean over samples of n ≥ g
    answers is p^g + (1 − p)^g, which that expression of the measured c/n overestimates: each term
    is pass@k's unbiased estimate (Chen et al. 2021, arXiv:2107.03374).
    """
    return 2 - pass_at_k(n, correct, group) - pass_at_k(n, n - correct, group)


def majority(answers: Sequence[str | None], correct: Sequence[bool]) -> float:
    """maj@n (Wang et al. 2022, arXiv:2203.11171): 1.0 where the most frequent answer of a problem
    is correct, 0.0 where it is not, and in a tie the share of the most frequent answers that are
    correct.

    All correct answers are one answer, however they are spelled; incorrect answers differ where
    their spelling does. A missing answer does not vote.
    """
    votes: dict[str | bool, int] = defaultdict(int)
    for answer, is_correct in zip(answers, correct, strict=True):
        if is_correct:
            votes[True] += 1
        elif answer is not None:
            votes["".join(answer.split())] += 1
    if not votes or votes[True] < max(votes.values()):
        return 0.0
    return 1 / list(votes.values()).count(votes[True])


def paired_difference(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """(mean, standard error) of after − before over the same problems: with d = after − before per
    problem, the standard error is sqrt(var(d) / n)."""
    differences = np.subtract(after, before, dtype=float)
    n = len(differences)
    error = float(np.std(differences, ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return float(np.mean(differences)), error


def mcnemar(won: int, lost: int) -> float:
    """Exact two-sided p of a split at least as uneven, if wins and losses were equally likely
    (McNemar 1947)."""
    if won + lost == 0:
        return 1.0
    return float(binomtest(won, won + lost).pvalue)


def verdict(before: Sequence[float], after: Sequence[float]) -> str:
    """What changed over the same problems, in one sentence; each value is the share of a problem's
    answers that are correct. A change is claimed only where it exceeds two standard errors and
    passes a second test: p < 0.05 in McNemar's with one answer per problem, else an interval by
    paired resampling of problems that excludes zero.
    """
    return change(before, after)[1]


def change(before: Sequence[float], after: Sequence[float]) -> tuple[float, str]:
    """(what the verdict claims as changed, 0 where it claims nothing; the verdict)."""
    mean, error = paired_difference(before, after)
    differences = np.subtract(after, before, dtype=float)
    won = np.count_nonzero(differences > 0)
    lost = np.count_nonzero(differences < 0)
    figures = f"{100 * mean:+.1f} ± {200 * error:.1f} points"
    counted = f"n = {len(before)}, {won} won, {lost} lost"
    if set(before) | set(after) <= {0, 1}:
        p = mcnemar(won, lost)
        second_test = f"p = {p:.2g}"
        passes = p < ALPHA
    else:
        low, high = resampled(differences.tolist())
        second_test = f"95% interval {100 * low:+.1f} to {100 * high:+.1f}"
        passes = low > 0 or high < 0
    if abs(mean) > 2 * error and passes:
        return mean, f"{figures} ({counted}, {second_test})"
    return 0.0, f"no significant change ({figures}, {counted}, {second_test})"


def in_words(before: Sequence[float], after: Sequence[float]) -> tuple[str, str]:
    """What changed, as a person would say it, and how sure that is: (`33 more of 100 problems
    correct`, `by luck alone: less than 1 in 10⁵⁵`). The values as in `verdict`, whose tests decide
    whether a change is claimed."""
    mean, _ = paired_difference(before, after)
    unit = "problems"
    if not set(before) | set(after) <= {0, 1}:
        unit = "completions"
    points = round(100 * mean)
    size = f"{abs(points)} {'fewer' if points < 0 else 'more'} of 100 {unit} correct"
    certainty = _certainty(before, after)
    if change(before, after)[0]:
        return size, certainty
    return "No sure change", f"{size}; {certainty}"


def _certainty(before: Sequence[float], after: Sequence[float]) -> str:
    """How sure a difference is: the chance that luck alone makes one as large, or with several
    samples of a problem its interval."""
    differences = np.subtract(after, before, dtype=float)
    if not set(before) | set(after) <= {0, 1}:
        low, high = resampled(differences.tolist())
        return f"95% interval {100 * low:+.0f} to {100 * high:+.0f}"
    p = mcnemar(np.count_nonzero(differences > 0), np.count_nonzero(differences < 0))
    if p >= ALPHA:
        return f"luck alone does as much in {100 * p:.0f} of 100 cases"
    if p >= 0.001:
        return f"by luck alone: 1 in {1 / p:.0f}"
    exponent = 300  # less cannot be computed
    if p > 0:
        exponent = math.floor(-math.log10(p))
    return f"by luck alone: less than 1 in 10{str(exponent).translate(SUPERSCRIPT)}"
