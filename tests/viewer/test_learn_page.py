"""docs/learn.md: its numbers by the lab, its defaults by trl; and docs/examples/grpo.py: its loss
by trl, and that it learns."""

import math
import re

import numpy as np
import pytest
import torch
from trl import GRPOConfig, GRPOTrainer

from docs.examples import grpo as example
from schema.recipe import load_recipe
from tests.bench.sizes import table_of_page
from tests.support import ROOT, read_lines, trainer_of
from tests.viewer import bandit
from training.tiny_models import built_model

PAGE = (ROOT / "docs/learn.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
FROM_THE_BEGINNING = SECTIONS["What is it if I have heard of none of this?"]
TEN_LINES = SECTIONS["What is it in ten lines?"]
MISUNDERSTOOD = SECTIONS["What is often misunderstood?"]
PROGRAM = (ROOT / "docs/examples/grpo.py").read_text(encoding="utf-8")


def tables(text: str) -> list[list[list[str]]]:
    """The cells of each table, without its head."""
    parsed = []
    for table in re.findall(r"(?:^\|.*\|\n)+", text, re.M):
        parsed.append([line.strip("| ").split(" | ") for line in table.splitlines()[2:]])
    return parsed


def written(number: float, digits: int) -> str:
    """As the page writes it."""
    return f"{number:.{digits}f}".replace("-", "−")


def test_the_defaults_are_trls():
    trls = GRPOConfig(use_cpu=True, bf16=False)
    keys = tables(TEN_LINES)[0]
    assert len(keys) == 4
    for key, default, _ in keys:
        assert str(getattr(trls, key.strip("`"))).lower() == default
    assert f" + {written(1e-4, 4)})" in TEN_LINES  # tests/viewer/test_lab.py compares it with trl's


def test_the_example_is_correct_to_its_last_number():
    """Every number of the text and of its tables, in its order, worked out here."""
    answers, rewards = np.array([3, 5, 1, 8]), np.array([1.0, 0, 0, 0])
    baselines, gains = bandit.advantages("grpo", rewards)
    zeros = np.zeros(bandit.ACTIONS)
    start = bandit.log_policy(zeros, 1.0)
    learned = {"clip": 0.2, "learning_rate": 0.8}
    first = bandit.update(zeros, answers, gains, start, start, **learned)
    again = (first["logits_after"], answers, gains, start, start)
    second = bandit.update(*again, **learned)
    costly = bandit.update(*again, clip=0.2, beta=0.04)
    chances = 100 * second["probabilities"]
    untried = np.delete(chances, answers)
    assert len(untried) == 6 and np.ptp(untried) == 0
    tenth = f"{100 * np.exp(start[0]):.0f}"
    ended = np.exp(bandit.log_policy(second["logits_after"], 1.0))
    logits, kl = first["logits_after"], costly["kl"]
    mean_kl = written(kl.mean(), 3)
    numbers = ["7", "4", tenth, "3", "5", "1", "8", "1", "0", str(baselines[0])]
    numbers += [str(rewards[0] - baselines[0]), "3", str(baselines[0]), "3"]
    numbers += [str(rewards.std(ddof=1)), "3", "0", "0.8", written(logits[3], 1), "3"]
    numbers += [written(logits[5], 1), "0", "10", written(untried[0], 1), "100", "0.8", "1.2"]
    numbers += ["1", "0.2", "3", written(100 * ended[3], 1)]
    ratio, unlucky = second["ratios"][0], gains[1]  # the 3's ratio, of an incorrect answer
    numbers += [written(ratio, 2), written(ratio * unlucky, 2), written(1.2 * unlucky, 2)]
    assert ratio * unlucky < 1.2 * unlucky
    numbers += ["1", "0", written(kl[0], 3), "3", written(kl[1], 3), mean_kl]
    terms = np.minimum(second["unclipped"], second["clipped"])
    numbers += [written(terms[0], 2), "3", written(-terms[1], 2), "4"]
    assert costly["policy_loss"] == pytest.approx(-(terms[0] + 3 * terms[1]) / 4)
    loss = written(costly["policy_loss"], 3)
    numbers += [loss, "0.04", loss, "0.04", mean_kl, written(costly["loss"], 3), "0"]
    text = re.sub(r"^\|.*\n|\*\*\d\.", "", FROM_THE_BEGINNING, flags=re.M)
    assert re.findall(r"−?\d+(?:\.\d+)?", text) == numbers
    rows = []
    for i in (0, 1):  # the incorrect answers share a row
        label = str(answers[0]) if i == 0 else ", ".join(map(str, answers[1:]))
        row = [label, written(rewards[i], 0), written(rewards[i] - baselines[i], 2)]
        row += [written(gains[i], 1), written(logits[answers[i]], 1), f"{tenth}%"]
        rows.append([*row, written(chances[answers[i]], 1) + "%"])
        branches = second["unclipped"][i], second["clipped"][i]
        values = [second["ratios"][i], *branches, min(branches)]
        pushed = "no" if second["is_clipped"][i] else "yes, down"
        rows.append([label, *(written(value, 2) for value in values), pushed])
    assert tables(FROM_THE_BEGINNING) == [rows[::2], rows[1::2]]
    for equal in (1.0, 0.0):
        assert not bandit.advantages("grpo", np.full(4, equal))[1].any()


def says(title: str, *sentences: str):
    """Asserts that a section has them, however its lines are broken."""
    for sentence in sentences:
        assert sentence in " ".join(SECTIONS[title].split()), sentence


def test_ppos_advantages_are_what_the_page_says():
    """By the recursion of the page: with γ = λ = 1 they are the reward - V; with a critic that
    knows nothing, 0.95 to the power of the distance is left of the reward."""

    def advantages(values: np.ndarray, reward: float, decay: float) -> np.ndarray:
        estimates, later = np.zeros_like(values), 0.0
        for i in reversed(range(len(values))):
            following, earned = (0.0, reward) if i == len(values) - 1 else (values[i + 1], 0.0)
            later = earned + following - values[i] + decay * later
            estimates[i] = later
        return estimates

    values = np.random.default_rng(0).random(6)
    np.testing.assert_allclose(advantages(values, 1.0, 1.0), 1 - values)
    first = {tokens: advantages(np.zeros(tokens), 1.0, 0.95)[0] for tokens in (100, 1000)}
    says(
        "How does PPO do it, step by step?",
        f"0.95⁹⁹ = {first[100]:.1%} reaches the first of 100 tokens",
        "10⁻²² the first of 1,000",
    )
    assert round(math.log10(first[1000])) == -22


def test_the_baseline_and_the_group_do_to_the_gradient_what_the_page_says():
    """On the 3's logit of the example before its first step, over all that may be drawn."""
    correct = np.arange(10) == 3
    variances = []
    for low, high in ((0, 1), (10, 11)):
        rewards = np.where(correct, high, low)
        for baseline in (0, rewards.mean()):
            gradients = (rewards - baseline) * (correct - 0.1)
            assert gradients.mean() == pytest.approx(0.09)
            variances.append(gradients.var())
    says(
        "Why subtract a baseline?",
        "it is 0.09 on the 3's logit",
        "is {:.3f} without a baseline and {:.3f} with the mean reward".format(*variances),
        "Now add 10 to every reward",
        "it is {:.1f} without, {:.3f} with".format(*variances[2:]),
    )
    groups = np.stack(np.meshgrid(*[correct] * 4), -1).reshape(-1, 4)
    centred = groups - groups.mean(1, keepdims=True)
    assert (centred * (groups - 0.1)).mean() == pytest.approx(3 / 4 * 0.09)
    shares = np.array([0.5, 0.1, 0.01])
    weights = 1 / np.sqrt(shares * (1 - shares))
    slopes = np.arcsin(np.sqrt(shares + 1e-7)) - np.arcsin(np.sqrt(shares - 1e-7))
    np.testing.assert_allclose(slopes / 1e-7, weights, rtol=1e-4)
    mean_of_mixed = (0.1 - 0.1**8) / (1 - 0.1**8 - 0.9**8)
    says(
        "What does the group do to the gradient?",
        "{:.0f} times at 50%, {:.1f} at 10% or 90%, {:.0f} at 1% or 99%".format(*weights),
        f"with p = 10% and G = 8, {mean_of_mixed:.1%} of their answers are correct",
    )


def test_k3_is_less_noisy_near_the_reference_alone():
    def statistics(logits: np.ndarray) -> tuple[float, float, float]:
        """The mean of both estimates, the deviations of -log x and of k3: over all ten digits."""
        now = np.exp(bandit.log_policy(logits, 1.0))
        plain = np.log(now / 0.1)
        k3 = 0.1 / now - 1 + plain
        mean = now @ plain
        assert now @ k3 == pytest.approx(mean) and k3.min() >= 0 > plain.min()
        return mean, np.sqrt(now @ (plain - mean) ** 2), np.sqrt(now @ (k3 - mean) ** 2)

    logits = np.zeros(10)
    logits[[3, 5, 1, 8]] = 0.3, -0.1, -0.1, -0.1
    mean, plain, k3 = statistics(logits)
    _, far_plain, far_k3 = statistics(np.where(np.arange(10) == 3, 5.0, 0.0))
    near, far = tables(TEN_LINES)[1]
    assert near[1:] == [f"{plain:.3f}", f"{k3:.3f}"]
    likely = np.exp(bandit.log_policy(logits, 1.0))[3]
    says("What is it in ten lines?", f"the KL, {mean:.4f} in the first row: a 3 is {likely:.0%}")
    assert far == ["a logit of 5 for the 3", f"{far_plain:.2f}", f"{far_k3:.2f}"]


def test_the_groups_that_teach_are_counted():
    shares = []
    for size in (8, 64):
        shares += [f"{1 - p**size - (1 - p) ** size:.0%}" for p in (0.1, 0.01)]
    says(
        "How do I choose G, β, ε and temperature?",
        "with G = 8 that is {} at p = 10% and {} at p = 1%".format(*shares[:2]),
        "with G = 64 it is {} and {}".format(*shares[2:]),
    )


def test_the_page_and_the_lab_link_to_each_other():
    """By the first words of a part's heading, and by the headings of the page."""
    parts = dict(re.findall(r'id="part-(\w+)".*?<h2>([^<]+)</h2>', bandit.LAB_PAGE, re.S))
    links = re.findall(r'\["([^"]+)"\]\(lab/index.html#part-(\w+)\)', " ".join(PAGE.split()))
    assert len(parts) == 13 and {part for _, part in links} == parts.keys() - {"questions"}
    for name, part in links:
        assert parts[part].startswith(name), name
    returned = re.findall(r'<a href="\.\./learn\.md#([^"]*)">([^<]*)</a>', bandit.LAB_PAGE)
    assert len(returned) == 12
    for anchor, heading in returned:
        assert heading in SECTIONS
        assert anchor == re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_memory_is_the_labs():
    full = table_of_page()["7B"]["full"]
    totals = [f"{sum(full[name].values()):.0f} GiB" for name in ("PPO", "GRPO", "DPO")]
    critic = sum(full["PPO"].values()) - sum(full["GRPO"].values())
    bare = sum(full["GRPO"].values()) - full["GRPO"]["reward model"] - full["GRPO"]["reference"]
    assert f"{bare:.0f}" == f"{critic:.0f}"
    assert full["GRPO"]["reward model"] == pytest.approx(full["GRPO"]["policy"] / 2, rel=0.01)
    says(
        "PPO, DPO or GRPO?",
        f"| {' | '.join(totals)} |",
        f"The critic alone takes {critic:.0f} GiB, 16 bytes for each of 7.6 billion weights; so",
    )
    assert critic * 2**30 / 7.6e9 == pytest.approx(16, rel=0.01)


def program(*, as_trl_by_default: bool = False) -> dict:
    """What the example defines, also with the two changes that its comments name."""
    text = PROGRAM
    if as_trl_by_default:
        text = text.replace("kl = torch.exp", "kl = ratio * (torch.exp")
        text = text.replace("now) - 1  #", "now) - 1)  #")
        mean = "(loss * counts).sum() / counts.sum()"
        assert f"# by trl's defaults {mean}" in text
        text = text.replace("((loss * counts).sum(1) / counts.sum(1)).mean()", mean)
        changed = zip(text.split("\n"), PROGRAM.split("\n"), strict=True)
        assert sum(line != before for line, before in changed) == 2
    defined = {"__name__": "example"}
    exec(text, defined)
    return defined


@pytest.mark.parametrize("by_default", [False, True])
def test_the_programs_loss_and_its_gradient_are_trls(by_default, tmp_path):
    made = program(as_trl_by_default=by_default)
    name = "tiny-arithmetic" if by_default else "tiny-grpo-paper"
    overrides = [f"grpo.beta={made['BETA']}", f"output_dir={tmp_path}"]
    overrides += [f"grpo.per_device_train_batch_size={made['G']}"]
    recipe = load_recipe(f"recipes/{name}.yaml", overrides)
    trainer = trainer_of(recipe)
    tokenizer = trainer.processing_class
    assert made["EPSILON"] == trainer.args.epsilon and made["G"] == trainer.args.num_generations
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
    inputs = {"prompt_ids": ids[:, :-9], "prompt_mask": torch.ones_like(ids[:, :-9])}
    inputs |= {"completion_ids": ids[:, -9:], "completion_mask": counts.long()}
    inputs |= {"num_items_in_batch": counts.sum(), "advantages": gains}
    inputs |= {"old_per_token_logps": old, "ref_per_token_logps": ref}
    trls = GRPOTrainer._compute_loss(trainer, model, inputs)
    ours = made["grpo_loss"](made["logps"](model, ids, 9), old, ref, gains[:, None], counts)
    torch.testing.assert_close(ours, trls, rtol=1e-5, atol=1e-7)
    gradients = [torch.autograd.grad(loss, [*model.parameters()]) for loss in (ours, trls)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-7)


def test_the_program_learns(capsys):
    torch.manual_seed(0)
    example.main(built_model("tiny-qwen3", 42))
    earned = [float(each) for each in re.findall(r"\d\.\d+", capsys.readouterr().out)]
    assert len(earned) == 30 and max(earned[:3]) < 0.2 and np.mean(earned[-5:]) > 0.8


def test_what_is_said_of_a_run_is_so():
    lines = read_lines(ROOT / "tests/training/recorded/tiny-arithmetic.jsonl")
    clipped = np.mean([line["clip_ratio/region_mean"] for line in lines])
    assert f"took {clipped:.2%} of the tokens" in MISUNDERSTOOD
