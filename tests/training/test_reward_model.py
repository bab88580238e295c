"""A model under `rewards`, which trl asks: a tiny one, trained with and refused."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from console.faults import Fault, RecipeError
from evaluation.findings import of_model
from machine.launch import launch
from schema.recipe import Recipe, load_recipe
from tests.made_runs import change_json
from tests.support import FEW_PROBLEMS, read_lines, run_stage
from tests.tables import cases, lacking
from training.model import load_reward_model
from training.problem_sets import train_and_validation
from training.scoring import guarded_rewards
from training.tiny_models import built_model

TINY = "recipes/tiny-arithmetic.yaml"


@pytest.fixture(scope="module")
def reward_folder(tmp_path_factory) -> Path:
    """The tiny model with a head of one label, as trl's RewardTrainer saves it. Its weights are
    random, and large enough that its score depends on the whole text."""
    folder = tmp_path_factory.mktemp("reward")
    base = built_model("tiny-qwen3", 42)
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=1)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    return folder


def with_model(folder: Path | str, *overrides: str) -> Recipe:
    return load_recipe(TINY, [*FEW_PROBLEMS, f"rewards.{folder}={{weight: 0.5}}", *overrides])


@pytest.mark.train
def test_trl_trains_with_a_reward_model(reward_folder, tmp_path):
    """The column of the files is the model's score, computed by hand; no code beside it is run."""
    folder, canary = tmp_path / "model", tmp_path / "canary"
    shutil.copytree(reward_folder, folder)
    (folder / "mine.py").write_text(f"open({str(canary)!r}, 'w')\n")
    change_json(
        folder / "config.json", auto_map={"AutoModelForSequenceClassification": "mine.Model"}
    )
    overrides = [f"output_dir={tmp_path}", "sft=null", *FEW_PROBLEMS, "grpo.max_steps=2"]
    overrides += ["grpo.per_device_train_batch_size=8", "grpo.num_generations=4"]
    overrides += ["grpo.logging_steps=1", "grpo.num_iterations=1", "grpo.max_completion_length=12"]
    # Before the functions, so that places and weights must match.
    overrides += [f"rewards={{{folder}: {{weight: 0.5}}, correct_answer: {{}}}}"]
    run_stage("grpo", TINY, *overrides)
    assert not canary.exists()
    file = sorted((tmp_path / "grpo/completions").glob("*.parquet"))[0]
    table = pd.read_parquet(file)
    tokenizer = AutoTokenizer.from_pretrained(reward_folder)
    model = AutoModelForSequenceClassification.from_pretrained(reward_folder).eval()
    scores = []
    for prompt, completion in zip(table["prompt"], table["completion"], strict=True):
        messages = [*prompt, *completion]
        ids = tokenizer.apply_chat_template(messages, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            scores.append(model(input_ids=ids).logits.item())
    assert table["model"].tolist() == pytest.approx(scores, abs=1e-4)
    assert table["model"].nunique() > 1
    total = 0.5 * table["model"] + table["correct_answer"]
    metrics = read_lines(tmp_path / "grpo/metrics.jsonl")[0]
    assert metrics["reward"] == pytest.approx(total.mean(), abs=1e-4)
    assert metrics["rewards/model/mean"] == pytest.approx(table["model"].mean(), abs=1e-4)


def findings(recipe: Recipe) -> list[Fault]:
    """What `make check` says about the reward model."""
    rows = train_and_validation(recipe)[0]
    lines = of_model(recipe, rows, launch(None, None), None)
    return [line for line in lines if "reward model" in line.message]


@cases(__file__, "models")
def test_a_check_refuses_a_wrong_reward_model(remove, keys, names, reward_folder, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(reward_folder, folder)
    if remove:
        (folder / remove).unlink()
    else:
        change_json(folder / "config.json", **keys)
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(f"base: tiny-arithmetic.yaml\nrewards:\n  {folder}: {{weight: 0.5}}\n")
    shutil.copy(TINY, tmp_path)
    [fault] = findings(load_recipe(recipe, FEW_PROBLEMS))
    assert fault.level == "error" and str(fault).startswith(f"{recipe}:3: ")
    assert lacking([str(folder), *names], fault.message) == []


def test_a_check_loads_no_reward_model_and_the_audit_leaves_it_out(
    reward_folder, monkeypatch, capsys
):
    monkeypatch.setattr(AutoModelForSequenceClassification, "from_pretrained", None)
    assert findings(with_model(reward_folder)) == []
    output = capsys.readouterr().out
    assert f"audit: rewards.{reward_folder} is left out" in output
    assert "audit: no reward hack earns more than an honest answer" in output
    [fault] = findings(with_model("some/model"))
    assert fault.level == "hint"
    assert fault.message.startswith("not seen: reward model some/model: ")


def test_pickled_weights_are_not_loaded(reward_folder, tmp_path):
    folder = tmp_path / "model"
    model = AutoModelForSequenceClassification.from_pretrained(reward_folder)
    shutil.copytree(reward_folder, folder)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    AutoModelForSequenceClassification.from_pretrained(folder)  # or this shows nothing
    with pytest.raises(RecipeError, match=r"holds no model\.safetensors"):
        load_reward_model(with_model(folder), str(folder))


def test_a_reward_model_is_none_of_the_functions(reward_folder):
    functions = guarded_rewards(with_model(reward_folder))
    assert [function.name for function in functions] == ["correct_answer", "format_tags"]
