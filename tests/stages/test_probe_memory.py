"""The longest sample first."""

import pandas as pd
import pytest
import torch

from console.faults import RunStopped
from schema.recipe import load_recipe
from stages import probe_memory

TINY = ["data.validation=40", "grpo.per_device_train_batch_size=8", "grpo.num_generations=4"]


def test_the_largest_step_is_tried_with_the_longest_problems(tmp_path, monkeypatch, capsys):
    """Two problems of a generation batch, the longest, and completions that all reach the limit."""
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", [*TINY, f"output_dir={tmp_path}/run"])
    problems = [
        {"problem": "1+" * i + "1?", "solution": "1", "reasoning": None} for i in (3, 9, 1, 8)
    ]
    monkeypatch.setattr(probe_memory, "load_train", lambda recipe: (problems, []))
    monkeypatch.setattr(
        probe_memory.tempfile, "TemporaryDirectory", lambda: Kept(tmp_path / "probe")
    )
    probe_memory.main(recipe)
    assert "next: make grpo" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()
    done = pd.read_parquet(tmp_path / "probe/grpo/completions")
    expected = {problems[1]["problem"], problems[3]["problem"]}
    assert {each[-1]["content"] for each in done["prompt"]} == expected


class Kept:
    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        return str(self.folder)

    def __exit__(self, *error):
        pass


def test_out_of_memory_names_the_lines_to_change(monkeypatch):
    def fail(*arguments):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(probe_memory, "grpo_trainer", fail)
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", ["grpo.gradient_accumulation_steps=2"])
    with pytest.raises(RunStopped) as fault:
        probe_memory.main(recipe)
    first, batch, length = str(fault.value).splitlines()
    assert first.startswith("out of memory")
    assert "recipes/tiny-arithmetic.yaml:20: grpo.per_device_train_batch_size 32 → 16" in batch
    assert "gradient_accumulation_steps 2 → 4" in batch
    assert "recipes/tiny-arithmetic.yaml:24: grpo.max_completion_length 48 → 24" in length
