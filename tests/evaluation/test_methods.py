"""Ways to spend the same completions, from made outcomes: numbers worked out by hand."""

import pytest

from evaluation.methods import in_percent, sentence, write

MEASURES = ("greedy", "lenient", "answered", "sampled")


def outcomes(arm: str, seed: int, *digits: str, method: str = "", **facts) -> list[dict]:
    """The lines of an arm and a seed, the digits by measure; `sampled` is of four samples."""
    about = {"arm": arm, "seed": seed, "method": method or arm, "needs": "answers"}
    about |= {"start": "base", "completions": 96, "seconds": 90.0} | facts
    lines = []
    for measure, correct in zip(MEASURES, digits, strict=True):
        samples = 4 if measure == "sampled" else 1
        lines.append(about | {"measure": measure, "samples": samples, "correct": correct})
    return lines


def two_seeds() -> list[dict]:
    lines = []
    for seed in (1, 2):
        lines += outcomes("base", seed, "0000", "1000", "1100", "0100", completions=0)
        half_way = {"method": "RFT", "completions": 48}
        lines += outcomes("RFT, after 1", seed, "1100", "1100", "1111", "1111", **half_way)
        lines += outcomes("RFT", seed, "1111", "1111", "1111", "4000")
    lines += outcomes("GRPO", 1, "1110", "1110", "1111", "4440")
    lines += outcomes("GRPO", 2, "1100", "1100", "1111", "4400")
    return lines


def test_the_page_says_what_each_took_and_gained(tmp_path):
    text = write(tmp_path, two_seeds())
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    gained = "100.0 ± 0.0 | +100.0 ± 0.0 | +75.0 ± 0.0 | +100.0 ± 0.0"
    # t of one degree of freedom is 12.706; the standard error of 1/4 and 2/4 is 1/8.
    assert rows[0] == f"| RFT | answers | 96 | 1.5 | {gained} | +37.5 ± 158.8 | 25.0 ± 0.0 |"
    assert rows[1].startswith("| GRPO | answers | 96 | 1.5 | 62.5 ± 158.8 | +62.5 ± 158.8 | ")
    assert rows[1].endswith("| +100.0 ± 0.0 |  | 62.5 ± 158.8 |") and len(rows) == 2
    assert "n = 4, base 0.0 ± 0.0%; seeds 1 2," in text and "pass@4, n = 4 |" in text
    assert (tmp_path / "report.md").read_text() == text
    assert (tmp_path / "methods.png").read_bytes().startswith(b"\x89PNG")


def test_one_seed_has_no_interval(tmp_path):
    lines = [line for line in two_seeds() if line["seed"] == 1]
    text = write(tmp_path, lines, ["Left out: RFT.", "They learn <answer> tags."])
    assert "\nLeft out: RFT.\n\nThey learn <answer> tags.\n" in text
    assert "| 100.0 | +100.0 | +75.0 | +100.0 | +25.0 | 25.0 |" in text and "±" not in text
    assert "RFT is the most correct, but not surely more than the base, GRPO (" in text


def test_a_base_that_answers_nothing_has_no_gain_there(tmp_path):
    lines = two_seeds()
    for line in lines:
        if (line["arm"], line["measure"]) == ("base", "answered"):
            line["correct"] = "0000"
    assert "| +75.0 ± 0.0 |  | +37.5 ± 158.8 |" in write(tmp_path, lines)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # 30, 31 and 32 points apart: 31 ± 2.5
        (
            (50, 51, 52),
            (20, 20, 20),
            "by more than the 95% interval of its lead over the base and each other method"
            " (3 seeds)",
        ),
        # 0, 10 and 40 points apart: 16.7 ± 51.7
        ((20, 30, 60), (20, 20, 20), "but not surely more than the base, RFT (3 seeds)"),
        # The same in every seed: no spread, and so no interval.
        ((30, 30, 30), (20, 20, 20), "but not surely more than the base, RFT (3 seeds)"),
        ((30,), (20,), "but not surely more than the base, RFT (one seed)"),
    ],
)
def test_the_sentence_claims_no_more_than_the_intervals(first, second, expected):
    text = sentence(with_counts(base=[5] * len(first), GRPO=first, RFT=second), ["RFT", "GRPO"])
    assert text.startswith(f"On these problems GRPO is the most correct, {expected}. ")
    assert text.endswith("The same problems chose it, so expect a smaller lead on others.")


def with_counts(**counts) -> list[dict]:
    """The outcomes of arms of which so many of 100 answers are correct, seed by seed."""
    lines = []
    for arm, correct in counts.items():
        for seed, count in enumerate(correct):
            digits = "1" * count + "0" * (100 - count)
            lines += outcomes(arm, seed, digits, digits, digits, digits)
    return lines


def test_the_base_is_a_rival_too():
    ahead = with_counts(base=(80, 80), GRPO=(57, 58), RFT=(40, 41))
    expected = "On these problems no method is more correct than the base (2 seeds)."
    assert sentence(ahead, ["RFT", "GRPO"]) == expected
    near = with_counts(base=(50, 50), GRPO=(49, 54), RFT=(20, 21))
    assert "GRPO is the most correct, but not surely more than the base (" in sentence(
        near, ["RFT", "GRPO"]
    )


def test_a_mean_has_its_interval_and_a_difference_its_sign():
    assert in_percent([0.2, 0.4, 0.6]) == "40.0 ± 49.7"
    assert in_percent([0.05], "+") == "+5.0" and in_percent([-0.05], "+") == "-5.0"
