"""launch/grpo.slurm on a real Slurm: Debian's slurmctld, munge, and three slurmd on this machine
that pass for nodes, each in a network namespace with a name and an address of its own. What they
share is the disk. A job of more urgent partition takes the nodes away; the run goes back into the
queue, and ends as if nothing had been. With a server node, a stand-in takes vLLM's place.

    apt-get install munge slurmctld slurmd slurm-client
    pytest -s tests/stages/test_slurm.py      # prints the job's log
"""

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests import vllm_stand_in
from tests.namespaces import namespaces
from tests.stage_process import free_port
from tests.support import ROOT, TWO_PROCESSES, read_lines, run_stage, same_weights
from tests.tables import lacking, yaml_text
from tests.training.test_vllm_server import RATIOS
from tests.waits import capture, run_command, start_command, until

PROGRAMS = ("ip", "munged", "slurmctld", "slurmd", "sbatch")
MISSING = [each for each in PROGRAMS if shutil.which(each) is None] + ["root"] * (os.geteuid() != 0)
NODES = {"n1": "10.78.0.1", "n2": "10.78.0.2", "n3": "10.78.0.3"}
HERE = "10.78.0.254"
PATIENCE = 600  # seconds for a run of 2 minutes on one slow core
SHORT = ["data.validation=40", "sft.max_steps=30", "grpo.max_steps=40", "grpo.save_steps=4"]
SHORT += ["rewards.tests.varied_reward.varied={weight: 1.0}", "grpo.per_device_train_batch_size=16"]
CONFIG = yaml_text(__file__, "config")


@pytest.fixture
def network() -> Iterator[None]:
    """An address and a cable for each node."""
    if MISSING:
        pytest.skip(f"a Slurm of one's own needs {', '.join(MISSING)}")
    with namespaces("grpo-slurm", HERE, {f"grpo-{node}": NODES[node] for node in NODES}):
        yield


def slurmd(node: str, folder: Path) -> list[str]:
    """The command for a node's daemon. The node has its own name, which leads it to 127.0.1.1, as
    on Debian."""
    hosts = folder / f"hosts-{node}"
    others = [f"{address} {other}\n" for other, address in NODES.items() if other != node]
    hosts.write_text(f"127.0.0.1 localhost\n127.0.1.1 {node}\n{''.join(others)}")
    start = f"hostname {node} && mount --bind {hosts} /etc/hosts && exec slurmd -D"
    # Not `ip netns exec`, which hides the cgroups that slurmd asks for.
    within = ["nsenter", f"--net=/run/netns/grpo-{node}", "unshare", "--uts", "--mount"]
    return [*within, "sh", "-c", start]


@pytest.fixture
def slurm(network, monkeypatch) -> Iterator[Path]:
    """A cluster of three nodes; its folder."""
    # munge wants a folder in which nobody else can write, and a short name for its socket.
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/run"))
    config = folder / "slurm.conf"
    name = socket.gethostname().split(".")[0]
    nodes = "\n".join(f"NodeName={node} NodeAddr={address}" for node, address in NODES.items())
    values = {"folder": folder, "name": name, "here": HERE, "port": free_port(), "nodes": nodes}
    config.write_text(CONFIG.format(**values))
    for node in NODES:
        (folder / f"spool-{node}").mkdir()
    (folder / "key").write_bytes(os.urandom(64))
    (folder / "key").chmod(0o400)
    monkeypatch.setenv("SLURM_CONF", str(config))
    munge = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket"]
    munge += [f"--{kind}-file={folder}/{kind}" for kind in ("key", "pid", "log", "seed")]
    daemons = []
    try:
        for command in (munge, ["slurmctld", "-D"], *(slurmd(each, folder) for each in NODES)):
            log = (folder / f"daemon-{len(daemons)}.log").open("w")
            options = {"cwd": folder, "stdout": log, "stderr": log, "start_new_session": True}
            daemons.append(start_command(command, **options))
            time.sleep(1)
        until(all_idle, 30, pause=0.2)
        yield folder
    finally:
        run_command(["scancel", "--user=root"], check=False)
        time.sleep(2)
        for each in reversed(daemons):
            each.terminate()
        for each in daemons:
            each.wait(60)
        shutil.rmtree(folder)


def asked(*command: str) -> str:
    return capture(command, check=True).stdout


def all_idle() -> bool:
    states = asked("sinfo", "-h", "-N", "-p", "patient", "-o", "%t")
    return states.split() == ["idle"] * len(NODES)


def state(job: str) -> str:
    return asked("squeue", "-h", "-j", job, "-o", "%T", "--states=all").strip()


def failed(job: str) -> bool:
    return state(job) in ("FAILED", "CANCELLED", "NODE_FAIL")


def submit(nodes: int, log: Path, run: Path, *overrides: str) -> str:
    """Submit the job, with the environment for its settings; its number."""
    options = [f"--nodes={nodes}", f"--output={log}", "--export=ALL,GLOO_SOCKET_IFNAME=eth0"]
    job = ["launch/grpo.slurm", *SHORT, f"output_dir={run}", *overrides]
    return asked("sbatch", "--parsable", *options, *job).strip()


def take_the_nodes_away(log: Path):
    options = ["--partition=urgent", f"--nodes={len(NODES)}", f"--output={log}"]
    asked("sbatch", *options, "--wrap=sleep 1")


def wait(job: str, condition: Callable[[], object]):
    """Wait for a condition, or for the job's failure."""
    until(lambda: bool(condition()) or failed(job), pause=0.2)


def checkpoints(run: Path) -> list[Path]:
    return [*run.glob("grpo/checkpoint-*/manifest.json")]


