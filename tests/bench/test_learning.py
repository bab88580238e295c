"""The benchmark of learning: its figures, its budgets, and that it goes on where it was killed."""

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
import time

import pytest

from schema.configs import generation
from schema.recipe import read_recipe
from tests.bench.learning.arms import DEFAULTS, TASKS, TUNED
from tests.bench.learning.report import area, median, reached, smoothed, table, write_report
from tests.support import ROOT

LINE = {"generated": [0, 100, 200], "accuracy": [0.2, 0.4, 0.4], "no_signal": 0.5, "n": 10, "problems": "test"}


def test_the_area_is_the_mean_accuracy_over_the_budget():
    assert area(LINE, 200) == pytest.approx(35.0)
    assert area(LINE, 100) == pytest.approx(30.0)
    assert area(LINE | {"generated": [0, 200, 400]}, 200) == pytest.approx(30.0)  # half of it was thrown away


@pytest.mark.parametrize(("wanted", "after"), [(0.1, 0), (0.2, 0), (0.3, 50), (0.4, 100), (0.41, math.inf)], ids=str)
def test_reached(wanted, after):
    assert reached(LINE, wanted) == pytest.approx(after)


def test_the_first_crossing_is_of_the_rising_curve():
    noisy = LINE | {"generated": [0, 1, 2, 3], "accuracy": [0.2, 0.6, 0.4, 0.5]}
    assert smoothed(noisy)["accuracy"] == pytest.approx([0.2, 0.5, 0.5, 0.5])
    assert (reached(noisy, 0.55), reached(smoothed(noisy), 0.55)) == (pytest.approx(0.875), math.inf)


def test_the_interval_of_the_median_is_of_the_seeds():
    assert median([1.0, 2.0]) == ""
    assert median([1.0] * 5) == "1.00 (1.00 to 1.00)"
    middle, low, _, high = median([1.0, 2.0, 3.0, 4.0, math.inf]).replace("(", "").replace(")", "").split()
    assert (middle, 1 <= float(low) <= 2, high) == ("3.00", True, "never")


def test_ratios_are_taken_within_a_seed():
    """By hand: 2, 2 and 2 times the defaults, although the seeds differ by far more than the arms."""

    def lines(arm: str, *heights: float):
        return [LINE | {"arm": arm, "seed": seed, "accuracy": [h] * 3} for seed, h in enumerate(heights)]

    task = dataclasses.replace(TASKS["smoke"], completions=200)
    text = table(task, lines(DEFAULTS, 0.1, 0.2, 0.4) + lines(TUNED, 0.2, 0.3, 0.9) + lines("x", 0.2, 0.4, 0.8))
    row = next(line for line in text.splitlines() if line.startswith("| x |"))
    assert "| 2.00 (2.00 to 2.00) |" in row
    # 1, 4/3 and 8/9 of tuned trl: their logarithms have a mean of 0.0566 and a standard error of 0.1203; t is 4.303.
    assert "| 1.06 (0.63 to 1.78) |" in row
    assert row.endswith("| 0.00 (0.00 to never) | 0.50 |")


def test_arms_with_other_seeds_are_ranked_within_them():
    """Seed 1 is easy: the worse arm, which has it alone, has the larger area."""
    heights = {(TUNED, 0): 0.2, (TUNED, 1): 0.8, ("better", 0): 0.3, ("better", 1): 0.9, ("worse", 1): 0.7}
    lines = [LINE | {"arm": arm, "seed": seed, "accuracy": [h] * 3} for (arm, seed), h in heights.items()]
    text = table(dataclasses.replace(TASKS["smoke"], completions=200), lines)
    assert (
        text.index("| better | 2 | 60.0 |  | 1.30 |") < text.index(TUNED) < text.index("| worse | 1 | 70.0 |  | 0.88 |")
    )


def test_a_seed_whose_warm_start_failed_is_left_out_and_named(tmp_path):
    accuracies = {1: [0.2, 0.9, 0.9], 2: [0.04, 0.9, 0.9]}
    starts = [LINE | {"arm": TUNED, "seed": seed, "accuracy": each} for seed, each in accuracies.items()]
    text = write_report(TASKS["smoke"], starts, tmp_path)
    assert f"| {TUNED} | 1 |" in text
    assert "left out, since their warm starts are right on less than 5%: seeds [2]" in text
    assert "left out" not in write_report(TASKS["smoke"], starts[1:], tmp_path)


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name)
def test_every_arm_is_a_sound_recipe_that_spends_the_same(task):
    for arm in task.arms:
        recipe, faults = read_recipe(ROOT / task.recipe, [*task.overrides, *task.budget(arm)])
        assert faults == []
        sampled = generation(recipe.grpo)
        samplings = recipe.grpo["max_steps"] * recipe.grpo.get("gradient_accumulation_steps", 1) / sampled.cycle
        spent = sampled.completions * samplings * task.arms[arm].get("spends", 1) + task.probed(arm)
        assert spent == pytest.approx(task.completions, rel=0.02), arm


@pytest.mark.slow
def test_a_killed_benchmark_goes_on(tmp_path):
    """It is killed while an arm trains, and ends with a line for each run, the finished ones as they were."""
    command = [sys.executable, "-m", "tests.bench.learning", "--task", "smoke", "--seeds", "1", "--cores", "0"]
    command += ["--folder", str(tmp_path)]
    lines = tmp_path / "smoke-test/learning.jsonl"
    whole = [*command[:-1], str(tmp_path / "whole")]
    subprocess.run(whole, cwd=ROOT, check=True, capture_output=True)
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL)
    second = tmp_path / "smoke-test/ours/seed-1/grpo"
    until = time.monotonic() + 300
    while not list(second.glob("checkpoint-*/manifest.json")):
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = lines.read_text(encoding="utf-8")
    assert len(before.splitlines()) == 1
    ended = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    after = lines.read_text(encoding="utf-8")
    assert after.startswith(before) and len(after.splitlines()) == 2

    def results(file):
        kept = ("arm", "seed", "generated", "accuracy", "no_signal")
        return [{key: json.loads(line)[key] for key in kept} for line in file.read_text(encoding="utf-8").splitlines()]

    assert results(lines) == results(tmp_path / "whole/smoke-test/learning.jsonl")
    assert (tmp_path / "smoke-test/learning.png").stat().st_size > 10_000
    assert "| ours | 1 |" in ended.stdout
