"""What a machine can do is told, and what it cannot is not used in silence."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from ruamel.yaml import YAML

from console.faults import RecipeError
from machine import hardware
from machine.launch import device_line, on_this_machine, to_machine
from runs import identity
from runs.state import RunState
from runs.writing import versions_of
from schema.recipe import load_recipe
from schema.settings import training_config
from tests.support import FEW_PROBLEMS, ROOT, read_lines, run_stage
from tests.tables import cases
from training import memory

# oneDNN itself then computes as on a CPU without bfloat16
WITHOUT_BFLOAT16 = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}
CHOICES = ("CUDA_VISIBLE_DEVICES", "ACCELERATE_USE_CPU", "ONEDNN_MAX_CPU_ISA")


@pytest.fixture
def machine(monkeypatch):
    """Makes a machine of so many GPUs, whose driver has a CUDA, and which torch, built for a CUDA,
    can use or not; with a CPU of these capabilities."""

    def make(gpus=0, cuda=12080, built_for="13.0", usable=False, capabilities=None, **environment):
        hardware.has_arithmetic.cache_clear()
        monkeypatch.setattr(hardware, "nvidia_gpus", lambda: list(range(gpus)))
        monkeypatch.setattr(hardware, "driver", lambda: "570.86.15")
        monkeypatch.setattr(hardware, "cuda_of_driver", lambda: cuda)
        monkeypatch.setattr(torch.version, "cuda", built_for)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: usable)
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities or {})
        seconds = {"float32": 2.0, "bfloat16": 1.0, "float16": 1.0}
        monkeypatch.setattr(hardware, "seconds_of_product", seconds.get)
        for name in CHOICES:
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    yield make
    hardware.has_arithmetic.cache_clear()


def recipe(*overrides: str):
    return load_recipe("recipes/smollm2-arithmetic.yaml", overrides)


def test_a_gpu_that_torch_cannot_use_stops_the_run(machine):
    machine(gpus=1)
    message = r"needs driver 580 or newer, and this one is 570.86.15.*cuda-compat-13-0"
    with pytest.raises(RecipeError, match=message):
        to_machine(recipe())
    machine(gpus=1, cuda=13000, CUDA_VISIBLE_DEVICES="7")
    with pytest.raises(RecipeError, match="CUDA_VISIBLE_DEVICES is 7"):
        hardware.refuse_unusable_gpu()
    machine(gpus=1, cuda=13000, built_for=None)
    with pytest.raises(RecipeError, match="is a build for CPUs"):
        hardware.refuse_unusable_gpu()


@pytest.mark.parametrize("cuda", [12080, 13000, 13040, 0])
def test_an_old_driver_is_told_before_anything_is_downloaded(cuda, machine):
    """The driver's own version is the same 570 for all: with cuda-compat it is new enough."""
    machine(gpus=1, cuda=cuda)
    assert bool(hardware.old_driver()) == (cuda == 12080)
    machine(gpus=1, cuda=cuda, CUDA_VISIBLE_DEVICES="-1")
    assert hardware.old_driver() is None


def test_the_cuda_of_the_driver_is_its_library_s(monkeypatch):
    def version(pointer):
        pointer._obj.value = 12080

    load, library = hardware.ctypes.CDLL, SimpleNamespace(cuDriverGetVersion=version)
    monkeypatch.setattr(hardware.ctypes, "CDLL", lambda name: library)
    assert hardware.cuda_of_driver() == 12080
    monkeypatch.setattr(hardware.ctypes, "CDLL", lambda name: load("not-there.so"))
    assert hardware.cuda_of_driver() == 0


def test_the_driver_is_for_the_cuda_that_is_locked():
    assert f"\ncuda-toolkit=={hardware.CUDA}.0." in (ROOT / "requirements.lock").read_text()


CPU_CHOSEN = [("CUDA_VISIBLE_DEVICES", "-1"), ("CUDA_VISIBLE_DEVICES", "")]


@pytest.mark.parametrize("choice", [*CPU_CHOSEN, ("ACCELERATE_USE_CPU", "true")])
def test_who_asks_for_the_cpu_gets_it(choice, machine):
    machine(gpus=1, **dict([choice]))
    hardware.refuse_unusable_gpu()


