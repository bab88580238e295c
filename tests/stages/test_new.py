"""`make new` writes a recipe for somebody's own data, which `make check` takes and which trains."""

import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from console.faults import RecipeError
from data import guess, own
from schema.recipe import load_recipe
from stages import new
from stages.make import commands
from tests.support import read_lines, run_stage
from tests.tables import lacking, row_cases

REWARD = """
def close(completions, solution, **columns):
    return [float(solution[0] in completion[0]["content"]) for completion in completions]

def _helper(completions):
    return completions
"""
SUMS = [(f"What is {n} + {n % 7}?", n + n % 7) for n in range(60)]


@pytest.fixture
def recipe(tmp_path, monkeypatch, own_file) -> Path:
    """The path of a recipe that is not there, in a working tree with all others and a reward."""
    shutil.copytree("recipes", tmp_path / "recipes")
    monkeypatch.setattr(new, "RECIPES", tmp_path / "recipes")
    own_file("mine.py", REWARD)
    return tmp_path / "recipes/own-sums.yaml"


def write_data(folder: Path):
    """The sums in files of several kinds."""
    lines = "".join(f"{n},{question},sums,{answer}\n" for n, (question, answer) in enumerate(SUMS))
    (folder / "sums.csv").write_text(f"Nr,Frage,Kapitel,Ergebnis\n{lines}")
    rows = [{"question": question, "answer": answer} for question, answer in SUMS]
    (folder / "sums.json").write_text(json.dumps(rows))
    worked = [{"q": question, "a": answer, "steps": "I count it out."} for question, answer in SUMS]
    (folder / "worked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in worked))
    halves = "".join(f"{question},{answer}.5 m\n" for question, answer in SUMS)
    (folder / "halves.csv").write_text(f"problem,answer\n{halves}")
    (folder / "empty.csv").write_text("problem,answer\n")
    (folder / "bare.csv").write_text("What is 0 + 1?,1\nWhat is 0 + 2?,2\n")


@row_cases(__file__, "recipes_are_written")
def test_a_recipe_is_written_that_says_what_it_took(row, recipe, tmp_path, capsys):
    write_data(tmp_path)
    data = row.data.replace("{tmp}", str(tmp_path))
    new.main(recipe.stem, data, row.base, getattr(row, "reward", None))
    text = recipe.read_text()
    assert lacking([name.replace("{tmp}", str(tmp_path)) for name in row.written], text) == []
    assert lacking(row.printed, capsys.readouterr().out) == []
    written = load_recipe(recipe)
    assert [name for name, weight in written.weights.items() if weight] == row.paid
    assert len(text.splitlines()) <= 20


@row_cases(__file__, "what_cannot_be_used_is_refused")
def test_what_cannot_be_used_is_refused(row, recipe, tmp_path):
    write_data(tmp_path)
    words = {"recipe": recipe.stem, "data": "{tmp}/sums.csv", "base": "tiny-arithmetic"} | row.words
    words = {name: word and word.replace("{tmp}", str(tmp_path)) for name, word in words.items()}
    with pytest.raises(RecipeError) as error:
        new.main(**words)
    assert (
        lacking([name.replace("{tmp}", str(tmp_path)) for name in row.names], str(error.value))
        == []
    )
    assert not recipe.exists()


def test_a_recipe_that_is_there_stays(recipe, tmp_path):
    write_data(tmp_path)
    recipe.write_text("mine")
    with pytest.raises(RecipeError, match=f"RECIPE={recipe.stem}-2 is free"):
        new.main(recipe.stem, str(tmp_path / "sums.csv"), "tiny-arithmetic")
    assert recipe.read_text() == "mine"


def test_a_set_of_the_hub_is_named_with_its_configuration(recipe, monkeypatch):
    asked = []

    def read(name, config, *_):
        asked.append((name, config))
        return [{"question": f"{n} + 1?", "answer": f"So\n#### {n + 1}"} for n in range(10)]

    for module in (guess, own):
        monkeypatch.setattr(module, "from_hub", read)
    new.main(
        recipe.stem, "https://huggingface.co/datasets/a/b/viewer/main/train", "tiny-arithmetic"
    )
    entry = "a/b: {config: main, columns: {problem: question, answer: answer}}"
    assert entry in recipe.read_text() and set(asked) == {("a/b", "main")}


@pytest.mark.train
def test_what_is_written_is_checked_and_trains(tmp_path, request):
    write_data(tmp_path)
    recipe = Path("recipes/own-sums.yaml")
    assert not recipe.exists()
    request.addfinalizer(partial(recipe.unlink, missing_ok=True))
    options = {"RECIPE": recipe.stem, "DATA": f"{tmp_path}/worked.jsonl", "BASE": "tiny-arithmetic"}
    [words] = commands("new", options)
    done = run_stage(*words)
    assert f"next: make check RECIPE={recipe.stem}" in done.stdout
    short = [f"output_dir={tmp_path}/out", "sft.max_steps=20", "grpo.max_steps=2"]
    short += ["sft.per_device_train_batch_size=16", "grpo.per_device_train_batch_size=16"]
    assert "\nready" in run_stage("check", recipe, *short).stdout
    for stage in ("sft", "grpo"):
        done = run_stage(stage, recipe, *short)
    assert "12 of 60 problems are held out" in done.stdout
    steps = [line["step"] for line in read_lines(tmp_path / "out/grpo/metrics.jsonl")]
    assert steps[-1] == 2
    evaluated = run_stage("evaluate", recipe, *short, "--validation").stdout
    assert "n = 12" in evaluated or "12 problems" in evaluated
