"""GRPO of trl on a policy of one token, whose end can be worked out: the distribution where reward and reference pull
equally."""

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from data import prompt
from schema.recipe import load_recipe
from tests.support import run_stage
from tests.varied_reward import ARMS
from training.model import load_model, load_tokenizer

GROUP, BETA = 64, 0.2
RECIPE = ["recipes/tiny-arithmetic.yaml", "sft=null", "data.train=[tests.varied_reward.machines]", "data.validation=1"]
RECIPE += ["rewards={tests.varied_reward.arms: {weight: 1.0}}", f"grpo.num_generations={GROUP}", f"grpo.beta={BETA}"]
RECIPE += ["grpo.per_device_train_batch_size=512", "grpo.num_iterations=1", "grpo.max_completion_length=1"]
RECIPE += ["grpo.scale_rewards=none", "grpo.max_steps=200", "grpo.learning_rate=1.0e-3", "grpo.max_grad_norm=1000000"]
RECIPE += ["grpo.temperature=1.0", "grpo.lr_scheduler_type=linear", "evaluate.benchmarks=[]"]


def distribution(recipe, tokenizer, trained=None) -> np.ndarray:
    """What the policy does at the first machine, over the vocabulary."""
    ids = prompt.prompt_ids(tokenizer, prompt.messages("Machine 0: 0 to 9?", recipe.prompt.system))
    with torch.no_grad():
        logits = load_model(recipe, tokenizer, trained).eval()(torch.tensor([list(ids)])).logits[0, -1]
    return torch.softmax(logits.double(), -1).numpy()


def balanced(reference: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """Where trl's gradient vanishes. A logit's is π(r − J) from the rewards, J their mean under π, less a share of 1/G,
    because a completion is in its own group's mean; and β(π_ref − π) from the KL term (`tests/viewer/test_lab.py` has
    why). So π = β π_ref / (β + J − r), with β G / (G − 1) for β and the J that makes the sum 1."""
    beta = BETA * GROUP / (GROUP - 1)
    mean = brentq(lambda j: (beta * reference / (beta + j - rewards)).sum() - 1, rewards.max() - beta + 1e-9, 10)
    return beta * reference / (beta + mean - rewards)


@pytest.mark.slow
def test_the_policy_ends_where_reward_and_reference_balance(tmp_path):
    run_stage("grpo", *RECIPE, f"output_dir={tmp_path}")
    recipe = load_recipe(RECIPE[0], RECIPE[1:], check=())
    tokenizer = load_tokenizer(recipe)
    rewards = np.array([ARMS.get(tokenizer.decode([i]).strip(), 0.0) for i in range(len(tokenizer))])
    before, after = distribution(recipe, tokenizer), distribution(recipe, tokenizer, tmp_path / "grpo")
    before, after = (each[: len(rewards)] for each in (before, after))
    theory = balanced(before, rewards)

    assert theory.sum() == pytest.approx(1, abs=1e-6)
    assert (after @ rewards) > 3 * (before @ rewards)
    assert np.abs(after - theory).sum() / 2 < 0.05  # total variation
