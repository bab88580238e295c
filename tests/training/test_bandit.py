"""trl's GRPO on a policy of one token, bandits like the lab's: what it learns is the distribution
that theory gives.

Where the loss has `scale_rewards: none` and one update per batch, its expected gradient by the
logits vanishes at a policy that can be written down. `use_bias_correction_kl` decides which."""

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from tests.support import run_stage
from tests.viewer import bandit
from tests.viewer.test_lab import by_trl

GROUP, BETA = 4, 0.5
# Steeper than the lab's landscapes, where the two theories lie too close together to be told apart.
BELLS = {place: np.exp(-((np.arange(bandit.ACTIONS) - place) ** 2.0)) for place in (3, 5, 8)}
MACHINES = {"peak": BELLS[5], "two-peaks": np.maximum(0.7 * BELLS[3], BELLS[8])}
MACHINES["linear"] = np.arange(bandit.ACTIONS) / (bandit.ACTIONS - 1)
BOTH_KLS = pytest.mark.parametrize("corrected", [True, False])


def theory(
    reference: np.ndarray, rewards: np.ndarray, corrected: bool, group: float = GROUP
) -> np.ndarray:
    """The policy (10,) at which the expected gradient vanishes. With J = Σ π r, it is by the logit
    of an action

        (1 − 1/G) π (r − J)  −  β π (log π / π_ref − KL(π ‖ π_ref))      with the corrected KL
        (1 − 1/G) π (r − J)  −  β (π − π_ref)                            without

    A completion is part of its group's mean, hence 1 − 1/G. With b = β / (1 − 1/G) the first is 0
    where π ∝ π_ref exp(r / b), the second where π = b π_ref / (b + J − r), with the J that makes
    the sum 1."""
    b = BETA / (1 - 1 / group)
    if corrected:
        weights = reference * np.exp(rewards / b)
        return weights / weights.sum()
    mean = brentq(
        lambda j: (b * reference / (b + j - rewards)).sum() - 1,
        rewards.max() - b + 1e-12,
        rewards.max(),
    )
    return b * reference / (b + mean - rewards)


def variation(one: np.ndarray, other: np.ndarray) -> float:
    """The total variation distance: the largest difference in the chance of any set of actions."""
    return abs(one - other).sum() / 2


def expected_gradient(
    policy: np.ndarray, reference: np.ndarray, rewards: np.ndarray, corrected: bool
) -> np.ndarray:
    """Of trl's loss by the logits (10,), over all groups: the loss is a sum over completions, and
    the advantage of one with action a is on average (1 − 1/G) (r_a − J)."""
    gains, now, expected = (1 - 1 / GROUP) * (rewards - policy @ rewards), np.log(policy), 0
    for action, chance in enumerate(policy):
        one = np.array([action])
        given = (now, one, gains[one], now, np.log(reference), 0.2, BETA, 1.0)
        _, gradient, _ = by_trl(*given, corrected=corrected)
        expected += chance * gradient
    return expected


@BOTH_KLS
@pytest.mark.parametrize("machine", MACHINES)
def test_trls_expected_gradient_vanishes_where_theory_says(machine, corrected):
    rewards = MACHINES[machine]
    for seed in range(5):
        logits = np.random.default_rng(seed).standard_normal(bandit.ACTIONS)
        reference = np.exp(bandit.log_policy(logits, 1.0))
        there = theory(reference, rewards, corrected)
        assert there.sum() == pytest.approx(1, abs=1e-9)
        assert abs(expected_gradient(there, reference, rewards, corrected)).max() < 1e-9
        assert abs(expected_gradient(there, reference, rewards, not corrected)).max() > 1e-3


def machines(split):
    """64 questions to each machine, the same to the policy, whose tokenizer does not know numbers
    that long."""
    problems = [f"{i} {name}" for name in MACHINES for i in range(100, 164)]
    return [{"problem": problem, "solution": "0"} for problem in problems]


