"""Process supervision: the advantages of tokens, against numbers worked out by hand, numpy, and
trl's own."""

import json
import random
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from schema.recipe import load_recipe
from tests.support import FEW_PROBLEMS, run_program, run_stage, same_weights, weights
from tests.tables import cases
from training.model import load_tokenizer
from training.step_rewards import StepRewards, normalise, split_steps, spread

TINY = "recipes/tiny-arithmetic.yaml"


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(load_recipe(TINY))


def test_the_advantages_worked_out_by_hand():
    """Two completions of two steps, correct and incorrect, and correct twice: mean 0.75, deviation
    0.5 (ddof = 1)."""
    rewards = normalise([[1.0, 0.0], [1.0, 1.0]], 2, "group")
    assert rewards[0] == pytest.approx([0.5, -1.5], abs=1e-3)
    assert rewards[1] == pytest.approx([0.5, 0.5], abs=1e-3)
    tokens = spread([[0.5, -1.5], [0.5, 0.5]], [[2, 5], [3, 4]], 6)
    assert tokens.tolist() == [[-1.0, -1.0, -1.5, -1.5, -1.5, 0.0], [1.0, 1.0, 1.0, 0.5, 0.0, 0.0]]


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_the_advantages_of_numpy(scale):
    rng, size, length = np.random.default_rng(0), 4, 40
    counts = rng.integers(1, 6, 12)
    rewards = [rng.random(n) for n in counts]
    ends = [np.sort(rng.choice(np.arange(1, length + 1), n, replace=False)) for n in counts]
    expected = np.zeros((12, length))
    for i in range(12):
        group = np.concatenate(rewards[i // size * size : i // size * size + size])
        every = group if scale == "group" else np.concatenate(rewards)
        divisor = 1.0 if scale == "none" else every.std(ddof=1) + 1e-4
        for reward, end in zip(rewards[i], ends[i], strict=True):
            expected[i, :end] += (reward - group.mean()) / divisor
    found = spread(normalise([each.tolist() for each in rewards], size, scale), ends, length)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


def test_a_step_without_a_reward_counts_for_nothing():
    normalised = normalise([[None, 1.0], [None, None], [0.0]], 3, "none")
    assert normalised == [[0.0, 0.5], [0.0, 0.0], [-0.5]]
    assert normalise([[None], [None]], 2, "group") == [[0.0], [0.0]]
    assert normalise([[1.0], [None]], 2, "group") == [[0.0], [0.0]]  # nothing to compare it with


@cases(__file__, "steps")
def test_where_steps_end(text, separator, steps, tokenizer):
    ids = [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    found = split_steps(tokenizer, ids, separator)
    assert [said for said, _ in found] == steps
    ends = [0, *(end for _, end in found)]
    assert ends == sorted(set(ends)) and ends[-1] == len(ids)  # the last step has the end token too
    for said, begun, end in zip(steps, ends, ends[1:], strict=False):
        assert said in tokenizer.decode(ids[begun:end], skip_special_tokens=True)


def test_a_step_may_end_within_what_its_tokens_spell():
    """Where a token is a byte, one letter is several of them."""
    alphabet = {letter: i for i, letter in enumerate(pre_tokenizers.ByteLevel.alphabet())}
    of_bytes = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    of_bytes.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    of_bytes.decoder = decoders.ByteLevel()
    text = "é, ü→漢字, 😀"
    tokenizer = SimpleNamespace(backend_tokenizer=of_bytes)
    found = split_steps(tokenizer, of_bytes.encode(text).ids, ", ")
    lengths = [len(part.encode()) for part in ("é, ", "ü→漢字, ", "😀")]
    assert found == [("é", lengths[0]), ("ü→漢字", sum(lengths[:2])), ("😀", sum(lengths))]


def test_a_token_belongs_to_the_step_whose_text_it_ends(tokenizer):
    for seed in range(50):
        # whatever a young policy samples
        ids = random.Random(seed).choices(range(3, len(tokenizer)), k=60)
        found = split_steps(tokenizer, ids, "1")
        ends = [end for _, end in found]
        assert ends == sorted(set(ends)) and ends[-1] == 60


def test_a_reward_is_asked_about_each_step(tokenizer):
    asked = []

    def reward(completions, solution, prompts, completion_ids, log_extra, trainer_state, **columns):
        log_extra("of steps", completions)
        asked.extend(zip(completions, solution, strict=True))
        return [None if "?" in each else float(each.strip().isdigit()) for each in completions]

    ids = tokenizer(["1, a, 2", "?, ?", "3"], add_special_tokens=False)["input_ids"]
    steps = StepRewards(tokenizer, ", ", 0.5)
    written = {}
    given = {"completions": ["as trl decodes it"] * 3, "solution": ["x", "y", "z"]}
    given |= {"prompts": ["?"] * 3, "completion_ids": ids, "log_metric": None}
    given |= {"log_extra": written.__setitem__, "trainer_state": SimpleNamespace()}
    assert steps.score(reward, **given) == [pytest.approx(2 / 3), None, 1.0]
    assert asked == [("1", "x"), ("a", "x"), ("2", "x"), ("?", "y"), ("?", "y"), ("3", "z")]
    for text, ends, rewards in zip(written.pop("steps"), steps.ends, steps.rewards, strict=True):
        assert json.loads(text) == [list(pair) for pair in zip(ends, rewards, strict=True)]
    assert not written and steps.rewards == [[1.0, 0.0, 1.0], [None, None], [1.0]]
    # 1, 0, 1 and 1: mean 0.75, deviation 0.5; half their weight.
    found = steps.advantages(len(ids[0]), 3, "group")
    assert found[0, 0].item() == pytest.approx(0.5 * (0.5 - 1.5 + 0.5), abs=1e-3)
    assert found[0, -1].item() == pytest.approx(0.25, abs=1e-3)
    assert found[1].tolist() == [0.0] * len(ids[0])


PROCESSES = """
import sys, torch
from accelerate import PartialState
from training.step_rewards import StepRewards
state = PartialState(cpu=True)
rewards, ends = [[1.0, 0.0], [0.5], [None], [1.0]], [[2, 5], [4], [3], [5]]
steps = StepRewards(None, ",", 1.0)
mine = slice(2 * state.process_index, 2 * state.process_index + 2)
steps.rewards, steps.ends = rewards[mine], ends[mine]
torch.save(steps.advantages(5, 4, "group"), f"{sys.argv[1]}/{state.process_index}.pt")
# gloo's threads abort a process that ends under load with its group still alive
state.destroy_process_group()
"""


@pytest.mark.train
def test_a_group_may_lie_on_two_processes(tmp_path):
    (tmp_path / "two.py").write_text(PROCESSES)
    run_program(tmp_path / "two.py", tmp_path, processes=2)
    found = torch.cat([torch.load(tmp_path / f"{i}.pt") for i in range(2)])
    rewards, ends = [[1.0, 0.0], [0.5], [None], [1.0]], [[2, 5], [4], [3], [5]]
    assert torch.equal(found, spread(normalise(rewards, 4, "group"), ends, 5))


SHORT = [*FEW_PROBLEMS, "sft=null", "grpo.max_steps=2", "grpo.save_steps=2", "grpo.logging_steps=1"]
SHORT += ["grpo.scale_rewards=group", "grpo.per_device_train_batch_size=16"]


def trained(folder, second: str = "", *settings: str):
    """A run with a varied reward, and a second one of the same file."""
    rewards = "tests.varied_reward.varied: {weight: 1.0}"
    if second:
        rewards += f", tests.varied_reward.{second}"
    words = [*SHORT, *settings, f"rewards={{{rewards}}}", f"output_dir={folder}"]
    run_stage("grpo", TINY, *words)
    return folder / "grpo"


@pytest.mark.train
def test_without_a_rewarded_step_it_is_grpo_to_the_bit(tmp_path):
    plain = trained(tmp_path / "plain")
    nothing = trained(tmp_path / "nothing", "of_nothing: {weight: 1.0, steps: '1'}")
    assert same_weights(plain, nothing)
    something = trained(tmp_path / "something", "of_length: {weight: 1.0, steps: '1'}")
    assert not same_weights(plain, something)
    table = pd.read_parquet(something / "completions/completions_00001.parquet")
    for text, mean in zip(table["steps"], table["of_length"], strict=True):
        assert np.mean([reward for _, reward in json.loads(text)]) == pytest.approx(mean, abs=1e-6)


@pytest.mark.train
def test_where_only_the_last_step_is_rewarded_it_is_outcome_grpo(tmp_path):
    """The same reward as that of the one step of a completion, and as the outcome's: twice the
    advantage, and at half the rate of SGD the same weights."""
    sgd = ["grpo.optim=sgd", "grpo.max_grad_norm=1000000", "grpo.beta=0"]
    again = "again: {weight: 1.0, steps: '@@'}"
    once = trained(tmp_path / "once", "", *sgd, "grpo.learning_rate=0.1")
    twice = trained(tmp_path / "twice", again, *sgd, "grpo.learning_rate=0.05")
    one, other = weights(once), weights(twice)
    assert all(np.allclose(one[name], other[name], atol=1e-6) for name in one)
