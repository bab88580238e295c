"""What tests share: their paths, the recipes they run, ways to run a stage as a user does, a run's
weights, and a stand-in for the Hub."""

import http.server
import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from console.faults import Fault, RecipeError
from schema.recipe import Recipe, load_recipe
from schema.text import read_with_bases
from tests import place
from tests.stage_process import Started
from tests.waits import all_ended, run_command, start_command

ROOT = Path.cwd()  # the copy of the checkout that conftest.py made
ROOMS = sorted(each.parent.name for each in ROOT.glob("*/__init__.py"))  # those with Python


def tracked(pattern: str) -> list[str]:
    """The files of the repository, without those that a user keeps beside them: of a checkout
    without git, all of the rooms that match."""
    git = shutil.which("git")
    if git:
        command = [git, "ls-files", pattern]
        listed = run_command(command, cwd=place.SOURCE, capture_output=True, text=True)
        if listed.stdout:
            return sorted(listed.stdout.split())
    rooms = [*ROOMS, "recipes"]
    paths = [path for room in rooms for path in (ROOT / room).rglob(Path(pattern).name)]
    return sorted(str(path.relative_to(ROOT)) for path in paths)


SHIPPED = tracked("recipes/*.yaml")


def _learned(path: str) -> str:
    values = read_with_bases(ROOT / path).values
    return repr([values.get(key) for key in ("data", "rewards", "prompt")])


# Of these one for each combination of data, rewards and prompt, for a test to which the others are
# the same.
DISTINCT = sorted({_learned(path): path for path in reversed(SHIPPED)}.values())
ACCELERATE = str(Path(sys.executable).with_name("accelerate"))
# Port 0 is any: the port that accelerate takes by itself is one for all launches of a machine.
TWO_PROCESSES = [ACCELERATE, "launch", "--config_file", "accelerate_configs/cpu2.yaml"]
TWO_PROCESSES += ["--main_process_port", "0"]
WITH_VLLM = [
    pytest.mark.slow,
    pytest.mark.vllm,
    pytest.mark.gpu,
    pytest.mark.skipif(
        find_spec("vllm") is None, reason="vllm is not installed: make setup EXTRAS=vllm"
    ),
]
# trl's copies of the chat templates of models that no test can download.
TEMPLATES = Path(find_spec("trl").submodule_search_locations[0], "chat_templates")
GPU_TABLE: dict[str, str] = {}  # what `make test-gpu` measures
# The 8,000 problems of the default recipe take a second to read, and its 600 validation problems
# another to answer.
FEW_PROBLEMS = ["data.train=[arithmetic: {digits: 1}]", "data.validation=16"]
# The settings of the short run that tests share (conftest.py). It samples cooler than a run would,
# so that some groups have no two different rewards, on any CPU.
CHAIN = shlex.split("""
    sft.max_steps=100 grpo.max_steps=8 sft.per_device_train_batch_size=32 grpo.num_iterations=1
    grpo.logging_steps=1 grpo.save_steps=2 grpo.temperature=0.3
""")
CHAIN = FEW_PROBLEMS + CHAIN
LORA = "adapter={r: 8, lora_alpha: 16, target_modules: all-linear}"
NF4 = "quantization={load_in_4bit: true, bnb_4bit_quant_type: nf4}"
COUNTED: Counter = Counter()  # how many hostile values met which end


@contextmanager
def far_below_quadratic():
    """Fail if the block takes more processor time than linear parsing would: that takes
    milliseconds for the 100,000 characters of these tests, and quadratic parsing takes minutes.
    Wall time would also measure other programs.
    """
    started = time.process_time()
    yield
    assert time.process_time() - started < 5


def read_recipe(path: object, overrides=()) -> tuple[Recipe | None, list[Fault]]:
    """A recipe and no faults, or None and its faults."""
    try:
        return load_recipe(path, overrides), []
    except RecipeError as error:
        return None, error.faults


def run_program(
    program: Path | str,
    *arguments: object,
    processes: int = 1,
    before: Sequence[str] = (),
    check: bool = True,
    cwd: Path = ROOT,
    **environment: str,
) -> subprocess.CompletedProcess:
    """Run a program, or a module, from the root of the repository, and wait for its end."""
    options = {"processes": processes, "before": before, "environment": environment, "cwd": cwd}
    with all_ended():
        done = Started(str(program), *arguments, **options).ended()
    if check and done.returncode:
        printed = f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
        raise AssertionError(f"exit code {done.returncode}\n{printed}")
    return done


