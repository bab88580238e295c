"""Finished runs side by side: numbers worked out by hand, and what cannot be compared."""

import json
import shutil
from pathlib import Path

import pytest

from console.faults import RecipeError
from evaluation.compare_runs import comparison, difference, read_arms
from runs.state import read_run
from stages import compare
from tests import made_runs as made
from tests.evaluation.test_report import answers
from tests.tables import cases

STEPS = 4  # of a run that is made


def run(folder: Path, correct: int = 50, seed: int = 1, n: int = 100, **grpo) -> Path:
    """A finished run in a recipe's folder, whose policy has the first `correct` of n validation
    problems correct, and whose warm start had 40. Its answers have 7 tokens each, and had 10."""
    path = made.run(folder, steps=STEPS, **grpo)
    (path / "data.json").write_text('{"problems": 9}')
    text = (path / "recipe.yaml").read_text()
    (path / "recipe.yaml").write_text(text.replace("seed: 1", f"seed: {seed}"))
    for label, share, tokens in (("base", 0, 12), ("sft", 40, 10), ("grpo", correct, 7)):
        answers(folder / "eval/validation", label, [i < share for i in range(n)], tokens=tokens)
    return folder


def arms_of(folder: Path, *names: str) -> list:
    return read_arms([str(folder / name) for name in names])


def table(arms: list) -> list[str]:
    return comparison(arms).splitlines()


def test_what_each_run_cost_and_reached(tmp_path):
    other = run(tmp_path / "outputs/b/", correct=70, num_iterations=2, logging_steps=2)
    arms = read_arms([str(run(tmp_path / "outputs/a")), str(other / "grpo")])
    lines = table(arms)
    name = str(tmp_path).strip("/")
    before = "40.0% (30.9% to 49.8%)"  # Wilson's
    first = f"| {name}/a | 1 | 4 | 96 | 100 | {before} → 50.0% (40.4% to 59.6%) "
    second = f"| {name}/b | 1 | 4 | 48 | 100 | {before} → 70.0% (60.4% to 78.1%) "
    assert lines[2:4] == [f"{line}| 10 → 7 | 25.0% | 3 s |" for line in (first, second)]
    assert lines[5] == f"| setting | {name}/a | {name}/b |"
    assert lines[7] == "| `grpo.logging_steps` | `5` | `2` |"  # our default, not trl's
    assert lines[8] == "| `grpo.num_iterations` | `1` | `2` |"
    # 20 problems won of 100: a standard error of sqrt(0.2 · 0.8 / 99), and p = 2 / 2^20.
    expected = [f"- {name}/a → {name}/b: +20.0 ± 8.0 points (n = 100, 20 won, 0 lost, p = 1.9e-06)"]
    assert lines[10:] == expected


def test_seeds_are_one_arm_and_paired_with_themselves(tmp_path):
    for recipe, beta, correct in (("a", 0.0, (50, 60, 70)), ("b", 0.5, (60, 75, 80))):
        for seed, each in enumerate(correct, 1):
            run(tmp_path / recipe / f"seed-{seed}", correct=each, seed=seed, beta=beta)
    arms = arms_of(tmp_path, "a", "b")
    assert [len(arm.runs) for arm in arms] == [3, 3]
    assert arms[0].name.endswith("/a/seed-*") and arms[1].name.endswith("/b/seed-*")
    # Student's t of two degrees of freedom is 4.303: 10 points of standard deviation over sqrt(3).
    assert "| 1 2 3 | 4 | 96 | 100 | 40.0% ± 0.0 → 60.0% ± 24.8 | 10 → 7 |" in table(arms)[2]
    assert difference(*arms) == "+11.7 ± 7.2 points over 3 seeds in common"
    one = arms_of(tmp_path, "a/seed-2", "b")
    assert len(one[0].runs) == 1
    assert difference(*one).startswith("seed 2 alone: +15.0 ± 7.2 points (n = 100, 15 won, 0 lost")
    two = arms_of(tmp_path, "a/seed-1", "a/seed-2", "b")
    assert [len(arm.runs) for arm in two] == [2, 3]


