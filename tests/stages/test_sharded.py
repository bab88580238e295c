"""A short run of an adapter with a reference, on two processes over gloo, each way that
accelerate_configs/ has of dividing it among them. Its warm start is stopped by SIGTERM, its GRPO
loses a process to SIGKILL, and both go on.
"""

import json
import shlex
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from schema.configs import ACCURACY, EVAL_CORRECT
from tests.stage_process import Started
from tests.support import LORA, completions, copied, furthest, read_lines, run_stage, same_weights

pytestmark = pytest.mark.slow
# A CPU has no bfloat16 to mix in, and accelerate no FSDP for CPUs: see tests/shards_on_cpu.py.
ON_A_CPU = ["--num_processes", "2", "--mixed_precision", "no"]
ON_GPUS = ["--num_processes", "2"]  # over NCCL
# Way to its file, options, and the module that starts the stage, if any; cpu2.yaml is ddp.yaml for
# two processes on a CPU.
WAYS = {
    "ddp": ("cpu2", [], []),
    "fsdp2": ("fsdp2", ON_A_CPU, ["tests.shards_on_cpu"]),
    "zero2": ("zero2", ON_A_CPU, []),
    "zero3": ("zero3", ON_A_CPU, []),
    "ddp on GPUs": ("ddp", ON_GPUS, ["tests.stages.test_two_gpus"]),
    "fsdp2 on GPUs": ("fsdp2", ON_GPUS, ["tests.stages.test_two_gpus"]),
}
NO_DEEPSPEED = pytest.mark.skipif(
    find_spec("deepspeed") is None, reason="make setup EXTRAS=deepspeed"
)
SHARDED = ["fsdp2", *(pytest.param(each, marks=NO_DEEPSPEED) for each in ("zero2", "zero3"))]
SHORT = shlex.split("""
    recipes/tiny-arithmetic.yaml data.validation=24 evaluate.checkpoint_problems=8 model.build=null
    sft.max_steps=20 sft.save_steps=5 grpo.max_steps=6 grpo.eval_steps=2 grpo.logging_steps=1
    grpo.num_generations=4 grpo.num_iterations=1 grpo.beta=0.04 grpo.gradient_checkpointing=true
    rewards.tests.varied_reward.varied='{weight: 1.0}' grpo.per_device_train_batch_size=16
""")
LAST = "grpo/checkpoint-6"
BATCH = "sft.per_device_train_batch_size=64"
PATIENCE = 400  # seconds for what takes 45 on a slow core that others use too


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """A model that ends its answers after 20 to 35 tokens, so that no two processes sample for as
    long."""
    folder = tmp_path_factory.mktemp("base")
    run_stage("sft", *SHORT[:2], f"output_dir={folder}", "sft.max_steps=60")
    return folder / "sft"


@pytest.fixture(scope="module")
def alone(base, tmp_path_factory) -> Path:
    """The folder of a warm start of one process."""
    folder = tmp_path_factory.mktemp("alone")
    words = [LORA, BATCH, f"model.name_or_path={base}", f"output_dir={folder}"]
    run_stage("sft", *SHORT, *words)
    return folder / "sft"


def launched(way: str, stage: str, folder: Path, base: Path, *settings: str) -> Started:
    """A stage on two processes."""
    file, options, starter = WAYS[way]
    before = [sys.executable, "-m", "stages", "launch", "--config_file"]
    before += [f"accelerate_configs/{file}.yaml", *options]
    environment = {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "600"}
    environment |= {"DS_ACCELERATOR": "cpu"}  # also on a machine with a GPU
    settings = [BATCH, f"model.name_or_path={base}", f"output_dir={folder}", *settings]
    module, *words = [*starter, "stages", stage, *SHORT, *settings]
    return Started(module, *words, before=before, environment=environment)


def saved(started: Started, folder: Path) -> Started:
    """Wait until a stage has a checkpoint."""
    return started.until(lambda: any(folder.glob("checkpoint-*/manifest.json")), PATIENCE)


def done(started: Started) -> str:
    """Wait until a stage is done, and return what it printed."""
    ended = started.ended(PATIENCE)
    assert ended.returncode == 0, started.printed()[-6000:]
    return started.printed()


class Run(NamedTuple):
    """`home`: the output folder of a run whose warm start was stopped; its GRPO was not, that in
    `killed` was. `printed`, `codes`: by what happened to each launch."""

    home: Path
    killed: Path
    printed: dict[str, str]
    codes: dict[str, int]


