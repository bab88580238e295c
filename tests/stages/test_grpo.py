"""The whole road, really run: tiny models train, save, resume and are evaluated."""

import json
import re
import shlex
import shutil
import sys
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from transformers import AutoTokenizer

from data.problems import weighted
from schema.configs import ACCURACY
from schema.recipe import load_recipe
from tests.made_runs import change_json
from tests.support import (
    CHAIN,
    ROOT,
    copied,
    kill_when,
    read_lines,
    refused,
    run_program,
    run_stage,
    same_weights,
    weights,
    write_lines,
)
from tests.viewer.browser import data_of
from tests.waits import capture
from training.model import load_tokenizer
from training.problem_sets import load_train
from training.watch import PARTS


def tiny(folder: Path, *overrides: str) -> list[str]:
    return ["recipes/tiny-arithmetic.yaml", f"output_dir={folder}", *CHAIN, *overrides]


def test_a_stage_says_how_it_went_and_what_is_next(chain):
    sft, grpo, evaluation = (
        (chain / "said" / stage).read_text() for stage in ("sft", "grpo", "evaluate")
    )
    assert "next: make grpo" in sft and "next: make evaluate" in grpo
    assert "│" not in grpo  # trl would print its completions as a table
    parts = r"sampling [1-9][\d.]*%, rewards [\d.]+%, update [1-9][\d.]*%, "
    assert re.search(rf"grpo: trained for \d+ s: {parts}", grpo)
    assert "| grpo |" in evaluation
    person, table = evaluation.split("| validation (n = 16) |")
    gains = person[person.index("validation: ") :].splitlines()
    shares = " → ".join(rf"{stage} [\d.]+%" for stage in ("base", "sft", "grpo"))
    assert re.fullmatch(f"validation: {shares}", gains[0])
    assert "of 100 problems correct" in gains[1] and f"page: {chain}/grpo/page.html" in person
    last = table.splitlines()[-1]
    assert "next: make view RUN=" in grpo and "next: make view RUN=" in last
    for stage, said in (("sft", sft), ("grpo", grpo)):
        assert f"{stage}: page in {chain}/{stage}/page.html" in said
    assert f"page: {chain}/grpo/page.html" in evaluation


@pytest.mark.train
def test_a_run_writes_its_page_at_each_evaluation_and_at_its_end(chain, tmp_path):
    copied(chain, tmp_path, "sft")
    file = tmp_path / "grpo/page.html"
    settings = "grpo.max_steps=6 grpo.eval_steps=2 evaluate.checkpoint_problems=8"
    arguments = tiny(tmp_path, *settings.split())
    kill_when(file.is_file, "grpo", *arguments)
    answers = data_of(file.read_text())
    assert not answers["runs"][0]["finished"]
    last = answers["0/curves"]["step"][-1]
    assert last in (2, 4, 6) and answers["0/curves"]["validation/n"][-1] == 8
    assert max(group["step"] for group in answers["0/groups"]["groups"]) == last
    run_stage("grpo", *arguments)
    answers = data_of(file.read_text())
    assert answers["runs"][0]["finished"] and answers["0/curves"]["step"][-1] == 6
    assert answers["0/results"] == []
    run_stage("evaluate", *arguments, "--validation")
    [result] = data_of(file.read_text())["0/results"]
    assert [model["label"] for model in result["models"]] == ["base", "sft", "grpo"]


