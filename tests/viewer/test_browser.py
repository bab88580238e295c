"""The page of `make view` in a real browser: clicked, dragged, read by keyboard, given hostile
texts."""

import json
import os
import re
import shutil
import urllib.parse
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from evaluation import explain, report
from stages import view
from tests.support import ROOT, write_lines
from tests.viewer import bandit, made
from tests.viewer.test_page import served
from training.step_rewards import normalise, spread
from viewer.page import standalone_page

pytestmark = pytest.mark.browser

CHROMIUM = (
    os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome") or ""
)
# A browser started for a test asks nobody for anything, and runs as whoever runs the tests.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-sync"]
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "no Chromium found: install it, or name it with CHROMIUM=path"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def tab(browser):
    """A new page; whatever goes wrong in it, or asks another machine, fails the test."""
    wrong = []
    page = browser.new_page(viewport=WIDE)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if is_error(message) else None)
    page.on(
        "request", lambda request: wrong.append(request.url) if elsewhere(request.url) else None
    )
    yield page
    page.close()
    assert wrong == []


def is_error(message) -> bool:
    """Not that a server is gone, which a test stops before its page."""
    return message.type == "error" and "ERR_CONNECTION_REFUSED" not in message.text


def elsewhere(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1:", "file://", "data:"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """(an honest run, a hostile one, the address of the page that shows both)."""
    folder = tmp_path_factory.mktemp("outputs")
    good, bad = made.run(folder / "good"), made.run(folder / "bad", hostile=True)
    with served(good, bad) as port:
        yield good, bad, f"http://127.0.0.1:{port}/"


def number(page, name: str) -> float:
    return float(page.locator(f"[data-{name}]").first.get_attribute(f"data-{name}"))


def shown_advantages(page) -> list[float]:
    return page.eval_on_selector_all(
        "[data-advantage]", "all => all.map(e => Number(e.dataset.value))"
    )


def by_numpy(totals: np.ndarray, divisor: float | None = None) -> np.ndarray:
    """Equation 3.1 of DeepSeekMath as trl has it."""
    return (totals - totals.mean()) / ((totals.std(ddof=1) if divisor is None else divisor) + 1e-4)


def totals_of(run: Path, step: int, group: int) -> np.ndarray:
    frame = pd.read_parquet(run / f"completions/completions_{step:05d}.parquet").iloc[
        8 * group : 8 * group + 8
    ]
    return (frame["correct_answer"] + 0.25 * frame["format_tags"]).to_numpy(copy=True)


def test_a_completions_steps_are_shown_with_the_advantages_of_their_tokens(tab, tmp_path):
    run = made.run(tmp_path)
    pairs = made.with_steps(run, 0.5)[2][8:16]
    with served(run) as port:
        tab.goto(f"http://127.0.0.1:{port}/#groups/0/2/1")
        tab.wait_for_selector("[data-step]")
        told = tab.eval_on_selector_all(
            "[data-step]", "all => all.map(e => [e.dataset.step, Number(e.dataset.value)])"
        )
    ends = [[end for end, _ in each] for each in pairs]
    of_steps = spread(
        normalise([[reward for _, reward in each] for each in pairs], 8, "group"), ends, 20
    )
    tokens = by_numpy(totals_of(run, 2, 1))[:, None] + 0.5 * of_steps.numpy()
    expected = {
        f"{8 + i}/{k}": tokens[i, end - 1] for i in range(8) for k, end in enumerate(ends[i])
    }
    assert dict(told) == pytest.approx(expected, abs=1e-4)


def test_a_reward_that_is_dragged_moves_every_advantage_of_its_group(tab, runs):
    tab.goto(runs[2] + "#groups/0/2/1")
    tab.wait_for_selector("[data-advantage]")
    assert tab.locator(".detail .where").inner_text() == "step 2, group 1"
    totals = totals_of(runs[0], 2, 1)
    assert np.allclose(shown_advantages(tab), by_numpy(totals), atol=1e-4)
    slider = tab.locator("input[aria-label='Reward of completion 11']")
    box = slider.bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    tab.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + box["height"] / 2)
    tab.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + box["height"] / 2)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + box["height"] / 2, steps=5)
    tab.mouse.up()
    totals[3] = float(slider.input_value())
    assert 0.6 < totals[3] < 1.1
    assert np.allclose(shown_advantages(tab), by_numpy(totals), atol=1e-4)
    assert number(tab, "mean") == pytest.approx(totals.mean(), abs=1e-6)
    assert number(tab, "std") == pytest.approx(totals.std(ddof=1), abs=1e-6)
    tab.get_by_role("button", name="As it was").click()
    assert np.allclose(shown_advantages(tab), by_numpy(totals_of(runs[0], 2, 1)), atol=1e-4)


@pytest.mark.parametrize("scale", ["batch", "none"])
def test_the_runs_own_scaling_is_used(tab, tmp_path, scale):
    run = made.run(tmp_path, scale_rewards=scale)
    everyone = np.concatenate([totals_of(run, 3, group) for group in range(3)])
    with served(run) as port:
        tab.goto(f"http://127.0.0.1:{port}/#groups/0/3/2")
        tab.wait_for_selector("[data-advantage]")
        divisor = everyone.std(ddof=1) if scale == "batch" else 1 - 1e-4
        assert np.allclose(
            shown_advantages(tab), by_numpy(totals_of(run, 3, 2), divisor), atol=1e-4
        )


