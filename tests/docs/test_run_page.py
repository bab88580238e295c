"""docs/run.md explains every number that a run logs."""

import re

from tests.support import ROOT, read_lines

PAGE = (ROOT / "docs/run.md").read_text(encoding="utf-8")


def explained() -> set[str]:
    """The names of the table; one without a folder has that of the name before it."""
    section = PAGE.split("## What does each logged number mean?")[1].split("\n## ")[0]
    names = set()
    for row in re.findall(r"^\| (`.*?) \|", section, re.M):
        folder = ""
        for name in re.findall(r"`([^`]+)`", row):
            if "/" in name:
                folder = name.rpartition("/")[0]
            names |= {name, f"{folder}/{name}"}
    return names


def test_every_number_that_a_run_logs_is_explained(chain):
    logged = set().union(*read_lines(chain / "grpo/metrics.jsonl"))
    logged = {re.sub(r"^rewards/\w+/", "rewards/<name>/", key) for key in logged}
    logged = {key for key in logged if not key.startswith("eval_")}
    assert len(logged) > 30
    assert sorted(logged - explained()) == []
