"""Runs a stage as `python -m stages.x …` would, but in a process forked from one that has already imported the
libraries, which saves ten seconds per stage. A test of the imports themselves, or of environment variables that a
library reads when it is imported, starts Python instead. So does every test where torch has a GPU: bitsandbytes
initialises CUDA when it is imported, and no process forked after that can use it."""

import multiprocessing
import os
import runpy
import subprocess
import sys
from functools import cache
from pathlib import Path

LIBRARIES = [
    "trl.trainer.sft_trainer",
    "trl.trainer.grpo_trainer",
    "peft",
    "datasets",
    "pyarrow.parquet",
    "scipy.stats",
]
LIBRARIES += ["transformers.models.auto.modeling_auto", "transformers.trainer", "matplotlib.figure", "math_verify"]


@cache
def _context():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LIBRARIES)
    return context


def run(module: str, arguments: list[str], root: Path, environment: dict[str, str], folder: Path):
    """Run a module or a Python file, and return what `subprocess.run` would. `folder`: where to keep its output."""
    import torch

    command = [sys.executable, *([] if module.endswith(".py") else ["-m"]), module, *arguments]
    if torch.cuda.device_count():  # unlike is_available, it does not initialise CUDA here
        added = filter(None, [str(root), environment.get("PYTHONPATH")])
        environment = environment | {"PYTHONPATH": os.pathsep.join(added)}
        return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    out, err = folder / "stdout", folder / "stderr"
    process = _context().Process(target=_run, args=(module, arguments, str(root), environment, str(out), str(err)))
    process.start()
    process.join()
    return subprocess.CompletedProcess(command, process.exitcode, out.read_text(), err.read_text())


def _run(module: str, arguments: list[str], root: str, environment: dict[str, str], out: str, err: str):
    for number, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(root)
    added = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [root, *added, *sys.path]
    sys.argv = ["-m", *arguments]
    if module.endswith(".py"):
        runpy.run_path(module, run_name="__main__")
    else:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
