"""The figures of a probe are what they say, and its batches stay as they are when it grows."""

import json
import math
from types import SimpleNamespace

import pytest
import torch

from console.faults import RecipeError
from evaluation import sample
from evaluation.engines import generate
from evaluation.statistics import all_alike
from schema.recipe import load_recipe
from schema.sections import Sampling
from tests.support import write_lines
from tests.tables import cases
from training.model import load_model, load_tokenizer

TINY = "recipes/tiny-arithmetic.yaml"


@pytest.mark.parametrize(("n", "group"), [(8, 8), (16, 8), (5, 2)])
def test_the_share_of_zero_variance_groups_is_unbiased(n, group):
    """Over all samples of n completions its mean is exact; with the measured share in place of p it
    is too high."""
    for p in (0.0, 0.03, 0.5, 0.8, 1.0):
        chances = [math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
        true = p**group + (1 - p) ** group
        mean = sum(chance * all_alike(n, c, group) for c, chance in enumerate(chances))
        shares = [c / n for c in range(n + 1)]
        alike = [share**group + (1 - share) ** group for share in shares]
        plugged = sum(a * b for a, b in zip(chances, alike, strict=True))
        assert mean == pytest.approx(true, abs=1e-12)
        assert p in (0, 1) or plugged > true + 1e-3


def batches(problems: int, samples: int, size: int = 32, every: int = 1000) -> dict[int, list]:
    return sample.batches_by_sample(problems, every, samples, size)


def test_more_problems_and_more_samples_leave_the_batches_as_they_are():
    small, large = batches(96, 4), batches(1000, 9)
    assert small.items() <= large.items()
    expected = [(i, s) for i in range(1000) for s in range(9)]
    assert sorted(each for batch in large.values() for each in batch) == expected
    # Part of a batch of problems is answered anew once there are more.
    changed = [number for number, batch in batches(100, 4).items() if batch != large[number]]
    assert len(changed) == 4 and all(len(batches(100, 4)[number]) == 4 for number in changed)


def test_the_figures():
    figures = sample.pass_rate_figures([0, 4, 8, 2], n=8, group=4)
    assert figures["pass_rate"] == 14 / 32
    assert figures["never_correct"] == figures["always_correct"] == 0.25
    assert figures["zero_variance_groups"] == pytest.approx((1 + 2 / 70 + 1 + 15 / 70) / 4)
    low, high = figures["zero_variance_groups_interval_95"]
    assert low < figures["zero_variance_groups"] < high
    few = sample.pass_rate_figures([0, 1], n=2, group=8)
    assert "zero_variance_groups" not in few
    cost = {"completions": 4, "tokens": 40, "seconds": 1.0}
    table = sample.pass_rate_table(few | cost, [0, 1], "sft")
    assert "| sft | 25.0% |" in table and "| needs --samples 8 |" in table
    figures = few | cost | {"never_correct": 0.1, "always_correct": 0.2}
    lines = sample.pass_rate_table(figures, [0, 1], "sft").splitlines()
    head, values = (line.strip("| ").split(" | ") for line in (lines[0], lines[2]))
    cells = dict(zip(head, values, strict=True))
    assert (cells["never correct"], cells["always correct"]) == ("10.0%", "20.0%")
    assert [cells[name] for name in cost] == ["4", "40", "1"]
    assert f"| 0 of 2 | 1 | {'█' * 40} |\n| 1 of 2 | 1 | {'█' * 40} |\n| 2 of 2 | 0 |  |" in table


def test_a_histogram_of_many_samples_has_ten_rows():
    bins = sample.histogram([0, 9, 10, 99, 100], 100)
    assert [name for name, _ in bins][::9] == ["0% to 10%", "90% to 100%"]
    assert [count for _, count in bins] == [2, 1, 0, 0, 0, 0, 0, 0, 0, 2]


@cases(__file__, "advice")
def test_advice(correct, message):
    told = sample.change_before_grpo(sample.pass_rate_figures(correct, n=8, group=8), correct)
    assert told == message if message is None else told.startswith(message)


@pytest.mark.parametrize("n", range(2, 40))
def test_the_advised_range_holds_every_problem_that_was_solved_sometimes(n):
    correct = [0] * 50 + [n] * 50 + [1, n - 1]
    told = sample.change_before_grpo(sample.pass_rate_figures(correct, n=n, group=2), correct)
    low, high = json.loads(told[told.index("[") : told.index("]") + 1])
    assert 0 < low <= 1 / n and (n - 1) / n <= high < 1


def test_the_engine_is_given_the_sampling_of_training():
    overrides = ["sft=null", "grpo.top_p=0.9", "grpo.top_k=1", "grpo.temperature=3"]
    overrides += ["grpo.max_completion_length=7"]
    overrides += ["evaluate.samples=3", "evaluate.temperature=0.5"]
    recipe = load_recipe(TINY, overrides)
    policy = sample.starting_policy(recipe)
    more = {"top_k": 1, "repetition_penalty": 1.0}
    assert policy.sampling_or_default() == Sampling(temperature=3.0, top_p=0.9, more=more)
    assert policy.recipe.evaluate.max_new_tokens == 7
    tokenizer = load_tokenizer(recipe)
    model = load_model(recipe, tokenizer).eval()
    prompts = [tokenizer("What is 12 + 34?")["input_ids"]]
    greedy = generate(model, tokenizer, prompts, 20, Sampling())
    for others in ({}, {"top_p": 1e-6}, {"more": more}):
        torch.manual_seed(0)
        answers = generate(model, tokenizer, prompts, 20, Sampling(temperature=3, **others))
        assert (answers == greedy) == bool(others)  # of one token there is no choice


def test_options_that_the_engine_lacks_are_refused():
    overrides = ["sft=null", "grpo.generation_kwargs={min_new_tokens: 3}"]
    policy = sample.starting_policy(load_recipe(TINY, overrides))
    assert policy.sampling_or_default().more["min_new_tokens"] == 3
    other = load_recipe(TINY, [*overrides, "evaluate.engine=vllm"])
    message = r"are options of transformers: a probe needs evaluate\.engine: transformers"
    with pytest.raises(RecipeError, match=message):
        sample.starting_policy(other)


HEAD = {"probed": 1, "samples": 4}
LINE = {"id": 0, "correct": 1, "n": 4}


def test_what_a_probe_wrote_is_read(tmp_path):
    file, head = tmp_path / "pass_rates.jsonl", HEAD | {"probed": 2}
    write_lines(file, [head, LINE, LINE | {"id": 7, "correct": 4}])
    assert sample.read_pass_rates(file) == (head, {0: 0.25, 7: 1.0})


CUT_OFF = [HEAD | {"probed": 2}, LINE]  # after a whole line
DAMAGED = [[], [[1]], [{}, LINE], [HEAD, {"id": 1}], CUT_OFF, [*CUT_OFF, LINE]]
DAMAGED += [[HEAD | {"probed": "x"}, LINE], [HEAD, LINE | {"correct": "1"}]]


@pytest.mark.parametrize("lines", DAMAGED)
def test_what_no_probe_wrote_is_one_line(lines, tmp_path):
    write_lines(tmp_path / "pass_rates.jsonl", lines)
    message = r"pass_rates.jsonl is not what a probe wrote \(\w+Error\): delete it"
    with pytest.raises(RecipeError, match=message):
        sample.read_pass_rates(tmp_path / "pass_rates.jsonl")


def test_an_answer_that_is_there_twice_counts_once():
    lines = [{"id": 0, "sample": 0, "correct": True}] * 3 + [
        {"id": 1, "sample": 0, "correct": None}
    ]
    probed = SimpleNamespace(lines=lines, rows=range(2))
    assert sample.correct_per_problem(probed, samples=1) == [1, 0]
