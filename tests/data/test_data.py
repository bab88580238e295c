"""Loaders: gold answers as the data sets write them, bad rows dropped and counted, a fixed
validation split; and training problems that a benchmark asks too are found, and not trained on."""

import json
from pathlib import Path

import pandas as pd
import pytest

from console.faults import RecipeError
from data import prompt
from data.files import DataError
from data.identity import overlaps, split_validation
from data.problems import load
from rewards.verifier.gold import boxes, gold_answer, why_unearnable
from schema.recipe import load_recipe
from tests.support import far_below_quadratic, write_lines
from tests.tables import cases, lacking
from training.problem_sets import load_train, prompt_lengths, train_and_validation


@cases(__file__, "gold_answer")
def test_gold_answer(text, gold):
    assert gold_answer(text) == gold


def test_boxed_finds_every_box_in_order():
    expected = ["1", r"\sqrt{2}", "3"]
    spans = boxes(r"\boxed{1} and \boxed{\sqrt{2}} and \boxed 3, \boxeder{4}")
    assert [content for _, _, content in spans] == expected


def write_parquet(file: Path, **columns):
    pd.DataFrame(columns).to_parquet(file)


def golds(name: str, folder: Path | None = None, split: str = "test") -> list[str]:
    rows, _ = load(name, split, {}, folder and str(folder))
    return [row["solution"] for row in rows]


@cases(__file__, "rows_without_a_gold")
def test_a_row_without_a_gold_or_a_problem_is_dropped_and_counted(
    name, file, columns, golds, report, tmp_path
):
    write_parquet(tmp_path / f"{file}.parquet", **columns)
    problems, said = load(name, "test", {}, str(tmp_path))
    assert [row["solution"] for row in problems] == golds
    assert said.endswith(report)


@cases(__file__, "a_benchmark_is_read_with_the_hubs_columns")
def test_a_benchmark_is_read_with_the_hubs_columns_and_never_trained_on(
    file, columns, gold, tmp_path
):
    name = {"minerva-math": "minerva", "svamp-test": "svamp"}.get(file, file)
    write_parquet(tmp_path / f"{file}.parquet", **columns)
    [row], _ = load(name, "test", {}, str(tmp_path))
    assert row["solution"] == gold
    assert row["problem"] in ("Find it.", "Ann has 3. How many?", "Ann has 9. How many?")
    if name != "svamp":
        with pytest.raises(DataError, match="never trained on"):
            load(name, "train", {}, str(tmp_path))


@cases(
    __file__,
    "an_equation_of_svamp_is_its_reasoning_where_it_gives_the_answer",
    ("-" * 20_000 + "8", "8", None),
)
def test_an_equation_of_svamp_is_its_reasoning_where_it_gives_the_answer(
    equation, answer, reasoning, tmp_path
):
    columns = {"Body": ["Ann has 3"], "Question": ["How many?"], "Answer": [answer]}
    write_parquet(tmp_path / "svamp-train.parquet", **columns, Equation=[equation])
    (row,), _ = load("svamp", "train", {}, str(tmp_path))
    assert row["reasoning"] == reasoning


def test_white_space_between_boxes_takes_no_time():
    with far_below_quadratic():
        assert gold_answer(r"\boxed{1}" + " " * 100_000 + r"x \boxed{2}") == "2"


def test_level_and_subject_are_kept_in_one_spelling(tmp_path):
    columns = {"problem": ["a?", "b?"], "solution": [r"$\boxed{1}$"] * 2}
    types = {"level": ["Level 3", "Level ?"], "type": ["Algebra", "Geometry"]}
    write_parquet(tmp_path / "math-test.parquet", **columns, **types)
    write_parquet(tmp_path / "math-500.parquet", **columns, level=[3, 5], subject=["Algebra"] * 2)
    kept = []
    for name in ("math", "math-500"):
        rows, _ = load(name, "test", {}, str(tmp_path))
        kept.append([(row["level"], row["subject"]) for row in rows])
    assert kept == [[("3", "Algebra"), ("?", "Geometry")], [("3", "Algebra"), ("5", "Algebra")]]


def test_the_environment_names_the_folder_where_the_recipe_does_not(tmp_path, monkeypatch):
    write_parquet(tmp_path / "gsm8k-test.parquet", question=["q"], answer=["#### 1"])
    monkeypatch.setenv("MATH_DATA_DIR", str(tmp_path))
    assert golds("gsm8k") == ["1"]


@cases(__file__, "what_is_incorrect_with_the_folder_is_named")
def test_what_is_incorrect_with_the_folder_is_named(name, columns, message, tmp_path):
    if columns:
        write_parquet(tmp_path / f"{name}-train.parquet", **columns)
    with pytest.raises(DataError, match=message):
        load(name, "train", {}, str(tmp_path))


PUZZLES = """
def puzzles(split, hard=False):
    return [{"problem": f"{split} {hard}?", "solution": 1}]
"""


def test_a_data_set_of_ones_own_is_a_dotted_path(own_file):
    own_file("my_puzzles.py", PUZZLES)
    rows, _ = load("my_puzzles.puzzles", "train", {"hard": True})
    row = {"problem": "train True?", "solution": "1", "reasoning": None}
    assert rows == [row | {"source": "my_puzzles.puzzles"}]


