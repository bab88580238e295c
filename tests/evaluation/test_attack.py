"""The learner finds what rewards with a hole overpay, and nothing in sound ones."""

import random

import numpy as np
import pytest

from evaluation.attack import DEEPEST, GROUP, NAMES, Policy, Scorer, attack
from evaluation.audit import Problem, score_completions, with_incorrect_answers
from evaluation.completions import judge_rows
from evaluation.edits import EDITS, text_of
from evaluation.golds import by_gradability
from schema.recipe import load_recipe
from tests.evaluation.blind_rewards import SOUND, WEAK
from tests.evaluation.weak_rewards import BY_THE_AUTHOR
from tests.support import ROOT
from training.problem_sets import train_and_validation

TRL = "trl.rewards.get_"


def weak(folder: str = "") -> dict[str, str]:
    """Sixty rewards with a hole, as a recipe names those of two files of a folder, by their
    names."""
    rewards = {name: f'{folder}weak_rewards.weak: {{name: "{name}"}}' for name in BY_THE_AUTHOR}
    return rewards | {name: f"{folder}blind_rewards.{name}: {{}}" for name in WEAK}


def sound(folder: str = "") -> dict[str, str]:
    """Sound rewards by their names: ten of that folder, ours, and trl's."""
    return {name: f"{folder}blind_rewards.{name}: {{}}" for name in SOUND} | {
        "correct_answer": "correct_answer: {}",
        "format_tags": "format_tags: {}",
        "language_consistency": "language_consistency: {}",
        "all three": "correct_answer: {}, format_tags: {weight: 0.25}, language_consistency: {}",
        "tag_count": "tag_count: {}",
        "brevity": "brevity: {longest: 256}",
        "trl's format": "trl.rewards.think_format_reward: {}",
        "trl's overlong": f"{TRL}soft_overlong_punishment:"
        " {max_completion_len: 99, soft_punish_cache: 9}",
        "trl's repetition": f"{TRL}repetition_penalty_reward: {{ngram_size: 3, max_penalty: -1.0}}",
    }


FEW = ["off by one", "steps are counted", "closeness is paid", "pays an exception"]
FEW += ["nan_tolerance", "question_numbers"]


def recipe_of(reward: str):
    return load_recipe("recipes/tiny-arithmetic.yaml", [f"rewards={{{reward}}}"])


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    """Fifty problems of the toy."""
    recipe = load_recipe("recipes/tiny-arithmetic.yaml")
    train, _ = train_and_validation(recipe)
    return by_gradability(random.Random(0).sample(train, 50), recipe)[0]


@pytest.fixture(autouse=True)
def files_of_rewards(own_file):
    for name in ("weak_rewards", "blind_rewards"):
        own_file(f"{name}.py", (ROOT / f"tests/evaluation/{name}.py").read_text("utf-8"))


def attacked(reward: str, rows: list[dict], **options):
    scorer = Scorer(recipe_of(reward), with_incorrect_answers(rows), rows)
    return attack(scorer, 120, **options)


def is_found_by_the_list(reward: str, rows: list[dict]) -> bool:
    table = score_completions(with_incorrect_answers(rows), rows, recipe_of(reward))
    return any(pay.kind == "hack" and pay.more for pay in table)


@pytest.mark.parametrize("name", FEW)
def test_a_reward_with_a_hole_is_found(name, rows):
    attacks, history = attacked(weak()[name], rows[:10], rounds=40, after=2)
    assert attacks and len(history) < 40
    shortest = attacks[0]
    assert shortest.paid[0] > shortest.honest[0] and len(shortest.edits) <= 1 + DEEPEST
    [verdict] = judge_rows([rows[shortest.problem]], [shortest.text])
    assert verdict.correct is False
    lengths = [len(attack.text) for attack in attacks]
    assert lengths == sorted(lengths)


@pytest.mark.parametrize("name", ["sound_boxed", "all three", "trl's format"])
def test_a_sound_reward_is_left_alone(name, rows):
    attacks, history = attacked(sound()[name], rows[:10], rounds=20)
    assert attacks == [] and len(history) == 20


@pytest.mark.slow
def test_of_sixty_holes_nine_in_ten_are_found_and_no_sound_reward_is_accused(rows):
    learned = {name for name, reward in weak().items() if attacked(reward, rows, after=0)[0]}
    listed = {name for name, reward in weak().items() if is_found_by_the_list(reward, rows[:20])}
    assert len(weak()) == 60
    assert len(learned) >= 54, sorted(weak().keys() - learned)
    assert len(learned) >= len(listed) + 12
    accused = {name for name, reward in sound().items() if attacked(reward, rows)[0]}
    assert accused == set()


def test_an_attack_repeats_itself(rows):
    first, second = (attacked(weak()["contains the gold"], rows[:5], rounds=4) for _ in range(2))
    texts = [[attack.text for attack in attacks] for attacks, _ in (first, second)]
    assert texts[0] and texts[0] == texts[1]
    assert np.array_equal(first[1][-1]["chances"], second[1][-1]["chances"])


def test_the_policy_learns_what_is_paid():
    policy = Policy()
    paid = NAMES.index("answer: nan")
    before = policy.chances()[1, paid]
    for _ in range(60):
        drafts = policy.sample(50 * GROUP)
        policy.learn(drafts, (drafts[:, 1] == paid).astype(float).reshape(-1, GROUP))
    chances = policy.chances()
    assert chances[1, paid] > 0.5 > 10 * before and np.allclose(chances.sum(axis=1), 1)
    still = Policy(rate=0)
    still.learn(still.sample(GROUP), np.arange(GROUP, dtype=float)[None])
    assert np.array_equal(still.chances(), Policy().chances())


def test_every_edit_changes_a_text():
    reasoning = "She Has 3 of them, and gets 4 more."
    problem = Problem("Ann has 3 pens and buys 4. How many?", "7", ["65", "8"], reasoning)
    plain = text_of((), problem)
    assert {name for name in EDITS if text_of((name,), problem) == plain} == {"shape: tags"}


def test_a_text_on_which_a_reward_raises_costs_the_others_nothing(rows, own_file):
    own_file(
        "own.py",
        "def fragile(completions, solution, **columns):\n"
        "    texts = [c[0]['content'].split('<answer>')[1].split('</')[0] for c in completions]\n"
        "    return [float(abs(int(t) - int(gold)) < 2) for t, gold in zip(texts, solution)]\n",
    )
    attacks, _ = attacked("own.fragile: {}", rows[:10], rounds=12)
    assert attacks and all(attack.paid[0] == 1 for attack in attacks)