def test_a_run_leaves_a_folder_a_person_can_read(chain):
    files = {"recipe.yaml", "versions.json", "metrics.jsonl", "summary.json", "model.safetensors"}
    for stage in ("sft", "grpo"):
        assert files <= {file.name for file in (chain / stage).iterdir()}
    assert not same_weights(chain / "sft", ROOT / "outputs/models/tiny-qwen3-seed42")
    assert not same_weights(chain / "grpo", chain / "sft")
    metrics = read_lines(chain / "grpo/metrics.jsonl")
    assert [line["step"] for line in metrics if "reward" in line] == list(range(1, 9))
    assert "rewards/correct_answer/mean" in metrics[0]
    summary = json.loads((chain / "grpo/summary.json").read_text())
    assert "resumed_from" not in summary and "stopped" not in summary
    time = summary["time"]
    assert sum(part["share"] for part in time.values()) == pytest.approx(1, abs=0.001)
    assert {name for name in time if time[name]["seconds"]} == {*PARTS}
    logged = sum(line["seconds/sampling"] for line in metrics)
    assert time["sampling"]["seconds"] == pytest.approx(logged, abs=0.001)
    completions = pd.read_parquet(chain / "grpo/completions/completions_00001.parquet")
    assert len(completions) == 32
    columns = {"step", "prompt", "completion", "correct_answer", "format_tags", "advantage"}
    assert set(completions.columns) == columns | {"gold", "tokens", "truncated"}
    tokenizer = AutoTokenizer.from_pretrained(chain / "grpo")
    for row in completions.itertuples():
        a, b = map(int, re.findall(r"\d+", row.prompt[0]["content"]))
        assert int(row.gold) == a + b
        ends = not row.truncated  # with a token of its own
        assert row.tokens == len(tokenizer(row.completion[0]["content"])["input_ids"]) + ends
    assert not completions["truncated"].all()
    assert json.loads((chain / "grpo/versions.json").read_text())["packages"]["trl"] == "1.16.0"
    items = read_lines(chain / "eval/validation/grpo.jsonl")[1:]
    assert sorted(item["id"] for item in items) == list(range(16))
    assert json.loads((chain / "eval/validation/summary.json").read_text())["grpo"]["n"] == 16


ASKS = """
import os, runpy, sys
os.dup2(os.open("%s", os.O_RDONLY), sys.stdin.fileno())
sys.argv.insert(1, "chat")
runpy.run_module("stages", run_name="__main__", alter_sys=True)
"""


def test_its_policy_can_be_asked_and_answers_as_in_the_evaluation(chain, tmp_path):
    lines = read_lines(chain / "eval/validation/grpo.jsonl")[1:4]
    text = "/gold 5\n"
    for line in lines:
        text += f"{line['problem']}\n/gold {line['gold']}\n/gold no\x1b[2Jne\n"
    text += "/gold\n/help\n/gld 5\n" + "9" * 200_000 + "\n\xff\0\n\nnot asked any more\n"
    (tmp_path / "asked").write_bytes(text.encode("latin-1"))
    (tmp_path / "chat.py").write_text(ASKS % (tmp_path / "asked"))
    said = run_program(tmp_path / "chat.py", chain / "grpo").stdout
    early, *answers, bare, commands, unknown, too_long, _ = (
        answer.partition("\n")[2].strip() for answer in said.split("\n> ")[1:]
    )
    assert answers[::3] == [line["completion"] for line in lines]
    for answer, line in zip(answers[1::3], lines, strict=True):
        word = "correct" if line["correct"] else "incorrect"
        assert answer == f"{word}: {line['reason']} (read: {line['answer']})"
    assert all(answer.startswith("incorrect: ") for answer in answers[2::3])
    assert early == f"ask a question first, then {bare}"
    assert bare == "give its correct answer: /gold 42"
    assert too_long.startswith("too long: at most")
    assert unknown == f"there is no /gld:\n{commands}"
    assert all(f"{command} " in commands for command in ("/gold 42", "/help", "empty line"))
    assert "\n> \\xff\\x00\n" in said
    assert f"make merge RECIPE={chain}/grpo/recipe.yaml ARGS=output_dir={chain}, then" in said


def test_a_finished_run_is_left_alone(chain):
    before = (chain / "grpo/model.safetensors").stat().st_mtime_ns
    assert "finished already" in run_stage("grpo", *tiny(chain)).stdout
    assert (chain / "grpo/model.safetensors").stat().st_mtime_ns == before


