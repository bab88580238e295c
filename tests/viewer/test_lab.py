"""The lab's arithmetic, in numpy (bandit.py): trl's own where both apply, finite differences, exact
expectations, and what a run learns."""

import ast
import inspect
import itertools
import json
import textwrap
import time
from collections import defaultdict
from types import MethodType, SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from trl import GRPOConfig, GRPOTrainer
from trl.trainer import grpo_trainer

from schema.recipe import load_recipe
from stages.memory import with_critic
from tests.bench.sizes import FILE, SHAPES, held, table
from tests.support import ROOT
from tests.viewer import bandit
from training.memory import estimate

ONE_TOKEN = ("grpo", "bnpo", "dr_grpo", "dapo")  # with completions of one token, the same loss
EXACT = {"rel": 1e-6, "abs": 1e-9}


def drawn(seed: int, group: int = 8, spread: float = 1.0):
    """(logits, actions, rewards, old and reference log-probabilities) that have nothing in
    common."""
    rng = np.random.default_rng(seed)
    logits, old, reference = spread * rng.standard_normal((3, bandit.ACTIONS))
    actions, rewards = rng.integers(0, bandit.ACTIONS, group), rng.random(group)
    policies = bandit.log_policy(old, 1.0), bandit.log_policy(reference, 1.0)
    return logits, actions, rewards, *policies


def by_trl(logits, actions, gains, old, reference, clip, beta, temperature, **options):
    """(loss, gradient by the logits, metrics) by trl's own `_compute_loss`, for a model that
    answers with one token. `options`: `loss_type` and `corrected`, whether the KL is."""
    options = {"loss_type": "grpo", "corrected": False} | options
    logits = torch.tensor(logits, requires_grad=True)

    def model(input_ids, labels, **rest):
        # trl's head divides by the temperature it was made with
        logps = torch.log_softmax(logits / temperature, dim=0)
        entropy = -(logps.exp() * logps).sum().expand(input_ids.shape)
        return SimpleNamespace(log_probs=logps[input_ids], entropy=entropy)

    args = SimpleNamespace(delta=None, steps_per_generation=1)
    args.use_bias_correction_kl = options["corrected"]
    trainer = SimpleNamespace(args=args, model=SimpleNamespace(training=True))
    trainer.accelerator = Accelerator(cpu=True)
    trainer.aux_loss_enabled = trainer._entropy_bonus_enabled = trainer.use_vllm = False
    trainer.top_entropy_quantile, trainer.off_policy_mask_threshold = 1.0, None
    trainer.importance_sampling_level, trainer.beta = "token", beta
    trainer.loss_type = options["loss_type"]
    trainer.epsilon_low = trainer.epsilon_high = clip
    trainer.current_gradient_accumulation_steps = trainer.max_completion_length = 1
    trainer._metrics = {"train": defaultdict(list)}
    method = GRPOTrainer._get_per_token_logps_and_entropies
    trainer._get_per_token_logps_and_entropies = MethodType(method, trainer)
    ids = torch.tensor(actions)[:, None]
    inputs = {"prompt_ids": torch.zeros_like(ids), "completion_ids": ids}
    inputs |= dict.fromkeys(("prompt_mask", "completion_mask"), torch.ones_like(ids))
    inputs |= {"old_per_token_logps": torch.tensor(old)[ids]}
    inputs |= {"ref_per_token_logps": torch.tensor(reference)[ids]}
    inputs |= {"advantages": torch.tensor(gains), "num_items_in_batch": torch.tensor(len(actions))}
    loss = GRPOTrainer._compute_loss(trainer, model, inputs)
    loss.backward()
    metrics = {name: values[0] for name, values in trainer._metrics["train"].items()}
    return loss.item(), logits.grad.numpy(), metrics


