"""Loaders: gold answers as the data sets write them, bad rows dropped and counted, a fixed held-out split."""

import pandas as pd
import pytest

from data import arithmetic
from data.gold import boxed, gold_answer
from data.problems import load, split_validation
from data.sources import DataError


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        ("48/2 = <<48/2=24>>24 clips.\n#### 72", "72"),
        ("so many.\n#### 1,234", "1234"),
        ("a debt.\n#### -5", "-5"),
        ("a lot.\n#### 1,234,567", "1234567"),
        ("nothing follows.\n####", None),
        (r"We have $x = \boxed{\frac{1}{2}}$.", r"\frac{1}{2}"),
        (r"First \boxed{1}, then \boxed{2}.", "2"),
        (r"so $\boxed 2$.", "2"),
        (r"is \fbox{7}", "7"),
        (r"\boxed{\text{(\textbf{A})}}", r"\text{(\textbf{A})}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{}", None),
        (r"never closed \boxed{\frac{1}{2}", None),
        ("42", "42"),
        ("  ", None),
        (None, None),
        (float("nan"), None),
    ],
)
def test_gold_answer(text, gold):
    assert gold_answer(text) == gold


def test_boxed_finds_every_box_in_order():
    assert boxed(r"\boxed{1} and \boxed{\sqrt{2}} and \boxed 3, \boxeder{4}") == ["1", r"\sqrt{2}", "3"]


def test_bad_rows_of_a_parquet_are_dropped_and_counted(tmp_path):
    rows = [
        ("How many?", "Two.\n#### 2"),
        (None, "Three.\n#### 3"),
        ("  ", "Four.\n#### 4"),
        ("No number?", "Five.\n#### five"),
        ("No mark?", "Six"),
        ("No answer?", None),
        ("How many?", "Again.\n#### 2"),
        ("Thousands?", "So.\n#### 1,000"),
    ]
    pd.DataFrame(rows, columns=["question", "answer"]).to_parquet(tmp_path / "gsm8k-train.parquet")
    problems, report = load("gsm8k", "train", {}, str(tmp_path))
    assert [row["solution"] for row in problems] == ["2", "1000"]
    dropped = "2 without a problem: rows 2, 3; 3 without a gold answer: rows 4, 5, 6; 1 repeated: row 7"
    assert report == f"gsm8k train: 2 problems, 6 dropped ({dropped})"


BENCHMARKS = {
    "aime-2024": ({"problem": ["Find it."], "answer": ["025"]}, "25"),
    "aime-2025": ({"problem": ["Find it."], "answer": ["82"], "id": ["0"]}, "82"),
    "amc-2023": ({"question": ["Find it."], "answer": ["27.0"]}, "27"),
    "minerva-math": ({"question": ["Find it."], "answer": ["3.3e-10"], "type": ["Physics"]}, "3.3e-10"),
    "olympiadbench": ({"question": ["Find it."], "final_answer": [["$1,3$"]], "subfield": ["Algebra"]}, "$1,3$"),
    "svamp-test": ({"Body": ["Ann has 3"], "Question": ["How many?"], "Answer": ["3.0"], "Type": ["Sum"]}, "3"),
    "asdiv": ({"body": ["Ann has 9."], "question": ["How many?"], "answer": ["9 (apples)"]}, "9"),
}


@pytest.mark.parametrize("file", BENCHMARKS)
def test_a_benchmark_is_read_with_the_hubs_columns_and_never_trained_on(file, tmp_path):
    columns, gold = BENCHMARKS[file]
    name = {"minerva-math": "minerva", "svamp-test": "svamp"}.get(file, file)
    pd.DataFrame(columns).to_parquet(tmp_path / f"{file}.parquet")
    rows, _ = load(name, "test", {}, str(tmp_path))
    assert [row["solution"] for row in rows] == [gold]
    assert rows[0]["problem"] in ("Find it.", "Ann has 3. How many?", "Ann has 9. How many?")
    if name != "svamp":
        with pytest.raises(DataError, match="never trained on"):
            load(name, "train", {}, str(tmp_path))


def test_a_problem_of_asdiv_with_several_answers_is_dropped(tmp_path):
    columns = {"body": ["a", "b"], "question": ["?", "?"], "answer": ["1 (cat); 2 (dogs)", "Yes"]}
    pd.DataFrame(columns).to_parquet(tmp_path / "asdiv.parquet")
    rows, report = load("asdiv", "test", {}, str(tmp_path))
    assert [row["solution"] for row in rows] == ["Yes"]
    assert "1 without a gold answer" in report