IMPORTED = """
import runpy, sys
runpy.run_module("stages", run_name="__main__", alter_sys=True)
print(sorted({"torch", "transformers", "trl", "peft", "datasets", "accelerate"} & set(sys.modules)))
"""


def test_the_stages_of_a_finished_run_import_no_library_that_trains(chain, tmp_path):
    """So `make grpo` is soon at the table of a finished run, which is the one that was shown at
    first."""
    copied(chain, tmp_path, "sft", "grpo")
    recipe = tiny(tmp_path)
    first = run_stage("evaluate", *recipe, "--validation").stdout
    commands = ["check --fast --stages sft grpo evaluate", "rejection-sampling --if-needed"]
    for command in [*commands, "sft --if-needed", "grpo"]:
        stage, *options = command.split()
        program = [sys.executable, "-c", IMPORTED, stage, *recipe, *options]
        done = capture(program)
        libraries = done.stdout.splitlines()[-1]
        assert (done.returncode, libraries) == (0, "[]"), (command, done.stderr)
    again = run_stage("evaluate", *recipe, "--validation").stdout
    assert "| grpo |" in first and again.splitlines()[-12:] == first.splitlines()[-12:]


def test_answers_are_compared_again_once_something_has_changed(chain, tmp_path):
    """A tokenizer's template, the prompt, an answer; each is seen although all was complete
    before."""
    base = copied(chain, tmp_path, "sft") / "base"
    (tmp_path / "sft").rename(base)
    recipe = tiny(tmp_path / "run", f"model.name_or_path={base}", "model.build=null")
    file, template = tmp_path / "run/eval/validation/base.jsonl", base / "chat_template.jinja"
    evaluate = ("evaluate", *recipe, "--validation")
    run_stage(*evaluate)
    answers, unchanged = file.read_text(), template.read_text()
    file.write_text("".join(answers.splitlines(keepends=True)[:-1]))
    run_stage(*evaluate)
    assert file.read_text() == answers
    file.unlink()
    run_stage(*evaluate)
    assert file.read_text() == answers
    assert "different settings (prompt)" in refused(*evaluate, "prompt.system=Add.")
    template.write_text(f"{unchanged} ")
    assert "different settings (prompt)" in refused(*evaluate)
    template.write_text(unchanged)
    run_stage(*evaluate)
    assert file.read_text() == answers


def test_a_finished_run_that_ended_early_says_why_again(chain, tmp_path):
    run = copied(chain, tmp_path, "sft", "grpo")
    change_json(run / "grpo/summary.json", stopped="grpo: stopped at step 3: flat")
    said = run_stage("grpo", *tiny(tmp_path)).stdout
    assert said == f"grpo: finished already, in {tmp_path}/grpo\ngrpo: stopped at step 3: flat\n"


def test_a_finished_run_that_was_killed_before_its_report_gets_it(chain, tmp_path):
    run = copied(chain, tmp_path, "sft", "grpo") / "grpo"
    for name in ("report.md", "page.html"):
        (run / name).unlink()
    said = run_stage("grpo", *tiny(tmp_path)).stdout
    assert f"grpo: report in {run}/report.md\ngrpo: page in {run}/page.html" in said
    assert (run / "report.md").is_file() and (run / "page.html").is_file()


def test_a_run_is_not_resumed_with_other_training_problems(chain, tmp_path):
    copied(chain, tmp_path, "sft", "grpo")
    (tmp_path / "grpo/summary.json").unlink()
    exam = tmp_path / "exam.jsonl"
    completions = pd.read_parquet(chain / "grpo/completions/completions_00001.parquet")
    write_lines(exam, [{"problem": completions["prompt"][0][0]["content"], "answer": 1}])
    message = refused("grpo", *tiny(tmp_path, f"evaluate.benchmarks=[{exam}]"))
    assert "began with 74 training problems, which are not these 73" in message


