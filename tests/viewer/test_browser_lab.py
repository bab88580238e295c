"""The lab in a real browser: its numbers are numpy's (bandit.py) and `make explain`'s, and every
control moves what it says."""

import json

import numpy as np
import pytest
import torch

from evaluation import explain
from stages import view
from tests.support import ROOT
from tests.viewer import bandit
from tests.viewer.browser import FITS, PHONE, WIDE, numbers, texts
from tests.waits import until

pytestmark = pytest.mark.browser


def test_the_lab_shows_the_numbers_that_numpy_has(tab, show):
    show("", ".numbers")
    assert texts(tab, "[role=tab]") == ["Lab"]
    place = tab.locator("label", has_text="place of the one peak")
    assert place.locator("output").inner_text() == "5"
    place.locator("input").fill("7")
    assert place.locator("output").inner_text() == "7"
    narrow = "all => all.every((e) => e.scrollWidth <= e.clientWidth)"
    assert tab.locator(".wide").evaluate_all(narrow)
    tab.get_by_label("Algorithm").select_option("rloo")
    tab.locator("label", has_text="Rewards").locator("select").first.select_option("two peaks")
    tab.get_by_label("β, the weight of the KL").first.fill("0.1")
    tab.get_by_role("button", name="Next step").click()
    settings = {"landscape": "two peaks", "beta": 0.1}
    step = bandit.run("rloo", **settings)["steps"][1]
    update = step["updates"][0]
    tab.locator(".sums", has_text=f"{update['loss']:.4f}".replace("-", "−")).wait_for()
    rows = [row.split("\t") for row in texts(tab, ".numbers:not(.seeds) tbody tr")]
    cells = np.char.rstrip(np.char.replace(rows, "−", "-"), "%").T
    percent = 100 * np.array([step["old_probabilities"], update["new_probabilities"]])
    expected = {1: (step["actions"], 0), 2: (step["rewards"], 6e-4)}
    expected |= {3: (step["baselines"], 6e-4), 4: (step["advantages"], 6e-4)}
    expected |= {5: (percent[0], 0.06), 6: (percent[1], 0.06)}
    expected |= {7: (update["ratios"], 6e-4), 9: (update["kl"], 6e-5)}
    for place, (values, tolerance) in expected.items():
        assert cells[place].astype(float) == pytest.approx(values, abs=tolerance), place
    for name in bandit.ALGORITHMS:  # over 200 steps, side by side
        final = bandit.run(name, **settings)["expected_reward"][-1]
        assert f"{final:.3f}".rstrip("0") in tab.locator(".keys").inner_text()


def test_on_a_phone_no_bar_of_the_lab_lies_over_a_number(tab, show):
    tab.set_viewport_size(PHONE)
    show("", ".actions td .meter")
    # A bar and its number take their cell's width, not that of the next.
    wider = "all => all.filter((e) => e.scrollWidth > e.clientWidth).length"
    assert tab.locator(".actions td:has(.meter)").evaluate_all(wider) == 0
    assert tab.evaluate(FITS)


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    """The address of what `make lab HTML=grpo.html` writes."""
    file = tmp_path_factory.mktemp("lab") / "grpo.html"
    view.main([], file, "0", lab=True)
    return file.as_uri()


def bandits(random: np.random.Generator) -> list[tuple[str, str, dict]]:
    """An algorithm, a landscape and settings, each pair of the first two once."""
    pairs = [(name, landscape) for name in bandit.ALGORITHMS for landscape in bandit.LANDSCAPES]
    problems = []
    for i, (algorithm, landscape) in enumerate(pairs):
        settings = {"num_generations": int(random.integers(2, 33)), "max_steps": 20}
        settings |= {"num_iterations": int(random.integers(1, 5))}
        settings |= {"learning_rate": random.uniform(0.1, 4), "temperature": random.uniform(0.3, 2)}
        settings |= {"epsilon": random.uniform(0.05, 0.6), "beta": random.uniform(0, 0.3)}
        settings |= {"peak": i % bandit.ACTIONS, "noise": random.uniform(0, 0.3)}
        settings |= {"logits": random.standard_normal(bandit.ACTIONS).tolist()}
        settings |= {"scale_rewards": ("group", "none")[i % 2], "matched": i % 4 < 2}
        problems.append((algorithm, landscape, settings | {"seed": int(random.integers(2**32))}))
    return problems


def test_a_run_of_the_page_ends_before_a_number_becomes_infinite(tab, playground):
    tab.goto(playground)
    settings = bandit.DEFAULTS | {"landscape": "linear", "learning_rate": 10, "beta": 1.0}
    settings |= {"temperature": 0.1, "num_iterations": 8}
    trained = tab.evaluate("settings => train('grpo', settings)", settings)
    expected = bandit.run("grpo", **settings)
    assert trained["diverged"] == expected["diverged"] == len(trained["steps"]) < 200


