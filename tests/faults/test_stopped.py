"""Runs that meet a fault by themselves stop with a code and a line, or go on without what was
faulty; and what each leaves can be resumed."""

import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support import (
    CHAIN,
    LORA,
    ROOT,
    copied,
    hub,
    run_program,
    run_stage,
    same_weights,
    weights,
)
from tests.tables import row_cases
from tests.waits import run_command

pytestmark = pytest.mark.train
SMALL = [*CHAIN, "grpo.per_device_train_batch_size=16", "grpo.num_generations=4"]
SMALL += ["sft=null", "rewards.tests.varied_reward.varied={weight: 1.0}"]


def command(folder: Path, *overrides: str) -> list[str]:
    return ["recipes/tiny-arithmetic.yaml", f"output_dir={folder}", *overrides]


@dataclass(frozen=True)
class Row:
    """A row of the table. `kind`: of the reward; `finite`: that all checkpoints are finite, and
    the prompts of the batch are written; such a run is not resumed."""

    case: str
    kind: str
    exits: int = 0
    says: str = ""
    finite: bool = False


@row_cases(__file__, "stopped", Row)
def test_a_run_with_a_faulty_reward_ends_as_one_without_it(row, chain, tmp_path):
    copied(chain, tmp_path, "sft")
    reward = f'rewards.tests.faulty_reward.faulty={{weight: 0.5, kind: "{row.kind}", timeout: 20}}'
    settings = command(tmp_path, *CHAIN, reward, *["grpo.save_steps=1"] * row.finite)
    ended = run_stage("grpo", *settings, check=False)
    assert ended.returncode == row.exits, ended.stderr
    assert row.says in ended.stdout + ended.stderr
    if row.finite:
        assert list(tmp_path.glob("grpo/not-finite-*.json"))
        for checkpoint in tmp_path.glob("grpo/checkpoint-*"):
            assert all(np.isfinite(weight).all() for weight in weights(checkpoint).values())
        return
    if row.exits:
        run_stage("grpo", *settings, MENDED="1")
    assert same_weights(tmp_path / "grpo", chain / "grpo")


@pytest.mark.slow
def test_a_batch_that_the_memory_does_not_hold_is_halved_by_advice(chain, tmp_path):
    """A limit of address space that a thousand completions do not fit."""
    copied(chain, tmp_path, "sft")
    many = shlex.split("""
        grpo.per_device_train_batch_size=4096 grpo.max_completion_length=96 grpo.num_generations=8
    """)
    limit = ["prlimit", f"--as={6 * 2**30}", sys.executable]
    settings = command(tmp_path, *CHAIN, *many)
    ended = run_stage("grpo", *settings, before=limit, check=False)
    assert ended.returncode == 4, ended.stderr
    assert "per_device_train_batch_size 4096 → 2048" in ended.stderr


@pytest.mark.slow
def test_a_run_whose_disk_was_full_goes_on_once_there_is_room(chain, tmp_path):
    """A file system of 10 MB of its own, which a checkpoint of 3 MB fills; then another 30 MB."""
    mount, run = tmp_path / "disk", tmp_path / "run"
    mount.mkdir()
    stage = shlex.join([sys.executable, "-m", "stages", "grpo", *command(mount, *CHAIN)])
    script = f"""
        mount -t tmpfs -o size=10m tmpfs '{mount}' && cp -r '{chain}/sft' '{mount}' || exit 99
        {stage}; echo $?
        mount -o remount,size=40m '{mount}'
        {stage} && cp -r '{mount}' '{run}'
    """
    words = ["unshare", "-rm", "sh", "-c", script]
    ended = run_command(words, cwd=ROOT, capture_output=True, text=True)
    if ended.returncode == 99:
        pytest.skip(f"no file system can be mounted here: {ended.stderr}")
    assert "no room for the run's checkpoints" in ended.stderr and "\n3\n" in ended.stdout, (
        ended.stderr
    )
    assert same_weights(run / "grpo", chain / "grpo")


@pytest.mark.slow
def test_a_hub_that_never_answers_is_not_needed_for_a_model_in_its_cache(tmp_path):
    cache = tmp_path / "hub/models--a--model"
    shutil.copytree(ROOT / "outputs/models/tiny-qwen3-seed42", cache / "snapshots" / ("0" * 40))
    (cache / "refs").mkdir()
    (cache / "refs/main").write_text("0" * 40)
    model = ["model.build=null", "model.name_or_path=a/model"]
    python = [sys.executable]  # the client reads its environment when it is imported
    with hub(tmp_path, None) as (environment, _):
        settings = command(tmp_path / "cached", *SMALL, *model)
        run_stage("grpo", *settings, before=python, **environment)
    run_stage("grpo", *command(tmp_path / "built", *SMALL))
    assert same_weights(tmp_path / "cached/grpo", tmp_path / "built/grpo")


HALF = """
import torch, transformers
from machine import hardware
from stages.cli import run
from stages.grpo import main
hardware.has_arithmetic = lambda dtype: True
create = transformers.Trainer.create_accelerator_and_postprocess
def half(self):
    create(self)
    self.accelerator.state._mixed_precision, self.accelerator.native_amp = "fp16", True
    self.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=2)
transformers.Trainer.create_accelerator_and_postprocess = half
run("grpo", main)
"""


@pytest.mark.slow
def test_float16_is_resumed_to_the_bit_with_the_scale_of_its_loss(tmp_path):
    """As on a GPU, where accelerate does what the program does here: steps overflow and are
    skipped."""
    program = tmp_path / "half.py"
    program.write_text(HALF)
    half = [*SMALL, LORA, "model.dtype=float16", "grpo.learning_rate=1e-2"]
    done = run_program(program, *command(tmp_path / "whole", *half))
    assert "the saved adapter on a clean base is the trained policy" in done.stdout
    folder = shutil.copytree(tmp_path / "whole", tmp_path / "cut") / "grpo"
    shutil.rmtree(folder / "checkpoint-8")
    (folder / "adapter_model.safetensors").unlink()
    (folder / "summary.json").unlink()
    assert torch.load(folder / "checkpoint-6/scaler.pt")["scale"] != 2.0**24
    assert "checkpoint-6" in run_program(program, *command(tmp_path / "cut", *half)).stdout
    assert same_weights(folder, tmp_path / "whole/grpo")
    learned = weights(folder)
    assert any(learned[name].any() for name in learned if "lora_B" in name)


def test_a_run_killed_after_its_last_checkpoint_takes_no_further_step(tmp_path):
    rate = ["grpo.learning_rate=1e-2", "grpo.lr_scheduler_type=constant"]
    settings = command(tmp_path, *SMALL, *rate)
    run_stage("grpo", *settings)
    run, whole = tmp_path / "grpo", tmp_path / "whole"
    shutil.copytree(run, whole)
    (run / "summary.json").unlink()
    run_stage("grpo", *settings)
    assert (run / "summary.json").is_file() and same_weights(run, whole)
    before, after = (sorted((folder / "completions").iterdir()) for folder in (whole, run))
    assert len(before) == 8
    assert [file.read_bytes() for file in before] == [file.read_bytes() for file in after]