@pytest.mark.parametrize("loss_type", ONE_TOKEN)
@pytest.mark.parametrize(
    ("clip", "beta", "temperature"),
    [(0.2, 0.0, 1.0), (0.2, 0.04, 1.0), (0.0, 0.5, 0.7), (1.0, 1.0, 3.0)],
)
def test_loss_and_gradient_are_trls(loss_type, clip, beta, temperature):
    clipped = 0
    for seed in range(10):
        logits, actions, rewards, old, reference = drawn(seed)
        _, gains = bandit.advantages("grpo", rewards)
        given = (logits, actions, gains, old, reference, clip, beta, temperature)
        ours = bandit.update(*given)
        loss, gradient, metrics = by_trl(*given, loss_type=loss_type)
        assert ours["loss"] == pytest.approx(loss, **EXACT)
        assert ours["gradient"] == pytest.approx(gradient, **EXACT)
        assert ours["is_clipped"].mean() == pytest.approx(metrics["clip_ratio/region_mean"])
        assert beta == 0 or ours["kl"].mean() == pytest.approx(metrics["kl"], **EXACT)
        clipped += ours["is_clipped"].sum()
    assert 0 < clipped < 80  # the comparison had both kinds


def is_if(node: ast.AST) -> bool:
    return isinstance(node, ast.If)


@pytest.mark.parametrize("scale", ["group", "none"])
@pytest.mark.parametrize(
    "rewards", [[1, 0, 0, 0], [1, 1, 1, 1], [0.3, -0.2, 0.9, 0.9, 0.1], [1.25, 0.25]]
)
def test_advantages_are_trls(rewards, scale):
    """By the lines of trl's method that compute them, found in its source and run here."""
    source = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    branches = [node for node in ast.walk(ast.parse(textwrap.dedent(source))) if is_if(node)]
    lines = next(node for node in branches if "'sum_then_n" in ast.unparse(node.test))
    trainer = SimpleNamespace(multi_objective_aggregation="sum_then_normalize", scale_rewards=scale)
    trainer.reward_weights = torch.ones(1, dtype=torch.float64)
    names = {"self": trainer, "device": "cpu", "num_generations": len(rewards)}
    names |= {"rewards_per_func": torch.tensor(rewards, dtype=torch.float64)[:, None]}
    names |= {"unscorable_mask": torch.zeros(len(rewards)).bool()}
    exec(compile(ast.Module([lines], []), "trl", "exec"), vars(grpo_trainer) | names, names)
    _, gains = bandit.advantages("grpo", np.array(rewards, dtype=float), scale_rewards=scale)
    assert gains == pytest.approx(names["advantages"].numpy(), **EXACT)


def test_the_defaults_that_are_trls():
    trls = GRPOConfig(use_cpu=True, bf16=False)
    for name in ("num_generations", "epsilon", "beta", "temperature", "scale_rewards"):
        assert bandit.DEFAULTS[name] == getattr(trls, name)
    names = bandit.DEFAULTS.keys() - {"matched", "noise", "peak", "logits"}
    assert [name for name in names if not hasattr(trls, name)] == []


@pytest.mark.parametrize("clip", [None, 0.2])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_gradient_is_that_of_finite_differences_and_an_update_is_sgd(clip, temperature):
    for seed in range(10):
        logits, actions, rewards, old, reference = drawn(seed, spread=0.5)

        def loss(at, actions=actions, gains=rewards - 0.5, old=old, reference=reference):
            return bandit.update(at, actions, gains, old, reference, clip, 0.3, temperature, 0.7)

        small = 1e-6 * np.eye(bandit.ACTIONS)
        around = [(loss(logits + move)["loss"], loss(logits - move)["loss"]) for move in small]
        slopes = [(above - below) / 2e-6 for above, below in around]
        made = loss(logits)
        assert made["gradient"] == pytest.approx(slopes, abs=1e-7)
        assert made["logits_after"] == pytest.approx(logits - 0.7 * made["gradient"])


def test_a_group_with_equal_rewards_moves_nothing_but_by_its_kl():
    logits, actions, _, old, reference = drawn(3)
    for algorithm in ("grpo", "rloo"):
        _, gains = bandit.advantages(algorithm, np.full(8, 0.25))  # 0.25: the mean is exact
        assert not bandit.update(logits, actions, gains, old, reference, 0.2)["gradient"].any()
        made = bandit.update(logits, actions, gains, old, reference, 0.2, beta=0.1)
        nothing = bandit.update(logits, actions, np.zeros(8), old, reference, 0.2, beta=0.1)
        assert made["gradient"].any() and (made["gradient"] == nothing["gradient"]).all()


def exact_gradient(logits, action_rewards, temperature=1.0):
    """Of the expected reward J by the logits: π_a (r_a − J) / temperature."""
    chances = np.exp(bandit.log_policy(logits, temperature))
    return chances * (action_rewards - chances @ action_rewards) / temperature


