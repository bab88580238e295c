"""A launch on two machines, which are network namespaces. One rank is killed, the launch is given
again on both, and ends as if nothing had been. What they share is the disk. And a machine whose
peer never comes."""

import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.namespaces import namespaces
from tests.stage_process import Started
from tests.support import ROOT, TWO_PROCESSES, run_stage, same_weights

# Two sessions may run at once.
MACHINES = {f"one-{os.getpid()}": "10.77.0.1", f"two-{os.getpid()}": "10.77.0.2"}
LAUNCH = shlex.split("""
    -m stages launch --config_file accelerate_configs/cpu2.yaml --num_machines 2
    --main_process_ip 10.77.0.1 --main_process_port 29500
""")
SHORT = shlex.split("""
    recipes/tiny-arithmetic.yaml data.validation=40 sft.max_steps=30 grpo.save_steps=4
    rewards.tests.varied_reward.varied='{weight: 1.0}' grpo.per_device_train_batch_size=16
    grpo.max_steps=24
""")
PATIENCE = 240  # seconds for what takes one on a slow core that others use too
ALONE = 60  # seconds in which a machine must have ended after its peer

pytestmark = pytest.mark.slow


@pytest.fixture
def machines() -> Iterator[None]:
    with namespaces(f"br-{os.getpid()}", "10.77.0.254", MACHINES):
        yield


def start(rank: int, folder: Path, timeout: int = PATIENCE) -> Started:
    """The command on a machine."""
    before = ["ip", "netns", "exec", [*MACHINES][rank]]
    before += [sys.executable, *LAUNCH, "--rdzv_conf", f"timeout={timeout}"]
    before += ["--machine_rank", str(rank)]
    environment = {"GLOO_SOCKET_IFNAME": "eth0"}
    settings = [*SHORT, f"output_dir={folder}"]
    return Started("stages", "grpo", *settings, before=before, environment=environment, cwd=ROOT)


def ended(*started: Started, seconds: int = PATIENCE) -> tuple[list[int], list[str]]:
    """The exit codes of machines, and what they printed."""
    done = [machine.ended(seconds) for machine in started]
    print(*[machine.stdout + machine.stderr for machine in done])
    assert not any("Traceback" in machine.stderr for machine in done)
    return [machine.returncode for machine in done], [machine.stderr for machine in done]


def last(text: str) -> str:
    return text.strip().splitlines()[-1]


def test_a_rank_killed_and_the_launch_given_again(machines, tmp_path):
    run_stage("sft", *SHORT, f"output_dir={tmp_path}/whole")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    shutil.copytree(whole / "sft", killed / "sft")
    first, second = start(0, killed), start(1, killed)
    first.until(lambda: any(killed.glob("grpo/checkpoint-*/manifest.json")), PATIENCE)
    second.rank(1).kill()
    codes, errors = ended(first, second, seconds=ALONE)
    assert codes == [3, 128 + signal.SIGKILL]
    assert re.fullmatch(
        r"launch: process 1 was ended by SIGKILL, as .* the same command resumes", last(errors[1])
    )
    assert re.fullmatch(
        r"other processes of this run are gone \(.+\); the same command resumes", last(errors[0])
    )
    assert not (killed / "grpo/summary.json").exists()

    first, second = start(0, killed), start(1, killed)
    assert ended(first, second)[0] == [0, 0]
    assert f"from {killed}/grpo/checkpoint-" in first.printed()
    run_stage("grpo", *SHORT, f"output_dir={whole}", before=TWO_PROCESSES)
    assert same_weights(killed / "grpo", whole / "grpo")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_machine_that_never_comes(rank, machines, tmp_path):
    codes, errors = ended(start(rank, tmp_path, timeout=5), seconds=ALONE)
    assert codes == [3]
    assert last(errors[0]).startswith("launch: the machines did not find one another: ")
    assert not (tmp_path / "grpo").exists()
