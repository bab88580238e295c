"""Let a learner look for what a recipe's rewards overpay, before a policy finds it: two minutes on
one core, on fifty of the recipe's own problems.

It writes what it found to `attack/test_attack.py` in the run's folder, a test to keep: it fails as
long as the rewards overpay one of the texts. Exit code 1 if there is any.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np

from console.faults import RecipeError
from console.terminal import make_command, say
from evaluation.attack import Attack, Scorer, attack
from evaluation.audit import ends, sampled, with_incorrect_answers, without_reward_models
from schema.recipe import Recipe
from stages.make import DEFAULT_RECIPE
from training.problem_sets import train_and_validation

PROBLEMS = 50
SHOWN = 8  # of the attacks
TEST = """\
\"\"\"Incorrect answers that earned more than honest ones, found by `make attack`. A test fails
as long as the rewards overpay its text:

    .venv/bin/python -m pytest {file}
\"\"\"

import json

import pytest

from evaluation.attack import overpays

RECIPE = {recipe!r}
OVERRIDES = {overrides!r}
CASES = [
{cases}
]


@pytest.mark.parametrize("case", list(map(json.loads, CASES)), ids=lambda case: "; ".join(case[0]))
def test_an_incorrect_answer_earns_no_more_than_an_honest_one(case):
    _, text, problem, row = case
    assert not overpays(RECIPE, OVERRIDES, text, problem, row)
"""


def main(recipe: Recipe, seconds: int = 120) -> list[Attack]:
    """Print the shortest texts that the recipe's rewards overpay, and write them as a test."""
    train, _ = train_and_validation(recipe)
    recipe = without_reward_models(recipe)
    rows, _ = sampled(recipe, train, PROBLEMS)
    if not rows or not recipe.rewards:
        raise RecipeError(
            [f"attack: no reward, or no gold to judge by: {make_command('audit', recipe)}"]
        )
    scorer = Scorer(recipe, with_incorrect_answers(rows, recipe.tolerance), rows)
    warnings.simplefilter("ignore")  # a reward's own, of texts that nobody writes
    attacks, rounds = attack(scorer, seconds)
    drafts = f"{len(rounds)} rounds on {len(rows)} problems"
    if not attacks:
        say(f"attack: nothing earns more than an honest incorrect answer, in {drafts}")
        say(f"next: {make_command('grpo', recipe)}")
        return attacks
    for overpaid in attacks[:SHOWN]:
        say(_described(overpaid, scorer))
    say(f"a test to keep: .venv/bin/python -m pytest {_write_test(attacks[:SHOWN], scorer)}")
    sys.exit(
        f"\nattack: {len(attacks)} kinds of incorrect answers earn more than an honest one, in"
        f" {drafts}"
    )


# An attack's text, its problem, and what the reward that pays it pays.
def _described(overpaid: Attack, scorer: Scorer) -> str:
    column = np.argmax((overpaid.paid - overpaid.honest) * scorer.weights)
    return (
        f'"{ends(overpaid.text)}"\n'
        f"  where the gold is {scorer.problems[overpaid.problem].gold[:40]!r}:"
        f" rewards.{list(scorer.recipe.weights)[column]} pays {overpaid.paid[column]:g}, an honest"
        f" incorrect answer {overpaid.honest[column]:g}; so on {overpaid.problems} of"
        f" {len(scorer.problems)} problems\n  ({'; '.join(overpaid.edits)})\n"
    )


# Writes a file of tests, one for each attack, and returns its path.
def _write_test(attacks: list[Attack], scorer: Scorer) -> Path:
    cases = []
    for overpaid in attacks:
        problem, row = scorer.problems[overpaid.problem], scorer.rows[overpaid.problem]
        case = json.dumps([overpaid.edits, overpaid.text, problem, row], default=str)
        cases.append(f"    {case!r},")
    name = scorer.recipe.asked_for.get("RECIPE", DEFAULT_RECIPE)
    file = Path(scorer.recipe.output_dir, "attack", "test_attack.py")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        TEST.format(
            recipe=name if "/" in name else f"recipes/{name}.yaml",
            overrides=scorer.recipe.asked_for.get("ARGS", []),
            file=file,
            cases="\n".join(cases),
        ),
        "utf-8",
    )
    return file
