"""What make itself decides."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from console.terminal import make_line
from tests.support import ROOT, write_program
from tests.tables import cases
from tests.waits import capture, run_command


@cases(__file__, "which_gpus_a_stage_sees")
def test_which_gpus_a_stage_sees(given, options, seen):
    environment = {key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"}
    environment |= {"CUDA_VISIBLE_DEVICES": given} if given else {}
    show = "--eval=show: ; @echo $${CUDA_VISIBLE_DEVICES-unset}"
    done = capture(["make", "-s", show, "show", *options], env=environment)
    assert done.stdout.strip() == seen, done.stderr


@cases(__file__, "which_gpu_the_tests_see")
def test_which_gpu_the_tests_see(target, given, seen):
    """Most none; those of a GPU the first, and then those of two GPUs all."""
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": given}
    said = capture(["make", "-n", target], env=environment).stdout
    lines = [line.strip() for line in said.splitlines() if "pytest" in line]
    assert re.match(
        rf"(OMP_NUM_THREADS=1 |GPU_TESTS=1 )?CUDA_VISIBLE_DEVICES={seen} \.venv/bin/python -m"
        r" pytest ",
        lines[0],
    )
    expected = target == "test-gpu"
    assert ("python -m pytest -m gpu -rs tests/stages/test_two_gpus.py" in lines[-1]) == expected


@pytest.fixture
def checkout(tmp_path):
    """What `make setup` reads, and the marks of an environment that has `dev`."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    mark(tmp_path, "dev")
    return tmp_path


BOTH = "--requirements pyproject.toml --extra dev --extra vllm\n"


def mark(folder: Path, *extras: str):
    (folder / ".venv/bin").mkdir(parents=True, exist_ok=True)
    (folder / ".venv/bin/python").unlink(missing_ok=True)
    (folder / ".venv/bin/python").symlink_to(sys.executable)
    for name in ("bin/uv", "installed", *(f"with-{each}" for each in extras)):
        (folder / ".venv" / name).touch()


def setup(
    folder: Path, *options: str, dry: bool = True, path: str = "/usr/bin:/bin"
) -> subprocess.CompletedProcess:
    python = f"PYTHON={sys.executable}"
    command = ["make", *(["-n"] if dry else []), "setup", python, *options]
    return capture(command, cwd=folder, env={"PATH": path})


@pytest.fixture
def stages_told(checkout):
    """A function of a shell's command: the module and the arguments of each stage that `make` there
    runs, as the stage has them, from a Python that only tells. Whatever ran besides would have left
    a file."""
    mark(checkout, "dev")
    tells = f"""import json, sys
sys.path.insert(0, {str(ROOT)!r})
module, sys.argv = sys.argv[2], ["-m", *sys.argv[3:]]
import stages
print(json.dumps([module, *sys.argv[1:]]))
"""
    python = checkout / ".venv/bin/python"
    python.unlink()
    write_program(python, tells)

    def told(command: str | list[str], **environment: str) -> list[list[str]]:
        before = set(checkout.iterdir())
        command = ["sh", "-c", command] if isinstance(command, str) else command
        environment = {"PATH": "/usr/bin:/bin"} | environment
        done = capture(command, cwd=checkout, env=environment)
        assert done.returncode == 0, done.stderr
        assert set(checkout.iterdir()) == before
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]

    return told


