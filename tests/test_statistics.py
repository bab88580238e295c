"""Intervals and paired differences, by hand and against scipy."""

import json
import math

import pytest
from scipy.stats import ttest_rel

from stages.statistics import paired_difference, report, wilson


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


def answers(folder, label, right):
    items = [
        {
            "id": i,
            "right": r,
            "strict": r and i > 0,
            "lenient": r,
            "answer": "1" if r is not None else None,
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
    assert "base → sft: +1.0 ± 2.0 points (paired, 2 standard errors): no significant change" in text
    assert "sft → grpo: +49.0 ± 10.0 points (paired, 2 standard errors)\n" in text + "\n"
    assert "| base | 50.0% | 40.4% to 59.6% | 49.0% | 50.0% | 100.0% | 0.0% | 10 |" in text
    assert (tmp_path / "report.md").read_text() == text + "\n"
    assert json.loads((tmp_path / "summary.json").read_text())["grpo"]["accuracy"] == 1.0


def test_models_are_compared_on_the_problems_all_have_answered(tmp_path):
    answers(tmp_path, "base", [True] * 10)
    answers(tmp_path, "sft", [True] * 4)
    assert "(n = 4)" in report(tmp_path, ["base", "sft"])
