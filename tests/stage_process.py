"""Runs a stage as `python -m stages.x …` would, but in a process forked from one that has already
imported the libraries, and the rooms but for the stages, which saves ten seconds per stage. A test
of the imports themselves, or of environment variables that are read when a module is imported,
starts Python instead. So does every test where torch has a GPU: bitsandbytes initialises CUDA when
it is imported, and no process forked after that can use it.
"""

import gc
import importlib
import multiprocessing
import os
import random
import runpy
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests import place, waits

LIBRARIES = [
    "tests.place",
    "trl.trainer.sft_trainer",
    "trl.trainer.grpo_trainer",
    "peft",
    "datasets",
    "pyarrow.parquet",
    "scipy.stats",
]
LIBRARIES += [
    "transformers.models.auto.modeling_auto",
    "transformers.trainer",
    "matplotlib.figure",
    "math_verify",
]
LIBRARIES += [
    "evaluation.audit",
    "evaluation.probe",
    "training.memory",
    "viewer.page",
]  # which import the rest


@cache
def _context():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LIBRARIES)
    return context


_reserved: list[socket.socket] = []


def free_port() -> int:
    """A port that stays free: it is below those that the system gives away, and this process holds
    UDP's of the same number until it ends, which keeps it from the tests of other processes."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 12_000):
        holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            holder.bind(("127.0.0.1", port))
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            holder.close()
            continue
        _reserved.append(holder)
        return port
    raise AssertionError("no port is free")


def start(
    module: str,
    arguments: list[str],
    root: Path,
    environment: dict[str, str],
    folder: Path,
    processes: int,
):
    """Start a module or a Python file in so many processes, more than one with the environment that
    torchrun and `accelerate launch --cpu` give them. Returns processes of multiprocessing or of
    subprocess. `folder`: where to keep what they say, each in a folder of its own."""
    common = {"WORLD_SIZE": processes, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    common |= {"LOCAL_WORLD_SIZE": processes, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": 1}
    started = []
    for rank in range(processes):
        (folder / str(rank)).mkdir()
        given = common | {"RANK": rank, "LOCAL_RANK": rank} if processes > 1 else {}
        given = environment | {key: str(value) for key, value in given.items()}
        process = _start(module, arguments, root, given, folder / str(rank))
        waits.end_later(process)
        started.append(process)
    return started


def _start(
    module: str, arguments: list[str], root: Path, environment: dict[str, str], folder: Path
):
    import torch

    out, err = folder / "stdout", folder / "stderr"
    if torch.cuda.device_count():  # unlike is_available, it does not initialise CUDA here
        command = [sys.executable, *([] if module.endswith(".py") else ["-m"]), module, *arguments]
        added = filter(None, [str(root), environment.get("PYTHONPATH")])
        environment = environment | {"PYTHONPATH": os.pathsep.join(added)}
        return subprocess.Popen(
            command, cwd=root, env=environment, stdout=out.open("w"), stderr=err.open("w")
        )
    process = _context().Process(
        target=_run, args=(module, arguments, str(root), environment, str(out), str(err))
    )
    process.start()
    return process


def run(
    module: str, arguments: list[str], root: Path, environment: dict[str, str], processes: int = 1
):
    """`start`, and return what `subprocess.run` would: all that they said, and the first code that
    is not 0."""
    with tempfile.TemporaryDirectory() as folder, waits.all_ended():
        started = start(module, arguments, root, environment, Path(folder), processes)
        try:
            waits.until(lambda: not any(map(waits.alive, started)))
        except AssertionError as failure:
            failure.add_note(
                "".join(file.read_text()[-3000:] for file in Path(folder).glob("*/std*"))
            )
            raise
        files = [sorted(Path(folder).glob(f"*/{name}")) for name in ("stdout", "stderr")]
        said = ["".join(map(Path.read_text, each)) for each in files]
    return subprocess.CompletedProcess(
        [module, *arguments], next(filter(None, map(code, started)), 0), *said
    )


def code(process) -> int:
    """The exit code of what `start` started, once it has ended."""
    return process.returncode if isinstance(process, subprocess.Popen) else process.exitcode


def _run(
    module: str, arguments: list[str], root: str, environment: dict[str, str], out: str, err: str
):
    # or each collection would go through all that the libraries made, and copy their pages
    gc.freeze()
    for number, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.environ.clear()
    os.environ.update(environment)
    if "schema" in sys.modules:
        # which sets what libraries read of this environment
        importlib.reload(sys.modules["schema"])
    os.chdir(root)
    if "data.imports" in sys.modules:
        place.trust_list_in(Path(root))
    added = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [root, *added, *sys.path]
    sys.argv = ["-m", *arguments]
    if module.endswith(".py"):
        runpy.run_path(module, run_name="__main__")
    else:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
