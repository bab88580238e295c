"""The gain over several seeds."""

import json
import math
import subprocess

import pytest

from evaluation.statistics import over_seeds
from stages.seeds import table
from tests.schema.test_terminal import kinds
from tests.support import ROOT, run_stage


def test_the_interval_is_students():
    """By hand: the standard error of 1, 2 and 3 is 1 / sqrt(3), and t of two degrees of freedom is 4.303."""
    assert over_seeds([1.0, 2.0, 3.0]) == pytest.approx((2.0, 4.303 / math.sqrt(3)), rel=1e-3)
    assert over_seeds([0.5]) == (0.5, math.inf)


def test_a_gain_is_paired_within_a_seed():
    """The stages differ between seeds by far more than the gain does."""
    lines = table({seed: {"sft": 0.1 * seed, "grpo": 0.1 * seed + 0.05 + 0.001 * (seed % 2)} for seed in range(1, 6)})
    assert lines[2] == "| 1 | 10.0% | 15.1% |"
    assert lines[7].startswith("| mean | 30.0% ± 19.6 | 35.1% ± ")
    assert lines[9] == "- sft → grpo: +5.1 ± 0.1 points"


def test_a_change_within_its_interval_is_not_claimed():
    lines = table({1: {"sft": 0.5, "grpo": 0.7}, 2: {"sft": 0.5, "grpo": 0.4}, 3: {"sft": 0.5, "grpo": 0.6}})
    assert lines[-1].startswith("- sft → grpo: no significant change: +6.7 ± ")


def test_seeds_that_all_agree_have_no_interval():
    assert table({seed: {"sft": 0.1, "grpo": 0.7} for seed in range(4)})[-1] == (
        "- sft → grpo: +60.0 points in every seed; without a spread there is no interval"
    )


def test_a_label_of_a_strangers_file_is_only_text():
    text = "\n".join(table({seed: {"base": 0.5, "![x](y) | <b>": 0.5 + seed / 10} for seed in (1, 2)}))
    found = kinds(text)
    assert found["tr_open"] == 4 and not found.keys() & {"image", "html_inline"}


RECIPE = "recipes/tiny-arithmetic.yaml"


def test_the_stage_reads_each_seeds_comparison(tmp_path):
    for seed, accuracy in ((3, 0.5), (4, 0.7)):
        folder = tmp_path / f"seed-{seed}/eval/held-out"
        folder.mkdir(parents=True)
        each = {"sft": {"n": 8, "accuracy": 0.25}, "grpo": {"n": 8, "accuracy": accuracy}}
        (folder / "summary.json").write_text(json.dumps(each))
    done = run_stage("seeds", RECIPE, f"output_dir={tmp_path}", "--seeds", 3, 4)
    assert "| 4 | 25.0% | 70.0% |" in done.stdout
    assert (tmp_path / "seeds.md").read_text().count("|") == done.stdout.count("|")
    missing = run_stage("seeds", RECIPE, f"output_dir={tmp_path}", "--seeds", 3, 5, check=False)
    assert missing.returncode == 2
    assert "seed-5/eval/held-out/summary.json is not there: make seeds" in missing.stderr
    (folder / "summary.json").write_text(json.dumps({"grpo": {"n": 8, "accuracy": 0.5}}))
    other = run_stage("seeds", RECIPE, f"output_dir={tmp_path}", "--seeds", 3, 4, check=False)
    assert (other.returncode, "not compared on the same problems" in other.stderr) == (2, True)
    for wrong in ("[1", "[1]", '{"grpo": 5}', '{"grpo": {"n": 1e999, "accuracy": 1}}'):
        (folder / "summary.json").write_text(wrong)
        refused = run_stage("seeds", RECIPE, f"output_dir={tmp_path}", "--seeds", 3, 4, check=False)
        assert (refused.returncode, "is not what an evaluation wrote" in refused.stderr) == (2, True)
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "seeds.md.partial").symlink_to("precious")
    linked = run_stage("seeds", RECIPE, f"output_dir={tmp_path}", "--seeds", 3, check=False)
    assert (linked.returncode, "is a link" in linked.stderr) == (2, True)
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_gain_that_rounds_to_nothing_is_none():
    gains = {seed: {"sft": 0.5, "grpo": 0.5 + 0.001 * (seed == 1)} for seed in range(6)}
    assert table(gains)[-1] == "- sft → grpo: no significant change: +0.0 ± 0.0 points"


def test_one_seed_has_no_interval():
    assert table({1: {"sft": 0.5, "grpo": 0.6}})[-1] == "One seed says nothing about others: no interval."


def test_the_last_stage_is_compared_with_the_first_too():
    lines = table({seed: {"base": 0.0, "sft": 0.1 * seed, "grpo": 0.5 + 0.01 * seed} for seed in (1, 2, 3)})
    assert lines[-1].startswith("- base → grpo: +52.0 ± 2.5 points")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        *(
            ([f"--seeds={given}"], f'SEEDS: expected whole numbers such as SEEDS="1 2 3", got "{wrong}"')
            for given, wrong in [
                ("1 2 x", "x"),
                ("", ""),
                ("1 02", "02"),
                ("1 '2'", "'2'"),
                ("1 \u0663", "\u0663"),
                ("-1", "-1"),
                ("1 9999999999", "9999999999"),  # which its own stages would refuse, after the first had trained
            ]
        ),
        (["seed=5", "--seeds=1"], "override seed=5: seed: make seeds sets it for each seed: leave it out"),
        (["output_dir=outputs/y", "--seeds=1"], "output_dir: make seeds sets it for each seed: leave it out"),
        (["grpo.max_stepz=5", "--seeds=1"], "did you mean max_steps?"),
    ],
    ids=str,
)
def test_a_mistake_is_told_before_any_seed_is_trained(given, told):
    done = run_stage("seeds", RECIPE, "--check", *given, check=False)
    assert (done.returncode, told in done.stderr, done.stdout) == (2, True, ""), done.stderr


@pytest.mark.parametrize(
    ("options", "told"), [("CHAIN=dp0", "CHAIN=dp0: expected grpo or dpo"), ("RECIPE=it's/it's.yaml", "it's")]
)
def test_make_ends_with_the_mistake(options, told):
    """Its first line is run, the others would only be shown."""
    command = ["make", "--no-print-directory", "seeds", options, "-o", "setup"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, told in done.stderr, "seeds: " in done.stdout) == (2, True, False), done.stderr
