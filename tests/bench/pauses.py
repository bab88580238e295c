"""Does a run that is paused in each of its phases end with the same weights?

    flock /tmp/heavy.lock python -m tests.bench.pauses ../pauses --seconds 60

Trains tiny-arithmetic twice: once as it is, and once with its whole process group stopped (SIGSTOP)
for so many seconds in each phase, and then resumed. The rewards may take 5 seconds a batch, so that
a pause is longer than their time and the grace after it. Prints the hashes of both runs' weights
and of their answers to the validation problems, and exits with 1 where they differ.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from runs.files import file_hash
from tests.support import ROOT

# Stage → phase → the function in which it is stopped, at which of its calls, and after how many
# seconds in it.
SHARED = {
    "check": ("stages.frame.require_machine", 1, 0),
    "setup": ("stages.frame.load_data", 1, 0),
    "loading the model": ("training.model.load_weights", 1, 0.05),
    "a step": ("transformers.Trainer.training_step", 40, 0.01),
    "saving": ("training.callbacks.write_manifest", 1, 0.005),
    "the end": ("stages.frame.finish", 1, 0.005),
}
PHASES = {
    "sft": SHARED,
    "grpo": SHARED
    | {
        "sampling": ("transformers.GenerationMixin.generate", 5, 0.05),
        "reward": ("training.scoring._copied", 10, 0),
        "report": ("evaluation.run_pages.report", 1, 0),
    },
    "evaluate": {
        "evaluation": ("evaluation.completions.StoredCompletions.complete", 1, 0.05),
        "sampling": ("transformers.GenerationMixin.generate", 2, 0.05),
        "verdicts": ("evaluation.completions.judge_all", 1, 0),
    },
}
# Stops its process group in the function, or in what soon follows it.
PROGRAM = """
import importlib, os, pkgutil, signal, sys, threading
def stop_in(phase, path, calls, seconds):
    owner, name = pkgutil.resolve_name(path.rpartition(".")[0]), path.rpartition(".")[2]
    function, count = getattr(owner, name), [0]
    def stops(*words, **named):
        count[0] += 1
        if count[0] == calls:
            print("paused in", phase, flush=True)
            stopper = threading.Timer(seconds, os.killpg, (0, signal.SIGSTOP))
            stopper.start()
            if not seconds:
                stopper.join()
        return function(*words, **named)
    setattr(owner, name, stops)
{stops}
importlib.import_module("stages.{stage}")
from stages.cli import run
run("{stage}")
"""


def run_stage(stage: str, folder: Path, seconds: float | None) -> None:
    """Run a stage of the recipe in a folder; with `seconds`, paused in each of its phases."""
    phases = PHASES[stage] if seconds else {}
    stops = "\n".join(f"stop_in({phase!r}, *{place!r})" for phase, place in phases.items())
    words = [sys.executable, "-c", PROGRAM.format(stops=stops, stage=stage)]
    words += ["recipes/tiny-arithmetic.yaml", f"output_dir={folder}"]
    words += ["rewards.correct_answer.timeout=5", "rewards.format_tags.timeout=5"]
    words += ["--validation"] if stage == "evaluate" else []
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(words, cwd=ROOT, env=environment, start_new_session=True)
    pauses = 0
    while process.poll() is None:
        if Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
            pauses += 1
            time.sleep(seconds or 0)
            os.killpg(process.pid, signal.SIGCONT)
        time.sleep(0.2)
    print(f"{stage}: exit code {process.returncode}, {pauses} pauses", flush=True)
    if process.returncode or pauses < len(phases):
        sys.exit(f"{stage} in {folder} was not paused in each of its phases, or failed")


def results(folder: Path) -> dict[str, str]:
    """What must be the same: the weights' hashes, and the answers' verdicts."""
    found = {stage: file_hash(folder / stage / "model.safetensors") for stage in ("sft", "grpo")}
    for label in ("base", "sft", "grpo"):
        lines = (folder / f"eval/validation/{label}.jsonl").read_text().splitlines()[1:]
        found[f"answers of {label}"] = sum(json.loads(line)["correct"] for line in lines)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    arguments = parser.parse_args()
    outcomes = {}
    for name, seconds in (("paused", arguments.seconds), ("unpaused", None)):
        folder = arguments.folder.absolute() / name
        for stage in PHASES:
            run_stage(stage, folder, seconds)
        outcomes[name] = results(folder)
    for key, value in outcomes["unpaused"].items():
        print(f"{key}: {value} unpaused, {outcomes['paused'][key]} paused")
    sys.exit(outcomes["paused"] != outcomes["unpaused"])


if __name__ == "__main__":
    main()