def test_a_thinner_group_has_the_baseline_of_those_that_are_left(tab, runs):
    tab.goto(runs[2] + "#groups/0/1/0")
    tab.wait_for_selector("[data-advantage]")
    thinner = tab.locator("input[aria-label='Completions in the group']")
    thinner.focus()
    for _ in range(5):
        tab.keyboard.press("ArrowLeft")
    totals = totals_of(runs[0], 1, 0)
    assert tab.locator(".left-out").count() == 5
    assert np.allclose(shown_advantages(tab)[:3], by_numpy(totals[:3]), atol=1e-4)
    scatter = totals.std(ddof=1) / np.sqrt(3) * np.sqrt(5 / 8)
    assert f"± {scatter:.3f}".rstrip("0") in tab.locator("main").inner_text()
    tab.get_by_role("button", name="Draw others").click()
    kept = [
        i
        for i, each in enumerate(tab.locator("article").all())
        if "left-out" not in each.get_attribute("class")
    ]
    assert np.allclose(np.array(shown_advantages(tab))[kept], by_numpy(totals[kept]), atol=1e-4)


def test_groups_are_filtered_and_sorted(tab, runs):
    tab.goto(runs[2] + "#groups/0")
    tab.wait_for_selector(".entry")
    assert tab.locator(".entry").count() == 12
    tab.get_by_label("Step").select_option("3")
    assert tab.locator(".entry").count() == 3
    tab.get_by_label("Order").select_option("high")
    listed = [
        float(re.search(r"mean ([\d.]+)", each)[1])
        for each in tab.locator(".entry").all_inner_texts()
    ]
    assert listed == sorted(listed, reverse=True)
    tab.get_by_label("Show").select_option("truncated")
    assert all("truncated" in each for each in tab.locator(".entry").all_inner_texts())


def test_groups_are_gone_through_by_key_and_found_by_their_words(tab, tmp_path):
    run = made.run(tmp_path)
    file = run / "completions/completions_00003.parquet"
    frame = pd.read_parquet(file)
    for i in (8, 10, 11):  # of the second group: equal in all, and in what they earned
        frame.loc[i, ["correct_answer", "format_tags", "advantage", "truncated"]] = [
            1.0,
            1.0,
            0.5,
            False,
        ]
        frame.at[i, "completion"] = [{"role": "assistant", "content": "the same Ünterton"}]
    frame.to_parquet(file)
    at = tab.locator(".detail .where")
    page = tmp_path / "page.html"
    page.write_text(standalone_page([run]), encoding="utf-8")
    with served(run) as port:
        for address in (f"http://127.0.0.1:{port}/", page.as_uri()):
            tab.goto("about:blank")
            tab.goto(f"{address}#groups/0/3/0")
            tab.wait_for_selector("[data-advantage]")
            tab.keyboard.press("j")
            tab.locator("#said", has_text="Step 3, group 1").wait_for(state="attached")
            assert tab.locator(".entry[aria-current]").get_attribute("data-group") == "3/1"
            assert (
                tab.locator(".completion:visible").count() == 6
                and tab.locator(".times").inner_text() == "×3"
            )
            tab.locator(".times").click()
            assert tab.locator(".completion:visible").count() == 8
            tab.keyboard.press("k")
            tab.locator("#said", has_text="Step 3, group 0").wait_for(state="attached")
            tab.get_by_label("Search questions and completions").fill("THE SAME üntert")
            tab.locator("#said", has_text="Step 3, group 1").wait_for(
                state="attached"
            )  # opened, as the first found
            assert tab.locator(".entry").count() == 1
            tab.keyboard.press("j")  # is a letter of what is sought
            assert at.inner_text() == "step 3, group 1"
    tab.goto("about:blank")
    tab.goto(f"{page.as_uri()}#groups/0/4/2")
    tab.wait_for_selector(".entry[aria-current]")
    tab.wait_for_timeout(300)
    # what is open is in its list's view
    assert tab.locator(".list").evaluate("e => e.scrollTop") > 0
    tab.set_viewport_size(PHONE)
    parts = (".asked", ".said", ".completion input", ".line.thin input", ".list")  # the text first
    tops = [tab.locator(each).first.bounding_box()["y"] for each in parts]
    assert tops == sorted(tops)


def test_a_question_that_was_asked_again_leads_to_its_other_answers(tab, tmp_path):
    run = made.run(tmp_path)
    first, again = (run / f"completions/completions_0000{step}.parquet" for step in (3, 4))
    frame, asked = pd.read_parquet(again), pd.read_parquet(first)["prompt"][0]
    for i in range(16):  # of two groups, the second of which is asked something else
        frame.at[i, "prompt"] = asked if i < 8 else [{"role": "user", "content": "Another?"}]
    frame["correct_answer"] = [1.0] * 5 + [0.0] * (len(frame) - 5)
    frame.to_parquet(again)
    with served(run) as port:
        tab.goto(f"http://127.0.0.1:{port}/#groups/0/3/0")
        tab.locator(".over a", has_text="step 4: 5 of 8 right").click()
        tab.locator(".over b", has_text="step 4").wait_for()
        assert tab.locator(".detail .where").inner_text() == "step 4, group 0"
        tab.goto(f"http://127.0.0.1:{port}/#groups/0/4/1")
        tab.locator(".detail .asked", has_text="Another?").wait_for()
        assert tab.locator(".over").count() == 0


