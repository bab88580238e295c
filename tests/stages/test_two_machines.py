"""A launch on two machines: two network namespaces, each with an address of its own, joined by a
cable. One rank is killed, the launch is given again on both, and ends as if nothing had been. What
they share is the disk. And launches that are wrong: each ends on both machines, in one message."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support import ROOT, TWO_PROCESSES, ended, run_stage, same_weights
from tests.waits import run_command, start_command

MACHINES = (
    f"grpo-first-{os.getpid()}",
    f"grpo-second-{os.getpid()}",
)  # two sessions may run at once
NETWORK = """
ip netns add {0}
ip netns add {1}
ip link add cable netns {0} type veth peer name cable netns {1}
ip -n {0} address add 10.77.0.1/24 dev cable
ip -n {1} address add 10.77.0.2/24 dev cable
ip -n {0} link set lo up
ip -n {1} link set lo up
ip -n {0} link set cable up
ip -n {1} link set cable up
""".format(*MACHINES)
SHORT = [
    "recipes/tiny-arithmetic.yaml",
    "data.validation=40",
    "sft.max_steps=30",
    "grpo.save_steps=4",
]
SHORT += ["rewards.tests.varied_reward.varied={weight: 1.0}", "grpo.per_device_train_batch_size=16"]
SHORT += ["grpo.max_steps=24"]
PATIENCE = 240  # seconds for what takes one on a slow core that others use too
ALONE = 60  # seconds in which a machine must have ended after its peer

pytestmark = pytest.mark.slow


@pytest.fixture
def machines() -> Iterator[None]:
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip`: apt-get install iproute2")
    try:
        for line in NETWORK.strip().splitlines():
            done = run_command(line.split(), capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"`{line}` is not permitted here: {done.stderr.strip()}")
        yield
    finally:
        for each in MACHINES:
            run_command(["ip", "netns", "delete", each], capture_output=True)


def start(
    *folders: Path,
    ranks: tuple[int, ...] = (0, 1),
    timeout: int = PATIENCE,
    own_disk: Path | None = None,
) -> list[subprocess.Popen]:
    """The same command on each machine but for its rank, and its folder.

    Args:
        own_disk: what the second machine sees in the place of its folder.
    """
    command = [
        "-m",
        "stages.launch",
        "--config_file",
        "accelerate_configs/cpu2.yaml",
        "--num_machines",
        "2",
    ]
    command += [
        "--main_process_ip",
        "10.77.0.1",
        "--main_process_port",
        "29500",
        "--rdzv_conf",
        f"timeout={timeout}",
    ]
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "cable", "HF_HUB_OFFLINE": "1"}
    started = []
    for rank, folder in zip(ranks, folders, strict=True):
        words = ["ip", "netns", "exec", MACHINES[rank]]  # which has mounts of its own too
        if own_disk and rank:
            words += [
                "sh",
                "-c",
                'mount --bind "$0" "$1" && shift && exec "$@"',
                str(own_disk),
                str(folder),
            ]
        words += [sys.executable, *command, "--machine_rank", str(rank)]
        words += ["-m", "stages.grpo", *SHORT, f"output_dir={folder}"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        started.append(start_command(words, cwd=ROOT, env=environment, **pipes))
    return started


def last(said: str) -> str:
    return said.strip().splitlines()[-1]


def refused(wrong: str, *folders: Path, **given: Path):
    first, second = start(*folders, **given)
    said = ended(first, PATIENCE), ended(second, PATIENCE)
    assert all("have different runs:\n" in each and wrong in each for each in said), said
    assert (first.returncode, second.returncode) == (2, 2) and "Traceback" not in said[0] + said[1]


def rank_of(launch: subprocess.Popen) -> psutil.Process:
    below = psutil.Process(launch.pid).children(recursive=True)
    return next(
        each for each in below if "RANK" in each.environ() and "stages.grpo" in each.cmdline()
    )


def test_a_rank_killed_and_the_launch_given_again(machines, tmp_path):
    run_stage("sft", *SHORT, f"output_dir={tmp_path}/whole")
    shutil.copytree(tmp_path / "whole/sft", tmp_path / "killed/sft")
    first, second = start(tmp_path / "killed", tmp_path / "killed")
    began = time.monotonic()
    while not list(tmp_path.glob("killed/grpo/checkpoint-*/manifest.json")):
        assert first.poll() is None and time.monotonic() < began + PATIENCE, ended(first, 1)
        time.sleep(0.002)
    rank_of(second).kill()
    said = ended(first, ALONE), ended(second, ALONE)
    print(*said)
    assert (first.returncode, second.returncode) == (3, 128 + signal.SIGKILL)
    why = (
        "process 1 was ended by SIGKILL, as the system does when memory runs out; the same command"
        " resumes"
    )
    assert last(said[1]) == f"launch: {why}"
    assert re.fullmatch(
        r"other processes of this run are gone \(.+\); the same command resumes", last(said[0])
    )
    assert "Traceback" not in said[0] + said[1]
    assert not (tmp_path / "killed/grpo/summary.json").exists()
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    shutil.copytree(killed / "sft", tmp_path / "other/sft")
    refused(
        f"newest checkpoint: None and {killed}/grpo/checkpoint-",
        killed,
        killed,
        own_disk=tmp_path / "other",
    )
    refused(f"output_dir: {whole} and {killed}\n", killed, whole)
    first, second = start(tmp_path / "killed", tmp_path / "killed")
    said = ended(first, PATIENCE), ended(second, PATIENCE)
    print(*said)
    assert (first.returncode, second.returncode) == (0, 0)
    assert f"from {tmp_path}/killed/grpo/checkpoint-" in said[0]
    run_stage("grpo", *SHORT, f"output_dir={tmp_path}/whole", launcher=TWO_PROCESSES)
    assert same_weights(tmp_path / "killed/grpo", tmp_path / "whole/grpo")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_machine_that_never_comes(rank, machines, tmp_path):
    (waiting,) = start(tmp_path, ranks=(rank,), timeout=5)
    said = ended(waiting, ALONE)
    assert waiting.returncode == 3
    assert last(said).startswith("launch: the machines did not find one another: ")
    assert "Traceback" not in said and not (tmp_path / "grpo").exists()
