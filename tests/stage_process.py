"""Runs a stage as `python -m stages x …` would, but in a process forked from one that has already
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
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import psutil

from tests import place, waits

# evaluation, training and viewer import the rest.
LIBRARIES = shlex.split("""
    tests.place trl.trainer.sft_trainer trl.trainer.grpo_trainer peft datasets pyarrow.parquet
    scipy.stats transformers.models.auto.modeling_auto transformers.trainer matplotlib.figure
    math_verify evaluation.audit evaluation.sample training.memory viewer.page
    transformers.models.qwen3.modeling_qwen3 torch.distributed.checkpoint evaluation.check
    evaluation.run_pages training.trainer viewer.callback tests.preloaded
""")
# In the environment of a stage that draws the picture of its run, which takes a second: others
# write an empty file.
DRAWS = {"TESTS_DRAW": "1"}


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


class Started:
    """A module or a Python file that a test has started, in one process or several.

    Args:
        processes: more than one have the environment that torchrun and `accelerate launch --cpu`
            give them.
        before: the words of a command that starts the module instead, such as those of a launcher.
        environment: what is added to that of the tests.
    """

    def __init__(
        self,
        module: str,
        *arguments: object,
        processes: int = 1,
        before: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        cwd: Path | None = None,
    ):
        self.command = [module, *map(str, arguments)]
        self.cwd = cwd or Path.cwd()
        # The session's place, which is removed at its end (tests/place.py).
        self.folder = Path(tempfile.mkdtemp(dir=os.environ.get("PLACE")))
        self.processes = []
        environment = os.environ | (environment or {})
        if before:
            self._start_python(before, environment, self.folder)
            return
        common = {"WORLD_SIZE": processes, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
        common |= {"LOCAL_WORLD_SIZE": processes, "ACCELERATE_USE_CPU": "true"}
        for rank in range(processes):
            folder = self.folder / str(rank)
            folder.mkdir()
            if processes > 1:
                of_rank = common | {"OMP_NUM_THREADS": 1, "RANK": rank, "LOCAL_RANK": rank}
                environment |= {name: str(value) for name, value in of_rank.items()}
            self._start(dict(environment), folder)

    def _start_python(self, python: Sequence[str], environment: dict[str, str], folder: Path):
        module, *words = self.command
        module_words = [module] if module.endswith(".py") else ["-m", module]
        with (folder / "stdout").open("w") as out, (folder / "stderr").open("w") as err:
            pipes = {"stdout": out, "stderr": err, "env": environment, "cwd": self.cwd}
            started = waits.start_command([*python, *module_words, *words], **pipes)
        self.processes.append(started)

    def _start(self, environment: dict[str, str], folder: Path):
        import torch

        if torch.cuda.device_count():  # unlike is_available, it does not initialise CUDA here
            added = filter(None, [str(self.cwd), environment.get("PYTHONPATH")])
            environment["PYTHONPATH"] = os.pathsep.join(added)
            self._start_python([sys.executable], environment, folder)
            return
        module, *words = self.command
        files = [str(folder / "stdout"), str(folder / "stderr")]
        arguments = (module, words, str(self.cwd), environment, *files)
        process = _context().Process(target=_run, args=arguments)
        process.start()
        waits.end_later(process)
        self.processes.append(process)

    def until(self, condition: Callable[[], bool], seconds: float = waits.PATIENCE) -> "Started":
        """Wait for what this brings about; where it ends without, the failure says what it
        printed."""
        try:
            waits.until(condition, seconds, running=self.processes)
        except AssertionError as failure:
            failure.add_note(self.printed()[-6000:])
            raise
        return self

    def send(self, number: int):
        for process in self.processes:
            os.kill(process.pid, number)

    def kill(self):
        """End all its processes by SIGKILL."""
        self.send(signal.SIGKILL)
        waits.until(lambda: not any(map(waits.alive, self.processes)), 60)

    def rank(self, number: int) -> psutil.Process:
        """The process of this rank below a launcher, not a worker of the verifier."""
        for process in psutil.Process(self.processes[0].pid).children(recursive=True):
            if "stages" in process.cmdline() and process.environ().get("RANK") == str(number):
                return process
        raise AssertionError(f"no process has rank {number}")

    def printed(self, stream: str = "std*") -> str:
        files = sorted(self.folder.rglob(stream))
        return "".join(file.read_text(errors="backslashreplace") for file in files)

    def ended(self, seconds: float = waits.PATIENCE) -> subprocess.CompletedProcess:
        """Wait for its end, and return what `subprocess.run` would: all that its processes printed,
        and the first code that is not 0."""
        try:
            waits.until(lambda: not any(map(waits.alive, self.processes)), seconds)
        except AssertionError as failure:
            failure.add_note(self.printed()[-6000:])
            raise
        codes = [code(process) for process in self.processes if code(process)]
        texts = self.printed("stdout"), self.printed("stderr")
        return subprocess.CompletedProcess(self.command, codes[0] if codes else 0, *texts)


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
    if "torch" in sys.modules:
        # The first use after a fork makes torch's pool of threads anew. Two threads that do so at
        # once, as those that load weights would, met "Invalid thread pool!" in 34 of 300 forks.
        torch = sys.modules["torch"]
        torch.set_num_threads(torch.get_num_threads())
    os.environ.clear()
    os.environ.update(environment)
    if "schema" in sys.modules:
        # which sets what libraries read of this environment
        importlib.reload(sys.modules["schema"])
    if "ONEDNN_MAX_CPU_ISA" in environment and "machine.hardware" in sys.modules:
        sys.modules["machine.hardware"].has_arithmetic.cache_clear()  # another CPU's
    if not DRAWS.items() <= environment.items() and "matplotlib.figure" in sys.modules:
        sys.modules["matplotlib.figure"].Figure.savefig = _leave_undrawn
    os.chdir(root)
    if "data.imports" in sys.modules:
        place.set_working_tree(Path(root))
    added = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [root, *added, *sys.path]
    sys.argv = ["-m", *arguments]
    if module.endswith(".py"):
        runpy.run_path(module, run_name="__main__")
    else:
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def _leave_undrawn(_, file: Path, **options):
    file.touch()
