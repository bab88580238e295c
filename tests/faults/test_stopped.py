"""Runs that meet a fault by themselves stop with a code and a line, or go on without what was
faulty; and what each leaves can be resumed."""

import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.stage_process import Started
from tests.support import (
    CHAIN,
    LORA,
    ROOT,
    copied,
    hub,
    read_lines,
    run_program,
    run_stage,
    same_weights,
    weights,
)
from tests.tables import row_cases
from tests.waits import run_command

pytestmark = pytest.mark.train
SMALL = [*CHAIN, "grpo.per_device_train_batch_size=16", "grpo.num_generations=4"]
SMALL += ["sft=null", "rewards.tests.varied_reward.varied={weight: 1.0}"]


def command(folder: Path, *overrides: str) -> list[str]:
    return ["recipes/tiny-arithmetic.yaml", f"output_dir={folder}", *overrides]


@dataclass(frozen=True)
class Row:
    """A row of the table. `kind`: of the reward; `finite`: that all checkpoints are finite, and
    the prompts of the batch are written; such a run is not resumed."""

    case: str
    kind: str
    exits: int = 0
    says: str = ""
    finite: bool = False


@row_cases(__file__, "stopped", Row)
def test_a_run_with_a_faulty_reward_ends_as_one_without_it(row, chain, tmp_path):
    copied(chain, tmp_path, "sft")
    reward = f'rewards.tests.faulty_reward.faulty={{weight: 0.5, kind: "{row.kind}", timeout: 20}}'
    settings = command(tmp_path, *CHAIN, reward, *["grpo.save_steps=1"] * row.finite)
    ended = run_stage("grpo", *settings, check=False)
    assert ended.returncode == row.exits, ended.stderr
    assert row.says in ended.stdout + ended.stderr
    if row.finite:
        assert list(tmp_path.glob("grpo/not-finite-*.json"))
        for checkpoint in tmp_path.glob("grpo/checkpoint-*"):
            assert all(np.isfinite(weight).all() for weight in weights(checkpoint).values())
        return
    if row.exits:
        run_stage("grpo", *settings, MENDED="1")
    assert same_weights(tmp_path / "grpo", chain / "grpo")


REFUSES = """
import errno, os, pkgutil, resource
from pathlib import Path
{disk}
owner, name = pkgutil.resolve_name({owner!r}), {function!r}
folder = Path({folder!r})
write = getattr(owner, name)
def refused(*values, **named):
    paths = [str(value) for value in (*values, *named.values()) if isinstance(value, str | Path)]
    if any(path.endswith({path!r}) for path in paths):
        {fault}
    return write(*values, **named)
setattr(owner, name, refused)
from stages.cli import run
from stages.grpo import main
run("grpo", main)
"""
# What happens instead of a write, in words of Python.
FAULTS = {
    "limit": "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))",
    "EIO": "raise OSError(errno.EIO, os.strerror(errno.EIO), paths[0])",
    "EIO in Rust": "raise RuntimeError('I/O error: Input/output error (os error 5)')",
    "read-only": "os.system('mount --bind {0} {0} && mount -o remount,bind,ro {0}'.format(folder))",
    "out of memory": "Path(paths[0]).write_bytes(b'PK'); os.kill(os.getpid(), 9)",
    "power cut": "write(*values, **named); disk.cut(); os.kill(os.getpid(), 9)",
}


@dataclass(frozen=True)
class Refusal:
    """A row of the table. `owner`, `function`, `path`: which write meets the fault."""

    case: str
    fault: str
    owner: str
    function: str
    path: str
    exits: int = 3
    says: str = ""


