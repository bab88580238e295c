"""`make check`: what is wrong with a recipe is found before a weight is loaded."""

import contextlib
import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from evaluation import findings
from machine import hardware
from schema import advice
from schema.recipe import load_recipe
from stages import check
from tests.support import (
    DISTINCT,
    ROOT,
    TEMPLATES,
    programs,
    read_recipe,
    refused,
    run_stage,
    write_lines,
)
from training.tiny_models import built_model

PLANTED = """\
model: {{name_or_path: {model}, dtype: float16}}
adapter: {{r: 8, target_modules: all-linear}}
data: {{train: [{train}], validation: 4}}
rewards:
  correct_answer: {{weight: 0.5, strict: true}}
  format_tags: {{weight: 0.5}}
grpo:
  learning_rate: 1.0e-6
  num_generations: 2
  max_completion_length: 40000
  use_vllm: true
  vllm_max_model_length: 64
  steps_per_generation: 2
{refused}evaluate: {{benchmarks: [{exam}]}}
"""
FOUND = [  # level, line, a part of the message
    ("warning", 8, "an adapter wants ten times that or more"),
    ("warning", 9, "in a group of 2 the mean says little"),
    ("warning", 4, "form is paid 0.5 and a right answer 0.5"),
    ("warning", 1, "float16 overflows"),
    ("warning", 4, "without a warm start a model seldom writes the tags"),
    ("error", 10, "do not fit the model's 32768"),
    ("error", 12, "do not fit 64"),
    ("note", 3, "1 training problems are also in the benchmarks"),
    ("warning", 3, "golds cannot be judged"),
    ("error", 11, "vllm is not installed"),
]
REFUSED = """\
  fp16: true
  bf16: yes please
  learning_rat: 1.0e-5
  save_steps: 3
"""
REASONS = {  # by line
    14: "grpo.fp16 is not set here: set model.dtype: float16",
    15: "expected true or false, got 'yes please'",
    16: "unknown key grpo.learning_rat; did you mean learning_rate?",
    17: "falls inside a generation cycle",
}


def check_recipe(path, overrides=()):
    check.main(load_recipe(path, overrides, check=()))


