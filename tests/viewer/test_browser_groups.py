"""The page's groups and answers in a real browser: clicked, dragged, read by keyboard, given
hostile texts."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from tests import made_runs
from tests.tables import cases
from tests.viewer.browser import (
    CURVES,
    FITS,
    GROUP,
    PAIR,
    PHONE,
    announced,
    by_numpy,
    drag,
    main_text,
    numbers,
    texts,
    totals_of,
    visit,
)
from tests.waits import GUARD, until
from training.step_rewards import normalise, spread

pytestmark = pytest.mark.browser


def near(tab, expected: np.ndarray) -> bool:
    """Whether the page shows these advantages."""
    return np.allclose(numbers(tab, GROUP), expected, atol=1e-4)


def test_a_completions_steps_are_shown_with_the_advantages_of_their_tokens(tab, show, tmp_path):
    run = made_runs.run(tmp_path)
    pairs = made_runs.with_steps(run, 0.5)[2][8:16]
    show("groups/0/2/1", "[data-step]", run)
    ends = [[end for end, _ in steps] for steps in pairs]
    rewards = normalise([[reward for _, reward in steps] for steps in pairs], 8, "group")
    of_steps = spread(rewards, ends, 20).numpy()
    tokens = by_numpy(totals_of(run, 2, 1))[:, None] + 0.5 * of_steps
    expected = {f"{i}/{k}": tokens[i, end - 1] for i in range(8) for k, end in enumerate(ends[i])}
    places = tab.eval_on_selector_all("[data-step]", "all => all.map((e) => e.dataset.step)")
    values = numbers(tab, "[data-step]")
    assert dict(zip(places, values, strict=True)) == pytest.approx(expected, abs=1e-4)


def test_a_reward_that_is_dragged_moves_every_advantage_of_its_group(tab, runs):
    run, _, address = runs
    visit(tab, address + "groups/0/2/1", GROUP)
    assert texts(tab, ".detail .where") == ["step 2, group 1"]
    totals = totals_of(run, 2, 1)
    assert near(tab, by_numpy(totals))
    slider = tab.locator("input[aria-label='Reward of completion 4']")
    box = slider.bounding_box()
    slider.click(position={"x": 0.3 * box["width"], "y": box["height"] / 2})
    tab.get_by_role("button", name="As it was").wait_for()
    drag(slider, 0.3, 0.7, box["height"] / 2)
    until(lambda: 0.6 < float(slider.input_value()) < 1.1, GUARD)
    totals[3] = float(slider.input_value())
    assert near(tab, by_numpy(totals))
    assert numbers(tab, "[data-mean]", "mean")[0] == pytest.approx(totals.mean(), abs=1e-6)
    assert numbers(tab, "[data-std]", "std")[0] == pytest.approx(totals.std(ddof=1), abs=1e-6)
    tab.get_by_role("button", name="As it was").click()
    assert near(tab, by_numpy(totals_of(run, 2, 1)))


@pytest.mark.parametrize("scale", ["batch", "none"])
def test_the_runs_own_scaling_is_used(tab, show, tmp_path, scale):
    run = made_runs.run(tmp_path, scale_rewards=scale)
    batch = np.concatenate([totals_of(run, 3, group) for group in range(3)])
    show("groups/0/3/2", GROUP, run)
    divisor = batch.std(ddof=1) if scale == "batch" else 1 - 1e-4
    assert near(tab, by_numpy(totals_of(run, 3, 2), divisor))


def test_a_token_weighs_its_part_of_a_batch_that_two_steps_share(tab, show, tmp_path):
    split = {"per_device_train_batch_size": 12, "steps_per_generation": 2}
    show("groups/0/3/2", GROUP, made_runs.run(tmp_path, **split))
    tokens = sum(10 + i % 7 for i in range(24))
    assert f"each token weighs {200 / tokens:.3g}% of the batch's loss" in main_text(tab)


def test_groups_are_filtered_and_sorted(tab, runs):
    visit(tab, runs[2] + "groups/0", ".entry")
    assert tab.locator(".entry").count() == 12
    tab.get_by_label("Step").select_option("3")
    assert tab.locator(".entry").count() == 3
    tab.get_by_label("Order").select_option("high")
    means = [float(re.search(r"mean ([\d.]+)", text)[1]) for text in texts(tab, ".entry")]
    assert means == sorted(means, reverse=True)
    tab.get_by_label("Show").select_option("truncated")
    assert all("truncated" in text for text in texts(tab, ".entry"))


def test_groups_are_gone_through_by_key_and_found_by_their_words(tab, show, tmp_path):
    run = made_runs.run(tmp_path)

    def equal_three(frame: pd.DataFrame):
        """In the second group, in all that they are and earned."""
        for i in (8, 10, 11):
            columns = ["correct_answer", "format_tags", "advantage", "truncated"]
            frame.loc[i, columns] = [1.0, 1.0, 0.5, False]
            frame.at[i, "completion"] = [made_runs.chat("assistant", "the same Ünterton")]

    made_runs.change_table(run, 3, equal_three)
    visible = tab.locator(".completion:visible")
    address = show("groups/0/3/0", GROUP, run)
    tab.keyboard.press("j")
    announced(tab, "Step 3, group 1")
    assert tab.locator(".entry[aria-current]").get_attribute("data-group") == "3/1"
    assert visible.count() == 6 and texts(tab, ".times") == ["×3"]
    tab.locator(".times").click()
    assert visible.count() == 8
    tab.keyboard.press("k")
    announced(tab, "Step 3, group 0")
    tab.get_by_label("Search questions and completions").fill("THE SAME üntert")
    announced(tab, "Step 3, group 1")  # opened, as the first that matches
    assert tab.locator(".entry").count() == 1
    tab.keyboard.press("j")  # is a letter of what is sought
    assert texts(tab, ".detail .where") == ["step 3, group 1"]
    visit(tab, f"{address}groups/0/4/2", ".entry[aria-current]")
    # what is open is in its list's view
    tab.wait_for_function("document.querySelector('.list').scrollTop > 0")
    tab.set_viewport_size(PHONE)
    parts = (".asked", ".said", ".completion input", ".list")  # the text first
    tops = [tab.locator(part).first.bounding_box()["y"] for part in parts]
    assert tops == sorted(tops)


def test_a_question_that_comes_again_is_followed_over_the_steps(tab, show, tmp_path):
    """Held out, at each evaluation; and in training, where one came back."""
    run = made_runs.run(tmp_path)
    made_runs.same_questions(run, {2: 1, 4: 6})
    question = pd.read_parquet(run / made_runs.TABLE.format(3))["prompt"]
    made_runs.change_table(run, 4, lambda frame: frame.assign(prompt=question))
    address = show("groups/0/2/-1", ".over .often b", run)
    assert "step 2, validation question 1: sampled as in" in texts(tab, ".detail .where")[0]
    answers = ["×7 incorrect says False", "×6 correct says True"]
    for answer in answers:
        tab.locator(".over .often", has_text=answer).wait_for()
    assert texts(tab, ".over .often") == answers
    tab.locator(".over li", has_text="6 of 8 correct").get_by_role("link").click()
    tab.locator(".over b", has_text="step 4").wait_for()
    tab.get_by_label("Show").select_option("again")
    assert tab.locator(".entry").count() == 4
    tab.goto(f"{address}groups/0/3/1")
    tab.locator(".over a", has_text="step 4").click()
    tab.locator(".detail .where", has_text="step 4, group 1").wait_for()
    tab.goto(f"{address}groups/0/2/1")
    tab.locator(".detail .where", has_text="step 2, group 1").wait_for()
    assert tab.locator(".over").count() == 0


def test_why_no_group_can_be_shown_is_told(tab, show, tmp_path):
    run = made_runs.run(tmp_path)
    made_runs.replace_text(run / "recipe.yaml", "  format_tags: {weight: 0.25}\n", "")
    show("groups/0", "text=Not read: 4 of its files.", run)
    text = main_text(tab)
    assert "has the rewards correct_answer, format_tags, and the recipe 1" in text
    assert "no completions yet" not in text


def test_the_page_is_used_by_keyboard_alone(tab, runs):
    visit(tab, runs[2], ".chart canvas")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the content"
    tab.keyboard.press("Tab")
    tab.keyboard.press("ArrowRight")
    tab.wait_for_selector(".entry")
    assert tab.evaluate("document.activeElement.id") == "tab-groups"
    tab.locator(".entry").first.focus()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    announced(tab, "Step 1, group 1")
    assert tab.locator(".entry[aria-current]").count() == 1


def test_what_was_won_comes_first_and_choosing_another_model_keeps_the_focus(tab, runs):
    visit(tab, runs[2] + "changed/0", PAIR)
    kinds = [text.split("\n")[0] for text in texts(tab, ".entry")]
    assert kinds == ["won", "lost", "incorrect twice", "correct twice"]
    assert texts(tab, ".pair .said") == ["sft says 0", "grpo says 0"]
    tab.get_by_role("button", name="lost 1").click()
    assert tab.locator(".entry").count() == 1
    chooser = tab.get_by_label("Before")
    chooser.focus()
    chooser.select_option("base")
    tab.get_by_text("base says 0").wait_for()
    assert tab.get_by_label("After").locator("option").all_inner_texts() == ["sft", "grpo"]
    assert tab.evaluate("document.activeElement.closest('label').textContent").startswith("Before")


def test_the_filter_holds_on_every_tab(tab, show, tmp_path):
    run = made_runs.run(tmp_path)
    show("", CURVES, run)
    which = tab.get_by_label("Which completions")
    which.select_option("incorrect")
    tab.locator(".opening h2", has_text="Question 1").wait_for()  # lost
    tab.get_by_role("tab", name="What changed").click()
    tab.wait_for_selector(PAIR)
    kinds = [text.split("\n")[0] for text in texts(tab, ".entry")]
    assert kinds == ["lost", "incorrect twice"]
    tab.get_by_role("tab", name="Groups").click()
    tab.wait_for_selector(GROUP)
    for card in tab.locator(".completion").all():
        is_correct = "correct_answer 1" in card.inner_text()
        assert ("left-out" in card.get_attribute("class")) == is_correct
    which.select_option("")
    tab.get_by_label("Search questions and completions").fill("question 3")
    tab.get_by_text("No completion fits the filter.").wait_for()
    tab.get_by_role("tab", name="What changed").click()
    tab.locator(".asked", has_text="Question 3").wait_for()
    assert tab.locator(".entry").count() == 1


@cases(__file__, "drawn")
def test_mathematics_is_drawn_or_as_it_was_written(tab, show, tmp_path, text, drawn):
    """`drawn`: its text in the browser, without white space; null for what is shown as it is."""
    run = made_runs.run(tmp_path)
    answers = tmp_path / "eval/validation/grpo.jsonl"
    made_runs.replace_text(answers, "grpo says 0", json.dumps(text)[1:-1])
    show("changed/0", PAIR, run)
    after = tab.locator(".pair .completion").nth(1)
    if drawn is not None:
        assert "".join(after.locator(".drawn").inner_text().split()) == drawn
        after.get_by_role("button", name="as written").click()
    assert after.locator(".said:visible").inner_text() == text
    assert tab.locator("main script, main img").count() == 0


def test_what_a_model_wrote_is_only_ever_text(tab, runs):
    address = runs[2]
    visit(tab, f"{address}groups/1/1/0", GROUP)
    written = texts(tab, ".completion .said")
    assert written[:3] == made_runs.HOSTILE[:3]
    assert "U+001B[2J" in written[3] and "U+202E" in written[3]
    assert "\u202e" not in written[3] and "\x1b" not in written[3]
    assert len(written[4]) == 20_000
    tab.get_by_text("the first 20,000 of 1,000,000 characters").wait_for()
    assert tab.evaluate(FITS)
    visit(tab, f"{address}changed/1", PAIR)
    assert texts(tab, ".pair .said")[0] == made_runs.HOSTILE[2]
    assert tab.evaluate("window.broken") is None
    assert tab.locator("iframe, img, main script").count() == 0
