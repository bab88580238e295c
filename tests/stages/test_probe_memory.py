"""The longest sample first."""

from contextlib import nullcontext
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

from console.faults import RunStopped
from schema.recipe import load_recipe
from stages import probe_memory
from tests.waits import until
from training import memory
from training.model import base_model

TINY = ["data.validation=40", "grpo.per_device_train_batch_size=8", "grpo.num_generations=4"]


def test_the_largest_step_is_tried_with_the_longest_problems(tmp_path, monkeypatch, capsys):
    """Two problems of a generation batch, the longest, and completions that all reach the limit."""
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", [*TINY, f"output_dir={tmp_path}/run"])
    problems = [
        {"problem": "1+" * i + "1?", "solution": "1", "reasoning": None} for i in (3, 9, 1, 8)
    ]
    base_model(recipe)  # is built in a temporary folder of its own
    monkeypatch.setattr(probe_memory, "load_train", lambda recipe: (problems, []))
    monkeypatch.setattr(
        probe_memory.tempfile, "TemporaryDirectory", lambda: nullcontext(str(tmp_path / "probe"))
    )
    probe_memory.main(recipe)
    assert "next: make grpo" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()
    done = pd.read_parquet(tmp_path / "probe/grpo/completions")
    expected = {problems[1]["problem"], problems[3]["problem"]}
    assert {each[-1]["content"] for each in done["prompt"]} == expected


def test_the_peak_is_what_the_gpu_had_left_and_not_what_torch_counts(monkeypatch, capsys):
    """torch counts what vLLM has unmapped while it sleeps."""
    frees = [20, 9, 15]

    def free_and_total():
        return (frees.pop(0) if len(frees) > 1 else frees[0]) * memory.GIB, 24 * memory.GIB

    def trainer(*arguments):
        return SimpleNamespace(train=lambda: until(lambda: len(frees) == 1))

    recipe = load_recipe("recipes/tiny-arithmetic.yaml", TINY)
    monkeypatch.setattr(probe_memory, "grpo_trainer", trainer)
    monkeypatch.setattr(probe_memory, "begin", lambda name, recipe, stages: recipe)
    monkeypatch.setattr(probe_memory, "require_values", lambda *arguments: None)
    args = SimpleNamespace(generation_batch_size=8, num_generations=4)
    monkeypatch.setattr(probe_memory, "training_config", lambda recipe, section: args)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", free_and_total)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 30 * memory.GIB)
    probe_memory.main(recipe)
    assert "peak memory: 15.0 of 24.0 GiB" in capsys.readouterr().out


def test_out_of_memory_names_the_lines_to_change(monkeypatch):
    def fail(*arguments):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(probe_memory, "grpo_trainer", fail)
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", ["grpo.gradient_accumulation_steps=2"])
    with pytest.raises(RunStopped) as fault:
        probe_memory.main(recipe)
    first, batch, length = str(fault.value).splitlines()
    assert first.startswith("out of memory")
    assert "recipes/tiny-arithmetic.yaml:21: grpo.per_device_train_batch_size 32 → 16" in batch
    assert "gradient_accumulation_steps 2 → 4" in batch
    assert "recipes/tiny-arithmetic.yaml:25: grpo.max_completion_length 48 → 24" in length