# A name a line, and two of two lines or a backslash at the end.
HOSTILE = r"""
a b
it's
say "x"
`touch ran`
$(touch ran)
$(shell touch ran)
${shell touch ran}
$HOME $$ $(ARGS)
'; touch ran; '
"; touch ran; "
a|b&c;d>ran
\'
a#b
*
[a-z]?
-rf
a=b:=c
%!a
(x),y
~
"""
HOSTILE = HOSTILE.strip().splitlines()
HOSTILE += ["a\ntouch ran", "a\\", "\U0001f600 é ــ"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_in_a_printed_command_arrives_whole_and_nothing_in_it_runs(name, stages_told):
    def pasted(target: str, **options: str | list) -> list[list[str]]:
        return stages_told(make_line(target, **options))

    given = {
        "RECIPE": name,
        "ARGS": [f"a={name}"],
        "CARD": name,
        "ACCELERATE": name,
        "PROCESSES": name,
    }
    card = f"--card={name}"
    assert pasted("check", **given) == [["stages.check", f"recipes/{name}.yaml", f"a={name}", card]]
    shown = [f"--html={name}", f"--port={name}"]
    assert pasted("view", RUN=[name], HTML=name, PORT=name) == [["stages.view", name, *shown]]
    picked = [f"--step={name}", f"--row={name}"]
    assert pasted("explain", RUN=[name], STEP=name, ROW=name) == [["stages.explain", name, *picked]]


def test_several_names_arrive_whole(stages_told):
    def pasted(target: str, **options: str | list) -> list[str]:
        return stages_told(make_line(target, **options))[-1]

    recipe, file = f"mine/{HOSTILE[5]}", f"--config_file=accelerate_configs/{HOSTILE[5]}.yaml"
    assert pasted("evaluate", MODEL=HOSTILE)[2:] == [f"--model={each}" for each in HOSTILE]
    assert pasted("evaluate")[2:] == []
    assert pasted("chat", RUN=HOSTILE)[1:] == HOSTILE
    assert pasted("report", FILE=HOSTILE)[1:] == HOSTILE
    assert pasted("compare", RUNS=HOSTILE)[1:] == HOSTILE
    launched = pasted(
        "sft", RECIPE=recipe, ARGS=HOSTILE, ACCELERATE=HOSTILE[5], PROCESSES=HOSTILE[5]
    )
    assert launched == [
        "stages.launch",
        file,
        f"--num_processes={HOSTILE[5]}",
        "-m",
        "stages.sft",
        recipe,
        *HOSTILE,
    ]


def test_the_values_reach_each_seed_once(stages_told):
    """Through a make inside make."""
    recipe, args = f"mine/{HOSTILE[5]}.yaml", HOSTILE
    told = stages_told(make_line("seeds", RECIPE=recipe, ARGS=args, SEEDS="1 2"))
    assert told[0] == ["stages.seeds", recipe, *args, "--check", "--seeds=1 2"]
    assert told[-1] == ["stages.seeds", recipe, *args, "--seeds=1 2"]
    trained = [each[1:] for each in told if each[0] == "stages.grpo"]
    assert trained == [
        [recipe, *args, f"seed={i}", f"output_dir=outputs/{HOSTILE[5]}/seed-{i}"] for i in (1, 2)
    ]


def test_each_rate_is_tried_with_one_seed_and_compared(stages_told, checkout):
    recipe, args, name = f"mine/{HOSTILE[5]}.yaml", HOSTILE, HOSTILE[5]
    told = stages_told(make_line("tune", RECIPE=recipe, ARGS=args, RATES="2e-5 1e-4"))
    assert told[0] == ["stages.seeds", recipe, *args, "--check", "--seeds=101"]
    runs = [f"outputs/{name}/rate-{rate}" for rate in ("2e-5", "1e-4")]
    given = zip(("2e-5", "1e-4"), runs, strict=True)
    trained = [each[1:] for each in told if each[0] == "stages.grpo"]
    assert trained == [
        [recipe, *args, "seed=101", f"grpo.learning_rate={rate}", f"output_dir={run}"]
        for rate, run in given
    ]
    assert told[-1] == ["stages.compare", *runs]
    command, environment = ["make", "tune", "RATES=1e-4;touch ran"], {"PATH": "/usr/bin:/bin"}
    wrong = capture(command, cwd=checkout, env=environment)
    assert wrong.returncode == 2 and "RATES: expected learning rates" in wrong.stderr
    assert not (checkout / "ran").exists()


def test_what_the_environment_gives_is_not_run_either(stages_told):
    given = "$(shell touch ran)'; touch ran"
    assert stages_told("make audit", RECIPE=given)[1] == ["stages.audit", f"recipes/{given}.yaml"]


def test_the_lab_is_written_as_one_file(stages_told):
    assert stages_told("make lab HTML=x.html") == [["stages.view", "--lab", "--html=x.html"]]


@pytest.mark.parametrize("target", ["help", "-n grpo", "-n seeds"])
def test_make_tells_without_running(target, checkout):
    done = capture(["make", *target.split()], cwd=checkout)
    assert done.returncode == 0 and "grpo" in done.stdout, done.stderr


def test_setup_installs_a_part_that_is_not_there_yet(checkout):
    assert "Nothing to be done" in setup(checkout).stdout
    said = setup(checkout, "EXTRAS=dev,vllm", "PIP_ARGS=--find-links there").stdout
    assert (
        "uv pip install --quiet --find-links there --python .venv/bin/python --constraint"
        " requirements.lock" in said
    )
    assert "requirements.lock --require-hashes" in said
    assert BOTH in said and "-m pip" not in said
    assert BOTH in setup(checkout, "EXTRAS=vllm").stdout  # what is there stays


def test_setup_keeps_what_is_there_up_to_date(checkout):
    mark(checkout, "dev", "vllm")
    assert "Nothing to be done" in setup(checkout).stdout
    later = time.time() + 5
    os.utime(checkout / "requirements.lock", (later, later))
    assert BOTH in setup(checkout).stdout


def test_pip_installs_uv_by_its_hash_and_of_torch_the_build_for_cpus(checkout):
    (checkout / ".venv/bin/uv").unlink()
    said = setup(checkout, "EXTRAS=vllm", "TORCH=cpu").stdout
    assert "-m pip install --quiet  --require-hashes --requirement .venv/uv.txt\n" in said
    assert "install --quiet --no-deps --index-url https://download.pytorch.org/whl/cpu" in said
    # it is not there for that torch, and all else is verified
    assert "requirements.lock --require-hashes" not in said
    assert said.count("-m pip install") == 2 and "index" not in said.replace("--index-url", "", 1)
    (line,) = (line for line in said.splitlines() if "uv.txt" in line and line.startswith("sed"))
    run_command(line, shell=True, cwd=checkout, check=True)
    pinned, *hashes = (checkout / ".venv/uv.txt").read_text().splitlines()
    assert pinned.startswith("uv==") and hashes and all("--hash=sha256:" in each for each in hashes)


def test_setup_refuses_a_part_that_does_not_exist(checkout):
    done = setup(checkout, "EXTRAS=vlm", dry=False)
    assert done.returncode == 2
    assert (
        "EXTRAS=vlm: there is no such part; there are: vllm,deepspeed,smollm2,trackers,browser,dev"
        in done.stderr
    )
    assert "Traceback" not in done.stderr


def test_setup_asks_before_it_downloads_whether_it_would_run(checkout):
    question, download = "-m machine.hardware dev vllm\n", "uv pip install"
    # nothing to ask with: the Dockerfile copies it later
    assert question not in setup(checkout, "EXTRAS=vllm").stdout
    (checkout / "machine").mkdir()
    said = setup(checkout, "EXTRAS=vllm").stdout
    assert 0 < said.index(question) < said.index(download)
    said = setup(checkout, "EXTRAS=vllm", "TORCH=cpu").stdout
    assert f"CUDA_VISIBLE_DEVICES=-1 .venv/bin/python {question}" in said


def test_the_question_of_setup_needs_no_package():
    command = [sys.executable, "-S", "-m", "machine.hardware", "dev"]
    done = capture(command, env={"CUDA_VISIBLE_DEVICES": "-1"})
    assert done.returncode == 0, done.stderr


def test_everything_that_is_pinned_is_in_the_lock():
    """`make lock-check` asks the registry whether it is all and current; this asks nobody."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = project["dependencies"] + [
        each for extra in project["optional-dependencies"].values() for each in extra
    ]
    lock = re.split(r"\n(?! )", (ROOT / "requirements.lock").read_text().strip())
    assert all("--hash=sha256:" in each for each in lock)
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", each) for each in pinned)
    actual = {each.replace("ruamel.yaml", "ruamel-yaml") for each in pinned}
    assert actual <= {each.split()[0] for each in lock}


def test_the_lock_is_made_before_what_it_says_is_installed(checkout):
    """Else a changed version could never be locked: the old lock contradicts it."""
    later = time.time() + 5
    os.utime(checkout / "pyproject.toml", (later, later))
    for target in ("lock", "lock-check"):
        command = ["make", "-n", target, f"PYTHON={sys.executable}"]
        said = capture(command, cwd=checkout, env={"PATH": "/usr/bin:/bin"}).stdout
        assert "uv pip compile" in said
        assert "install" not in said


MAKEFILE = (ROOT / "Makefile").read_text()
OPTIONS = re.search("^GIVEN := (.*)", MAKEFILE, re.M)[1].split()
TARGETS = re.findall("^([a-z][a-z0-9-]*):", MAKEFILE, re.M)


def refusal(folder: Path, *command: str) -> str:
    environment = {"PATH": "/usr/bin:/bin"}
    arguments = ["make", "-n", *command]
    done = capture(arguments, cwd=folder, env=environment)
    return done.stderr if done.returncode == 2 else ""


REFUSED = """
    grpo RECIPES=mine
    grpo recipe=mine ARG=x
    check CARDS=24
    setup EXTRA=vllm
    view RUNS=outputs/a
    grpo MODEL=x
    sft grpo CARD=24
    grpo RECIPE= tiny-dpo
    lint RECIPE=x
    RECIPES=mine
    grpo LEARNING_RATE=1e-4
    grpo OUTPUT_DIR=outputs/x
    evaluate MODEL_PATH=x
    grpo TZ=UTC
    grpo 'ARGS=$(shell touch ran)' 'ARG=${shell touch ran}'
"""


@pytest.mark.parametrize("command", REFUSED.strip().splitlines(), ids=str.strip)
def test_an_option_that_the_target_does_not_read_is_refused(command, checkout, snapshot):
    message = refusal(checkout, *shlex.split(command))
    assert "make" in message or "option" in message
    snapshot(message)
    assert not (checkout / "ran").exists()


# A make inside make has the options of `seeds` too.
PASSED = """
    setup EXTRAS=vllm TORCH=cpu PIP_ARGS=--no-cache-dir UV_HTTP_TIMEOUT=300 PYTHON=python3
    grpo CUDA_VISIBLE_DEVICES=1 HF_HOME=/data NO_COLOR=1 TMPDIR=/data SHELL=/bin/bash
    test-view CHROMIUM=/usr/bin/chromium
    lock LOCK_ARGS=--upgrade
    sft evaluate MODEL=x
    seeds 'SEEDS=1 2' CHAIN=dpo
    help PYTHON=python3
"""


@pytest.mark.parametrize("command", PASSED.strip().splitlines(), ids=str.strip)
def test_what_is_for_the_target_or_for_the_environment_passes(command, checkout):
    assert refusal(checkout, *shlex.split(command)) == ""


def test_the_targets_read_the_options_that_the_makefile_says(checkout):
    """From the environment every target takes all of them, and its commands say what it reads."""
    environment = dict.fromkeys(OPTIONS, "1") | {"CHAIN": "grpo", "PATH": "/usr/bin:/bin"}
    for target in TARGETS:
        command = ["make", "-n", target]
        done = capture(command, cwd=checkout, env=environment)
        text = done.stdout.replace("--show", "$SHOW").replace("$RECIPE_FILE", "$RECIPE")
        read = {option for option in OPTIONS if re.search(rf"\${option}\b", text)}
        if "RECIPE" in read:
            read |= {"ACCELERATE", "PROCESSES"}  # a stage reads its recipe as they say
        listed = refusal(checkout, target, "NONE=1").partition("it reads ")[2].partition(".")[0]
        assert set(listed.split()) & set(OPTIONS) == read, target
