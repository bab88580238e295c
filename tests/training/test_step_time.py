"""The estimate of a step's time, against sums by hand. Against measured steps: `python -m tests.bench.step_time`."""

import pytest

from schema.gpus import CARDS, Card
from schema.recipe import load_recipe
from tests.support import run_stage
from training.step_time import Decoding, step_time

CARD = Card("x", 80, bandwidth=1000, flops=100, link=10)  # a terabyte and 100 TFLOP a second
KEYS = ["sft=null", "grpo.num_iterations=1", "grpo.beta=0", "grpo.generation_kwargs=null"]


def test_decoding_reads_the_weights_for_each_token_or_multiplies():
    # 2 GB read at 600 GB/s, 100 times; the prompts' products, 2 GFLOP for each of 10 tokens at 30 TFLOP/s, are nothing.
    one = Decoding(weights=2e9, parameters=10**9, cache=0, bandwidth=1e12, flops=3e13).seconds(1, 10, 100)
    assert one == pytest.approx(100 * 2 / 600 + 10 * 2e9 / 3e13)
    # With a cache of 1 MB a token, 10 + 50 tokens long on average.
    cached = Decoding(2e9, 10**9, 1e6, 1e12, 3e13).seconds(1, 10, 100)
    assert cached == pytest.approx(100 * 2.06 / 600 + 10 * 2e9 / 3e13)
    # 256 at a time: the products, 2 GFLOP each, take longer than the read.
    slow = Decoding(2e9, 10**9, 0, 1e12, 3e13)
    assert slow.seconds(256, 0, 100) == pytest.approx(100 * 256 * 2e9 / 3e13)
    assert slow.seconds(512, 0, 100) == pytest.approx(2 * slow.seconds(256, 0, 100))
    # Two GPUs share the weights and run twice as many.
    assert slow.seconds(512, 0, 100, tensor_parallel=2) == pytest.approx(slow.seconds(256, 0, 100))


def test_training_counts_passes():
    plain = step_time(load_recipe("recipes/tiny-arithmetic.yaml", KEYS), 20, CARD)
    for keys, passes in (
        ([], 3),
        (["grpo.beta=0.04"], 4),
        (["grpo.gradient_checkpointing=true"], 4),
        (["grpo.num_iterations=2"], 3.5),
        (["grpo.num_iterations=2", "grpo.beta=0.04"], 4),
        (["adapter={r: 4, target_modules: all-linear}"], 2),
    ):
        found = step_time(load_recipe("recipes/tiny-arithmetic.yaml", KEYS + keys), 20, CARD)
        assert found.training / plain.training == pytest.approx(passes / 3, rel=1e-3), keys


def test_sampling_is_shared_by_the_steps_of_a_batch_and_by_gpus():
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", KEYS)
    one, two = (step_time(recipe, 20, CARD, gpus) for gpus in (1, 2))
    assert one.exchange == 0 < two.exchange
    again = step_time(load_recipe("recipes/tiny-arithmetic.yaml", [*KEYS, "grpo.num_iterations=2"]), 20, CARD)
    assert again.sampling == pytest.approx(one.sampling / 2)
    several = ["grpo.gradient_accumulation_steps=4", "grpo.steps_per_generation=1"]
    often = step_time(load_recipe("recipes/tiny-arithmetic.yaml", KEYS + several), 20, CARD)
    assert (often.sampling, often.training) == pytest.approx((4 * one.sampling, 4 * one.training))
    assert (two.sampling, two.training) == (one.sampling, one.training)  # each GPU samples and trains its own batch
    server = [*KEYS, "grpo.use_vllm=true", "grpo.vllm_mode=server"]
    of_one, of_all = (step_time(load_recipe("recipes/tiny-arithmetic.yaml", server), 20, CARD, n) for n in (1, 64))
    assert of_all.sampling > 2 * of_one.sampling  # those of 64 trainers, by one server
    assert step_time(recipe, 20, CARD, 2, sharded=True).exchange > two.exchange


def test_memory_says_how_long_a_step_takes_on_a_named_card():
    said = run_stage("memory", "recipes/tiny-arithmetic.yaml", "--card", "h100").stdout
    assert "fits 80 GiB" in said and "a step on 1 × H100: " in said and "for 240 steps" in said
    assert "a step on" not in run_stage("memory", "recipes/tiny-arithmetic.yaml", "--card", "80").stdout
    assert all(each.bandwidth and each.flops and each.link for each in CARDS.values())
