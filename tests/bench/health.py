"""How often a healthy run is told that it is sick, rule by rule: python -m tests.bench.health

Simulated runs whose numbers wander within what docs/health.md calls healthy. Each has a level of its own for every
metric, which drifts over the run, and a noise from line to line which is that of its counts (groups, completions) or a
share of the level. `edge` is how far towards the threshold the levels go: 0.8 means to four fifths of it.
"""

import argparse
from collections import Counter

import numpy as np

from schema.configs import ACCURACY
from training import health

LINES = 100
COMPLETIONS = 64  # per step
PROBLEMS = 96  # held out
RECIPE = {"grpo": {"beta": 0.04, "use_vllm": True, "num_iterations": 2}, "evaluate": {"patience": 0}}


def healthy(rng: np.random.Generator, edge: float = 0.8, steps: int = 5, lines: int = LINES) -> list[dict]:
    """The history of a healthy run: `lines` training lines of `steps` steps each, and an evaluation every ten."""

    def drift(low: float, high: float) -> np.ndarray:
        """From one level to another between these bounds, of shape (lines,)."""
        return np.linspace(*rng.uniform(low, high, 2), lines)

    def noisy(levels: np.ndarray, share: float) -> np.ndarray:
        return levels * np.exp(rng.normal(0, share, lines) - share**2 / 2)

    completions, groups = COMPLETIONS * steps, COMPLETIONS // 8 * steps
    right = np.sort(drift(2 * health.NOT_LEARNED, 0.95))
    if rng.random() < 0.5:  # it learns the form alone, and its accuracy flickers about a level
        right[:] = right[0]
    form = np.sort(drift(0.2, 1.0))
    correct = rng.binomial(completions, right) / completions
    form = rng.binomial(completions, form) / completions
    values = {
        "reward": correct + 0.25 * form,
        health.CORRECT: correct,
        "rewards/format_tags/mean": form,
        health.FLAT: rng.binomial(groups, drift(0, edge * health.NO_SIGNAL)) / groups,
        "completions/clipped_ratio": rng.binomial(completions, drift(0, edge * health.TRUNCATED)) / completions,
        # Between the ends it may grow by all that is healthy; the noise is that of a mean over the completions.
        "completions/mean_length": noisy(300 * np.linspace(1, 1 + edge * (health.LONGER - 1), lines), 0.05),
        "entropy": noisy(np.geomspace(1, rng.uniform(health.ENTROPY / edge, 1), lines) * rng.uniform(0.05, 1), 0.2),
        "kl": noisy(np.sort(drift(0, edge * health.KL)), 0.3),
        "sampling/importance_sampling_ratio/mean": rng.normal(1 + drift(-edge, edge) * health.MISMATCH, 0.01),
        "clip_ratio/region_mean": noisy(drift(0, edge * health.CLIPPED), 0.5),
    }
    history, ability = [], rng.normal(0, 1.5, PROBLEMS)
    for line in range(lines):
        step = steps * (line + 1)
        history.append({"step": step} | {key: float(each[line]) for key, each in values.items()})
        if line % 10 == 9:
            solved = ability + rng.normal(size=PROBLEMS) + 4 * right[line] - 2 > 0
            answers = "".join("01"[each] for each in solved.astype(int))
            history.append({"step": step, ACCURACY: solved.mean(), health.JUDGED: answers})
    return history


def false_alarms(runs: int, **settings) -> Counter:
    """How many of so many healthy runs each rule speaks in."""
    rng = np.random.default_rng(0)
    return Counter(each.rule for _ in range(runs) for each in health.findings(healthy(rng, **settings), RECIPE))


def main(runs: int):
    print(f"{runs} healthy runs of {LINES} lines each: the share in which a rule speaks\n")
    settings = [{"edge": edge, "steps": steps} for steps in (5, 1) for edge in (0.8, 0.95)]
    print("| rule | " + " | ".join(f"{each['steps']} steps a line, edge {each['edge']}" for each in settings) + " |")
    print("| --- |" + " ---: |" * len(settings))
    counts = [false_alarms(runs, **each) for each in settings]
    for rule in health.RULES:
        print(f"| {rule} | " + " | ".join(f"{each[rule] / runs:.1%}" for each in counts) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    main(**vars(parser.parse_args()))
