"""Runs that are interrupted and go on: the same command again ends with what a run ends with that
nothing happened to, to the bit. Columns of the table:

- `stage`, `set`, `options`, `processes`: the command. `way`: `cpu2` launches two processes,
  `process 1` is alone in its namespace, as in a container
- `warm`: the stages before it are those of the `chain`, or are trained by the row's `own` settings
- `after`: a file below `folder` (else the stage's), and how many lines it has at the interruption
- `by`: the signals that are sent, one after another, `to` the processes; `pause`: after so many
  seconds; `damage`: what is done then to the newest checkpoint
- `home`: the home of the command that goes on, if it is another one, as in a container that comes
  back; where none can be made, nothing that is needed may be in it
- `exits`, `leaves`: the exit code of the interrupted run, and a part of what it prints
- `says`, `never`: what the run prints that goes on, and what it does not
- `same`: files that must be equal, in place of the weights
"""

import json
import os
import shlex
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.stage_process import Started
from tests.support import (
    CHAIN,
    LORA,
    NF4,
    ROOT,
    TWO_PROCESSES,
    UNSHARE,
    copied,
    run_stage,
    same_weights,
)
from tests.tables import row_cases

pytestmark = pytest.mark.train
RECIPE = "recipes/tiny-arithmetic.yaml"
# Nearly every group of this reward has a signal, so that each step changes the weights.
OWN = """
    sft.max_steps=40 sft.save_steps=10 sft.per_device_train_batch_size=16 grpo.num_generations=4
    grpo.per_device_train_batch_size=16 rewards.tests.varied_reward.varied='{weight: 1.0}'
"""
# Twice over four micro-batches of two: a generation cycle is four steps of the optimizer.
CYCLE = """
    grpo.num_iterations=2 grpo.steps_per_generation=4 grpo.gradient_accumulation_steps=2
    grpo.save_steps=4
"""
EPOCHS = """
    data.train='[arithmetic: {digits: 1, rows: 8}]' data.validation=2 sft.max_steps=10
    sft.per_device_train_batch_size=2 grpo.per_device_train_batch_size=8
"""
SOLUTIONS = """
    'data.rejection_sampling={problems: 24, samples: 4}' evaluate.batch_size=8 model.build=null
    model.name_or_path={chain}/sft sft.per_device_train_batch_size=8
"""
# Whose dimensions a quantised model needs.
QUANTISED = "model.build=null model.name_or_path={qwen2} sft.max_steps=20 sft.save_steps=5"
WAYS = {"": [], "cpu2": TWO_PROCESSES, "process 1": [*UNSHARE, sys.executable]}
WAYS["python"] = [sys.executable]  # libraries read the name of the home when they are imported


@dataclass(frozen=True)
class Row:
    """A row of the table of interrupted runs."""

    case: str
    stage: str = "grpo"
    set: str = ""
    options: str = ""
    processes: int = 1
    way: str = ""
    warm: str = ""
    folder: str = ""
    after: str = "checkpoint-*/manifest.json"
    pause: float = 0
    by: str = "SIGKILL"
    to: str = "all"
    damage: str = ""
    home: str = ""
    exits: int | None = None
    leaves: str = ""
    says: str = "/checkpoint-"
    never: str = "Traceback"
    same: str = ""


class Runs:
    """The commands of rows, and the uninterrupted runs of those commands."""

    def __init__(self, chain: Path, qwen2: Path, home: Path):
        self.chain, self.home, self.folders = chain, home, {}
        self.names = {"{chain}": str(chain), "{qwen2}": str(qwen2), "{own}": SOLUTIONS}
        self.names |= {"{lora}": f"'{LORA}'", "{nf4}": f"'{NF4}' {QUANTISED}", "{cycle}": CYCLE}
        self.names["{epochs}"] = EPOCHS

    def words(self, text: str) -> list[str]:
        for name in ("{own}", "{nf4}", "{lora}", "{cycle}", "{epochs}", "{chain}", "{qwen2}"):
            text = text.replace(name, self.names[name])
        return shlex.split(text)

    def command(self, row: Row, folder: Path) -> list[str]:
        own = shlex.split(OWN) if row.warm == "own" else []
        settings = [RECIPE, f"output_dir={folder}", *CHAIN, *own, *self.words(row.set)]
        return settings + self.words(row.options)

    def begin(self, row: Row, folder: Path):
        """Copy the stages that the row's stage needs into a folder."""
        if row.warm == "chain":
            copied(self.chain, folder, "sft")
        elif row.stage == "grpo":
            copied(self.uninterrupted(row), folder, "sft")

    def uninterrupted(self, row: Row) -> Path:
        """The folder of a run of the row's command that nothing happened to."""
        processes = 2 if row.way == "cpu2" else row.processes
        if row.warm == "chain" and not row.set and processes == 1:
            return self.chain
        key = (row.stage, row.set, row.options, row.warm, processes)
        if key not in self.folders:
            # Beside the interrupted run, that would take its warm start.
            folder = self.folders[key] = self.home / str(len(self.folders)) / "whole"
            if row.warm == "own" and row.stage == "grpo":
                run_stage("sft", *self.command(row, folder))
            elif row.warm:
                self.begin(row, folder)
            run_stage(row.stage, *self.command(row, folder), processes=processes)
        return self.folders[key]