def test_an_unfinished_run_goes_on_and_ends_with_the_same_weights(chain, tmp_path):
    """Resumed at a generation boundary, to the bit."""
    copied(chain, tmp_path, "sft", "grpo")
    for name in ("summary.json", "model.safetensors"):
        (tmp_path / "grpo" / name).unlink()
    shutil.rmtree(tmp_path / "grpo/checkpoint-8")
    done = run_stage("grpo", *tiny(tmp_path))
    assert "checkpoint-6" in done.stdout
    assert same_weights(tmp_path / "grpo", chain / "grpo")
    steps = [line["step"] for line in read_lines(tmp_path / "grpo/metrics.jsonl")]
    assert steps == sorted(steps)
    assert steps[:8] == [*range(1, 9)]
    before, after = (read_lines(folder / "grpo/metrics.jsonl") for folder in (chain, tmp_path))
    expected = [line["seconds/update"] for line in after[:6]]
    assert [line["seconds/update"] for line in before[:6]] == expected
    time = json.loads((tmp_path / "grpo/summary.json").read_text())["time"]
    wanted = pytest.approx(sum(line["seconds/update"] for line in after), abs=0.001)
    assert time["update"]["seconds"] == wanted


def test_the_benchmarks_have_a_control_and_a_users_file_can_be_one(chain, tmp_path):
    copied(chain, tmp_path, "sft", "grpo")
    (tmp_path / "grpo/summary.json").unlink()
    exam = tmp_path / "my-exam.jsonl"
    write_lines(exam, [{"problem": f"What is {i} + 21?", "answer": i + 21} for i in (30, 41)])
    sampled = "arithmetic: {digits: 1, samples: 2, temperature: 1.5, top_p: 0.9, limit: 3}"
    benchmarks = f"evaluate.benchmarks=[{exam}, arithmetic: {{digits: 1}}, {sampled}]"
    out = run_stage("evaluate", *tiny(tmp_path, benchmarks, "evaluate.limit=5")).stdout
    assert "(n = 3 × 2, temperature `1.5`, top_p `0.9`) | avg@2 |" in out
    assert "left out, for it is not finished: grpo\n" in out
    assert "my-exam (n = 2)" in out and "arithmetic-digits-1 (n = 5)" in out
    assert "| base+example |" in out and "format or reasoning? base → sft, strict" in out
    head = read_lines(tmp_path / "eval/my-exam/base+example.jsonl")[0]
    assert head["example"].startswith("What is ")


@pytest.mark.train
def test_the_best_checkpoint_by_validation_accuracy_is_kept(chain, tmp_path):
    """Greedy, on the problems and by the verifier of the evaluation: both measure the same
    accuracy."""
    copied(chain, tmp_path, "sft")
    settings = "grpo.max_steps=4 grpo.eval_steps=2 evaluate.checkpoint_problems=10"
    arguments = tiny(tmp_path, *settings.split(), "grpo.learning_rate=3e-3")
    done = run_stage("grpo", *arguments)
    # which transformers says of a greedy answer with settings of sampling
    assert "generation flags" not in done.stderr
    lines = read_lines(tmp_path / "grpo/metrics.jsonl")
    measured = {line["step"]: line[ACCURACY] for line in lines if ACCURACY in line}
    assert list(measured) == [2, 4]
    assert not any("eval_zero_variance_groups" in line for line in lines)
    correct = [line["eval_correct"].count("1") / 10 for line in lines if ACCURACY in line]
    assert correct == pytest.approx(list(measured.values()))
    summary = json.loads((tmp_path / "grpo/summary.json").read_text())
    assert summary["time"]["evaluation"]["seconds"] > 0
    # the last one too has no answers of the evaluation after it
    for file in (tmp_path / "grpo/completions").iterdir():
        prompts = pd.read_parquet(file)["prompt"]
        assert {*Counter(prompt[-1]["content"] for prompt in prompts).values()} == {8}, file.name
    best = max(measured, key=lambda step: (measured[step], -step))
    assert f"step 2: validation accuracy {measured[2]:.1%}" in done.stdout
    assert summary["best_checkpoint"].endswith(f"checkpoint-{best}")
    assert same_weights(tmp_path / "grpo", tmp_path / f"grpo/checkpoint-{best}")
    assert "(n = 6)" in run_stage("evaluate", *arguments, "--validation").stdout  # the others
    message = refused("evaluate", *tiny(tmp_path), "--validation")
    assert "grpo.eval_steps: 2 there, 40 here" in message  # another recipe's
    run_stage("evaluate", *tiny(tmp_path), "--validation", "--model", tmp_path / "grpo")
    items = read_lines(tmp_path / "eval/models/validation/grpo.jsonl")[1:]
    choosing = [item["correct"] for item in items if item["id"] < 10]
    assert sum(choosing) / 10 == pytest.approx(measured[best])


