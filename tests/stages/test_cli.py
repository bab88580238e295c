"""The command line that all stages share."""

import signal
import socket
import subprocess
import sys
import time

import pytest

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


LAUNCH = [sys.executable, "-m", "stages.launch", "--config_file", "accelerate_configs/cpu2.yaml"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "program", "code"),
    [
        (2, "sys.exit(75)", 75),
        (2, "sys.exit(0)", 0),
        (2, "os.kill(os.getpid(), 9)", 137),
        (2, "os.environ['RANK'] == '1' and sys.exit(3); time.sleep(60)", 3),
        (1, "sys.exit(75)", 75),
    ],
)
def test_a_launch_ends_as_its_processes_did(processes, program, code, tmp_path):
    (tmp_path / "program.py").write_text(f"import os, sys, time\n{program}\n")
    config = "cpu2" if processes > 1 else "single"
    command = [*LAUNCH[:-1], f"accelerate_configs/{config}.yaml", tmp_path / "program.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_launch_that_was_told_to_stop_can_go_on(tmp_path):
    (tmp_path / "program.py").write_text(
        "import pathlib, time\npathlib.Path(__file__).with_name('there').touch()\ntime.sleep(60)\n"
    )
    process = subprocess.Popen([*LAUNCH, tmp_path / "program.py"], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "there").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 75
    assert "Traceback" not in said


@pytest.mark.slow
def test_a_port_in_use_is_one_message():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = ["--num_machines", "2", "--machine_rank", "0", "--main_process_ip", "127.0.0.1"]
        options += ["--main_process_port", str(taken.getsockname()[1])]
        done = subprocess.run([*LAUNCH, *options, "-m", "stages.grpo"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("launch: Tried to launch distributed communication on port")
    assert "Traceback" not in done.stderr
