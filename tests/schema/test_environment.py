"""Nothing leaves the machine by default, whichever room a stage, or a program of the reader's,
imports first."""

import os
import sys

import pytest

from tests.waits import capture

VARIABLES = ("HF_HUB_DISABLE_TELEMETRY", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK")
VARIABLES += ("VLLM_USE_FLASHINFER_SAMPLER",)  # compiled when it is first called


@pytest.mark.parametrize("room", ["schema", "training", "evaluation", "stages"])
def test_a_room_says_so_before_any_library_is_imported(room):
    program = (
        f"import sys, os, {room}; print(*(os.environ[each] for each in {VARIABLES}),"
        " 'huggingface_hub' in sys.modules)"
    )
    bare = {key: value for key, value in os.environ.items() if key not in VARIABLES}
    done = capture([sys.executable, "-c", program], env=bare, check=True)
    assert done.stdout == "1 1 1 0 False\n"
