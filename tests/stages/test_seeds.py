"""The gain over several seeds."""

import json
import math

import pytest

from evaluation.statistics import over_seeds
from stages.seeds import table
from tests.console.test_terminal import kinds
from tests.support import refused, run_stage
from tests.tables import cases
from tests.waits import capture


def test_the_interval_is_students():
    """By hand: the standard error of 1, 2 and 3 is 1 / sqrt(3), and t of two degrees of freedom is
    4.303."""
    assert over_seeds([1.0, 2.0, 3.0]) == pytest.approx((2.0, 4.303 / math.sqrt(3)), rel=1e-3)
    assert over_seeds([0.5]) == (0.5, math.inf)


def test_a_gain_is_paired_within_a_seed():
    """The stages differ between seeds by far more than the gain does."""
    accuracies = {}
    for seed in range(1, 6):
        accuracies[seed] = {"sft": 0.1 * seed, "grpo": 0.1 * seed + 0.05 + 0.001 * (seed % 2)}
    lines = table(accuracies)
    assert lines[2] == "| 1 | 10.0% | 15.1% |"
    assert lines[7].startswith("| mean | 30.0% ± 19.6 | 35.1% ± ")
    assert lines[9] == "- sft → grpo: +5.1 ± 0.1 points"


@cases(__file__, "a_change_is_claimed_beyond_its_interval_alone")
def test_a_change_is_claimed_beyond_its_interval_alone(accuracies, last):
    labels = ("base", "sft", "grpo")[-len(accuracies[0]) :]
    seeds = [dict(zip(labels, row, strict=True)) for row in accuracies]
    assert table(dict(enumerate(seeds)))[-1] == last


def test_a_label_of_a_strangers_file_is_only_text():
    seeds = {seed: {"base": 0.5, "![x](y) | <b>": 0.5 + seed / 10} for seed in (1, 2)}
    counts = kinds("\n".join(table(seeds)))
    assert counts["tr_open"] == 4 and not counts.keys() & {"image", "html_inline"}


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

    def wrong(*seeds: int) -> str:
        return refused("seeds", RECIPE, f"output_dir={tmp_path}", "--seeds", *seeds)

    assert "seed-5/eval/held-out/summary.json is not there: make seeds" in wrong(3, 5)
    (folder / "summary.json").write_text(json.dumps({"grpo": {"n": 8, "accuracy": 0.5}}))
    assert "not compared on the same problems" in wrong(3, 4)
    for text in ("[1", "[1]", '{"grpo": 5}', '{"grpo": {"n": 1e999, "accuracy": 1}}'):
        (folder / "summary.json").write_text(text)
        assert "is not what an evaluation wrote" in wrong(3, 4)


def test_make_ends_with_the_mistake():
    command = ["make", "--no-print-directory", "seeds", "RECIPE=it's/it's.yaml", "-o", "setup"]
    done = capture(command, timeout=60)
    expected = (2, True, False)
    assert (done.returncode, "it's" in done.stderr, "seeds: " in done.stdout) == expected
