"""`make check`: what is wrong with a recipe is found before a weight is loaded."""

import contextlib
import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from data import imports, made
from evaluation import audit, findings
from evaluation.findings import USUAL_TOKENS, hours_of_run, tokens_per_second
from machine import hardware
from runs.identity import find_run
from runs.writing import begin
from schema import conditions
from schema.recipe import load_recipe
from stages import check, recipes
from tests.support import (
    DISTINCT,
    ROOT,
    TEMPLATES,
    read_recipe,
    refused,
    run_stage,
    write_lines,
)
from tests.tables import lacking, row_cases, rows, yaml_text
from training.tiny_models import built_model

LEVEL = re.compile(r"^(?:error|warning|hint): .*$", re.M)


@pytest.fixture(autouse=True)
def few_problems(monkeypatch):
    """Of sums 1,500 in place of 8,000; and tests/evaluation/test_audit.py tries the reward hacks on
    more, of every recipe."""
    digits, _, *others = made.arithmetic.__defaults__
    monkeypatch.setattr(made.arithmetic, "__defaults__", (digits, 1500, *others))
    monkeypatch.setattr(audit, "AUDITED", 2)


@pytest.fixture
def check_recipe(capsys):
    """A function that checks a recipe and returns what that prints; `ready`: whether it must be."""

    def run(path, overrides=(), ready: bool = True) -> str:
        ends = contextlib.nullcontext() if ready else pytest.raises(SystemExit, match="2")
        with ends:
            check.main(load_recipe(path, overrides))
        printed = capsys.readouterr().out
        assert ("\nready" in printed) == ready, printed
        return printed

    return run


def test_every_planted_mistake_is_found_in_one_run(tiny_qwen2, tmp_path, check_recipe, monkeypatch):
    planted, reasons = yaml_text(__file__, "planted"), yaml_text(__file__, "reasons")
    monkeypatch.setattr("machine.launch.find_spec", lambda package: None)
    # else float16 becomes float32
    monkeypatch.setattr(hardware, "has_arithmetic", lambda dtype: True)
    train, exam = tmp_path / "train.jsonl", tmp_path / "exam.jsonl"
    problems = [{"problem": f"What is {i} + 1?", "answer": i + 1} for i in range(20)]
    problems += [{"problem": f"And {i}?", "answer": r"\\frac{1}{2004!}"} for i in range(5)]
    problems += [{"problem": None, "answer": 1}, problems[0]]
    write_lines(train, problems)
    write_lines(exam, [problems[8]])
    recipe = tmp_path / "bad.yaml"
    monkeypatch.setattr(imports, "ROOT", tmp_path)  # for its model lies elsewhere
    names = {"model": tiny_qwen2, "train": train, "exam": exam}
    recipe.write_text(planted.format(**names, refused=yaml_text(__file__, "refused")))
    _, faults = read_recipe(recipe)
    assert {fault.place.line for fault in faults} == reasons.keys()
    assert all(reasons[fault.place.line] in fault.message for fault in faults)
    recipe.write_text(planted.format(**names, refused=""))
    out = check_recipe(recipe, ready=False)
    faults = "\n".join(LEVEL.findall(out))
    messages = re.findall(rf"^(\w+): {recipe}:(\d+): (.*)$", faults, re.M)
    for (level, line, message), row in zip(messages, rows(__file__, "messages"), strict=True):
        assert (level, int(line)) == (row["level"], row["line"])
        assert lacking(row["names"], message) == []
    assert "25 problems, 2 dropped (1 without a problem: row 26; 1 repeated: row 27)" in out
    assert "not ready: 4 to change" in out


@pytest.mark.parametrize("path", DISTINCT, ids=lambda path: Path(path).stem)
def test_a_shipped_recipe_is_clean(
    path, tiny_qwen2, math_data, tmp_path, check_recipe, monkeypatch
):
    name = Path(path).stem
    overrides = [f"data.dir={math_data}", "data.validation=4", "evaluate.checkpoint_problems=2"]
    if name not in ("tiny-arithmetic", "tiny-tools"):
        overrides += [f"model.name_or_path={tiny_qwen2}", "model.build=null"]
    # Its tokenizer takes a token for each byte, and a worked solution has more.
    if load_recipe(path).settings["grpo"]["max_completion_length"] < 100:
        overrides.append("grpo.max_completion_length=256")
    if name.startswith("qwen3"):
        template = json.dumps((TEMPLATES / "qwen3.jinja").read_text())
        overrides.append(f"model.chat_template={template}")
    if name == "tiny-rft":  # which samples another recipe's warm start
        (tmp_path / "summary.json").write_text('{"steps": 1}')
        overrides.append(f"data.rejection_sampling.model={tmp_path}")
    monkeypatch.setattr("machine.launch.find_spec", lambda package: package)
    monkeypatch.setattr(conditions, "FEW", 0)  # of which the data here has too few
    out = check_recipe(path, overrides)
    assert "\nready\n" in out
    assert "warning" not in out and "error" not in out
    assert "audit: no reward hack earns more than an honest answer" in out
    assert "the first prompt, in training and in evaluation" in out
    assert out.count(" earns 1, ") == 3


