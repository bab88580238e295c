"""The numbers of docs/grpo.md: those of its example by the lab, trl's defaults by trl, memory by docs/memory.md."""

import re

import numpy as np
from trl import GRPOConfig

from tests.support import ROOT
from viewer import lab

PAGE = (ROOT / "docs/grpo.md").read_text(encoding="utf-8")
FOR_PPO, FROM_THE_BEGINNING = re.split(r"^## .*\?\n", PAGE, flags=re.M)[1:]


def tables(text: str) -> list[list[list[str]]]:
    """The cells of each table, without its head."""
    found = re.findall(r"(?:^\|.*\|\n)+", text, re.M)
    return [[line.strip("| ").split(" | ") for line in each.splitlines()[2:]] for each in found]


def written(number: float, digits: int) -> str:
    """As the page writes it."""
    return f"{number:.{digits}f}".replace("-", "−")


def test_the_defaults_are_trls():
    trls = GRPOConfig(use_cpu=True, bf16=False)
    (keys,) = tables(FOR_PPO)
    assert len(keys) == 7
    for key, default, _ in keys:
        assert str(getattr(trls, key.strip("`"))) == default
    assert f" + {written(1e-4, 4)})" in FOR_PPO  # tests/viewer/test_lab.py compares it with trl's


def test_the_example_is_right_to_its_last_number():
    """What was recomputed is taken out of the text; no digit may be left."""
    answers, rewards = np.array([3, 5, 1, 8]), np.array([1.0, 0, 0, 0])
    baselines, gains = lab.advantages("grpo", rewards)
    start = lab.log_policy(np.zeros(lab.ACTIONS), 1.0)
    first = lab.update(np.zeros(lab.ACTIONS), answers, gains, start, start, clip=0.2, learning_rate=0.8)
    second = lab.update(first["logits_after"], answers, gains, start, start, clip=0.2, learning_rate=0.8)
    end = np.exp(lab.log_policy(second["logits_after"], 1.0))
    with_kl = lab.update(first["logits_after"], answers, gains, start, start, clip=0.2, beta=0.04)
    compared, clipped = tables(FROM_THE_BEGINNING)
    untried = np.delete(second["probabilities"], answers)
    assert len(compared) == 2
    for i, (row, other) in enumerate(zip(compared, clipped, strict=True)):  # the wrong answers share a row
        shown = str(answers[0]) if i == 0 else ", ".join(map(str, answers[1:]))
        learned = first["logits_after"][answers[i]], 100 * np.exp(start[0]), 100 * second["new_probabilities"][i]
        numbers = [rewards[i], rewards[i] - baselines[i], gains[i], *learned]
        digits = [0, 2, 1, 1, 0, 1]
        units = ["", "", "", "", "%", "%"]
        assert row == [shown, *(written(n, d) + unit for n, d, unit in zip(numbers, digits, units, strict=True))]
        branches = second["unclipped"][i], second["clipped"][i]
        numbers = [written(each, 2) for each in (second["ratios"][i], *branches, min(branches))]
        assert other[:-1] == [shown, *numbers]
        assert other[-1].startswith("no" if second["is_clipped"][i] else "yes, down")
    said = [
        'The question is "What is 7 − 4?", the model answers with one digit, and it knows nothing: each digit has a '
        f"chance of {100 * np.exp(start[0]):.0f}%. It answers four times: 3, 5, 1 and 8.",
        "The right answer earns 1, a wrong one 0.",
        f"The mean reward of the group is {baselines[0]}, and the standard deviation {rewards.std(ddof=1)}.",
        f"(trl adds 0.0001 to the spread, lest it divide by zero: {gains[0]:.4f} in place of {gains[0]:.1f}.)",
        "All are 0 to begin with.",
        f"with a learning rate of 0.8, by {written(first['logits_after'][3], 1)} for the 3 and by "
        f"{written(first['logits_after'][5], 1)} for each wrong answer.",
        f"The six digits that were not tried went from 10% to {100 * untried.min():.1f}% each: chances add up to 100%.",
        f"cut off at {1 - 0.2} and {1 + 0.2}, whichever",
        "The 3 is not pushed a second time, but gains a little from what the wrong answers lose: it ends at "
        f"{100 * end[3]:.1f}%.",
        f"It is 0 for equal chances; now it is {with_kl['kl'][0]:.3f} for the 3 and {with_kl['kl'][1]:.3f} for each "
        f"wrong answer, {with_kl['kl'].mean():.3f} on average.",
        f"With a weight (β) of 0.04, the loss of the second update is {written(with_kl['policy_loss'], 3)} + 0.04 × "
        f"{with_kl['kl'].mean():.3f} = {written(with_kl['loss'], 3)}.",
        "every advantage is 0, and nothing is learned",
    ]
    assert len(untried) == 6 and np.ptp(untried) == 0
    assert not any(lab.advantages("grpo", np.full(4, each))[1].any() for each in (1.0, 0.0))
    text = re.sub(r"^\|.*\n|\*\*\d\.", "", FROM_THE_BEGINNING, flags=re.M).replace("\n", " ")
    for each in said:
        assert each in text
        text = text.replace(each, "")
    assert re.findall(r"\S*\d\S*", text) == []
