"""What the guards of a run cost: the seconds spent in them, over those of the whole GRPO stage.

    python -m tests.bench.guards

Checkpoint seals and pruning, signals, the checks of rewards, gradients and weights, the lock and the search for a whole
checkpoint are timed in one run of the default recipe. Two whole processes side by side (tests/bench/trl_script.py)
differ by more than that from one pair to the next.
"""

import tempfile
import time

from stages import grpo, sft
from stages.checkpoints import Checkpoints
from stages.guards import FiniteNumbers, GuardedReward
from stages.interrupts import Interrupts
from stages.recipe import load_recipe
from stages.run_folder import RunFolder

spent: dict[str, float] = {}


def timed(owner, name: str):
    """Count the seconds of a function under its name, without what a reward itself takes."""
    function = getattr(owner, name)
    label = f"{owner.__name__.removeprefix('stages.')}.{name}"

    def counted(*args, **kwargs):
        began, rewarded = time.perf_counter(), spent.get("rewards", 0.0)
        try:
            return function(*args, **kwargs)
        finally:
            inside = spent.get("rewards", 0.0) - rewarded
            spent[label] = spent.get(label, 0.0) + time.perf_counter() - began - inside

    setattr(owner, name, counted)


def bound(name: str, options: dict):
    """The recipe's reward, whose own seconds are not the guards'."""
    reward = BIND(name, options)

    def counted(**columns):
        began = time.perf_counter()
        try:
            return reward(**columns)
        finally:
            spent["rewards"] = spent.get("rewards", 0.0) + time.perf_counter() - began

    counted.__name__ = name
    return counted


BIND = grpo.bind_reward


def main():
    grpo.bind_reward = bound
    timed(GuardedReward, "__call__")
    for owner, names in (
        (Checkpoints, ("on_step_end", "on_save")),
        (FiniteNumbers, ("on_pre_optimizer_step", "on_step_end")),
        (Interrupts, ("on_step_end",)),
        (RunFolder, ("lock", "begin", "finish")),
        (grpo, ("find_run", "fitting")),
    ):
        for name in names:
            timed(owner, name)
    with tempfile.TemporaryDirectory() as folder:
        recipe = load_recipe("recipes/tiny-arithmetic.yaml", [f"output_dir={folder}", "sft.max_steps=100"])
        sft.main(recipe)
        spent.clear()
        began = time.perf_counter()
        grpo.main(recipe)
        whole = time.perf_counter() - began
    del spent["rewards"]
    for label, seconds in sorted(spent.items(), key=lambda each: -each[1]):
        print(f"{label:<36}{seconds:8.3f} s")
    total = sum(spent.values())
    print(f"{'all of them':<36}{total:8.3f} s of {whole:.1f} s, {total / whole:.2%}")


if __name__ == "__main__":
    main()
