"""What a launcher says of a launch that is wrong, and of processes that end. Whole launches are in test_cli.py and
test_two_machines.py; here are those of two machines that train nothing."""

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from schema import hardware
from stages import launch
from tests.support import ROOT

FILE = ["--config_file", "accelerate_configs/cpu2.yaml"]
DDP = ["--config_file", "accelerate_configs/ddp.yaml"]
TWO = ["--num_machines", "2", "--num_processes", "2"]
FIRST = ["--main_process_ip", "192.0.2.1"]


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
    options, watch = prepared(*FILE, *TWO, *FIRST, "--rdzv_conf", "timeout=5,read_timeout=9")
    assert watch.seconds == 5 and watch.machine == 0 and options.rdzv_conf == "timeout=5,read_timeout=9"
    options, watch = prepared(*FILE, *TWO, *FIRST, "--rdzv_conf", "read_timeout=9")
    assert watch.seconds == 600 and options.rdzv_conf == "timeout=600,read_timeout=9"


def test_an_address_may_be_one_of_ipv6(monkeypatch):
    monkeypatch.setattr(launch.Watch, "start", lambda self: None)
    for given in ("fd00::1", "[fd00::1]"):
        assert prepared(*FILE, *TWO, "--main_process_ip", given)[1].where == ("fd00::1", 29500)


def test_accelerates_own_file_is_read_where_none_is_named(monkeypatch, tmp_path):
    from accelerate.commands.config import config_args

    monkeypatch.setattr(launch.Watch, "start", lambda self: None)
    monkeypatch.setattr(config_args, "default_config_file", str(tmp_path / "default.yaml"))
    assert prepared()[1] is None
    lines = ["distributed_type: MULTI_GPU", "num_machines: 2", "machine_rank: 1", "num_processes: 4", "use_cpu: true"]
    lines += ["main_process_ip: 192.0.2.1", "main_process_port: 29400"]
    (tmp_path / "default.yaml").write_text("\n".join(lines))
    watch = prepared()[1]
    assert (watch.where, watch.machine, watch.machines) == (("192.0.2.1", 29400), 1, 2)


@pytest.mark.parametrize("file", ["zero2", "zero3"])
def test_deepspeed_meets_as_the_others_do(file, monkeypatch):
    """accelerate's default for several machines is DeepSpeed's launcher, which logs in on each of them over ssh."""
    from accelerate.commands import launch as of_accelerate
    from accelerate.utils.launch import prepare_deepspeed_cmd_env

    monkeypatch.setattr(launch.Watch, "start", lambda self: None)
    monkeypatch.setattr(hardware, "nvidia_gpus", list)
    options, _ = prepared("--config_file", f"accelerate_configs/{file}.yaml", *TWO, *FIRST, "--machine_rank", "1")
    options.deepspeed_fields_from_accelerate_config = ""
    command, _ = prepare_deepspeed_cmd_env(of_accelerate._validate_launch_command(options)[0])
    assert command is None and options.rdzv_endpoint == "192.0.2.1:29500" and options.node_rank == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*FILE, *TWO[:3], "3"], "PROCESSES=3: 2 machines cannot share so many"),
        ([*FILE, *TWO], "no --main_process_ip"),
        ([*FILE, *TWO, *FIRST, "--machine_rank", "2"], "--machine_rank 2: the ranks of 2 machines are 0 to 1"),
        ([*FILE, *TWO, *FIRST, "--rdzv_conf", "timeout=soon"], "soon"),
        (DDP, "this machine has 2: PROCESSES=2"),
        (["--config_file", "accelerate_configs/single.yaml", *TWO, *FIRST], "PROCESSES=2: this launcher starts one"),
        ([*FILE, "--cpu"], "PROCESSES=2: this launcher starts one"),
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


PROGRAM = """
import os, signal, sys, time
machine = int(os.environ["GROUP_RANK"])
"""

SAVES = """
def save(number, frame):
    time.sleep(5)
    open(f"{__file__}.{machine}", "w").close()
    os._exit(75)
signal.signal(signal.SIGTERM, save)
open(f"{__file__}.ready{machine}", "w").close()
time.sleep(150)
"""


def start(folder: Path, program: str, *given: tuple[str, ...]) -> list[subprocess.Popen]:
    """Two launchers on this machine that pass for two machines, each with these options of its own."""
    (folder / "program.py").write_text(f"{PROGRAM}{program}\n")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    command = [sys.executable, "-m", "stages.launch", *FILE, "--num_machines", "2", "--main_process_ip", "127.0.0.1"]
    command += ["--main_process_port", port, "--rdzv_conf", "timeout=120"]
    started = []
    for rank, own in enumerate(given or ((), ())):
        words = [*command, "--num_processes", "2", "--machine_rank", str(rank), *own, str(folder / "program.py")]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        started.append(subprocess.Popen(words, cwd=ROOT, **pipes))
    return started


def ended(started: list[subprocess.Popen], folder: Path) -> list[tuple[int, str]]:
    """Exit code and output of each; nothing of them may be left."""
    left = []
    try:
        said = [each.communicate(timeout=150)[0].strip() for each in started]
    finally:
        for each in psutil.process_iter(["cmdline"]):
            if str(folder) in " ".join(each.info["cmdline"] or []):
                left.append(each)
                each.kill()
    assert not left
    return [(each.returncode, words) for each, words in zip(started, said, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("code", [4, 75])
@pytest.mark.parametrize("first", [0, 1])
def test_machines_end_with_the_first_of_them(first, code, tmp_path):
    done = ended(start(tmp_path, f"sys.exit({code}) if machine == {first} else time.sleep(150)"), tmp_path)
    assert done[first] == (code, "")
    why = f"launch: machine {first} ({socket.gethostname()}) ended: its own output says why"
    assert done[1 - first] == (code, why)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
def test_a_machine_that_is_done_lets_the_other_finish(first, tmp_path):
    done = ended(start(tmp_path, f"time.sleep(20 * (machine != {first}))"), tmp_path)
    assert done == [(0, ""), (0, "")]


@pytest.mark.slow
def test_machines_that_are_stopped_may_save(tmp_path):
    """As by a batch system, which tells all of them."""
    began = time.monotonic()
    started = start(tmp_path, SAVES)
    while len(list(tmp_path.glob("*.ready?"))) < 2:
        assert time.monotonic() < began + 100
        time.sleep(0.1)
    for each in started:
        each.terminate()
    while len(list(tmp_path.glob("program.py.[01]"))) < 2:
        assert time.monotonic() < began + 120
        time.sleep(0.1)
    time.sleep(1)
    started[0].terminate()
    assert ended(started, tmp_path) == [(75, ""), (75, "")]


@pytest.mark.slow
def test_machines_with_other_numbers_of_processes_are_refused(tmp_path):
    done = ended(start(tmp_path, "time.sleep(150)", (), ("--num_processes", "4")), tmp_path)
    what = "started with --num_machines 2 --num_processes 4, but machine 0 ("
    assert [code for code, _ in done] == [2, 2] and all(what in said and "Traceback" not in said for _, said in done)
    assert done[1][1].startswith(f"launch: {what}") and done[0][1].startswith("launch: machine 1 (")