@pytest.fixture(scope="module")
def runs(base, tmp_path_factory):
    """A function that trains one way, once."""
    made: dict[str, Run] = {}

    def run(way: str) -> Run:
        if way not in made:
            made[way] = trained(way, base, tmp_path_factory.mktemp(way))
        return made[way]

    return run


def trained(way: str, base: Path, home: Path) -> Run:
    whole, killed = home / "whole", home / "killed"
    stopped = saved(launched(way, "sft", whole, base, LORA), whole / "sft")
    stopped.send(signal.SIGTERM)
    codes = {"stopped": stopped.ended(PATIENCE).returncode}
    printed = {"stopped": stopped.printed()}
    printed["resumed"] = done(launched(way, "sft", whole, base, LORA))
    copied(whole, killed, "sft")
    lost = saved(launched(way, "grpo", killed, base, LORA), killed / "grpo")
    lost.rank(1).kill()
    codes["killed"] = lost.ended(PATIENCE).returncode
    assert not (killed / "grpo/summary.json").exists()
    printed["again"] = done(launched(way, "grpo", killed, base, LORA))
    done(launched(way, "grpo", whole, base, LORA))
    return Run(whole, killed, printed, codes)


def distances(folder: Path) -> list[float]:
    """Between the policy and its reference, at each step."""
    return [line["kl"] for line in read_lines(folder / "metrics.jsonl") if "kl" in line]


@pytest.mark.parametrize("way", ["ddp", *SHARDED])
def test_a_warm_start_that_was_stopped_is_that_of_one_process(way, runs, alone, base):
    run = runs(way)
    assert run.codes["stopped"] == 75 and "sft: stopped at step" in run.printed["stopped"]
    assert f"from {run.home}/sft/checkpoint-" in run.printed["resumed"]
    difference = furthest(run.home / "sft", alone)
    print(f"{way}: the warm start differs from that of one process by {difference:.2g}")
    assert difference < 5e-5 < furthest(alone / "checkpoint-15", alone)


@pytest.mark.parametrize("way", ["ddp", *SHARDED])
def test_a_run_that_lost_a_process_ends_with_the_same_weights(way, runs):
    run = runs(way)
    assert run.codes["killed"] not in (0, 75)
    assert f"from {run.killed}/grpo/checkpoint-" in run.printed["again"]
    assert "FutureWarning" not in run.printed["again"]
    for folder in ("grpo", LAST):
        # the best checkpoint's weights, which may have been saved before the kill
        assert same_weights(run.killed / folder, run.home / folder)
    evaluations = [line for line in read_lines(run.home / "grpo/metrics.jsonl") if ACCURACY in line]
    counts = [(line["step"], len(line[EVAL_CORRECT])) for line in evaluations]
    assert counts == [(2, 8), (4, 8), (6, 8)]  # of both processes
    assert all(
        line[EVAL_CORRECT].count("1") / 8 == pytest.approx(line[ACCURACY]) for line in evaluations
    )
    best = json.loads((run.home / "grpo/summary.json").read_text())["best_checkpoint"]
    assert same_weights(run.home / "grpo", Path(best))
    assert not same_weights(run.home / "sft", Path(best))


@pytest.mark.parametrize("way", SHARDED)
def test_sharded_it_is_the_run_that_it_is_with_ddp(way, runs):
    one, other = runs("ddp").home, runs(way).home
    texts = [completions(run / "grpo")["completion"].map(str) for run in (one, other)]
    assert texts[0].equals(texts[1])
    difference, learned = furthest(one / LAST, other / LAST), furthest(one / LAST, one / "sft")
    print(f"{way}: the weights differ from DDP's by {difference:.2g}; learned: {learned:.2g}")
    assert difference < 1e-5 < learned
    assert distances(other / "grpo") == pytest.approx(distances(one / "grpo"), rel=1e-2, abs=1e-7)


@pytest.mark.parametrize("way", ["ddp", *SHARDED])
def test_its_adapter_is_evaluated_by_one_process(way, runs, base):
    home = runs(way).home
    words = [*SHORT, LORA, f"model.name_or_path={base}", f"output_dir={home}"]
    said = run_stage("evaluate", *words, "--validation").stdout
    assert "| sft |" in said and "| grpo |" in said


@pytest.mark.parametrize("way", SHARDED)
def test_the_reference_of_a_whole_model_is_whole(way, base, tmp_path):
    """Under FSDP2 trl leaves it to the first process's shards, and the rest of it is zeros."""
    short = ["sft=null", "grpo.max_steps=2", "grpo.eval_steps=null"]
    done(launched(way, "grpo", tmp_path, base, *short))
    first, second = distances(tmp_path / "grpo")
    assert first == pytest.approx(0, abs=1e-9) and 1e-9 < second < 0.01
