from data.made import arithmetic
from rewards import sum_steps
from schema.recipe import load_recipe
from tests.support import ROOT
from tests.tables import cases

SUM = "What is 47 + 85?"


@cases(__file__, "a_step_is_paid_at_its_place")
def test_a_step_is_paid_at_its_place(before, step, reward):
    assert sum_steps([step], [SUM], [before]) == [reward]


def test_another_problem_has_no_steps():
    assert sum_steps(["<think>2+2=4"] * 2, ["What is 2 * 2?", "What is 5 + 10?"]) == [None, None]


def test_the_recipe_asks_about_each_step():
    recipe = load_recipe(ROOT / "recipes/tiny-process.yaml")
    assert recipe.rewards["sum_steps"] == {"weight": 0.5, "steps": ", "}


def test_it_pays_the_worked_solutions_of_the_data():
    for row in arithmetic("train", digits=3, rows=50):
        steps = row["reasoning"].split(", ")
        assert sum_steps(steps, [row["problem"]] * 3, [steps[:i] for i in range(3)]) == [1.0] * 3
