"""`make reward-model`, really run on a run whose completions a reward model can learn to tell apart."""

import json
import random
import shutil
from pathlib import Path

import pandas as pd
import pytest

from data.sources import DataError
from evaluation.pairs import LEAST, PER_GROUP, accuracy, reward_pairs, split
from schema.problem_sets import train_and_held_out
from schema.recipe import Recipe, load_recipe
from stages.reward_model import use
from tests.support import refused, run_stage, same_weights
from training.model import load_tokenizer
from training.pairs import PAIRS, read_pairs
from training.reward_model import RewardModel, base_with_head, load_reward_model
from training.run_folder import as_yaml

TINY = "recipes/tiny-arithmetic.yaml"
RIGHT, WRONG = "abcdefghijklm", "nopqrstuvwxyz"
GIVEN = ["data.validation=8", "data.train=[arithmetic: {digits: 1}]", "evaluate.benchmarks=[]"]
GIVEN += ["reward_model={max_steps: 40, per_device_train_batch_size: 16, learning_rate: 3.0e-3, save_steps: 20}"]


def made(folder: Path, groups: int = 60, size: int = 8) -> Recipe:
    """A run's folder as the stage reads it: half of each group right, which here means that its letter is one of the
    first half of the alphabet. Each step's file also holds a group of a held-out problem."""
    recipe = load_recipe(TINY, [f"output_dir={folder}", *GIVEN], check=())
    rows, held_out = train_and_held_out(recipe)
    run, rng = folder / "grpo", random.Random(0)
    (run / "completions").mkdir(parents=True)
    (run / "metrics.jsonl").write_text("")
    (run / "recipe.yaml").write_text(as_yaml(recipe.resolved()))
    for step in range(0, groups, 4):
        sampled = []
        for row in [*rows[step : step + 4], held_out[step % len(held_out)]]:
            for i in range(size):
                letter = rng.choice(RIGHT if i % 2 else WRONG)
                text = f"{rng.randrange(10**6)} {letter} {rng.randrange(100)}"
                sampled.append((row["problem"], text, float(i % 2)))
        frame = pd.DataFrame(sampled, columns=["prompt", "completion", "correct_answer"])
        frame["prompt"] = frame["prompt"].map(lambda text: [{"role": "user", "content": text}])
        frame["completion"] = frame["completion"].map(lambda text: [{"role": "assistant", "content": text}])
        frame.insert(0, "step", step)
        frame["advantage"] = 0.0
        frame.to_parquet(run / f"completions/completions_{step:05d}.parquet")
    return recipe


def test_the_pairs_are_of_one_group_right_and_wrong_and_never_of_a_held_out_problem(tmp_path):
    recipe = made(tmp_path)
    rows, held_out = train_and_held_out(recipe)
    pairs = reward_pairs(tmp_path / "grpo", {row["problem"] for row in rows}, recipe.seed)
    assert len(pairs) == 60 * PER_GROUP and pairs == reward_pairs(
        tmp_path / "grpo", {row["problem"] for row in rows}, recipe.seed
    )
    assert all(each.right.split()[1] in RIGHT and each.wrong.split()[1] in WRONG for each in pairs)
    assert not {each.problem for each in pairs} & {row["problem"] for row in held_out}
    texts = [text for each in pairs for text in (each.right, each.wrong)]
    assert len(texts) == len(set(texts))  # no completion in two pairs
    files = sorted((tmp_path / "grpo/completions").iterdir())
    again = pd.read_parquet(files[0]).assign(step=1)  # a batch that was used for two steps
    again.to_parquet(files[0].with_name("completions_00001.parquet"))
    assert pairs == reward_pairs(tmp_path / "grpo", {row["problem"] for row in rows}, recipe.seed)
    learned, measured = split(pairs, recipe.seed)
    assert len(learned) + len(measured) == len(pairs) and len({each.problem for each in measured}) == 12
    assert not {each.problem for each in learned} & {each.problem for each in measured}


@pytest.mark.parametrize(("low", "advised"), [(0.38, False), (0.5, False), (0.52, True)])
def test_a_model_at_chance_is_not_recommended(low, advised):
    said = use({"low": low}, Path("outputs/x/reward-model"))
    assert ("in a recipe: rewards.learned: {model: outputs/x/reward-model" in said) == advised
    assert ("do not reward by it yet" in said) != advised


