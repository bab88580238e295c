"""Which problems are the same, in one set and across sets; which are held out, and stay so."""

import json

import pytest

from console.faults import RecipeError
from data.identity import fingerprint
from data.problems import load
from runs.writing import as_yaml
from schema.recipe import load_recipe
from tests.tables import cases
from training.problem_sets import load_data, share_validation, train_and_validation


def write(file, problems, gold=None):
    rows = [{"problem": problem, "answer": gold or str(i)} for i, problem in enumerate(problems)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def recipe_of(folder, names, validation=10):
    files = ", ".join(f"{folder}/{name}" for name in names)
    overrides = [f"data.train=[{files}]", f"data.validation={validation}", "sft=null"]
    overrides += [f"output_dir={folder}/run", "evaluate.benchmarks=[]"]
    return load_recipe("recipes/tiny-arithmetic.yaml", overrides)


def finish(recipe):
    """Leave what a finished GRPO run has, but for its weights."""
    data = load_data(recipe)[2]
    folder = recipe.stage_dir("grpo")
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(as_yaml(recipe.resolved()))
    (folder / "data.json").write_text(json.dumps(data))
    (folder / "summary.json").write_text('{"steps": 1}')


@cases(__file__, "one_normal_form")
def test_one_normal_form(first, second, same):
    assert (fingerprint({"problem": first}) == fingerprint({"problem": second})) == same


@cases(__file__, "small_data_shares_itself")
def test_small_data_shares_itself(
    problems, settings, processes, held_out, choosing, says, tmp_path, capsys
):
    write(tmp_path / "mine.jsonl", [f"What is {number} + 1?" for number in range(problems)])
    overrides = [f"data.train=[{tmp_path}/mine.jsonl]", "sft=null", "evaluate.benchmarks=[]"]
    overrides += ["data.validation=null", "evaluate.checkpoint_problems=null", "grpo.eval_steps=2"]
    overrides += ["grpo.save_steps=2", "grpo.per_device_train_batch_size=24"]
    overrides += [f"output_dir={tmp_path}/run", *settings.split()]
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", overrides, processes=processes)
    if held_out is None:
        with pytest.raises(RecipeError, match=says):
            train_and_validation(recipe)
        return
    train, validation = train_and_validation(recipe)
    assert (len(train), len(validation)) == (problems - held_out, held_out)
    first, others = share_validation(recipe, validation)
    assert (len(first), len(others)) == (choosing, held_out - choosing)
    assert says in capsys.readouterr().out


@cases(__file__, "a_repeat_is_named_as_what_it_is")
def test_a_repeat_is_named_as_what_it_is(problem, answer, message, tmp_path):
    file = tmp_path / "mine.jsonl"
    write(file, ["What is 1 + 1 - 1/2?"], "1.5")
    file.write_text(file.read_text() + json.dumps({"problem": problem, "answer": answer}) + "\n")
    rows, report = load(str(file), "train", {})
    assert len(rows) == 1
    assert report.endswith(message)


def test_no_set_repeats_a_validation_problem_of_another(tmp_path, capsys):
    problems = [f"What is {i} + 1?" for i in range(60)]
    write(tmp_path / "a.jsonl", problems)
    write(tmp_path / "b.jsonl", [f" what is {i}+1 ?" for i in reversed(range(30, 90))])
    rows, validation = train_and_validation(recipe_of(tmp_path, ["a.jsonl", "b.jsonl"], 40))
    assert len(rows) + len(validation) == 90
    assert not set(map(fingerprint, rows)) & set(map(fingerprint, validation))
    assert "30 dropped (30 repeated with another answer" in capsys.readouterr().out


def test_a_row_more_or_less_or_another_order_moves_no_other_problem(tmp_path):
    problems = [f"What is {i} + 1?" for i in range(100)]
    write(tmp_path / "a.jsonl", problems, "7")
    recipe = recipe_of(tmp_path, ["a.jsonl"])
    rows, validation = train_and_validation(recipe)
    trained = set(map(fingerprint, rows))
    write(tmp_path / "a.jsonl", problems[::-1], "7")
    assert train_and_validation(recipe) == (rows, validation)
    write(tmp_path / "a.jsonl", ["One more?", *problems, "Two more?"], "7")
    assert not trained & set(map(fingerprint, train_and_validation(recipe)[1]))
    write(tmp_path / "a.jsonl", problems[1:], "7")
    assert len(trained & set(map(fingerprint, train_and_validation(recipe)[1]))) <= 1


def test_what_a_benchmark_removes_from_training_is_recorded(tmp_path):
    problems = [f"What is {i} + 1?" for i in range(40)]
    write(tmp_path / "a.jsonl", problems)
    write(tmp_path / "exam.jsonl", problems[:20])
    recipe = recipe_of(tmp_path, ["a.jsonl"])
    rows, _, _ = load_data(recipe)
    recipe.evaluate.benchmarks[:] = [f"{tmp_path}/exam.jsonl"]
    fewer, _, data = load_data(recipe)
    removed = {fingerprint(row) for row in rows} - {fingerprint(row) for row in fewer}
    assert removed and set(data["overlapping"].split()) == removed


def test_computed_sets_are_dealt_by_place_as_ever():
    overrides = ["data.validation=4", "data.train=[arithmetic: {digits: 1}]"]
    _, validation = train_and_validation(load_recipe("recipes/tiny-arithmetic.yaml", overrides))
    assert [row["problem"][8:-1] for row in validation] == ["6 + 0", "5 + 7", "8 + 9", "7 + 0"]


@cases(__file__, "changes")
def test_data_that_has_changed_since_training_is_told(
    first, more, gold, validation, message, tmp_path, capsys
):
    """And no validation problem on which the run was trained is evaluated."""
    problems = [f"What is {i} + 1?" for i in range(100)]
    file = tmp_path / "a.jsonl"
    write(file, problems, "7")
    recipe = recipe_of(tmp_path, [file.name])
    trained = set(map(fingerprint, load_data(recipe)[0]))
    finish(recipe)
    write(file, problems[first:] + more, gold)
    capsys.readouterr()
    _, validation_rows = train_and_validation(recipe_of(tmp_path, [file.name], validation))
    assert not trained & set(map(fingerprint, validation_rows))
    said = capsys.readouterr().out
    assert message in said
    assert ("has changed since" in said) == bool(message)


def test_a_run_that_was_trained_on_every_validation_problem_is_not_evaluated(tmp_path):
    problems = [f"What is {i} + 1?" for i in range(100)]
    write(tmp_path / "a.jsonl", problems)
    finish(recipe_of(tmp_path, ["a.jsonl"]))
    _, validation = train_and_validation(recipe_of(tmp_path, ["a.jsonl"]))
    trained = [
        problem for problem in problems if problem not in {row["problem"] for row in validation}
    ]
    write(tmp_path / "a.jsonl", trained)
    with pytest.raises(RecipeError, match="every validation problem was trained on"):
        train_and_validation(recipe_of(tmp_path, ["a.jsonl"]))
