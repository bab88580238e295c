"""The package `grpo_verifier`: its wheel in an environment that has nothing but what it asks for,
its command, and its functions for other libraries."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from rewards import verifier
from rewards.verifier import hosts
from tests.made_runs import chat
from tests.support import ROOT
from tests.tables import rows
from tests.waits import capture, run_command, start_command

VERIFIER = ROOT / "rewards/verifier"
NEEDS = ("math-verify", "sympy")
ALGEBRA = {"answer": r"\boxed{\frac{1}{\sqrt{3}}}", "gold": r"\frac{\sqrt{3}}{3}"}
BUILD = "import sys; from setuptools import build_meta; build_meta.{}(sys.argv[1])"
RECIPE = "import schema.recipe, sys; print([name for name in sys.modules if 'verifier' in name])"
ALONE = """
import sys, time
from importlib.util import find_spec
start = time.process_time()
import grpo_verifier
took = time.process_time() - start
early = {"numpy", "torch", "sympy", "math_verify"} & set(sys.modules)
import grpo_verifier.hosts
assert not early and not find_spec("numpy") and not find_spec("torch") and not find_spec("rewards")
verdict = grpo_verifier.judge(r"\\boxed{\\frac{1}{\\sqrt{3}}}", r"\\frac{\\sqrt{3}}{3}")
assert verdict.reason == "equal, as expressions"
print(took)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built of the package's folder alone, by way of the source archive."""
    folder = tmp_path_factory.mktemp("wheel")
    builds = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    alone = shutil.copytree(VERIFIER, folder.with_name("alone"), ignore=builds)
    for step, where in (("build_sdist", alone), ("build_wheel", None)):
        where = where or next(folder.glob("*/"))
        capture([sys.executable, "-c", BUILD.format(step), folder], cwd=where, check=True)
        for archive in folder.glob("*.tar.gz"):
            shutil.unpack_archive(archive, folder, filter="data")
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The `bin` of an environment with the wheel. What it needs is taken from ours, file by file,
    and nothing else."""
    folder = tmp_path_factory.mktemp("alone")
    venv.create(folder / "env", symlinks=True)
    (needs := folder / "needs").mkdir()
    wanted = [*NEEDS]
    for name in wanted:
        found = distribution(name)
        wanted += [re.match(r"[\w-]+", each)[0] for each in found.requires or [] if ";" not in each]
        for top in {file.parts[0] for file in found.files} - {"..", "__pycache__"}:
            if not (needs / top).exists():
                (needs / top).symlink_to(found.locate_file(top))
    python = folder / "env/bin/python"
    packages = next((folder / "env/lib").glob("python3*/site-packages"))
    (packages / "needs.pth").write_text(str(needs))
    pip = [sys.executable, "-m", "pip", "--python", python]
    run_command([*pip, "install", "-q", "--no-index", "--no-deps", wheel], check=True)
    checked = capture([*pip, "check"])
    assert checked.returncode == 0, checked.stdout
    return python.parent


def test_the_wheel_is_typed_licensed_and_asks_for_two_packages(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        info = next(name for name in names if name.endswith("/METADATA")).removesuffix("METADATA")
        metadata = file.read(f"{info}METADATA").decode()
        assert file.read(f"{info}licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    asked = [line.split()[1] for line in metadata.splitlines() if line.startswith("Requires-Dist:")]
    assert len(asked) == len(NEEDS) and all(map(str.startswith, asked, NEEDS))
    assert "License-Expression: Apache-2.0" in metadata and "grpo_verifier/py.typed" in names
    files = [*VERIFIER.glob("*.py"), *VERIFIER.glob("tables/*"), VERIFIER / "py.typed"]
    packed = [name for name in names if not name.startswith(info)]
    assert sorted(packed) == sorted(f"grpo_verifier/{file.relative_to(VERIFIER)}" for file in files)


def test_it_is_imported_alone_and_at_once(installed, tmp_path):
    done = capture([installed / "python", "-c", ALONE], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.5


def test_a_recipe_and_its_data_are_read_without_it():
    done = capture([sys.executable, "-c", RECIPE], cwd=ROOT)
    assert done.stdout == "[]\n", done.stderr


LINES = {"\udcff": "not JSON", "[" * 100_000: "not JSON"}
LINES |= {f'{{"answer": "{"5" * (4 << 20)}", "gold": "5"}}': "longer than"}
for row in rows(__file__, "lines"):
    LINES[row["line"]] = row.get("error") or row["reply"]


def test_the_command_judges_each_line_in_order_and_counts_those_that_it_cannot(installed):
    text = "\n".join(LINES).encode(errors="surrogateescape")
    done = run_command([installed / "grpo-verifier"], input=text, capture_output=True)
    assert done.returncode == 1, done.stderr
    replies = map(json.loads, done.stdout.splitlines())
    for number, (said, reply) in enumerate(zip(LINES.values(), replies, strict=True), 1):
        if isinstance(said, str):
            assert reply["line"] == number and said in reply["error"]
        else:
            assert reply.items() >= said.items() and reply["reason"], number


def test_the_command_answers_as_lines_come_and_survives_kills(installed):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with start_command([installed / "grpo-verifier"], **pipes) as command:
        for number in ("3", "5", "7"):  # another gold each time, so that none is remembered
            row = {key: text.replace("3", number) for key, text in ALGEBRA.items()}
            command.stdin.write(json.dumps(row | {"n": number}).encode() + b"\n")
            command.stdin.flush()
            reply = json.loads(command.stdout.readline())
            assert (reply["n"], reply["correct"]) == (number, True)
            assert reply["reason"] == "equal, as expressions"
            for worker in psutil.Process(command.pid).children():
                worker.kill()
        command.stdin.close()
        assert command.wait(60) == 0


def test_a_reader_that_has_enough_ends_the_command_quietly(installed):
    line = json.dumps({"answer": "#### 5", "gold": "5"})
    shell = f"yes '{line}' | {installed}/grpo-verifier | head -n 1"
    done = capture(["bash", "-c", shell], timeout=60)
    assert json.loads(done.stdout)["correct"] is True and done.stderr == ""


@pytest.mark.parametrize("answer, expected", [(r"\boxed{3/4}", 1.0), ("6/8", 0.0), ("", 0.0)])
def test_the_functions_for_other_libraries(answer, expected, monkeypatch):
    """Those of README.md; `6/8` is incorrect only because it copies the question."""
    monkeypatch.setitem(sys.modules, "grpo_verifier", verifier)
    functions = {}
    [block] = re.findall(
        r"```python\n(import asyncio.*?)```", (VERIFIER / "README.md").read_text("utf-8"), re.DOTALL
    )
    exec(block, functions)
    gold, asked = "3/4", "Simplify 6/8"
    prompt, completion = [chat("user", asked)], [chat("assistant", answer)]
    task = SimpleNamespace(answer=gold, prompt_text=asked)
    rewards = [
        hosts.correct_answer([completion], [gold], [prompt])[0],
        functions["compute_score"]("gsm8k", answer, gold, {"question": asked}),
        functions["process_results"]({"question": asked, "answer": gold}, [answer])["correct"],
        asyncio.run(functions["rubric_function"](completion, gold, prompt)),
        asyncio.run(functions["task_reward"](task, SimpleNamespace(last_reply=answer))),
    ]
    assert rewards == [expected] * 5
