"""What a launcher says of a launch that is incorrect, and of processes that end. Whole launches are
in test_cli.py and test_two_machines.py; here are those of two machines that train nothing."""

import json
import signal
import subprocess
import sys
import time

import pytest

from machine import hardware
from stages import launch
from tests.stage_process import free_port
from tests.support import ROOT
from tests.waits import start_command, until

FILE = ["--config_file", "accelerate_configs/cpu2.yaml"]
DDP = ["--config_file", "accelerate_configs/ddp.yaml"]
TWO = ["--num_machines", "2", "--num_processes", "2"]
FIRST = ["--main_process_ip", "192.0.2.1"]


def completed(*words: str):
    from accelerate.commands.launch import launch_command_parser

    stage = ["-m", "stages", "grpo", "recipes/tiny-arithmetic.yaml"]
    options = launch_command_parser().parse_args([*words, *stage])
    launch._complete(options)
    return options


def test_launches_of_one_machine_take_any_free_port():
    assert completed(*FILE).main_process_port == 0
    assert completed(*FILE, "--main_process_port", "29400").main_process_port == 29400


@pytest.mark.parametrize("file", ["zero2", "zero3"])
def test_deepspeed_meets_as_the_others_do(file, monkeypatch):
    """accelerate's default for several machines is DeepSpeed's launcher, which logs in on each of
    them over ssh."""
    from accelerate.commands import launch as of_accelerate
    from accelerate.utils.launch import prepare_deepspeed_cmd_env

    monkeypatch.setattr(hardware, "nvidia_gpus", list)
    config = ["--config_file", f"accelerate_configs/{file}.yaml"]
    options = completed(*config, *TWO, *FIRST, "--machine_rank", "1")
    options.deepspeed_fields_from_accelerate_config = ""
    command, _ = prepare_deepspeed_cmd_env(of_accelerate._validate_launch_command(options)[0])
    assert command is None and options.rdzv_endpoint == "192.0.2.1:29500" and options.node_rank == 1


SINGLE = ["--config_file", "accelerate_configs/single.yaml", *TWO, *FIRST]
NO_FILE = ["--config_file", "accelerate_configs/nofile.yaml"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*FILE, *TWO[:3], "3"], "PROCESSES=3: 2 machines cannot share so many"),
        (DDP, "this machine has 2: PROCESSES=2"),
        (SINGLE, "PROCESSES=2: this launcher starts one"),
        ([*FILE, "--cpu"], "PROCESSES=2: this launcher starts one"),
        (NO_FILE, "nofile.yaml` does not exist"),
    ],
)
def test_a_launch_that_cannot_be_is_refused(words, message, monkeypatch):
    monkeypatch.setattr(hardware, "nvidia_gpus", lambda: list(range(2)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with pytest.raises((ValueError, OSError), match=message):
        completed(*words)


def failed(folder, *ended: tuple[int, int, str]) -> int:
    """Of processes by rank, exit code and what they left to the launcher."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

    failures = {}
    for rank, code, text in ended:
        file = folder / f"{rank}.json"
        if text:
            file.write_text(json.dumps({"message": text, "timestamp": int(time.time())}))
        failures[rank] = ProcessFailure(local_rank=rank, pid=1, exitcode=code, error_file=str(file))
    return launch._report_failure(ChildFailedError("grpo", failures))


def test_the_first_process_has_said_what_all_would_say(tmp_path, capsys):
    assert failed(tmp_path, (1, 2, "no such recipe"), (0, 2, "no such recipe")) == 2
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("other", [(), ((0, -signal.SIGTERM, ""),), ((0, 75, ""),)])
def test_what_the_first_process_has_not_said_the_launcher_says(other, tmp_path, capsys):
    assert failed(tmp_path, (1, 3, "rewards.mine: 8 of 8 rows"), *other) == 3
    assert capsys.readouterr().err == "rewards.mine: 8 of 8 rows\n"


def test_a_process_that_the_system_killed_could_say_nothing(tmp_path, capsys):
    assert failed(tmp_path, (1, -9, ""), (0, -15, "")) == 137
    cause = "process 1 was ended by SIGKILL, as the system does when memory runs out"
    assert capsys.readouterr().err == f"launch: {cause}; the same command resumes\n"
    assert failed(tmp_path, (0, 1, "")) == 1  # its trace is there
    assert capsys.readouterr().err == ""


SAVES = """
import os, signal, time
machine = int(os.environ["GROUP_RANK"])
def save(number, frame):
    time.sleep(5)
    os._exit(75)
signal.signal(signal.SIGTERM, save)
open(f"{__file__}.ready{machine}", "w").close()
time.sleep(600)
"""


@pytest.mark.train
@pytest.mark.slow
def test_machines_that_are_stopped_may_save(tmp_path):
    """As by a batch system, which tells all of them. Two launchers on this machine pass for two
    machines."""
    program = tmp_path / "program.py"
    program.write_text(SAVES)
    address = ["--main_process_ip", "127.0.0.1", "--main_process_port", str(free_port())]
    command = [sys.executable, "-m", "stages", "launch", *FILE, *TWO, *address, "--machine_rank"]
    pipes = {"cwd": ROOT, "stderr": subprocess.PIPE, "text": True}
    started = [start_command([*command, rank, str(program)], **pipes) for rank in "01"]
    until(lambda: len(list(tmp_path.glob("*.ready?"))) == 2, running=started)
    for machine in started:
        machine.terminate()
    for machine in started:
        assert (machine.communicate(timeout=60)[1], machine.returncode) == ("", 75)
