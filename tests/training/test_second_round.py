"""A second round, `recipes/tiny-second-round.yaml`: its reference is the policy of the first; and a
reward model of trl's, trained on the first round's completions by an example of the docs."""

import pytest
import torch

from schema.recipe import load_recipe
from tests.support import CHAIN, LORA, ROOT, read_lines, run_program, run_stage
from training.merging import log_probabilities
from training.model import load_model, load_tokenizer

SECOND = "recipes/tiny-second-round.yaml"
# The settings of the short run, without those of a warm start.
SHORT = [option for option in CHAIN if not option.startswith("sft.")]
SHORT += ["grpo.max_steps=2", "grpo.learning_rate=1e-3"]


@pytest.mark.train
@pytest.mark.parametrize(
    "options", [[], [LORA, "rewards.tests.varied_reward.varied={weight: 1.0}"]], ids=len
)
def test_the_last_policy_is_the_new_reference(options, chain, tmp_path):
    """With all weights, and with an adapter on it."""
    given = [f"model.name_or_path={chain / 'grpo'}", f"output_dir={tmp_path}"]
    overrides = [*given, *options, *SHORT]
    said = run_stage("grpo", SECOND, *overrides).stdout
    assert "warm start" not in said
    lines = [line for line in read_lines(tmp_path / "grpo/metrics.jsonl") if "kl" in line]
    assert lines[0]["kl"] == pytest.approx(0, abs=1e-6) and lines[1]["kl"] > 1e-6
    recipe = load_recipe(SECOND, overrides)
    tokenizer = load_tokenizer(recipe)
    ids = [[5, 6, 7, 8, 9, 10]]
    before = log_probabilities(load_model(recipe, tokenizer), ids)
    after = log_probabilities(load_model(recipe, tokenizer, tmp_path / "grpo"), ids)
    assert not torch.equal(before, after)


@pytest.mark.train
def test_a_reward_model_learns_from_the_completions_of_a_run(chain, tmp_path):
    """docs/examples/reward_model.py; and GRPO takes what it writes."""
    model = tmp_path / "reward-model"
    neighbour = str(ROOT / "docs/examples")  # which it imports
    words = [chain / "grpo", model]
    run_program("docs/examples/reward_model.py", *words, PYTHONPATH=neighbour)
    options = [f"rewards.{model}={{weight: 0.5}}", f"output_dir={tmp_path}/next"]
    run_stage("grpo", SECOND, f"model.name_or_path={chain / 'grpo'}", *options, *SHORT)
    scored = read_lines(tmp_path / "next/grpo/metrics.jsonl")[0]
    assert scored["rewards/reward-model/std"] > 0