MUTE = """
class Mute(Exception):
    def __str__(self):
        raise ValueError("no")
    __repr__ = __str__
"""


@cases(__file__, "a_data_set_of_ones_own_that_fails_is_named")
def test_a_data_set_of_ones_own_that_fails_is_named(body, message, own_file):
    own_file("my_broken.py", f"def puzzles(split):\n    {body}\n{MUTE}")
    with pytest.raises(DataError, match=message):
        load("my_broken.puzzles", "train", {})


def test_the_validation_split_depends_on_the_rows_alone():
    rows = [{"problem": str(i)} for i in range(100)]
    train, validation = split_validation(rows, 20)
    assert (len(train), len(validation)) == (80, 20)
    assert sorted(int(row["problem"]) for row in train + validation) == list(range(100))
    assert split_validation(rows, 20) == (train, validation)
    with pytest.raises(DataError, match="nothing is left to train on"):
        split_validation(rows, 100)


LONG = "Ann has three red apples and Bob has four green pears that he bought at the market."


def asked(*problems):
    return [{"problem": problem} for problem in problems]


@cases(__file__, "what_overlaps")
def test_what_overlaps(train, benchmark, expected):
    assert bool(overlaps(asked(train), {"b": asked(benchmark)})) == expected


def test_an_overlap_names_its_row_benchmark_and_words():
    train = asked("Another one?", f"So: {LONG}")
    (overlap,) = overlaps(train, {"a": asked("x"), "b": asked(LONG)})
    assert (overlap.row, overlap.benchmark, overlap.problem) == (1, "b", LONG)
    assert overlap.shared == "ann has three red apples and bob has four green pears that he"


def recipe_of(tmp_path, train, benchmark):
    for name, problems in (("train", train), ("exam", benchmark)):
        lines = [{"problem": problem, "answer": 7} for problem in problems]
        write_lines(tmp_path / f"{name}.jsonl", lines)
    overrides = [f"data.train=[{tmp_path}/train.jsonl]", "data.validation=2", "sft=null"]
    overrides += [f"evaluate.benchmarks=[{tmp_path}/exam.jsonl]"]
    return load_recipe("recipes/tiny-arithmetic.yaml", overrides)


def test_training_drops_the_overlap_and_says_so(tmp_path, capsys):
    train = [f"What is {i} + 1?" for i in range(12)]
    recipe = recipe_of(tmp_path, train, [f"What is {i}+1" for i in range(6, 20)])
    rows, validation = train_and_validation(recipe)
    kept, _ = load_train(recipe)
    assert len(rows) == 10 and len(validation) == 2
    below_6 = {row["problem"] for row in rows if int(row["problem"].split()[2]) < 6}
    assert {row["problem"] for row in kept} == below_6
    line = f"{10 - len(kept)} training problems dropped that overlap with the benchmarks"
    assert line in capsys.readouterr().out


def test_a_benchmark_that_is_the_training_set_leaves_nothing(tmp_path):
    same = [f"What is {i} + 1?" for i in range(12)]
    with pytest.raises(RecipeError, match=r"data\.train: .* nothing is left to train on"):
        load_train(recipe_of(tmp_path, same, same))


@cases(__file__, "earnable")
def test_a_gold_that_no_answer_could_earn_is_named(gold, question, earnable):
    assert (why_unearnable(gold, question) is None) == earnable


@cases(__file__, "a_gold_that_no_answer_could_earn_stops_with_its_row")
def test_a_gold_that_no_answer_could_earn_stops_with_its_row(row, messages, tmp_path):
    file = tmp_path / "mine.jsonl"
    write_lines(file, [{"problem": "1+1?", "answer": "2"}, row])
    if messages is None:
        assert len(load(str(file), "train", {})[0]) == 2
        return
    with pytest.raises(DataError, match=r"mine\.jsonl row 2: no answer can earn") as refused:
        load(str(file), "train", {})
    assert lacking(messages, str(refused.value)) == []
    advice = {"where": {"answer": {"not": row["answer"]}}}  # as the message says
    assert len(load(str(file), "train", advice)[0]) == 1


@cases(__file__, "what_tools_make")
def test_what_tools_make_of_numbers_and_text_is_mended_or_dropped(
    problem, gold, solution, tmp_path
):
    rows = [{"problem": problem, "answer": gold}, {"problem": "2 + 2?", "answer": "4"}]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    used, report = load(str(tmp_path / "mine.jsonl"), "train", {})
    assert used[0]["solution"] == solution if len(used) == 2 else solution in report


def test_the_longest_prompt_of_all_rows_is_found(monkeypatch):
    """A sample of a thousand would seldom have it."""
    rows = [{"problem": "one more?"}] * 5000 + [{"problem": "one more? " * 9}]
    monkeypatch.setattr(prompt, "question_ids", lambda _, row, system: row["problem"].split())
    lengths = prompt_lengths(rows, None, None)
    assert len(lengths) == 1000
    assert (lengths[0], lengths[-1]) == (2, 18)
