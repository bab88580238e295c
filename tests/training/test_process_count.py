"""The same global batch on 1, 2 and 4 processes: the same problems, completions, rewards and
advantages, and nearly the same weights. Completions are the same because tests/by_place.py gives
each its own random numbers; trl gives each process its own, so that without it they differ with the
number of processes, and only the problems are the same.
"""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import TWO_PROCESSES, completions, furthest, run_program, run_stage

pytestmark = pytest.mark.slow
STEPS = 6
SHORT = shlex.split("""
    data.validation=40 sft.max_steps=60 grpo.num_iterations=1 grpo.logging_steps=1 grpo.save_steps=3
    rewards.tests.varied_reward.varied='{weight: 1.0}'
""")
SHORT += [f"grpo.max_steps={STEPS}"]
# The processes, and a recipe's split of 64 completions. Four take 8 in two micro-batches.
WIDTHS = [(1, 64, 1), (1, 16, 4), (2, 64, 1), (4, 8, 8)]
# AdamW moves a weight by up to the learning rate, 5e-5, in a step. Sums in another order differ by
# float32's rounding; measured, the weights then differ by 5e-7. At a fifth of the learning rate no
# weight has taken another step.
TOLERANCE = 1e-5


def overrides(folder: Path, batch: int, accumulation: int) -> list[str]:
    given = [
        f"grpo.per_device_train_batch_size={batch}",
        f"grpo.gradient_accumulation_steps={accumulation}",
    ]
    return ["recipes/tiny-arithmetic.yaml", f"output_dir={folder}", *SHORT, *given]


def trained(folder: Path, processes: int, *batch: int) -> subprocess.CompletedProcess:
    launcher = [*TWO_PROCESSES, "--num_processes", str(processes)]
    before = launcher if processes > 1 else [sys.executable]
    return run_program("tests.by_place", *overrides(folder, *batch), before=before)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[tuple[int, int, int], Path]:
    """The folders of a run of each width, after the same warm start."""
    home = tmp_path_factory.mktemp("widths")
    run_stage("sft", *overrides(home / "warm", 64, 1))
    folders = {}
    for width in WIDTHS:
        folders[width] = home / "-".join(map(str, width))
        shutil.copytree(home / "warm", folders[width])
        trained(folders[width], *width)
    return folders


@pytest.mark.parametrize("width", WIDTHS[1:], ids=str)
def test_the_same_run_at_any_width(width, runs):
    one, other = runs[WIDTHS[0]], runs[width]
    expected, found = completions(one / "grpo"), completions(other / "grpo")
    assert len(expected) == STEPS * 64
    assert expected["advantage"].abs().max() > 0.5  # there was something to learn from
    for column in ("step", "prompt", "completion", "correct_answer", "format_tags", "varied"):
        assert [*map(str, expected[column])] == [*map(str, found[column])], column
    assert np.allclose(expected["advantage"], found["advantage"], rtol=0, atol=1e-6)
    difference = furthest(one / "grpo", other / "grpo")
    learned = furthest(one / "sft", one / "grpo")
    print(f"{width}: the weights differ by at most {difference:.2g}; learned: {learned:.2g}")
    assert difference < TOLERANCE < learned


def test_a_run_begun_on_two_processes_goes_on_with_four(runs, tmp_path):
    """With the same problems, and to the same weights as any width, where the completions are the
    same."""
    one, two = runs[WIDTHS[0]], runs[2, 64, 1]
    shutil.copytree(two, tmp_path, dirs_exist_ok=True)
    for each in ("summary.json", "model.safetensors", f"checkpoint-{STEPS}", "completions"):
        path = tmp_path / "grpo" / each
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    refused = run_stage("grpo", *overrides(tmp_path, 128, 1), check=False, WORLD_SIZE="4")
    assert refused.returncode == 2
    assert "64 there, 128 here" in refused.stderr
    done = trained(tmp_path, 4, 64, 1)
    assert "began on 2 processes, goes on with 4" in done.stdout
    # as transformers says of the same batch, divided otherwise
    assert "do not match" not in done.stderr
    assert f"from {tmp_path}/grpo/checkpoint-3" in done.stdout
    expected, found = completions(one / "grpo"), completions(tmp_path / "grpo")
    expected = expected[expected["step"] > 3]
    assert len(found) == 3 * 64
    for column in ("step", "prompt", "completion", "correct_answer"):
        assert [*map(str, expected[column])] == [*map(str, found[column])], column
    assert furthest(one / "grpo", tmp_path / "grpo") < TOLERANCE
