"""What may change where a run goes on, what may not, and that advice on a run is accepted."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import TrainerState, TrainingArguments

from console.faults import RecipeError
from runs import identity, writing
from runs.identity import BASE, find_run
from runs.state import RunState
from runs.writing import sources_of
from schema.recipe import load_recipe
from tests.made_runs import write_json
from tests.support import CHAIN, refused, run_stage, same_weights
from tests.tables import cases
from training.callbacks import Checkpoints
from training.train import out_of_memory
from training.watch import gamed

TINY = "recipes/tiny-arithmetic.yaml"
STEADY = ["grpo.num_iterations=1", "grpo.lr_scheduler_type=constant", "grpo.max_steps=4"]
ROWS = [{"problem": "1 + 1?", "solution": "2", "level": 3}]
PAY = "def pay(completions, **columns):\n    return [0.0] * len(completions)\n"


def read(folder, *overrides: str):
    return load_recipe(TINY, [f"output_dir={folder}", *overrides])


def conflict(recipe, stage: str, to_train: bool = False):
    return identity.conflict(recipe, RunState.read(recipe.stage_dir(stage)), to_train)


def begun(folder, *overrides: str, step: int = 4, summary: dict | None = None):
    """A run of GRPO with a checkpoint, finished where it has a summary."""
    recipe = read(folder, *overrides)
    writing.begin(find_run(recipe, "grpo", to_train=True), recipe, ROWS)
    (folder / f"grpo/checkpoint-{step}").mkdir()
    if summary:
        write_json(folder / "grpo/summary.json", summary)
    return recipe


def fault(folder, *overrides: str) -> str:
    return str(conflict(read(folder, *overrides), "grpo", to_train=True) or "")


def test_a_run_that_rloo_trained_is_another(tmp_path):
    begun(tmp_path)
    with (tmp_path / "grpo/recipe.yaml").open("a") as file:
        file.write("algorithm: rloo\n")
    with pytest.raises(RecipeError, match=r"trained with algorithm: rloo; the version of the tag"):
        conflict(read(tmp_path), "grpo")
    assert conflict(read(tmp_path), "sft") is None


@cases(__file__, "longer")
def test_a_run_is_trained_longer_where_that_is_what_one_run_does(
    before, after, step, reason, tmp_path
):
    before = [*STEADY, *before] if before is not None else []
    begun(tmp_path, *before, step=step, summary={"steps": step})
    assert reason in fault(tmp_path, *before, after)
    assert bool(reason) == bool(fault(tmp_path, *before, after))
    # What only reads the run wants that of the recipe.
    steps = after.partition("=")[2]
    message = str(conflict(read(tmp_path, *before, after), "grpo"))
    assert f" there, {steps} here" in message and "make grpo" in message
    assert find_run(read(tmp_path, *before), "grpo", to_train=True).finished


def test_a_warm_start_that_grpo_began_from_is_not_trained_on(tmp_path):
    begun(tmp_path, *STEADY, summary={"steps": 4})
    (tmp_path / "sft").mkdir()
    recipe = read(tmp_path, *STEADY, "sft={max_steps: 3}")
    write_json(tmp_path / "sft/summary.json", {"steps": 3})
    (tmp_path / "sft/recipe.yaml").write_text(writing.as_yaml(recipe.resolved()))
    longer = read(tmp_path, *STEADY, "sft={max_steps: 6}")
    with pytest.raises(RecipeError, match=r"grpo began from the warm start in .* its own folder"):
        find_run(longer, "sft", to_train=True)


def test_a_finished_run_without_checkpoints_is_not_begun_anew(tmp_path):
    begun(tmp_path, *STEADY, summary={"steps": 4})
    (tmp_path / "grpo/checkpoint-4/manifest.json").write_text("torn")
    with pytest.raises(RecipeError, match="has no checkpoint to go on from"):
        find_run(read(tmp_path, *STEADY, "grpo.max_steps=9"), "grpo", to_train=True)
    assert (tmp_path / "grpo/summary.json").is_file()


def with_own_files(folder, own_file):
    """A function that begins a run again with some rows. Its reward, what that imports, and its
    model are the user's files."""
    own_file("paid.py", f"def late():\n    from pays import AMOUNT\n{PAY}")
    (folder / "pays.py").write_text("AMOUNT = 1\n")
    (folder / "base").mkdir()
    (folder / "base/chat_template.jinja").write_text("{{ messages }}")
    rewards = {"paid.pay": {"weight": 1.0}, "correct_answer": {}}
    recipe = replace(begun(folder), rewards=rewards)
    model = replace(recipe.model, name_or_path=str(folder / "base"))
    recipe = replace(recipe, model=model)

    def begin_again(rows=ROWS):
        writing.begin(RunState.read(folder / "grpo"), recipe, rows)

    (folder / "grpo/versions.json").unlink()
    begin_again()
    begin_again()
    return begin_again


@pytest.mark.parametrize("name", ["paid.py", "pays.py"])
def test_a_reward_that_was_corrected_is_said_once_and_noted(name, tmp_path, own_file, capsys):
    begin_again = with_own_files(tmp_path, own_file)
    file = tmp_path / name
    file.write_text(f"{file.read_text()}# corrected\n")
    message = (
        f"{tmp_path}/grpo began with other files behind rewards.paid.pay, and goes on with these"
    )
    assert message not in capsys.readouterr().out
    begin_again()
    begin_again()
    assert capsys.readouterr().out.count(message) == 1
    versions = json.loads((tmp_path / "grpo/versions.json").read_text())
    assert versions["changed"] == [{"from": None, "sources": ["rewards.paid.pay"]}]