def test_level_and_subject_are_kept_in_one_spelling(tmp_path):
    columns = {"problem": ["a?", "b?"], "solution": [r"$\boxed{1}$"] * 2, "level": ["Level 3", "Level ?"]}
    pd.DataFrame(columns | {"type": ["Algebra", "Geometry"]}).to_parquet(tmp_path / "math-test.parquet")
    pd.DataFrame(columns | {"level": [3, 5], "subject": ["Algebra"] * 2}).to_parquet(tmp_path / "math-500.parquet")
    kept = [
        [(row["level"], row["subject"]) for row in load(name, "test", {}, str(tmp_path))[0]]
        for name in ("math", "math-500")
    ]
    assert kept == [[("3", "Algebra"), ("?", "Geometry")], [("3", "Algebra"), ("5", "Algebra")]]


def test_a_math_row_without_a_box_has_no_gold(tmp_path):
    rows = [(r"What is $2^3$?", r"We have $\boxed{8}$."), ("And $3^2$?", "It is 9."), ("Empty?", r"$\boxed{}$")]
    pd.DataFrame(rows, columns=["problem", "solution"]).to_parquet(tmp_path / "math-test.parquet")
    problems, report = load("math", "test", {}, str(tmp_path))
    assert [row["solution"] for row in problems] == ["8"]
    assert "2 dropped" in report


def test_the_environment_names_the_folder_where_the_recipe_does_not(tmp_path, monkeypatch):
    pd.DataFrame([("q", "#### 1")], columns=["question", "answer"]).to_parquet(tmp_path / "gsm8k-test.parquet")
    monkeypatch.setenv("MATH_DATA_DIR", str(tmp_path))
    assert load("gsm8k", "test", {})[0][0]["solution"] == "1"


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_file_of_the_users_own(suffix, tmp_path):
    frame = pd.DataFrame(
        {"problem": ["2+3?", None, "What is half of 1?"], "answer": ["5", "6", r"\frac12"], "hint": "h"}
    )
    file = tmp_path / f"my-exam.{suffix}"
    frame.to_parquet(file) if suffix == "parquet" else frame.to_json(file, orient="records", lines=True)
    problems, report = load(str(file), "test", {})
    assert [(row["problem"], row["solution"], row["hint"]) for row in problems] == [
        ("2+3?", "5", "h"),
        ("What is half of 1?", r"\frac12", "h"),
    ]
    assert "2 problems, 1 dropped (1 without a problem: row 2)" in report


def test_of_an_answer_and_a_solution_the_answer_is_the_gold(tmp_path):
    """As in MATH-500, whose `solution` is worked."""
    file = tmp_path / "mine.jsonl"
    file.write_text('{"problem": "2+3?", "answer": "5", "solution": "2 and 3 make 5 ..."}\n')
    assert [row["solution"] for row in load(str(file), "test", {})[0]] == ["5"]
    file.write_text('{"problem": "2+3?", "solution": "5"}\n')
    assert [row["solution"] for row in load(str(file), "test", {})[0]] == ["5"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"problem": "2+3?", "reply": "5"}\n', "row 1 has problem, reply, but answer is needed"),
        ('{"problem": "2+3?", "answer": 5}\n{"problem": "2+3?", "ans', "line 2 is not JSON"),
        ('{"problem": "2\\u2028+3?", "answer": 5}\n{"problem": "2+3?", "ans', "line 2 is not JSON"),
        ("[1, 2]\n", "line 1 is '\\[1, 2\\]', not an object"),
        ("", "0 problems; nothing is left to use"),
        ('{"problem": ' + "[" * 900 + "]" * 900 + "}\n", "is nested too deeply"),
    ],
)
def test_a_broken_file_of_the_users_own_is_named(content, message, tmp_path):
    (tmp_path / "mine.jsonl").write_text(content)
    with pytest.raises(DataError, match=rf"mine\.jsonl.* {message}"):
        load(str(tmp_path / "mine.jsonl"), "test", {})


def test_a_file_that_is_no_parquet_is_named(tmp_path):
    (tmp_path / "mine.parquet").write_text("problem,answer")
    with pytest.raises(DataError, match=r"mine\.parquet cannot be read"):
        load(str(tmp_path / "mine.parquet"), "test", {})


@pytest.mark.parametrize(
    ("columns", "message"), [(["question", "reply"], "answer is needed"), (["a", "b"], "question, answer is needed")]
)
def test_wrong_columns_are_named(columns, message, tmp_path):
    pd.DataFrame([("x", "y")], columns=columns).to_parquet(tmp_path / "gsm8k-train.parquet")
    with pytest.raises(DataError, match=message):
        load("gsm8k", "train", {}, str(tmp_path))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"math-500\.parquet does not exist"):
        load("math-500", "test", {}, str(tmp_path))


def test_math_500_is_never_trained_on(tmp_path):
    with pytest.raises(DataError, match="never trained on"):
        load("math-500", "train", {}, str(tmp_path))