@pytest.fixture(scope="module")
def runs(chain, tiny_qwen2, tmp_path_factory) -> Runs:
    return Runs(chain, tiny_qwen2, tmp_path_factory.mktemp("whole"))


def reached(folder: Path, after: str) -> bool:
    """Whether a run has come to the moment at which it is interrupted."""
    pattern, _, lines = after.partition(" ")
    files = [folder / pattern] if pattern.startswith("..") else sorted(folder.glob(pattern))
    if not lines:
        return any(file.exists() for file in files)
    return any(len(file.read_text().splitlines()) >= int(lines) for file in files)


def interrupt(started: Started, row: Row):
    targets = [*started.processes]
    if row.way == "process 1":
        targets = psutil.Process(started.processes[0].pid).children()
    elif row.to == "rank 1":
        targets = [started.rank(1)]
    elif row.to == "ranks and launcher":
        targets = [started.rank(0), started.rank(1), *started.processes]
    for name in row.by.split():
        for target in targets:
            os.kill(target.pid, getattr(signal, name))
            time.sleep(0.02)


def newest(folder: Path) -> Path:
    """The newest checkpoint that was written to its end."""
    written = [manifest.parent for manifest in folder.glob("checkpoint-*/manifest.json")]
    return max(written, key=lambda checkpoint: int(checkpoint.name[11:]))


def damage(what: str, folder: Path):
    kind, _, name = what.partition(" ")
    if what == "torn answer":
        with next(folder.glob("*sft.jsonl")).open("a") as file:
            file.write('{"id": 3, "samp')
        return
    if what == "all truncated":
        for checkpoint in folder.glob("checkpoint-*"):
            os.truncate(checkpoint / "optimizer.pt", 100_000)
        return
    file = newest(folder) / name
    if kind == "truncated":
        os.truncate(file, 100_000)
    elif kind == "missing":
        file.unlink()
    elif kind == "torn":
        file.write_text('{"step": 4, "fi')
    elif kind == "flipped":
        content = bytearray(file.read_bytes())
        content[-5000] ^= 0b100
        file.write_bytes(content)


def sampled_again(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.glob("same_questions/*")}


@row_cases(__file__, "interrupted", Row)
def test_an_interrupted_run_ends_as_one_that_nothing_happened_to(row, runs, tmp_path):
    whole, run = runs.uninterrupted(row), tmp_path / "run"
    runs.begin(row, run)
    command, folder = runs.command(row, run), run / (row.folder or row.stage.replace("-", "_"))
    options = {"processes": row.processes, "before": WAYS[row.way]}
    started = Started("stages", row.stage, *command, cwd=ROOT, **options)
    started.until(lambda: reached(folder, row.after))
    time.sleep(row.pause)
    interrupt(started, row)
    ended = started.ended()
    if row.exits is not None:
        assert ended.returncode == row.exits, ended.stderr
    assert row.leaves in ended.stdout + ended.stderr
    assert not (folder / "summary.json").exists()
    for process in psutil.process_iter(["cmdline"]):
        assert f"output_dir={run}" not in (process.info["cmdline"] or []), "it is left behind"
    if row.damage:
        damage(row.damage, folder)
    answers = {}
    for file in folder.glob(row.same.split()[0] if row.same else "no file"):
        answers[file] = file.read_text()

    homes = {}
    if row.home:
        homes = {"HOME": row.home, "HF_HOME": f"{row.home}/huggingface", "MPLCONFIGDIR": ""}
    again = run_stage(row.stage, *command, **options, **homes)
    assert row.says in again.stdout and row.never not in again.stdout
    for file in answers:  # what was there has not been done again
        assert file.read_text().startswith(answers[file].rpartition("\n")[0])
    for pattern in row.same.split():
        [file] = folder.glob(pattern)
        assert file.read_bytes() == (whole / file.relative_to(run)).read_bytes()
    if not row.same:
        assert same_weights(folder, whole / row.stage)
        assert sampled_again(folder) == sampled_again(whole / row.stage)
        cannot_share = row.processes == 2 and "{epochs}" in row.set  # one problem to choose by
        assert bool(sampled_again(folder)) == (row.stage == "grpo" and not cannot_share)
    if not row.same and row.stage != "sft":
        assert not same_weights(folder, run / "sft"), "it has not trained"
    if LORA in command and NF4 not in command:
        adapter = json.loads((folder / "adapter_config.json").read_text())
        assert adapter["base_model_name_or_path"] == "outputs/models/tiny-qwen3-seed42"
    for file in run.rglob("*.*"):  # where its model was loaded from
        assert file.is_dir() or b"/grpo-recipes-links-" not in file.read_bytes(), file
