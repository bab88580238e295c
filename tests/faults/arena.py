"""A folder for one fault, and the ways to run GRPO there."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil

from tests.faults.outcome import Outcome
from tests.support import ACCELERATE, OWN_REWARDS, ROOT, TWO_PROCESSES, same_weights, weights
from tests.waits import end, run_command, start_command, until

STEPS = 8
SHORT = ["data.validation=40", "sft.max_steps=100", f"grpo.max_steps={STEPS}", "grpo.save_steps=2"]
SHORT += ["grpo.logging_steps=1", "grpo.save_total_limit=3", "grpo.num_iterations=1"]
PAIR = ["grpo.per_device_train_batch_size=12"]
CPU2 = [ACCELERATE, *TWO_PROCESSES]
SECOND = "checkpoint-4/trainer_state.json"  # the last file but the manifest
PATIENCE = 300  # seconds for any one run


class Arena:
    """A folder for one fault, with the warm start in it, and the ways to run GRPO there.

    Args:
        home: where the warm start and the uninterrupted runs are kept, by their overrides.
        trl: run trl's own trainer instead of ours.
        always: overrides of every run, the warm start's too.
    """

    def __init__(self, home: Path, name: str, trl: bool = False, always: list[str] = ()):
        self.home, self.trl, self.always = home, trl, always
        self.folder = home / ("trl" if trl else "ours") / name.replace(" ", "-").replace("/", "-")
        self.grpo = self.folder / "grpo"
        shutil.rmtree(self.folder, ignore_errors=True)
        if not (home / "sft/summary.json").is_file():
            self._finish(self.command(home, module="stages.sft"))
        shutil.copytree(home / "sft", self.folder / "sft")

    def command(
        self, folder: Path, *overrides: str, module: str | None = None, launcher: list[str] = ()
    ) -> list[str]:
        module = module or ("tests.trl_auto_resume" if self.trl else "stages.grpo")
        recipe = [
            "recipes/tiny-arithmetic.yaml",
            f"output_dir={folder}",
            *SHORT,
            *self.always,
            *overrides,
        ]
        return [*(launcher or [sys.executable]), "-m", module, *recipe]

    def start(
        self, *overrides: str, launcher: list[str] = (), **environment: str
    ) -> subprocess.Popen:
        return start_command(
            self.command(self.folder, *overrides, launcher=launcher),
            cwd=ROOT,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "TRUST_FILES": OWN_REWARDS} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *overrides: str, launcher: list[str] = (), **environment: str) -> Outcome:
        """A whole run."""
        return self.ended(self.start(*overrides, launcher=launcher, **environment))

    def ended(self, process: subprocess.Popen) -> Outcome:
        try:
            said, code = process.communicate(timeout=PATIENCE)[0], process.returncode
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            said, code = process.communicate(timeout=PATIENCE)[0], None
        return Outcome(code, said.replace(str(self.folder), "…").replace(f"{ROOT}/", ""))

    def when(self, file: str, process: subprocess.Popen):
        """Wait until a file of the run is there."""
        try:
            until(
                lambda: not file or (self.grpo / file).exists(),
                PATIENCE,
                running=[process],
                pause=0.001,
            )
        except AssertionError as failure:
            end(process)
            failure.add_note(process.communicate(timeout=PATIENCE)[0][-2000:])
            raise

    def interrupted(
        self, *overrides: str, after: str = SECOND, wait: float = 0.3, **environment: str
    ):
        """A run that was killed so many seconds after a file of it was there, or after its
        start."""
        process = self.start(*overrides, **environment)
        self.when(after, process)
        time.sleep(wait)
        process.kill()
        process.communicate(timeout=PATIENCE)

    def compared(
        self, outcome: Outcome, *overrides: str, launcher: list[str] = (), **noted: object
    ) -> Outcome:
        """An outcome with the weights there are now, beside those of a run that nothing happened
        to."""
        noted = {what.replace("_", " "): value for what, value in noted.items()}
        return outcome._replace(weights=self._weights(*overrides, launcher=launcher), noted=noted)

    def _weights(self, *overrides: str, launcher: list[str] = ()) -> str:
        if not weights(self.grpo):
            return "no"
        if not finite(self.grpo):
            return "not finite"
        key = "-".join(["trl" if self.trl else "ours", *overrides, "two" if launcher else "one"])
        whole = self.home / "whole" / "".join(c if c.isalnum() else "-" for c in key)
        if not weights(whole / "grpo"):
            shutil.copytree(self.home / "sft", whole / "sft", dirs_exist_ok=True)
            self._finish(self.command(whole, *overrides, launcher=launcher))
        return "same" if same_weights(self.grpo, whole / "grpo") else "other"

    def _finish(self, command: list[str]):
        done = run_command(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-3000:])

    def newest(self) -> Path | None:
        """The newest checkpoint that was written to its end: what comes last is there."""
        last = "trainer_state.json" if self.trl else "manifest.json"
        written = [each.parent for each in self.grpo.glob(f"checkpoint-*/{last}")]
        return max(written, key=lambda each: int(each.name[11:]), default=None)


def finite(folder: Path) -> bool:
    """Whether every weight there is."""
    return all(np.isfinite(each).all() for each in weights(folder).values())


def ranks(launcher: subprocess.Popen) -> list[psutil.Process]:
    """A launcher's ranks, in order, without the verifier's workers."""
    below = psutil.Process(launcher.pid).children(recursive=True)
    found = [
        each
        for each in below
        if "RANK" in each.environ() and "rewards" not in " ".join(each.cmdline())
    ]
    return sorted(found, key=lambda each: each.environ()["RANK"])
