"""The lab's arithmetic, in numpy (bandit.py): trl's own where both apply, exact expectations, and
what a run learns. tests/viewer/test_browser_lab.py compares the page with it, number by number."""

import ast
import inspect
import json
import re
import textwrap
from collections import defaultdict
from html import escape
from types import MethodType, SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from trl import GRPOConfig, GRPOTrainer
from trl.trainer import grpo_trainer

from schema.recipe import load_recipe
from tests.bench.sizes import SHAPES, held, table, table_of_page
from tests.support import ROOT
from tests.tables import cases
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


def stub_of_trainer(loss_type: str, clip: float, beta: float, longest: int = 1) -> SimpleNamespace:
    """What trl's `_compute_loss` reads of its trainer. `longest`: `max_completion_length`."""
    trainer = SimpleNamespace(loss_type=loss_type, beta=beta, max_completion_length=longest)
    trainer.args = SimpleNamespace(delta=None, steps_per_generation=1, use_bias_correction_kl=False)
    trainer.model = SimpleNamespace(training=True)
    trainer.accelerator = Accelerator(cpu=True)
    trainer.aux_loss_enabled = trainer._entropy_bonus_enabled = trainer.use_vllm = False
    trainer.top_entropy_quantile, trainer.off_policy_mask_threshold = 1.0, None
    trainer.importance_sampling_level = "token"
    trainer.epsilon_low = trainer.epsilon_high = clip
    trainer.current_gradient_accumulation_steps = 1
    trainer._metrics = {"train": defaultdict(list)}
    return trainer


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

    trainer = stub_of_trainer(options["loss_type"], clip, beta)
    trainer.args.use_bias_correction_kl = options["corrected"]
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
    names = bandit.DEFAULTS.keys() - {"matched", "noise", "offset", "peak", "logits"}
    assert [name for name in names if not hasattr(trls, name)] == []


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


@cases(__file__, "landscapes")
def test_landscapes(landscape, rewards):
    made = bandit.rewards_of(landscape, 2)
    assert {place: made[place] for place in rewards} == pytest.approx(rewards)
    assert made.max() == 1.0


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


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
def test_matched_rates_are_matched_under_noise_too(noise):
    lengths = {"grpo": [], "rloo": []}
    for algorithm, of_seeds in lengths.items():
        for seed in range(100):
            run = bandit.run(algorithm, seed=seed, noise=noise, max_steps=1, beta=0.1)
            of_seeds.append(
                run["learning_rate"] * np.hypot.reduce(run["steps"][0]["updates"][0]["gradient"])
            )
            assert run["learning_rate"] * run["beta"] == pytest.approx(0.5 * 0.1)
    # the mean of the group, its own sample in it, makes them (G − 1) / G as long
    assert np.mean(lengths["grpo"]) / np.mean(lengths["rloo"]) == pytest.approx(7 / 8, abs=0.07)


def test_what_is_added_to_every_reward_misleads_who_has_no_baseline():
    for algorithm, ends in (("grpo", [0.997, 0.997]), ("reinforce", [0.994, 0.782])):
        runs = [bandit.run(algorithm, offset=offset)["expected_reward"] for offset in (0, 2)]
        assert [run[-1] for run in runs] == pytest.approx(ends, abs=6e-4)
        assert (runs[0] == pytest.approx(runs[1], abs=1e-6)) == (algorithm == "grpo")


def test_two_peaks_trap_who_learns_fast_from_few():
    """The page's own number, 8 of 30; at the defaults, none of ten."""
    trap = {"num_generations": 2, "num_iterations": 1, "learning_rate": 4.0, "matched": False}
    for settings, seeds, trapped in ((trap, 30, 8), ({"max_steps": 100}, 10, 0)):
        ends = [bandit.run("grpo", "two peaks", seed=seed, **settings) for seed in range(seeds)]
        likely = [np.argmax(each["probabilities"]) for each in ends]
        assert [likely.count(8), likely.count(3)] == [seeds - trapped, trapped]
        assert all(each["largest"][-1] > 0.9 for each in ends)
    assert "8 of 30 seeds of GRPO end at 3, which earns 0.7" in bandit.LAB_PAGE
    preset = bandit.LAB["presets"]["trap"] | {"matched": False}
    assert preset.items() >= trap.items()
    assert np.argmax(bandit.run("grpo", "two peaks", seed=1, **trap)["probabilities"]) == 3


@pytest.mark.slow
def test_the_labs_table_of_memory_is_what_make_memory_estimates():
    assert table_of_page() == table(list(SHAPES))


def test_what_the_methods_hold_is_what_make_memory_estimates():
    """PPO trains a critic of the policy's size beside it."""
    parts = estimate(load_recipe("recipes/tiny-arithmetic.yaml", ["grpo.beta=0.001"]))
    methods = held(parts, 7)
    policy = parts.weights + parts.trained_weights
    training = parts.gradients + parts.optimizer
    grpo = policy + parts.reference + training
    assert parts.reference and sum(methods["DPO"].values()) == grpo
    assert sum(methods["GRPO"].values()) == grpo + 7
    assert sum(methods["PPO"].values()) == grpo + 7 + policy + training


def test_the_labs_memory_is_at_the_recipes_precision():
    """Float32 weights, gradients and moments where all are trained: 16 bytes each; a bfloat16
    reward model."""
    for ways in table_of_page().values():
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


def test_the_recorded_attack_is_that_of_the_bench():
    recorded = json.loads((ROOT / "tests/bench/attack.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs/lab/index.html").read_text(encoding="utf-8")
    [table] = re.findall(r'<table id="attack">(.*?)</table>', page, re.S)
    rows = {}
    for entry in recorded["rounds"]:
        text = escape(entry["text"]).replace("\n", "<br>")
        rows[f"<tr><td>{entry['round']}<td>{entry['attacks']:.0%}<td><code>{text}</code>"] = entry
    shown = table.strip().splitlines()[1:]
    assert len(shown) == 4
    assert set(shown) <= rows.keys()