def pays(completions, problem, **columns):
    """What the machine pays for a digit; nothing for another token."""
    rewards = []
    for completion, question in zip(completions, problem, strict=True):
        digit = completion[0]["content"]
        machine = MACHINES[question.split()[1]]
        rewards.append(machine[int(digit)] if digit.isdigit() else 0.0)
    return rewards


# In total variation, on average over the machines: 0.015 and 0.012 as measured. Runs simulated in
# numpy with as many completions are left with 0.005 to 0.008 by the noise of sampling; the rest is
# what is left of the way.
TOLERANCE = 0.03
VOCABULARY = [*map(str, range(bandit.ACTIONS)), *MACHINES, "<unk>", "<end>"]


def policy_of_one_token(folder):
    """A random Qwen3 of some 2,000 parameters, whose logits have a standard deviation of about
    1."""
    numbers = {word: i for i, word in enumerate(VOCABULARY)}
    backend = Tokenizer(models.WordLevel(numbers, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"unk_token": "<unk>", "eos_token": "<end>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **special)
    tokenizer.chat_template = "{{ messages[-1].content }}"
    torch.manual_seed(0)
    sixteen = ("hidden_size", "intermediate_size", "head_dim", "max_position_embeddings")
    counts = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    sizes = dict.fromkeys(sixteen, 16) | dict.fromkeys(counts, 1)
    sizes |= dict.fromkeys(("eos_token_id", "pad_token_id"), len(VOCABULARY) - 1)
    config = Qwen3Config(vocab_size=len(VOCABULARY), initializer_range=16**-0.5, **sizes)
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def distributions(folder) -> np.ndarray:
    """Of the next token after each machine's question, of shape (machines, vocabulary)."""
    model = Qwen3ForCausalLM.from_pretrained(folder).eval()
    unknown = VOCABULARY.index("<unk>")
    ids = torch.tensor([[unknown, VOCABULARY.index(name)] for name in MACHINES])
    with torch.no_grad():
        return torch.softmax(model(ids).logits[:, -1].double(), -1).numpy()


RECIPE = ["recipes/tiny-arithmetic.yaml", "sft=null", "data.validation=1"]
RECIPE += ["data.train=[tests.training.test_bandit.machines]", "evaluate.benchmarks=[]"]
RECIPE += ["rewards={tests.training.test_bandit.pays: {weight: 1.0}}"]
RECIPE += ["grpo.max_completion_length=1", f"grpo.num_generations={GROUP}"]
RECIPE += ["grpo.per_device_train_batch_size=384", "grpo.scale_rewards=none"]
RECIPE += ["grpo.num_iterations=1", f"grpo.beta={BETA}", "grpo.max_steps=120", "grpo.optim=sgd"]
RECIPE += ["grpo.learning_rate=0.9", "grpo.max_grad_norm=0", "grpo.logging_steps=100"]


@pytest.mark.train
@pytest.mark.slow
@pytest.mark.parametrize("corrected", [True, False])
def test_trl_learns_the_distribution_of_theory(corrected, tmp_path):
    model = tmp_path / "model"
    policy_of_one_token(model)
    given = [f"model={{name_or_path: {model}}}", f"output_dir={tmp_path}"]
    given += [f"grpo.use_bias_correction_kl={str(corrected).lower()}"]
    run_stage("grpo", *RECIPE, *given)
    off, apart = [], []
    learned = zip(MACHINES, distributions(model), distributions(tmp_path / "grpo"), strict=True)
    for name, before, after in learned:
        rewards = np.append(MACHINES[name], [0.0] * (len(VOCABULARY) - bandit.ACTIONS))
        there = theory(before, rewards, corrected)
        others = [before, theory(before, rewards, not corrected)]
        others.append(theory(before, rewards, corrected, group=1e9))
        off.append(variation(after, there))
        apart.append([variation(there, other) for other in others])
    assert np.mean(off) < TOLERANCE
    assert np.mean(apart, axis=0).min() > 2 * TOLERANCE  # or the test could not tell
