"""The gain over several seeds."""

import math

import pytest

from evaluation.compare_runs import seeds_page
from evaluation.statistics import over_seeds
from tests.console.test_terminal import kinds
from tests.evaluation.test_compare_runs import run
from tests.support import refused, run_stage
from tests.tables import cases, lacking
from tests.waits import capture


def test_the_interval_is_students():
    """By hand: the standard error of 1, 2 and 3 is 1 / sqrt(3), and t of two degrees of freedom is
    4.303."""
    assert over_seeds([1.0, 2.0, 3.0]) == pytest.approx((2.0, 4.303 / math.sqrt(3)), rel=1e-3)
    assert over_seeds([0.5]) == (0.5, math.inf)


def table(accuracies: dict[int, dict[str, float]]) -> list[str]:
    """The lines of the page below its heading."""
    return seeds_page(accuracies, 8).splitlines()[2:]


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
    for seed, correct in ((3, 50), (4, 70)):
        run(tmp_path / f"seed-{seed}", correct=correct, seed=seed)
    done = run_stage("seeds", RECIPE, f"output_dir={tmp_path}", "--seeds", 3, 4)
    assert "| 4 | 0.0% | 40.0% | 70.0% |" in done.stdout
    assert (tmp_path / "seeds.md").read_text().count("|") == done.stdout.count("|")

    def incorrect(*seeds: int) -> str:
        return refused("seeds", RECIPE, f"output_dir={tmp_path}", "--seeds", *seeds)

    assert lacking(["seed-5/grpo", "make seeds"], incorrect(3, 5)) == []
    answers = tmp_path / "seed-4/eval/validation"
    (answers / "base.jsonl").rename(tmp_path / "base.jsonl")
    assert "not compared on the same problems" in incorrect(3, 4)
    (answers / "grpo.jsonl").write_text("{\n")
    assert lacking([str(answers), "cannot be compared", "make seeds"], incorrect(3, 4)) == []


def test_make_ends_with_the_mistake():
    command = ["make", "--no-print-directory", "seeds", "RECIPE=it's/it's.yaml", "-o", "setup"]
    done = capture(command, timeout=60)
    expected = (2, True, False)
    assert (done.returncode, "it's" in done.stderr, "seeds: " in done.stdout) == expected