@cases(__file__, "a_gpu_is_named")
def test_a_gpu_is_named(text, gib):
    """As torch reports it: an L4 has 22 GiB, and is sold with 24."""
    assert hardware.gpu_named(text).gib == gib


@cases(__file__, "a_gpu_without_kernels_is_refused")
def test_a_gpu_without_kernels_is_refused(capability, message, machine, monkeypatch):
    """Before anything is downloaded, by NVIDIA's program; and at a stage's start, by torch."""
    machine(gpus=1, usable=True)
    lines = [f"{capability}, A GPU", "[N/A], Another"]
    monkeypatch.setattr(hardware, "nvidia_smi", lambda *fields: lines)
    major, minor = map(int, capability.split("."))
    gpu = SimpleNamespace(name="A GPU", major=major, minor=minor)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda: gpu)
    if message is None:
        assert hardware.old_gpus() is None
        hardware.refuse_unusable_gpu()
        return
    assert message in hardware.old_gpus()
    with pytest.raises(RecipeError, match=message):
        hardware.refuse_unusable_gpu()


def test_the_driver_is_read(tmp_path, monkeypatch):
    text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n"
    (tmp_path / "version").write_text(f"{text}GCC version: 12.2\n")
    monkeypatch.setattr(hardware, "Path", lambda path: tmp_path / Path(path).name)
    assert hardware.driver() == "570.86.15"


@cases(__file__, "the_arithmetic_of_a_cpu")
def test_the_arithmetic_of_a_cpu(capabilities, dtype, has, machine):
    machine(capabilities=capabilities)
    assert hardware.has_arithmetic(dtype) is has


def test_a_dtype_that_the_cpu_is_slower_in_is_not_taken(machine, monkeypatch):
    machine(capabilities={"avx512_bf16": True})
    assert hardware.has_arithmetic("bfloat16")
    machine(capabilities={"avx512_bf16": True})
    monkeypatch.setattr(hardware, "seconds_of_product", {"float32": 1.0, "bfloat16": 1.5}.get)
    assert not hardware.has_arithmetic("bfloat16")
    assert to_machine(recipe()).model.dtype == "float32"


def test_the_probe_takes_no_threads_from_those_who_compute():
    threads = torch.get_num_threads()
    assert 0 < hardware.seconds_of_product("float32") < 1
    assert torch.get_num_threads() == threads


def test_a_t4_emulates_bfloat16_and_is_not_asked_to(machine, monkeypatch):
    """torch's `is_bf16_supported` counts emulation by default; should it stop to, this says so."""
    emulates = SimpleNamespace(major=7, minor=5, name="T4")
    machine(gpus=1, usable=True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device=0: emulates)
    monkeypatch.setattr(torch.cuda, "_check_bf16_tensor_supported", lambda device: True)
    assert torch.cuda.is_bf16_supported()
    assert not hardware.has_arithmetic("bfloat16")
    assert to_machine(recipe()).model.dtype == "float32"
    assert on_this_machine(recipe()).settings["grpo"]["bf16"] is False


def test_float16_scales_its_loss_and_bfloat16_is_then_off(monkeypatch):
    monkeypatch.setattr(hardware, "has_gpu", lambda: True)
    monkeypatch.setattr(hardware, "has_arithmetic", lambda dtype: True)
    half, whole = (
        on_this_machine(recipe(f"model.dtype={each}")).settings["grpo"]
        for each in ("float16", "float32")
    )
    assert half["fp16"] and not half["bf16"] and whole["bf16"] and not whole["fp16"]
    for sharded in ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"):
        monkeypatch.setenv(sharded, "true")
        with pytest.raises(RecipeError, match="float16 is not sharded here"):
            training_config(on_this_machine(recipe("model.dtype=float16")), "grpo")
        monkeypatch.delenv(sharded)


