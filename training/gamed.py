"""Is a run rewarded for something other than right answers? Judged by the held-out problems that it has lost."""

import math


def gamed(judged: list[tuple[int, str]], rewards: list[tuple[int, float]], patience: int) -> str | None:
    """The message to stop a run with whose training reward rises while held-out answers get worse, or None.

    Worse means that each of the last `patience` evaluations is clearly below the best (see `fell`): of a few hundred
    problems chance alone takes some away, and the best of many evaluations was lucky.

    Args:
        judged: (step, one "1" or "0" for each problem, in the same order) of every evaluation so far.
        rewards: (step, mean training reward) of every logged step so far.
        patience: how many evaluations in a row; 0 never stops.
    """
    if not judged:
        return None
    best_step, best = max(judged, key=lambda each: (_accuracy(each[1]), each[0]))
    since = [each for each in judged if each[0] > best_step]
    earlier = [reward for step, reward in rewards if step <= best_step]
    later = [reward for step, reward in rewards if step > best_step]
    if not 0 < patience <= len(since) or not earlier or not later:
        return None
    if not all(fell(best, right) for _, right in since[-patience:]):
        return None
    # As many logged steps as there are since the best, so that the slow start of a run does not count as a rise.
    before = earlier[-len(later) :]
    risen = sum(later) / len(later) - sum(before) / len(before)
    if risen <= 0:
        return None
    step, now = since[-1]
    return (
        f"grpo: stopped at step {step}. Held-out accuracy was {_accuracy(best):.1%} at step {best_step} and has been "
        f"clearly below that for {patience} evaluations (now {_accuracy(now):.1%}, n = {len(now)}), while the training "
        f"reward rose by {risen:.3g}: the policy is rewarded for something other than right answers. Read the newest "
        "file in completions/, and try `make audit`. evaluate.patience sets how many evaluations to wait for; 0 never "
        "stops."
    )


def fell(best: str, now: str) -> bool:
    """Whether clearly more of the same problems were lost since than won: McNemar's z above 2."""
    pairs = list(zip(best, now, strict=False))
    lost, won = (sum(pair == (a, b) for pair in pairs) for a, b in (("1", "0"), ("0", "1")))
    return lost - won > 2 * math.sqrt(lost + won)


def _accuracy(right: str) -> float:
    return right.count("1") / max(1, len(right))
