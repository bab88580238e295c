"""What make itself decides."""

import os
import subprocess

import pytest
from conftest import ROOT


@pytest.mark.parametrize(
    ("given", "options", "seen"),
    [
        (None, [], "0"),  # one GPU without a launcher
        ("3", [], "3"),
        (None, ["ACCELERATE=ddp"], "unset"),  # all of them; an empty variable would hide them
        ("1,2", ["ACCELERATE=ddp"], "1,2"),
    ],
)
def test_which_gpus_a_stage_sees(given, options, seen):
    environment = {key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"}
    environment |= {"CUDA_VISIBLE_DEVICES": given} if given else {}
    show = "--eval=show: ; @echo $${CUDA_VISIBLE_DEVICES-unset}"
    done = subprocess.run(
        ["make", "-s", show, "show", *options], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == seen, done.stderr