def run_stage(stage: str, *arguments: object, **options) -> subprocess.CompletedProcess:
    """Run `python -m stages <stage> …` as `run_program` does."""
    return run_program("stages", stage, *arguments, **options)


def refused(stage: str, *arguments: object) -> str:
    """What a stage says that ends with exit code 2 and without a trace."""
    done = run_stage(stage, *arguments, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


UNSHARE = ["unshare", "-Urpf", "--mount-proc"]


def as_process_1(words: list[str]) -> subprocess.Popen:
    """A program that is process 1 of its own, as in a container; `send` reaches it."""
    if run_command([*UNSHARE, "true"], capture_output=True).returncode:
        pytest.skip("unshare is not permitted here")
    return start_command([*UNSHARE, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def send(process: subprocess.Popen, number: int):
    """Send a signal to the process 1 that `as_process_1` started."""
    [below] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(below), number)


def write_program(path: Path, code: str):
    """Write an executable that runs this Python code with the tests' own Python. A `#!` line cannot
    name that, for its path may have a space."""
    source = path.with_name(f"{path.name}.py")
    source.write_text(code)
    command = shlex.join([sys.executable, str(source)])
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o755)


def kill_when(ready: Callable[[], bool], stage: str, *arguments: object, processes: int = 1):
    """Start a stage, and kill it, in all its processes, with SIGKILL once `ready` says so."""
    started = Started("stages", stage, *arguments, processes=processes, cwd=ROOT)
    started.until(ready).kill()


def has_lines(file: Path, lines: int) -> Callable[[], bool]:
    """For `kill_when`: whether it has so many."""
    return lambda: file.is_file() and len(file.read_text().splitlines()) >= lines


def read_lines(file: Path) -> list[dict]:
    """The objects of a .jsonl file."""
    return list(map(json.loads, file.read_text().splitlines()))


def write_lines(file: Path, rows: list[dict]):
    """A .jsonl file, an object a line."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def weights(folder: Path) -> dict[str, np.ndarray]:
    """A model's, or an adapter's, by name; empty where there are none."""
    file = next(folder.glob("*model.safetensors"), None)
    return load_file(file) if file else {}


def same_weights(folder: Path, other: Path) -> bool:
    """To the bit; of a NaN nothing is the same."""
    ours, theirs = weights(folder), weights(other)
    return (
        len(ours) > 0
        and ours.keys() == theirs.keys()
        and all(np.array_equal(ours[n], theirs[n]) for n in ours)
    )


def furthest(folder: Path, other: Path) -> float:
    """How far the weights are apart that are furthest."""
    ours, theirs = weights(folder), weights(other)
    assert ours.keys() == theirs.keys()
    return max(float(np.abs(ours[name] - theirs[name]).max()) for name in ours)


def completions(run: Path) -> pd.DataFrame:
    """All that a run has written of its completions."""
    files = sorted((run / "completions").glob("*.parquet"))
    return pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)


def trainer_of(recipe: Recipe, validates: bool = False, warm_start: Path | None = None):
    """The trainer of GRPO on the first 64 problems of a recipe; `validates`: with those that choose
    its checkpoint."""
    from machine.launch import on_this_machine
    from schema.settings import training_config
    from training.model import load_tokenizer
    from training.problem_sets import load_train, share_validation
    from training.trainer import grpo_trainer

    args = training_config(on_this_machine(recipe), "grpo")
    rows, validation = load_train(recipe)
    chosen = share_validation(recipe, validation)[0] if validates else []
    return grpo_trainer(recipe, args, load_tokenizer(recipe), rows[:64], chosen, warm_start)


def copied(chain: Path, folder: Path, *stages: str) -> Path:
    """A run's folder with these stages of another, as if they had been made there."""
    for stage in stages:
        shutil.copytree(chain / stage, folder / stage)
    return folder


@contextmanager
def serving(handler: type[http.server.BaseHTTPRequestHandler]):
    """A server on a free port of this machine, which prints nothing."""
    handler.log_message = lambda *_: None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@contextmanager
def hub(home: Path, status: int | None):
    """A Hub that answers with this status, or never: the environment that leads there, and what it
    was asked."""
    asked, over = [], threading.Event()

    class Hub(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            asked.append(self.path)
            if status is None:
                over.wait()
                return
            self.send_response(status)
            self.end_headers()

        do_GET = do_HEAD

    with serving(Hub) as server:
        there = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
        yield there | {"HF_HOME": str(home), "no_proxy": "127.0.0.1"}, asked
        over.set()
