"""A wrong input is answered by one line: what is wrong, in which place, and what to do."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import refused, run_stage, write_lines
from tests.tables import lacking, row_cases

TINY = "recipes/tiny-arithmetic.yaml"
UNJUDGEABLE = [{"problem": f"{i}?", "answer": r"\\frac{1}{2004!}"} for i in range(3)]
SUMS = [{"problem": f"What is {i} + 1?", "answer": i + 1} for i in range(9)]
ALONE = ["evaluate.benchmarks=[]", "sft=null", "data.validation=1"]


@dataclass(frozen=True)
class Row:
    """A row of the table of wrong inputs."""

    case: str
    stage: str
    words: list
    names: list
    environment: dict = field(default_factory=dict)


def write_inputs(folder: Path):
    """The files and folders that the table names."""
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("problem,answer\n")
    write_lines(folder / "sums.jsonl", SUMS)
    (folder / "no_model").mkdir()
    (folder / "models/first").mkdir(parents=True)
    (folder / "models/first/config.json").write_text("{}")
    for name in ("validation", "models"):
        write_lines(folder / f"{name}.jsonl", SUMS)
    (folder / "without/grpo").mkdir(parents=True)
    write_lines(folder / "without/grpo/metrics.jsonl", [{"step": 1}])
    (folder / "without/grpo/summary.json").write_text('{"steps": 1}')
    text = Path(TINY).read_text()
    (folder / "deeper.yaml").write_text(text.replace("  max_steps: 350", "   max_steps: 350"))
    (folder / "no_colon.yaml").write_text(text.replace("max_steps: 350", "max_steps 350"))
    (folder / "tab.yaml").write_text(text.replace("  max_steps: 350", "\tmax_steps: 350"))


def with_texts(word: str, folder: Path) -> str:
    """A word of the table with what its names in braces stand for."""
    word = word.replace("{tiny}", TINY).replace("{tmp}", str(folder))
    return word.replace("{long}", "a" * 300)


def words_of(row: Row, folder: Path) -> list[str]:
    words = []
    for word in row.words:
        words += ALONE if word == "{alone}" else [with_texts(word, folder)]
    return words


def environment_of(row: Row, folder: Path) -> dict[str, str]:
    return {name: with_texts(row.environment[name], folder) for name in row.environment}


@row_cases(__file__, "wrong_inputs", Row)
def test_a_wrong_input_is_one_line_with_a_remedy(row, tmp_path):
    write_inputs(tmp_path)
    environment = environment_of(row, tmp_path)
    done = run_stage(row.stage, *words_of(row, tmp_path), check=False, **environment)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not (tmp_path / "out").exists()
    names = [with_texts(name, tmp_path) for name in row.names]
    assert lacking(names, done.stderr) == []


def test_a_model_whose_name_is_not_utf_8_is_one_message(tmp_path):
    (folder := tmp_path / os.fsdecode(b"\xff")).mkdir()
    settings = ["evaluate.benchmarks=[arithmetic]", f"output_dir={tmp_path}/out"]
    message = refused("evaluate", TINY, *settings, f"--model={folder}")
    assert "its name is not UTF-8: rename it" in message


def test_golds_that_cannot_be_judged_and_letters_that_cannot_be_read_have_a_remedy(tmp_path):
    # Of several, whatever is held out, one is left to train on.
    letters = [{"problem": f"How old is Bj\u00f6rn {n}?", "answer": 9} for n in range(6)]
    write_lines(tmp_path / "mine.jsonl", [*SUMS, *letters, *UNJUDGEABLE])
    done = run_stage("check", TINY, f"data.train=[{tmp_path}/mine.jsonl]", *ALONE, check=False)
    assert done.returncode == 2 and "3 of 17 golds cannot be judged" in done.stdout
    assert "frac{1}{2004!}" in done.stdout and "(make audit ARGS=" in done.stdout
    assert "data.train: the tokenizer has no '\u00f6': the model reads <unk> there" in done.stdout
