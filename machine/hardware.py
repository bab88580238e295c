"""What this machine can do: the device that a stage runs on, and the dtypes that it has arithmetic
for; and the memory of GPUs that are elsewhere.

`make setup` runs it by itself, before it downloads gigabytes, to hear why they would not run here:
at the top it imports no package.
"""

import contextlib
import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

from console.faults import RecipeError

# What each dtype needs of a CPU, by torch's names (torch.cpu.get_capabilities): any of these.
INSTRUCTIONS = {
    "bfloat16": ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16"),
    "float16": ("avx512_fp16", "amx_fp16", "fp16_arith"),
}
CUDA = 13  # what torch is built for (cuda-toolkit in requirements.lock)
DRIVER = 580  # the first driver that has it
# transformers' choice where a model supports it; load_model says so where it does not
ATTENTION = "sdpa"
# Levels of ONEDNN_MAX_CPU_ISA at which oneDNN does without them: a user, or a test, has switched
# the arithmetic off.
WITHOUT = ("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI")
SMALL = 10_000_000  # parameters of a model that one thread computes as fast as several

# The compute capability from which the locked torch has kernels; a V100 has 7.0.
OLDEST = 7.5


class GPU(NamedTuple):
    """`gib`: memory as torch reports it, less than a GPU is sold with. `speed`: an estimate of the
    thousands of tokens a second, times billions of weights, that GRPO samples and trains on."""

    gib: float
    speed: float | None = None


GPUS = {"T4": GPU(14.6, 1.4), "L4": GPU(22, 2.2), "A10G": GPU(22, 2.2)}
GPUS |= {"RTX3090": GPU(23.5), "RTX4090": GPU(23.5, 5.4), "RTX5090": GPU(31.3)}
GPUS |= {"L40S": GPU(44.4), "A6000": GPU(47.4), "A100": GPU(79, 9.2), "H100": GPU(79, 18)}
GPUS |= {"H200": GPU(139.7), "B200": GPU(178)}


def has_gpu() -> bool:
    """Whether torch computes on a GPU. Apple's has never been tried and is not used."""
    import torch

    return torch.cuda.is_available()


@cache
def has_arithmetic(dtype: str) -> bool:
    """Whether the device computes in that dtype natively, and a CPU faster than in float32: some
    Xeons with AVX512-BF16 take up to twice as long. Otherwise it is emulated, several times slower
    than float32, which torch's own `is_bf16_supported` counts as support."""
    if dtype == "float32":
        return True
    import torch

    if has_gpu():
        return dtype == "float16" or torch.cuda.is_bf16_supported(including_emulation=False)
    if os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper() in WITHOUT:
        return False
    capabilities = torch.cpu.get_capabilities()
    if not any(capabilities.get(name) for name in INSTRUCTIONS[dtype]):
        return False
    return seconds_of_product(dtype) < seconds_of_product("float32")


def seconds_of_product(dtype: str) -> float:
    """How long one thread takes for a product of matrices: the shortest of 20 times, each too short
    to be interrupted by other work."""
    import torch

    rows = torch.ones(128, 1024, dtype=getattr(torch, dtype))
    square = torch.ones(1024, 1024, dtype=getattr(torch, dtype))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times = []
    for _ in range(20):
        began = time.perf_counter()
        rows @ square
        times.append(time.perf_counter() - began)
    torch.set_num_threads(threads)
    return min(times)


def device() -> str:
    """The GPU with its memory, or the CPU."""
    import torch

    if torch.cuda.is_available():
        # Not mem_get_info, which opens a context of half a GiB: each process of a launch would, on
        # the first GPU.
        gpu = torch.cuda.get_device_properties()
        return f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB"
    return f"CPU ({cpu_name()})"