def test_the_pages_bandit_is_numpys(tab, playground):
    tab.goto(playground)
    problems = bandits(np.random.default_rng(0))
    questions = [[name, settings | {"landscape": where}] for name, where, settings in problems]
    runs = tab.evaluate("all => all.map(([name, settings]) => train(name, settings))", questions)
    for (algorithm, landscape, settings), trained in zip(problems, runs, strict=True):
        expected = bandit.run(algorithm, landscape, **settings)
        pairs = [(expected, trained, 1e-9)]
        assert trained["diverged"] is expected["diverged"] is None
        assert len(trained["steps"]) == 20
        for step, theirs in zip(expected["steps"], trained["steps"], strict=True):
            updates = zip(step["updates"], theirs["updates"], strict=True)
            pairs += [(step, theirs, 1e-8), *((*pair, 1e-8) for pair in updates)]
        not_numbers = {"algorithm", "landscape", "settings", "diverged", "steps", "updates"}
        for ours, theirs, near in pairs:
            for name in ours.keys() - not_numbers:
                close = pytest.approx(ours[name], rel=near, abs=near)
                assert theirs[name] == close, (algorithm, name)


def test_the_pages_advantages_of_batches_are_numpys(tab, playground):
    tab.goto(playground)
    draws = bandit.uniform(7, 0, 600).reshape(30, 4, 5)
    rewards = (draws < np.linspace(0.9, 0.2, 4)[None, :, None]).astype(float)
    batch = rewards.reshape(30, 1, 20)
    above, above_all = (rewards - all.mean(2, keepdims=True) for all in (rewards, batch))
    of_group, of_batch = (all.std(2, ddof=1, keepdims=True) + 1e-4 for all in (rewards, batch))
    expected = {"group": above / of_group, "none": above, "batch": above / of_batch}
    expected |= {"whole": above_all / of_batch, "rloo": above * 5 / 4}
    for method, values in expected.items():
        settings = {"method": method, "size": 5, "questions": 4, "low": 0.2, "high": 0.9}
        settings |= {"batches": 30, "seed": 7}
        answer = tab.evaluate("settings => advantagesOfBatches(settings)", settings)
        assert answer["values"] == pytest.approx(values.ravel(), abs=1e-9)
        assert answer["silent"] == (np.ptp(rewards, axis=2) == 0).sum()
        assert answer["groups"] == 120


def test_the_pages_histogram_is_numpys(tab, playground):
    tab.goto(playground)
    values = 2 * np.random.default_rng(1).standard_normal(500)
    edges = np.linspace(-4.125, 4.125, 34)
    script = "([values, edges]) => histogram(values, edges)"
    counts = tab.evaluate(script, [values.tolist(), edges.tolist()])
    assert counts == np.histogram(np.clip(values, -4.1, 4.1), edges)[0].tolist()


def test_the_pages_loss_is_that_of_make_explain(tab, playground):
    tab.goto(playground)
    random, stopped = np.random.default_rng(2), 0
    kinds = [(loss_type, sign) for loss_type in ("dapo", "grpo", "dr_grpo") for sign in (1, -1)]
    for loss_type, sign in kinds:
        now, old, reference = random.uniform(0.05, 0.95, (3, 9))
        settings = {"loss_type": loss_type, "importance_sampling_level": "token", "beta": 0.1}
        settings |= {"epsilon": random.uniform(0.1, 0.5), "use_bias_correction_kl": False}
        settings |= {"max_completion_length": 40}
        question = {"now": now.tolist(), "old": old.tolist(), "reference": reference.tolist()}
        question |= {"settings": settings, "advantage": sign * 0.7}
        question |= {"batch": {"completions": 4, "tokens": 50}}
        answer = tab.evaluate("question => explainedTokens(question)", question)
        logs = [torch.tensor(chances).log() for chances in (now, old, reference)]
        settings |= {"epsilon_high": settings["epsilon"], "optimizer_steps": 1}
        gains = torch.full((9,), sign * 0.7, dtype=torch.float64)
        for name, values in explain.terms(*logs, gains, settings)._asdict().items():
            assert answer[name] == pytest.approx(values.tolist(), abs=1e-12), name
        assert answer["weight"] == pytest.approx(explain.weight(9, [9, 11, 20, 10], settings))
        stopped += sum(answer["stopped"])
    assert 0 < stopped < 54