def test_a_gpu_without_bfloat16_has_a_remedy():
    recipe = load_recipe("recipes/qwen-math-lora.yaml")
    in_float32, faults = check.fitted_to_machine(recipe, hardware.gpu_named("T4"))
    assert "set model.dtype: float16" in str(faults) and in_float32.model.dtype == "float32"
    for gpu in ("L4", "8", "12", "16"):
        assert check.fitted_to_machine(recipe, hardware.gpu_named(gpu)) == (recipe, [])


def test_what_is_missing_here_is_a_note_for_a_gpu_elsewhere(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("machine.launch.find_spec", lambda package: None)
    overrides = ["grpo.use_vllm=true", "data.pass_rate=[0.1, 0.9]", f"output_dir={tmp_path}"]
    overrides += ["model.attn_implementation=flash_attention_2"]
    overrides += ["data.rejection_sampling={model: outputs/nowhere/sft}"]
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", overrides)
    missing = "override grpo.use_vllm=true: grpo.use_vllm: vllm is not installed"
    elsewhere = hardware.gpu_named("24")
    for gpu, ending in ((None, "\n"), (elsewhere, ", on the machine with that GPU\n")):
        with contextlib.suppress(SystemExit):
            check.main(recipe, gpu)
        out = capsys.readouterr().out
        level = "error" if gpu is None else "hint"
        assert out.count(f"{level}: {missing}: make setup EXTRAS=vllm{ending}") == 1
        for text in ("flash_attn is not installed", "nowhere/sft is no folder", "finished probe"):
            [line] = [line for line in out.splitlines(True) if text in line]
            assert line.startswith(level) and line.endswith(ending)
        assert ("\nready" in out) == (gpu is not None)


@pytest.mark.parametrize("stage", ["check", "memory", "rejection-sampling", "audit"])
def test_a_batch_that_the_launchers_processes_cannot_share_is_refused(stage, monkeypatch):
    """Two processes cannot share five groups of three."""
    settings = ["recipes/tiny-arithmetic.yaml", "grpo.per_device_train_batch_size=15"]
    settings += ["grpo.num_iterations=1", "grpo.num_generations=3"]
    options = {"rejection-sampling": ["--if-needed"], "audit": ["--rows=2"]}.get(stage, [])
    launched = run_stage(stage, *settings, *options, check=False, ACCELERATE="cpu2")
    line = "2 processes cannot share a step of 15 × 1 (gradient_accumulation_steps) evenly:"
    assert launched.returncode == 2 and line in launched.stdout + launched.stderr
    run_stage(stage, *settings, *options, AUDIT="off")


@row_cases(__file__, "hours")
def test_a_header_says_the_hours_that_check_prints(row):
    """Of every recipe for GPUs."""
    recipe = load_recipe(f"recipes/{row.case}.yaml", processes=row.gpus)
    _, entries = recipes.header(Path(f"recipes/{row.case}.yaml").read_text())
    hours = dict(re.findall(r"(H100|A100|RTX 4090|L4) ([\d.]+)", entries["hours"]))
    assert set(hours) == {"H100", "A100"} or len(hours) == 4
    for name, number in hours.items():
        gpu = hardware.gpu_named(name)
        speed = tokens_per_second(recipe, gpu, row.billions)
        assert hours_of_run(recipe, speed) == pytest.approx(float(number), abs=0.06)
        if name == "H100" and recipe.settings["grpo"]["max_completion_length"] > USUAL_TOKENS:
            [usual] = re.findall(
                rf"at {USUAL_TOKENS} tokens a completion ([\d.]+)", entries["hours"]
            )
            usual_hours = hours_of_run(recipe, speed, USUAL_TOKENS)
            assert usual_hours == pytest.approx(float(usual), abs=0.06)


def test_without_a_network_the_rest_is_checked(check_recipe, monkeypatch):
    monkeypatch.delenv("MATH_DATA_DIR", raising=False)
    monkeypatch.setattr("machine.launch.find_spec", lambda package: package)
    out = check_recipe("recipes/qwen-math-lora.yaml")
    [line] = [line for line in out.splitlines() if "not seen: openai/gsm8k" in line]
    assert lacking(["hint", "model Qwen/Qwen2.5-Math-1.5B", "HuggingFaceH4/MATH-500"], line) == []
    assert out.count("openai/gsm8k") == 1  # to train on, and to evaluate on
    line = "\nready but for what was not seen: the data, the benchmarks, the model, and so prompt, "
    assert line in out


def test_all_faults_of_a_round_are_answered_together(tmp_path, check_recipe, own_file):
    """Sizes, a benchmark of the same file, golds, and a reward that is hacked."""
    own_file("mine.py", "def close(completions, **columns):\n    return [1.0] * len(completions)\n")
    rows = [{"problem": f"{n} + 1?", "answer": f"{n + 1} ± 1"} for n in range(9)]
    rows += [{"problem": f"{n} + 1?", "answer": n + 1} for n in range(9, 20)]
    write_lines(tmp_path / "mine.jsonl", rows)
    settings = [f"data.train=[{tmp_path}/mine.jsonl]", "data.validation=30", "sft=null"]
    settings += [
        f"evaluate.benchmarks=[{tmp_path}/mine.jsonl: {{limit: 20, where: {{answer: 12}}}}]"
    ]
    settings += ["rewards={mine.close: {}}", f"output_dir=outputs/{tmp_path.name}"]
    out = check_recipe("recipes/tiny-arithmetic.yaml", settings, ready=False)
    for part in ("holds out 30 of 20", "9 of 20 golds cannot be judged", "pays 1 for each of"):
        assert part in out


def test_the_first_line_of_a_training_run_warns_too():
    quiet = run_stage("check", "--fast", "recipes/tiny-arithmetic.yaml", "--stages", "grpo")
    assert quiet.stderr == "" and quiet.stdout.startswith("audit: no reward hack earns more")
    group = "grpo.num_generations=2"
    warned = run_stage("check", "--fast", "recipes/tiny-arithmetic.yaml", group, "--stages", "grpo")
    line = "warning: override grpo.num_generations=2: grpo.num_generations: in a group of 2"
    assert line in warned.stderr


@row_cases(__file__, "not_ready")
def test_what_cannot_run_is_not_ready_and_has_no_trace(row, check_recipe, own_file, monkeypatch):
    monkeypatch.setattr(audit, "AUDITED", 20)  # as the messages count them
    own_file("mine_too.py", yaml_text(__file__, "mine_too"))
    out = check_recipe("recipes/tiny-arithmetic.yaml", row.set, ready=False)
    [error] = [line for line in out.splitlines() if line.startswith("error: ")]
    assert out.rsplit("\n\n", 1)[1].startswith("not ready: 1 to change: ")
    assert "resumes the run" not in out and "take -" not in out
    assert lacking(row.names, error) == []


def test_the_folder_of_another_recipes_run_is_not_ready(tmp_path, check_recipe):
    overrides = [f"output_dir={tmp_path}", "sft=null"]
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", overrides)
    begin(find_run(recipe, "grpo"), recipe, [{"problem": "1 + 1?", "solution": "2"}])
    (tmp_path / "grpo/checkpoint-1").mkdir()
    overrides.append("grpo.learning_rate=2e-4")
    out = check_recipe("recipes/tiny-arithmetic.yaml", overrides, ready=False)
    assert f"error: {tmp_path}/grpo: a run of another recipe is there" in out


@pytest.mark.parametrize("options", [[], ["--fast", "--stages", "sft", "grpo", "evaluate"]])
def test_a_broken_file_of_a_run_is_named_once(options, tmp_path):
    (tmp_path / "sft").mkdir()
    (tmp_path / "sft/summary.json").write_text("{")
    words = ["recipes/tiny-arithmetic.yaml", f"output_dir={tmp_path}", *options]
    assert refused("check", *words).count("sft/summary.json is not what a run wrote") == 1


def test_a_reward_that_sees_no_answer_is_named_and_others_of_trl_are_tried(
    check_recipe, own_file, monkeypatch
):
    monkeypatch.setenv("AUDIT", "off")  # `cites` is paid for a reward hack
    own_file("mine_too.py", yaml_text(__file__, "mine_too"))
    page = (ROOT / "docs/rewards.md").read_text()
    own_file("mine.py", re.search(r"```python\n(.*?)```", page, re.S)[1])
    tiny = "recipes/tiny-arithmetic.yaml"
    # async functions, of the answer, the trainer's state and what is set
    rewards = ["rewards.mine_too.by_progress={weight: 0.01}"]
    out = check_recipe(tiny, [*rewards, "rewards.mine.cites={weight: 0.001, bonus: 1}"])
    assert "overpay: make attack ARGS=" in out
    out = check_recipe(tiny, ["rewards={mine_too.sees_no_text: {}}"])
    [warning] = [line for line in out.splitlines() if "honest" in line or "teaches" in line]
    assert "rewards.mine_too.sees_no_text: pays 0 for each of 53 kinds" in warning
    assert "a list of messages" in warning
    blind = ["rewards.mine_too.sees_no_text={}", "rewards.mine_too.is_paid_by_length={}"]
    out = check_recipe(tiny, blind)
    assert "pays 0 for each" in out and "more, of 53 ways" in out
    assert out.count("more than an honest answer") == 1


@pytest.mark.parametrize("terminal", [False, True])
def test_errors_come_last_and_in_colour_on_a_terminal_alone(terminal, check_recipe, monkeypatch):
    monkeypatch.setenv("AUDIT", "off")
    monkeypatch.setattr(hardware, "wrong_count", lambda launched: "8 processes want a GPU each")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setenv("TERM", "xterm")
    overrides = ["grpo.num_generations=2", "grpo.max_completion_length=510"]
    lines = check_recipe("recipes/tiny-arithmetic.yaml", overrides, ready=False).splitlines()
    assert lines[-1] == "not ready: 2 to change: override grpo.max_completion_length=510"
    levels = [re.match(r"(?:\x1b\[[\d;]+m)?(hint|warning|error): ", line) for line in lines]
    assert levels[0]  # known at once, and said once
    assert [level[1] for level in levels if level] == ["error", "warning", "error"]
    assert any("\x1b" in line for line in lines) == terminal


def test_golds_that_no_plain_answer_earns_are_not_ready(tmp_path, check_recipe):
    golds = ["77 ± 1", "approx. 77", "18-20 m", "10,5", "It is far away from here.", r"\frac{1}{2"]
    golds += [str(i) for i in range(20, 50)]
    problems = [{"problem": f"How far to {i}?", "answer": gold} for i, gold in enumerate(golds)]
    write_lines(tmp_path / "mine.jsonl", problems)
    out = check_recipe(
        "recipes/tiny-arithmetic.yaml",
        [f"data.train=[{tmp_path / 'mine.jsonl'}]", "data.validation=4"],
        ready=False,
    )
    message = re.search(r"^error: .* of 32 golds cannot be judged.*", out, re.M)[0]
    assert len(re.findall(r"'[^']*' \(", message)) == 3
    assert "columns: {answer: …}" in message and "AUDIT=off" in message


def test_a_tolerance_is_said(check_recipe, monkeypatch):
    monkeypatch.setenv("AUDIT", "off")
    tolerance = ["rewards.correct_answer.tolerance=0.05"]
    out = check_recipe("recipes/tiny-arithmetic.yaml", tolerance)
    assert "a number is correct within 0.05 times its gold" in out


def test_on_a_cpu_a_model_is_compared_with_what_there_is(tiny_qwen2, check_recipe, monkeypatch):
    model = [f"model={{name_or_path: {tiny_qwen2}}}"]
    monkeypatch.setenv("AUDIT", "off")
    monkeypatch.setattr(findings, "SMALL", 1000)
    out = check_recipe("recipes/tiny-arithmetic.yaml", model)
    assert re.search("hint: .* no GPU here, and .* take a CPU half an hour at least", out)
    monkeypatch.setattr(findings, "LARGE", 2000)
    monkeypatch.setattr(findings.psutil, "virtual_memory", lambda: SimpleNamespace(total=2**20))
    out = check_recipe("recipes/tiny-arithmetic.yaml", model, ready=False)
    assert re.search("warning: .* are too many to train on a CPU", out)
    assert "of this machine's 0 (make memory" in out
    assert re.search("error: .* GiB will not fit this machine's 0", out)


def test_a_local_model_without_its_weights_or_its_tokenizer_is_not_ready(tmp_path):
    folder = shutil.copytree(built_model("tiny-qwen3", 42), tmp_path / "model")
    (folder / "model.safetensors").rename(tmp_path / "model.safetensors")
    settings = [f"model={{name_or_path: {folder}}}", f"output_dir={tmp_path}/out"]
    check = ("check", "recipes/tiny-arithmetic.yaml", *settings)
    assert "holds no model.safetensors" in refused(*check)
    (tmp_path / "model.safetensors").rename(folder / "model.safetensors")
    for file in folder.glob("*token*"):
        file.unlink()
    assert "holds no tokenizer: copy tokenizer.json and " in refused(*check)