def choose_threads(parameters: int):
    """Let torch compute a small model with one thread, whatever the machine has.

    After each product threads wait for one another: two take twice to ten times as long as one
    where the machine has other work (docs/results.md), and gain nothing with products this small.
    On some processors sums depend on the number of threads in their last digits, so that a number
    which is the same everywhere also makes runs repeat. Larger models keep torch's number, one for
    each core.

    Args:
        parameters: how many the model has.
    """
    import torch

    if parameters < SMALL and not has_gpu() and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def keep_threads(threads_before: object) -> str:
    """Compute with the number of threads a run began with, or return a line that says why not.

    Args:
        threads_before: that number, as the run's folder has it; anything else where it has none.
    """
    import torch

    threads = torch.get_num_threads()
    has_number = type(threads_before) is int and threads_before >= 1
    if has_gpu() or not has_number or threads_before == threads:
        return ""
    if "OMP_NUM_THREADS" in os.environ:
        return (
            f"began with {threads_before} threads, goes on with {threads}, as OMP_NUM_THREADS says"
        )
    torch.set_num_threads(threads_before)
    return ""


def cpu_name() -> str:
    name = re.search(r"^model name\s*:\s*(.+)$", _text(Path("/proc/cpuinfo")), re.M)
    if name:
        return name[1]
    return platform.processor() or platform.machine()


def _text(file: Path) -> str:
    """What the system says in a file; empty where it has none."""
    if not file.is_file():
        return ""
    return file.read_text()


def refuse_unusable_gpu():
    """Stop where there is a GPU and torch has no kernels for it, or would silently run on the CPU
    for days: the driver is too old, or this build of torch is for CPUs.

    Raises:
        RecipeError: names the GPU or the driver, and the ways out.
    """
    if not gpus_to_use():
        return
    import torch

    if has_gpu():
        gpu = torch.cuda.get_device_properties()
        old = too_old(gpu.major + gpu.minor / 10, gpu.name)
        if old:
            raise RecipeError([old])
        return
    if torch.version.cuda is None:
        build = f"torch {torch.__version__} is a build for CPUs"
        raise RecipeError([_unusable(f"{build}: remove .venv, and make setup without TORCH=cpu")])
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
    why = (
        f"the NVIDIA driver is {driver()}, and CUDA_VISIBLE_DEVICES is {visible}: see what"
        " nvidia-smi says"
    )
    raise RecipeError([old_driver() or _unusable(why)])


def too_old(capability: float, name: str) -> str | None:
    """What is wrong with a GPU of this compute capability, or None."""
    if capability >= OLDEST:
        return None
    why = f"{name} has compute capability {capability}, and torch's kernels begin at {OLDEST}"
    return _unusable(f"{why} (T4, RTX 20): take a newer GPU")


def old_gpus() -> str | None:
    """What is wrong with the newest GPU, before torch is there to ask, or None."""
    gpus = []
    for line in nvidia_smi("compute_cap", "name"):
        number, _, name = line.partition(", ")
        if number[:1].isdigit():
            gpus.append((float(number), name))
    if not gpus:
        return None
    return too_old(*max(gpus))


