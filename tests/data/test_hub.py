"""A Hub that answers, and one that does not."""

import os
import sys

import pytest

from tests.support import hub, run_stage
from tests.waits import capture

ASK = (
    "from data import hub; hub.reach(); hub.reach(); import huggingface_hub as h;"
    " print(h.constants.HF_HUB_OFFLINE)"
)


@pytest.mark.parametrize(
    ("status", "offline", "asked"), [(503, "True", 3), (429, "True", 3), (404, "False", 1)]
)
def test_a_hub_that_does_not_answer_is_not_asked_again(status, offline, asked, tmp_path):
    with hub(tmp_path, status) as (environment, requests):
        done = capture([sys.executable, "-c", ASK], env=os.environ | environment, check=True)
    assert done.stdout.strip() == offline
    assert ("does not answer" in done.stderr) == (offline == "True")
    assert len(requests) == asked


@pytest.mark.train
@pytest.mark.slow
def test_what_is_not_in_the_cache_is_one_line(tmp_path):
    overrides = ["model.build=null", "model.name_or_path=a/model", "sft=null"]
    overrides += [f"output_dir={tmp_path / 'out'}"]
    command = ["recipes/tiny-arithmetic.yaml", *overrides]
    python = [sys.executable]  # the client reads its environment when it is imported
    with hub(tmp_path, 503) as (environment, requests):
        done = run_stage("grpo", *command, before=python, check=False, **environment)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("override model.name_or_path=a/model: model a/model: ")
    assert "Traceback" not in done.stderr
    assert len(requests) == 3
    assert not (tmp_path / "out").exists()
