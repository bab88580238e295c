"""`make test-weekly` says of each lane what it came to."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests import weekly
from tests.support import ROOT, run_program
from tests.weekly import LANES, judged

PASSED = '<testcase classname="a" name="b"/>'
FAILED = '<testcase classname="a" name="c"><failure message="x"/></testcase>'
SKIPPED = '<testcase classname="a" name="d"><skipped message="no GPU"/></testcase>'


@pytest.mark.parametrize(
    ("cases", "code", "state", "notes"),
    [
        (PASSED, 0, "green", []),
        (PASSED + 2 * SKIPPED, 0, "green", ["skipped: no GPU (2)"]),
        (PASSED + FAILED, 1, "failed", ["failed: a::c (1)"]),
        (FAILED.replace("failure", "error"), 1, "failed", ["failed: a::c (1)"]),
        (PASSED, 3, "failed", []),  # pytest itself
        (SKIPPED, 0, "not here", ["skipped: no GPU (1)"]),
        ("", 5, "not here", []),
    ],
)
def test_a_lane_is_green_failed_or_not_here(cases, code, state, notes):
    result = judged(ET.fromstring(f"<testsuites>{cases}</testsuites>"), code, 1.5)
    assert (result.state, result.notes) == (state, notes)


def test_a_lane_whose_environment_is_missing_says_what_installs_it(tmp_path):
    lane = LANES["vllm"]._replace(python=str(tmp_path / "bin/python"))
    result = weekly.run(lane)
    assert result.state == "not here" and "make .venv-vllm/installed" in result.notes[0]
    assert "| vllm | not here | 0 | 0 | 0 | 0 |" in weekly.table({"vllm": result})


def test_the_lanes_are_those_of_the_workflow_and_name_files_that_exist():
    workflow = (ROOT / ".github/workflows/weekly.yml").read_text()
    [names] = re.findall(r"lane: \[(.*)\]", workflow)
    assert names.split(", ") == list(LANES)
    for lane in LANES.values():
        for word in lane.tests:
            if "tests/" in word:
                assert Path(word.removeprefix("--ignore=")).exists()


def test_a_lane_that_does_not_exist_is_one_line():
    done = run_program("tests.weekly", "fsdp", check=False)
    assert done.returncode == 1
    assert done.stderr.strip().startswith("there is no lane fsdp; there are: ddp fsdp2")
