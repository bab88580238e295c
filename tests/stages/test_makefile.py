"""What make itself decides."""

import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from console.faults import RecipeError
from console.terminal import make_line
from stages.make import commands
from stages.table import STAGES, TARGETS
from tests.support import ROOT, write_program
from tests.tables import cases, lacking, yaml_text
from tests.waits import all_ended, capture, run_command, start_command, until

GPUS = """
import os
from stages import make
make.commands = lambda target, environment: []
make.main(["grpo"])
print(os.environ.get("CUDA_VISIBLE_DEVICES", "unset"))
"""


@cases(__file__, "which_gpus_a_stage_sees")
def test_which_gpus_a_stage_sees(given, options, seen):
    environment = dict(os.environ)
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    if given:
        environment["CUDA_VISIBLE_DEVICES"] = given
    done = capture([sys.executable, "-c", GPUS], env=environment | options)
    assert done.stdout.strip() == seen, done.stderr


@cases(__file__, "which_gpu_the_tests_see")
def test_which_gpu_the_tests_see(target, given, seen):
    """Most none; those of a GPU the first, and then those of two GPUs all."""
    said = capture(["make", "-n", target], env=os.environ | {"CUDA_VISIBLE_DEVICES": given}).stdout
    lines = [line.strip() for line in said.splitlines() if "pytest" in line]
    before = rf"(OMP_NUM_THREADS=1 |GPU_TESTS=1 )?CUDA_VISIBLE_DEVICES={seen} "
    assert re.match(rf"{before}\.venv/bin/python -m pytest ", lines[0])
    two_gpus = "python -m pytest -m gpu -rs tests/stages/test_two_gpus.py" in lines[-1]
    assert two_gpus == (target == "test-gpu")


def test_an_image_has_what_git_tracks_and_no_key_and_no_data():
    patterns = (ROOT / ".dockerignore").read_text().splitlines()[1:]

    def is_ignored(name: str) -> bool:
        verdict = False
        for line in patterns:  # the last that matches decides
            if fnmatch(f"/{name}", f"/{line.lstrip('!').replace('**/', '*')}"):
                verdict = not line.startswith("!")
        return verdict

    for name in (".git/config", ".git/hooks/x", ".env", "wandb", "mine.csv", "outputs"):
        assert is_ignored(name), name
    assert not any(map(is_ignored, ["Makefile", "data/own.py", ".git/HEAD", ".git/refs"]))


@pytest.fixture
def checkout(tmp_path):
    """What `make setup` reads, and the marks of an environment that has `dev`."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "stages").mkdir()
    shutil.copy(ROOT / "stages/table.py", tmp_path / "stages")
    mark(tmp_path, "dev")
    return tmp_path


BOTH = "--requirements pyproject.toml --extra dev --extra vllm\n"
ALONE = {"PATH": "/usr/bin:/bin"}


def mark(folder: Path, *extras: str):
    (folder / ".venv/bin").mkdir(parents=True, exist_ok=True)
    (folder / ".venv/bin/python").unlink(missing_ok=True)
    (folder / ".venv/bin/python").symlink_to(sys.executable)
    for name in ("bin/uv", "installed", *(f"with-{extra}" for extra in extras)):
        (folder / ".venv" / name).touch()


def make(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess:
    return capture(["make", *words], cwd=folder, env=ALONE | environment)


def setup(folder: Path, *options: str) -> str:
    """What `make setup` would do."""
    return make(folder, "-n", "setup", f"PYTHON={sys.executable}", *options).stdout


# A Python that answers make from the table, and runs of the stages only `make`.
PYTHON = f"""import json, os, runpy, sys
if sys.argv[1] == "stages/table.py":
    del sys.argv[0]
    sys.exit(runpy.run_path(sys.argv[0], run_name="__main__") and 0)
sys.path.insert(0, {str(ROOT)!r})
from stages import make
"""
# The same, which runs make's stages as itself.
RUNS_STAGES = f"""{PYTHON}
if sys.argv[3] == "make":
    sys.executable = ".venv/bin/python"
    make.main(sys.argv[4:])
"""
SAYS_ITS_WORDS = f"""{PYTHON}
for command in make.commands(sys.argv[4], make.as_chosen(os.environ, sys.argv[5].split())):
    print(json.dumps(command))
"""


def replace_python(checkout: Path, program: str):
    """Put a program in the place of the environment's Python."""
    (checkout / ".venv/bin/python").unlink()
    write_program(checkout / ".venv/bin/python", program)


