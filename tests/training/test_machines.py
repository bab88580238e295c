"""What the machines of one launch must have in common. tests/stages/test_two_machines.py has whole
launches."""

import accelerate.utils
import pytest

from console.faults import RecipeError
from schema.recipe import load_recipe
from tests.tables import cases
from training import machines
from training.run_folder import find_run

RECIPE = "recipes/tiny-arithmetic.yaml"


@pytest.fixture
def facts(tmp_path) -> dict[str, object]:
    recipe = load_recipe(RECIPE, [f"output_dir={tmp_path}"], check=())
    return machines.run_facts(find_run(recipe, "grpo"))


@pytest.fixture
def second(monkeypatch):
    """Has a second machine with these facts take part."""
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")
    monkeypatch.setenv("GROUP_RANK", "0")

    def take_part(facts: dict[str, object]):
        row = ("machine 1 (second)", facts)
        monkeypatch.setattr(accelerate.utils, "gather_object", lambda mine: [*mine, row])

    return take_part


@cases(__file__, "differences")
def test_machines_with_different_runs_are_refused(change, line, facts, second):
    second(facts | change)
    with pytest.raises(RecipeError, match=rf"machine 1 \(second\) and machine 0 .*:{line}"):
        machines.require_same(lambda: facts)


def test_machines_with_the_same_run_go_on(facts, second):
    second(dict(facts))
    machines.require_same(lambda: facts)


def test_one_machine_is_not_compared(monkeypatch):
    """Nor does it hash its code and problems for that."""
    monkeypatch.delenv("GROUP_WORLD_SIZE", raising=False)
    machines.require_same(lambda: pytest.fail("the facts were collected"))