def test_every_planted_mistake_is_found_in_one_run(tiny_qwen2, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("machine.launch.find_spec", lambda package: None)
    # else float16 becomes float32
    monkeypatch.setattr(hardware, "has_arithmetic", lambda dtype: True)
    train, exam = tmp_path / "train.jsonl", tmp_path / "exam.jsonl"
    problems = [{"problem": f"What is {i} + 1?", "answer": i + 1} for i in range(20)]
    problems += [{"problem": f"And {i}?", "answer": r"\\frac{1}{2004!}"} for i in range(5)]
    problems += [{"problem": None, "answer": 1}, problems[0]]
    write_lines(train, problems)
    write_lines(exam, [problems[7]])
    recipe = tmp_path / "bad.yaml"
    names = {"model": tiny_qwen2, "train": train, "exam": exam}
    recipe.write_text(PLANTED.format(**names, refused=REFUSED))
    _, faults = read_recipe(recipe)
    assert {fault.place.line for fault in faults} == REASONS.keys()
    assert all(REASONS[fault.place.line] in fault.message for fault in faults)
    recipe.write_text(PLANTED.format(**names, refused=""))
    with pytest.raises(SystemExit, match="2"):
        check_recipe(recipe)
    out = capsys.readouterr().out
    for level, line, message in FOUND:
        assert any(
            f"{level}: {recipe}:{line}: " in each and message in each for each in out.splitlines()
        ), message
    assert "25 problems, 2 dropped (1 without a problem: row 26; 1 repeated: row 27)" in out
    assert "not ready: 3 to change" in out


@pytest.mark.parametrize("path", DISTINCT, ids=lambda path: Path(path).stem)
def test_a_shipped_recipe_is_clean(path, tiny_qwen2, math_data, tmp_path, capsys, monkeypatch):
    other = [f"model.name_or_path={tiny_qwen2}", "model.build=null"]
    hub = [] if Path(path).stem in ("tiny-arithmetic", "tiny-tools") else other
    overrides = [
        *hub,
        f"data.dir={math_data}",
        "data.validation=4",
        "evaluate.checkpoint_problems=2",
    ]
    if Path(path).stem.startswith("qwen3"):
        overrides.append(
            f"model.chat_template={json.dumps((TEMPLATES / 'qwen3.jinja').read_text())}"
        )
    if Path(path).stem == "tiny-rft":  # which samples another recipe's warm start
        (tmp_path / "summary.json").write_text('{"steps": 1}')
        overrides.append(f"data.own_solutions.model={tmp_path}")
    monkeypatch.setattr("machine.launch.find_spec", lambda package: package)
    monkeypatch.setattr(advice, "FEW", 0)  # of which the data here has too few
    check_recipe(path, overrides)
    out = capsys.readouterr().out
    assert "\nready\n" in out
    assert "warning" not in out and "error" not in out
    assert "audit: no cheat earns more than an honest answer" in out
    assert "the first prompt, in training and in evaluation" in out


ANSWERS = """\
model: {{build: tiny-qwen3}}
data: {{train: [{data}], validation: 100}}
rewards:
  correct_answer: {{weight: 1.0{more}}}
  format_tags: {{weight: 0.25}}
sft: {{max_steps: 1}}
grpo: {{max_steps: 1, max_completion_length: 144}}
"""


@pytest.mark.parametrize(
    ("data", "more"),
    [
        ("countdown: {numbers: 2, largest: 25, tries: 1}", ""),
        pytest.param("", ", run_programs: true", marks=pytest.mark.train),
    ],
)
def test_answers_that_are_checked_and_not_compared(data, more, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(findings, "AUDITED", 2)  # where answers are programs, every cheat runs some
    (tmp_path / "recipe.yaml").write_text(
        ANSWERS.format(data=data or programs(tmp_path), more=more)
    )
    check_recipe(tmp_path / "recipe.yaml")
    out = capsys.readouterr().out
    assert "audit: no cheat earns more than an honest answer" in out and "\nready\n" in out


def test_a_card_without_bfloat16_has_a_remedy():
    recipe = load_recipe("recipes/qwen-math-lora.yaml", check=())
    assert "set model.dtype: float16" in str(
        check.fitted_to_machine(recipe, hardware.card_named("T4"))[1]
    )
    for card in ("L4", "8", "12", "16"):
        assert check.fitted_to_machine(recipe, hardware.card_named(card)) == (recipe, [])


def test_what_is_not_installed_here_is_a_note_for_a_card_elsewhere(capsys, monkeypatch):
    monkeypatch.setattr("machine.launch.find_spec", lambda package: None)
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", ["grpo.use_vllm=true"], check=())
    missing = (
        "override grpo.use_vllm=true: grpo.use_vllm: vllm is not installed: make setup EXTRAS=vllm"
    )
    for card, line in (
        (None, f"error: {missing}\n"),
        (24, f"note: {missing}, on the machine with that card\n"),
    ):
        with contextlib.suppress(SystemExit):
            check.main(recipe, card)
        out = capsys.readouterr().out
        assert out.count(line) == 1
        assert ("\nready" in out) == (card is not None)


SHARED = (
    "grpo.per_device_train_batch_size=4",
    "grpo.num_iterations=1",
)  # two processes fill a group of 8


@pytest.mark.parametrize("stage", ["check", "memory", "own_solutions", "audit"])
def test_a_batch_that_only_the_launchers_processes_fill_is_read_as_they_read_it(stage, monkeypatch):
    monkeypatch.setenv("ACCELERATE", "cpu2")
    options = {"own_solutions": ["--if-needed"], "audit": ["--rows=2"]}.get(stage, [])
    run_stage(stage, "recipes/tiny-arithmetic.yaml", *SHARED, *options)
    monkeypatch.delenv("ACCELERATE")
    done = run_stage(stage, "recipes/tiny-arithmetic.yaml", *SHARED, *options, check=False)
    assert (
        done.returncode == 2
        and "groups of 8 do not fill a generation batch of 4" in done.stdout + done.stderr
    )


@pytest.mark.parametrize("stage", ["memory", "probe_memory"])
def test_what_trl_refuses_is_one_message_before_a_step(stage):
    arguments = ("recipes/tiny-arithmetic.yaml", "grpo.generation_batch_size=48")
    done = run_stage(stage, *arguments, check=False)
    message = "must be divisible by the global batch size (32)"
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr


def test_without_a_network_the_rest_is_checked(capsys, monkeypatch):
    monkeypatch.delenv("MATH_DATA_DIR", raising=False)
    monkeypatch.setattr("machine.launch.find_spec", lambda package: package)
    check_recipe("recipes/qwen-math-lora.yaml")
    out = capsys.readouterr().out
    assert "not seen: model Qwen/Qwen2.5-Math-1.5B" in out
    assert out.count("not seen: openai/gsm8k") == 2  # to train on, and to evaluate on: each once
    assert (
        "\nready but for what was not seen: the data, the benchmarks, the model, and so prompt, "
        in out
    )


def test_the_first_line_of_a_training_run_warns_too():
    quiet = run_stage("preflight", "recipes/tiny-arithmetic.yaml", "--stages", "grpo")
    assert quiet.stdout == quiet.stderr == ""
    warned = run_stage(
        "preflight", "recipes/tiny-arithmetic.yaml", "grpo.num_generations=2", "--stages", "grpo"
    )
    assert (
        "warning: override grpo.num_generations=2: grpo.num_generations: in a group of 2"
        in warned.stderr
    )


MINE = """\
def raises(completions, **columns):
    return [1 / 0 for _ in completions]

def returns_text(completions, **columns):
    return "1.0"

def returns_one(completions, **columns):
    return 1.0

def fails(split):
    raise ValueError("no such puzzles")

def returns_nothing(split):
    pass

def returns_words(split):
    return ["What is 1 + 1?"]

def asks_for_programs(split):
    check = '{"python": {"function": "f", "cases": [[[1], 2]]}}'
    program = "def f(x): return x + 1"
    return [{"problem": f"Add 1 to {x}.", "solution": program, "check": check} for x in range(99)]

def sees_no_text(completions, **columns):
    return [float("<answer>" in each) for each in completions]

def is_paid_by_length(completions, **columns):
    return [len(each[0]["content"]) / 1000 for each in completions]

async def by_progress(prompts, completions, trainer_state, **columns):
    tagged = ["<answer>" in completion[0]["content"] for completion in completions]
    return [float(tag) * trainer_state.max_steps for tag in tagged]
"""
NOT_READY = {  # overrides, and a part of the line it ends with
    "a reward that raises": (
        ["rewards.mine_too.raises={}"],
        "rewards.mine_too.raises: 20 of 20 rows",
        "mine_too.py:2",
    ),
    "a reward of text": (
        ["rewards.mine_too.returns_text={}"],
        "rewards.mine_too.returns_text: 20 of 20",
        "returned '1.0'",
    ),
    "a reward of one": (
        ["rewards.mine_too.returns_one={}"],
        "rewards.mine_too.returns_one: 20 of 20",
        "returned 1.0",
    ),
    "data that raises": (
        ["data.train=[mine_too.fails]"],
        "data set mine_too.fails: ",
        "mine_too.py:11: ValueError: no such",
    ),
    "data of nothing": (
        ["data.train=[mine_too.returns_nothing]"],
        "must return a list of rows",
        "not None",
    ),
    "data of words": (
        ["data.train=[mine_too.returns_words]"],
        "must return a list of rows",
        "not 'What is",
    ),
    "programs that nobody allowed": (
        ["data.train=[mine_too.asks_for_programs]"],
        "override data.train=",
        "correct_answer.run_programs: true",
    ),
    "digits beyond": (
        ["data.train=[arithmetic: {digits: 40}]"],
        "override data.train=",
        "digits must be 1 to 9, not 40",
    ),
    "no such module": (
        ["adapter.target_modules=[nothing_so]"],
        "override adapter.target_modules",
        "no module nothing_so",
    ),
    "no such expert": (
        ["adapter.target_parameters=[experts.down_proj]"],
        "the model has no parameter experts.down_proj",
    ),
    "one that is not": (
        ["adapter.target_modules=[q_proj, vproj]"],
        "no module vproj; did you mean v_proj?",
    ),
    "no such layer": (
        ["adapter.layers_to_transform=[0, 2]", "adapter.target_modules=[q_proj]"],
        "layers are 0 to 1",
    ),
    "two batches": (
        ["grpo.steps_per_generation=4", "grpo.generation_batch_size=256"],
        "both configured at the same",
    ),
    "TF32 here": (["grpo.tf32=true"], "override grpo.tf32=true: grpo: --tf32 requires Ampere"),
    "a template": (
        ['model.chat_template="{% if x %}"'],
        "override model.chat_template",
        "Unexpected end of template",
    ),
    "a template's argument": (
        ["model.chat_template_kwargs.enable_thinkng=false"],
        "override model.chat_template_kwargs",
        "the chat template or the tokenizer reads no argument 'enable_thinkng', but none",
    ),
    "a long prompt": (
        ["grpo.max_completion_length=510"],
        "17 tokens of prompt and 510",
        "take 495 or less",
    ),
    "no probe": (
        ["data.pass_rate=[0, 1]"],
        "override data.pass_rate",
        "the pass rates of a finished probe: make sft ",
    ),
    "a batch that trl refuses": (
        ["grpo.generation_batch_size=48"],
        "generation_batch_size (48) must be divisible by the global batch size (32)",
    ),
    "an adapter that peft refuses": (
        ["adapter={r: 8, target_modules: all-linear, layers_to_transform: [0]}"],
        "`layers_to_transform` cannot be used when `target_modules` is a str",
    ),
    "no room at all": (
        ['prompt.system="' + "x" * 600 + '"'],
        "do not fit the model's 512",
        "48 of completion",
    ),
}


@pytest.mark.parametrize("name", NOT_READY)
def test_what_cannot_run_is_not_ready_and_has_no_trace(name, capsys, own_file):
    own_file("mine_too.py", MINE)
    overrides, *parts = NOT_READY[name]
    with pytest.raises(SystemExit, match="2"):
        check_recipe("recipes/tiny-arithmetic.yaml", overrides)
    out = capsys.readouterr().out
    errors = [line for line in out.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and all(part in errors[0] for part in parts), out
    assert (
        out.rsplit("\n\n", 1)[1].startswith("not ready: 1 to change: ")
        and "resumes the run" not in out
    )
    assert "take -" not in out


def test_a_reward_that_sees_no_answer_is_named_and_others_of_trl_are_tried(capsys, own_file):
    own_file("mine_too.py", MINE)
    own_file(
        "mine.py",
        re.search(r"```python\n(.*?)```", (ROOT / "docs/rewards.md").read_text(), re.S)[1],
    )
    given = [
        "rewards.mine_too.by_progress={weight: 0.01}",
        "rewards.mine.cites={weight: 0.001, bonus: 1}",
    ]
    check_recipe("recipes/tiny-arithmetic.yaml", given)
    # async functions, of the answer, the trainer's state and what is set
    assert "\nready" in capsys.readouterr().out
    check_recipe("recipes/tiny-arithmetic.yaml", ["rewards={mine_too.sees_no_text: {}}"])
    (warning,) = [
        line
        for line in capsys.readouterr().out.splitlines()
        if "honest" in line or "teaches" in line
    ]
    assert (
        "rewards.mine_too.sees_no_text: pays 0 for each of 53 kinds" in warning
        and "a list of messages" in warning
    )
    check_recipe(
        "recipes/tiny-arithmetic.yaml",
        ["rewards.mine_too.sees_no_text={}", "rewards.mine_too.is_paid_by_length={}"],
    )
    out = capsys.readouterr().out
    assert (
        "pays 0 for each" in out
        and out.count("more than an honest answer") == 1
        and "more, of 53 ways" in out
    )


@pytest.mark.parametrize(
    ("stage", "arguments", "message"),
    [
        ("memory", ["--card", "4090"], "CARD=4090: give a card's memory in GiB"),
        (
            "memory",
            ["--card", "-3"],
            "CARD=-3: give a card's memory in GiB, such as CARD=24, or ",
        ),
        ("check", ["--card", "H1000"], "one of these by name: T4, L4, A10G, RTX4090, L40S, A100, "),
        ("audit", ["--rows", "0"], "--rows 0: at least one problem is needed"),
        ("preflight", ["data.train=[arithmetic:"], "needs quotes of its own"),
    ],
)
def test_a_wrong_option_is_one_message(stage, arguments, message):
    done = run_stage(stage, "recipes/tiny-arithmetic.yaml", *arguments, check=False)
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("stage", "accelerate", "processes", "message"),
    [
        ("check", "", "0", "PROCESSES=0: expected a whole number of at least 1"),
        ("preflight", "cpu2", "-1", "PROCESSES=-1: expected a whole number"),
        ("preflight", "cpu2", "two", "PROCESSES=two: expected a whole number"),
        ("preflight", "ddp", "", "8 processes want a GPU each, and "),
    ],
)
def test_a_wrong_launch_is_one_message(stage, accelerate, processes, message):
    stages = ["--stages", "grpo"] if stage == "preflight" else []
    launch_options = {"ACCELERATE": accelerate, "PROCESSES": processes}
    path = "recipes/tiny-arithmetic.yaml"
    done = run_stage(stage, path, *stages, check=False, **launch_options)
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.splitlines()) == 1


def test_errors_come_last_and_in_colour_on_a_terminal_alone(capsys, monkeypatch):
    monkeypatch.setattr(hardware, "wrong_count", lambda launched: "8 processes want a GPU each")
    for terminal in (False, True):
        monkeypatch.setattr(sys.stdout, "isatty", lambda there=terminal: there)
        monkeypatch.setenv("TERM", "xterm")
        with pytest.raises(SystemExit, match="2"):
            check_recipe(
                "recipes/tiny-arithmetic.yaml",
                ["grpo.num_generations=2", "grpo.max_completion_length=510"],
            )
        lines = capsys.readouterr().out.splitlines()
        assert lines[-1] == "not ready: 2 to change: override grpo.max_completion_length=510"
        levels = [re.match(r"(?:\x1b\[[\d;]+m)?(note|warning|error): ", line) for line in lines]
        first, *others = (each[1] for each in levels if each)
        assert levels[0] and [first, *others] == [
            "error",  # known at once, and said once
            "warning",
            "error",
        ]
        assert any("\x1b" in line for line in lines) == terminal


def test_form_that_is_paid_more_than_the_answer_is_a_warning(tmp_path, capsys):
    recipe = tmp_path / "mine.yaml"
    text = Path("recipes/tiny-arithmetic.yaml").read_text()
    recipe.write_text(text.replace("  correct_answer: {weight: 1.0}\n", ""))
    check_recipe(recipe)
    assert "form is paid 0.25 and a right answer 0" in capsys.readouterr().out


def test_on_a_cpu_a_model_is_compared_with_what_there_is(tiny_qwen2, capsys, monkeypatch):
    given = [f"model={{name_or_path: {tiny_qwen2}}}"]
    monkeypatch.setattr(findings, "SMALL", 1000)
    check_recipe("recipes/tiny-arithmetic.yaml", given)
    assert re.search(
        "note: .* no GPU here, and .* take a CPU half an hour at least", capsys.readouterr().out
    )
    monkeypatch.setattr(findings, "LARGE", 2000)
    monkeypatch.setattr(findings.psutil, "virtual_memory", lambda: SimpleNamespace(total=2**20))
    with pytest.raises(SystemExit, match="2"):
        check_recipe("recipes/tiny-arithmetic.yaml", given)
    out = capsys.readouterr().out
    assert (
        re.search("warning: .* are too many to train on a CPU", out)
        and "of this machine's 0 (make memory" in out
    )
    assert re.search("error: .* GiB will not fit this machine's 0", out)


def test_a_training_set_that_the_benchmarks_hold_whole_is_not_ready(tmp_path):
    file = tmp_path / "mine.jsonl"
    write_lines(
        file,
        [
            {"problem": f"What is {a} pens and {a} pencils?", "answer": str(2 * a)}
            for a in range(40)
        ],
    )
    given = [
        f"data.train=[{file}]",
        f"evaluate.benchmarks=[{file}]",
        "data.validation=4",
        "sft=null",
    ]
    assert "nothing is left to train on" in refused("check", "recipes/tiny-arithmetic.yaml", *given)


def test_a_local_model_without_its_weights_or_its_tokenizer_is_not_ready(tmp_path):
    folder = shutil.copytree(built_model("tiny-qwen3", 42), tmp_path / "model")
    (folder / "model.safetensors").rename(tmp_path / "model.safetensors")
    given = [f"model={{name_or_path: {folder}}}", f"output_dir={tmp_path}/out"]
    done = run_stage("check", "recipes/tiny-arithmetic.yaml", *given, check=False)
    assert done.returncode == 2 and "holds no model.safetensors" in done.stdout, done.stdout
    (tmp_path / "model.safetensors").rename(folder / "model.safetensors")
    for each in folder.glob("*token*"):
        each.unlink()
    done = run_stage("check", "recipes/tiny-arithmetic.yaml", *given, check=False)
    assert done.returncode == 2 and "holds no tokenizer: copy tokenizer.json and " in done.stdout, (
        done.stdout
    )
