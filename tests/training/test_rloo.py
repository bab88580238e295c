"""RLOO in GRPO's place: trl's own trainer, with everything that is ours around it."""

import json
import shlex

import pandas as pd
import pytest
from trl import GRPOConfig, RLOOConfig

from runs.folder import recipe_in
from schema.configs import training_config
from schema.recipe import load_recipe
from tests.support import CHAIN, copied, read_lines, refused, run_stage, same_weights
from viewer.runs import describe

RECIPE = "recipes/tiny-rloo.yaml"
SHORT = [*CHAIN]
SHORT += shlex.split("""
    grpo.max_steps=6 grpo.temperature=1 grpo.eval_steps=2 evaluate.checkpoint_problems=8
    grpo.per_device_train_batch_size=16
""")


def test_a_key_that_is_left_out_says_what_it_says_to_grpo():
    args = training_config(load_recipe(RECIPE, check=()), "grpo")
    of_grpo = training_config(load_recipe(RECIPE, ["algorithm=null"], check=()), "grpo")
    assert (type(args), type(of_grpo)) == (RLOOConfig, GRPOConfig)
    assert RLOOConfig.beta != GRPOConfig.beta == args.beta  # or this shows nothing
    differing = {
        key for key, value in vars(args).items() if str(value) != str(getattr(of_grpo, key, value))
    }
    assert differing - {"logging_dir"} == set()


def test_it_leaves_all_that_grpo_leaves(chain, tmp_path):
    copied(chain, tmp_path, "sft")
    settings = [RECIPE, f"output_dir={tmp_path}", *SHORT]
    assert "kept the best checkpoint" in run_stage("grpo", *settings).stdout
    run = tmp_path / "grpo"
    lines = [line for line in read_lines(run / "metrics.jsonl") if "reward" in line]
    assert [line["step"] for line in lines] == [*range(1, 7)]
    assert "groups_without_signal" in lines[0]
    assert "RLOO (" in (run / "report.md").read_text()
    assert "made by RLOO after" in (run / "README.md").read_text()
    assert json.loads((run / "summary.json").read_text())["time"]["sampling"]["seconds"] > 0
    assert not same_weights(run, chain / "sft")
    for file in sorted((run / "completions").iterdir()):
        rows = pd.read_parquet(file)
        total = (rows["correct_answer"] + 0.25 * rows["format_tags"]).to_numpy().reshape(-1, 8)
        baseline = (total.sum(axis=1, keepdims=True) - total) / 7
        assert rows["advantage"].to_numpy() == pytest.approx((total - baseline).ravel(), abs=1e-6)
    settings_of_run = describe(run, recipe_in(run))["settings"]
    assert (settings_of_run["loss_type"], settings_of_run["scale_rewards"]) == ("rloo", "none")
    assert "algorithm: rloo there, None here" in refused("grpo", *settings, "algorithm=null")