GROUPS = 10_000


def estimated(algorithm: str, logits, action_rewards, scale: str = "group"):
    """(mean, standard error), each (10,), of minus the first update's gradient over many groups of
    4."""
    now, rng = bandit.log_policy(logits, 1.0), np.random.default_rng(0)
    found = []
    for actions in rng.choice(bandit.ACTIONS, (GROUPS, 4), p=np.exp(now)):
        _, gains = bandit.advantages(algorithm, action_rewards[actions], 0.3, scale)
        found.append(-bandit.update(logits, actions, gains, now, now)["gradient"])
    return np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(GROUPS)


@pytest.mark.parametrize(
    ("algorithm", "share"),
    [("reinforce", 1), ("reinforce_baseline", 1), ("ppo", 1), ("rloo", 1), ("grpo", 3 / 4)],
)
def test_the_first_updates_gradient_is_that_of_the_expected_reward(algorithm, share):
    """Without bias where the baseline knows nothing of the action; the mean of the group, which
    does, shrinks it to (G − 1) / G. 4 standard errors: of 50 numbers, one is beyond them by chance
    in 3 of 1,000 tries.
    """
    logits = 0.7 * np.random.default_rng(5).standard_normal(bandit.ACTIONS)
    action_rewards = bandit.rewards_of("two peaks", 0)
    mean, error = estimated(algorithm, logits, action_rewards, "none")
    exact = exact_gradient(logits, action_rewards)
    assert (abs(mean - share * exact) < 4 * error).all()
    assert abs(exact).max() > 40 * error.max()  # so a tenth more or less would be seen


def test_the_kl_term_has_the_value_of_one_kl_and_the_gradient_of_the_other():
    """The mean of k3 over the policy is KL(policy ‖ reference); that of its gradient is
    KL(reference ‖ policy)'s."""
    logits, _, _, _, reference = drawn(2)
    now = bandit.log_policy(logits, 1.0)
    made = []
    for action in np.arange(bandit.ACTIONS)[:, None]:
        made.append(bandit.update(logits, action, np.zeros(1), now, reference, beta=1.0))
    assert np.exp(now) @ [each["kl"][0] for each in made] == pytest.approx(made[0]["exact_kl"])
    gradient = np.exp(now) @ np.array([each["gradient"] for each in made])
    assert gradient == pytest.approx(np.exp(now) - np.exp(reference))


@pytest.mark.parametrize(
    ("landscape", "rewards"),
    [
        ("one peak", {2: 1.0, 3: 0.8, 6: 0.2, 7: 0.0, 9: 0.0}),
        ("two peaks", {0: 0.175, 3: 0.7, 4: 0.525, 7: 0.0, 8: 1.0, 9: 0.0}),
        ("linear", {0: 0.0, 3: 1 / 3, 9: 1.0}),
    ],
)
def test_landscapes(landscape, rewards):
    made = bandit.rewards_of(landscape, 2)
    assert {place: made[place] for place in rewards} == pytest.approx(rewards)
    assert made.max() == 1.0 and sum(made == 1.0) == 1


@pytest.mark.parametrize("landscape", bandit.LANDSCAPES)
@pytest.mark.parametrize("algorithm", bandit.ALGORITHMS)
def test_the_best_action_is_learned(algorithm, landscape):
    """The defaults make it the likely answer. Without a baseline whatever is sampled gains: with
    one seed in ten the second best keeps what it gained."""
    for seed in range(3):
        made = bandit.run(algorithm, landscape, seed=seed)
        assert made["probabilities"][np.argmax(made["action_rewards"])] > 0.5
        assert made["expected_reward"][-1] > made["expected_reward"][0]


def steps_to(reward: float, algorithm: str, **settings) -> list[int]:
    runs = [bandit.run(algorithm, seed=seed, max_steps=100, **settings) for seed in range(15)]
    return [int(np.argmax(np.array(each["expected_reward"]) >= reward)) or 100 for each in runs]


def test_grpos_lead_is_its_rate():
    """The page says so: at one rate it needs less than half of RLOO's steps, at matched ones as
    many."""
    others = np.median(steps_to(0.9, "rloo"))
    assert np.median(steps_to(0.9, "grpo", matched=False)) < 0.5 * others
    assert np.median(steps_to(0.9, "grpo")) == pytest.approx(others, rel=0.15)