DRAWN = "canvas, .sum, .sums, .numbers:not(.seeds), .actions, .memory, .one:not([hidden])"
LOOK = f"""part => [...document.querySelectorAll(`#part-${{part}} :is({DRAWN})`)].map(
  (e) => (e.tagName === "CANVAS" ? e.toDataURL() : e.textContent))"""
DIFFERS = f"""async ([part, before]) => {{
  for (let i = 0; i < 100; i++) {{
    const now = ({LOOK})(part);
    const changed = now.map((drawn, at) => drawn !== before[at]);
    if (now.length !== before.length || changed.some(Boolean)) return changed;
    await new Promise((next) => setTimeout(next, 50));
  }}
}}"""


def ways_to_move(tab, control) -> list:
    """What moves a control, and then moves it back. Sliders by keyboard."""
    kind, value = control.evaluate("e => [e.type, e.value]")
    if kind == "range":
        control.focus()
        key = "End" if control.evaluate("e => e.value === e.min") else "Home"
        return [lambda: tab.keyboard.press(key), lambda: control.fill(value)]
    if kind == "select-one":
        another = control.evaluate("e => e.selectedIndex ? 0 : 1")
        back = lambda: control.select_option(value)  # noqa: E731
        return [lambda: control.select_option(index=another), back]
    if control.inner_text() == "Back":
        return [tab.get_by_role("button", name="Next step").click, control.click]
    return [] if control.inner_text() == "Set the trap" else [control.click]


def test_every_control_of_the_playground_moves_what_it_says(tab, playground):
    """Each chart is drawn anew by some control, and nothing is wider than a page or a phone."""
    tab.goto(playground)
    tab.wait_for_selector("#part-5 .memory")
    nameless = "all => all.filter((e) => !e.labels.length && !e.ariaLabel).length"
    assert tab.locator("input, select").evaluate_all(nameless) == 0
    name_of = "e => e.ariaLabel || e.parentElement.textContent"
    for part in range(6):
        moved = set()
        tab.wait_for_timeout(200)
        everything = len(tab.evaluate(LOOK, part))
        for control in tab.locator(f"#part-{part} :is(input, select, button):visible").all():
            for move in ways_to_move(tab, control):
                before = tab.evaluate(LOOK, part)
                move()
                changed = tab.evaluate(DIFFERS, [part, before])
                assert changed, (part, control.evaluate(name_of))
                moved.update(np.flatnonzero(changed))
        assert moved >= set(range(everything)), part
    for size in (WIDE, PHONE):
        tab.set_viewport_size(size)
        # The page is laid out anew some frames after its window has another size.
        until(lambda: tab.evaluate(FITS), 20)


def test_the_playground_names_what_teaches_nothing(tab, playground):
    tab.goto(playground)
    group = tab.locator("#part-1")
    sums = group.locator(".sums")
    for button in ("All right", "All wrong"):
        group.get_by_role("button", name=button).click()
        assert "the group teaches nothing" in sums.inner_text()
    group.get_by_role("button", name="One right").click()
    assert group.locator("[data-gain]").first.inner_text() == f"{7 / 8 / (8**-0.5 + 1e-4):.3f}"
    group.get_by_label("G, completions in the group").fill("1")
    assert "it teaches nothing" in sums.inner_text()
    assert group.locator("[data-gain]:visible").all_inner_texts() == ["0.000"]


def test_the_playground_sets_its_trap_whatever_was_set_before(tab, playground):
    tab.goto(playground)
    tab.get_by_label("β, the weight of the KL").first.fill("0.5")
    tab.get_by_label("scale_rewards").select_option("none")
    tab.get_by_role("button", name="Set the trap").click()
    assert tab.get_by_label("scale_rewards").input_value() == "group"
    tab.locator(".seeds [data-trapped='8']", has_text="8, at 3").first.wait_for(timeout=60_000)
    assert tab.get_by_label("Learning rates").input_value() == "false"


def test_the_playground_adds_up_the_memory_of_each_method(tab, playground):
    tab.goto(playground)
    table = json.loads((ROOT / "viewer/page/memory.json").read_text(encoding="utf-8"))
    for size, ways in table.items():
        tab.locator("#part-5 select").select_option(size)
        sums = [sum(parts.values()) for way in ways.values() for parts in way.values()]
        assert numbers(tab, "[data-total]", "total") == pytest.approx(sums)
    tab.get_by_label("a learned reward model").uncheck()
    tab.get_by_label("KL to a reference").uncheck()
    full = table["70B"]["full"]["GRPO"]
    totals = numbers(tab, "[data-total]", "total")
    assert totals[1] == pytest.approx(full["policy"] + full["gradients"] + full["optimizer"])
    assert totals[2] == pytest.approx(totals[1] + full["reference"])
