"""launch/grpo.sky.yaml: the script that it gives to SkyPilot, run as SkyPilot does, which itself is not needed."""

import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest
import yaml

from tests.support import ROOT

TASK = yaml.safe_load((ROOT / "launch/grpo.sky.yaml").read_text(encoding="utf-8"))
PATIENCE = 600  # seconds for what takes two minutes on one slow core
SHORT = [
    "'data.train=[arithmetic: {digits: 2, rows: 400}]'",
    "data.validation=16",
    "sft.max_steps=2",
    "evaluate.limit=4",
]
SHORT += ["grpo.max_steps=24", "grpo.save_steps=4", "grpo.per_device_train_batch_size=16"]


def start(folder: Path, rank: int = 0, machines: int = 1, port: int = 29500, **given: str) -> subprocess.Popen:
    """The script on a machine without GPUs, in an interactive shell, as SkyPilot runs it."""
    given = {"RECIPE": "tiny-arithmetic", "BUCKET": "", "ARGS": " ".join([*SHORT, f"output_dir={folder}/run"])} | given
    assert given.keys() <= TASK["envs"].keys()
    environment = TASK["envs"] | given
    environment |= {"SKYPILOT_NODE_RANK": str(rank), "SKYPILOT_NUM_NODES": str(machines)}
    environment |= {"SKYPILOT_NODE_IPS": "\n".join(["127.0.0.1"] * machines), "SKYPILOT_NUM_GPUS_PER_NODE": "0"}
    script = folder / f"script-{rank}"
    script.write_text(TASK["run"].replace("29500", str(port)))
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    command = ["bash", "--norc", "-i", str(script)]
    return subprocess.Popen(command, cwd=ROOT, env=os.environ | environment, start_new_session=True, **pipes)


def said(process: subprocess.Popen) -> str:
    try:
        return process.communicate(timeout=PATIENCE)[0]
    except subprocess.TimeoutExpired:
        for each in [*psutil.Process(process.pid).children(recursive=True), process]:
            each.kill()
        raise


def test_what_must_be_given_and_what_comes_back():
    shown = re.findall(r"^sky jobs launch .*", (ROOT / "docs/scaling.md").read_text(encoding="utf-8"), re.M)
    assert [re.findall(r"--env (\w+)=", each) for each in shown] == [["RECIPE", "BUCKET"]]
    assert [key for key, value in TASK["envs"].items() if value is None] == ["RECIPE", "BUCKET"]
    assert TASK["resources"]["job_recovery"] == {"recover_on_exit_codes": [75]}
    assert TASK["file_mounts"]["outputs"]["source"] == "${BUCKET}"
    assert "secrets" not in TASK and not any("TOKEN" in key for key in TASK["envs"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"RECIPE": "tiny-arithmetik"}, "recipes/tiny-arithmetik.yaml"),
        ({"ARGS": "grpo.learning_rat=1"}, "learning_rate"),
        ({"PROCESSES": "2"}, "name one too, such as ACCELERATE=ddp"),
    ],
)
def test_a_mistake_ends_with_exit_code_2(given, message, tmp_path):
    process = start(tmp_path, **given)
    text = said(process)
    assert message in text and process.returncode == 2, text


@pytest.mark.slow
def test_one_machine_stopped_and_started_again(tmp_path):
    process = start(tmp_path)
    began = time.monotonic()
    while not [*tmp_path.glob("run/grpo/checkpoint-*/manifest.json")]:
        assert process.poll() is None and time.monotonic() < began + PATIENCE, said(process)
        time.sleep(0.02)
    (stage,) = [each for each in psutil.Process(process.pid).children() if "stages.grpo" in each.cmdline()]
    stage.send_signal(signal.SIGTERM)
    text = said(process)
    assert "grpo: stopped at step" in text and process.returncode == 75, text
    process = start(tmp_path)
    text = said(process)
    assert process.returncode == 0, text
    assert f"from {tmp_path}/run/grpo/checkpoint-" in text and "| grpo |" in text


@pytest.mark.slow
def test_two_machines(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    second, first = (start(tmp_path, rank, 2, port, ACCELERATE="cpu2") for rank in (1, 0))
    texts = said(first), said(second)
    assert (first.returncode, second.returncode) == (0, 0), texts
    assert "| grpo |" in texts[0] and "| grpo |" not in texts[1]
