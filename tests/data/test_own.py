"""Data of a user's own: files, folders and data sets of the Hub, with columns of any names."""

import gzip
import json
import os
import sys
from pathlib import Path

import datasets
import httpx
import pandas as pd
import pytest

from data import hub, prompt
from data.files import DataError, DataNotReached
from data.own import RAW, TAKEN
from data.problems import for_rewards, judged_by, load, weighted
from evaluation.completions import judged
from schema.recipe import load_recipe
from tests.support import write_lines
from tests.tables import cases
from tests.waits import capture
from training.model import load_tokenizer
from training.problem_sets import load_train, prompt_dataset

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "1+1?"},
    {"role": "assistant", "content": "2"},
    {"role": "user", "content": "2+3?"},
]
GSM8K = "Two and three make <<2+3=5>>5.\n#### 5"


@cases(__file__, "columns_of_any_names")
def test_columns_of_any_names(row, columns, solution, reasoning, message, tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text(json.dumps(row) + "\n")
    (found,), report = load(str(file), "train", {"columns": columns} if columns else {})
    expected = ("2+3?", solution, reasoning)
    assert (found["problem"], found["solution"], found["reasoning"]) == expected
    assert message in report.partition("1 problems")[2] and bool(message) == report.endswith(")")
    given = for_rewards(found)
    gold = next(
        row[each]
        for each in ((columns or {}).get("answer"), *row)
        if each and str(solution) in str(row[each])
    )
    assert given["solution"] == solution and given["answer"] == gold
    assert not (TAKEN | {"reasoning", RAW}) & given.keys()
    others = row.keys() - TAKEN - {"problem", "answer", "solution"}
    assert {key: given[key] for key in others} == {key: row[key] for key in others}


def test_no_column_of_the_data_is_overwritten(tmp_path):
    file = tmp_path / "mine.jsonl"
    columns = {"source": {"book": 3}, "level": 4, "subject": ["sums"], "limit": "x", "split": "y"}
    file.write_text(json.dumps({"problem": "2+3?", "answer": "5"} | columns) + "\n")
    (row,), _ = load(str(file), "train", {})
    assert columns.items() <= for_rewards(row).items()
    (line,) = judged([row], [""], strict=False)
    assert (line["level"], line["subject"]) == ("4", "['sums']")  # a report groups by their text


@cases(__file__, "formats_of_sets_that_people_have")
def test_formats_of_sets_that_people_have(row, problem, turns, reasoning, tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text(json.dumps(row) + "\n")
    (read,), _ = load(str(file), "train", {})
    assert (read["problem"], read["solution"], read["reasoning"]) == (problem, "5", reasoning)
    conversation = prompt.messages(read, None)
    assert len(conversation) == turns + 1
    assert conversation[-1] == {"role": "user", "content": problem}


def test_no_turn_of_a_conversation_is_lost(tmp_path):
    rows = [{"prompt": CHAT, "answer": "5"}]
    rows.append({"prompt": [{"role": "user", "content": "1+2?"}, *CHAT[2:]], "answer": "5"})
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    first, second = load(str(file), "train", {})[0]  # the same last question is no repeat
    assert prompt.messages(first, None) == CHAT
    system = {"role": "system", "content": "Think.\n\nBe brief."}
    assert prompt.messages(first, "Think.") == [system, *CHAT[1:]]
    assert prompt.messages(second, "Think.")[1] == rows[1]["prompt"][0]
    assert judged_by(first) == ["Be brief.", "1+1?", "2", "2+3?", "5"]
    assert prompt.TURNS not in for_rewards(first)
    assert judged([first], ["5"], False)[0]["problem"].startswith("user: 1+1?\n\nassistant: 2")


@cases(__file__, "what_a_file_is_written_in")
def test_what_a_file_is_written_in(file, text, encoding, tmp_path):
    content = text.encode(encoding)
    path = tmp_path / file
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    (row,), _ = load(str(path), "train", {})
    gold = "5.0" if "5,0" in text else "5"
    assert (row["problem"], row["solution"], row["name"]) == ("2+3, or?", gold, "ß")


def test_a_spreadsheet_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "mine.xlsx").write_bytes(b"PK")
    with pytest.raises(ImportError, match=r"save a spreadsheet as \.csv"):
        load(str(tmp_path / "mine.xlsx"), "train", {})


@cases(__file__, "files_and_folders")
def test_files_and_folders(file, content, tmp_path):
    for name, gold in content.items() if isinstance(content, dict) else ():
        (path := tmp_path / file / name).parent.mkdir(parents=True, exist_ok=True)
        frame = pd.DataFrame({"question": ["2+3,\n or?"], "answer": [gold], "hint": ["h"]})
        writers = {
            ".parquet": frame.to_parquet,
            ".csv": lambda path, of=frame: of.to_csv(path, index=False),
        }
        lines = frame.to_json(orient="records", lines=True)
        writers.get(path.suffix, lambda path, text=lines: path.write_text(text))(path)
    if isinstance(content, str):
        (tmp_path / file).write_text(content)
    (row,), _ = load(str(tmp_path / file), "train", {})
    assert (row["problem"], row["solution"], row["hint"]) == ("2+3,\n or?", "5", "h")
    if len(content) > 1 and isinstance(content, dict):
        assert load(str(tmp_path / file), "train", {"split": "test"})[0][0]["solution"] == "6"


@cases(
    __file__,
    "what_is_incorrect_with_a_file_is_named",
    (
        "mine.csv",
        ",".join(f"c{each}" for each in range(900)) + "\n1\n",
        None,
        "c18, c19, …: say which",
    ),
    ("mine.json", "[" * 100_000, None, "is nested too deeply"),
    ("mine.jsonl", '{"problem": ' + "[" * 100_000, None, "line 1 is nested too deeply"),
    ("mine.jsonl", '{"problem": "groß?"}'.encode("latin-1"), None, "is not UTF-8 .*: save it in"),
)
def test_what_is_incorrect_with_a_file_is_named(file, content, columns, message, tmp_path):
    for path in (tmp_path / file, tmp_path / "other.csv"):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    place = tmp_path if columns == "folder" else tmp_path / file
    with pytest.raises(DataError, match=message) as refused:
        load(str(place), "train", {"columns": columns} if isinstance(columns, dict) else {})
    assert str(place) in str(refused.value)


AS_WRITTEN = ["007", "1e5", "3.10", "1,234", " 5 ", "1E400", "9" * 20, r"\frac12", ".5", "12:30"]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "json", "jsonl", "parquet"])
def test_a_gold_is_what_the_file_has(suffix, tmp_path):
    problems = [f"{i}+1?" for i in range(len(AS_WRITTEN))]
    frame = pd.DataFrame({"problem": [*problems, None], "answer": [*AS_WRITTEN, "1"]})
    frame.to_csv(tmp_path / "mine.csv", index=False)
    frame.to_csv(tmp_path / "mine.tsv", index=False, sep="\t")
    frame.to_json(tmp_path / "mine.json", orient="records")
    frame.to_json(tmp_path / "mine.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "mine.parquet")
    rows, report = load(str(tmp_path / f"mine.{suffix}"), "test", {})
    assert [row["solution"] for row in rows] == AS_WRITTEN
    assert "10 problems, 1 dropped (1 without a problem: row 11)" in report


def test_a_number_is_no_other_beside_an_empty_cell_or_a_text(tmp_path):
    """As it is where a library makes one type of a column."""
    golds = [5, None, "6", 2**70, 7.5, "1/2"]
    rows = [{"problem": f"{i}?", "answer": gold} for i, gold in enumerate(golds)]
    write_lines(tmp_path / "mine.jsonl", [*rows, {"problem": "Without?"}])
    rows, report = load(str(tmp_path / "mine.jsonl"), "train", {})
    assert [row["solution"] for row in rows] == ["5", "6", str(2**70), "7.5", "1/2"]
    assert "2 without a gold answer: rows 2, 7" in report


MIXED = ([1, "a"], [{"k": 1}, {"k": "a"}], [["a", 1], []], [2**70, 1], ["\ud800", "a"])


@pytest.mark.parametrize("values", MIXED)
def test_a_column_of_several_types_is_left_out(values, tmp_path, capsys):
    file = tmp_path / "mine.jsonl"
    rows = [{"problem": f"{i}?", "answer": [[i], ["2"]][i % 2], "rate": i} for i in range(8)]
    write_lines(file, [row | {"extra": values[row["rate"] % 2]} for row in rows])
    overrides = [f"data.train=[{file}]", "data.validation=2", "sft=null"]
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", overrides)
    rows, _ = load_train(recipe)
    assert "rewards do not get the column 'extra'" in capsys.readouterr().out
    columns = prompt_dataset(rows, load_tokenizer(recipe), None).column_names
    assert "extra" not in columns and "rate" in columns


def test_a_row_of_ones_own_function_may_call_its_gold_answer(own_file):
    rows = [{"problem": "2+3?", "answer": GSM8K}, {"problem": "2+4?", "answer": 6}]
    # as ever: the gold, and what a warm start writes
    rows.append({"problem": "2+5?", "solution": "7", "answer": "8"})
    own_file("my_rows.py", f"def rows(split):\n    return {rows!r}\n")
    found, _ = load("my_rows.rows", "train", {})
    assert [row["solution"] for row in found] == ["5", "6", "7"]
    assert [row.get("answer") for row in found] == [None, None, "8"]
    assert [row["reasoning"] for row in found] == ["Two and three make 5.", None, None]
    assert [for_rewards(row)["answer"] for row in found] == [GSM8K, 6, "7"]


def test_a_run_on_golds_in_their_solutions_goes_on(tmp_path):
    """Its data.json has the answers as the file has them."""
    file = tmp_path / "mine.jsonl"
    file.write_text(json.dumps({"problem": "2+3?", "answer": GSM8K}) + "\n")
    assert judged_by(load(str(file), "train", {})[0][0]) == ["2+3?", GSM8K]


def test_a_limit_counts_what_is_usable_and_a_weight_what_is_seen(tmp_path, own_file):
    file = tmp_path / "mine.csv"
    file.write_text("problem,answer\n" + "".join(f"{i},{i or ''}\n" for i in range(300)))
    rows, _ = load(str(file), "train", {"limit": 200})
    assert [row["problem"] for row in rows] == [str(i) for i in range(1, 201)]
    assert weighted(rows) == rows

    def problems_seen(weight):
        arguments = {"limit": 200, "weight": weight}
        return [row["problem"] for row in weighted(load(str(file), "train", arguments)[0])]

    counts = {}
    for weight in (2, 0.5, 1.5):
        assert problems_seen(weight) == problems_seen(weight)
        counts[weight] = len(problems_seen(weight))
    assert counts[2] == 400 and 75 < counts[0.5] < 125 and counts[1.5] == 200 + counts[0.5]
    own_file(
        "my_limit.py",
        "def rows(split, limit):\n    return [{'problem': f'{limit}?', 'answer': 1}] * 2\n",
    )
    assert load("my_limit.rows", "train", {"limit": 1})[0][0]["problem"] == "1?"  # its own


@cases(__file__, "the_sets_that_people_train_on")
def test_the_sets_that_people_train_on(row, arguments, tmp_path):
    """Rows as the Hub has them, with problems of ours."""
    pd.DataFrame([row]).to_parquet(tmp_path / "train.parquet")
    (found,), report = load(str(tmp_path), "train", arguments)
    assert (found["problem"], found["solution"]) == ("2+3?", "5"), report


def write_table(folder: Path, name: str):
    """A table of four problems, numbered from 0, in one of three forms."""
    if name == "mine.csv":
        rows = "0?,0,1,a\n1?,1,2,a\n2?,2,3,b\n3?,3,,b\n"
        (folder / name).write_text("problem,answer,level,source\n" + rows)
    elif name == "mine.jsonl":
        optional = [{"level": 4.0}, {"level": " 4 "}, {}, {"level": "4.0", "is": {"valid": "Yes"}}]
        rows = [{"problem": f"{i}?", "answer": str(i)} | row for i, row in enumerate(optional)]
        write_lines(folder / name, rows)
    else:  # columns under trl's names, and under ours that are others there
        rows = [{"prompt": f"{i}?", "key": str(i)} for i in range(4)]
        for i, row in enumerate(rows):
            row |= {"answer": "ab"[i % 2], "completion": i // 2}
        write_lines(folder / name, rows)


@cases(__file__, "where_takes_rows_by_their_columns")
def test_where_takes_rows_by_their_columns(file, arguments, numbers, tmp_path):
    write_table(tmp_path, file)
    rows, report = load(str(tmp_path / file), "train", arguments)
    assert "".join(row["solution"] for row in rows) == numbers
    assert "limit" in arguments or f"{4 - len(numbers)} others passed over" in report
    assert not {"prompt", "completion"} & rows[0].keys()


@cases(__file__, "where_that_takes_nothing_is_refused")
def test_where_that_takes_nothing_is_refused(where, message, tmp_path):
    write_table(tmp_path, "mine.jsonl")
    with pytest.raises(DataError, match=message):
        load(str(tmp_path / "mine.jsonl"), "train", {"where": where})


def test_a_weight_moves_no_validation_problem_into_training():
    def split(weight):
        train = f"data.train=[arithmetic: {{digits: 2, rows: 900, weight: {weight}}}]"
        return load_train(
            load_recipe("recipes/tiny-arithmetic.yaml", [train, "data.validation=100"])
        )

    (rows, validation), (same, also) = split(2), split(1)
    assert [row["problem"] for row in rows + validation] == [row["problem"] for row in same + also]
    assert len(weighted(rows)) == 2 * len(rows)
    assert not {r["problem"] for r in weighted(rows)} & {r["problem"] for r in also}


SHA = "e53f048856ff4f594e959d75785d2c2d37b678ee"


def downloaded(home, **splits) -> dict[str, str]:
    """An environment whose cache has `someone/sums`, as `datasets` leaves it, and which asks no
    Hub."""
    files = {}
    for split, frame in splits.items():
        files[split] = str(home / f"{split}.parquet")
        frame.to_parquet(files[split])
    builder = datasets.packaged_modules.parquet.Parquet(
        cache_dir=str(home / "datasets"),
        dataset_name="sums",
        config_name="main",
        hash=SHA,
        data_files=files,
    )
    builder.download_and_prepare()
    place = home / f"datasets/someone___sums/main/0.0.0/{SHA}"
    place.parent.mkdir(parents=True)
    next(each for each in (home / "datasets").rglob(SHA) if each.is_dir()).rename(place)
    return {
        "HF_HOME": str(home),
        "HF_DATASETS_CACHE": str(home / "datasets"),
        "HF_HUB_OFFLINE": "1",
    }


READ = """
import json, sys
from data import hub
from data.problems import load
from data.files import DataError, DataNotReached
for given in json.loads(sys.argv[1]):
    try:
        rows, report = load("someone/sums", "train", given)
        print([report, [row["solution"] for row in rows], hub.revisions])
    except DataError as error:
        print([type(error).__name__, str(error)])
"""


def test_a_data_set_of_the_hub(tmp_path):
    frame = pd.DataFrame({"question": ["2+3?", "2+4?"], "answer": [GSM8K, "#### 6"]})
    environment = downloaded(tmp_path, train=frame, test=frame[:1])
    given = [
        {},
        {"split": "test", "config": "main"},
        {"config": "other"},
        {"split": "dev"},
        {"revision": "0" * 40},
    ]
    done = capture(
        [sys.executable, "-c", READ, json.dumps(given)], env=os.environ | environment, check=True
    )
    train, test, config, split, revision = done.stdout.splitlines()
    assert (
        "someone/sums train: 2 problems (question → problem, worked solutions in answer →"
        " reasoning)" in train
    )
    assert f"['5', '6'], {{'someone/sums': '{SHA}'}}" in train
    assert "1 problems (split test, question → problem" in test
    assert "['DataError', \"someone/sums: Couldn't find cache" in config and "'main'" in config
    assert "write someone/sums: {config: main}" in config
    assert "['DataError'" in split and "write someone/sums: {split: train}" in split
    assert "['DataNotReached'" in revision and "was not downloaded before" in revision


def test_what_a_stranger_has_put_on_the_hub_ends_in_one_message(monkeypatch):
    monkeypatch.setattr(hub, "reach", lambda: None)
    for raised, kind in (
        (RuntimeError("Dataset scripts are no longer supported, but found sums.py"), DataError),
        (
            datasets.exceptions.DatasetNotFoundError(
                "'someone/sums' is a gated dataset on the Hub."
            ),
            DataError,
        ),
        (TypeError("argument of type 'int' is not iterable"), DataError),  # in its card
        (ConnectionError("no answer"), DataNotReached),
        (httpx.ReadTimeout("late"), DataNotReached),
    ):
        monkeypatch.setattr(hub, "is_offline", lambda: False)

        def read(*given, error=raised, **more):
            raise error

        monkeypatch.setattr(datasets, "load_dataset", read)
        with pytest.raises(DataError, match="someone/sums: ") as refused:
            load("someone/sums", "train", {})
        assert type(refused.value) is kind


def test_a_set_of_ours_that_the_hub_does_not_give_can_be_a_file(monkeypatch):
    def read(*arguments, **options):
        raise ConnectionError("no answer")

    monkeypatch.delenv("MATH_DATA_DIR", raising=False)
    monkeypatch.setattr(hub, "reach", lambda: None)
    monkeypatch.setattr(datasets, "load_dataset", read)
    with pytest.raises(DataNotReached, match=r"gsm8k: .*name a folder with gsm8k-train.parquet"):
        load("gsm8k", "train", {})