def test_two_peaks_trap_who_learns_fast_from_few():
    """The page's own number, 8 of 30; at the defaults, none of ten."""
    trap = {"num_generations": 2, "num_iterations": 1, "learning_rate": 4.0, "matched": False}
    for settings, seeds, trapped in ((trap, 30, 8), ({"max_steps": 100}, 10, 0)):
        ends = [bandit.run("grpo", "two peaks", seed=seed, **settings) for seed in range(seeds)]
        likely = [np.argmax(each["probabilities"]) for each in ends]
        assert [likely.count(8), likely.count(3)] == [seeds - trapped, trapped]
        assert all(each["largest"][-1] > 0.9 for each in ends)
    page = (ROOT / "viewer/page/lab.js").read_text(encoding="utf-8")
    assert "8 of 30 seeds of GRPO end at 3, which earns 0.7" in page
    assert "num_generations: 2, num_iterations: 1, learning_rate: 4, matched: false" in page


@pytest.mark.parametrize("algorithm", bandit.ALGORITHMS)
def test_a_run_says_all_that_leads_from_one_step_to_the_next(algorithm):
    asked = {"num_iterations": 3, "learning_rate": 2.0, "beta": 0.01, "noise": 0.1}
    asked |= {"max_steps": 30, "seed": 4}
    made = bandit.run(algorithm, "two peaks", **asked)
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    assert bandit.run(algorithm, "two peaks", **asked) == made
    assert made["settings"] == bandit.DEFAULTS | asked
    in_loss = 0.0 if algorithm == "reinforce_plus_plus" else 0.01
    divides = algorithm in ("grpo", "reinforce_plus_plus")
    rate = 2.0 * (np.std(made["action_rewards"]) if divides else 1)
    assert made["learning_rate"] == pytest.approx(rate)
    assert len(made["steps"]) == 30 and made["diverged"] is None
    logits, value, seen, clipped = [0.0] * 10, 0.0, [], 0
    for i, step in enumerate(made["steps"]):
        rewards, gains = np.array(step["rewards"]), np.array(step["advantages"])
        assert step["mean"] == pytest.approx(rewards.mean())
        assert step["std"] == pytest.approx(np.std(rewards, ddof=1))
        known = {"ppo": value, "reinforce_baseline": np.mean(seen or [0]), "reinforce": 0}
        expected = [known.get(algorithm, step["mean"])] * 8
        if algorithm == "rloo":
            expected = [np.delete(rewards, j).mean() for j in range(8)]
        assert step["baselines"] == pytest.approx(expected)
        scale = step["std"] + 1e-4 if divides else 1
        assert gains == pytest.approx((rewards - step["baselines"]) / scale)
        assert step["updates"][0]["ratios"] == [1] * 8
        seen.extend(rewards)
        for update in step["updates"]:
            assert update["logits"] == logits
            ratios = np.array(update["ratios"])
            sampled = np.array(update["probabilities"])[step["actions"]]
            assert update["new_probabilities"] == list(sampled)
            assert ratios == pytest.approx(sampled / step["old_probabilities"])
            low, high = (0.8, 1.2) if algorithm in bandit.CLIPS else (0, np.inf)
            unclipped, clip = ratios * gains, np.clip(ratios, low, high) * gains
            policy_loss = -np.minimum(unclipped, clip).mean()
            expected = {"unclipped": unclipped, "clipped": clip, "policy_loss": policy_loss}
            expected["loss"] = policy_loss + in_loss * np.mean(update["kl"])
            expected["logits_after"] = np.array(logits) - rate * np.array(update["gradient"])
            for name, values in expected.items():
                assert update[name] == pytest.approx(values), name
            assert update["is_clipped"] == list(clip < unclipped)
            logits, clipped = update["logits_after"], clipped + sum(update["is_clipped"])
            value += bandit.CRITIC_RATE * (rewards.mean() - value)
        final = np.exp(bandit.log_policy(np.array(logits), 1.0))
        assert made["expected_reward"][i + 1] == pytest.approx(final @ made["action_rewards"])
        assert made["kl"][i + 1] == pytest.approx(final @ np.log(final / 0.1))
        assert made["entropy"][i + 1] == pytest.approx(np.log(10) - made["kl"][i + 1])
        assert made["largest"][i + 1] == pytest.approx(final.max())
    assert made["probabilities"] == pytest.approx(final)
    assert bool(clipped) == (algorithm in bandit.CLIPS)


