"""A warm start of the model's own making, really run: sampled, killed, resumed, chosen and
learned."""

import json
import shlex
import shutil
from collections import Counter
from pathlib import Path

import pytest

from console.faults import TOO_FEW_CORRECT
from rewards.verifier import STRICT, judge
from tests.support import read_lines, refused, run_stage, same_weights

RECIPE = "recipes/tiny-arithmetic.yaml"
SHORT = shlex.split("""
    data.train='[arithmetic: {digits: 1}]' data.validation=8 sft.max_steps=100 evaluate.batch_size=8
    sft.per_device_train_batch_size=32 sft.logging_steps=1
""")
pytestmark = pytest.mark.train
OWN = "data.rejection_sampling={problems: 24, samples: 4}"


@pytest.fixture(scope="module")
def base(chain) -> Path:
    """A model that solves some sums. The recipe's own base is random, and solves none."""
    return chain / "sft"


def tiny(folder: Path, base: Path, *overrides: str) -> list[str]:
    given = [f"model.name_or_path={base}", "model.build=null", OWN, "sft.max_steps=8"]
    given += ["sft.per_device_train_batch_size=8"]
    return [RECIPE, f"output_dir={folder}", *SHORT, *given, *overrides]


@pytest.fixture(scope="module")
def run(base, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    said = run_stage("rejection-sampling", *tiny(folder, base)).stdout
    line = "rejection sampling: 24 problems × 4 completions of the base model at temperature 1:"
    assert line in said
    assert (
        "rejection_sampling completions: 96/96  0 s left" in said and "next: make sft ARGS=" in said
    )
    said = run_stage("sft", *tiny(folder, base)).stdout
    assert " own solutions, from the base model" in said
    return folder


def test_the_warm_start_learns_the_models_own_correct_solutions(run, base):
    head, *completions = read_lines(run / "rejection_sampling/completions.jsonl")
    assert head["example"] is None and head["temperature"] == 1.0 and head["model"] == str(base)
    rows = read_lines(run / "rejection_sampling/kept.jsonl")
    figures = json.loads((run / "sft/summary.json").read_text())["rejection_sampling"]
    for row in rows:
        response = f"<think>{row['reasoning']}</think>\n<answer>{row['answer']}</answer>"
        assert judge(response, row["solution"], reading=STRICT).correct
        lines = row["reasoning"].splitlines()
        sources = [each for each in completions if each["problem"] == row["problem"]]
        texts = [each["completion"] for each in sources if not each["truncated"]]
        assert any(all(line in text for line in lines) for text in texts)
    correct = [each for each in completions if each["correct"] and not each["truncated"]]
    assert 8 <= len(correct) < 96  # or this shows nothing
    per_problem = Counter(row["problem"] for row in rows)
    assert set(per_problem.values()) <= {1, 2}
    assert len(rows) == len({json.dumps(row) for row in rows})
    counts = {"completions": len(completions), "problems": 24, "accepted": len(correct)}
    counts |= {"solved": len({each["id"] for each in correct}), "kept": len(rows)}
    assert counts["completions"] == 96 and counts["solved"] == len(per_problem)
    assert counts.items() <= figures.items()
    assert not same_weights(run / "sft", base)


def test_asked_again_it_samples_nothing(run, base):
    def contents() -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in (run / "rejection_sampling").iterdir()}

    before = contents()
    said = run_stage("rejection-sampling", *tiny(run, base), "--if-needed").stdout
    assert said == f"rejection sampling: the warm start is finished already, in {run}/sft\n"
    assert before == contents()


def test_a_warm_start_waits_until_all_are_sampled(run, base, tmp_path):
    file = (
        shutil.copytree(run / "rejection_sampling", tmp_path / "rejection_sampling")
        / "completions.jsonl"
    )
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:40]))
    (tmp_path / "rejection_sampling/kept.jsonl").unlink()
    missing = refused("sft", *tiny(tmp_path, base))
    assert "are not all sampled: run `make rejection-sampling ARGS=" in missing
    assert not (tmp_path / "sft").exists()


def test_completions_of_something_else_are_not_mistaken_for_them(run, base, tmp_path):
    shutil.copytree(run / "rejection_sampling", tmp_path / "rejection_sampling")
    for stage in ("rejection-sampling", "sft"):
        hotter = refused(stage, *tiny(tmp_path, base, "data.rejection_sampling.temperature=0.5"))
        assert "was sampled with different settings (temperature)" in hotter
    assert not (tmp_path / "sft").exists()


def test_a_finished_stage_is_sampled_and_the_base_learns(run, base, tmp_path):
    """Its weights are those of the base of the other tests, so its solutions are the same; the base
    here is random."""
    short = [*SHORT, "sft.max_steps=8", "sft.per_device_train_batch_size=8", OWN]
    given = [RECIPE, f"output_dir={tmp_path}", *short, f"data.rejection_sampling.model={base}"]
    line = f"24 problems × 4 completions of {base} at temperature 1"
    assert line in run_stage("rejection-sampling", *given).stdout
    assert read_lines(tmp_path / "rejection_sampling/completions.jsonl")[0]["trained"] == str(base)
    actual = (tmp_path / "rejection_sampling/kept.jsonl").read_bytes()
    assert actual == (run / "rejection_sampling/kept.jsonl").read_bytes()
    run_stage("sft", *given)
    losses, rows = [], []
    for folder in (tmp_path, run):
        losses.append(read_lines(folder / "sft/metrics.jsonl")[0]["loss"])
        summary = json.loads((folder / "sft/summary.json").read_text())
        rows.append(summary["rejection_sampling"]["kept"])
    assert losses[0] > 2 * losses[1]  # it did not begin with the model that was sampled
    assert rows[0] == rows[1]


def few(folder: Path) -> list[str]:
    """The recipe's own base model is random: nothing that it says is correct."""
    own = "data.rejection_sampling={problems: 8, samples: 2}"
    return [RECIPE, f"output_dir={folder}", *SHORT, own]


def test_too_few_correct_ones_are_told_with_what_to_do(tmp_path):
    accepted = "of 16 completions of 8 problems 0 are accepted, for 0 problems, and 0 kept"
    advice = "fewer than a step of the warm start takes (32). Raise its `samples`"
    for stage in ("rejection-sampling", "sft"):
        done = run_stage(stage, *few(tmp_path), check=False)
        assert done.returncode == TOO_FEW_CORRECT and "Traceback" not in done.stderr
        assert f"data.rejection_sampling: {accepted}: {advice}" in done.stdout + done.stderr
    assert not (tmp_path / "sft").exists()


def test_a_recipe_without_them_is_left_alone_or_told(tmp_path):
    given = [RECIPE, f"output_dir={tmp_path}"]
    quiet = run_stage("rejection-sampling", *given, "--if-needed")
    assert quiet.stdout == quiet.stderr == ""
    assert "it has no `data.rejection_sampling`: " in refused("rejection-sampling", *given)
    assert list(tmp_path.iterdir()) == []


def test_a_check_says_what_will_be_sampled(tmp_path):
    given = [RECIPE, f"output_dir={tmp_path}", *SHORT, "data.rejection_sampling.problems=24"]
    said = run_stage("check", *given, AUDIT="off").stdout
    assert "of the base model at temperature 1: at most 4,608 tokens" in said and "\nready" in said
