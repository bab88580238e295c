"""The promises of docs/security.md: a test for each, in their order, that of the page in
tests/viewer/test_page.py. tests/stages/test_reach.py
runs attacks of every kind against the stages."""

import inspect
import os
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import datasets
import pandas as pd
import pytest
import torch
from transformers import Trainer

from console.faults import RecipeError
from data.files import DataError
from data.problems import load
from rewards.tools import calculator
from rewards.verifier import judge
from tests import made_runs
from tests.support import ROOT, read_recipe, run_stage
from tests.tables import lacking, yaml_text
from tests.viewer import test_page
from tests.waits import in_time
from training.train import require_own_checkpoints

PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
TINY = "recipes/tiny-arithmetic.yaml"
GOOD = yaml_text(str(ROOT / "tests/schema/test_recipe.py"), "good")


class Canary:
    """A file that code of somebody else's would write."""

    def __init__(self, folder: Path):
        self.file = folder / "canary"
        self.code = f"open({str(self.file)!r}, 'w').close()\n"
        self.command = f"touch {self.file}"

    def __reduce__(self):
        return os.system, (self.command,)

    @property
    def sings(self) -> bool:
        return self.file.exists()


@pytest.fixture
def canary(tmp_path) -> Canary:
    return Canary(tmp_path)


def faults_of(folder: Path, old: str = "", new: str = "", end: str = "") -> list[str]:
    """What is wrong with a recipe of the folder, in which a text stands in place of another."""
    assert old in GOOD
    (folder / "theirs.yaml").write_text(GOOD.replace(old, new) + end)
    return [fault.message for fault in read_recipe(folder / "theirs.yaml")[1]]


@pytest.mark.parametrize("how", ["pickle", "code", "command"])
def test_the_canary_sings_where_code_is_run(how, canary):
    runs = {
        "pickle": lambda: pickle.loads(pickle.dumps(canary)),
        "code": lambda: exec(canary.code),
        "command": lambda: os.system(canary.command),
    }
    assert not canary.sings
    runs[how]()
    assert canary.sings


def test_a_recipe_that_lies_elsewhere_runs_no_code(canary, tmp_path, monkeypatch):
    body = f"{canary.code}def paid(completions, **columns):\n    return [1.0] * len(completions)\n"
    (tmp_path / "theirs_here.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    assert faults_of(tmp_path) == []
    for name in ("theirs_here.paid", "os.system", "data.imports.find_spec", "tests.place.enter"):
        [message] = faults_of(tmp_path, "correct_answer:", f"{name}:")
        assert "trl.rewards" in message, name
    assert faults_of(tmp_path, "[arithmetic]", "[torch.hub.load: {repo_or_dir: x/y}]")
    assert faults_of(tmp_path, "correct_answer:", "trl.rewards.accuracy_reward:") == []
    assert not canary.sings


def test_a_recipe_uploads_no_model_and_writes_below_outputs(tmp_path):
    for line in ("push_to_hub: true", "hub_token: x", "hub_model_id: a/b", "trackio_space_id: a/b"):
        [message] = faults_of(tmp_path, end=f"  {line}\n")
        assert f"{line.split(':')[0]} is not offered" in message, line
    for folder in ("../x", "/tmp/x", "outputs/../x", "outputs/x/../../.."):
        [message] = faults_of(tmp_path, end=f"output_dir: {folder}\n")
        assert "outputs/" in message, folder
    assert faults_of(tmp_path, end="output_dir: outputs/x\n") == []


def test_a_model_is_numbers_and_a_template(canary, tiny_qwen2, tmp_path):
    model = shutil.copytree(tiny_qwen2, tmp_path / "theirs")
    (model / "theirs_here.py").write_text(canary.code)
    made_runs.replace_text(
        model / "config.json",
        "{",
        '{"auto_map": {"AutoConfig": "theirs_here.C", "AutoModelForCausalLM": "theirs_here.M"},',
    )

    def evaluated() -> tuple[int, str]:
        words = [TINY, "evaluate.benchmarks=[arithmetic]", "evaluate.limit=1"]
        words += ["evaluate.max_new_tokens=2", f"output_dir={tmp_path}/out", f"--model={model}"]
        done = run_stage("evaluate", *words, check=False)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        return done.returncode, done.stdout + done.stderr

    assert evaluated()[0] == 0
    template = (model / "chat_template.jinja").read_text(encoding="utf-8")
    escape = f"cycler.__init__.__globals__.os.system({canary.command!r})"
    (model / "chat_template.jinja").write_text("{{ " + escape + " }}")
    code, text = evaluated()
    assert code == 2 and "unsafe" in text, text
    (model / "chat_template.jinja").write_text(template)
    (model / "model.safetensors").unlink()
    torch.save(canary, model / "pytorch_model.bin")
    code, text = evaluated()
    assert code == 2 and "safetensors" in text, text
    assert not canary.sings


def test_data_is_text_and_numbers(canary, tmp_path):
    """Should datasets change, the page has to."""
    pickled, scripted = tmp_path / "theirs.pkl", tmp_path / "theirs"
    pickled.write_bytes(pickle.dumps(canary))
    scripted.mkdir()
    (scripted / "theirs.py").write_text(canary.code)
    for name in (str(pickled), str(scripted)):
        with pytest.raises((ImportError, DataError), match=r"ends in \.csv"):
            load(name, "train", {})
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "x.parquet")
    outside = {"repo_id": "someone/sums", "data_files": str(tmp_path / "x.parquet")}
    with pytest.raises(ValueError, match="Data files don't belong to someone/sums"):
        datasets.packaged_modules.parquet.Parquet(**outside).download_and_prepare()
    with pytest.raises(ValueError, match=r"Pickle loading .* is disabled"):
        datasets.load_dataset("pandas", data_files=str(pickled))
    with pytest.raises(RuntimeError, match="scripts are no longer supported"):
        datasets.load_dataset(str(scripted))
    assert not canary.sings