def test_why_no_group_can_be_shown_is_told(tab, tmp_path):
    run = made.run(tmp_path)
    recipe = (run / "recipe.yaml").read_text().replace("  format_tags: {weight: 0.25}\n", "")
    (run / "recipe.yaml").write_text(recipe, encoding="utf-8")
    with served(run) as port:
        tab.goto(f"http://127.0.0.1:{port}/#groups/0")
        tab.get_by_text("Not read: 4 of its files.").wait_for()
        said = tab.locator("main").inner_text()
    assert "it has the rewards correct_answer, format_tags, and the recipe 1" in said
    assert "no completions yet" not in said


def test_all_is_reached_by_keyboard(tab, runs):
    tab.goto(runs[2])
    tab.wait_for_selector(".chart canvas")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the content"
    tab.keyboard.press("Tab")
    tab.keyboard.press("ArrowRight")
    tab.wait_for_selector(".entry")
    assert tab.evaluate("document.activeElement.id") == "tab-groups"
    tab.locator(".entry").first.focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    tab.locator("#said", has_text="Step 1, group 1").wait_for(state="attached")
    assert tab.locator(".entry[aria-current]").count() == 1


def test_curves_say_in_words_what_they_draw(tab, runs):
    tab.goto(runs[2])
    tab.wait_for_selector(".chart canvas")
    words = tab.locator(".chart [role=img]").first.get_attribute("aria-label")
    assert re.match(r"Reward\. \S*good, reward: [\d.]+ at step 1, [\d.]+ at step 4, between", words)
    assert "/bad, reward" in words  # the second run, over the first
    tab.get_by_text("The curves as a table").click()
    assert (
        tab.locator("table:has(caption)").count() == 2
        and tab.locator("caption + thead + tbody tr").count() == 8
    )


def test_the_result_comes_first_in_the_reports_words_and_leads_to_what_was_won(tab, runs):
    tab.goto(runs[2])
    tab.wait_for_selector(".chart canvas")
    first = tab.locator(".tile").first.locator(".result")
    said = [first.locator(".verdict").inner_text(), *first.locator("li").all_inner_texts()]
    sentences = report.verdicts(
        report.compare(runs[0].parent / "eval/held-out", ["base", "sft", "grpo"]).answers
    )
    for (before, after), sentence in sentences.items():
        assert f"{before} → {after}: {sentence}".replace("(-", "(−") in said
    assert re.search(r"grpo\s+50% 15–85", first.locator(".models").inner_text())
    first.get_by_role("link", name="1 lost").click()
    tab.wait_for_selector(".pair")
    assert tab.locator(".entry").all_inner_texts() == ["lost\nQuestion 1"]
    tab.go_back()
    tab.locator(".tile").first.get_by_role("link", name="Question 0").click()
    tab.locator("h2", has_text="Question 0").wait_for()


def test_curves_have_their_spread_are_smoothed_and_lead_to_their_groups(tab, tmp_path):
    run, other = (
        made.run(tmp_path / "a", steps=12),
        made.run(tmp_path / "b", steps=12, loss_type="grpo"),
    )
    lines = [json.loads(each) for each in (other / "metrics.jsonl").read_text("utf-8").splitlines()]
    write_lines(other / "metrics.jsonl", [each for each in lines if each["step"] % 3 == 0])
    with served(run, other) as port:
        tab.goto(f"http://127.0.0.1:{port}/")
        tab.wait_for_selector(".chart canvas")
        rewards = np.array(
            [
                json.loads(each)["reward"]
                for each in (run / "metrics.jsonl").open()
                if "entropy" in each
            ]
        )
        stds = [
            json.loads(each).get("reward_std")
            for each in (run / "metrics.jsonl").open()
            if "entropy" in each
        ]
        # The other logged every third step, so both are smoothed over as many.
        weights = 0.6 ** (np.subtract.outer(np.arange(12), np.arange(12)) / 3)
        weights = np.tril(weights) / np.tril(weights).sum(1, keepdims=True)
        drawn = tab.evaluate("kept.plots[0].data")
        assert drawn[1] == pytest.approx(weights @ rewards, rel=1e-4)
        assert np.subtract(drawn[4], drawn[3]) == pytest.approx(
            2 * weights @ np.array(stds), rel=1e-4
        )
        tab.get_by_role("button", name="off").click()
        drawn = tab.evaluate("kept.plots[0].data")
        assert drawn[1] == pytest.approx(rewards, rel=1e-4)
        differing = tab.locator("[aria-label='What differs'] tbody tr").all_inner_texts()
        assert differing == ["grpo.loss_type\tdapo\tgrpo"]
        tab.get_by_text("Recipe, data, commit and hardware").click()
        assert "hardware" in tab.locator(".made").inner_text()
        x, y = tab.evaluate(
            "[kept.plots[0].valToPos(5, 'x'), kept.plots[0].valToPos(kept.plots[0].data[1][4],"
            " 'y')]"
        )
        tab.locator(".u-over").first.click(position={"x": x, "y": y})
        tab.wait_for_selector("[data-advantage]")
        assert tab.locator(".detail .where").inner_text() == "step 5, group 0"
        assert tab.locator(".entry").count() == 3 and tab.get_by_label("Step").input_value() == "5"


