"""A probe, really run: it measures what GRPO would sample, resumes, grows, and tells GRPO what to
train on."""

import json
import shlex
import shutil
from pathlib import Path

import pandas as pd
import pytest

from evaluation.report import batches
from runs.writing import as_yaml
from schema.configs import without_place
from schema.recipe import load_recipe
from tests.support import (
    CHAIN,
    copied,
    has_lines,
    kill_when,
    read_lines,
    refused,
    run_stage,
    write_lines,
)
from tests.tables import cases
from training.problem_sets import load_train

RECIPE = "recipes/tiny-arithmetic.yaml"
SHORT = [
    *CHAIN,
    *shlex.split("""
    evaluate.batch_size=8 grpo.per_device_train_batch_size=16 grpo.num_generations=4
    grpo.temperature=1
"""),
]
CHOSEN = ["data.pass_rate=[0.25, 0.75]"]
pytestmark = pytest.mark.train


def tiny(folder: Path, *overrides: str) -> list[str]:
    return [RECIPE, f"output_dir={folder}", *SHORT, *overrides]


def probed(folder: Path) -> dict[str, dict]:
    return {line["problem"]: line for line in read_lines(folder / "probe/pass_rates.jsonl")[1:]}


@pytest.fixture(scope="module")
def run(chain, tmp_path_factory) -> Path:
    """The output folder of a short warm start and its probe."""
    folder = copied(chain, tmp_path_factory.mktemp("run"), "sft")
    said = run_stage("probe", *tiny(folder), "--problems", "24", "--samples", "4").stdout
    assert "probe completions: 96/96  0 s left" in said
    assert "| probe (n = 24 × 4) | pass rate |" in said and "| 4 of 4 | " in said
    assert "next: make grpo ARGS=" in said
    return folder


@pytest.fixture
def copy(run, tmp_path) -> Path:
    """The same as if it had been made in a folder of one test's own."""
    folder = Path(shutil.copytree(run, tmp_path / "copy"))
    file = folder / "probe/completions.jsonl"
    # its first line names the warm start
    file.write_text(file.read_text().replace(str(run), str(folder)))
    return folder


def test_a_probe_leaves_a_folder_a_person_can_read(run):
    rates = probed(run)
    assert len(rates) == 24 and {line["n"] for line in rates.values()} == {4}
    assert len({line["correct"] for line in rates.values()}) > 2  # or the tests below show nothing
    made = read_lines(run / "probe/completions.jsonl")
    assert made[0]["temperature"] == 1.0
    assert made[0]["max_new_tokens"] == 48
    assert made[0]["trained"].endswith("sft")
    for problem, line in rates.items():
        judged = [each["correct"] for each in made[1:] if each["problem"] == problem]
        assert len(judged) == 4 and sum(judged) == line["correct"]
        low, high = line["interval_95"]
        assert low <= line["pass_rate"] <= high
    figures = json.loads((run / "probe/summary.json").read_text())
    assert figures["problems"] == 24 and figures["completions"] == 96 and figures["group"] == 4
    assert figures["tokens"] == sum(each["tokens"] for each in made[1:])
    alike = sum(line["correct"] in (0, 4) for line in rates.values()) / 24
    assert figures["zero_variance_groups"] == pytest.approx(alike)
    rows = load_train(load_recipe(RECIPE, SHORT))[0]
    assert all(rows[line["id"]]["problem"] == problem for problem, line in rates.items())


def test_asked_again_it_answers_nothing_anew(copy):
    file = copy / "probe/completions.jsonl"
    before, rates = file.read_bytes(), probed(copy)
    said = run_stage("probe", *tiny(copy)).stdout
    assert "| probe (n = 24 × 4) |" in said and "probe completions: " not in said
    assert file.read_bytes() == before
    fewer = run_stage("probe", *tiny(copy), "--problems", 16, "--samples", 2).stdout
    assert "| probe (n = 16 × 2) |" in fewer
    more = run_stage("probe", *tiny(copy), "--problems", 24, "--samples", 6).stdout
    assert "probe completions: 144/144" in more and file.read_bytes().startswith(before)
    run_stage("probe", *tiny(copy), "--problems", "all", "--samples", 4)
    assert file.read_bytes().startswith(before)
    many = probed(copy)
    assert len(many) > 70
    assert all(many[problem]["correct"] == line["correct"] for problem, line in rates.items())


def test_a_killed_probe_goes_on_with_the_batch_it_stopped_at(copy):
    arguments = [*tiny(copy), "--problems", "40", "--samples", "4"]
    file = copy / "probe/completions.jsonl"
    file.unlink()
    kill_when(has_lines(file, 40), "probe", *arguments)
    at_the_kill = len(probed(copy))
    kept = file.read_text().rpartition("\n")[0]
    assert at_the_kill == 24  # the probe that was finished before still counts
    timed = file.with_suffix(".seconds.jsonl")
    before = len(batches(timed))
    timed.write_text(timed.read_text() + '{"seconds": 9')
    resumed = run_stage("probe", *arguments).stdout
    assert " 8/" not in resumed and "s left" in resumed
    # none is lost behind the torn line
    assert len(batches(timed)) - before == resumed.count("s left")
    killed = file.read_text()
    assert killed.startswith(kept)
    file.unlink()
    run_stage("probe", *arguments)
    assert file.read_text() == killed