def after_preemption(job: str, log: Path, run: Path) -> str:
    """Wait for the job's return to the queue, and then for its end; what it printed."""
    wait(job, lambda: state(job) == "PENDING")
    if state(job) == "PENDING":
        # Slurm would let it wait for two minutes
        asked("scontrol", "update", f"JobId={job}", "StartTime=now")
        wait(job, lambda: state(job) == "COMPLETED")
    said = log.read_text()
    print(said)
    assert "stopped with exit code 75, back into the queue" in said
    assert state(job) == "COMPLETED"
    assert f"from {run}/grpo/checkpoint-" in said and "| grpo |" in said
    return said


@pytest.mark.slow
def test_a_preempted_job_ends_with_the_same_weights(slurm, tmp_path):
    os.environ |= {"RECIPE": "tiny-arithmetic", "ACCELERATE": "cpu2", "PROCESSES": "2"}
    log, run = tmp_path / "job.log", tmp_path / "preempted"
    job = submit(2, log, run)
    wait(job, lambda: checkpoints(run))
    take_the_nodes_away(tmp_path / "urgent")
    said = after_preemption(job, log, run)
    assert f"job {job}, start 2: 2 processes on n[1-2]" in said
    shutil.copytree(run / "sft", tmp_path / "whole/sft")
    settings = ["recipes/tiny-arithmetic.yaml", *SHORT, f"output_dir={tmp_path}/whole"]
    run_stage("grpo", *settings, before=TWO_PROCESSES)
    assert same_weights(run / "grpo", tmp_path / "whole/grpo")


@pytest.fixture
def vllm(tmp_path) -> Path:
    """A job with a server node, and the stand-in for vLLM; its folder."""
    folder = tmp_path / "vllm"
    os.environ |= {"RECIPE": "tiny-arithmetic", "SERVER_NODES": "1"}
    os.environ |= vllm_stand_in.install(folder)
    return folder


def servers() -> list[psutil.Process]:
    found = psutil.process_iter(["cmdline"])
    return [each for each in found if "vllm.entrypoints.cli.main" in (each.info["cmdline"] or [])]


@pytest.mark.slow
def test_a_server_node_serves_until_the_trainers_have_saved(slurm, vllm, tmp_path):
    os.environ |= {"ACCELERATE": "cpu2", "PROCESSES": "2"}
    log, run = tmp_path / "job.log", tmp_path / "run"
    job = submit(3, log, run)
    wait(job, lambda: checkpoints(run))
    (vllm / "hold").touch()
    wait(job, (vllm / "held").is_file)
    take_the_nodes_away(tmp_path / "urgent")
    wait(job, lambda: "stopping: " in log.read_text())
    (vllm / "hold").unlink()  # the step goes on, and needs its completions
    said = after_preemption(job, log, run)
    assert "grpo: stopped at step " in said and "the vLLM server is gone" not in said
    assert f"job {job}, start 2: 2 processes on n[1-3], with a vLLM server on n1" in said
    assert said.count("vllm.entrypoints.cli.main serve ") == 2 and f"--host={NODES['n1']} " in said
    lines = read_lines(run / "grpo/metrics.jsonl")
    ratios = [line[each] for line in lines for each in RATIOS if each in line]
    # sampled from the weights that are trained
    assert ratios and all(abs(ratio - 1) < 1e-3 for ratio in ratios)
    assert not servers()


@pytest.mark.slow
def test_a_server_that_dies_ends_the_job(slurm, vllm, tmp_path):
    os.environ["DIES_AFTER"] = "3"
    log, run = tmp_path / "job.log", tmp_path / "run"
    job = submit(2, log, run, "grpo.save_steps=2")
    wait(job, lambda: state(job) == "COMPLETED")
    said = log.read_text()
    print(said)
    assert "the vLLM server is gone" in said and "resumes from" in said
    assert f"job {job}: the vLLM server ended with exit code 9" in said
    assert "ExitCode=3:0" in asked("scontrol", "show", "job", job)
    assert "back into the queue" not in said


@pytest.mark.parametrize(("servers", "nodes"), [("1", "1"), ("2", "4"), ("yes", "4")])
def test_what_is_no_division_into_servers_and_trainers_is_refused(servers, nodes):
    given = {"RECIPE": "tiny-arithmetic", "SERVER_NODES": servers, "SLURM_JOB_NUM_NODES": nodes}
    words = ["bash", "launch/grpo.slurm"]
    done = capture(words, env=os.environ | given)
    assert done.returncode == 2
    assert lacking([f"SERVER_NODES={servers}", f"{nodes} nodes"], done.stderr) == []


@pytest.mark.parametrize(("given", "seen"), [(None, "0"), ("2,3", "2"), ("", "")])
def test_a_process_alone_has_one_gpu(given, seen, tmp_path):
    """The first, where Slurm assigns none: an empty variable would hide them all."""
    srun, python = tmp_path / "bin/srun", tmp_path / ".venv/bin/python"
    for file, text in ((srun, 'while [[ $1 == --* ]]; do shift; done; exec "$@"'), (python, "env")):
        file.parent.mkdir(parents=True)
        file.write_text(f"#!/bin/bash\n{text}\n")
        file.chmod(0o755)
    environment = {"RECIPE": "any", "SLURM_JOB_NUM_NODES": "1"}
    environment["PATH"] = f"{srun.parent}:{os.environ['PATH']}"
    environment |= {} if given is None else {"CUDA_VISIBLE_DEVICES": given}
    done = capture(["bash", ROOT / "launch/grpo.slurm"], cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    name = "CUDA_VISIBLE_DEVICES="
    lines = [line for line in done.stdout.splitlines() if line.startswith(name)]
    assert lines[-1] == f"{name}{seen}"