def test_a_warm_start_has_a_page(tab, tmp_path):
    made.run(tmp_path)
    with served(made.warm_start(tmp_path)) as port:
        tab.goto(f"http://127.0.0.1:{port}/")
        tab.wait_for_selector(".chart canvas")
        assert [each.inner_text() for each in tab.locator("[role=tab]").all()] == [
            "Overview",
            "What changed",
            "Lab",
        ]
        assert tab.locator("figcaption b").all_inner_texts() == ["Loss", "Right tokens", "Entropy"]
        said = tab.locator("main").inner_text()
        assert (
            "base → sft" in said
            and "2 → 1" in said
            and "grpo" not in said
            and "Not logged" not in said
        )
        tab.get_by_role("tab", name="What changed").click()
        tab.wait_for_selector(".pair")
        assert tab.get_by_label("After").input_value() == "sft"
        assert tab.get_by_role("button", name="lost 0").is_disabled()


def test_what_was_won_comes_first_with_both_answers(tab, runs):
    tab.goto(runs[2] + "#changed/0")
    tab.wait_for_selector(".pair")
    kinds = [each.split("\n")[0] for each in tab.locator(".entry").all_inner_texts()]
    assert kinds == ["won", "lost", "wrong twice", "right twice"]
    assert tab.locator(".pair .said").all_inner_texts() == ["sft says 0", "grpo says 0"]
    tab.get_by_role("button", name="lost 1").click()
    assert tab.locator(".entry").count() == 1


@pytest.mark.parametrize("how", ["served", "one file"])
def test_what_a_model_wrote_is_only_ever_text(tab, runs, tmp_path, how):
    file = tmp_path / "page.html"
    if how == "one file":
        file.write_text(standalone_page([runs[1]]), encoding="utf-8")
    page, number = (file.as_uri(), 0) if how == "one file" else (runs[2], 1)
    tab.goto(f"{page}#groups/{number}/1/0")
    tab.wait_for_selector("[data-advantage]")
    said = tab.locator(".completion .said").all_inner_texts()
    assert said[0] == made.HOSTILE[0] and said[1] == made.HOSTILE[1] and said[2] == made.HOSTILE[2]
    assert (
        "U+001B[2J" in said[3]
        and "U+202E" in said[3]
        and "\u202e" not in said[3]
        and "\x1b" not in said[3]
    )
    assert len(said[4]) == 20_000
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.goto(f"{page}#changed/{number}")
    tab.reload()
    tab.wait_for_selector(".pair")
    assert tab.locator(".pair .said").first.inner_text() == made.HOSTILE[2]
    assert (
        tab.evaluate("window.broken") is None
        and tab.locator("iframe, img, main script").count() == 0
    )


