"""The page's overview in a real browser: curves, results, a run that goes on, a phone."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from evaluation import report
from tests import made_runs
from tests.support import read_lines, write_lines
from tests.viewer.browser import CURVES, FITS, GROUP, PAIR, PHONE, drag, main_text, texts, visit

pytestmark = pytest.mark.browser
POOR_CONTRAST = Path(__file__).with_name("poor_contrast.js").read_text(encoding="utf-8")


def test_curves_say_in_words_what_they_draw(tab, runs):
    visit(tab, runs[2], CURVES)
    words = tab.locator(".chart [role=img]").first.get_attribute("aria-label")
    assert re.match(r"Reward\. \S*good, reward: [\d.]+ at step 1, [\d.]+ at step 4, between", words)
    assert "/bad, reward" in words  # the second run, over the first
    chart = tab.locator(".chart", has_text="Validation accuracy")
    chart.locator("canvas").wait_for()
    assert "with the 95% interval (n = 4)" in chart.inner_text()
    assert chart.locator(".u-wrap").count() == 1
    tab.get_by_text("The curves as a table").click()
    assert tab.locator("table:has(caption)").count() == 2
    assert tab.locator("caption + thead + tbody tr").count() == 8


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
    tab.go_back()
    first.get_by_role("link", name="Question 0").click()
    tab.locator("h2", has_text="Question 0").wait_for()


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
    drawn = tab.evaluate("reading.plots[0].data")
    assert drawn[1] == pytest.approx(weights @ rewards, rel=1e-4)
    assert np.subtract(drawn[4], drawn[3]) == pytest.approx(2 * weights @ deviations, rel=1e-4)
    tab.get_by_role("button", name="off").click()
    drawn = tab.evaluate("reading.plots[0].data")
    assert drawn[1] == pytest.approx(rewards, rel=1e-4)
    differing = texts(tab, "[aria-label='What differs'] tbody tr")
    assert differing == ["grpo.loss_type\tdapo\tgrpo"]
    tab.get_by_text("Recipe, data, commit and hardware").click()
    assert "hardware" in tab.locator(".made").inner_text()
    plot = "reading.plots[0]"
    x, y = tab.evaluate(f"[{plot}.valToPos(5, 'x'), {plot}.valToPos({plot}.data[1][4], 'y')]")
    tab.locator(".u-over").first.click(position={"x": x, "y": y})
    tab.wait_for_selector(GROUP)
    assert texts(tab, ".detail .where") == ["step 5, group 0"]
    assert tab.locator(".entry").count() == 3 and tab.get_by_label("Step").input_value() == "5"


def test_a_warm_start_has_a_page(tab, show, tmp_path):
    made_runs.run(tmp_path)
    show("", CURVES, made_runs.warm_start(tmp_path))
    assert texts(tab, "[role=tab]") == ["Overview", "What changed"]
    assert texts(tab, "figcaption b") == ["Loss", "Correct tokens", "Entropy"]
    text = main_text(tab)
    assert "base → sft" in text and "2 → 1" in text
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
    tab.get_by_text("The curves as a table").click()
    tab.wait_for_selector("details[open] table")
    chart.scroll_into_view_if_needed()
    drag(tab, chart.locator(".u-over").bounding_box(), 0.4, 0.9, 50)
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
    page = browser.new_page(viewport=PHONE, has_touch=True, is_mobile=True)
    visit(page, runs[2], CURVES)
    page.locator(".chart").first.scroll_into_view_if_needed()
    touch = page.context.new_cdp_session(page)

    def swipe(correct: float, down: float):
        """By a share of a chart's width, and by pixels."""
        box = page.locator(".chart .u-over").first.bounding_box()
        x, y = box["x"] + 0.3 * box["width"], box["y"] + 60
        points = [
            {"x": x + correct * box["width"] * i / 5, "y": y + down * i / 5} for i in range(6)
        ]
        for i, point in enumerate(points):
            event = {"type": "touchMove" if i else "touchStart", "touchPoints": [point]}
            touch.send("Input.dispatchTouchEvent", event)
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        page.wait_for_timeout(300)

    swipe(0.02, -50)
    assert page.evaluate("scrollY") > 0
    assert page.evaluate("reading.zoom") is None
    swipe(0.4, 0)
    zoom = page.evaluate("reading.zoom")
    assert 1 < zoom["min"] < zoom["max"] < 4
    targets = page.locator("button:visible, select:visible, summary:visible, main a:visible").all()
    small = [target for target in targets if target.bounding_box()["height"] < 24]
    assert [target.inner_text() for target in small] == []
    page.close()


def test_a_run_that_has_only_begun_says_so(tab, show, tmp_path):
    run = made_runs.run(tmp_path)
    (run / "metrics.jsonl").write_text("", encoding="utf-8")
    (run / "summary.json").unlink()
    shutil.rmtree(run / "completions")
    show("", "text=No step was logged", run)
    text = main_text(tab)
    assert "A run that goes on writes its page again at each evaluation" in text
    assert "Not logged" not in text and "nothing to look at" not in text
    assert "as a table" not in text
    tab.get_by_role("tab", name="Groups").click()
    tab.get_by_text("This run has written no completions yet.").wait_for()
    assert tab.locator("main select").count() == 0


def test_why_a_run_ended_early_is_told(tab, show, tmp_path):
    run = made_runs.run(tmp_path)
    reason = "stopped at step 3: <b>flat</b>"
    made_runs.write_json(run / "summary.json", {"steps": 3, "stopped": reason})
    show("", ".tile", run)
    tab.locator(".tile", has_text=reason).wait_for()