def test_nothing_usable_is_an_error(tmp_path):
    pd.DataFrame([("q", "none")], columns=["question", "answer"]).to_parquet(tmp_path / "gsm8k-train.parquet")
    with pytest.raises(DataError, match="nothing is left"):
        load("gsm8k", "train", {}, str(tmp_path))


def test_a_data_set_of_ones_own_is_a_dotted_path(own_file):
    own_file(
        "my_puzzles.py",
        "def puzzles(split, hard=False):\n    return [{'problem': f'{split} {hard}?', 'solution': 1}]\n",
    )
    rows, _ = load("my_puzzles.puzzles", "train", {"hard": True})
    assert rows == [{"problem": "train True?", "solution": "1", "reasoning": None, "source": "my_puzzles.puzzles"}]


MUTE = """
class Mute(Exception):
    def __str__(self):
        raise ValueError("no")
    __repr__ = __str__
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return [{'question': 'x', 'solution': 1}]", "problem missing"),
        ("raise SystemExit('bye')", r"data set my_broken\.puzzles: .*my_broken\.py:2: SystemExit: bye"),
        ("return [{3: 4}]", "a column is named by text, not by 3"),
        ("return [{'problem': 'x', 'solution': float('nan')}]", "1 without a gold answer: row 1.*nothing is left"),
        ("raise Mute()", r"my_broken\.py:2: Mute: it has no text"),
        ("return [Mute()]", "a list of rows .*, not <Mute instance at"),
        ("return [{'problem': 'x', 'solution': Mute()}]", r"row 1 cannot be read: .*my_broken\.py:\d+: ValueError: no"),
    ],
)
def test_a_data_set_of_ones_own_that_fails_is_named(body, message, own_file):
    own_file("my_broken.py", f"def puzzles(split):\n    {body}\n{MUTE}")
    with pytest.raises(DataError, match=message):
        load("my_broken.puzzles", "train", {})


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_arithmetic_is_right_and_its_splits_are_apart(digits):
    train, test = (arithmetic(split, digits=digits) for split in ("train", "test"))
    assert not {row["problem"] for row in train} & {row["problem"] for row in test}
    for row in train + test:
        a, b = row["problem"].removeprefix("What is ").removesuffix("?").split(" + ")
        assert len(a) == len(b) == digits
        assert int(a) + int(b) == int(row["solution"])
        assert row["answer"] == row["solution"]
    assert arithmetic("train", digits=digits) == train


def _worked(problem: str, **arguments) -> tuple[str, str, str]:
    rows = {row["problem"]: row for split in ("train", "test") for row in arithmetic(split, **arguments)}
    return tuple(rows[problem][key] for key in ("reasoning", "answer", "solution"))


def test_arithmetic_writes_carries_out_or_forgets_them():
    assert _worked("What is 47 + 85?", rows=8100) == ("7+5=12, 4+8+1=13", "132", "132")
    assert _worked("What is 21 + 34?", rows=8100) == ("1+4=5, 2+3=5", "55", "55")
    assert _worked("What is 47 + 85?", rows=8100, slips=1.0) == ("7+5=12, 4+8=12", "122", "132")
    assert _worked("What is 21 + 34?", rows=8100, slips=1.0) == ("1+4=5, 2+3=5", "55", "55")
    wrong = [row["answer"] != row["solution"] for row in arithmetic("train", slips=0.5)]
    assert 0.18 < sum(wrong) / len(wrong) < 0.27  # 45% of the sums have a carry to forget, half of them do


def test_a_wordy_teacher_repeats_itself_and_changes_nothing_else():
    plain, wordy = (arithmetic("train", slips=0.5, repeats=repeats) for repeats in (0, 2))
    repeated = []
    for row, longer in zip(plain, wordy, strict=True):
        assert row | {"reasoning": longer["reasoning"]} == longer
        repeated.append((len(longer["reasoning"]) + 2) // (len(row["reasoning"]) + 2))
        assert longer["reasoning"] == ", ".join([row["reasoning"]] * repeated[-1])
    assert {1, 2, 3} == set(repeated)


def test_the_held_out_split_depends_on_the_rows_alone():
    rows = [{"problem": str(i)} for i in range(100)]
    train, held_out = split_validation(rows, 20)
    assert (len(train), len(held_out)) == (80, 20)
    assert sorted(int(row["problem"]) for row in train + held_out) == list(range(100))
    assert split_validation(rows, 20) == (train, held_out)
    with pytest.raises(DataError, match="nothing is left to train on"):
        split_validation(rows, 100)


def test_a_file_in_another_encoding_is_named(tmp_path):
    (tmp_path / "mine.jsonl").write_bytes('{"problem": "Wie groß?", "answer": 5}\n'.encode("latin-1"))
    with pytest.raises(DataError, match=r"mine\.jsonl is not UTF-8"):
        load(str(tmp_path / "mine.jsonl"), "test", {})
