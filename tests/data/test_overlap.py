"""Training problems that a benchmark asks too are found, and not trained on."""

import json

import pytest

from data.overlap import overlaps
from schema.faults import RecipeError
from schema.problem_sets import load_train, train_and_held_out
from schema.recipe import load_recipe

LONG = "Ann has three red apples and Bob has four green pears that he bought at the market on Monday."


def rows(*problems):
    return [{"problem": problem} for problem in problems]


@pytest.mark.parametrize(
    ("train", "benchmark", "found"),
    [
        ("What is $2^3$?", "what is 2^{3}", True),  # the same words
        ("What is 2 + 3?", "What is 23?", False),
        ("What is 2 + 3?", "What is 2 + 3 + 4?", False),  # short: only as a whole
        (f"In {LONG} How many?", f"{LONG} What colour?", True),  # over 13 words in common
        (LONG, LONG.replace("four", "five"), False),  # at most 11 in a row
        ("What is 12 − 5?", "What is 12 + 5?", False),
        ("What is 12 − 5?", "what is $12-5$", True),
        (f"{LONG} $x_1$", f"So {LONG.upper()} $x_{{1}}$", True),
        ("Ｗhat is ２ + ３?", "What is 2 + 3?", True),
    ],
)
def test_what_overlaps(train, benchmark, found):
    assert bool(overlaps(rows(train), {"b": rows(benchmark)})) == found


def test_an_overlap_names_its_row_benchmark_and_words():
    (overlap,) = overlaps(rows("Another one?", f"So: {LONG}"), {"a": rows("x"), "b": rows(LONG)})
    assert (overlap.row, overlap.benchmark, overlap.problem) == (1, "b", LONG)
    assert overlap.shared == "ann has three red apples and bob has four green pears that he"


def recipe_of(tmp_path, train, benchmark):
    for name, problems in (("train", train), ("exam", benchmark)):
        lines = [json.dumps({"problem": problem, "answer": 7}) for problem in problems]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    overrides = [f"data.train=[{tmp_path}/train.jsonl]", f"evaluate.benchmarks=[{tmp_path}/exam.jsonl]"]
    return load_recipe("recipes/tiny-arithmetic.yaml", [*overrides, "data.validation=2"])


def test_training_drops_the_overlap_and_says_so(tmp_path, capsys):
    recipe = recipe_of(tmp_path, [f"What is {i} + 1?" for i in range(12)], [f"What is {i}+1" for i in range(6, 20)])
    rows, held_out = train_and_held_out(recipe)
    kept, _ = load_train(recipe)
    assert len(rows) == 10 and len(held_out) == 2
    assert {row["problem"] for row in kept} == {r["problem"] for r in rows if int(r["problem"].split()[2]) < 6}
    assert f"{10 - len(kept)} training problems dropped that overlap with the benchmarks" in capsys.readouterr().out


def test_a_benchmark_that_is_the_training_set_leaves_nothing(tmp_path):
    same = [f"What is {i} + 1?" for i in range(12)]
    with pytest.raises(RecipeError, match=r"data\.train: .* nothing is left to train on"):
        load_train(recipe_of(tmp_path, same, same))
