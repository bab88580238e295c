"""The command line that all stages share."""

import subprocess
import sys

from tests.support import ROOT

STAGE = """
import torch
from stages.cli import run

def main(recipe):
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)

run("x", main)
assert not torch.distributed.is_initialized()
print("left")
"""


def test_a_finished_stage_leaves_its_process_group():
    command = [sys.executable, "-c", STAGE, "recipes/tiny-arithmetic.yaml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "left"
