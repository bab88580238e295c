"""The page's overview in a real browser: curves, results, a run that goes on, a phone."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from data.identity import fingerprint
from evaluation import report
from runs.state import RunState
from tests import made_runs
from tests.support import read_lines, write_lines
from tests.viewer.browser import CURVES, FITS, GROUP, PAIR, PHONE, drag, main_text, texts, visit
from viewer import page

pytestmark = pytest.mark.browser
POOR_CONTRAST = Path(__file__).with_name("poor_contrast.js").read_text(encoding="utf-8")


def test_curves_say_in_words_what_they_draw(tab, runs):
    visit(tab, runs[2], CURVES)
    words = tab.locator(".chart [role=img]").nth(1).get_attribute("aria-label")
    assert re.match(r"Reward\. \S*good, reward: [\d.]+ at step 1, [\d.]+ at step 4, between", words)
    assert "/bad, reward" in words  # the second run, over the first
    chart = tab.locator(".chart", has_text="Validation accuracy")
    chart.locator("canvas").wait_for()
    assert "with the 95% interval (n = 4)" in chart.inner_text()
    assert chart.locator(".u-wrap").count() == 1


def test_the_result_comes_first_in_the_reports_words_and_leads_to_what_was_won(tab, runs):
    visit(tab, runs[2], CURVES)
    first = tab.locator(".tile").first
    result = first.locator(".result")
    written = [result.locator(".verdict").inner_text(), *result.locator("li").all_inner_texts()]
    compared = report.compare(runs[0].parent / "eval/validation", ["base", "sft", "grpo"])
    for (before, after), (_, sentence) in report.changes(compared).items():
        assert f"{before} → {after}: {sentence}".replace("(-", "(−") in written
    assert re.search(r"grpo\s+50% 15–85", result.locator(".models").inner_text())
    result.get_by_role("link", name="1 lost").click()
    tab.wait_for_selector(PAIR)
    assert texts(tab, ".entry") == ["lost\nQuestion 1"]


def test_a_page_begins_with_a_completion_that_changed(tab, show, tmp_path):
    run = made_runs.run(tmp_path, steps=30)
    show("", CURVES, run)
    opening = tab.locator(".opening")
    assert opening.locator("h2").all_inner_texts() == ["Question 0", "No sure change"]
    assert texts(tab, ".opening .said") == ["sft says 0", "grpo says 0"]
    assert texts(tab, ".opening mark") == ["sft", "grpo"]
    assert "0 more of 100 problems correct; luck alone does" in opening.inner_text()
    figures = dict(text.split("\n")[:2] for text in texts(tab, ".figure"))
    logged = [line for line in read_lines(run / "metrics.jsonl") if "reward" in line]
    last = np.mean([line["reward"] for line in logged[-3:]])
    assert figures["Length"] == "13 tokens" and figures["Reward"] == f"{last:.3f}".rstrip("0")
    assert texts(tab, ".parts + p") == ["90 s: sampling 66.7% update 33.3%"]
    assert texts(tab, ".parts + p .chip.c2") == [""]
    opening.get_by_role("link", name="all that changed").click()
    tab.locator(".entry[aria-current]", has_text="Question 0").wait_for()


def test_runs_are_listed_and_two_are_laid_over_one_another(tab, tmp_path):
    older, newer = tmp_path / "outputs/a", tmp_path / "outputs/b"
    runs = [made_runs.run(newer, learning_rate=1e-4), made_runs.run(older)]
    runs += [made_runs.run(tmp_path / "outputs/<b>c", hostile=True)]
    runs = list(map(RunState.read, runs))
    page.write_beside(runs[1])
    file = tmp_path / "outputs/runs.html"
    file.write_text(page.standalone_list(runs, file.parent), encoding="utf-8")
    visit(tab, file.as_uri(), CURVES)
    rows = texts(tab, ".runs tbody tr")
    facts = ["b", "finished", "+0.0 ± 81.6 points", "12 s", "grpo.learning_rate 0.0001"]
    assert rows[0].split("\t") == facts
    assert rows[2].startswith("<b>c\tfinished") and tab.locator(".runs a").count() == 1
    tab.locator(".opening h2", has_text="No sure change").wait_for()
    tab.get_by_label("Show a").check()
    tab.locator(".tiles").wait_for()
    assert texts(tab, ".tile > h2") == ["b", "a"]
    differing = texts(tab, "[aria-label='What differs'] tbody tr")
    assert [text.split("\t")[0] for text in differing] == ["grpo.learning_rate"]
    tab.wait_for_selector(CURVES)
    tab.get_by_role("button", name="what differs").click()
    assert texts(tab, ".runs tbody th") == ["b", "a", "<b>c"]
    tab.get_by_role("button", name="what differs").click()
    assert texts(tab, ".runs tbody th") == ["a", "<b>c", "b"]
    tab.get_by_role("link", name="a", exact=True).click()
    tab.get_by_role("tab", name="Groups").wait_for()


def test_what_the_report_warns_of_stands_on_the_page(tab, show, tmp_path):
    run = made_runs.run(tmp_path)
    compared = report.compare(tmp_path / "eval/validation", ["base"])
    asked = [fingerprint(samples[0]) for samples in compared["base"].problems.values()]
    made_runs.write_json(run / "data.json", {"train": " ".join(asked), "overlapping": ""})
    show("", CURVES, run)
    [warning] = texts(tab, "[aria-label=Warnings]")
    assert warning == "grpo was trained on 4 of these 4 problems."


def test_curves_have_their_spread_are_smoothed_and_lead_to_their_groups(tab, show, tmp_path):
    run = made_runs.run(tmp_path / "a", steps=12)
    other = made_runs.run(tmp_path / "b", steps=12, loss_type="grpo")
    # The other logged every third step, so both are smoothed over as many.
    third = [line for line in read_lines(other / "metrics.jsonl") if line["step"] % 3 == 0]
    write_lines(other / "metrics.jsonl", third)
    show("", CURVES, run, other)
    logged = [line for line in read_lines(run / "metrics.jsonl") if "entropy" in line]
    rewards = np.array([line["reward"] for line in logged])
    deviations = np.array([line["reward_std"] for line in logged])
    weights = np.tril(0.6 ** (np.subtract.outer(np.arange(12), np.arange(12)) / 3))
    weights /= weights.sum(1, keepdims=True)
    reward = "reading.plots[1]"
    drawn = tab.evaluate(f"{reward}.data")
    assert drawn[1] == pytest.approx(weights @ rewards, rel=1e-4)
    assert np.subtract(drawn[4], drawn[3]) == pytest.approx(2 * weights @ deviations, rel=1e-4)
    tab.get_by_role("button", name="off").click()
    drawn = tab.evaluate(f"{reward}.data")
    assert drawn[1] == pytest.approx(rewards, rel=1e-4)
    differing = texts(tab, "[aria-label='What differs'] tbody tr")
    assert differing == ["grpo.loss_type\tdapo\tgrpo"]
    tab.get_by_text("Recipe, data, commit and hardware").click()
    assert "hardware" in tab.locator(".made").inner_text()
    x, y = tab.evaluate(f"[{reward}.valToPos(5, 'x'), {reward}.valToPos({reward}.data[1][4], 'y')]")
    tab.locator(".u-over").nth(1).click(position={"x": x, "y": y})
    tab.wait_for_selector(GROUP)
    assert texts(tab, ".detail .where") == ["step 5, group 0"]
    assert tab.locator(".entry").count() == 3 and tab.get_by_label("Step").input_value() == "5"


def test_a_warm_start_has_a_page(tab, show, tmp_path):
    made_runs.run(tmp_path)
    show("", CURVES, made_runs.warm_start(tmp_path))
    assert texts(tab, "[role=tab]") == ["Overview", "What changed"]
    assert texts(tab, "figcaption b") == ["Loss", "Correct tokens", "Entropy"]
    text = main_text(tab)
    assert "base → sft" in text and texts(tab, ".figure")[0] == "Loss\n1\n−1"
    assert "grpo" not in text and "Not logged" not in text
    tab.get_by_role("tab", name="What changed").click()
    tab.wait_for_selector(PAIR)
    assert tab.get_by_label("After").input_value() == "sft"
    assert tab.get_by_role("button", name="lost 0").is_disabled()


@pytest.mark.parametrize("view", ["overview", "groups/0/1/0", "changed/0"])
def test_a_view_fits_a_phone_and_can_be_read_in_both_schemes(tab, runs, view):
    tab.set_viewport_size(PHONE)
    visit(tab, runs[2] + view, ".chart canvas, .detail h2")
    tab.evaluate("document.querySelectorAll('details').forEach((e) => (e.open = true))")
    assert tab.evaluate(FITS)
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        assert tab.evaluate(POOR_CONTRAST) == [], scheme


def test_drawn_again_the_page_stays_where_its_reader_is(tab, show, tmp_path):
    """In another scheme, with what its reader opened and zoomed into."""
    tab.set_viewport_size(PHONE)
    show("", CURVES, made_runs.run(tmp_path))
    chart = tab.locator(".chart").first
    tab.get_by_text("Recipe, data, commit and hardware").click()
    tab.wait_for_selector("details[open] table")
    drag(chart.locator(".u-over"), 0.4, 0.9, 50)
    tab.wait_for_function("reading.zoom")
    zoom = tab.evaluate("reading.zoom")
    tab.locator("summary").last.focus()
    tab.evaluate("scrollTo(0, 700)")
    tab.evaluate("document.querySelector('.tile').dataset.old = 1")
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_selector(".tile:not([data-old])")
    tab.wait_for_selector(CURVES)
    assert tab.evaluate("[scrollY, document.activeElement.tagName]") == [700, "SUMMARY"]
    assert tab.evaluate("document.getElementById('main').style.minHeight") == ""
    assert tab.locator("details[open] table").count() == 1
    assert 1 < zoom["min"] < zoom["max"] < 4 and tab.evaluate("reading.zoom") == zoom
    scales = tab.evaluate("reading.plots.map((plot) => [plot.scales.x.min, plot.scales.x.max])")
    # in every chart
    assert scales == [[zoom["min"], zoom["max"]]] * len(scales) and len(scales) > 5


def test_a_finger_zooms_and_scrolls(browser, runs):
    phone = browser.new_page(viewport=PHONE, has_touch=True, is_mobile=True)
    visit(phone, runs[2], CURVES)
    phone.locator(".chart").first.scroll_into_view_if_needed()
    touch = phone.context.new_cdp_session(phone)

    def swipe(right: float, down: float):
        """By a share of a chart's width, and by pixels."""
        box = phone.locator(".chart .u-over").first.bounding_box()
        x, y = box["x"] + 0.3 * box["width"], box["y"] + 60
        points = [{"x": x + right * box["width"] * i / 5, "y": y + down * i / 5} for i in range(6)]
        for i, point in enumerate(points):
            event = {"type": "touchMove" if i else "touchStart", "touchPoints": [point]}
            touch.send("Input.dispatchTouchEvent", event)
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    before = phone.evaluate("scrollY")
    swipe(0.02, -50)
    phone.wait_for_function("before => scrollY > before", arg=before)
    assert phone.evaluate("reading.zoom") is None
    phone.wait_for_timeout(300)  # until it scrolls no longer
    swipe(0.4, 0)
    phone.wait_for_function("reading.zoom")
    zoom = phone.evaluate("reading.zoom")
    assert 1 < zoom["min"] < zoom["max"] < 4
    targets = phone.locator("button:visible, select:visible, summary:visible, main a:visible").all()
    small = [target for target in targets if target.bounding_box()["height"] < 24]
    assert [target.inner_text() for target in small] == []
    phone.close()


def test_a_run_that_has_only_begun_says_so(tab, show, tmp_path):
    run = made_runs.run(tmp_path)
    (run / "metrics.jsonl").write_text("", encoding="utf-8")
    (run / "summary.json").unlink()
    shutil.rmtree(run / "completions")
    show("", "text=No step was logged", run)
    text = main_text(tab)
    assert "A run that goes on writes its page again at each evaluation" in text
    assert "Not logged" not in text and "No warnings" not in text
    tab.get_by_role("tab", name="Groups").click()
    tab.get_by_text("This run has written no completions yet.").wait_for()
    assert tab.locator("main select").count() == 0


def test_why_a_run_ended_early_is_told(tab, show, tmp_path):
    run = made_runs.run(tmp_path)
    reason = "stopped at step 3: <b>flat</b>"
    made_runs.write_json(run / "summary.json", {"steps": 3, "stopped": reason})
    show("", ".tile", run)
    tab.locator("[aria-label=Warnings]", has_text=reason).wait_for()
