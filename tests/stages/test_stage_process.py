"""How the tests start a stage: from a process that has imported the libraries, but where torch has
a GPU, anew."""

import pytest
import torch

from tests.support import run_program


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