def test_warm_starts_are_compared_too(tmp_path):
    for name, correct in (("a", 40), ("b", 55)):
        folder = run(tmp_path / name)
        shutil.copytree(folder / "grpo", folder / "sft")
        shutil.rmtree(folder / "sft/completions")
        answers(folder / "eval/validation", "sft", [i < correct for i in range(100)])
    own = {"steps": STEPS, "seconds": 3.0, "rejection_sampling": {"completions": 96, "kept": 7}}
    made.write_json(tmp_path / "b/sft/summary.json", own)
    arms = arms_of(tmp_path, "a/sft", "b/sft")
    first, second = (line.split(" | ") for line in table(arms)[2:4])
    assert first[0].endswith("/a/sft") and second[0].endswith("/b/sft")
    assert (first[3], second[3]) == ("0", "96")  # completions, sampled of nobody and of its own
    assert first[5].startswith("0.0% (") and second[5].startswith("0.0% (")  # the base
    assert difference(*arms).startswith("+15.0 ")


def test_seeds_that_each_sample_their_own_warm_start_are_one_arm(tmp_path):
    for seed in (1, 2):
        recipe = run(tmp_path / f"a/seed-{seed}", seed=seed) / "grpo/recipe.yaml"
        own = f"data: {{rejection_sampling: {{model: outputs/w/seed-{seed}/sft}}}}\n"
        recipe.write_text(recipe.read_text() + own)
    run(tmp_path / "b")
    assert [len(arm.runs) for arm in arms_of(tmp_path, "a", "b")] == [2, 1]


def asked(folder: Path):
    file = folder / "eval/validation/grpo.jsonl"
    for each in file.parent.glob("*.jsonl"):
        each.write_text(each.read_text().replace('"problems": "p"', '"problems": "q"', 1))


def other_seed(folder: Path):
    made.replace_text(folder / "grpo/recipe.yaml", "seed: 1", "seed: 2")


def replace(name: str, content: str):
    return lambda folder: (folder / name).write_text(content)


NOT_COMPARED = {
    "no seed in common": other_seed,
    "they were asked differently (problems)": asked,
    "evaluated with other weights": replace("grpo/model.safetensors", "other weights"),
    "not evaluated": lambda folder: (folder / "eval").rename(folder / "gone"),
    "its answers cannot be compared": replace("eval/validation/grpo.jsonl", "{\n"),
}


@pytest.mark.parametrize("why", NOT_COMPARED)
def test_what_is_not_the_same_question_is_not_compared(why, tmp_path):
    run(tmp_path / "a")
    NOT_COMPARED[why](run(tmp_path / "b"))
    last = table(arms_of(tmp_path, "a", "b"))[-1]
    assert "not compared: " in last and why in last


@cases(__file__, "completions_are_counted")
def test_completions_are_counted(grpo, step, again, expected, tmp_path):
    """`again`: (step, extra completions of dynamic sampling as a share of a batch)."""
    folder = run(tmp_path / "a", **grpo) / "grpo"
    if again:
        lines = [{"step": step, "sampled_again": share} for step, share in again]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_run(folder).completions_until(step) == expected


@cases(__file__, "what_is_no_run_is_one_message")
def test_what_is_no_run_is_one_message(names, message, tmp_path):
    run(tmp_path / "a")
    (run(tmp_path / "begun") / "grpo/summary.json").unlink()
    (run(tmp_path / "torn") / "grpo/data.json").write_text("{")
    for folder, seeds, betas in (("mixed", (1, 2), (0.0, 0.1)), ("twice", (1, 1), (0.0, 0.0))):
        for i in (0, 1):
            run(tmp_path / folder / f"seed-{i + 1}", seed=seeds[i], beta=betas[i])
    with pytest.raises(RecipeError) as error:
        arms_of(tmp_path, *names)
    assert message in str(error.value) and len(str(error.value).splitlines()) == 1


def test_the_stage_writes_a_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(Path("outputs/a"))
    run(Path("outputs/b"))
    compare.main(["outputs/a", "outputs/b"])
    assert "| a | 1 | 4 | 96 |" in capsys.readouterr().out
    page = Path("outputs/compare/report.md").read_text()
    line = "- a → b: no significant change (+0.0 ± 0.0 points, n = 100, 0 won, 0 lost, p = 1)"
    assert line in page


def test_what_a_strangers_run_says_is_text(tmp_path):
    folder = run(tmp_path / "b", loss_type="x|<img>\x1b]0;\x07`")
    made.write_json(folder / "grpo/versions.json", {"hardware": ["|"]})
    lines = table(read_arms([str(run(tmp_path / "a")), str(folder)]))
    assert all("\x1b" not in line for line in lines)
    assert lines[3].count("|") == lines[2].count("|")
    assert any(r"`x\|<img>" in line for line in lines)
