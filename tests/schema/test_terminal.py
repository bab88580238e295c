"""What a person at a terminal sees."""

import os
import pty
import subprocess
import sys

from schema.terminal import clean
from tests.support import ROOT

TABLE = "from schema.terminal import say_markdown; say_markdown('| GiB | full |\\n| --- | ---: |\\n| weights | 0.5 |')"


def test_a_table_is_drawn_on_a_terminal_and_left_as_it_is_in_a_file():
    command = [sys.executable, "-c", TABLE]
    assert "| --- | ---: |" in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    leader, follower = pty.openpty()
    subprocess.run(command, cwd=ROOT, stdout=follower, check=True, env=os.environ | {"TERM": "xterm"})
    drawn = os.read(leader, 10_000).decode()
    assert "weights" in drawn and "| ---" not in drawn and "──" in drawn


def test_control_characters_are_spelled_out():
    assert clean("a\x1b]0;title\x07b\tc\nd\x9b2J") == "a\\x1b]0;title\\x07b\tc\nd\\x9b2J"