def test_a_checkpoint_is_numbers(canary, tmp_path, monkeypatch):
    """Should transformers change, the page has to."""
    torch.save(canary, tmp_path / "optimizer.pt")
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        torch.load(tmp_path / "optimizer.pt", weights_only=True)
    assert not canary.sings
    source = inspect.getsource(Trainer)
    loads = re.findall(r"torch\.load\((?:[^()]|\([^()]*\))*\)", source)
    assert len(loads) == len(re.findall(r"torch\.load\(", source))
    assert len(loads) >= 4
    unsafe = [call for call in loads if "weights_only=True" not in call]
    assert unsafe == []
    for step in (2, 4):  # the best one may be an older one
        (tmp_path / f"mine/grpo/checkpoint-{step}").mkdir(parents=True)
    require_own_checkpoints(tmp_path / "mine/grpo")
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    with pytest.raises(RecipeError) as error:
        require_own_checkpoints(tmp_path / "mine/grpo")
    names = ["checkpoint-4 belongs to another account", f"copy {tmp_path}/mine (cp -r)"]
    assert lacking([*names, "resume the copy (output_dir)"], str(error.value)) == []


def test_a_completion_is_text(canary):
    code = f"__import__('os').system('{canary.command}')"
    endless = ["9^{9^{9^{9}}}", "((9!)!)!", r"\sqrt{" * 2000 + "5" + "}" * 2000]
    with in_time():  # some have a second each
        for text in (code, canary.code, *endless):
            for response in (f"<answer>{text}</answer>", rf"It is \boxed{{{text}}}"):
                assert judge(response, "5").correct is False
            assert calculator(text).startswith("error")
    assert not canary.sings


PROMISES: dict[str, Callable] = {
    "A recipe that lies elsewhere runs no code": test_a_recipe_that_lies_elsewhere_runs_no_code,
    "A recipe uploads no model": test_a_recipe_uploads_no_model_and_writes_below_outputs,
    "A model is numbers and a template": test_a_model_is_numbers_and_a_template,
    "Data is text and numbers": test_data_is_text_and_numbers,
    "A checkpoint is numbers": test_a_checkpoint_is_numbers,
    "A completion is text": test_a_completion_is_text,
    "The page is one file that shows text": test_page.test_nothing_in_it_breaks_out_or_is_loaded,
}


def test_every_promise_has_its_test():
    sentences = re.findall(r"^\d\. \*\*(.*)", PAGE, re.M)
    assert len(sentences) == len(PROMISES)
    for sentence, beginning in zip(sentences, PROMISES, strict=True):
        assert sentence.startswith(beginning)
    assert len(PAGE.split()) <= 400
