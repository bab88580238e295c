"""vLLM as the evaluation's engine, for real: on a CPU by `make test-vllm`, in an environment of its own, on a GPU by
`make test-gpu`.
"""

import json
import os
from pathlib import Path

import torch

from tests.support import GPU_TABLE, WITH_VLLM, run_stage

pytestmark = WITH_VLLM
GPU = torch.cuda.is_available()
LEAST = 45 if GPU else 48  # of 50 answers that are the same; on a GPU the engines' kernels differ more
FOLDERS = os.environ["PATH"].split(os.pathsep)
WITHOUT_NVCC = {"PATH": os.pathsep.join(each for each in FOLDERS if not (Path(each) / "nvcc").is_file())}
RECIPE = ["recipes/smollm2-arithmetic.yaml", "model.dtype=float32", "data.worked=320", "sft.max_steps=20"]
RECIPE += ["evaluate.limit=50"]
DTYPE = "float16" if GPU else "float32"  # vLLM's kernels for adapters have no float32 on a GPU


def answered(folder, engine, *models):
    arguments = [*RECIPE, f"output_dir={folder}", f"evaluate.engine={engine}", f"model.dtype={DTYPE}", "--held-out"]
    run_stage("evaluate", *arguments, *(each for model in models for each in ("--model", model)), **WITHOUT_NVCC)
    files = sorted((folder / "eval/models/held-out").glob("*.jsonl"))
    lines = {file.stem: file.read_text().splitlines()[1:] for file in files if "seconds" not in file.name}
    return {label: {each["id"]: each for each in map(json.loads, items)} for label, items in lines.items()}


def test_both_engines_answer_alike(tmp_path):
    """The base model, and an adapter that vLLM serves beside it, in one process and without a compiler for kernels: in
    float32 the same greedy answers but for a near tie, and equal lengths and ends. (Both are given the same token ids:
    the engine itself refuses anything else.)"""
    run_stage("sft", *RECIPE, f"output_dir={tmp_path}")
    adapter = tmp_path / "sft"
    ours = answered(tmp_path / "transformers", "transformers", "outputs/models/smollm2-135m-instruct", adapter)
    theirs = answered(tmp_path / "vllm", "vllm", "outputs/models/smollm2-135m-instruct", adapter)
    assert ours.keys() == theirs.keys() and len(ours) == 2
    for label in ours:
        pairs = [(ours[label][i], theirs[label][i]) for i in range(50)]
        same = [(a, b) for a, b in pairs if a["response"] == b["response"]]
        print(f"{label}: {len(same)} of {len(pairs)} answers are the same")
        which = "adapter" if label.endswith("sft") else "base"
        GPU_TABLE[f"vLLM and transformers in {DTYPE}, {which}: same answers"] = f"{len(same)} of {len(pairs)}"
        assert len(same) >= LEAST
        assert all((a["tokens"], a["truncated"]) == (b["tokens"], b["truncated"]) for a, b in same)
    base, tuned = theirs.values()
    assert sum(base[i]["response"] != tuned[i]["response"] for i in range(50)) > 40  # the adapter is really there