@pytest.mark.parametrize("changed", ["columns of data.train", BASE])
def test_other_columns_or_another_model_are_refused(changed, tmp_path, own_file, capsys):
    begin_again = with_own_files(tmp_path, own_file)
    rows = ROWS
    if changed == BASE:
        (tmp_path / "base/chat_template.jinja").write_text("{{ messages[0] }}")
    else:
        rows = [ROWS[0] | {"level": 4}]
    own_file("paid.py", f"{PAY}# corrected as well\n")
    with pytest.raises(RecipeError, match=rf"behind .*{changed}.*: change them back, or") as error:
        begin_again(rows)
    file = re.search(r"to go on with them all the same, delete (\S+)$", str(error.value))[1]
    Path(file).unlink()
    begin_again(rows)
    assert f"{file} was lost" in capsys.readouterr().out


def test_a_smaller_number_of_checkpoints_makes_room(tmp_path):
    for step in (2, 4):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}/manifest.json").touch()

    state = TrainerState(global_step=4, max_steps=9)
    args = TrainingArguments(tmp_path, use_cpu=True, report_to=[])
    Checkpoints(1).on_train_begin(args, state, None, torch.nn.Linear(1, 1))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-4"]


@pytest.mark.parametrize("named", [None, "original/checkpoint-2"])
def test_the_best_checkpoint_is_the_one_beside_the_others(named, tmp_path):
    """Where the run was before, it may have been deleted, or be that of another run now. One that
    is gone is in the way of no later one."""
    best = {"best_model_checkpoint": named, "best_global_step": 2, "best_metric": 0.9}
    state = TrainerState(max_steps=9, **best)
    args = TrainingArguments(tmp_path, use_cpu=True, report_to=[])
    Checkpoints(None).on_train_begin(args, state, None, torch.nn.Linear(1, 1))
    assert state.best_model_checkpoint is None and state.best_metric is None
    (tmp_path / "checkpoint-2").mkdir()
    state = TrainerState(max_steps=9, **best)
    Checkpoints(None).on_train_begin(args, state, None, torch.nn.Linear(1, 1))
    assert state.best_model_checkpoint == f"{tmp_path}/checkpoint-2" and state.best_metric == 0.9


def test_less_memory_and_more_patience_go_on(tmp_path):
    validation = ["grpo.eval_steps=8", "grpo.save_steps=8", "grpo.steps_per_generation=4"]
    begun(tmp_path, *validation, summary={"steps": 4, "stopped": "gamed"})
    advice = out_of_memory(read(tmp_path, *validation))
    changes = re.findall(r"(per_device\w+|gradient\w+|steps_per\w+) \d+ → (\d+)", advice)
    assert len(changes) == 3
    assert fault(tmp_path, *validation, *(f"grpo.{key}={value}" for key, value in changes)) == ""
    length = r"max_completion_length \d+ → \d+, in a run of its own \(output_dir\)"
    assert re.search(length, advice)
    assert "evaluate.patience" in gamed([(1, "1" * 9), (2, "0" * 9)], [(1, 0.0), (2, 1.0)], 1)
    for patience, goes_on in ((3, False), (2, False), (9, True), (0, True)):
        recipe = read(tmp_path, *validation, f"evaluate.patience={patience}")
        assert conflict(recipe, "grpo", to_train=True) is None
        if goes_on:
            with pytest.raises(RecipeError, match="has no checkpoint to go on from"):
                find_run(recipe, "grpo", to_train=True)
        else:
            assert find_run(recipe, "grpo", to_train=True).finished


def test_the_folder_that_a_conflict_names_is_free(tmp_path):
    begun(tmp_path / "x")
    words = fault(tmp_path / "x", "grpo.beta=0.1").splitlines()
    folder = re.search(r"output_dir=(\S+?)[\"\s]", f"{words[-2]} ")[1]
    assert fault(folder, "grpo.beta=0.1") == ""


@pytest.mark.train
def test_a_run_that_is_trained_longer_ends_as_one_of_that_length(tmp_path):
    own = [*CHAIN, "sft=null", "grpo.lr_scheduler_type=constant", "grpo.save_steps=2"]
    own += ["rewards.tests.varied_reward.varied={weight: 1.0}", "grpo.max_completion_length=8"]
    own += ["grpo.per_device_train_batch_size=8", "grpo.num_generations=4"]

    def train(folder: str, *overrides: str) -> str:
        return run_stage("grpo", TINY, f"output_dir={tmp_path}/{folder}", *own, *overrides).stdout

    train("longer", "grpo.max_steps=2")
    more = ["grpo.max_steps=4", "grpo.logging_steps=2", "grpo.save_total_limit=1"]
    assert f"from {tmp_path}/longer/grpo/checkpoint-2" in train("longer", *more)
    train("whole", "grpo.max_steps=4")
    assert same_weights(tmp_path / "longer/grpo", tmp_path / "whole/grpo")
    assert json.loads((tmp_path / "longer/grpo/summary.json").read_text())["steps"] == 4
    assert [path.name for path in (tmp_path / "longer/grpo").glob("check*")] == ["checkpoint-4"]
    assert not (tmp_path / "longer/grpo/completions/completions_00003.parquet").exists()
    assert "finished already" in train("longer", *more)
    said = refused("grpo", TINY, f"output_dir={tmp_path}/longer", *own, "grpo.max_steps=3")
    assert "  grpo.max_steps: 4 there, 3 here" in said


def test_the_order_of_a_rows_columns_changes_nothing():
    recipe = load_recipe(TINY).resolved()
    turned = [dict(reversed(ROWS[0].items()))]
    before = sources_of(recipe, Path("grpo"), ROWS)
    assert sources_of(recipe, Path("grpo"), turned) == before
    assert sources_of(recipe, Path("grpo"), [ROWS[0] | {"level": 4}]) != before
