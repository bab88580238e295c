"""No cheat beats an honest answer on any problem of GSM8K's test set and MATH-500, with the rewards
of any recipe."""

import os
from pathlib import Path

import pytest

from data.problems import load
from evaluation import audit
from schema.recipe import load_recipe
from tests.support import SHIPPED

REAL_DATA = os.environ.get("REAL_DATA", "")
BENCHMARKS = ("gsm8k", "math-500")
# They are the same for every problem and take two thirds of an audit's time; test_audit.py scores
# them on a sample.
LONG = {"brackets without end", "100,000 characters", "100,000 digits"}


def _rewards_and_prompts() -> dict[str, str]:
    """One recipe for every combination of rewards and prompt that is trained on GSM8K or MATH."""
    paths = {}
    for path in SHIPPED:
        recipe = load_recipe(path, check=())
        if "gsm8k" in recipe.data.train or "math" in recipe.data.train:
            paths.setdefault(repr((recipe.rewards, recipe.prompt)), path)
    return {Path(path).stem: path for path in paths.values()}


RECIPES = _rewards_and_prompts()


@pytest.mark.train
@pytest.mark.skipif(
    not REAL_DATA, reason="REAL_DATA names no folder with gsm8k-test.parquet and math-500.parquet"
)
@pytest.mark.parametrize("name", RECIPES)
def test_no_cheat_beats_honesty_on_real_problems(name, monkeypatch):
    cheats = {cheat: respond for cheat, respond in audit.CHEATS.items() if cheat not in LONG}
    monkeypatch.setattr(audit, "CHEATS", cheats)
    recipe = load_recipe(RECIPES[name], check=())
    rows = [row for benchmark in BENCHMARKS for row in load(benchmark, "test", {}, REAL_DATA)[0]]
    assert len(rows) > 1800
    gradable, ungraded = audit.by_gradability(rows, recipe)
    assert ungraded == []
    table = audit.score_responses(
        audit.with_wrong_answers(gradable), gradable, recipe, audit.bound_rewards(recipe)
    )
    assert {pay.name: pay.beats for pay in table if pay.beats} == {}