def test_any_model_is_evaluated_with_the_recipes_prompt(chain, tmp_path):
    """A whole model named by its folder answers as it does as a stage of the recipe."""
    copied(chain, tmp_path, "grpo")
    run_stage("evaluate", *tiny(tmp_path), "--validation", "--model", tmp_path / "grpo")
    files = (tmp_path / "eval/models/validation/grpo.jsonl", chain / "eval/validation/grpo.jsonl")
    ours, theirs = (file.read_text().splitlines()[1:] for file in files)
    assert ours == theirs


MINE = """
def short_proofs(completions, limit=10, **columns):
    return [float(len(completion[0]["content"]) < limit) for completion in completions]

def trls(prompts, completions, answer, **kwargs):
    return [float(len(prompts[i][-1]["content"]) + len(answer[i])) for i in range(len(prompts))]

def by_level(completions, level, **columns):
    return [1.0]

def length_share(completion_ids, completions, **columns):
    return [len(ids) / 64 for ids in completion_ids]

def puzzles(split):
    return [{"problem": f"{i} + 1?", "answer": i + 1, "reasoning": "count"} for i in range(60)]
"""


def test_a_reward_and_a_data_set_of_ones_own(tmp_path, own_file):
    own_file("mine.py", MINE)
    file = tmp_path / "odd.csv"
    rows = "".join(rf"{i} + 1?,\\frac{{1}}{{2004!}}" "\n" for i in range(60, 70))
    file.write_text(f"Query,label\n{rows}")
    overrides = [f"data.train=[mine.puzzles: {{weight: 2}}, {file}: {{limit: 8}}]"]
    overrides += shlex.split("""
        data.validation=16 rewards.mine.short_proofs='{weight: 0.5, limit: 20}' sft.max_steps=1
        rewards.mine.trls='{weight: 0.5}' grpo.max_steps=1
    """)
    arguments = tiny(tmp_path / "out", *overrides)
    for stage in ("sft", "grpo"):
        done = run_stage(stage, *arguments)
        assert f"data: {file} train: 8 problems (Query → problem, label → answer)" in done.stdout
    problems = load_train(load_recipe(arguments[0], arguments[1:]))[0]
    assert f"grpo: {len(weighted(problems))} problems" in done.stdout
    assert len(weighted(problems)) > len(problems)
    metrics = read_lines(tmp_path / "out/grpo/metrics.jsonl")[0]
    assert "rewards/short_proofs/mean" in metrics and "rewards/trls/mean" in metrics


def test_a_reward_whose_column_the_data_lacks_leaves_no_run_behind(tmp_path, own_file):
    own_file("mine.py", MINE)
    message = refused("grpo", *tiny(tmp_path / "out", "sft=null", "rewards={mine.by_level: {}}"))
    line = "mine.by_level: needs the argument 'level', which no column of the data has"
    assert line in message
    assert not (tmp_path / "out").exists()


