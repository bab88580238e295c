"""No hack beats an honest answer on any problem of GSM8K and MATH, with the rewards of any shipped
recipe: of every fifth test problem in CI, of all problems in `make test-slow`."""

import os
from pathlib import Path

import pytest

from data.problems import load
from evaluation import audit, golds
from schema.recipe import load_recipe
from tests.support import SHIPPED

REAL_DATA = os.environ.get("REAL_DATA", "")
TEST_SETS = [("gsm8k", "test"), ("math-500", "test")]
TRAINING_SETS = [("gsm8k", "train"), ("math", "train")]
# They are the same for every problem and take two thirds of an audit's time; test_audit.py scores
# them on a sample.
LONG = {"brackets without end", "100,000 characters", "100,000 digits"}


def _rewards_and_prompts() -> dict[str, str]:
    """One recipe for every combination of rewards and prompt that is trained on GSM8K or MATH."""
    paths = {}
    for path in SHIPPED:
        recipe = load_recipe(path)
        if "gsm8k" in recipe.data.train or "math" in recipe.data.train:
            paths.setdefault(repr((recipe.rewards, recipe.prompt)), path)
    return {Path(path).stem: path for path in paths.values()}


RECIPES = _rewards_and_prompts()


@pytest.mark.skipif(
    not REAL_DATA, reason="MATH_DATA_DIR names no folder with gsm8k-*.parquet and math-*.parquet"
)
@pytest.mark.parametrize(
    ("sets", "number_of_problems", "every"),
    [
        pytest.param(TEST_SETS, 1819, 5, marks=pytest.mark.train, id="test, every fifth"),
        pytest.param(TEST_SETS, 1819, 1, marks=pytest.mark.slow, id="test"),
        pytest.param(TRAINING_SETS, 14_900, 1, marks=pytest.mark.slow, id="train"),
    ],
)
@pytest.mark.parametrize("name", RECIPES)
def test_no_hack_beats_honesty_on_real_problems(name, sets, number_of_problems, every, monkeypatch):
    hacks = {name: respond for name, respond in audit.HACKS.items() if name not in LONG}
    monkeypatch.setattr(audit, "HACKS", hacks)
    recipe = load_recipe(RECIPES[name])
    rows = []
    for data_set, split in sets:
        rows += load(data_set, split, {}, REAL_DATA)[0]
    assert len(rows) >= number_of_problems
    rows = rows[::every]
    gradable, ungraded = golds.by_gradability(rows, recipe)
    assert [row["problem"] for row, _ in ungraded] == []
    table = audit.score_completions(audit.with_incorrect_answers(gradable), gradable, recipe)
    assert {pay.name: pay.beats for pay in table if pay.beats} == {}
