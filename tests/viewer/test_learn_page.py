"""docs/learn.md: its numbers by the lab, its defaults and its loss by trl; and its program
learns."""

import re

import numpy as np
import pytest
import torch
from trl import GRPOConfig, GRPOTrainer

from schema import configs
from schema.recipe import load_recipe
from tests.support import ROOT, read_lines
from tests.viewer import bandit
from training.model import load_tokenizer
from training.problem_sets import load_train
from training.trainer import grpo_trainer

PAGE = (ROOT / "docs/learn.md").read_text(encoding="utf-8")
FROM_THE_BEGINNING, TEN_LINES, PYTORCH, _, CHOOSING, _, MISUNDERSTOOD = re.split(
    r"^## .*\?\n", PAGE, flags=re.M
)[1:]
LOOP, EXAMPLE = re.findall(r"^```python\n(.*?)^```$", PYTORCH, re.M | re.S)


def tables(text: str) -> list[list[list[str]]]:
    """The cells of each table, without its head."""
    found = re.findall(r"(?:^\|.*\|\n)+", text, re.M)
    return [[line.strip("| ").split(" | ") for line in each.splitlines()[2:]] for each in found]


def written(number: float, digits: int) -> str:
    """As the page writes it."""
    return f"{number:.{digits}f}".replace("-", "−")


def test_the_defaults_are_trls():
    trls = GRPOConfig(use_cpu=True, bf16=False)
    (keys,) = tables(TEN_LINES)
    assert len(keys) == 7
    for key, default, _ in keys:
        assert str(getattr(trls, key.strip("`"))) == default
    assert f" + {written(1e-4, 4)})" in TEN_LINES  # tests/viewer/test_lab.py compares it with trl's


def test_the_example_is_right_to_its_last_number():
    """What was recomputed is taken out of the text; no digit may be left."""
    answers, rewards = np.array([3, 5, 1, 8]), np.array([1.0, 0, 0, 0])
    baselines, gains = bandit.advantages("grpo", rewards)
    start = bandit.log_policy(np.zeros(bandit.ACTIONS), 1.0)
    first = bandit.update(
        np.zeros(bandit.ACTIONS), answers, gains, start, start, clip=0.2, learning_rate=0.8
    )
    second = bandit.update(
        first["logits_after"], answers, gains, start, start, clip=0.2, learning_rate=0.8
    )
    end = np.exp(bandit.log_policy(second["logits_after"], 1.0))
    with_kl = bandit.update(
        first["logits_after"], answers, gains, start, start, clip=0.2, beta=0.04
    )
    compared, clipped = tables(FROM_THE_BEGINNING)
    untried = np.delete(second["probabilities"], answers)
    assert len(compared) == 2
    for i, (row, other) in enumerate(
        zip(compared, clipped, strict=True)
    ):  # the wrong answers share a row
        shown = str(answers[0]) if i == 0 else ", ".join(map(str, answers[1:]))
        learned = (
            first["logits_after"][answers[i]],
            100 * np.exp(start[0]),
            100 * second["new_probabilities"][i],
        )
        numbers = [rewards[i], rewards[i] - baselines[i], gains[i], *learned]
        digits = [0, 2, 1, 1, 0, 1]
        units = ["", "", "", "", "%", "%"]
        assert row == [
            shown,
            *(written(n, d) + unit for n, d, unit in zip(numbers, digits, units, strict=True)),
        ]
        branches = second["unclipped"][i], second["clipped"][i]
        numbers = [written(each, 2) for each in (second["ratios"][i], *branches, min(branches))]
        assert other[:-1] == [shown, *numbers]
        assert other[-1].startswith("no" if second["is_clipped"][i] else "yes, down")
    said = [
        (
            'The question is "What is 7 − 4?", the model answers with one digit, and it knows'
            f" nothing: each digit has a chance of {100 * np.exp(start[0]):.0f}%. It answers four"
            " times: 3, 5, 1 and 8."
        ),
        "The right answer earns 1, a wrong one 0.",
        (
            f"The mean reward of the group is {baselines[0]}, and the standard deviation"
            f" {rewards.std(ddof=1)}."
        ),
        "All are 0 to begin with.",
        (
            f"with a learning rate of 0.8, by {written(first['logits_after'][3], 1)} for the 3 and"
            f" by {written(first['logits_after'][5], 1)} for each wrong answer."
        ),
        (
            f"The six digits that were not tried went from 10% to {100 * untried.min():.1f}% each:"
            " chances add up to 100%."
        ),
        f"cut off at {1 - 0.2} and {1 + 0.2}, whichever",
        (
            "The 3 is not pushed a second time, but gains a little from what the wrong answers"
            f" lose: it ends at {100 * end[3]:.1f}%."
        ),
        (
            f"It is 0 for equal chances; now it is {with_kl['kl'][0]:.3f} for the 3 and"
            f" {with_kl['kl'][1]:.3f} for each wrong answer, {with_kl['kl'].mean():.3f} on average."
        ),
        (
            "With a weight (β) of 0.04, the loss of the second update is"
            f" {written(with_kl['policy_loss'], 3)} + 0.04 × {with_kl['kl'].mean():.3f} ="
            f" {written(with_kl['loss'], 3)}."
        ),
        "every advantage is 0, and nothing is learned",
    ]
    assert len(untried) == 6 and np.ptp(untried) == 0
    assert not any(bandit.advantages("grpo", np.full(4, each))[1].any() for each in (1.0, 0.0))
    text = re.sub(r"^\|.*\n|\*\*\d\.", "", FROM_THE_BEGINNING, flags=re.M).replace("\n", " ")
    for each in said:
        assert each in text
        text = text.replace(each, "")
    assert re.findall(r"\S*\d\S*", text) == []