@pytest.mark.train
@pytest.mark.parametrize(("processes", "batch"), [(1, (24, 1)), (2, (24, 1)), (2, (12, 2))])
def test_two_processes_share_a_step_and_its_groups(processes, batch, tmp_path, own_file):
    """A step has as many completions as with one process, and the rewards of a group that is split
    over both are normalised together."""
    overrides = shlex.split("""
        grpo.num_generations=8 grpo.max_steps=1 rewards='{mine.length_share: {}}'
    """)
    keys = ("per_device_train_batch_size", "gradient_accumulation_steps")
    overrides += [f"grpo.{key}={number}" for key, number in zip(keys, batch, strict=True)]
    own_file("mine.py", MINE)
    arguments = tiny(tmp_path / "out", "sft=null", *overrides)
    run_stage("grpo", *arguments, processes=processes)
    completions = pd.read_parquet(tmp_path / "out/grpo/completions/completions_00001.parquet")
    assert len(completions) == 24
    groups = completions.groupby(completions["prompt"].map(str))
    # Three groups of eight over two processes of twelve: the middle one has four on each.
    assert sorted(groups.size()) == [8, 8, 8]
    for _, group in groups:
        rewards, advantages = group["length_share"], group["advantage"].to_numpy()
        expected = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
        assert advantages == pytest.approx(expected.to_numpy(), abs=1e-4)
    assert (tmp_path / "out/grpo/summary.json").is_file()


@pytest.mark.train
@pytest.mark.parametrize(
    "recipe", ["qwen-7b-qlora", pytest.param("qwen-math-lora", marks=pytest.mark.slow)]
)
def test_a_gpu_recipe_trains_a_step_with_a_tiny_model_in_its_place(
    recipe, tiny_qwen2, math_data, tmp_path
):
    overrides = [f"model.name_or_path={tiny_qwen2}", f"data.dir={math_data}"]
    overrides += [f"output_dir={tmp_path}"]
    overrides += shlex.split("""
        model.build=null data.validation=8 data.rejection_sampling=null grpo.max_steps=1
        grpo.max_completion_length=24 grpo.use_vllm=false grpo.gradient_accumulation_steps=1
        grpo.num_generations=4 grpo.logging_steps=1 grpo.vllm_enable_sleep_mode=false
        evaluate.limit=4 grpo.eval_steps=1 evaluate.checkpoint_problems=4
        evaluate.engine=transformers
    """)
    path = f"recipes/{recipe}.yaml"
    if warm := load_recipe(path).sft is not None:
        overrides.append("sft.max_steps=1")
        run_stage("sft", path, *overrides)
    run_stage("grpo", path, *overrides)
    run_stage("evaluate", path, *overrides)
    adapter = json.loads((tmp_path / "grpo/adapter_config.json").read_text())
    adapted = {name.rpartition(".")[2] for name in adapter["target_modules"]}
    assert adapted == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert "best_checkpoint" in json.loads((tmp_path / "grpo/summary.json").read_text())
    trained = [weights(tmp_path / stage) for stage in ("sft", "grpo")[not warm :]]
    first, last = trained[0], trained[-1]
    assert first.keys() == last.keys()
    # trl would make a quantised model's bfloat16, and a resumed run would go on in float32.
    for adapter in trained:
        assert {weight.dtype.name for weight in adapter.values()} == {"float32"}
    if warm:
        assert any(abs(first[name]).max() > 0 for name in first if "lora_B" in name)
    if recipe == "qwen-math-lora":
        assert "merged model in" in run_stage("merge", path, *overrides).stdout
        assert (tmp_path / "merged/model.safetensors").is_file()  # in bfloat16, which numpy lacks
        ours = load_tokenizer(load_recipe(path, overrides))
        merged = AutoTokenizer.from_pretrained(tmp_path / "merged")
        expected = (ours.chat_template, ours.eos_token)
        assert (merged.chat_template, merged.eos_token) == expected  # docs/evaluation.md
