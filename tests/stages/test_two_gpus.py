"""Two GPUs: one for each process, over NCCL; or one for training, and one for a vLLM server. `make
test-gpu` runs this where there are two. A stage that is launched through this file says at its end
which GPUs its process has used:

    accelerate launch --config_file accelerate_configs/ddp.yaml -m tests.stages.test_two_gpus
    stages sft recipes/x.yaml
"""

import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from stages.cli import run_named
from tests.stage_process import free_port
from tests.stages.test_sharded import LORA, SHORT, done, launched, saved
from tests.support import read_lines, run_stage, weights
from tests.training.test_vllm_server import RECIPE, SERVER, served
from training import train as training

pytestmark = [
    pytest.mark.slow,
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are no two GPUs"),
]
GPUS = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")
FIRST, LAST = {"CUDA_VISIBLE_DEVICES": GPUS[0]}, {"CUDA_VISIBLE_DEVICES": GPUS[-1]}
# Long enough on a GPU for a signal to come in time.
SFT = ["sft.max_steps=60", "sft.save_steps=20"]


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    run_stage("sft", *SHORT[:2], f"output_dir={folder}", "sft.max_steps=60", **FIRST)
    return folder / "sft"


def uses(said: str) -> list[str]:
    """What each process said of its GPUs."""
    return sorted(line for line in said.splitlines() if line.startswith("process "))


EACH_ITS_OWN = ["process 0 used GPU [0]", "process 1 used GPU [1]"]


def moved(folder: Path, other: Path) -> float:
    """How far apart the weights are, in the mean."""
    ours, theirs = weights(folder), weights(other)
    return float(np.mean([np.abs(ours[name] - theirs[name]).mean() for name in ours]))


def test_ddp(base, tmp_path):
    said = done(launched("ddp on GPUs", "grpo", tmp_path, base, LORA, "sft=null"))
    assert uses(said) == EACH_ITS_OWN
    lines = read_lines(tmp_path / "grpo/metrics.jsonl")
    assert len([line for line in lines if "reward" in line]) == 6


def test_fsdp2_stopped_and_killed_goes_on(base, tmp_path):
    """A GPU's kernels need not repeat themselves to the bit; what was resumed is far nearer to what
    was not than that is to its own last checkpoint but one."""
    way, whole, stopped = "fsdp2 on GPUs", tmp_path / "apart/whole", tmp_path / "stopped"
    launch = saved(launched(way, "sft", stopped, base, LORA, *SFT), stopped / "sft")
    launch.send(signal.SIGTERM)
    assert launch.ended().returncode == 75 and "sft: stopped at step" in launch.printed()
    said = done(launched(way, "sft", stopped, base, LORA, *SFT))
    assert f"from {stopped}/sft/checkpoint-" in said and uses(said) == EACH_ITS_OWN
    done(launched(way, "sft", whole, base, LORA, *SFT))
    step = moved(whole / "sft/checkpoint-40", whole / "sft")
    assert 2 * moved(stopped / "sft", whole / "sft") < step
    launch = saved(launched(way, "grpo", stopped, base, LORA, *SFT), stopped / "grpo")
    launch.rank(1).kill()
    assert launch.ended().returncode not in (0, 75) and "grpo: done" not in launch.printed()
    said = done(launched(way, "grpo", stopped, base, LORA, *SFT))
    assert f"from {stopped}/grpo/checkpoint-" in said and uses(said) == EACH_ITS_OWN
    assert moved(stopped / "sft", stopped / "grpo/checkpoint-6") > 0
    words = [*SHORT, *SFT, LORA, f"model.name_or_path={base}", f"output_dir={stopped}"]
    words.append("--validation")
    assert "| grpo |" in run_stage("evaluate", *words, **FIRST).stdout


@pytest.mark.vllm
@pytest.mark.skipif(
    find_spec("vllm") is None, reason="vllm is not installed: make setup EXTRAS=vllm"
)
def test_a_server_samples_from_the_policy(tmp_path):
    """The server loads the base model, whose weights are random; what it samples is the policy's if
    these were sent."""
    words = [RECIPE, *SERVER, "grpo.max_steps=8", "grpo.logging_steps=1"]
    words += ["grpo.vllm_max_model_length=256", f"output_dir={tmp_path}"]
    words += [f"grpo.vllm_{port}_port={free_port()}" for port in ("server", "group")]
    run_stage("sft", *words, **FIRST)
    server = served(LAST, *words[1:])
    try:
        trained = run_stage("grpo", *words, check=False, **FIRST)  # it waits for the server
    finally:
        server.terminate()
        server.wait(60)
    assert trained.returncode == 0 and "Traceback" not in trained.stderr, trained.stderr[-3000:]
    lines = read_lines(tmp_path / "grpo/metrics.jsonl")
    key = "sampling/sampling_logp_difference/mean"
    differences = [line[key] for line in lines if key in line]
    assert differences and max(differences) < 0.1


if __name__ == "__main__":
    del sys.argv[1]
    train = training.train

    def watched(trainer, *arguments):
        train(trainer, *arguments)
        gpus = range(torch.cuda.device_count())
        used = [gpu for gpu in gpus if torch._C._cuda_hasPrimaryContext(gpu)]
        print(f"process {trainer.args.process_index} used GPU {used}", flush=True)

    training.train = watched
    run_named()
