"""vLLM as the evaluation's engine, for real, on a CPU: `make test-vllm` makes an environment of its own for it."""

import json

import pytest
from conftest import run_stage

pytestmark = [pytest.mark.slow, pytest.mark.vllm]
RECIPE = ["recipes/smollm2-arithmetic.yaml", "model.dtype=float32", "data.worked=320", "sft.max_steps=20"]
RECIPE += ["evaluate.limit=50"]


def answered(folder, engine, *models):
    arguments = [*RECIPE, f"output_dir={folder}", f"evaluate.engine={engine}", "--held-out"]
    run_stage("evaluate", *arguments, *(each for model in models for each in ("--model", model)))
    files = sorted((folder / "eval/models/held-out").glob("*.jsonl"))
    lines = {file.stem: file.read_text().splitlines()[1:] for file in files if "seconds" not in file.name}
    return {label: {each["id"]: each for each in map(json.loads, items)} for label, items in lines.items()}


def test_both_engines_answer_alike(tmp_path):
    """The base model, and an adapter that vLLM serves beside it: in float32 the same greedy answers but for a near tie,
    and equal lengths and ends. (Both are given the same token ids: the engine itself refuses anything else.)"""
    run_stage("sft", *RECIPE, f"output_dir={tmp_path}")
    adapter = tmp_path / "sft"
    ours = answered(tmp_path / "transformers", "transformers", "outputs/models/smollm2-135m-instruct", adapter)
    theirs = answered(tmp_path / "vllm", "vllm", "outputs/models/smollm2-135m-instruct", adapter)
    assert ours.keys() == theirs.keys() and len(ours) == 2
    for label in ours:
        pairs = [(ours[label][i], theirs[label][i]) for i in range(50)]
        same = [(a, b) for a, b in pairs if a["response"] == b["response"]]
        print(f"{label}: {len(same)} of {len(pairs)} answers are the same")
        assert len(same) >= 48
        assert all((a["tokens"], a["truncated"]) == (b["tokens"], b["truncated"]) for a, b in same)
    base, tuned = theirs.values()
    assert sum(base[i]["response"] != tuned[i]["response"] for i in range(50)) > 40  # the adapter is really there