@pytest.fixture
def stages_run(checkout):
    """A function of a target and its options, or of a shell's command: the module and the arguments
    of each stage that `make` there runs, as the stage has them, from a Python that only prints
    them. Whatever ran besides would have left a file."""
    replace_python(checkout, SAYS_ITS_WORDS)

    def run(target: str, environment: dict[str, str] | None = None, **options) -> list[list[str]]:
        before = set(checkout.iterdir())
        command = ["sh", "-c", make_line(target, **options)]
        done = capture(command, cwd=checkout, env=ALONE | (environment or {}))
        assert done.returncode == 0, done.stderr
        assert set(checkout.iterdir()) == before
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]

    return run


HOSTILE = [*yaml_text(__file__, "hostile").splitlines(), "a\ntouch ran", "a\\", "\U0001f600 é ــ"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_in_a_printed_command_arrives_complete_and_nothing_in_it_runs(name, stages_run):
    options = {"RECIPE": name, "GPU": name, "ACCELERATE": name, "PROCESSES": name}
    check = ["check", f"recipes/{name}.yaml", f"a={name}", f"--gpu={name}"]
    assert stages_run("check", **options, ARGS=[f"a={name}"]) == [check]
    view = ["view", name, f"--html={name}"]
    assert stages_run("view", RUN=[name], HTML=name) == [view]


NAME = HOSTILE[5]


def test_several_names_arrive_complete(stages_run):
    models = [f"--model={name}" for name in HOSTILE]
    assert stages_run("evaluate", MODEL=HOSTILE)[-1][2:] == models
    assert stages_run("evaluate")[-1][2:] == []
    for target, option in (("chat", "RUN"), ("report", "FILE"), ("compare", "RUNS")):
        assert stages_run(target, **{option: HOSTILE})[-1][1:] == HOSTILE
    options = {"RECIPE": f"mine/{NAME}", "ACCELERATE": NAME, "PROCESSES": NAME}
    launch = ["launch", f"--config_file=accelerate_configs/{NAME}.yaml"]
    launch += [f"--num_processes={NAME}", "-m", "stages", "sft", f"mine/{NAME}", *HOSTILE]
    assert stages_run("sft", **options, ARGS=HOSTILE)[-1] == launch


WAITS = f"""{RUNS_STAGES}
import pathlib, signal, time
def end(number, frame):
    pathlib.Path("ended").touch()
    sys.exit(75)
if sys.argv[3] == "grpo":
    signal.signal(signal.SIGTERM, end)
    pathlib.Path("began").touch()
    time.sleep(60)
"""


def test_a_signal_to_make_reaches_the_stage(checkout):
    """As a job's time limit and `docker stop` send it: to make alone."""
    replace_python(checkout, WAITS)
    with all_ended():
        made = start_command(["make", "grpo"], cwd=checkout, env=ALONE)
        until((checkout / "began").is_file)
        made.terminate()
        made.wait(30)
        until((checkout / "ended").is_file)


SAVED = f"""{RUNS_STAGES}
print(sys.argv[3], flush=True)
sys.exit(75 if sys.argv[3] == "sft" else 0)
"""


def test_a_chain_ends_with_the_code_of_the_first_stage_that_fails(checkout):
    replace_python(checkout, SAVED)
    done = make(checkout, "grpo")
    assert done.stdout.split() == ["check", "rejection-sampling", "sft"]
    assert done.returncode == 2 and "Error 75" in done.stderr  # make's own is always 2


MISTAKE = f"""{RUNS_STAGES}
print("what is wrong", file=sys.stderr)
sys.exit(2)
"""


def test_on_a_terminal_the_last_line_is_the_message_of_a_mistake(checkout):
    replace_python(checkout, MISTAKE)
    assert make(checkout, "check").returncode == 2
    leader, follower = pty.openpty()
    done = run_command(["make", "check"], cwd=checkout, env=ALONE, stderr=follower)
    printed = os.read(leader, 10_000).decode().split("\r\n")
    assert done.returncode and printed[0] == "what is wrong"
    if done.returncode == -signal.SIGPIPE:  # make 4.4 ignores it
        assert printed[1:] == [""]


WORDS = [f"mine/{NAME}.yaml", *HOSTILE]


def trained(lines: list[list[str]]) -> list[list[str]]:
    return [words for stage, *words in lines if stage == "grpo"]


@cases(__file__, "words_of_args_that_nothing_reads")
def test_a_word_of_args_that_nothing_reads_is_refused_before_any_stage(target, words, line):
    with pytest.raises(RecipeError) as error:
        list(commands(target, {"ARGS": words}))
    assert str(error.value).endswith(f"write {line}")


def test_a_chain_is_run_for_each_seed(stages_run):
    lines = stages_run("seeds", RECIPE=WORDS[0], ARGS=HOSTILE, SEEDS="1 2")
    assert lines[0] == ["seeds", *WORDS, "--check", "--seeds=1 2"]
    assert lines[-1] == ["seeds", *WORDS, "--seeds=1 2"]
    runs = [[*WORDS, f"seed={i}", f"output_dir=outputs/{NAME}/seed-{i}"] for i in (1, 2)]
    assert trained(lines) == runs


def test_a_chain_is_run_for_each_rate_with_one_seed_and_compared(stages_run, checkout):
    lines = stages_run("tune", RECIPE=WORDS[0], ARGS=HOSTILE, RATES="2e-5 1e-4")
    assert lines[0] == ["seeds", *WORDS, "--check", "--seeds=101"]
    runs = {rate: f"outputs/{NAME}/rate-{rate}" for rate in ("2e-5", "1e-4")}
    ends = [["seed=101", f"grpo.learning_rate={r}", f"output_dir={runs[r]}"] for r in runs]
    assert trained(lines) == [[*WORDS, *end] for end in ends]
    assert lines[-1] == ["compare", *runs.values()]


def test_only_the_command_line_sets_an_option_of_a_stage(stages_run):
    """GPU, MODEL or FILE of the environment may be another program's."""
    environment = {"GPU": "A100", "SHOW": "1", "RECIPE": "mine", "ARGS": "seed=2"}
    assert stages_run("check", environment) == [["check", "recipes/mine.yaml", "seed=2"]]
    assert stages_run("check", environment, GPU="24")[0][3:] == ["--gpu=24"]
    assert stages_run("evaluate", {"MODEL": "a/b"})[-1] == [
        "evaluate",
        "recipes/tiny-arithmetic.yaml",
    ]


def test_rates_are_numbers():
    with pytest.raises(RecipeError, match="RATES: expected learning rates"):
        list(commands("tune", {"RATES": "1e-4;touch ran"}))


@pytest.mark.parametrize(
    ("target", "option"),
    [("compare", "RUNS"), ("view", "RUN"), ("seeds", "SEEDS"), ("tune", "RATES")],
)
def test_commas_between_several_values_are_answered_with_the_line_to_write(target, option):
    with pytest.raises(RecipeError, match=re.escape(f'write {option}="1 2 3"')):
        list(commands(target, {option: "1,2, 3"}))


def test_a_value_of_the_environment_is_not_run(stages_run):
    name = "$(shell touch ran)'; touch ran"
    assert stages_run("audit", {"RECIPE": name})[1] == ["audit", f"recipes/{name}.yaml"]


def test_the_lab_is_written_as_one_file(stages_run):
    assert stages_run("lab", HTML="x.html") == [["view", "--html=x.html", "--lab"]]
    of_run = ["view", "outputs/mine", "--html=x.html", "--lab"]
    assert stages_run("lab", RUN="outputs/mine", HTML="x.html") == [of_run]


@pytest.mark.parametrize("target", ["help", "-n grpo"])
def test_make_tells_without_running(target, checkout):
    done = make(checkout, *target.split())
    assert done.returncode == 0 and "grpo" in done.stdout, done.stderr


def test_help_is_three_groups_and_leaves_the_others_to_help_dev(checkout):
    users = make(checkout).stdout
    groups = [line for line in users.splitlines() if line and line[0] != " "]
    assert [group.split()[0] for group in groups] == ["start", "your", "measure", "options:"]
    assert users.splitlines()[1].split()[0] == "grpo"
    of_users = re.findall(r"^  ([a-z0-9-]+) +\S", users, re.M)
    of_developers = re.findall(r"^  ([a-z0-9-]+) +\S", make(checkout, "help-dev").stdout, re.M)
    assert sorted(of_users + of_developers) == sorted(TARGETS)
    assert {"lint", "test-gpu"} <= set(of_developers)


def later(file: Path):
    """Let a file be newer than what was installed."""
    os.utime(file, (time.time() + 5, time.time() + 5))


def test_setup_installs_a_part_that_is_not_there_yet(checkout):
    assert "Nothing to be done" in setup(checkout)
    assert BOTH in setup(checkout, "EXTRAS=vllm")  # what is there stays
    said = setup(checkout, "EXTRAS=dev,vllm", "PIP_ARGS=--find-links there")
    assert "uv pip install --quiet --find-links there --python .venv/bin/python " in said
    assert "--constraint requirements.lock --require-hashes" in said
    assert BOTH in said and "-m pip" not in said


def test_setup_keeps_what_is_there_up_to_date(checkout):
    mark(checkout, "dev", "vllm")
    assert "Nothing to be done" in setup(checkout)
    later(checkout / "requirements.lock")
    assert BOTH in setup(checkout)


def test_pip_installs_uv_by_its_hash_and_of_torch_the_build_for_cpus(checkout):
    (checkout / ".venv/bin/uv").unlink()
    said = setup(checkout, "EXTRAS=vllm", "TORCH=cpu")
    assert "-m pip install --quiet  --require-hashes --requirement .venv/uv.txt\n" in said
    assert "install --quiet --no-deps --index-url https://download.pytorch.org/whl/cpu" in said
    # it is not there for that torch, and all else is verified
    assert "requirements.lock --require-hashes" not in said
    assert said.count("-m pip install") == 2 and "index" not in said.replace("--index-url", "", 1)
    [line] = [line for line in said.splitlines() if re.match(r"sed .*uv\.txt", line)]
    run_command(line, shell=True, cwd=checkout, check=True)
    pinned, *hashes = (checkout / ".venv/uv.txt").read_text().splitlines()
    assert pinned.startswith("uv==") and hashes and all("--hash=sha256:" in line for line in hashes)


def test_setup_refuses_a_part_that_does_not_exist(checkout):
    done = make(checkout, "setup", f"PYTHON={sys.executable}", "EXTRAS=vlm")
    assert done.returncode == 2
    names = ["EXTRAS=vlm", "vllm,deepspeed,smollm2,trackers,browser,dev"]
    assert lacking(names, done.stderr) == []


@pytest.mark.parametrize("version", [(3, 10), (3, 11), (3, 14), (3, 15)])
def test_setup_refuses_a_python_for_which_torch_has_no_wheels(version, monkeypatch):
    [code] = re.findall(r"\$\(PYTHON\) -c '(import sys; .*?)'\n", (ROOT / "Makefile").read_text())
    monkeypatch.setattr(sys, "version_info", (*version, 0))
    with pytest.raises(SystemExit) as ended:
        exec(code)
    assert bool(ended.value.code) == (version in ((3, 10), (3, 15)))


def test_setup_asks_before_it_downloads_whether_it_would_run(checkout):
    question, download = "-m machine.hardware\n", "uv pip install"
    # nothing to ask with: the Dockerfile copies it later
    assert question not in setup(checkout, "EXTRAS=vllm")
    (checkout / "machine").mkdir()
    said = setup(checkout, "EXTRAS=vllm")
    assert 0 < said.index(question) < said.index(download)
    on_cpu = f"CUDA_VISIBLE_DEVICES=-1 .venv/bin/python {question}"
    assert on_cpu in setup(checkout, "EXTRAS=vllm", "TORCH=cpu")


def test_the_question_of_setup_needs_no_package():
    command = [sys.executable, "-S", "-m", "machine.hardware"]
    done = capture(command, env={"CUDA_VISIBLE_DEVICES": "-1"})
    assert done.returncode == 0, done.stderr


def test_everything_that_is_pinned_is_in_the_lock():
    """`make lock-check` asks the registry whether it is all and current; this asks nobody."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = sum(project["optional-dependencies"].values(), project["dependencies"])
    lock = re.split(r"\n(?! )", (ROOT / "requirements.lock").read_text().strip())
    assert all("--hash=sha256:" in entry for entry in lock)
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", package) for package in pinned)
    names = {package.replace("ruamel.yaml", "ruamel-yaml") for package in pinned}
    assert names <= {entry.split()[0] for entry in lock}


@pytest.mark.parametrize("target", ["lock", "lock-check"])
def test_the_lock_is_made_before_what_it_says_is_installed(target, checkout):
    """Else a changed version could never be locked: the old lock contradicts it."""
    later(checkout / "pyproject.toml")
    said = make(checkout, "-n", target, f"PYTHON={sys.executable}").stdout
    before_installing = said.partition("uv pip install")[0]
    assert "uv pip compile" in before_installing


def test_the_makefile_has_a_rule_for_each_target_that_is_no_stage():
    rules = re.findall(r"^([a-z][a-z0-9 -]*):(?!=)", (ROOT / "Makefile").read_text(), re.M)
    assert sorted(" ".join(rules).split()) == sorted(TARGETS.keys() - STAGES.keys())


def refusal(folder: Path, *words: str) -> str:
    done = make(folder, "-n", *words)
    return done.stderr if done.returncode == 2 else ""


@cases(__file__, "refused")
def test_an_option_that_the_target_does_not_read_is_refused(command, names, checkout):
    message = refusal(checkout, *shlex.split(command))
    assert lacking(names, message) == []
    assert not (checkout / "ran").exists()


@pytest.mark.parametrize("command", yaml_text(__file__, "passed").splitlines())
def test_what_is_for_the_target_or_for_the_environment_passes(command, checkout):
    assert refusal(checkout, *shlex.split(command)) == ""
