"""Intervals and paired differences, by hand and against scipy."""

import json
import math
import random

import pytest
from scipy.stats import ttest_rel

from stages.statistics import mcnemar, paired_difference, report, verdict, wilson


def test_wilson_is_the_formula_of_1927():
    right, n, z = 411, 1319, 1.959964
    p = right / n
    centre, half = (p + z * z / (2 * n)), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    assert wilson(right, n) == pytest.approx(((centre - half) / scale, (centre + half) / scale), abs=1e-6)
    assert wilson(0, 10)[0] == 0.0
    assert wilson(10, 10)[1] == 1.0


def test_the_paired_standard_error_is_that_of_the_t_test():
    before = [i % 3 == 0 for i in range(200)]
    after = [i % 2 == 0 or i % 3 == 0 for i in range(200)]
    mean, error = paired_difference(before, after)
    assert mean == pytest.approx((sum(after) - sum(before)) / 200)
    assert mean / error == pytest.approx(ttest_rel([int(b) for b in after], [int(b) for b in before]).statistic)


def test_one_problem_has_no_standard_error():
    assert math.isnan(paired_difference([True], [True])[1])


def test_mcnemars_p_is_that_of_a_fair_coin():
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(5, 5) == 1.0
    assert mcnemar(0, 6) == pytest.approx(2 * 0.5**6)
    assert mcnemar(9, 1) == pytest.approx(2 * 11 * 0.5**10)


def simulated(gain: float, n: int, rng: random.Random) -> tuple[list[bool], list[bool]]:
    """Problems of mixed difficulty, answered by two models of which the second is right `gain` more often."""
    difficulty = [rng.uniform(0.1, 0.8) for _ in range(n)]
    return [rng.random() < d for d in difficulty], [rng.random() < d + gain for d in difficulty]


def test_of_a_thousand_equal_models_few_are_said_to_differ():
    rng = random.Random(1)
    claimed = sum("no significant" not in verdict(*simulated(0.0, 300, rng)) for _ in range(1000))
    assert claimed <= 60


def test_the_interval_covers_the_true_difference_as_often_as_it_says():
    rng = random.Random(2)
    covered = 0
    for _ in range(1000):
        mean, error = paired_difference(*simulated(0.1, 300, rng))
        covered += abs(mean - 0.1) <= 1.96 * error
    assert 930 <= covered <= 970


def answers(folder, label, right):
    items = [
        {
            "id": i,
            "problem": f"{i} + 0?",
            "gold": str(i),
            "level": "1" if i < 60 else "2",
            "right": r,
            "strict": r and i > 0,
            "lenient": r,
            "answer": str(i) if r else "-1",
            "truncated": False,
            "tokens": 10,
        }
        for i, r in enumerate(right)
    ]
    (folder / f"{label}.jsonl").write_text("\n".join(json.dumps(line) for line in [{}, *items]) + "\n")


def test_the_report_says_when_nothing_is_significant(tmp_path):
    answers(tmp_path, "base", [True, False] * 50)
    answers(tmp_path, "sft", [True, False] * 49 + [True, True])
    answers(tmp_path, "grpo", [True] * 100)
    text = report(tmp_path, ["base", "sft", "grpo"])
    assert "base → sft: no significant change (+1.0 ± 2.0 points, n = 100, 1 won, 0 lost, p = 1)" in text
    assert "sft → grpo: +49.0 ± 10.0 points (n = 100, 49 won, 0 lost, p = 3.6e-15)" in text
    assert "| base | 50.0% | 40.4% to 59.6% | 49.0% | 50.0% | 100.0% | 0.0% | 10 |" in text
    written = (tmp_path / "report.md").read_text()
    assert written.startswith(text)
    assert "| 2 | 40 | 50.0% (35% to 65%) | 52.5% (37% to 67%) | 100.0% (91% to 100%) |" in written
    assert "## sft → grpo: won, 3 of 49\n\n1 + 0?\n\ngold `1`, sft `-1`, grpo `1`" in written
    assert json.loads((tmp_path / "summary.json").read_text())["grpo"]["accuracy"] == 1.0


def test_models_are_compared_on_the_problems_all_have_answered(tmp_path):
    answers(tmp_path, "base", [True] * 10)
    answers(tmp_path, "sft", [True] * 4)
    assert "(n = 4)" in report(tmp_path, ["base", "sft"])