def test_one_file_opens_from_disk(tab, runs, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(standalone_page([runs[0]]), encoding="utf-8")
    tab.goto(file.as_uri())
    tab.wait_for_selector(".chart canvas")
    tab.get_by_role("tab", name="Groups").click()
    tab.wait_for_selector("[data-advantage]")
    assert len(shown_advantages(tab)) == 8


def test_a_long_completion_is_shown_whole_when_asked_for(tab, runs):
    tab.goto(runs[2] + "#groups/1/1/0")
    tab.get_by_role("button", name="Show all 1,000,000 characters").click()
    tab.get_by_role("button", name="Show all 1,000,000 characters").wait_for(state="detached")
    assert len(tab.locator(".completion .said").nth(4).text_content()) == 1_000_000


@pytest.mark.parametrize("view", ["overview", "groups/0/1/0", "changed/0"])
def test_it_fits_a_phone_and_can_be_read_in_both_schemes(tab, runs, view):
    tab.set_viewport_size(PHONE)
    tab.goto(f"{runs[2]}#{view}")
    tab.wait_for_selector(".chart canvas, .detail h2")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        assert tab.evaluate(POOR_CONTRAST) == []


# Texts with less than 4.5 : 1 against their background (WCAG 2.2, 1.4.3).
POOR_CONTRAST = """() => {
  const rgb = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const weights = [0.2126, 0.7152, 0.0722];
  const luminance = (c) => weights.reduce((sum, w, i) => sum + w * linear(c[i] / 255), 0);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const written = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  return [...document.querySelectorAll("main *, header *")]
    .filter((e) => written(e) && e.getClientRects().length && !e.closest(".left-out, :disabled"))
    .map((e) => {
      const text = luminance(rgb(getComputedStyle(e).color));
      const both = [text, luminance(behind(e))].sort((x, y) => y - x);
      return [(both[0] + 0.05) / (both[1] + 0.05), e.className, e.textContent.slice(0, 40)];
    })
    .filter(([contrast]) => contrast < 4.5);
}"""


def test_a_run_that_goes_on_is_followed(tab, tmp_path):
    run = made.run(tmp_path)
    (run / "summary.json").unlink()
    with served(run) as port:
        tab.goto(f"http://127.0.0.1:{port}/")
        tab.wait_for_selector(".chart canvas")
        tab.get_by_text("The curves as a table").click()
        tab.wait_for_selector("details[open]")
        chart = tab.locator(".chart").first.locator(".u-over").bounding_box()
        tab.mouse.move(chart["x"] + 0.4 * chart["width"], chart["y"] + 50)
        tab.mouse.down()
        tab.mouse.move(chart["x"] + 0.9 * chart["width"], chart["y"] + 50, steps=5)
        tab.mouse.up()
        before = tab.evaluate("kept.zoom")
        with (run / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write('{"step": 40, "reward": 1.0}\n')
        tab.locator(".tile", has_text="step 40").wait_for(timeout=15_000)
        tab.wait_for_selector(".chart canvas")
        # What its reader opened and zoomed into stays.
        assert tab.locator("details[open] table").count() == 1
        assert 1 < before["min"] < before["max"] < 4 and tab.evaluate("kept.zoom") == before
        shown = tab.evaluate("kept.plots.map((each) => [each.scales.x.min, each.scales.x.max])")
        # in every chart
        assert shown == [[before["min"], before["max"]]] * len(shown) and len(shown) > 5


def test_a_finger_zooms_and_scrolls(browser, runs):
    page = browser.new_page(viewport=PHONE, has_touch=True, is_mobile=True)
    page.goto(runs[2])
    page.wait_for_selector(".chart canvas")
    page.locator(".chart").first.scroll_into_view_if_needed()
    chart = page.locator(".chart .u-over").first.bounding_box()
    touch = page.context.new_cdp_session(page)

    def drag(x: float, y: float):
        at = [chart["x"] + 0.3 * chart["width"], chart["y"] + 60]
        touch.send(
            "Input.dispatchTouchEvent",
            {"type": "touchStart", "touchPoints": [dict(zip("xy", at, strict=True))]},
        )
        for i in range(1, 6):
            moved = {"x": at[0] + i * x / 5, "y": at[1] + i * y / 5}
            touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [moved]})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    drag(8, -50)
    page.wait_for_timeout(300)
    assert page.evaluate("scrollY") > 0
    assert page.evaluate("kept.zoom") is None
    chart = page.locator(".chart .u-over").first.bounding_box()
    drag(0.4 * chart["width"], 0)
    page.wait_for_timeout(300)
    zoom = page.evaluate("kept.zoom")
    assert 1 < zoom["min"] < zoom["max"] < 4
    targets = page.locator("button:visible, select:visible, summary:visible, main a:visible").all()
    assert [each.inner_text() for each in targets if each.bounding_box()["height"] < 24] == []
    page.close()


def test_a_run_that_has_only_begun_says_so(tab, tmp_path):
    run = made.run(tmp_path)
    (run / "metrics.jsonl").write_text("", encoding="utf-8")
    shutil.rmtree(run / "completions")
    with served(run) as port:
        tab.goto(f"http://127.0.0.1:{port}/")
        tab.get_by_text("No step is logged yet").wait_for()
        said = tab.locator("main").inner_text()
        assert (
            "Not logged" not in said
            and "nothing to look at" not in said
            and "as a table" not in said
        )
        tab.get_by_role("tab", name="Groups").click()
        tab.get_by_text("This run has written no completions yet.").wait_for()
        assert tab.locator("main select").count() == 0


