"""launch/grpo.slurm on a real Slurm: Debian's slurmctld, two slurmd on this machine that pass for two nodes, and munge.
A job of more urgent partition takes the nodes away; the run goes back into the queue, and ends as if nothing had been.

    apt-get install munge slurmctld slurmd slurm-client
    pytest -s tests/stages/test_slurm.py      # prints the job's log
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT, TWO_PROCESSES, run_stage, same_weights

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
MISSING = [each for each in PROGRAMS if shutil.which(each) is None] + ["root"] * (os.geteuid() != 0)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"a Slurm of one's own needs {', '.join(MISSING)}"),
]
PATIENCE = 600  # seconds for a run of 2 minutes on one slow core
SHORT = ["data.validation=40", "sft.max_steps=30", "grpo.max_steps=40", "grpo.save_steps=4"]
SHORT += ["rewards.tests.varied_reward.varied={weight: 1.0}", "grpo.per_device_train_batch_size=16"]
CONFIG = """
ClusterName=tiny
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MailProg=/bin/true
StateSaveLocation={folder}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]}
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]}
PartitionName=patient Nodes=ALL PriorityTier=1 GraceTime=300 Default=YES
PartitionName=urgent Nodes=ALL PriorityTier=2 PreemptMode=OFF
"""


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture
def slurm(tmp_path, monkeypatch) -> Iterator[Path]:
    """A cluster of two nodes on this machine; its folder."""
    # munge wants a folder in which nobody else can write, and a short name for its socket.
    folder = Path(subprocess.check_output(["mktemp", "-d", "/run/slurm-XXXX"], text=True).strip())
    config = folder / "slurm.conf"
    config.write_text(CONFIG.format(folder=folder, host=socket.gethostname().split(".")[0], ports=free_ports(3)))
    for node in ("n1", "n2"):
        (folder / f"spool-{node}").mkdir()
    (folder / "key").write_bytes(os.urandom(64))
    (folder / "key").chmod(0o400)
    monkeypatch.setenv("SLURM_CONF", str(config))
    of_munge = {"key-file": "key", "socket": "munge.socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    munge = ["munged", "--foreground", "--force", *(f"--{key}={folder / name}" for key, name in of_munge.items())]
    daemons = []
    try:
        for command in (munge, ["slurmctld", "-D"], ["slurmd", "-D", "-N", "n1"], ["slurmd", "-D", "-N", "n2"]):
            log = (folder / f"daemon-{len(daemons)}.log").open("w")
            daemons.append(subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True))
            time.sleep(1)
        until(
            lambda: asked("sinfo", "-h", "-N", "-p", "patient", "-o", "%t").split() == ["idle", "idle"],
            "two idle nodes",
            30,
        )
        yield folder
    finally:
        subprocess.run(["scancel", "--user=root"], check=False)
        time.sleep(2)
        for each in reversed(daemons):
            each.terminate()
        for each in daemons:
            each.wait()
        shutil.rmtree(folder)


def asked(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def until(there, what: str, seconds: float = PATIENCE):
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end, f"no {what} in {seconds:.0f} s"
        time.sleep(0.2)


def state(job: str) -> str:
    return asked("squeue", "-h", "-j", job, "-o", "%T", "--states=all").strip()


def test_a_preempted_job_ends_with_the_same_weights(slurm, tmp_path, monkeypatch):
    for key, value in {"RECIPE": "tiny-arithmetic", "ACCELERATE": "cpu2", "PROCESSES": "2"}.items():
        monkeypatch.setenv(key, value)
    log, run = tmp_path / "job.log", tmp_path / "preempted"
    overrides = [*SHORT, f"output_dir={run}"]
    job = asked("sbatch", "--parsable", "--nodes=2", f"--output={log}", "launch/grpo.slurm", *overrides).strip()

    def failed() -> bool:
        return state(job) in ("FAILED", "CANCELLED", "NODE_FAIL")

    until(lambda: [*run.glob("grpo/checkpoint-*/manifest.json")] or failed(), "checkpoint")
    asked("sbatch", "--partition=urgent", "--nodes=2", f"--output={tmp_path}/urgent", "--wrap=sleep 1")
    until(lambda: state(job) == "PENDING" or failed(), "return to the queue")
    said = log.read_text()
    assert "stopped with exit code 75, back into the queue" in said, said
    asked("scontrol", "update", f"JobId={job}", "StartTime=now")  # Slurm would let it wait for two minutes
    until(lambda: state(job) == "COMPLETED" or failed(), "end")
    said = log.read_text()
    print(said)
    assert state(job) == "COMPLETED"
    assert f"job {job}, start 2: 2 processes on n[1-2]" in said
    assert f"from {run}/grpo/checkpoint-" in said and "| grpo |" in said
    shutil.copytree(run / "sft", tmp_path / "whole/sft")
    run_stage("grpo", "recipes/tiny-arithmetic.yaml", *SHORT, f"output_dir={tmp_path}/whole", launcher=TWO_PROCESSES)
    assert same_weights(run / "grpo", tmp_path / "whole/grpo")
