"""vLLM as the evaluation's engine, for real: on a CPU by `make test-vllm`, in an environment of its
own, on a GPU by `make test-gpu`.
"""

import json
import os
import shlex
import sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2ForCausalLM

from tests.support import GPU_TABLE, WITH_VLLM, run_stage
from tests.waits import capture

pytestmark = WITH_VLLM
GPU = torch.cuda.is_available()
# of 50 answers that are the same; on a CPU float16 alone changed 4 of transformers' own
LEAST = 40 if GPU else 48
FOLDERS = os.environ["PATH"].split(os.pathsep)
FOLDERS = [folder for folder in FOLDERS if not (Path(folder) / "nvcc").is_file()]
WITHOUT_NVCC = {"PATH": os.pathsep.join(FOLDERS)}
RECIPE = shlex.split("""
    recipes/smollm2-arithmetic.yaml model.dtype=float32 data.worked=320 sft.max_steps=20
    evaluate.limit=50
""")
SMOLLM2 = "outputs/models/smollm2-135m-instruct"
DTYPE = "float16" if GPU else "float32"  # vLLM's kernels for adapters have no float32 on a GPU


def lines_of(folder: Path) -> dict[str, list[str]]:
    """The answers of each model, a line each."""
    lines = {}
    for file in sorted((folder / "eval/models/validation").glob("*.jsonl")):
        if "seconds" not in file.name:
            lines[file.stem] = file.read_text().splitlines()[1:]
    return lines


def answered(folder: Path, engine: str, *models) -> dict[str, dict[int, dict]]:
    words = [*RECIPE, f"output_dir={folder}", f"evaluate.engine={engine}", f"model.dtype={DTYPE}"]
    words += [f"--model={model}" for model in models]
    run_stage("evaluate", *words, "--validation", **WITHOUT_NVCC)
    answers = {}
    for label, lines in lines_of(folder).items():
        answers[label] = {line["id"]: line for line in map(json.loads, lines)}
    return answers


def test_both_engines_answer_alike(tmp_path):
    """The base model, and an adapter that vLLM serves beside it, in one process and without a
    compiler for kernels: in float32 the same greedy answers but for a near tie, and equal lengths
    and ends. (Both are given the same token ids: the engine itself refuses anything else.)"""
    run_stage("sft", *RECIPE, f"output_dir={tmp_path}")
    adapter = tmp_path / "sft"
    ours = answered(tmp_path / "transformers", "transformers", SMOLLM2, adapter)
    theirs = answered(tmp_path / "vllm", "vllm", SMOLLM2, adapter)
    assert ours.keys() == theirs.keys() and len(ours) == 2
    for label in ours:
        pairs = [(ours[label][i], theirs[label][i]) for i in range(50)]
        same = [(a, b) for a, b in pairs if a["completion"] == b["completion"]]
        print(f"{label}: {len(same)} of {len(pairs)} answers are the same")
        which = "adapter" if label.endswith("sft") else "base"
        title = f"vLLM and transformers in {DTYPE}, {which}: same answers"
        GPU_TABLE[title] = f"{len(same)} of {len(pairs)}"
        assert len(same) >= LEAST
        assert all((a["tokens"], a["truncated"]) == (b["tokens"], b["truncated"]) for a, b in same)
    base, tuned = theirs.values()
    # the adapter is really there
    assert sum(base[i]["completion"] != tuned[i]["completion"] for i in range(50)) > 40


COUNTING = """
import os
import vllm
from evaluation import engines
from stages import cli
LLM = vllm.LLM
def started(**options):
    print("an engine starts")
    return LLM(**options)
vllm.LLM = started
if "ALONE" in os.environ:
    engines.shared = lambda _, trained: trained
if __name__ == "__main__":
    cli.run("evaluate")
"""


def test_one_engine_serves_a_base_and_its_adapters(peaked_qwen2, tmp_path):
    """They answer as each does by an engine of its own."""
    for rank in (4, 16):
        base = Qwen2ForCausalLM.from_pretrained(peaked_qwen2)
        config = LoraConfig(r=rank, target_modules="all-linear", task_type="CAUSAL_LM")
        adapted = get_peft_model(base, config)
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, generator=torch.Generator().manual_seed(rank))
        adapted.save_pretrained(tmp_path / f"rank-{rank}")
    arguments = ["recipes/tiny-arithmetic.yaml", "model.build=null"]
    arguments += [f"model.name_or_path={peaked_qwen2}", "adapter={}"]
    arguments += [f"model.dtype={DTYPE}", "evaluate.engine=vllm"]
    arguments += ["evaluate.limit=20", "--validation"]
    for model in (peaked_qwen2, tmp_path / "rank-4", tmp_path / "rank-16"):
        arguments += ["--model", model]

    def answers(folder, **environment):
        command = [sys.executable, "-c", COUNTING, *map(str, arguments), f"output_dir={folder}"]
        environment |= os.environ | WITHOUT_NVCC | {"VLLM_CPU_KVCACHE_SPACE": "1"}
        done = capture(command, env=environment)
        assert done.returncode == 0, done.stderr[-3000:]
        answers = [line for lines in lines_of(folder).values() for line in lines]
        return done.stdout.count("an engine starts"), answers

    starts, together = answers(tmp_path / "together")
    starts_alone, alone = answers(tmp_path / "alone", ALONE="1")
    assert (starts, starts_alone) == (1, 3)
    assert len(together) == 60 == len(set(together))
    assert sum(a == b for a, b in zip(together, alone, strict=True)) >= (54 if GPU else 60)
