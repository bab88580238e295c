"""A run that has stopped learning is told so, at the rates that docs/evaluation.md gives, and ends if asked."""

import shutil
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from transformers import TrainerControl, TrainerState

from schema.configs import ACCURACY, WINDOW
from schema.recipe import load_recipe
from schema.warnings import warnings_of
from tests.bench.plateau import EVALUATIONS, told_at
from tests.support import TWO_PROCESSES, read_lines, run_stage
from training.best_checkpoint import RIGHT, KeepBest
from training.plateau import plateau, trend

STEPS = range(10, 10 * WINDOW + 10, 10)
STILL = [(step, "1" * 50 + "0" * 46) for step in STEPS]
LEVEL = [(step, 0.5 + 0.01 * (step % 20)) for step in range(5, 105, 5)]
ARGS = SimpleNamespace(get_warmup_steps=lambda steps: 0)


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_a_run_that_learns_is_seldom_called_flat(memory):
    assert np.isfinite(told_at(0.015, memory, problems=96, runs=500)).mean() < 0.05


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_a_flat_run_is_told_and_a_falling_one_soon(memory):
    assert (told_at(0.0, memory, problems=96, runs=200) <= EVALUATIONS).mean() > 0.8
    assert (told_at(-0.01, memory, problems=96, runs=200) <= WINDOW + 4).mean() > 0.9


def test_the_standard_error_is_that_of_the_problems_own_trends():
    """Two that fall and two that rise, at once, are no evidence that nothing moves; the means alone would say so."""
    right_EP = np.repeat([[1, 1, 0, 0] * 24, [0, 0, 1, 1] * 24], WINDOW // 2, axis=0).astype(float)
    assert len(set(right_EP.mean(axis=1))) == 1
    gain, error = trend(right_EP)
    assert gain == pytest.approx(0) and error > 0.03
    one_rises = np.array([[0.0] * 95 + [float(step > 3)] for step in range(WINDOW)])
    slope = np.polyfit(range(WINDOW), one_rises.mean(axis=1), 1)[0]
    assert trend(one_rises)[0] == pytest.approx(slope)


@pytest.mark.parametrize(
    ("judged", "rewards"),
    [
        (STILL[1:], LEVEL),  # too early
        (STILL, [(step, 0.01 * step) for step, _ in LEVEL]),  # it learns something, if only the form
        ([(step, right[::6]) for step, right in STILL], LEVEL),  # of 16 problems none changes: that says little
        ([(10, "1" * 50), *STILL[1:]], LEVEL),  # other problems
        ([(step, "1" * n + "0" * (96 - n)) for n, step in zip(range(40, 90, 4), STEPS, strict=False)], LEVEL),
        ([], LEVEL),
        (STILL, []),  # nothing is known of the reward
        (STILL, LEVEL[1:3]),
        (STILL, LEVEL[1:2] * 3),
    ],
)
def test_not_flat(judged, rewards):
    assert plateau(judged, rewards) is None


@pytest.mark.parametrize("rewards", [LEVEL, LEVEL[1:4], [(step, 0.0) for step, _ in LEVEL]])
def test_flat_with_its_bound(rewards):
    said = plateau(STILL, rewards)
    assert "+0.0 ± 3.1 points over the last 8 evaluations (steps 10 to 80, n = 96), so less than 1 point" in said


def evaluated(keep: KeepBest, judged: list, args=ARGS) -> list[int]:
    """The steps after which a run would stop."""
    state, stops = TrainerState(max_steps=200), []
    for step, right in judged:
        control, state.global_step = TrainerControl(), step
        state.log_history.append({"step": step, "reward": 0.0})
        state.log_history.append({"step": step, ACCURACY: right.count("1") / len(right), RIGHT: right})
        keep.on_evaluate(args, state, control)
        stops += [step] * control.should_training_stop
    return stops


LONGER = [(step, STILL[0][1]) for step in range(10, 130, 10)]


def test_it_is_said_once(capsys):
    assert evaluated(KeepBest(3, stop_when_flat=False), LONGER) == []
    assert capsys.readouterr().out.count("held-out accuracy no longer rises") == 1


def test_a_stop_that_another_callback_asked_for_stays():
    state, control = TrainerState(max_steps=200, global_step=80), TrainerControl(should_training_stop=True)
    state.log_history = [{"step": step, ACCURACY: 0.5, RIGHT: right} for step, right in STILL]
    KeepBest(3, stop_when_flat=False).on_evaluate(ARGS, state, control)
    assert control.should_training_stop


def test_it_stops_if_asked_and_not_while_it_warms_up(capsys):
    assert evaluated(KeepBest(3, stop_when_flat=True), LONGER) == [80, 90, 100, 110, 120]
    assert "grpo: stopped at step 80: held-out accuracy no longer rises" in capsys.readouterr().out
    warming = SimpleNamespace(get_warmup_steps=lambda steps: 20)
    assert evaluated(KeepBest(3, stop_when_flat=True), LONGER, warming) == [100, 110, 120]


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ([], "set grpo.eval_steps"),
        (["grpo.eval_steps=40", "grpo.save_steps=40"], "it needs 8 evaluations, and the run has 6"),
        (["grpo.eval_steps=10", "evaluate.checkpoint_problems=24"], "24 problems seldom show"),
        (["grpo.num_iterations=1", "grpo.eval_steps=1"], "may see fewer than 3 training rewards"),
        (["grpo.eval_steps=10"], None),
        (["grpo.eval_steps=40", "evaluate.stop_when_flat=false"], None),
    ],
)
def test_check_says_where_it_can_see_nothing(overrides, told):
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", ["evaluate.stop_when_flat=true", *overrides])
    said = [each.message for each in warnings_of(recipe) if "stop_when_flat" in each.message]
    assert told in said[0] if told else not said