def test_no_context_is_opened_on_a_gpu_that_is_only_asked_for(monkeypatch):
    """A process of a launch asks before it has a GPU of its own, and would open one on the
    first."""
    called, gpu = [], SimpleNamespace(name="A GPU", total_memory=24 * 2**30, major=8, minor=6)
    answers = {"is_available": True, "device_count": 2, "current_device": 0}
    answers |= {"get_device_properties": gpu, "get_device_name": gpu.name}

    def stand_in(name: str):
        def answer(*_):
            return answers[name] if name in answers else called.append(name) or [0, 0]

        return answer

    for name, function in list(vars(torch.cuda).items()):
        if callable(function) and name != "is_bf16_supported":
            monkeypatch.setattr(torch.cuda, name, stand_in(name))
    monkeypatch.setenv("LOCAL_RANK", "1")
    line, here = device_line(to_machine(recipe()), "bfloat16"), memory.this_gpu()
    assert called == []
    assert line.startswith("A GPU, 24 GiB; bfloat16; ") and here == 24


def test_a_quantised_model_computes_in_the_same_dtype(machine):
    machine()
    fitted = to_machine(load_recipe("recipes/qwen-7b-qlora.yaml"))
    assert fitted.model.dtype == fitted.quantization["bnb_4bit_compute_dtype"] == "float32"


def test_without_the_arithmetic_a_run_is_float32_and_says_so(tmp_path):
    """And its folder, and the answers of its evaluation, know it."""
    arguments = ["recipes/tiny-arithmetic.yaml", f"output_dir={tmp_path}", "model.dtype=bfloat16"]
    arguments += ["sft.max_steps=2", "sft.per_device_train_batch_size=8", *FEW_PROBLEMS]
    out = run_stage("sft", *arguments, **WITHOUT_BFLOAT16).stdout
    assert out.startswith("sft: CPU (")
    assert "; float32 (this machine has no arithmetic for the recipe's" in out
    assert "dtype: float32" in (tmp_path / "sft/recipe.yaml").read_text()
    out = run_stage("evaluate", *arguments, "--validation", **WITHOUT_BFLOAT16).stdout
    assert "float32 (this machine has no arithmetic for the recipe's bfloat16)" in out
    head = read_lines(tmp_path / "eval/validation/sft.jsonl")[0]
    assert head["dtype"] == "float32"


def test_a_run_is_not_resumed_in_another_dtype(tmp_path, machine):
    machine(capabilities={"avx512_bf16": True})
    half, single = (
        recipe(f"output_dir={tmp_path}", *words) for words in ([], ["model.dtype=float32"])
    )
    (tmp_path / "sft/checkpoint-1").mkdir(parents=True)

    def conflict(wanted, stage):
        return identity.conflict(wanted, RunState.read(tmp_path / stage))

    def begun(by):
        keys = ("seed", "model", "adapter", "data", "prompt", "sft")
        YAML().dump({key: by.resolved()[key] for key in keys}, tmp_path / "sft/recipe.yaml")

    begun(single)
    assert "  model.dtype: float32 there, bfloat16 here" in conflict(half, "sft").message
    assert conflict(single, "sft") is None
    begun(half)
    assert conflict(half, "sft") is None
    machine()
    assert "  model.dtype: bfloat16 there, float32 here" in conflict(half, "sft").message


def test_the_first_line_names_what_runs(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    line = device_line(recipe("model.dtype=float32"), "float32")
    assert line.startswith("CPU (") and line.endswith("; float32; attention sdpa; 2 processes")


def test_a_cpu_is_told_by_its_name_here_and_in_a_runs_folder(machine, monkeypatch):
    machine()
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(hardware, "cpu_name", lambda: "A Chip")
    assert hardware.device() == "CPU (A Chip)"
    of_a_run = {"model": {"name_or_path": None}, "data": {"dir": None}, "seed": 1}
    versions = versions_of(of_a_run)
    assert versions["hardware"] == [hardware.device()] and versions["threads"] == 3


@cases(__file__, "processes_that_the_machines_cannot_have_are_refused")
def test_processes_that_the_machines_cannot_have_are_refused(
    gpus, visible, launched, message, machine
):
    machine(gpus=gpus, **({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}))
    fault = hardware.wrong_count(launched)
    assert fault is None if message is None else message in fault
