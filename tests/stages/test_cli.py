"""The command line that all stages share."""

import os
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


@pytest.mark.train
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


PROCESS = """
import os, time
from schema.faults import RecipeError, RunStopped
from stages.cli import mistakes_reported
from training.interrupts import Interrupts

first = os.environ["RANK"] == "0"
with mistakes_reported():
"""
GLOO = "[/x/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:65183. This is typically caused by"


@pytest.mark.train
@pytest.mark.parametrize(
    ("each_process", "code", "said"),
    [
        ("raise RecipeError(['wrong'])", 2, "wrong"),
        ("raise RunStopped('stopped', 4)", 4, "stopped"),
        ("time.sleep(60) if first else None; raise RecipeError(['wrong'])", 2, "wrong"),
        ("time.sleep(60) if first else None; raise RunStopped('stopped', 3)", 3, "stopped"),
        # One that has lost another leaves it to that one's launcher.
        (
            f"first or os.kill(os.getpid(), 9); time.sleep(1); raise RuntimeError({GLOO!r})",
            137,
            "launch: process 1 was",
        ),
        # One that could go on is not asked to save: it would wait for the other.
        ("Interrupts().training = True; time.sleep(60) if first else time.sleep(2); os._exit(5)", 5, ""),
    ],
)
def test_what_is_wrong_is_said_once(each_process, code, said, tmp_path):
    (tmp_path / "program.py").write_text(f"{PROCESS}    {each_process}\n")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    began = time.monotonic()
    done = subprocess.run([*LAUNCH, tmp_path / "program.py"], cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == code
    assert [each[: len(said)] for each in done.stderr.strip().splitlines()] == ([said] if said else [])
    assert time.monotonic() - began < 45


@pytest.mark.train
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


@pytest.mark.train
def test_a_port_in_use_is_one_message():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = ["--num_machines", "2", "--machine_rank", "0", "--main_process_ip", "127.0.0.1"]
        options += ["--main_process_port", str(taken.getsockname()[1])]
        done = subprocess.run([*LAUNCH, *options, "-m", "stages.grpo"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("launch: Tried to launch distributed communication on port")
    assert "Traceback" not in done.stderr
