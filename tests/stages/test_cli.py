"""The command line that all stages share."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from schema.recipe import load_recipe
from stages import frame, recipes
from tests.support import ROOT
from tests.waits import capture, in_time, start_command, until

STAGE = """
import atexit
import torch
from stages.cli import run

class Kept:
    def __del__(self):
        print("taken down")

def main(recipe):
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)

kept = Kept()
atexit.register(lambda: print("in a group:", torch.distributed.is_initialized()))
run("x", main)
"""


def test_a_finished_stage_leaves_its_process_group_and_ends_before_the_interpreter_does():
    """gloo's threads may abort a process whose interpreter is taken down."""
    command = [sys.executable, "-c", STAGE, "recipes/tiny-arithmetic.yaml"]
    done = capture(command, check=True)
    assert done.stdout.strip() == "in a group: False"


HELP = """
import sys
from contextlib import suppress
from importlib.util import find_spec
from stages.cli import run_named
from stages.table import STAGES
for stage in STAGES.values():
    if find_spec(stage.module):
        sys.argv = ["-m", stage.name, "--help"]
        with suppress(SystemExit):
            run_named()
print(sorted({"torch", "transformers", "pandas", "matplotlib"} & set(sys.modules)))
"""


def test_the_help_of_a_stage_imports_no_library():
    printed = capture([sys.executable, "-c", HELP], check=True).stdout
    assert printed.count("usage: python -m stages ") >= 17
    assert printed.splitlines()[-1] == "[]"


def test_only_what_is_needed_is_called_required():
    done = capture([sys.executable, "-m", "stages", "check"])
    assert done.returncode == 2 and "are required: recipe; " in done.stderr


def test_a_job_script_of_an_earlier_version_is_told_the_new_command():
    done = capture([sys.executable, "-m", "stages.probe_memory", "recipes/tiny-arithmetic.yaml"])
    assert (done.returncode, done.stdout) == (2, "")
    assert "-m stages probe-memory" in done.stderr


def test_files_that_are_no_recipes_are_told_among_those_that_are(tmp_path, capsys):
    (tmp_path / "a.yaml").write_text("# What it is.\n# Needs  much\n")
    (tmp_path / ".#a.yaml").symlink_to("me@here.123")  # of an editor
    (tmp_path / "b.yaml").mkdir()
    os.mkfifo(tmp_path / "c.yaml")
    recipes.main(tmp_path)
    said = capsys.readouterr().out
    assert said.count("cannot be read (") == 3
    row = " ".join(said.splitlines()[2].split())
    assert row == "a What it is. much not yet run"


def test_each_recipe_is_one_line_and_the_measured_ones_come_first(capsys):
    recipes.main()
    lines = capsys.readouterr().out.splitlines()[1:-2]
    assert len(lines) == len(list(Path("recipes").glob("*.yaml"))) and max(map(len, lines)) <= 112
    assert any(line.endswith("of SVAMP by format") for line in lines)  # what a gain is stays
    not_run = [line.endswith("not yet run") for line in lines]
    assert lines[0].startswith("tiny-arithmetic ") and not_run == sorted(not_run)


LAUNCH = [sys.executable, "-m", "stages", "launch"]
LAUNCH += ["--config_file", "accelerate_configs/cpu2.yaml"]


ENDS = [  # processes, the program of each, the launch's exit code
    (2, "os.environ['RANK'] == '1' and sys.exit(3); time.sleep(600)", 3),
    (2, "sys.exit(75)", 75),
    (2, "sys.exit(0)", 0),
    (2, "os.kill(os.getpid(), 9)", 137),
    (1, "sys.exit(75)", 75),
]
SLOW_ENDS = [pytest.param(*row, marks=pytest.mark.slow) for row in ENDS[1:]]


