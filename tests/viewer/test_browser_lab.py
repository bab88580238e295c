"""The lab in a real browser: its numbers are numpy's (bandit.py), torch's and trl's, and every
control moves what it says."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from trl import GRPOTrainer

from evaluation import completions
from stages import view
from tests import made_runs
from tests.bench.sizes import table_of_page
from tests.support import ROOT
from tests.tables import cases, yaml_text
from tests.viewer import bandit
from tests.viewer.browser import FITS, PHONE, WIDE, by_numpy, numbers, texts
from tests.viewer.test_lab import stub_of_trainer
from tests.waits import until
from training import step_rewards

pytestmark = pytest.mark.browser
POOR_CONTRAST = Path(__file__).with_name("poor_contrast.js").read_text(encoding="utf-8")
STATED = Path(__file__).with_name("stated_numbers.js").read_text(encoding="utf-8")
DRAWN = Path(__file__).with_name("drawn.js").read_text(encoding="utf-8")
CUT = Path(__file__).with_name("cut.js").read_text(encoding="utf-8")
EXPLAIN = "document.querySelectorAll('.truth').forEach((e) => (e.hidden = false))"
OPEN = "document.querySelectorAll('details').forEach((e) => (e.open = true))"


def test_the_lab_shows_the_numbers_that_numpy_has(tab, playground):
    tab.goto(playground)
    tab.evaluate(OPEN)
    place = tab.locator("label", has_text="place of the one peak")
    assert place.locator("output").inner_text() == "5"
    place.locator("input").fill("7")
    assert place.locator("output").inner_text() == "7"
    part = tab.locator("#part-bandit")
    part.get_by_role("combobox", name="Algorithm", exact=True).select_option("rloo")
    part.get_by_role("combobox", name="Rewards", exact=True).select_option("two peaks")
    part.get_by_label("β, the weight of the KL").fill("0.1")
    settings = {"landscape": "two peaks", "beta": 0.1, "offset": 2}
    part.get_by_role("slider", name="Step").fill("2")
    run = bandit.run("rloo", **settings)
    expected = np.array(run["steps"][2]["updates"][0]["probabilities"])
    shown = texts(tab, "#part-bandit .column .number")
    assert [float(text.rstrip("%")) for text in shown] == pytest.approx(100 * expected, abs=0.6)
    part.locator(".sums", has_text=f"reward {run['expected_reward'][2]:.3f}").wait_for()
    for name in bandit.ALGORITHMS:  # over 200 steps, side by side
        final = bandit.run(name, **settings)["expected_reward"][-1]
        assert f" {final:.3f}" in part.get_by_role("group", name="Algorithms drawn").inner_text()


def test_the_files_of_docs_are_the_lab_too(tab):
    """As a browser opens them, without `make lab`."""
    tab.goto((ROOT / "docs/lab/index.html").as_uri())
    assert len(texts(tab, "#parts li")) == tab.locator("section.play").count() == 13
    tab.locator("#part-drift .sums", has_text="Step 0").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_lab_can_be_read_in_both_schemes(tab, playground, scheme):
    tab.emulate_media(color_scheme=scheme)
    tab.goto(playground)
    tab.locator(".outcome", has_text="REINFORCE").wait_for(state="attached", timeout=120_000)
    tab.evaluate(OPEN)
    tab.evaluate(EXPLAIN)
    assert tab.evaluate(POOR_CONTRAST) == []


SCREENS = 12
WITHIN = """all => all.map((e) => [e.closest('section').id, e.getBoundingClientRect().height])"""


def test_on_a_phone_picture_and_control_are_on_one_screen(tab, playground):
    """And the page is short, also after all guesses."""
    tab.emulate_media(reduced_motion="reduce")
    tab.set_viewport_size(PHONE)
    tab.goto(playground)
    tab.wait_for_timeout(200)
    heights = dict(tab.locator(".bench").evaluate_all(WITHIN))
    assert len(heights) == 12 and max(heights.values()) < PHONE["height"], heights
    player = tab.locator("#part-group .player").bounding_box()
    assert player["y"] + 100 < PHONE["height"]  # what moves first is on the first screen
    for form in tab.locator(".guess").all():
        form.locator("button").first.click()
    tab.locator(".tally", has_text="0 skipped, of 12").wait_for()
    assert tab.evaluate("document.documentElement.scrollHeight") <= SCREENS * PHONE["height"]
    tab.evaluate(OPEN)
    assert tab.evaluate(FITS)


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    """The address of what `make lab HTML=grpo.html` writes."""
    file = tmp_path_factory.mktemp("lab") / "grpo.html"
    view.main([], file, lab=True)
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
        settings |= {"offset": random.uniform(0, 0.3)}
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
    names = {"actions", "rewards", "advantages", "loss", "gradient", "logits_after"}
    names |= {"action_rewards", "expected_reward", "kl", "entropy", "largest"}
    names |= {"learning_rate", "beta"}
    for (algorithm, landscape, settings), trained in zip(problems, runs, strict=True):
        expected = bandit.run(algorithm, landscape, **settings)
        pairs = [(expected, trained, 1e-9)]
        assert trained["diverged"] is expected["diverged"] is None
        assert len(trained["steps"]) == 20
        assert trained["chances"][-1] == pytest.approx(expected["probabilities"], abs=1e-9)
        for step, theirs in zip(expected["steps"], trained["steps"], strict=True):
            updates = zip(step["updates"], theirs["updates"], strict=True)
            pairs += [(step, theirs, 1e-8), *((*pair, 1e-8) for pair in updates)]
        compared = set()
        for ours, theirs, near in pairs:
            for name in names & theirs.keys():
                close = pytest.approx(ours[name], rel=near, abs=near)
                assert theirs[name] == close, (algorithm, name)
                compared.add(name)
        assert compared == names


def test_the_pages_advantages_of_batches_and_their_histogram_are_numpys(tab, playground):
    tab.goto(playground)
    draws = bandit.uniform(7, 0, 600).reshape(30, 4, 5)
    rewards = (draws < np.linspace(0.9, 0.2, 4)[None, :, None]).astype(float)
    batch = rewards.reshape(30, 1, 20)
    above, above_all = (rewards - all.mean(2, keepdims=True) for all in (rewards, batch))
    of_group, of_batch = (all.std(2, ddof=1, keepdims=True) + 1e-4 for all in (rewards, batch))
    expected = {"group": above / of_group, "none": above, "batch": above / of_batch}
    expected |= {"whole": above_all / of_batch, "rloo": above * 5 / 4}
    for method, values in expected.items():
        settings = {"size": 5, "questions": 4, "low": 0.2, "high": 0.9, "batches": 30, "seed": 7}
        drawn = tab.evaluate("settings => batchesDrawn(settings)", settings)
        assert np.array_equal(drawn, rewards)
        answer = tab.evaluate("all => advantagesOfBatches(...all)", [drawn, method])
        assert answer["values"] == pytest.approx(values.ravel(), abs=1e-9)
        assert answer["silent"] == (np.ptp(rewards, axis=2) == 0).sum()
        assert answer["groups"] == 120
    edges = np.linspace(-4.125, 4.125, 34)
    values = 2 * np.random.default_rng(1).standard_normal(500)
    counts = tab.evaluate("all => histogram(...all)", [values.tolist(), edges.tolist()])
    assert counts == np.histogram(np.clip(values, -4.1, 4.1), edges)[0].tolist()


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "dr_grpo"])
def test_the_pages_loss_of_a_batch_is_trls(tab, playground, loss_type):
    """Of completions of several lengths: the sum of the losses of all tokens, each by its
    weight."""
    tab.goto(playground)
    of_completion = """({now, old, reference, advantage, settings, batch}) => {
      const weight = weightOfToken(now.length, batch, settings);
      return now.map((_, i) => {
        const logs = [now, old, reference].map((chances) => Math.log(chances[i]));
        const token = terms(...logs, advantage, [0.7, 1.3], settings.beta);
        return [token.loss * weight, token.stopped];
      });
    }"""
    lengths = [9, 11, 20, 10]
    chances = np.random.default_rng(2).uniform(0.05, 0.95, (3, 4, 20))
    advantages = [0.7, -0.7, 1.3, -0.4]
    settings = {"loss_type": loss_type, "beta": 0.1, "max_completion_length": 40}
    question = {"settings": settings, "batch": {"completions": 4, "tokens": sum(lengths)}}
    total = 0.0
    stopped = 0
    for i, length in enumerate(lengths):
        now, old, reference = chances[:, i, :length].tolist()
        question |= {"now": now, "old": old, "reference": reference, "advantage": advantages[i]}
        for loss, is_stopped in tab.evaluate(of_completion, question):
            total += loss
            stopped += is_stopped
    assert 0 < stopped < sum(lengths)  # the comparison had both kinds

    now, old, reference = torch.tensor(chances).log()
    trainer = stub_of_trainer(loss_type, 0.3, 0.1, longest=40)
    trainer._get_per_token_logps_and_entropies = lambda *_, **named: (now, torch.ones(4, 20), None)
    mask = torch.arange(20) < torch.tensor(lengths)[:, None]
    ids = torch.zeros(4, 20, dtype=torch.long)
    inputs = {"prompt_ids": ids[:, :1], "prompt_mask": ids[:, :1], "completion_ids": ids}
    inputs |= {"completion_mask": mask.long(), "num_items_in_batch": mask.sum()}
    inputs |= {"old_per_token_logps": old, "ref_per_token_logps": reference}
    inputs["advantages"] = torch.tensor(advantages, dtype=torch.float64)
    loss = GRPOTrainer._compute_loss(trainer, None, inputs)
    assert total == pytest.approx(loss.item(), rel=1e-6)


def test_the_pages_groups_drawn_and_those_that_teach_are_numpys(tab, playground):
    tab.goto(playground)
    chances = np.array([0.5, 0.3, 0.15, 0.05])
    groups = tab.evaluate("all => groupsDrawn(...all)", [chances.tolist(), 6, 4000, 3])
    draws = bandit.uniform(3, 0, 24_000).reshape(-1, 6)
    assert groups == np.searchsorted(np.cumsum(chances)[:-1], draws, side="right").tolist()
    correct = np.sum(np.array(groups) == 1, axis=1)
    share = tab.evaluate("teaching(0.3, 6)")
    assert share == pytest.approx(1 - 0.3**6 - 0.7**6)
    assert np.mean((correct > 0) & (correct < 6)) == pytest.approx(share, abs=0.02)  # 4 std errors


@pytest.mark.parametrize(("advantage", "beta"), [(1.0, 0.0), (-0.7, 0.3), (0.4, 0.5)])
def test_the_pages_token_climbs_by_torchs_gradient(tab, playground, advantage, beta):
    tab.goto(playground)
    question = {"old": 0.3, "reference": 0.2, "advantage": advantage, "epsilon": 0.2}
    question |= {"beta": beta, "rate": 0.1, "steps": 25}
    logit = torch.logit(torch.tensor(0.3, dtype=torch.float64)).requires_grad_()
    old, reference = torch.tensor([0.3, 0.2], dtype=torch.float64).log()
    chances = [0.3]
    for _ in range(25):
        now = torch.nn.functional.logsigmoid(logit)
        ratio = (now - old).exp()
        objective = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        difference = reference - now
        loss = beta * (difference.exp() - difference - 1) - objective
        [slope] = torch.autograd.grad(loss, logit)
        logit = (logit - 0.1 * slope).detach().requires_grad_()
        chances.append(torch.sigmoid(logit).item())
    assert tab.evaluate("all => climbed(all)", question) == pytest.approx(chances, abs=1e-12)


def test_the_pages_kl_and_its_estimates_are_numpys(tab, playground):
    tab.goto(playground)
    now, reference = np.random.default_rng(4).dirichlet(np.ones(5), 2)
    made = tab.evaluate("all => divergence(...all)", [now.tolist(), reference.tolist(), 50, 6])
    k1 = np.log(now / reference)
    k3 = np.exp(-k1) + k1 - 1
    assert made["exact"] == pytest.approx(now @ k1) == pytest.approx(now @ k3)
    words = np.searchsorted(np.cumsum(now)[:-1], bandit.uniform(6, 0, 50), side="right")
    assert made["words"] == words.tolist()
    for name, values in (("k1", k1), ("k3", k3)):
        assert made[name] == pytest.approx(values)
        means = np.cumsum(values[words]) / np.arange(1, 51)
        assert made["means"][name] == pytest.approx(means)


def test_the_pages_credit_is_gaes_and_the_houses_of_steps(tab, playground):
    tab.goto(playground)
    random = np.random.default_rng(5)
    values, rewards = random.random((2, 7))
    deltas = rewards + np.append(values[1:], 0) - values
    gains = [0.9 ** np.arange(7 - i) @ deltas[i:] for i in range(7)]
    question = [values.tolist(), rewards.tolist(), 0.9]
    assert tab.evaluate("all => estimatedAdvantages(...all)", question) == pytest.approx(gains)
    group = [[1.0, 0.0, 1.0], [1.0, 1.0], [0.0, 0.0, 0.5]]
    shares = step_rewards.normalise(group, 3, "group")
    spread = step_rewards.spread(shares, [[1, 2, 3], [1, 2], [1, 2, 3]], 3)[0].tolist()
    assert tab.evaluate("group => sharesOfSteps(group)", group) == pytest.approx(spread, abs=1e-6)


def test_the_pages_strategies_learn_as_numpy_says(tab, playground):
    tab.goto(playground)
    pays, able = np.array([[1, 3], [1, 1]]), np.array([0.6, 0.1])
    question = {"pays": pays.tolist(), "able": able.tolist(), "start": 0.2, "size": 8}
    learned = tab.evaluate(
        "all => strategiesLearned(all)", question | {"rate": 0.5, "steps": 30, "seed": 2}
    )
    logits = np.log([1, 0.25])
    for step in range(31):
        now = bandit.log_policy(logits, 1.0)
        assert learned["chances"][step] == pytest.approx(np.exp(now), abs=1e-9)
        assert learned["correct"][step] == pytest.approx(np.exp(now) @ able)
        mean_pay = (1 - able) * pays[:, 0] + able * pays[:, 1]
        assert learned["paid"][step] == pytest.approx(np.exp(now) @ mean_pay)
        draws = bandit.uniform(2, 16 * step, 16).reshape(2, 8)
        actions = (draws[0] >= np.exp(now[0])).astype(int)
        rewards = pays[actions, (draws[1] < able[actions]).astype(int)].astype(float)
        _, gains = bandit.advantages("grpo", rewards)
        logits = bandit.update(logits, actions, gains, now, now, learning_rate=0.5)["logits_after"]


PRODUCT = {"problem": "What is 17 × 24?", "solution": "408"}


def test_what_the_page_judges_by_itself_the_verifier_judges_alike(tab, playground):
    tab.goto(playground)
    decided = 0
    for text in yaml_text(__file__, "plain answers"):
        verdict = tab.evaluate("text => plainVerdict(text, '408')", text)
        [judged] = completions.judged([PRODUCT], [f"<answer>{text}</answer>"], strict=True)
        assert verdict is None or verdict is judged["correct"], text
        decided += verdict is not None
    assert decided > 20
    assert tab.evaluate("plainVerdict('8 / 12', '2/3')") is True


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
    apart = {"Play", "Judge it", "No baseline", "Set the trap", "Lengths of the run"}
    return [] if kind == "text" or control.inner_text() in apart else [control.click]


def test_every_control_of_the_playground_moves_what_it_says(tab, playground):
    """Each picture is drawn anew by some control, and nothing is wider than a page or a phone."""
    tab.goto(playground)
    tab.evaluate(OPEN)
    nameless = "all => all.filter((e) => !e.labels.length && !e.ariaLabel).length"
    assert tab.locator("input, select").evaluate_all(nameless) == 0
    for part in tab.locator("section:has(.guess)").all():
        moved = set()
        everything = len(part.evaluate(DRAWN))
        controls = ":is(input, select, button):visible:not(.guess *, [aria-pressed=true])"
        for control in part.locator(controls).element_handles():
            if not control.evaluate("e => e.isConnected && !e.disabled"):
                continue  # drawn anew with what it belongs to
            for move in ways_to_move(tab, control):
                before = part.evaluate(DRAWN)
                move()
                changed = part.evaluate(DRAWN, before)
                assert changed, (part.get_attribute("id"), control.evaluate("e => e.outerHTML"))
                moved.update(np.flatnonzero(changed))
        assert moved >= set(range(everything)), part.get_attribute("id")
    for size in (WIDE, PHONE):
        tab.set_viewport_size(size)
        # The page is laid out anew some frames after its window has another size.
        until(lambda: tab.evaluate(FITS), 20)
        assert tab.evaluate(CUT) == []


def act(part, verb: str, name: str, value: str | None = None):
    """Do to a part of the lab what its first line says; returns what was used."""
    role = {"set": "slider", "choose": "combobox", "tick": "checkbox", "type": "textbox"}
    used = part.get_by_role(role.get(verb, "button"), name=name, exact=verb != "press").first
    if verb == "wait":
        part.locator(".sums", has_text=name).wait_for()
    elif verb in ("set", "type"):
        used.fill(value)
    elif verb == "choose":
        used.select_option(value)
    else:
        used.click()
    return used


@cases(__file__, "discoveries")
def test_each_discovery_is_made_as_the_page_says(tab, playground, part, do, see):
    """After the guess, which is skipped here."""
    tab.emulate_media(reduced_motion="reduce")
    tab.goto(playground)
    tab.evaluate(OPEN)
    section = tab.locator(f"#part-{part}")
    section.get_by_role("button", name="Skip").click()
    for action in do:
        act(section, *action)
    spoken = section.locator(":is(.sums, .verdict-of, .outcome, .memory)")
    spoken.filter(has_text=re.compile(see)).first.wait_for(timeout=90_000)


@cases(__file__, "guesses")
def test_a_guess_is_played_and_then_shown_beside_the_truth(tab, playground, part, guess, see, why):
    """Whatever was moved before; and each number of the explanation is read off the page."""
    tab.emulate_media(reduced_motion="reduce")  # what plays, ends at once
    tab.goto(playground)
    section = tab.locator(f"#part-{part}")
    for slider in section.locator("[name][type=range]:visible").all():
        slider.fill(slider.get_attribute("max"))
    form = section.locator(".guess")
    assert not section.locator(".truth, .tells").first.is_visible()
    if guess.replace(".", "").isdigit():
        form.get_by_role("slider", name="Your guess").fill(guess)
        guess = "See"
    form.get_by_role("button", name=guess, exact=True).click()
    section.locator(".verdict", has_text=see).wait_for()
    assert section.locator(".truth").is_visible()
    words = section.inner_text().replace("\n", " ")
    for text in why:
        assert text in words, text


def test_guesses_are_counted_and_skipped(tab, playground):
    tab.emulate_media(reduced_motion="reduce")
    tab.goto(playground)
    for form in tab.locator(".guess").all():
        form.get_by_role("button", name="Skip").click()
    tab.locator(".tally", has_text="0 near the truth, 0 not, 12 skipped, of 12").wait_for()
    tab.reload()
    tab.locator("#part-family .guess").get_by_role("button", name="PPO alone").press("Enter")
    tab.locator(".tally", has_text="1 near the truth, 0 not, 0 skipped, of 12").wait_for()


def test_what_plays_can_be_stopped_and_ends(tab, playground):
    tab.goto(playground)
    part = tab.locator("#part-group")
    part.get_by_role("button", name="it shrinks").click()
    part.get_by_role("button", name="Pause").wait_for()
    assert not part.locator(".truth").is_visible()
    part.locator(".verdict", has_text="So it is.").wait_for(timeout=30_000)
    part.locator(".sums", has_text="Step 240").wait_for()


def test_the_ten_questions_are_scored_and_lead_back(tab, playground):
    tab.goto(playground)
    questions = tab.evaluate("QUESTIONS")
    assert len(questions) == 10 and {question["answer"] for question in questions} == set(range(4))
    quiz = tab.locator("#part-questions")
    for beside, score in ((0, "Correct: 10 of 10"), (1, "Correct: 10, then 0 of 10")):
        for question in questions:
            assert len(set(question["choices"])) == 4
            assert tab.locator(f"#part-{question['part']} .guess").count() == 1
            choice = question["choices"][(question["answer"] + beside) % 4]
            quiz.locator("p", has_text=question["question"]).wait_for()
            quiz.get_by_role("button", name=choice, exact=True).click()
        quiz.locator(".verdict", has_text=score).wait_for()
        assert quiz.locator("li a").count() == 10 and quiz.locator("li a").first.is_hidden()
        quiz.get_by_text("The answers, for after the last part").click()
        assert quiz.locator("li a").first.is_visible()
        quiz.get_by_role("button", name="Once more").click()


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["desk", "phone"])
def test_the_numbers_of_the_texts_are_those_of_the_pages_functions(tab, playground, size):
    """What an explanation or an answer to the ten questions states, on a desk and on a phone."""
    tab.set_viewport_size(size)
    tab.goto(playground)
    tab.evaluate(OPEN)
    tab.evaluate(EXPLAIN)
    answers = tab.evaluate("QUESTIONS.map((of) => `${of.choices[of.answer]}. ${of.why}`).join()")
    for part, sentences in tab.evaluate(STATED).items():
        words = tab.locator(f"#part-{part}").inner_text() + answers
        for sentence in sentences:
            assert sentence and sentence in words, (part, sentence)


def test_the_teachers_sheet_is_one_page(tab, playground):
    tab.goto(playground)
    tab.emulate_media(media="print")
    assert tab.locator(".sheet tbody tr").count() == 12
    assert tab.locator("main").is_hidden() and tab.locator(".sheet").is_visible()
    assert len(re.findall(rb"/Type\s*/Page\b", tab.pdf(prefer_css_page_size=True))) == 1


def test_a_run_of_ones_own_stands_in_the_widgets(tab, tmp_path):
    """Its groups, rewards and lengths; what a model wrote is text."""
    run = made_runs.run(tmp_path / "mine", hostile=True)
    file = view.main([str(run)], tmp_path / "lab.html", lab=True)
    tab.goto(file.as_uri())
    part = tab.locator("#part-group")
    part.locator("[data-run]", has_text="mine").wait_for()
    steps = tab.evaluate("RUN.steps")
    group = steps[0]["groups"][0]["completions"]
    shown = part.locator(".answer .text").all_text_contents()
    assert shown == [completion["text"] for completion in group]
    rewards = np.array([completion["reward"] for completion in group])
    gains = [float(gain.replace("−", "-")) for gain in texts(tab, "#part-group .gain")]
    assert gains == pytest.approx(by_numpy(rewards), abs=6e-3)
    batches = tab.locator("#part-batches")
    batches.get_by_label("Rewards").select_option("run")
    count = sum(len(step["groups"]) for step in steps)
    batches.locator(".sums", has_text=f"of the {count} groups").wait_for()
    loss = tab.locator("#part-loss")
    loss.locator(".more summary").click()
    loss.get_by_role("button", name="Lengths of the run").click()
    lengths = [f"{completion['tokens']} tokens" for completion in group]
    assert texts(tab, "#part-loss .line > span:first-child") == lengths


def test_the_playground_adds_up_the_memory_of_each_method(tab, playground):
    tab.goto(playground)
    table = table_of_page()
    part = tab.locator("#part-memory")
    for size, ways in table.items():
        part.locator("select").select_option(size)
        sums = []
        for method in ("PPO", "GRPO", "DPO"):
            sums += [sum(way[method].values()) for way in ways.values()]
        assert numbers(tab, "[data-total]", "total") == pytest.approx(sums)
    part.get_by_label("a learned reward model").uncheck()
    part.get_by_label("a reference").uncheck()
    full = table["70B"]["full"]["GRPO"]
    totals = numbers(tab, "[data-total]", "total")
    assert totals[3] == pytest.approx(full["policy"] + full["gradients"] + full["optimizer"])
    assert totals[6] == pytest.approx(totals[3] + full["reference"])