def nvidia_smi(*fields: str) -> list[str]:
    """What NVIDIA's program says of each GPU that may be used, without opening a context there."""
    program = shutil.which("nvidia-smi")
    if program is None or not gpus_to_use():
        return []
    command = [program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible:
        command.append(f"--id={visible}")
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        return []
    return answer.stdout.splitlines()


def old_driver() -> str | None:
    """What is wrong with the driver of a GPU, or None."""
    if not gpus_to_use() or not 0 < cuda_of_driver() < 1000 * CUDA:
        return None
    compat = (
        f"install NVIDIA's package cuda-compat-{CUDA}-0, and set"
        f" LD_LIBRARY_PATH=/usr/local/cuda-{CUDA}.0/compat"
    )
    return _unusable(
        f"CUDA {CUDA} needs driver {DRIVER} or newer, and this one is {driver()}. Update it; or, on"
        f" a data-centre GPU (H100, A100, L4, T4; not a GeForce), {compat}"
    )


def _unusable(why: str) -> str:
    return (
        f"there is an NVIDIA GPU, but torch cannot use it: {why}; or CUDA_VISIBLE_DEVICES=-1 for"
        " the CPU"
    )


def no_compiler() -> str | None:
    """What Triton lacks for a GPU, or None. Before its first kernel it compiles a launcher, with
    the compiler and the header that triton/runtime/build.py takes."""
    chosen = os.environ.get("CC")
    lacking = []
    if chosen is None and not (shutil.which("gcc") or shutil.which("clang")):
        lacking.append("a C compiler")
    if chosen is not None and not shutil.which(chosen):
        lacking.append(f"a C compiler (CC names {chosen or 'nothing'}, which is none: unset CC)")
    header = Path(sysconfig.get_path("include", "posix_prefix"), "Python.h")
    if not header.is_file():
        lacking.append(str(header))
    if not lacking or not gpus_to_use():
        return None
    python = f"python3.{sys.version_info.minor}"
    return (
        f"Triton needs {' and '.join(lacking)} on a GPU: apt install build-essential {python}-dev,"
        f" or dnf install gcc {python}-devel; or CUDA_VISIBLE_DEVICES=-1 for the CPU"
    )


def gpus_to_use() -> list[Path]:
    """NVIDIA's; none where somebody asked for the CPU."""
    on_purpose = os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes")
    on_purpose |= os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    if on_purpose:
        return []
    return nvidia_gpus()


def nvidia_gpus() -> list[Path]:
    return sorted(Path("/dev").glob("nvidia[0-9]*"))


def wrong_count(launched: dict) -> str | None:
    """What is wrong with the number of processes of a launch, or None: the launcher is for one, the
    machines cannot share them, or have fewer GPUs. On a CPU there may be as many as somebody asks
    for, having asked for the CPU too.

    Args:
        launched: what `machine.launch.launch` returned.
    """
    processes = launched["num_processes"]
    machines = launched.get("num_machines", 1)
    if processes > 1 and launched.get("distributed_type") == "NO":
        # accelerate would start one, and say nothing
        return (
            f"PROCESSES={processes}: this launcher starts one, whatever the number; ACCELERATE=ddp"
            " starts more"
        )
    if processes % machines:
        return (
            f"PROCESSES={processes}: {machines} machines cannot share so many; count all machines'"
            " processes"
        )
    if launched.get("use_cpu") or processes == 1:
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = len(nvidia_gpus())
    subject = "this machine has"
    if visible in ("", "-1"):
        if launched.get("asked"):
            return None
        gpus = 0
        subject = f"CUDA_VISIBLE_DEVICES={visible} leaves"
    elif visible is not None and gpus:
        gpus = len(visible.split(","))
        subject = f"CUDA_VISIBLE_DEVICES={visible} leaves"
    processes_of_machine = processes // machines
    cannot_count = Path("/dev/dxg").exists() and not gpus  # in WSL, GPUs have no devices
    if gpus >= processes_of_machine or cannot_count:
        return None
    remedy = "leave ACCELERATE out, or take ACCELERATE=cpu2 to try two"
    if gpus:
        remedy = f"PROCESSES={gpus * machines}"
    return (
        f"{processes_of_machine} processes want a GPU each, and {subject} {gpus or 'none'}:"
        f" {remedy}"
    )


def cuda_of_driver() -> int:
    """The newest CUDA that the driver offers, 12080 for 12.8, or 0 where there is no telling. The
    driver's own version says less: cuda-compat offers a newer one."""
    version = ctypes.c_int()
    with contextlib.suppress(OSError):
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    return version.value


def driver() -> str:
    """Version of the NVIDIA kernel driver."""
    text = _text(Path("/proc/driver/nvidia/version"))
    version = re.search(r"Kernel Module\b.*?\s(\d+\.[\d.]+)", text)
    if version is None:
        return "of unknown version"
    return version[1]


def gpu_named(text: str) -> GPU:
    """A GPU, from its name or from a number of GiB.

    Raises:
        RecipeError: the text is neither.
    """
    name = re.sub(r"[ _-]", "", text.upper())
    for candidate in (name, f"RTX{name}", name.removeprefix("RTX")):
        if candidate in GPUS:
            return GPUS[candidate]
    with contextlib.suppress(ValueError):
        if 0 < float(text) < 1000:  # GPU=4080 is meant as a name
            return GPU(float(text))
    message = f"GPU={text}: give a GPU's memory in GiB, such as GPU=24, or one of these by name"
    raise RecipeError([f"{message}: {', '.join(GPUS)}"])


if __name__ == "__main__":
    sys.exit("\n".join(filter(None, [old_gpus(), old_driver()])) or 0)