@row_cases(__file__, "refused", Refusal)
def test_a_run_whose_disk_refused_it_ends_as_one_without_that(row, chain, tmp_path):
    copied(chain, tmp_path, "sft")
    values = {"owner": row.owner, "function": row.function, "path": row.path}
    values["disk"] = ""
    if row.fault == "power cut":
        values["disk"] = (
            f"from tests.power_cut import Disk; disk = Disk(Path({str(tmp_path / 'grpo')!r}))"
        )
    values |= {"fault": FAULTS[row.fault], "folder": str(tmp_path / "grpo")}
    program = tmp_path / "refuses.py"
    program.write_text(REFUSES.format(**values))
    settings = command(tmp_path, *CHAIN)
    before = []
    if row.fault == "read-only":
        before = ["unshare", "-rm", sys.executable]
        mount = [*before[:2], "mount", "--bind", tmp_path, tmp_path]
        if run_command(mount, capture_output=True).returncode:
            pytest.skip("nothing can be mounted here")
    ended = run_program(program, *settings, before=before, check=False, PYTHONPATH=str(ROOT))
    assert ended.returncode == row.exits, ended.stderr
    assert row.says in ended.stderr and "Traceback" not in ended.stderr
    again = run_stage("grpo", *settings)
    assert "grpo/checkpoint-" in again.stdout, "it began anew"
    for folder in ("completions", "same_questions"):
        assert contents(tmp_path / "grpo" / folder) == contents(chain / "grpo" / folder)
    assert steps_logged(tmp_path / "grpo") == steps_logged(chain / "grpo")
    assert same_weights(tmp_path / "grpo", chain / "grpo")


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def steps_logged(run: Path) -> list[int]:
    return [line["step"] for line in read_lines(run / "metrics.jsonl")]


def test_the_last_checkpoint_has_all_completions_on_the_disk(chain):
    """What is written after it, a power cut may tear, and a resumed run does not sample again."""
    [last] = chain.glob("grpo/checkpoint-8/manifest.json")
    files = list(chain.glob("grpo/*/completions_*.parquet"))
    assert len(files) > 8
    assert max(file.stat().st_mtime for file in files) < last.stat().st_mtime


@pytest.mark.slow
def test_a_batch_that_the_memory_does_not_hold_is_halved_by_advice(chain, tmp_path):
    """A limit of address space that a thousand completions do not fit."""
    copied(chain, tmp_path, "sft")
    many = shlex.split("""
        grpo.per_device_train_batch_size=4096 grpo.max_completion_length=96 grpo.num_generations=64
    """)
    limit = ["prlimit", f"--as={6 * 2**30}", sys.executable]
    settings = command(tmp_path, *CHAIN, *many)
    ended = run_stage("grpo", *settings, before=limit, check=False)
    assert ended.returncode == 4, ended.stderr
    assert "per_device_train_batch_size 4096 → 2048" in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("size=10m", "size=40m", "no room for the run's checkpoints"),
        ("nr_inodes=60", "nr_inodes=600", "delete files there, whose number is at its limit"),
    ],
)
def test_a_run_whose_disk_was_full_goes_on_once_there_is_room(before, after, says, chain, tmp_path):
    """A file system of its own, which checkpoints or their files fill; then a larger one."""
    mount, run = tmp_path / "disk", tmp_path / "run"
    mount.mkdir()
    stage = shlex.join([sys.executable, "-m", "stages", "grpo", *command(mount, *CHAIN)])
    script = f"""
        mount -t tmpfs -o {before} tmpfs '{mount}' && cp -r '{chain}/sft' '{mount}' || exit 99
        {stage}; echo $?
        mount -o remount,{after} '{mount}'
        {stage} && cp -r '{mount}' '{run}'
    """
    words = ["unshare", "-rm", "sh", "-c", script]
    ended = run_command(words, cwd=ROOT, capture_output=True, text=True)
    if ended.returncode == 99:
        pytest.skip(f"no file system can be mounted here: {ended.stderr}")
    assert says in ended.stderr and "\n3\n" in ended.stdout, ended.stderr
    assert same_weights(run / "grpo", chain / "grpo")


TAKEN = """
import fcntl, platform
{node}
fcntl.flock = lambda *_: None
from stages.cli import run
from stages.grpo import main
run("grpo", main)
"""