def program(*, as_trl_by_default: bool = False) -> dict:
    """What the page's program defines, also with the two changes that the page names."""
    loop = LOOP
    if as_trl_by_default:
        loop = loop.replace("kl = torch.exp", "kl = ratio * (torch.exp").replace(
            "now) - 1\n", "now) - 1)\n"
        )
        mean = "(loss * counts).sum() / counts.sum()"
        assert mean in PYTORCH
        loop = loop.replace("((loss * counts).sum(1) / counts.sum(1)).mean()", mean)
        assert sum(a != b for a, b in zip(loop.split("\n"), LOOP.split("\n"), strict=True)) == 2
    defined = {}
    exec(loop, defined)
    return defined


@pytest.mark.parametrize("by_default", [False, True])
def test_the_programs_loss_and_its_gradient_are_trls(by_default, tmp_path):
    made, name = (
        program(as_trl_by_default=by_default),
        "tiny-arithmetic" if by_default else "tiny-grpo-paper",
    )
    given = [
        f"grpo.beta={made['BETA']}",
        f"grpo.per_device_train_batch_size={made['G']}",
        f"output_dir={tmp_path}",
    ]
    recipe = load_recipe(f"recipes/{name}.yaml", given, check=())
    args, tokenizer = configs.training_config(recipe, "grpo"), load_tokenizer(recipe)
    assert made["EPSILON"] == args.epsilon and made["G"] == args.num_generations
    trainer = grpo_trainer(recipe, args, tokenizer, load_train(recipe)[0][:64], [], None)
    trainer.current_gradient_accumulation_steps = 1
    model = trainer.model.train()
    torch.manual_seed(0)
    ids, counts = made["sample"](model, tokenizer, "What is 12 + 34?", 9)
    counts[:, 6:] = 0  # not all of one length
    counts[0, 2:] = 0
    old, ref = made["logps"](model, ids, 9).detach() + 0.3 * torch.randn(2, made["G"], 9)
    rewards = torch.rand(made["G"])
    gains = made["advantages"](rewards)
    assert gains.numpy() == pytest.approx(bandit.advantages("grpo", rewards.numpy())[1], rel=1e-5)
    inputs = {
        "prompt_ids": ids[:, :-9],
        "prompt_mask": torch.ones_like(ids[:, :-9]),
        "completion_ids": ids[:, -9:],
    }
    inputs |= {
        "completion_mask": counts.long(),
        "num_items_in_batch": counts.sum(),
        "advantages": gains,
    }
    trls = GRPOTrainer._compute_loss(
        trainer, model, inputs | {"old_per_token_logps": old, "ref_per_token_logps": ref}
    )
    ours = made["grpo_loss"](made["logps"](model, ids, 9), old, ref, gains[:, None], counts)
    torch.testing.assert_close(ours, trls, rtol=1e-5, atol=1e-7)
    for theirs, mine in zip(
        *(torch.autograd.grad(each, [*model.parameters()]) for each in (trls, ours)), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-7)


def test_the_program_learns(capsys):
    torch.manual_seed(0)
    exec(EXAMPLE, program())
    earned = [float(each) for each in re.findall(r"\d\.\d+", capsys.readouterr().out)]
    assert len(earned) == 30 and max(earned[:3]) < 0.2 and np.mean(earned[-5:]) > 0.8


@pytest.mark.train
def test_the_advice_on_settings_is_what_the_lab_measures():
    def rewards(**settings) -> np.ndarray:
        """Of each seed before and after each step."""
        return np.array([run["expected_reward"] for run in runs(**settings)])

    def runs(**settings) -> list[dict]:
        return [
            bandit.run(landscape="two peaks", seed=seed, matched=False, **settings)
            for seed in range(20)
        ]

    (sizes,) = tables(CHOOSING)
    for row in sizes:
        group, later = int(row[0]), 320 // int(row[0])
        mean = rewards(num_generations=group, max_steps=max(20, later)).mean(0)
        shares = [f"{100 * (1 - p**group - (1 - p) ** group):.0f}%" for p in (0.1, 0.01)]
        assert row[1:] == [written(mean[20], 2), written(mean[later], 2), *shares]
    by_beta = [
        written(rewards(beta=beta, max_steps=100)[:, -1].mean(), 2) for beta in (0, 0.04, 0.5)
    ]
    clipped = []
    for often in (1, 2, 4, 8):
        steps = [step for run in runs(num_iterations=often, max_steps=50) for step in run["steps"]]
        acts = [update["is_clipped"] for step in steps for update in step["updates"]]
        clipped.append(f"{100 * np.mean(acts):.0f}%")
    cool, hot = (rewards(temperature=each, max_steps=100) for each in (0.2, 2.0))
    for said in (
        "The reward ends at {} with 0, {} with 0.04, {} with 0.5.".format(*by_beta),
        "it clips {}, {}, {} and {} of the terms in 50 steps".format(*clipped),
        f"at 0.2, {(cool[:, -1] < 0.75).sum()} of 20 seeds stay trapped on the lower peak",
        f"20 steps reach only {written(hot[:, 20].mean(), 2)}",
    ):
        assert said in " ".join(CHOOSING.split())
    assert hot[:, -1].min() > 0.9


def test_what_is_said_of_a_run_is_so():
    lines = read_lines(ROOT / "tests/training/recorded/tiny-arithmetic.jsonl")
    assert (
        f"took {100 * np.mean([each['clip_ratio/region_mean'] for each in lines]):.2f}% of the"
        " tokens" in MISUNDERSTOOD
    )
