"""Killed by SIGKILL after a checkpoint and started again: the very weights of a run that nothing
happened to."""

import shutil
import signal
import sys

import numpy as np
import pytest
import torch

from tests.support import (
    LORA,
    NF4,
    as_process_1,
    kill_when,
    run_program,
    run_stage,
    same_weights,
    send,
    weights,
)
from tests.waits import until

pytestmark = pytest.mark.train
SHORT = [
    "data.validation=40",
    "sft.max_steps=40",
    "sft.save_steps=10",
    "grpo.max_steps=8",
    "grpo.save_steps=2",
]
SHORT += ["rewards.tests.varied_reward.varied={weight: 1.0}"]
SMALL = ["grpo.per_device_train_batch_size=16", "grpo.num_generations=4", "grpo.num_iterations=1"]
SMALL += ["sft.per_device_train_batch_size=16"]
FOUR = ["grpo.steps_per_generation=4", "grpo.gradient_accumulation_steps=2"]
BOTH = [*FOUR, "grpo.num_iterations=2", "grpo.save_steps=4"]


@pytest.mark.parametrize(
    ("stage", "overrides", "processes"),
    [
        pytest.param("sft", [LORA], 1, id="sft, LoRA"),
        pytest.param(
            "grpo",
            ["grpo.save_steps=2", *FOUR],
            1,
            id="grpo, full, four steps a generation",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "grpo", [LORA, *BOTH], 2, id="grpo, LoRA, both, two processes", marks=pytest.mark.slow
        ),
        pytest.param("grpo", [LORA, "grpo.beta=0.04"], 1, id="grpo, LoRA, a reference"),
        pytest.param("grpo", [LORA, NF4], 1, id="grpo, QLoRA", marks=pytest.mark.slow),
        pytest.param("sft", [], 1, id="sft, full", marks=pytest.mark.slow),
        pytest.param("sft", [LORA], 2, id="sft, LoRA, two processes", marks=pytest.mark.slow),
        pytest.param("sft", [LORA, NF4], 1, id="sft, QLoRA", marks=pytest.mark.slow),
        pytest.param("grpo", [LORA], 1, id="grpo, LoRA", marks=pytest.mark.slow),
        pytest.param(
            "grpo",
            [LORA, "grpo.num_iterations=2"],
            1,
            id="grpo, LoRA, each batch twice",
            marks=pytest.mark.slow,
        ),
        pytest.param("grpo", [LORA, *BOTH], 1, id="grpo, LoRA, both", marks=pytest.mark.slow),
        pytest.param("grpo", BOTH, 2, id="grpo, full, both, two processes", marks=pytest.mark.slow),
        pytest.param(
            "grpo",
            [LORA, NF4, "grpo.beta=0.04"],
            1,
            id="grpo, QLoRA, a reference",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "grpo", ["grpo.beta=0.04"], 1, id="grpo, full, a reference", marks=pytest.mark.slow
        ),
        pytest.param(
            "grpo",
            [LORA, NF4, *BOTH],
            2,
            id="grpo, QLoRA, both, two processes",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_resumed_to_the_bit(stage, overrides, processes, tiny_qwen2, tmp_path):
    if NF4 in overrides:
        overrides = [*overrides, "model.build=null", f"model.name_or_path={tiny_qwen2}"]
        overrides += ["sft.max_steps=20", "sft.save_steps=5"]

    def arguments(folder: str) -> list[str]:
        return [
            "recipes/tiny-arithmetic.yaml",
            f"output_dir={tmp_path / folder}",
            *SHORT,
            *SMALL,
            *overrides,
        ]

    if stage == "grpo":
        run_stage("sft", *arguments("apart/whole"))
        shutil.copytree(tmp_path / "apart/whole", tmp_path / "killed")
    run_stage(stage, *arguments("apart/whole"), processes=processes)
    killed = tmp_path / "killed" / stage
    kill_when(
        lambda: any(killed.glob("checkpoint-*/manifest.json")),
        stage,
        *arguments("killed"),
        processes=processes,
    )
    assert not (killed / "summary.json").exists()
    resumed = run_stage(stage, *arguments("killed"), processes=processes)
    assert "checkpoint-" in resumed.stdout
    # beside one another they would share a warm start
    assert same_weights(killed, tmp_path / "apart/whole" / stage)
    if stage == "grpo":
        before, after = (weights(tmp_path / "apart/whole" / each) for each in ("sft", "grpo"))
        assert any(not np.array_equal(before[name], after[name]) for name in after)  # it did train


HALF = """
import torch, transformers
from machine import hardware
from stages.cli import run
from stages.grpo import main
hardware.has_arithmetic = lambda dtype: True
made = transformers.Trainer.create_accelerator_and_postprocess
def half(self):
    made(self)
    self.accelerator.state._mixed_precision, self.accelerator.native_amp = "fp16", True
    self.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=2)
transformers.Trainer.create_accelerator_and_postprocess = half
run("grpo", main)
"""


@pytest.mark.slow
def test_float16_is_resumed_to_the_bit_with_the_scale_of_its_loss(tmp_path):
    """As on a GPU, where accelerate does what the program does here: steps overflow and are
    skipped."""
    (tmp_path / "half.py").write_text(HALF)
    given = [
        "recipes/tiny-arithmetic.yaml",
        LORA,
        *SHORT,
        *SMALL,
        "sft=null",
        "model.dtype=float16",
    ]
    given += ["grpo.learning_rate=1e-2"]
    done = run_program(tmp_path / "half.py", *given, f"output_dir={tmp_path / 'whole'}")
    assert "the saved adapter on a clean base is the trained policy" in done.stdout
    folder = shutil.copytree(tmp_path / "whole", tmp_path / "cut") / "grpo"
    for each in (
        folder / "checkpoint-8",
        folder / "adapter_model.safetensors",
        folder / "summary.json",
    ):
        shutil.rmtree(each) if each.is_dir() else each.unlink()
    scale = torch.load(folder / "checkpoint-6/scaler.pt")
    assert scale["scale"] != 2.0**24
    assert (
        "checkpoint-6"
        in run_program(tmp_path / "half.py", *given, f"output_dir={tmp_path / 'cut'}").stdout
    )
    assert same_weights(folder, tmp_path / "whole/grpo")
    assert any(each.any() for name, each in weights(folder).items() if "lora_B" in name)


@pytest.mark.parametrize("algorithm", ["null", pytest.param("rloo", marks=pytest.mark.slow)])
def test_a_run_that_was_killed_after_its_last_checkpoint_takes_no_further_step(algorithm, tmp_path):
    given = ["recipes/tiny-arithmetic.yaml", f"output_dir={tmp_path}", *SHORT, *SMALL, "sft=null"]
    given += ["grpo.logging_steps=1"]
    given += [
        f"algorithm={algorithm}",
        "grpo.learning_rate=1e-2",
        "grpo.lr_scheduler_type=constant",
    ]
    run_stage("grpo", *given)
    run, whole = tmp_path / "grpo", tmp_path / "whole"
    shutil.copytree(run, whole)
    (run / "summary.json").unlink()
    run_stage("grpo", *given)
    assert (run / "summary.json").is_file() and same_weights(run, whole)
    files, before = (
        {each.name: each.read_bytes() for each in (f / "completions").iterdir()}
        for f in (run, whole)
    )
    assert files == before and len(files) == 8


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_process_1_saves_its_step_and_is_resumed_to_the_bit(number, tmp_path):
    """As `docker run … python -m stages.grpo` has it. After SIGHUP nobody reads what it says."""

    def arguments(folder: str) -> list[str]:
        return [
            "recipes/tiny-arithmetic.yaml",
            f"output_dir={tmp_path / folder}",
            *SHORT,
            *SMALL,
            LORA,
            "sft=null",
        ]

    run_stage("grpo", *arguments("whole"))
    process = as_process_1([sys.executable, "-m", "stages.grpo", *arguments("cut")])
    until(
        lambda: list((tmp_path / "cut/grpo").glob("checkpoint-*/manifest.json")), running=[process]
    )
    if number == signal.SIGHUP:
        process.stdout.close()
    send(process, number)
    send(process, signal.SIGHUP)  # another, as a shell and make send it, is no second signal
    assert process.wait(60) == 75
    saved = list((tmp_path / "cut/grpo").glob("checkpoint-*/manifest.json"))
    assert saved and not (tmp_path / "cut/grpo/summary.json").exists()
    assert "checkpoint-" in run_stage("grpo", *arguments("cut")).stdout
    assert same_weights(tmp_path / "cut/grpo", tmp_path / "whole/grpo")
