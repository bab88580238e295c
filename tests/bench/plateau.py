"""How often a run that still learns is called flat, and how soon one that does not is: python -m tests.bench.plateau

Simulated runs: a problem is answered right where its ability, the policy's gain so far and a flicker add up to more
than 0. Abilities are normal over problems; a problem's flicker is normal and keeps `memory` of itself from one
evaluation to the next (0: new each time), because successive policies differ little. The training reward stays 0,
which can only keep a run from being called flat.
"""

import argparse

import numpy as np
from scipy.stats import norm

from schema.configs import WINDOW
from training.plateau import plateau

EVALUATIONS = 20
UNPAID = [(step + 1, 0.0) for step in range(EVALUATIONS)]


def told_at(gain: float, memory: float, problems: int, runs: int) -> np.ndarray:
    """The evaluation at which each run is first called flat, infinity where it never is, of shape (runs,). `gain`:
    expected accuracy per evaluation, from 30% at the first. Over problems, abilities spread 1.5 times as far as the
    flicker."""
    rng = np.random.default_rng(0)
    accuracy_E = np.clip(0.3 + gain * np.arange(EVALUATIONS), 0.005, 0.995)
    needed_E = norm.ppf(accuracy_E) * np.hypot(1.5, 1)
    told = np.full(runs, np.inf)
    for run in range(runs):
        ability_P, flicker_P, judged = rng.normal(0, 1.5, problems), rng.normal(size=problems), []
        for evaluation in range(EVALUATIONS):
            right_P = ability_P + flicker_P + needed_E[evaluation] > 0
            judged.append((evaluation + 1, (right_P + np.uint8(48)).astype(np.uint8).tobytes().decode()))
            if len(judged) >= WINDOW and plateau(judged, UNPAID):
                told[run] = evaluation + 1
                break
            flicker_P = memory * flicker_P + np.sqrt(1 - memory**2) * rng.normal(size=problems)
    return told


def main(runs: int):
    print(f"{runs} runs each of {EVALUATIONS} evaluations: called flat, and flat ones by evaluation {WINDOW + 4}\n")
    print("| problems | memory | +2 points | +1.5 | +1 | flat | flat, soon | falling 1, soon |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for problems in (48, 96, 192, 384):
        for memory in (0.0, 0.5, 0.9):
            rising = [np.isfinite(told_at(gain, memory, problems, runs)).mean() for gain in (0.02, 0.015, 0.01)]
            flat = told_at(0.0, memory, problems, runs)
            falling = told_at(-0.01, memory, problems, runs)
            rates = [*rising, np.isfinite(flat).mean(), *((each <= WINDOW + 4).mean() for each in (flat, falling))]
            print(f"| {problems} | {memory} | " + " | ".join(f"{rate:.1%}" for rate in rates) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    main(**vars(parser.parse_args()))
