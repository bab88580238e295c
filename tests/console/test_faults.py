"""Faults are values: what is printed is made of them, and nothing is read back out of what is
printed."""

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from console.faults import Fault, Place, RecipeError, said_by_library
from schema.names import missing_columns
from schema.recipe import load_recipe
from tests.schema.test_recipe import GOOD
from tests.tables import cases


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (
            Fault(Place("recipes/x.yaml", 12), "grpo.beta: too high"),
            "recipes/x.yaml:12: grpo.beta: too high",
        ),
        (Fault(Place("override a.b=c"), "unknown key a.b"), "override a.b=c: unknown key a.b"),
        (Fault("model a/b", "is not there"), "model a/b: is not there"),
        (Fault("", "no GPU"), "no GPU"),
    ],
)
def test_a_fault_is_printed_after_its_place(fault, line):
    assert str(fault) == str(RecipeError([fault])) == line


def test_a_plain_text_is_a_fault_without_a_place():
    error = RecipeError(["no GPU", Fault(Place("x.yaml", 3), "no")])
    assert error.faults == [Fault("", "no GPU"), Fault(Place("x.yaml", 3), "no")]
    assert str(error) == "no GPU\nx.yaml:3: no"


def test_colons_in_a_path_or_an_override_are_no_places(tmp_path):
    folder = tmp_path / "a: b:99"
    folder.mkdir()
    path = folder / "mine.yaml"
    path.write_text(GOOD.replace("max_steps: 2", "max_stepz: 2") + "  beta: high\n")
    with pytest.raises(RecipeError) as error:
        load_recipe(path, ["grpo.vllm_mode=x:80"])
    assert [fault.place for fault in error.value.faults] == [
        Place("override grpo.vllm_mode=x:80"),
        Place(str(path), 7),
        Place(str(path), 9),
    ]


@cases(__file__, "missing_columns")
def test_what_the_data_lacks_of_a_reward_is_a_fault_on_its_line(
    arguments, reward, columns, message, tmp_path, own_file
):
    own_file("pays_so.py", f"def pay(completions, {arguments}): ...\n")
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.replace("correct_answer: {weight: 1.0}", reward))
    faults = missing_columns(load_recipe(path), columns)
    assert [fault.place for fault in faults] == [Place(str(path), 5)] * (message is not None)
    assert all(message in fault.message for fault in faults)


def test_what_a_library_refuses_is_a_fault_and_what_it_trips_over_is_a_bug():
    """An AttributeError inside a library is most often a None that our own code gave it."""
    with (
        pytest.raises(RecipeError, match="packaging says: Invalid version: 'one'"),
        said_by_library("grpo"),
    ):
        Version("one")
    with pytest.raises(AttributeError), said_by_library("grpo"):
        canonicalize_name(None)