def test_a_file_that_is_not_one_of_completions_is_named(tmp_path):
    made(tmp_path, groups=4)
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "grpo/completions/completions_00009.parquet")
    with pytest.raises(DataError, match=r"completions_00009\.parquet"):
        reward_pairs(tmp_path / "grpo", set(), 0)
    odd = pd.DataFrame({"prompt": ["?"], "completion": ["!"], "correct_answer": [1.0]})
    odd.to_parquet(tmp_path / "grpo/completions/completions_00009.parquet")
    with pytest.raises(DataError, match="are not the messages that a run writes"):
        reward_pairs(tmp_path / "grpo", set(), 0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("run")
    made(folder)
    return folder, run_stage("reward_model", folder).stdout


@pytest.mark.train
def test_it_learns_to_tell_right_from_wrong(trained):
    folder, said = trained
    summary = json.loads((folder / "reward-model/summary.json").read_text())
    measured = summary["measured"]
    # 48 of the 60 problems are learned from; the 12 others are measured.
    assert summary["pairs"] == 48 * PER_GROUP and measured["problems"] == 12 and measured["pairs"] == 48
    recipe = load_recipe(folder / "grpo/recipe.yaml", [f"output_dir={folder}"], check=())
    rows, _ = train_and_held_out(recipe)
    seen, unseen = split(reward_pairs(folder / "grpo", {row["problem"] for row in rows}, recipe.seed), recipe.seed)
    assert read_pairs(folder / "reward-model" / PAIRS) == seen
    untrained = accuracy(RewardModel(base_with_head(recipe), load_tokenizer(recipe), of_steps=False), unseen)
    assert untrained["accuracy"] < 0.7 and untrained["pairs"] == 48
    assert measured["accuracy"] > 0.9 and measured["low"] <= measured["accuracy"] <= measured["high"]
    assert f"right above wrong in {measured['accuracy']:.1%} of 48 pairs of 12 problems held back (95% interval" in said
    assert f"rewards.learned: {{model: {folder}/reward-model, weight: 0.5}}" in said


@pytest.mark.train
def test_a_recipe_can_name_what_it_made(trained):
    folder, _ = trained
    recipe = load_recipe(TINY, [f"rewards.learned={{model: {folder}/reward-model}}"], check=())
    asked = {"role": "user", "content": "What is 1 + 1?"}
    right, wrong = ([asked, {"role": "assistant", "content": text}] for text in ("700000 c 70", "700000 t 70"))
    better, worse = load_reward_model(recipe).scores([right, wrong])
    assert better > worse


@pytest.mark.train
def test_asked_again_it_trains_nothing_and_half_made_it_is_not_finished(trained, tmp_path):
    folder, _ = trained
    assert "finished already" in run_stage("reward_model", folder).stdout
    shutil.copytree(folder, tmp_path / "copy")
    half = tmp_path / "copy/reward-model"
    for name in ("summary.json", "model.safetensors"):  # as after a kill at step 20
        (half / name).unlink()
    shutil.rmtree(half / "checkpoint-40")
    said = run_stage("reward_model", tmp_path / "copy").stdout
    assert "from " + str(half / "checkpoint-20") in said
    assert same_weights(half, folder / "reward-model")


@pytest.mark.train
def test_an_adapter_ends_as_a_whole_model(tmp_path):
    made(tmp_path)
    run_stage("reward_model", tmp_path, "adapter={r: 4, target_modules: all-linear}", "reward_model.max_steps=2")
    assert not list((tmp_path / "reward-model").glob("adapter_*"))
    measured = json.loads((tmp_path / "reward-model/summary.json").read_text())["measured"]
    assert 0 <= measured["accuracy"] <= 1


def test_too_few_problems_are_told_with_what_to_do(tmp_path):
    made(tmp_path, groups=8)
    told = f"8 training problems have a right and a wrong completion in one group; {LEAST} are needed"
    assert f"{tmp_path}/grpo/completions: {told}" in refused("reward_model", tmp_path)
    assert not (tmp_path / "reward-model").exists()
