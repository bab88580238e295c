import json
import os
from pathlib import Path

import pytest

from console.faults import RecipeError
from data.identity import fingerprint
from evaluation import report
from evaluation.pages import page
from runs.records import find_runs, name_of
from runs.state import RunState
from schema.recipe import load_recipe
from schema.settings import to_show
from tests import made_runs
from tests.support import write_lines
from tests.tables import cases, lacking
from viewer import runs
from viewer.runs import changed, first_completions, pair, results


def describe(run: Path) -> dict:
    return runs.describe(RunState.read(run))


def curves(run: Path) -> dict:
    return runs.curves(RunState.read(run))


def about(run: Path) -> dict:
    return runs.about(RunState.read(run))


def advice(run: Path) -> list[dict]:
    return runs.advice(RunState.read(run))


def test_a_run_is_found_by_its_folder_or_the_one_above_and_else_the_newest(tmp_path):
    older, newer = (
        made_runs.run(tmp_path / "outputs/a"),
        made_runs.run(tmp_path / "outputs/b/seed-1"),
    )
    os.utime(older / "metrics.jsonl", (1, 1))
    assert find_runs([], tmp_path / "outputs") == [newer]
    # one that is named twice once
    assert find_runs([str(older), str(newer.parent), f"{newer}/"]) == [older, newer]
    warm = made_runs.warm_start(older.parent)
    assert find_runs([str(warm)], stages=("grpo", "sft")) == [warm]
    # of two in a folder, the policy
    assert find_runs([str(older.parent)], stages=("grpo", "sft")) == [older]
    assert name_of(older) == "a" and name_of(newer) == "b/seed-1"
    sft = str(older.with_name("sft"))
    mistakes = [
        (["nowhere"], "outputs", ["RUN=nowhere", f"{newer}, {older}"]),
        ([sft], "outputs", [f"RUN={sft}", f"RUN={older.parent}"]),
        ([], "empty", [f"{tmp_path}/empty", "make grpo"]),
    ]
    for runs_named, folder, facts in mistakes:
        with pytest.raises(RecipeError) as refused:
            find_runs(runs_named, tmp_path / folder)
        assert lacking(facts, str(refused.value)) == []


def test_a_run_is_described_with_trls_defaults(tmp_path):
    told = describe(made_runs.run(tmp_path, loss_type="grpo"))
    assert told["settings"]["scale_rewards"] == "group"  # trl's own default
    assert told["settings"]["loss_type"] == "grpo" and told["settings"]["num_generations"] == 8
    assert told["rewards"] == {"correct_answer": 1.0, "format_tags": 0.25}
    assert told["finished"] and told["evaluations"] == {"validation": ["base", "sft", "grpo"]}
    json.dumps(told, allow_nan=False)


def test_a_setting_of_the_page_is_one_that_a_run_saves():
    """Else the page would reckon with nothing."""
    recipe = load_recipe("recipes/tiny-arithmetic.yaml")
    assert set(runs.SETTINGS) <= recipe.resolved()["grpo"].keys()


@cases(__file__, "endings")
def test_how_a_run_ended_is_told(tmp_path, summary, stopped, result):
    path = made_runs.run(tmp_path)
    made_runs.write_json(path / "summary.json", summary)
    told = describe(path)
    assert (told["stopped"], told["result"]) == (stopped, result)


