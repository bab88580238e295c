"""What a launcher says of a launch that is wrong, and of processes that end. Whole launches are in test_cli.py and
test_two_machines.py."""

import json
import signal
import time

import pytest

from schema import hardware
from stages import launch

FILE = ["--config_file", "accelerate_configs/cpu2.yaml"]
DDP = ["--config_file", "accelerate_configs/ddp.yaml"]
TWO = ["--num_machines", "2", "--num_processes", "2"]


def prepared(*words: str):
    from accelerate.commands.launch import launch_command_parser

    options = launch_command_parser().parse_args([*words, "-m", "stages.grpo", "recipes/tiny-arithmetic.yaml"])
    return options, launch._prepared(options)


def test_launches_of_one_machine_take_any_free_port():
    options, watch = prepared(*FILE)
    assert watch is None and options.main_process_port == 0
    assert prepared(*FILE, "--main_process_port", "29400")[0].main_process_port == 29400


def test_several_machines_are_watched(monkeypatch):
    monkeypatch.setattr(launch.Watch, "start", lambda self: None)
    options, watch = prepared(*FILE, *TWO, "--main_process_ip", "192.0.2.1", "--machine_rank", "1")
    assert (watch.where, watch.machine, watch.machines, watch.seconds) == (("192.0.2.1", 29500), 1, 2, 600)
    assert options.rdzv_conf == "timeout=600"
    options, watch = prepared(*FILE, *TWO, "--main_process_ip", "192.0.2.1", "--rdzv_conf", "timeout=5,read_timeout=9")
    assert watch.seconds == 5 and watch.machine == 0 and options.rdzv_conf == "timeout=5,read_timeout=9"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*FILE, *TWO[:3], "3"], "PROCESSES=3: 2 machines cannot share so many"),
        ([*FILE, *TWO], "no --main_process_ip"),
        (DDP, "this machine has 2: PROCESSES=2"),
        (["--config_file", "accelerate_configs/nofile.yaml"], "nofile.yaml` does not exist"),
    ],
)
def test_a_launch_that_cannot_be_is_refused(words, said, monkeypatch):
    monkeypatch.setattr(hardware, "nvidia_gpus", lambda: list(range(2)))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with pytest.raises((ValueError, OSError), match=said):
        prepared(*words)


def failed(folder, *ended: tuple[int, int, str]) -> tuple[int, str]:
    """Of processes by rank, exit code and what they left to the launcher."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

    failures = {}
    for rank, code, text in ended:
        file = folder / f"{rank}.json"
        if text:
            file.write_text(json.dumps({"message": text, "timestamp": int(time.time())}))
        failures[rank] = ProcessFailure(local_rank=rank, pid=1, exitcode=code, error_file=str(file))
    return launch._failed(ChildFailedError("grpo", failures))


def test_the_first_process_has_said_what_all_would_say(tmp_path, capsys):
    assert failed(tmp_path, (1, 2, "no such recipe"), (0, 2, "no such recipe")) == (2, "no such recipe")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("other", [(), ((0, -signal.SIGTERM, ""),), ((0, 75, ""),)])
def test_what_the_first_process_has_not_said_the_launcher_says(other, tmp_path, capsys):
    assert failed(tmp_path, (1, 3, "rewards.mine: 8 of 8 rows"), *other) == (3, "rewards.mine: 8 of 8 rows")
    assert capsys.readouterr().err == "rewards.mine: 8 of 8 rows\n"


def test_a_process_that_the_system_killed_could_say_nothing(tmp_path, capsys):
    said = "process 1 was ended by SIGKILL, as the system does when memory runs out; the same command resumes"
    assert failed(tmp_path, (1, -9, ""), (0, -15, "")) == (137, said)
    assert capsys.readouterr().err == f"launch: {said}\n"
    assert failed(tmp_path, (0, 1, "")) == (1, "")  # its trace is there
