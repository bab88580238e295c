"""The numbers of the pages that files of this repository hold, counted anew."""

import json
import math
import re

import numpy as np
import pytest

from evaluation.methods import in_percent, scores
from evaluation.statistics import change, over_seeds
from tests.bench import methods
from tests.rewards.verifier.judged_rows import TABLES, judged_rows
from tests.support import ROOT

VERIFIER = (ROOT / "docs/verifier.md").read_text(encoding="utf-8")
JUDGED = (ROOT / "docs/study/verifier.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
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
    plan = (study / "plan.md").read_text(encoding="utf-8")
    complete = []
    tables = ["RFT, a third, twice the updates", "RFT, twice the updates"]
    for control in (*tables, "RFT in three rounds, three times"):
        rows = methods.table(outcomes, "tiny", False, control).splitlines()
        assert rows[0] in plan
        complete += [row for row in rows if row.split("|")[4].strip() == "5"]
    assert len(complete) == 17
    assert all(row in plan for row in complete)
    reported = [line for line in outcomes if line["seed"] <= 5]
    for arm in ("GRPO", "RFT"):
        after, before = (scores(reported, name, "greedy") for name in (f"{arm}, three times", arm))
        assert in_percent(after.mean(1) - before.mean(1)) in plan
    page = (ROOT / "docs/choosing.md").read_text(encoding="utf-8")
    top = page.partition("## Which variant")[0]
    on_the_page = 0
    for row in complete:
        cells = [cell.strip() for cell in row.split("|")[1:-1]]
        on_the_page += f" | {cells[2]} | {cells[4]} | {cells[6]} | {cells[8]} |" in top
    # The warm start is in each of the three tables; the head of the page's table has numbers too.
    assert on_the_page - 2 == top.count("\n| ") - 1
    for number, sign in ((1, "+"), (5, "+"), (14, "−")):
        mean, half, over_problems = re.findall(r"\d+\.\d", complete[number].split("|")[6])
        assert f"{sign}{mean} ± {half}" in top and f"± {over_problems}" in top
    policy = complete[5].split("|")
    for cell, sign in ((policy[8], "−"), (policy[10], "+")):
        mean, half, _ = re.findall(r"\d+\.\d", cell)
        assert f"{sign}{mean} ± {half}" in top


def test_sampling_groups_again_is_measured_by_its_outcomes():
    text = (ROOT / "docs/study/methods/sampled-again.jsonl").read_text(encoding="utf-8")
    outcomes = [json.loads(line) for line in text.splitlines()]
    arms = ["GRPO", "GRPO, sampled again"]
    assert {line["completions"] for line in outcomes} == {3840}
    cells = {name: [] for name in [*arms, "difference"]}
    for kind, score in (methods.MEASURES[name] for name in ("greedily", "sampled", "pass@8")):
        plain, again = (score(scores(outcomes, arm, kind)) for arm in arms)
        assert len(plain) == len(again) == 5
        cells["GRPO"].append(in_percent(plain.mean(1)))
        cells["GRPO, sampled again"].append(in_percent(again.mean(1)))
        cells["difference"].append(methods.gain(again, plain))
    plan = (ROOT / "docs/study/methods/plan.md").read_text(encoding="utf-8")
    rows = plan.partition("sampled-again.jsonl")[2].splitlines()
    for name, printed in cells.items():
        [row] = [row for row in rows if row.startswith(f"| {name} |")]
        assert row.endswith(f"| {' | '.join(printed)} |")
    greedily = cells["difference"][0].partition(" (")[0]
    assert greedily in (ROOT / "docs/choosing.md").read_text(encoding="utf-8")


def test_smollm2s_two_seeds_are_recomputed_from_their_outcomes():
    file = ROOT / "docs/study/methods/smollm2.jsonl"
    lines = list(map(json.loads, file.read_text(encoding="utf-8").splitlines()))
    starts, policies = (scores(lines, arm, "greedy").mean(1) for arm in ("warm start", "RFT"))
    [first, second] = [f"{a:.1%} becomes {b:.1%}" for a, b in zip(starts, policies, strict=True)]
    page = " ".join((ROOT / "docs/choosing.md").read_text(encoding="utf-8").split())
    assert f"{first} and {second} (seeds 1 and 4, n = 400" in page
    assert [line["seed"] for line in lines if line["measure"] == "greedy"] == [4, 1, 4, 1]


def test_svamps_gains_are_recomputed_from_their_outcomes():
    study = ROOT / "docs/study/methods"
    lines = list(map(json.loads, (study / "svamp.jsonl").read_text(encoding="utf-8").splitlines()))
    plan = (study / "plan.md").read_text(encoding="utf-8")
    for control in ("base", "RFT"):
        assert methods.table(lines, "svamp", False, control) in plan
    base = scores(lines, "base", "greedy")
    answered = scores(lines, "base", "answered")[0] > 0
    section = " ".join(RESULTS.partition("## qwen-coder")[2].partition("\n## ")[0].split())
    choosing = " ".join((ROOT / "docs/choosing.md").read_text(encoding="utf-8").split())
    [paragraph] = re.findall(r"\n- \*\*The gain is format.*?\n- ", plan, re.S)
    assert f"in {sum(answered)} problems, {int(base[0, answered].sum())} of them" in section
    for arm in ("GRPO", "RFT"):
        policy = scores(lines, arm, "greedy")
        assert policy.shape == (5, 300)
        gain, by_seeds, by_problems = re.findall(r"\d+\.\d", methods.gain(policy, base))
        shares = [f"{100 * value:.1f}%" for value in sorted(policy.mean(1))]
        mean = f"{policy.mean():.1%}"
        row = f"{mean} ({shares[0]} to {shares[-1]}) | +{gain} ± {by_problems} (± {by_seeds}) |"
        assert row in section
        assert f"+{gain} ± {by_problems}" in README and f"± {by_seeds} over seeds" in README
        assert f"to {in_percent(policy.mean(1))}" in choosing
        assert f"({shares[0]} to {shares[-1]})" in choosing
        for part in (answered, ~answered):
            counts = sorted(policy[:, part].sum(1).astype(int))
            assert f"{counts[0]} to {counts[-1]}" in " ".join(paragraph.split())
    text = (study / "svamp-epyc.jsonl").read_text(encoding="utf-8")
    halves = list(map(json.loads, text.splitlines()))
    assert methods.table(halves, "svamp", False, "RFT, half") in plan
    few, rejection = (scores(halves, arm, "greedy") for arm in ("GRPO, half", "RFT, half"))
    assert few.shape == rejection.shape == (5, 300)
    difference, by_seeds, by_problems = re.findall(r"\d+\.\d", methods.gain(few, rejection))
    assert f"{difference} ± {by_seeds} points below RFT (problems ± {by_problems})" in plan
    assert f"−{difference} ± {by_seeds}" in choosing
    policies = [scores(lines, arm, "greedy") for arm in ("GRPO", "RFT")]
    difference, by_seeds, _ = re.findall(r"\d+\.\d", methods.gain(*policies))
    assert f"+{difference} ± {by_seeds} points" in choosing
    step_4 = scores(lines, "GRPO, its step 4", "greedy")
    last, by_seeds, by_problems = re.findall(r"\d+\.\d", methods.gain(policies[0], step_4))
    assert f"{last} ± {by_problems} points (± {by_seeds} over seeds) better" in section
    assert f"{last} ± {by_seeds} points (problems ± {by_problems})" in plan
    grpo = in_percent(policies[0].mean(1))
    row = re.search(r"^\| `qwen-coder-0.5b-svamp` .*", RESULTS, re.M)[0]
    assert f"base {base.mean():.1%} → {grpo.replace(' ', '% ', 1)} (" in row
    assert f"base {base.mean():.1%} → **{policies[0].mean():.1%}**" in README


def outcomes(recipe: str) -> dict[int, dict[str, list[int]]]:
    """By seed and stage of a recipe: for each validation problem, 1 if its answer is correct."""
    found = {}
    text = (ROOT / "docs/study/outcomes.jsonl").read_text(encoding="utf-8")
    for line in map(json.loads, text.splitlines()):
        if line["recipe"] == recipe:
            found.setdefault(line["seed"], {})[line["stage"]] = list(map(int, line["correct"]))
    return found


def share(correct: list[int]) -> str:
    return f"{sum(correct) / len(correct):.1%}"


def test_the_readmes_gain_is_recomputed_from_its_outcomes():
    """The toy of `make grpo`, whose seed is 42."""
    run = outcomes("tiny-arithmetic")[42]
    _, said = change(run["sft"], run["grpo"])
    gain, half, p = re.fullmatch(r"(\S+) ± (\S+) points \(n = 600, .*, p = (\S+)\)", said).groups()
    row = re.search(r"^\| \[the toy\].*", README, re.M)[0]
    assert f"warm start {share(run['sft'])} → **{share(run['grpo'])}**, {gain} ± {half} (" in row
    table = (ROOT / "docs/evaluation.md").read_text(encoding="utf-8")
    assert f"- sft → grpo: {said}\n" in table and float(p) < 1e-50


def test_the_gain_of_the_finished_run_is_recomputed_from_its_outcomes():
    run = outcomes("qwen-coder-0.5b-svamp")[1]
    _, gain = change(run["base"], run["grpo"])
    part = " ".join(RESULTS.partition("Seed 1 again")[2].partition("\n\n")[0].split())
    assert f"{share(run['base'])} → {share(run['grpo'])}" in part
    assert gain.replace(" points ", " points** ") in part


@pytest.mark.parametrize("recipe, end", [("tiny-arithmetic", "grpo")])
def test_the_rows_over_seeds_are_recomputed_from_their_outcomes(recipe, end):
    """Each says where its outcomes are; the others say that none were kept."""
    runs = outcomes(recipe)
    seeds = [runs[seed] for seed in (1, 2, 3, 4, 5)]
    assert all(len(run[end]) == 600 for run in seeds)
    accuracies = [sum(run[end]) / 600 for run in seeds]
    starts = [sum(run["sft"]) / 600 for run in seeds]
    gains = np.subtract(accuracies, starts)
    mean, half = (100 * number for number in over_seeds(accuracies))
    gain, gain_half = (100 * number for number in over_seeds(gains))
    row = re.search(rf"^\| `{recipe}` .*", RESULTS, re.M)[0]
    between = f"({min(accuracies):.1%} to {max(accuracies):.1%})"
    assert f"{100 * np.mean(starts):.1f}%" in row
    assert f"→ {mean:.1f}% ± {half:.1f} {between} | +{gain:.1f} ± {gain_half:.1f} |" in row
    assert "[kept](study/outcomes.jsonl)" in row
    assert f"→ {mean:.1f}% ± {half:.1f}" in README and f"mean {mean:.1f}% ± {half:.1f}" in README


def test_a_row_without_outcomes_says_so():
    first = RESULTS.split("\n## ")[0]
    rows = re.findall(r"^\| `([\w.-]+)` .* \| ([^|]+) \|$", first, re.M)
    kept = [recipe for recipe, where in rows if where == "[kept](study/outcomes.jsonl)"]
    assert kept and all(outcomes(recipe) for recipe in kept)
    svamp = "qwen-coder-0.5b-svamp"  # recomputed above
    assert dict(rows)[svamp] == "[kept](study/methods/svamp.jsonl)"
    kept.append(svamp)
    assert {where for recipe, where in rows if recipe not in kept} == {"not kept"}