def test_what_is_logged_becomes_columns_whatever_a_line_holds(tmp_path):
    file = tmp_path / "metrics.jsonl"
    lines = [
        '{"step": 5, "reward": 0.5, "kl": NaN}',
        '{"step": 5, "eval_reward": 0.25, "eval_correct": "0110"}',
        '{"step": 10, "reward": Infinity}',
        "no JSON",
        '["step"]',
        '{"step": 15, "reward": 0.123456789',  # being written
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert curves(tmp_path) == {
        "step": [5, 10],
        "eval_reward": [0.25, None],
        "validation/high": [0.849961, None],
        "validation/low": [0.150039, None],
        "validation/n": [4, None],
        "reward": [0.5, None],
    }
    # resumed from an earlier checkpoint
    file.write_text('{"step": 1, "reward": 2.0}\n', encoding="utf-8")
    assert curves(tmp_path) == {"step": [1], "reward": [2.0]}


def test_an_evaluations_seconds_are_added_to_those_of_its_step(tmp_path):
    path = made_runs.run(tmp_path)
    lines = [{"step": 5, "reward": 1.0, "seconds/update": 2.0}]
    lines += [{"step": 5, "eval_reward": 0.5, "seconds/update": 0.5}]
    lines += [{"step": 5, "seconds/evaluation": 3.0}, {"step": 6, "seconds/update": 1.0}]
    write_lines(path / "metrics.jsonl", lines)
    found = curves(path)
    assert found["seconds/update"] == [2.5, 1.0] and found["seconds/evaluation"] == [3.0, None]


def test_the_questions_that_flipped_come_first(tmp_path):
    path = made_runs.run(tmp_path)
    answers = {label: first_completions(path, "validation", label) for label in ("sft", "grpo")}
    told = changed(answers, "sft", "grpo")
    kinds = ["won", "lost", "incorrect twice", "correct twice"]
    assert [(row["id"], row["kind"]) for row in told["rows"]] == list(enumerate(kinds))
    assert told["counts"] == dict.fromkeys(kinds, 1)
    both = pair(answers, "sft", "grpo", 0)
    assert [each["text"] for each in both["answers"]] == ["sft says 0", "grpo says 0"]
    assert [each["correct"] for each in both["answers"]] == [False, True] and both["gold"] == "7"


@pytest.mark.parametrize("label", ["grpo", "elsewhere"])
def test_a_report_says_which_problems_a_run_was_trained_on(label, tmp_path):
    """A stage, or another recipe's run; but not on those that its benchmarks removed."""
    path = made_runs.run(tmp_path)
    folder = path.parent / "eval/validation"
    if label != "grpo":
        first, *answers = (folder / "grpo.jsonl").read_text().splitlines()
        first = json.dumps(json.loads(first) | {"model": str(path)})
        (folder / f"{label}.jsonl").write_text("\n".join([first, *answers]) + "\n")
    compared = report.compare(folder, [label])
    asked = {fingerprint(answers[0]) for answers in compared[label].problems.values()}
    data = {"train": " ".join(asked), "overlapping": ""}
    (path / "data.json").write_text(json.dumps(data))
    line = f"**{label} was trained on {len(asked)} of these {len(asked)} problems.**"
    assert line in page("benchmark.md", report.benchmark(folder, compared))
    (path / "data.json").write_text(json.dumps(data | {"overlapping": " ".join(asked)}))
    assert report.benchmark(folder, compared)["trained_on"] == {}


def test_a_result_is_that_of_the_report(tmp_path):
    path = made_runs.run(tmp_path)
    (told,) = results(path)
    compared = report.compare(path.parent / "eval/validation", ["base", "sft", "grpo"])
    accuracies = {model["label"]: model["accuracy"] for model in told["models"]}
    assert accuracies == {"base": 0, "sft": 0.5, "grpo": 0.5}
    verdicts = [[*pair, text] for pair, (_, text) in report.changes(compared).items()]
    assert told["verdicts"] == verdicts
    text_of_report = page(
        "benchmark.md", report.benchmark(path.parent / "eval/validation", compared)
    )
    assert all(f"→ {b}: {text}" in text_of_report for _, b, text in told["verdicts"])
    kinds = ("won", "lost", "incorrect twice", "correct twice")
    assert told["flips"]["counts"] == dict.fromkeys(kinds, 1)
    assert told["headline"]["gain"] == "No sure change" and told["warnings"] == []
    assert [told["story"][key] for key in ("id", "question", "gold")] == [0, "Question 0", "7"]
    assert [each["text"] for each in told["story"]["answers"]] == ["sft says 0", "grpo says 0"]
    assert "why" not in told
    (path / "model.safetensors").write_bytes(b"other weights")
    assert results(path)[0]["why"].startswith("The answers belong to other weights")
    answers = path.parent / "eval/validation/sft.jsonl"
    made_runs.replace_text(answers, '"max_new_tokens": 40', '"max_new_tokens": 41')
    reason = "sft and base cannot be compared: they differ in max_new_tokens"
    assert results(path)[0]["why"] == reason


def test_a_run_says_what_it_was_made_of(tmp_path):
    path = made_runs.run(tmp_path, logging_steps=7)
    (path / "data.json").write_text('{"problems": 5, "sha256": "ab"}', encoding="utf-8")
    told = about(path)
    assert told["recipe"]["grpo.logging_steps"] == told["filled"]["grpo.logging_steps"] == "7"
    assert "grpo.beta" not in told["recipe"] and told["filled"]["grpo.beta"] == "0.0"
    assert told["recipe"]["grpo.num_generations"] == "8"  # trl's default, and yet of interest
    assert to_show("adapter", {"r": 8, "bias": "none"}) == {"r": 8}
    assert told["data"] == {"problems": "5", "sha256": "ab"}
    assert told["versions"]["hardware"] == "a CPU"


def test_the_page_has_the_runs_advice(tmp_path):
    run = made_runs.run(tmp_path)
    assert [sentence["rule"] for sentence in advice(run)] == ["fell"]  # its made-up values do
    sick = {"completions/clipped_ratio": 0.5, "reward": 0.1}
    write_lines(run / "metrics.jsonl", [{"step": step} | sick for step in range(1, 20)])
    told = advice(run)
    assert [(each["rule"], each["step"]) for each in told] == [("truncated", 8)]
    assert "grpo.max_completion_length (now 40)" in told[0]["message"]
