"""What the guards of a run cost the default recipe's GRPO stage.

    python -m tests.bench.guards               # seconds spent in them, in one run python -m
    tests.bench.guards --pairs 10    # the same stage with them and without, in turn, and the ratio
    python -m tests.bench.guards --seal 2      # a checkpoint of 2 GB: its seal, beside its writing

The guards: seals of checkpoints and pruning, signals, the checks of rewards, gradients and weights,
the lock, and the search for a whole checkpoint.
"""

import argparse
import contextlib
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

import torch
from safetensors.torch import load_file
from transformers import TrainerCallback, TrainerState
from trl import GRPOConfig

from schema.recipe import load_recipe
from stages import grpo, sft
from training import run_folder, scoring, trainer
from training.checkpoints import altered
from training.run_folder import RunFolder
from training.saving import Checkpoints, FiniteNumbers
from training.scoring import GuardedReward
from training.train import Interrupts

spent: dict[str, float] = {}


def timed(owner, name: str):
    """Count the seconds of a function under its name, without what a reward itself takes."""
    function = getattr(owner, name)
    label = f"{owner.__name__.rpartition('.')[2]}.{name}"

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


BIND = scoring.bind_reward


class LibraryCheckpoints(TrainerCallback):
    """Checkpoints as the library leaves and prunes them."""

    def __init__(self, keep: int | None):
        self.keep = keep

    def on_train_begin(self, args, state, control, **kwargs):
        args.save_total_limit = self.keep


class Unwatched(TrainerCallback):
    def saw(self, batch):
        pass


def unguarded(reward: GuardedReward, **columns):
    return reward.function(**columns)


def without_guards() -> contextlib.ExitStack:
    stack = contextlib.ExitStack()
    stack.enter_context(patch.object(GuardedReward, "_ask", unguarded))
    stack.enter_context(patch("training.trainer.FiniteNumbers", Unwatched))
    stack.enter_context(patch("training.train.Checkpoints", LibraryCheckpoints))
    stack.enter_context(patch("stages.grpo.damage", lambda checkpoint: None))
    stack.enter_context(patch.object(Interrupts, "on_step_end", lambda *args, **kwargs: None))
    stack.enter_context(patch("training.run_folder.lock", lambda folder: None))
    return stack


def pairs(recipe_in, home: Path, count: int):
    """The ratio of each pair, and whether both ended with the same weights."""

    def seconds(name: str) -> float:
        recipe = recipe_in(home / name)
        sft_there = recipe.stage_dir("sft")
        sft_there.parent.mkdir(parents=True)
        shutil.copytree(home / "warm/sft", sft_there)  # a run folder may hold no link
        began = time.perf_counter()
        grpo.main(recipe)
        return time.perf_counter() - began

    seconds("first")  # the machine's caches, and whatever is made once
    ratios = []
    for number in range(count):
        took = {}
        for guarded in (True, False) if number % 2 else (False, True):
            with contextlib.nullcontext() if guarded else without_guards():
                took[guarded] = seconds(f"{number}-{guarded}")
        ratios.append(took[True] / took[False])
        print(
            f"pair {number + 1}: {took[True]:.2f} s with, {took[False]:.2f} s without,"
            f" {ratios[-1]:.3f}",
            flush=True,
        )
        ours, plain = (
            load_file(home / f"{number}-{each}/grpo/model.safetensors") for each in (True, False)
        )
        assert all(torch.equal(ours[name], plain[name]) for name in plain)
    print(
        f"median {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}), weights"
        " bit-equal"
    )


def seal(folder: Path, gigabytes: float):
    """Medians of three. The write is what the library does, into the page cache; the seal waits for
    the disk."""
    args, writing, sealing = GRPOConfig(output_dir=str(folder), use_cpu=True, bf16=False), [], []
    tensor = torch.randn(int(gigabytes * 1e9 / 4))
    for step in (1, 2, 3):
        checkpoint = folder / f"checkpoint-{step}"
        checkpoint.mkdir()
        began = time.perf_counter()
        torch.save({"exp_avg": tensor}, checkpoint / "optimizer.pt")
        written = time.perf_counter()
        Checkpoints(keep=1).on_save(
            args, TrainerState(global_step=step, is_world_process_zero=True), None
        )
        writing.append(written - began)
        sealing.append(time.perf_counter() - written)
    began = time.perf_counter()
    assert altered(checkpoint) is None
    checking = time.perf_counter() - began
    written, sealed = statistics.median(writing), statistics.median(sealing)
    print(
        f"{gigabytes:g} GB: written in {written:.1f} s, sealed in {sealed:.1f} s, checked on resume"
        f" in {checking:.1f} s"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, metavar="N")
    parser.add_argument("--seal", type=float, metavar="GB")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.seal:
            seal(Path(folder), options.seal)
            return

        def recipe_in(home: Path):
            return load_recipe(
                "recipes/tiny-arithmetic.yaml", [f"output_dir={home}", "sft.max_steps=100"]
            )

        recipe = recipe_in(Path(folder) / "warm")
        sft.main(recipe)
        if options.pairs:
            pairs(recipe_in, Path(folder), options.pairs)
            return
        scoring.bind_reward = bound
        timed(GuardedReward, "__call__")
        for owner, names in (
            (Checkpoints, ("on_step_end", "on_save")),
            (FiniteNumbers, ("on_pre_optimizer_step", "on_step_end")),
            (Interrupts, ("on_step_end",)),
            (run_folder, ("lock",)),
            (RunFolder, ("begin", "finish")),
            (grpo, ("find_run",)),
            (trainer, ("rows_that_fit",)),
        ):
            for name in names:
                timed(owner, name)
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
