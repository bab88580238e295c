"""How the tests start a stage: from a process that has imported the libraries, but where torch has
a GPU, anew."""

import sys

import pytest
import torch

from tests.support import run_program
from tests.waits import capture

IMPORTS = """
import importlib, sys, torch
from tests.stage_process import LIBRARIES
torch.cuda.is_available, torch.cuda.device_count = lambda: True, lambda: 1
torch.cuda._lazy_init = lambda: sys.exit("CUDA is initialised")
for each in LIBRARIES:
    importlib.import_module(each)
"""


@pytest.mark.slow
def test_with_a_gpu_the_libraries_initialise_cuda():
    """Why none is forked there. Should they no longer do it, the exception for GPUs can go."""
    done = capture([sys.executable, "-c", IMPORTS])
    assert done.stderr.splitlines()[-1] == "CUDA is initialised", done.stderr


@pytest.mark.parametrize("name", ["program", "program.py"])
def test_with_a_gpu_a_stage_has_a_python_of_its_own(name, tmp_path, monkeypatch):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, tests.support\nprint('trl' in sys.modules, sys.argv[1:])\nsys.exit(3)"
    )
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    module = str(program) if name.endswith(".py") else name
    done = run_program(module, "a", "b", check=False, PYTHONPATH=str(tmp_path))
    assert (done.stdout, done.stderr, done.returncode) == ("False ['a', 'b']\n", "", 3)
