"""On-policy distillation, really run: it gets nearer to its teacher, and goes on where it was
killed."""

import json
from pathlib import Path

import pytest

from console.faults import RecipeError
from evaluation.compare_runs import completions
from runs.state import read_run
from schema.recipe import load_recipe
from tests.support import (
    CHAIN,
    ROOT,
    copied,
    kill_when,
    read_lines,
    refused,
    run_stage,
    same_weights,
)
from training.model import load_teacher, load_tokenizer

RECIPE = "recipes/tiny-distill.yaml"
STEPS = 8  # of 16 of the 81 problems: the second epoch begins with the sixth


def tiny(folder: Path, teacher: Path, *overrides: str) -> list[str]:
    words = [RECIPE, f"output_dir={folder}", f"teacher={teacher}", *CHAIN, "distill.save_steps=2"]
    batch = ["distill.per_device_train_batch_size=8", "distill.gradient_accumulation_steps=2"]
    return [*words, *batch, f"distill.max_steps={STEPS}", "distill.logging_steps=1", *overrides]


@pytest.mark.train
def test_a_killed_run_ends_as_one_that_was_not(chain, tmp_path):
    """The teacher is the untrained base, from which the warm start is far."""
    teacher = ROOT / "outputs/models/tiny-qwen3-seed42"
    whole, killed = (copied(chain, tmp_path / name, "sft") for name in ("whole", "killed"))
    assert "next: make evaluate" in run_stage("distill", *tiny(whole, teacher)).stdout
    seventh = killed / "distill/checkpoint-6/manifest.json"
    kill_when(seventh.is_file, "distill", *tiny(killed, teacher))
    assert not (killed / "distill/summary.json").exists()
    run_stage("distill", *tiny(killed, teacher))
    assert same_weights(whole / "distill", killed / "distill")
    assert not same_weights(whole / "distill", whole / "sft")
    lines = read_lines(killed / "distill/metrics.jsonl")
    losses = [line["loss"] for line in lines if "loss" in line]
    assert len(losses) == STEPS and losses[-1] < losses[0] / 2
    assert completions(read_run(killed / "distill")) == STEPS * 16
    sources = json.loads((killed / "distill/versions.json").read_text())["sources"]
    assert "weights of the teacher" in sources and not any("rewards" in name for name in sources)
    run_stage("evaluate", *tiny(killed, teacher), "--validation")
    table = (killed / "eval/validation/report.md").read_text()
    assert "| distill |" in table and "- sft → distill: " in table
    another = refused("distill", *tiny(killed, chain / "grpo"))
    assert f"teacher: {teacher} there, {chain / 'grpo'} here" in another


def test_a_teacher_of_another_family_is_refused(tiny_qwen2):
    recipe = load_recipe(RECIPE, [f"teacher={tiny_qwen2}"])
    with pytest.raises(RecipeError, match=r"its token \d+ is .*: take one of the student's family"):
        load_teacher(recipe, load_tokenizer(recipe))


def test_what_is_missing_is_said_before_it_begins(tmp_path):
    words = [RECIPE, f"output_dir={tmp_path}"]
    absent = refused("distill", *words, "teacher=outputs/nowhere/grpo")
    assert "there is no folder outputs/nowhere/grpo yet" in absent
    assert "add `teacher`" in refused("distill", *words, "teacher=null")
    assert "it has no `distill` section" in refused("distill", *words, "distill=null")
    length = refused("distill", *words, "distill.max_completion_length=9")
    assert "write `grpo.max_completion_length`" in length
