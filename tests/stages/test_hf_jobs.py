"""launch/grpo.hf.sh: the command that starts it, read by the Hub's own program; and what it does
inside a job, with a folder in place of the bucket."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.tables import cases, yaml_text
from tests.waits import capture

SCRIPT = ROOT / "launch/grpo.hf.sh"
# `hf buckets sync from to …` of whole folders, where one of the two is in the bucket.
HF = yaml_text(__file__, "hf")
# A run, into the folder that the last of the overrides names.
MAKE = yaml_text(__file__, "make")


def shown(file: Path) -> list[str]:
    """The words of the `hf jobs run` that a file shows."""
    text = re.search(r"hf jobs run (?:.*\\\n)*.*", file.read_text(encoding="utf-8"))[0]
    return shlex.split(re.sub(r"\\\n#? *", "", text))


def test_the_documented_command_is_read_as_meant():
    words = shown(ROOT / "docs/scaling.md")
    assert words == shown(SCRIPT)
    hf = str(Path(sys.executable).with_name("hf"))
    command = [hf, *words[1:3], "--dry-run", *words[3:]]
    done = capture(command, env=os.environ | {"HF_TOKEN": "hf_secret"})
    assert done.returncode == 0, done.stderr
    settings = r"RECIPE=qwen-math-lora\s+BUCKET=me/grpo"
    for pattern in (r"timeout +12h", settings, r"HF_TOKEN=\*+", "not submitted"):
        assert re.search(pattern, done.stdout), done.stdout
    assert str(SCRIPT.relative_to(ROOT)) in words[-1] and os.access(SCRIPT, os.X_OK)


@cases(__file__, "a_job_finds_what_the_last_one_kept")
def test_a_job_finds_what_the_last_one_kept(kept, code, name, every, tmp_path):
    programs = {".venv/bin/hf": HF, "bin/make": MAKE}
    for file, text in programs.items():
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(text)
        (tmp_path / file).chmod(0o755)
    bucket = tmp_path / "buckets/me/grpo" / name
    if kept:
        (bucket / kept).mkdir(parents=True)
    recipe = f"recipes/{name}" + ".yaml" * (name == "mine")
    given = {"RECIPE": recipe, "BUCKET": "me/grpo", "CODE": str(code), "EVERY": every}
    given["ARGS"] = "seed=2 output_dir=outputs/other"
    given["PATH"] = f"{tmp_path}/bin:{os.environ['PATH']}"
    done = capture([SCRIPT], cwd=tmp_path, env=os.environ | given)
    assert done.returncode == code, done.stderr
    assert f"{given['RECIPE']} seed=2: found {kept}\n" in done.stdout
    if code == 75:  # another job has begun
        assert "another job has begun" in done.stderr and not (bucket / "end").exists()
        return
    assert done.stdout.count("copied to ./buckets") >= 1 + (every == "1")  # while it ran, too
    assert (bucket / "end").read_text() == "trained\n" and not (tmp_path / "ran").exists()


@pytest.mark.parametrize("missing", ["RECIPE", "BUCKET"])
def test_what_must_be_given(missing, tmp_path):
    environment = os.environ | {"RECIPE": "x", "BUCKET": "me/x"}
    del environment[missing]
    done = capture([SCRIPT], cwd=tmp_path, env=environment)
    assert done.returncode != 0 and f"{missing}: is the name of a" in done.stderr
