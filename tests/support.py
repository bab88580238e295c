"""What tests share: where they are, the recipes they run, and one way to run a stage as a user does."""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import stage_process

ROOT = Path(__file__).parent.parent
# The recipes of this repository: a reader's own beside them are the reader's to judge. Without git, whatever is there.
_TRACKED = subprocess.run(
    ["git", "ls-files", "recipes/*.yaml"], cwd=ROOT, capture_output=True, text=True
).stdout.split()
SHIPPED = sorted(_TRACKED) or sorted(str(each.relative_to(ROOT)) for each in (ROOT / "recipes").glob("*.yaml"))
os.environ["TQDM_DISABLE"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"  # a test that would need the Hub must fail, not wait
WITH_VLLM = [
    pytest.mark.slow,
    pytest.mark.vllm,
    pytest.mark.gpu,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed: make setup EXTRAS=vllm"),
]
GPU_TABLE: dict[str, str] = {}  # what `make test-gpu` measures
COUNTED: Counter = Counter()  # what became of hostile values


@contextmanager
def far_below_quadratic():
    """Fails on more processor time than any linear reading takes: milliseconds for the 100,000 characters of these
    tests, where a quadratic one takes minutes. Wall time would measure the machine's other work."""
    started = time.process_time()
    yield
    assert time.process_time() - started < 5


def run_stage(stage: str, *arguments: object, launcher: tuple[str, ...] = (), check: bool = True, **environment: str):
    """`python -m stages.<stage> …` (or under `accelerate launch`) from the root of the repository."""
    words, environ = list(map(str, arguments)), os.environ | environment
    if launcher:
        command = [str(Path(sys.executable).with_name("accelerate")), *launcher, "-m", f"stages.{stage}", *words]
        done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    else:
        with tempfile.TemporaryDirectory() as folder:
            done = stage_process.run(f"stages.{stage}", words, ROOT, environ, Path(folder))
    if check and done.returncode:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
    return done


def run_program(program: Path, *arguments: object) -> subprocess.CompletedProcess:
    """A stage with something patched, from the root of the repository."""
    with tempfile.TemporaryDirectory() as folder:
        done = stage_process.run(str(program), list(map(str, arguments)), ROOT, dict(os.environ), Path(folder))
    if done.returncode:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
    return done