def test_all_algorithms_start_with_the_same_group_whatever_the_noise():
    actions, rewards = set(), set()
    for algorithm, noise in itertools.product(bandit.ALGORITHMS, (0.0, 0.5)):
        [step] = bandit.run(algorithm, max_steps=1, noise=noise)["steps"]
        actions.add(tuple(step["actions"]))
        rewards.add(tuple(step["rewards"]))
    assert len(actions) == 1 and len(rewards) == 2


def test_reinforce_plus_plus_takes_its_kl_off_the_reward():
    start = np.random.default_rng(1).standard_normal(10).tolist()
    settings = {"beta": 0.5, "logits": start, "max_steps": 3, "learning_rate": 2.0}
    made = bandit.run("reinforce_plus_plus", "linear", **settings)
    paid = [np.array(step["rewards"]) - np.array(step["actions"]) / 9 for step in made["steps"]]
    reference = np.array(made["reference"])
    for step, off in zip(made["steps"], paid, strict=True):
        ratio = np.array(step["old_probabilities"]) / reference[step["actions"]]
        assert off == pytest.approx(-0.5 * np.log(ratio))
    assert abs(paid[2]).max() > 0.01


def test_a_run_can_start_elsewhere():
    start = [3.0, *[0.0] * 8, -3.0]
    made = bandit.run("grpo", "linear", logits=start, temperature=2.0, max_steps=1)
    weights = np.exp(np.array(start) / 2)
    assert made["reference"] == pytest.approx(weights / weights.sum())
    assert made["steps"][0]["updates"][0]["logits"] == start and made["kl"][0] == 0


def test_a_run_whose_numbers_become_infinite_ends_before():
    settings = {"learning_rate": 10, "beta": 1.0, "temperature": 0.1, "num_iterations": 8}
    made = bandit.run("grpo", "linear", **settings)
    assert made["diverged"] == len(made["steps"]) < 200
    assert len(made["expected_reward"]) == len(made["steps"]) + 1
    json.dumps(made, allow_nan=False)


@pytest.mark.parametrize("group", [2, 64])
def test_the_largest_run_takes_no_time(group):
    """0.2 s of a slow core as measured; ten times that would be felt."""
    started = time.process_time()
    bandit.run(num_generations=group, num_iterations=8)
    assert time.process_time() - started < 2


@pytest.mark.slow
def test_the_labs_table_of_memory_is_what_make_memory_estimates():
    there = json.loads((ROOT / FILE).read_text(encoding="utf-8"))
    assert there == table(list(SHAPES))


def test_what_the_methods_hold_is_what_make_memory_estimates():
    parts = estimate(load_recipe("recipes/tiny-arithmetic.yaml", ["grpo.beta=0.001"], check=()))
    methods, critic = held(parts, 7), with_critic(parts)
    kept = parts.weights + parts.trained_weights + parts.reference
    kept += parts.gradients + parts.optimizer
    with_its_critic = critic.trained_weights + critic.reference
    with_its_critic += critic.gradients + critic.optimizer
    assert parts.reference and sum(methods["DPO"].values()) == kept
    assert sum(methods["GRPO"].values()) == kept + 7
    assert sum(methods["PPO"].values()) == with_its_critic + 7


def test_the_labs_memory_is_at_the_recipes_precision():
    """Float32 weights, gradients and moments where all are trained: 16 bytes each; a bfloat16
    reward model."""
    for ways in json.loads((ROOT / FILE).read_text(encoding="utf-8")).values():
        full = ways["full"]["GRPO"]
        weights = full["policy"]
        parts = [full["gradients"], full["optimizer"], full["reference"]]
        assert parts == pytest.approx([weights, 2 * weights, weights])
        assert full["reward model"] == pytest.approx(weights / 2, abs=0.01)
        totals = {}
        for way, methods in ways.items():
            totals[way] = [sum(parts.values()) for parts in methods.values()]
        assert all(ppo > grpo > dpo for ppo, grpo, dpo in totals.values())
        assert totals["full"] > totals["LoRA"] > totals["QLoRA"]