SHORT = [
    "recipes/tiny-arithmetic.yaml",
    "data.validation=120",
    "evaluate.checkpoint_problems=96",
    "sft.max_steps=100",
    "grpo.max_steps=11",
]
SHORT += [
    "grpo.num_iterations=1",
    "grpo.eval_steps=1",
    "grpo.logging_steps=1",
    "grpo.save_total_limit=3",
    "evaluate.stop_when_flat=true",
]
SHORT += ["grpo.learning_rate=1e-12", "grpo.num_generations=4", "grpo.lr_scheduler_type=constant"]


@pytest.fixture(scope="module")
def flat(tmp_path_factory):
    """A run that cannot learn, and what it said."""
    folder = tmp_path_factory.mktemp("flat")
    run_stage("sft", *SHORT, f"output_dir={folder}")
    overrides = [f"output_dir={folder}", "grpo.per_device_train_batch_size=16"]
    return folder, run_stage("grpo", *SHORT, *overrides).stdout


def rights(folder) -> list[str]:
    return [line[RIGHT] for line in read_lines(folder / "grpo/metrics.jsonl") if RIGHT in line]


@pytest.mark.slow
def test_a_run_that_cannot_learn_ends(flat):
    folder, said = flat
    assert "grpo: stopped at step 8: held-out accuracy no longer rises: +0.0 ± 3.1 points" in said
    assert (folder / "grpo/summary.json").is_file()
    # Each step's file, the last one too, holds what it trained on, and not the held-out problems answered after it.
    for file in (folder / "grpo/completions").iterdir():
        asked = Counter(each[-1]["content"] for each in pd.read_parquet(file)["prompt"])
        assert set(asked.values()) == {4}, file.name
    answered = rights(folder)
    assert len(answered) == 8 and len(set(answered)) == 1 and len(answered[0]) == 96
    measured = next(line[ACCURACY] for line in read_lines(folder / "grpo/metrics.jsonl") if ACCURACY in line)
    assert 0 < measured == pytest.approx(answered[0].count("1") / 96)


@pytest.mark.slow
def test_resumed_it_ends_at_the_same_step(flat):
    folder, _ = flat
    whole = rights(folder)
    (folder / "grpo/summary.json").unlink()
    for step in (7, 8):
        shutil.rmtree(folder / f"grpo/checkpoint-{step}")
    said = run_stage("grpo", *SHORT, f"output_dir={folder}", "grpo.per_device_train_batch_size=16").stdout
    assert "checkpoint-6" in said and "grpo: stopped at step 8:" in said
    assert rights(folder) == whole


@pytest.mark.slow
def test_two_processes_agree(flat, tmp_path):
    """Each sees half of the answers."""
    folder, _ = flat
    shutil.copytree(folder / "sft", tmp_path / "two/sft")
    overrides = [f"output_dir={tmp_path}/two", "grpo.per_device_train_batch_size=8"]
    said = run_stage("grpo", *SHORT, *overrides, launcher=TWO_PROCESSES, OMP_NUM_THREADS="1").stdout
    assert said.count("grpo: stopped at step 8:") == 1
    assert rights(tmp_path / "two") == rights(folder)
