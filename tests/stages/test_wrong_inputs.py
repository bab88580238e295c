"""A wrong input is answered by one line: what is wrong, in which place, and what to do."""

from pathlib import Path

import pytest

from tests.support import run_stage, write_lines

TINY = Path("recipes/tiny-arithmetic.yaml")
UNJUDGEABLE = [{"problem": f"{i}?", "answer": r"\\frac{1}{2004!}"} for i in range(3)]
SUMS = [{"problem": f"What is {i} + 1?", "answer": i + 1} for i in range(9)]
ALONE = ("evaluate.benchmarks=[]", "sft=null", "data.validation=1")


@pytest.fixture
def folder(tmp_path):
    write_inputs(tmp_path)
    return tmp_path


def write_inputs(folder: Path):
    """The files and folders that the arguments below name."""
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("problem,answer\n")
    write_lines(folder / "sums.jsonl", SUMS)
    (folder / "no_model").mkdir()
    (folder / "models/first").mkdir(parents=True)
    (folder / "models/first/config.json").write_text("{}")
    (folder / "mine.py").write_text("")
    text = TINY.read_text()
    (folder / "deeper.yaml").write_text(text.replace("  max_steps: 350", "   max_steps: 350"))
    (folder / "no_colon.yaml").write_text(text.replace("max_steps: 350", "max_steps 350"))
    (folder / "tab.yaml").write_text(text.replace("  max_steps: 350", "\tmax_steps: 350"))


INDENTED = (
    "not valid YAML: {}: the keys of a section begin in the same column, and each is `key: value`"
)
ROWS = "train: 0 problems; it needs a row for each, with its answer (docs/your-data.md)"
NO_MODEL = (
    "holds no config.json, so it is not a model: name one that a model, or a stage, was saved in"
)
SAID = {  # stage, arguments, and a part of the line: `/` before a name stands for the folder
    "an empty file": ("preflight", [TINY, "data.train=[/empty.csv]", *ALONE], f"/empty.csv {ROWS}"),
    "a header alone": (
        "preflight",
        [TINY, "data.train=[/header.csv]", *ALONE],
        f"/header.csv {ROWS}",
    ),
    "a file that is not there": (
        "preflight",
        [TINY, "data.train=[/sum.jsonl]", *ALONE],
        "there is no such file; {} has empty.csv, header.csv, sums.jsonl",
    ),
    "a folder that is not there": (
        "preflight",
        [TINY, "data.train=[/none/sums.jsonl]", *ALONE],
        "there is no such file, nor a folder {}/none: a path begins in ",
    ),
    "few problems": (
        "preflight",
        [TINY, "data.train=[/sums.jsonl]", "evaluate.benchmarks=[]", "sft=null"],
        "holds out 600 of 9 problems; nothing is left to train on: set it lower, or add problems",
    ),
    "its own benchmark": (
        "preflight",
        [TINY, "data.train=[/sums.jsonl]", "evaluate.benchmarks=[/sums.jsonl]", *ALONE[1:]],
        (
            "nothing is left to train on: train on others, or leave the benchmark out"
            " (evaluate.benchmarks: [] for none)"
        ),
    ),
    "no model": (
        "sft",
        [TINY, "model={name_or_path: /no_model}", "output_dir=outputs/none"],
        f"/no_model: {NO_MODEL}",
    ),
    "no model to evaluate": ("evaluate", [TINY, "--model=/no_model"], f"/no_model: {NO_MODEL}"),
    "a folder of models": (
        "evaluate",
        [TINY, "--model=/models"],
        "so it is not a model; in it are first",
    ),
    "no Hub": (
        "evaluate",
        [TINY, "--model=Qwen/Qwen9-nothing"],
        (
            "it is not on this machine, and the Hub is not reached: `hf download"
            " Qwen/Qwen9-nothing` where it is, or name"
        ),
    ),
    "a key too deep": (
        "preflight",
        ["/deeper.yaml"],
        "/deeper.yaml:15: "
        + INDENTED.format("expected <block end>, but found '<block mapping start>'"),
    ),
    "no colon": (
        "preflight",
        ["/no_colon.yaml"],
        ":15: " + INDENTED.format("mapping values are not allowed here"),
    ),
    "a tab": (
        "preflight",
        ["/tab.yaml"],
        "/tab.yaml:14: not valid YAML: a tab; YAML is indented with spaces",
    ),
    "no recipe": (
        "preflight",
        ["recipes/.yaml"],
        (
            "RECIPE is empty: name one (`make recipes` lists them), or leave it out for"
            " tiny-arithmetic"
        ),
    ),
    "runs that are not there": (
        "compare",
        ["/a", "/b"],
        "is no folder of a finished run, or of a recipe's seeds; ",
    ),
    "no file to trust": (
        "trust",
        ["/mien.py"],
        "FILE=/mien.py: there is no such file; did you mean mine.py?",
    ),
    "no file at all": (
        "trust",
        ["/none/mien.py"],
        "there is no such file; its folder has no Python file",
    ),
}


def in_folder(folder: Path, argument: object) -> str:
    """An argument whose paths begin with `/`, with this folder before them."""
    text = str(argument)
    for before in ("[", "=", ": "):
        text = text.replace(f"{before}/", f"{before}{folder}/")
    return f"{folder}{text}" if text.startswith("/") else text


@pytest.mark.parametrize("name", SAID)
def test_a_wrong_input_is_one_line_with_a_remedy(name, folder):
    stage, arguments, line = SAID[name]
    words = [in_folder(folder, argument) for argument in arguments]
    done = run_stage(stage, *words, check=False, HF_HUB_OFFLINE="1")
    assert done.returncode == 2, done.stderr
    assert in_folder(folder, line).replace("{}", str(folder)) in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_golds_that_cannot_be_judged_and_letters_that_cannot_be_read_have_a_remedy(tmp_path):
    write_lines(
        tmp_path / "mine.jsonl",
        [*SUMS, {"problem": "How old is Bj\u00f6rn?", "answer": 9}, *UNJUDGEABLE],
    )
    done = run_stage("check", TINY, f"data.train=[{tmp_path}/mine.jsonl]", *ALONE)
    assert "correct or remove them (make audit ARGS=" in done.stdout
    assert (
        "data.train: the tokenizer has no '\u00f6': the model reads <unk> there, and cannot write"
        " it: " in done.stdout
    )