@cases(__file__, "a_probe_of_something_else_is_not_mistaken_for_it")
def test_a_probe_of_something_else_is_not_mistaken_for_it(override, key, copy):
    given = tiny(copy, override, *CHOSEN)
    if override.startswith(("prompt", "data")):  # the warm start is then another, too
        recipe = load_recipe(given[0], given[1:])
        (copy / "sft/recipe.yaml").write_text(as_yaml(without_place(recipe.resolved())))
    reasons = {"grpo": "pass_rates.jsonl was measured", "probe": "was sampled"}
    if key == "weights":  # the answers of another policy are set aside, and this one is probed
        del reasons["probe"]
    for stage, reason in reasons.items():
        message = refused(stage, *given)
        changed = message.partition(f"{reason} with different settings (")[2].partition(")")[0]
        assert key in changed.split(", "), message
    assert not (copy / "grpo").exists()


def test_how_it_was_sampled_is_no_other_probe(copy):
    """The batch and the seed of a probe change its pass rates by chance alone."""
    given = tiny(copy, *CHOSEN, "evaluate.batch_size=4", "grpo.max_steps=1")
    assert "grpo: done" in run_stage("grpo", *given).stdout


def test_grpo_trains_on_the_chosen_problems_alone(copy):
    rates = {problem: line["pass_rate"] for problem, line in probed(copy).items()}
    chosen = {problem for problem, rate in rates.items() if 0.25 <= rate <= 0.75}
    assert 4 <= len(chosen) < 24
    said = run_stage("grpo", *tiny(copy, *CHOSEN)).stdout
    assert f"data: {len(chosen)} of the 24 problems that were probed (of 74 in all)" in said
    assert "have a pass rate from 0.25 to 0.75" in said
    assert f"grpo: {len(chosen)} problems, from " in said
    prompts = pd.read_parquet(copy / "grpo/completions")["prompt"]
    sampled = {messages[-1]["content"] for messages in prompts}
    assert len(sampled) >= 4 and sampled <= chosen


def test_another_probe_does_not_change_the_problems_of_a_run(copy):
    run_stage("grpo", *tiny(copy, *CHOSEN, "grpo.max_steps=1"))
    (copy / "grpo/summary.json").unlink()
    run_stage("probe", *tiny(copy), "--problems", "32")
    said = refused("grpo", *tiny(copy, *CHOSEN, "grpo.max_steps=1"))
    assert "or the probe that chose them" in said


def test_a_check_says_how_many_problems_are_left_and_what_grpo_would_refuse(copy):
    chosen = sum(0.25 <= line["pass_rate"] <= 0.75 for line in probed(copy).values())
    checked = run_stage("check", *tiny(copy, *CHOSEN), AUDIT="off").stdout
    assert f"data: {chosen} of the 24 problems" in checked
    hotter = refused("check", *tiny(copy, *CHOSEN, "grpo.temperature=0.5"))
    assert "was measured with different settings (temperature)" in hotter
    rates = copy / "probe/pass_rates.jsonl"
    write_lines(rates, read_lines(rates)[:-1])
    assert f"{rates} is not what a probe wrote" in refused("check", *tiny(copy, *CHOSEN))


def test_a_check_takes_a_probe_of_data_that_overlaps_with_a_benchmark(copy, tmp_path):
    write_lines(tmp_path / "exam.jsonl", [{"problem": next(iter(probed(copy))), "answer": 1}])
    given = tiny(copy, f"evaluate.benchmarks=[{tmp_path}/exam.jsonl]")
    shutil.rmtree(copy / "probe")
    assert "1 training problems dropped" in run_stage("probe", *given, "--problems", "8").stdout
    checked = run_stage("check", *given, "data.pass_rate=[0, 1]", AUDIT="off").stdout
    assert "data: 8 of the 8 problems that were probed (of 73 in all)" in checked


def test_a_choice_that_leaves_nothing_is_refused(copy):
    told = "data.pass_rate: 0 of the 24 problems that were probed (of 74 in all)"
    assert told in refused("grpo", *tiny(copy, "data.pass_rate=[0.3, 0.4]"))


def test_the_validation_problems_are_the_same():
    chosen, every = (load_train(load_recipe(RECIPE, [*SHORT, *words])) for words in (CHOSEN, []))
    assert chosen == every


def test_a_damaged_probe_is_one_message(copy):
    rates, completions = copy / "probe/pass_rates.jsonl", copy / "probe/completions.jsonl"
    head, *lines = read_lines(rates)
    write_lines(rates, [head | {"samples": 30_000_000}, *lines])
    many = "24 problems × 30,000,000 completions are more than the 10,000,000 that a probe may have"
    assert many in refused("probe", *tiny(copy))
    for stage in ("probe", "grpo"):
        write_lines(rates, [head | {"probed": "x"}, *lines])
        assert f"{rates} is not what a probe wrote" in refused(stage, *tiny(copy, *CHOSEN))
    rates.unlink()
    settings, *answers, _ = read_lines(completions)
    write_lines(completions, [settings, *answers, {}])
    assert f"{completions} is not what an evaluation wrote" in refused("probe", *tiny(copy))


def test_without_a_warm_start_the_base_model_is_probed(tmp_path):
    without = tiny(tmp_path, "sft=null", "seed=3")
    said = run_stage("probe", *without, "--problems", "4", "--samples", "2").stdout
    assert "4 of 74 problems × 2 completions of the base model" in said
    assert "| base | 0.0% |" in said and "| needs --samples 4 |" in said
    assert "advice: nearly every completion is incorrect" in said