@pytest.mark.train
@pytest.mark.parametrize(("processes", "program", "code"), [ENDS[0], *SLOW_ENDS])
def test_a_launch_ends_as_its_processes_did(processes, program, code, tmp_path):
    (tmp_path / "program.py").write_text(f"import os, sys, time\n{program}\n")
    config = "cpu2" if processes > 1 else "single"
    command = [*LAUNCH[:-1], f"accelerate_configs/{config}.yaml", tmp_path / "program.py"]
    with in_time():
        done = capture(command)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


PROCESS = """
import os, time
from console.faults import RecipeError, RunStopped
from stages.cli import mistakes_reported

first = os.environ["RANK"] == "0"
with mistakes_reported():
"""
TRAINS = "from training.train import Interrupts; Interrupts().training = True"
GLOO = "[/x/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:65183. This is"
LOST = f"first or os.kill(os.getpid(), 9); time.sleep(1); raise RuntimeError({GLOO!r})"
# One that could go on is not asked to save: it would wait for the other.
NOT_SAVED = f"{TRAINS}; time.sleep(600) if first else time.sleep(2); os._exit(5)"


@pytest.mark.train
@pytest.mark.parametrize(
    ("each_process", "code", "said"),
    [
        pytest.param("raise RecipeError(['incorrect'])", 2, "incorrect", marks=pytest.mark.slow),
        ("time.sleep(600) if first else None; raise RunStopped('stopped', 3)", 3, "stopped"),
        # One that has lost another leaves it to that one's launcher.
        (LOST, 137, "launch: process 1 was"),
        pytest.param(NOT_SAVED, 5, "", marks=pytest.mark.slow),
    ],
)
def test_what_is_incorrect_is_said_once(each_process, code, said, tmp_path):
    (tmp_path / "program.py").write_text(f"{PROCESS}    {each_process}\n")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with in_time():  # a process that sleeps is not waited for
        done = capture([*LAUNCH, tmp_path / "program.py"], env=environment)
    assert done.returncode == code
    expected = [said] if said else []
    assert [each[: len(said)] for each in done.stderr.strip().splitlines()] == expected


@pytest.mark.train
def test_a_launch_that_was_told_to_stop_can_go_on(tmp_path):
    """When both of its processes run."""
    text = "import os, pathlib, time\n"
    text += "pathlib.Path(__file__).with_name(os.environ['RANK']).touch()\n"
    (tmp_path / "program.py").write_text(f"{text}time.sleep(600)\n")
    pipes = {"cwd": ROOT, "stderr": subprocess.PIPE, "text": True}
    process = start_command([*LAUNCH, tmp_path / "program.py"], **pipes)
    for rank in ("0", "1"):
        until((tmp_path / rank).exists, running=[process])
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 75
    assert "Traceback" not in said


@pytest.mark.train
def test_a_port_in_use_is_one_message():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = ["--num_machines", "2", "--machine_rank", "0", "--main_process_ip", "127.0.0.1"]
        options += ["--main_process_port", str(taken.getsockname()[1])]
        done = capture([*LAUNCH, *options, "-m", "stages", "grpo"])
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("launch: Tried to launch distributed communication on port")
    assert "Traceback" not in done.stderr


def test_a_template_that_raises_ends_a_stage_in_a_sentence():
    program = "import jinja2; from stages.cli import mistakes_reported\nwith mistakes_reported():\n"
    program += "    jinja2.Template('{{ messages[5].content }}').render(messages=[])"
    done = capture([sys.executable, "-c", program])
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "the chat template fails: UndefinedError: " in done.stderr


def test_a_run_that_is_sent_elsewhere_says_so_first(tmp_path, monkeypatch, capsys):
    """wandb need not be there for that."""

    def enough():
        raise KeyboardInterrupt

    monkeypatch.setattr(frame, "require_machine", lambda *given: None)
    monkeypatch.setattr(frame, "quiet_libraries", enough)
    given = [f"output_dir={tmp_path}", "sft.report_to=[tensorboard, wandb]"]
    with pytest.raises(KeyboardInterrupt):
        frame.train_stage("sft", load_recipe("recipes/tiny-arithmetic.yaml", given), None)
    assert capsys.readouterr().out.splitlines()[-1] == "sft: this run is sent to wandb"
