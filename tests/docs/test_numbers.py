"""The numbers of the pages that files of this repository hold, counted anew."""

import json
import math
import re

import numpy as np
import pytest

from evaluation.statistics import over_seeds
from tests.bench import methods
from tests.rewards.verifier.judged_rows import TABLES, judged_rows
from tests.support import ROOT

VERIFIER = (ROOT / "docs/verifier.md").read_text(encoding="utf-8")
JUDGED = (ROOT / "docs/study/verifier.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "docs/results.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs/study/settings.md").read_text(encoding="utf-8")
COMPLETIONS = 3840  # that a run of the study generates
START = 0.05  # accuracy of a warm start below which the study leaves a seed out


def refused(table: str) -> list[int]:
    """(rows, correct ones, those that the contract refuses), as the table's first column says it
    and test_verifier.py holds it."""
    expected = [row.expected for row in judged_rows(table)]
    unread = expected.count("unread")
    return [len(expected), expected.count("right") + unread, unread]


def numbers(cells: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", cells)]


def test_the_answers_that_the_verifier_refuses_add_up():
    counted = [refused(name) for name in TABLES]
    printed = {}
    for name, cells in re.findall(r"^\| \[.*verifier/(\w+\.tsv)\)[^|]*(\|.*)", JUDGED, re.M):
        printed[name] = numbers(cells)
    assert printed == dict(zip(TABLES, counted, strict=True))
    total = re.search(r"Of the [\d,]+\s+correct ones [\d,]+ are refused", JUDGED)
    assert numbers(total[0]) == [sum(row[1] for row in counted), sum(row[2] for row in counted)]
    tables = ("models.tsv", "blind.tsv", "cases.tsv")
    cells = re.search(r"^\| the verifier, by the contract (.*)", RESULTS, re.M)[1]
    assert numbers(cells)[::2] == [refused(name)[2] for name in tables]
    assert numbers(cells)[1::2] == [0, 0, 0]  # incorrect answers paid


def test_the_languages_of_announcements_are_counted():
    file = ROOT / "rewards/verifier/tables/announcements.tsv"
    names = [line.split("\t")[0] for line in file.read_text(encoding="utf-8").splitlines()]
    languages = [name for name in names if re.fullmatch(r"[A-Z][a-z]+", name)]
    [printed] = re.findall(r"their like in (\d+)\s+languages", VERIFIER)
    assert int(printed) == 1 + len(languages) > 10  # English has several lines


def area(line: dict) -> float:
    """Mean accuracy over the completions that a run generated, by the trapezoid rule."""
    points = [count for count in line["generated"] if count < COMPLETIONS] + [COMPLETIONS]
    curve = np.interp(points, line["generated"], line["accuracy"])
    return float(np.trapezoid(curve, points)) / COMPLETIONS


def ratios(file: str, arm: str, lowest_start: float) -> list[float]:
    """An arm's area over tuned trl's, by seed, of warm starts that are correct at least so
    often."""
    arms = {}
    for line in (ROOT / "docs/study" / file).read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        if run["accuracy"][0] >= lowest_start:
            arms.setdefault(run["arm"], {})[run["seed"]] = area(run)
    return [arms[arm][seed] / arms["trl tuned"][seed] for seed in sorted(arms[arm])]


def interval(values: list[float]) -> str:
    mean, half = over_seeds(np.log(values))
    low, high = math.exp(mean - half), math.exp(mean + half)
    return f"{math.exp(mean):.2f} ({low:.2f} to {high:.2f})"


@pytest.mark.parametrize(
    ("arm", "settings", "rate"),
    [
        ("ours", "tuned trl", "5e-5"),
        ("open-r1", "open-r1", "2e-5"),
        ("trl defaults", "trl's", "1e-6"),
    ],
)
def test_the_study_of_settings_is_what_its_lines_say(arm, settings, rate):
    section = SETTINGS.split("## Which settings learn")[1].split("\n## ")[0]
    row = re.search(rf"^\| {settings}.*", section, re.M)[0]
    four, two_to_four = "four-digits-test.jsonl", "two-to-four-digits-test.jsonl"
    assert f"| {rate} |" in row
    assert len(ratios(four, arm, START)) == 5 and len(ratios(four, arm, 0.0)) == 6
    assert interval(ratios(four, arm, START)) in row
    assert interval(ratios(two_to_four, arm, START)) in row
    with_all = " ".join(section.split())
    assert interval(ratios(four, arm, START)) in RESULTS
    assert interval(ratios(four, arm, 0.0)) in with_all  # with the seed that the rule leaves out


def test_the_study_of_methods_is_recomputed_from_its_outcomes():
    study = ROOT / "docs/study/methods"
    text = (study / "tiny.jsonl").read_text(encoding="utf-8")
    outcomes = [json.loads(line) for line in text.splitlines()]
    rows = methods.table(outcomes, "tiny", False, "RFT, twice the updates").splitlines()
    complete = [row for row in rows if row.split("|")[4].strip() == "5"]
    assert len(complete) == 7
    plan = (study / "plan.md").read_text(encoding="utf-8")
    assert all(row in plan for row in complete)
    page = (ROOT / "docs/choosing.md").read_text(encoding="utf-8")
    on_the_page = 0
    for row in complete:
        cells = [cell.strip() for cell in row.split("|")[1:-1]]
        on_the_page += f" | {cells[2]} | {cells[4]} | {cells[6]} | {cells[8]} |" in page
    assert on_the_page == page.partition("## Which variant")[0].count("\n| ") - 1
    policy = complete[1].split("|")
    for cell, sign in ((policy[6], ""), (policy[8], "−"), (policy[10], "+")):
        mean, half, over_problems = re.findall(r"\d+\.\d", cell)
        assert f"{sign}{mean} ± {half}" in page and f"± {over_problems}" in page