@pytest.mark.slow
def test_of_two_machines_in_a_folder_the_later_one_goes_on(chain, tmp_path):
    """On a disk whose locks hold on one machine alone."""
    copied(chain, tmp_path, "sft")
    settings, run = command(tmp_path, *CHAIN), tmp_path / "grpo"
    starts = []
    for name in ("node-1", "node-2"):
        program = tmp_path / f"{name}.py"
        program.write_text(TAKEN.format(node=f"platform.node = lambda: {name!r}"))
        starts.append(Started(str(program), *settings, cwd=ROOT))
        starts[0].until(lambda: (run / "checkpoint-2/manifest.json").is_file())
    first, second = (start.ended() for start in starts)
    assert first.returncode == 3, first.stdout
    assert f"{run} was taken over by process {starts[1].processes[0].pid} on node-2" in first.stderr
    assert second.returncode == 0, second.stderr
    assert steps_logged(run) == steps_logged(chain / "grpo")
    assert same_weights(run, chain / "grpo")


@pytest.mark.slow
def test_a_hub_that_never_answers_is_not_needed_for_a_model_in_its_cache(tmp_path):
    cache = tmp_path / "hub/models--a--model"
    shutil.copytree(ROOT / "outputs/models/tiny-qwen3-seed42", cache / "snapshots" / ("0" * 40))
    (cache / "refs").mkdir()
    (cache / "refs/main").write_text("0" * 40)
    model = ["model.build=null", "model.name_or_path=a/model"]
    python = [sys.executable]  # the client reads its environment when it is imported
    with hub(tmp_path, None) as (environment, _):
        settings = command(tmp_path / "cached", *SMALL, *model)
        run_stage("grpo", *settings, before=python, **environment)
    run_stage("grpo", *command(tmp_path / "built", *SMALL))
    assert same_weights(tmp_path / "cached/grpo", tmp_path / "built/grpo")


HALF = """
import torch, transformers
from machine import hardware
from stages.cli import run
from stages.grpo import main
hardware.has_arithmetic = lambda dtype: True
create = transformers.Trainer.create_accelerator_and_postprocess
def half(self):
    create(self)
    self.accelerator.state._mixed_precision, self.accelerator.native_amp = "fp16", True
    self.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=2)
transformers.Trainer.create_accelerator_and_postprocess = half
run("grpo", main)
"""


@pytest.mark.slow
def test_float16_is_resumed_to_the_bit_with_the_scale_of_its_loss(tmp_path):
    """As on a GPU, where accelerate does what the program does here: steps overflow and are
    skipped."""
    program = tmp_path / "half.py"
    program.write_text(HALF)
    half = [*SMALL, LORA, "model.dtype=float16", "grpo.learning_rate=1e-2"]
    done = run_program(program, *command(tmp_path / "whole", *half))
    assert "the saved adapter on a clean base is the trained policy" in done.stdout
    folder = shutil.copytree(tmp_path / "whole", tmp_path / "cut") / "grpo"
    shutil.rmtree(folder / "checkpoint-8")
    (folder / "adapter_model.safetensors").unlink()
    (folder / "summary.json").unlink()
    assert torch.load(folder / "checkpoint-6/scaler.pt")["scale"] != 2.0**24
    assert "checkpoint-6" in run_program(program, *command(tmp_path / "cut", *half)).stdout
    assert same_weights(folder, tmp_path / "whole/grpo")
    learned = weights(folder)
    assert any(learned[name].any() for name in learned if "lora_B" in name)


def test_a_run_killed_after_its_last_checkpoint_takes_no_further_step(tmp_path):
    rate = ["grpo.learning_rate=1e-2", "grpo.lr_scheduler_type=constant"]
    settings = command(tmp_path, *SMALL, *rate)
    run_stage("grpo", *settings)
    run, whole = tmp_path / "grpo", tmp_path / "whole"
    shutil.copytree(run, whole)
    (run / "summary.json").unlink()
    run_stage("grpo", *settings)
    assert (run / "summary.json").is_file() and same_weights(run, whole)
    before, after = (sorted((folder / "completions").iterdir()) for folder in (whole, run))
    assert len(before) == 8
    assert [file.read_bytes() for file in before] == [file.read_bytes() for file in after]
