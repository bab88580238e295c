"""Has a run stopped learning? Judged by held-out answers, and only within a bound that is said."""

import math

import numpy as np
from scipy.stats import linregress

from schema.configs import WINDOW

GAIN = 0.01  # of held-out accuracy per evaluation; below it a run counts as flat
LOGGED = 3  # training rewards, at least, to say that they do not rise
ALPHA = 0.025  # one-sided, as two standard errors are


def plateau(judged: list[tuple[int, str]], rewards: list[tuple[int, float]]) -> str | None:
    """What to say of a run whose held-out accuracy is flat over the last `WINDOW` evaluations, or None.

    Flat means that the accuracy's trend plus two standard errors is below `GAIN` per evaluation, and that the training
    reward does not rise significantly over the same steps, as it does while a run learns the form of an answer; with
    fewer than `LOGGED` rewards in them a run is not judged. The trend is the least-squares slope. All evaluations
    answer the same problems, and successive policies give mostly the same answers, so the unit is the problem: each has
    a slope of its own, and the standard error is that of their mean. It holds however the evaluations depend on one
    another. tests/bench/plateau.py has its rates of error.

    Args:
        judged: (step, one "1" or "0" for each problem, in the same order) of every evaluation after the warm-up.
        rewards: (step, mean training reward) of every logged step.
    """
    judged = judged[-WINDOW:]
    problems = len(judged[-1][1]) if judged else 0
    if len(judged) < WINDOW or problems < 2 or any(len(right) != problems for _, right in judged):
        return None
    first, last = judged[0][0], judged[-1][0]
    gain, error = trend(np.array([[each == "1" for each in right] for _, right in judged], dtype=float))
    if gain + error >= GAIN:
        return None
    paid = [each for each in rewards if first <= each[0] <= last]
    if len({step for step, _ in paid}) < LOGGED or _rises(paid):
        return None
    span = 100 * (WINDOW - 1)
    return (
        f"held-out accuracy no longer rises: {span * gain:+.1f} ± {span * error:.1f} points over the last {WINDOW} "
        f"evaluations (steps {first} to {last}, n = {problems}), so less than {100 * GAIN:g} point per evaluation. The "
        "training reward does not rise either"
    )


def trend(right_EP: np.ndarray) -> tuple[float, float]:
    """(slope, two standard errors) of accuracy per evaluation, from answers of shape (evaluations, problems).

    Where no answer changes, the standard error would be 0; 3 / problems bounds the share that could have changed
    (the rule of three, Hanley and Lippman-Hand 1983).
    """
    evaluations, problems = right_EP.shape
    centred_E = np.arange(evaluations) - (evaluations - 1) / 2
    slopes_P = centred_E @ right_EP / (centred_E @ centred_E)
    error = 2 * slopes_P.std(ddof=1) / math.sqrt(problems)
    return float(slopes_P.mean()), max(float(error), 3 / problems / (evaluations - 1))


def _rises(rewards: list[tuple[int, float]]) -> bool:
    return linregress(*zip(*rewards, strict=True), alternative="greater").pvalue < ALPHA