def test_drawn_again_the_page_stays_where_its_reader_is(tab, tmp_path):
    run = made.run(tmp_path)
    (run / "summary.json").unlink()
    with served(run) as port:
        tab.set_viewport_size(PHONE)
        tab.goto(f"http://127.0.0.1:{port}/")
        tab.wait_for_selector(".chart canvas")
        tab.locator("summary").last.focus()
        tab.evaluate("scrollTo(0, 700)")
        tab.evaluate("document.querySelector('.tile').dataset.old = 1")
        with (run / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write('{"step": 40, "reward": 1.0}\n')
        tab.wait_for_selector(".tile:not([data-old])", timeout=15_000)
        tab.wait_for_selector(".chart canvas")
        assert tab.evaluate("[scrollY, document.activeElement.tagName]") == [700, "SUMMARY"]
        assert tab.evaluate("document.getElementById('main').style.minHeight") == ""


def test_why_a_run_ended_early_is_told(tab, tmp_path):
    run = made.run(tmp_path)
    (run / "summary.json").write_text(
        '{"steps": 3, "stopped": "stopped at step 3: <b>flat</b>"}', encoding="utf-8"
    )
    with served(run) as port:
        tab.goto(f"http://127.0.0.1:{port}/")
        tab.locator(".tile", has_text="stopped at step 3: <b>flat</b>").wait_for()


def test_a_held_out_accuracy_has_its_n_and_its_interval(tab, runs):
    tab.goto(runs[2])
    chart = tab.locator(".chart", has_text="Held-out accuracy")
    chart.locator("canvas").wait_for()
    assert "with the 95% interval (n = 4)" in chart.inner_text()
    assert chart.locator(".u-wrap").count() == 1


def test_choosing_another_model_keeps_the_focus(tab, runs):
    tab.goto(runs[2] + "#changed/0")
    tab.wait_for_selector(".pair")
    chooser = tab.get_by_label("Before")
    chooser.focus()
    chooser.select_option("base")
    tab.get_by_text("base says 0").wait_for()
    assert tab.evaluate("document.activeElement.closest('label').textContent").startswith("Before")


def test_the_lab_shows_the_numbers_that_numpy_has(tab):
    with served() as port:
        tab.goto(f"http://127.0.0.1:{port}/")
        tab.wait_for_selector(".numbers")
        assert [each.inner_text() for each in tab.locator("[role=tab]").all()] == ["Lab"]
        place = tab.locator("label", has_text="place of the one peak")
        assert place.locator("output").inner_text() == "5"
        place.locator("input").fill("7")
        assert place.locator("output").inner_text() == "7"
        assert tab.locator(".wide").evaluate_all(
            "all => all.every((e) => e.scrollWidth <= e.clientWidth)"
        )
        tab.get_by_label("Algorithm").select_option("rloo")
        tab.locator("label", has_text="Rewards").locator("select").first.select_option("two peaks")
        tab.get_by_label("β, the weight of the KL").first.fill("0.1")
        tab.get_by_role("button", name="Next step").click()
        settings = {"landscape": "two peaks", "beta": 0.1}
        expected = bandit.run("rloo", **settings)
        step, update = expected["steps"][1], expected["steps"][1]["updates"][0]
        tab.locator(".sums", has_text=f"{update['loss']:.4f}".replace("-", "−")).wait_for()
        rows = [
            row.split("\t")
            for row in tab.locator(".numbers:not(.seeds) tbody tr").all_inner_texts()
        ]
        assert [int(row[1]) for row in rows] == step["actions"]
        said = [[float(each.replace("−", "-").rstrip("%")) for each in row[2:]] for row in rows]
        for i, (reward, baseline, advantage, before, now, ratio, _, kl) in enumerate(said):
            assert reward == pytest.approx(step["rewards"][i], abs=6e-4)
            assert baseline == pytest.approx(step["baselines"][i], abs=6e-4)
            assert advantage == pytest.approx(step["advantages"][i], abs=6e-4)
            assert before == pytest.approx(100 * step["old_probabilities"][i], abs=0.06)
            assert now == pytest.approx(100 * update["new_probabilities"][i], abs=0.06)
            assert ratio == pytest.approx(update["ratios"][i], abs=6e-4)
            assert kl == pytest.approx(update["kl"][i], abs=6e-5)
        for name in bandit.ALGORITHMS:  # over 200 steps, side by side
            final = bandit.run(name, **settings)["expected_reward"][-1]
            assert re.search(rf"{final:.3f}".rstrip("0"), tab.locator(".keys").inner_text())


def test_on_a_phone_no_bar_of_the_lab_lies_over_a_number(tab):
    tab.set_viewport_size(PHONE)
    with served() as port:
        tab.goto(f"http://127.0.0.1:{port}/")
        tab.wait_for_selector(".actions td .meter")
        cells = ".actions td:has(.meter)"
        # A bar and its number take their cell's width, not that of the next.
        assert (
            tab.locator(cells).evaluate_all(
                "all => all.filter((e) => e.scrollWidth > e.clientWidth).length"
            )
            == 0
        )
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_token_is_worked_out_in_numbers(tab, tmp_path):
    run = made.run(tmp_path)
    with served(run) as port:
        tab.goto(f"http://127.0.0.1:{port}/#groups/0/2/1")
        tab.get_by_role("link", name="its tokens").nth(1).click()
        tab.get_by_text(f"make explain STEP=2 ROW=9 RUN={run}").wait_for()
        asked = []

        def work_out(route):
            asked.append(
                (route.request.method, urllib.parse.unquote(route.request.url).split("/api/")[1])
            )
            made.explained(run, 2, 9)
            route.fulfill(json={})

        tab.route("**/api/*explain%2F2*", work_out)
        tab.get_by_role("button", name="Work out its tokens").click()
        tab.wait_for_selector(".token")
        assert asked == [("POST", "0/explain/2/9")]
        (run / "explain/2-9.json").unlink()
        tab.reload()
        tab.get_by_text("make explain STEP=2").wait_for()
        made.explained(run, 2, 9)
        tab.wait_for_selector(".token", timeout=15_000)  # the page looks again by itself
        assert "It is not what training clipped" in tab.locator("main").inner_text()
        tab.locator(".token").nth(2).click()
        numbers = tab.locator(".sum").inner_text()
        assert "1.5 × −0.8 = −1.2" in numbers and "clip(1.5, 0.8, 1.2) × −0.8 = −0.96" in numbers
        assert "−(−1.2) + 0.04 × 0.3 = 1.212" in numbers
        assert tab.locator(".token").nth(1).inner_text() == made.HOSTILE[1].replace(" ", "·")


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    """The address of what `make lab HTML=grpo.html` writes."""
    file = tmp_path_factory.mktemp("lab") / "grpo.html"
    view.main([], file, "0", lab=True)
    return file.as_uri()


def bandits(random: np.random.Generator) -> list[tuple[str, str, dict]]:
    """An algorithm, a landscape and settings, each pair of the first two once."""
    found = []
    for i, (algorithm, landscape) in enumerate(
        (a, b) for a in bandit.ALGORITHMS for b in bandit.LANDSCAPES
    ):
        settings = {
            "num_generations": int(random.integers(2, 33)),
            "num_iterations": int(random.integers(1, 5)),
        }
        settings |= {
            "max_steps": 20,
            "learning_rate": random.uniform(0.1, 4),
            "temperature": random.uniform(0.3, 2),
        }
        settings |= {
            "epsilon": random.uniform(0.05, 0.6),
            "beta": random.uniform(0, 0.3),
            "peak": i % bandit.ACTIONS,
        }
        settings |= {
            "noise": random.uniform(0, 0.3),
            "logits": random.standard_normal(bandit.ACTIONS).tolist(),
        }
        settings |= {
            "scale_rewards": ("group", "none")[i % 2],
            "matched": i % 4 < 2,
            "seed": int(random.integers(2**32)),
        }
        found.append((algorithm, landscape, settings))
    return found


def test_the_pages_bandit_is_numpys(tab, playground):
    tab.goto(playground)
    asked = bandits(np.random.default_rng(0))
    given = [
        [algorithm, settings | {"landscape": landscape}] for algorithm, landscape, settings in asked
    ]
    found = tab.evaluate("all => all.map(([name, settings]) => train(name, settings))", given)
    for (algorithm, landscape, settings), trained in zip(asked, found, strict=True):
        expected = bandit.run(algorithm, landscape, **settings)
        steps, there = expected.pop("steps"), trained["steps"]
        assert trained["diverged"] is expected["diverged"] is None
        for name in expected.keys() - {"algorithm", "landscape", "settings", "diverged"}:
            assert trained[name] == pytest.approx(expected[name], rel=1e-9, abs=1e-9), (
                algorithm,
                name,
            )
        assert len(there) == len(steps) == 20
        for step, other in zip(steps, there, strict=True):
            pairs = [(step, other), *zip(step["updates"], other["updates"], strict=True)]
            for one, two in pairs:
                for name in one.keys() - {"updates"}:
                    assert two[name] == pytest.approx(one[name], rel=1e-8, abs=1e-8), (
                        algorithm,
                        name,
                    )


def test_the_pages_advantages_are_numpys(tab, playground):
    tab.goto(playground)
    random = np.random.default_rng(1)
    for kind, settings in {
        "grpo": {"scale_rewards": "group"},
        "rloo": {"scale_rewards": "none"},
    }.items():
        for size in (2, 3, 8, 16):
            rewards = random.random(size)
            made = tab.evaluate(
                "([all, s]) => advantages(all, [], s)",
                [rewards.tolist(), settings | {"loss_type": kind}],
            )
            assert made["advantages"] == pytest.approx(bandit.advantages(kind, rewards)[1])
    assert tab.evaluate("advantages([0.7], [], {}).advantages") == [0]
    for method in ("group", "none", "batch", "whole", "rloo"):
        asked = {
            "method": method,
            "size": 5,
            "questions": 4,
            "low": 0.2,
            "high": 0.9,
            "batches": 30,
            "seed": 7,
        }
        made = tab.evaluate("asked => advantagesOfBatches(asked)", asked)
        right = (
            bandit.uniform(7, 0, 600).reshape(30, 4, 5) < np.linspace(0.9, 0.2, 4)[None, :, None]
        )
        rewards = right.astype(float)
        above = rewards - rewards.mean(2, keepdims=True)
        batch = rewards.reshape(30, 1, 20)
        expected = {
            "group": above / (rewards.std(2, ddof=1, keepdims=True) + 1e-4),
            "none": above,
            "batch": above / (batch.std(2, ddof=1, keepdims=True) + 1e-4),
            "whole": (
                (rewards - batch.mean(2, keepdims=True))
                / (batch.std(2, ddof=1, keepdims=True) + 1e-4)
            ),
            "rloo": above * 5 / 4,
        }[method]
        assert made["values"] == pytest.approx(expected.ravel(), abs=1e-9)
        assert made["silent"] == (np.ptp(rewards, axis=2) == 0).sum() and made["groups"] == 120
    values, edges = 2 * random.standard_normal(500), np.linspace(-4.125, 4.125, 34)
    counts = tab.evaluate(
        "([values, edges]) => histogram(values, edges)", [values.tolist(), edges.tolist()]
    )
    assert counts == np.histogram(np.clip(values, -4.1, 4.1), edges)[0].tolist()


def test_the_pages_loss_is_that_of_make_explain(tab, playground):
    tab.goto(playground)
    random, stopped = np.random.default_rng(2), 0
    for loss_type in ("dapo", "grpo", "dr_grpo"):
        for sign in (1, -1):
            now, old, reference = random.uniform(0.05, 0.95, (3, 9))
            settings = {
                "loss_type": loss_type,
                "importance_sampling_level": "token",
                "epsilon": random.uniform(0.1, 0.5),
            }
            settings |= {"beta": 0.1, "use_bias_correction_kl": False, "max_completion_length": 40}
            asked = {
                "now": now.tolist(),
                "old": old.tolist(),
                "reference": reference.tolist(),
                "settings": settings,
            }
            asked |= {"advantage": sign * 0.7, "batch": {"completions": 4, "tokens": 50}}
            made = tab.evaluate("asked => explainedTokens(asked)", asked)
            logs = [torch.tensor(each).log() for each in (now, old, reference)]
            both = settings | {"epsilon_high": settings["epsilon"], "optimizer_steps": 1}
            expected = explain.terms(*logs, torch.full((9,), sign * 0.7, dtype=torch.float64), both)
            for name, values in expected._asdict().items():
                assert made[name] == pytest.approx(values.tolist(), abs=1e-12), name
            assert made["weight"] == pytest.approx(explain.weight(9, [9, 11, 20, 10], both))
            stopped += sum(made["stopped"])
    assert 0 < stopped < 54


SHOWN = "canvas, .sum, .sums, .numbers:not(.seeds), .actions, .memory, .one:not([hidden])"
LOOK = f"""part => [...document.querySelectorAll(`#part-${{part}} :is({SHOWN})`)].map(
  (e) => (e.tagName === "CANVAS" ? e.toDataURL() : e.textContent))"""
DIFFERS = f"""async ([part, before]) => {{
  for (let i = 0; i < 100; i++) {{
    const now = ({LOOK})(part);
    const changed = now.map((each, at) => each !== before[at]);
    if (now.length !== before.length || changed.some(Boolean)) return changed;
    await new Promise((next) => setTimeout(next, 50));
  }}
}}"""


def test_every_control_of_the_playground_moves_what_it_says(tab, playground):
    """Sliders by keyboard. Each chart is drawn anew by some control, and nothing is wider than a
    page or a phone."""
    tab.goto(playground)
    tab.wait_for_selector("#part-5 .memory")
    controls = tab.locator("input, select")
    assert (
        controls.evaluate_all("all => all.filter((e) => !e.labels.length && !e.ariaLabel).length")
        == 0
    )
    for part in range(6):
        drawn = set()

        def moved(control, move, part=part, drawn=drawn):
            before = tab.evaluate(LOOK, part)
            move()
            changed = tab.evaluate(DIFFERS, [part, before])
            assert changed, (
                part,
                control.evaluate("e => e.ariaLabel || e.parentElement.textContent"),
            )
            drawn.update(i for i, each in enumerate(changed) if each)

        tab.wait_for_timeout(200)
        everything = len(tab.evaluate(LOOK, part))
        for control in tab.locator(f"#part-{part} :is(input, select, button):visible").all():
            kind = control.evaluate("e => e.type")
            if kind == "range":
                was, lowest = control.evaluate("e => [e.value, e.value === e.min]")
                control.focus()
                moved(control, lambda key="End" if lowest else "Home": tab.keyboard.press(key))
                moved(control, lambda control=control, was=was: control.fill(was))
            elif kind == "select-one":
                was, other = control.evaluate("e => [e.value, e.selectedIndex ? 0 : 1]")
                moved(
                    control, lambda control=control, other=other: control.select_option(index=other)
                )
                moved(control, lambda control=control, was=was: control.select_option(was))
            elif control.inner_text() == "Back":
                moved(control, tab.get_by_role("button", name="Next step").click)
                moved(control, control.click)
            elif control.inner_text() != "Set the trap":
                moved(control, control.click)
        assert drawn >= set(range(everything)), part
    for size in (WIDE, PHONE):
        tab.set_viewport_size(size)
        # The page is laid out anew some frames after its window has another size.
        tab.wait_for_function("document.documentElement.scrollWidth <= innerWidth", timeout=20_000)


def test_the_playground_names_what_teaches_nothing_and_sets_its_trap(tab, playground):
    tab.goto(playground)
    group = tab.locator("#part-1")
    for button in ("All right", "All wrong"):
        group.get_by_role("button", name=button).click()
        assert "the group teaches nothing" in group.locator(".sums").inner_text()
    group.get_by_role("button", name="One right").click()
    assert group.locator("[data-gain]").first.inner_text() == f"{7 / 8 / (8**-0.5 + 1e-4):.3f}"
    group.get_by_label("G, completions in the group").fill("1")
    assert "it teaches nothing" in group.locator(".sums").inner_text()
    assert group.locator("[data-gain]:visible").all_inner_texts() == ["0.000"]
    # the trap is the same whatever was set before
    tab.get_by_label("β, the weight of the KL").first.fill("0.5")
    tab.get_by_label("scale_rewards").select_option("none")
    tab.get_by_role("button", name="Set the trap").click()
    assert tab.get_by_label("scale_rewards").input_value() == "group"
    tab.locator(".seeds [data-trapped='8']", has_text="8, at 3").first.wait_for(timeout=60_000)
    assert tab.get_by_label("Learning rates").input_value() == "false"
    written = json.loads((ROOT / "viewer/page/memory.json").read_text(encoding="utf-8"))
    for size, ways in written.items():
        tab.locator("#part-5 select").select_option(size)
        totals = tab.eval_on_selector_all(
            "[data-total]", "all => all.map(e => Number(e.dataset.total))"
        )
        assert totals == pytest.approx(
            [sum(each.values()) for way in ways.values() for each in way.values()]
        )
    tab.get_by_label("a learned reward model").uncheck()
    tab.get_by_label("KL to a reference").uncheck()
    full = written["70B"]["full"]["GRPO"]
    totals = tab.eval_on_selector_all(
        "[data-total]", "all => all.map(e => Number(e.dataset.total))"
    )
    assert totals[1] == pytest.approx(full["policy"] + full["gradients"] + full["optimizer"])
    assert totals[2] == pytest.approx(totals[1] + full["reference"])
