"""Waits that end, and what they end."""

import subprocess
from pathlib import Path

import pytest

from tests.waits import all_ended, is_gone, run_command, start_command, until

LEAVES_ONE = "sleep 600 & echo $! > left; exit 0"


def _pid(folder: Path) -> int:
    until(lambda: (folder / "left").is_file() and (folder / "left").read_text().strip(), 60)
    return int((folder / "left").read_text())


def test_what_an_ended_program_left_ends_at_the_deadline(tmp_path):
    """It holds the pipe open, and has no parent by which it is seen."""
    with pytest.raises(subprocess.TimeoutExpired):
        run_command(["sh", "-c", LEAVES_ONE], timeout=2, cwd=tmp_path, capture_output=True)
    until(lambda: is_gone(_pid(tmp_path)), 60)


def test_what_an_ended_program_left_ends_with_the_test(tmp_path):
    with all_ended():
        process = start_command(["sh", "-c", LEAVES_ONE], cwd=tmp_path)
        process.wait(60)
        pid = _pid(tmp_path)
    until(lambda: is_gone(pid), 60)
