import pytest

from data.made import arithmetic
from rewards import sum_steps
from schema.recipe import load_recipe
from tests.support import ROOT

SUM = "What is 47 + 85?"


@pytest.mark.parametrize(
    ("before", "step", "reward"),
    [
        ([], "<think>7+5=12", 1.0),
        (["<think>7+5=12"], "4+8+1=13</think>\n<answer>132</answer>", 1.0),
        (
            ["<think>7+5=12"],
            "4+8=12</think>\n<answer>122</answer>",
            0.0,
        ),  # true, but the carry is forgotten
        ([], "<think>7+5=13", 0.0),
        ([], "<think>4+8+1=13", 0.0),  # right in another place
        (["<think>7+5=12", "4+8+1=13"], "7+5=12", 0.0),  # one too many
        ([], "</think>\n<answer>132</answer>", 0.0),  # none at all
    ],
)
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
