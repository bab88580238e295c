"""A user's mistake in a recipe gets one clear message with its place, and exit code 2, before any weight is loaded."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SHIPPED

from stages.cli import make_command
from stages.recipe import RecipeError, load_recipe

RECIPES = [Path(path) for path in SHIPPED]

GOOD = """\
model: {build: tiny-qwen3}
data:
  train: [arithmetic]
rewards:
  correct_answer: {weight: 1.0}
grpo:
  max_steps: 2
  num_generations: 8
"""

WRONG = {
    "misspelt key": (GOOD.replace("max_steps", "max_step"), ":7:", "did you mean max_steps?"),
    "bad type": (
        GOOD.replace("max_steps: 2", "max_steps: two"),
        ":7:",
        "expected a whole number from 1 up, or -1, got 'two'",
    ),
    "bad value": (GOOD + "  loss_type: dapoo\n", ":9:", "did you mean dapo?"),
    "bad library value": (GOOD + "  lr_scheduler_type: cosin\n", ":9:", "did you mean cosine?"),
    "duplicate key": (GOOD + "  max_steps: 3\n", ":9:", "stands here again (first in line 7)"),
    "unknown reward": (GOOD.replace("correct_answer", "correct_answr"), ":5:", "did you mean correct_answer?"),
    "unknown data set": (GOOD.replace("[arithmetic]", "[arithmetik]"), ":3:", "did you mean arithmetic?"),
    "indivisible batch": (GOOD.replace("num_generations: 8", "num_generations: 3"), ":8:", "can have 2, 4, 8"),
    "missing section": (GOOD.replace("rewards:\n  correct_answer: {weight: 1.0}\n", ""), "", "`rewards` is missing"),
    "tab": (GOOD.replace("  max_steps", "\tmax_steps"), ":7:", "indented with spaces"),
    "unknown section": (GOOD.replace("grpo:", "grpoo:"), ":6:", "did you mean grpo?"),
    "reserved key": (GOOD + "  output_dir: there\n", ":9:", "at the top of the recipe"),
    "token": (GOOD + "  hub_token: hf_abc\n", ":9:", "a token belongs into the environment"),
    "upload": (GOOD + "  push_to_hub: true\n", ":9:", "a run uploads nothing"),
    "public upload": (GOOD + "  log_completions_hub_repo: me/completions\n", ":9:", "a run uploads nothing"),
    "code of Python": (GOOD.replace("correct_answer:", "os.system:"), ":5:", "os is not a file of yours"),
    "code of a package": (GOOD.replace("[arithmetic]", "[torch.load]"), ":3:", "torch is not a file of yours"),
    "remote code": (GOOD + "  trust_remote_code: true\n", ":9:", "never run"),
    "no model": (GOOD.replace("{build: tiny-qwen3}", "{dtype: bfloat16}"), ":1:", "exactly one of"),
    "unknown builder": (GOOD.replace("tiny-qwen3", "tiny-qwen"), ":1:", "did you mean tiny-qwen3?"),
    "reward argument": (GOOD.replace("weight: 1.0", "weigth: 1.0"), ":5:", "did you mean weight?"),
    "reward file": (GOOD.replace("correct_answer:", "no_such_file.reward:"), ":5:", "No module named 'no_such_file'"),
    "data argument": (GOOD.replace("[arithmetic]", "[arithmetic: {digit: 2}]"), ":3:", "did you mean digits?"),
    "quantised without adapter": (GOOD + "quantization: {load_in_4bit: true}\n", ":9:", "add an `adapter` section"),
    "save inside a cycle": (GOOD + "  steps_per_generation: 4\n  save_steps: 10\n", ":10:", "take a multiple of 4"),
    "not a mapping": ("- one\n- two\n", "", "a recipe is a mapping"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_recipe_gets_one_message_with_its_place(name, tmp_path):
    text, place, message = WRONG[name]
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError) as error:
        load_recipe(path)
    lines = str(error.value).splitlines()
    assert len(lines) == 1, lines
    assert f"mine.yaml{place}" in lines[0]
    assert message in lines[0]


def test_all_faults_are_reported_together_and_in_order(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.replace("tiny-qwen3", "tiny").replace("max_steps: 2", "max_stepz: 2") + "  beta: high\n")
    with pytest.raises(RecipeError) as error:
        load_recipe(path)
    assert [line.split(":")[1] for line in str(error.value).splitlines()] == ["1", "7", "9"]


@pytest.mark.parametrize(
    "arguments",
    [["recipes/no-such.yaml"], ["recipes/tiny-arithmetic.yaml", "grpo.learning_rat=1"]],
    ids=["missing file", "misspelt override"],
)
@pytest.mark.parametrize("module", ["precheck", "sft", "grpo", "evaluate", "merge"])
def test_exit_code_is_2_without_a_stack_trace(module, arguments):
    done = subprocess.run(
        [sys.executable, "-m", f"stages.{module}", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "Traceback" not in done.stderr


def test_numbers_are_read_as_yaml_1_2_reads_them(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD + "  learning_rate: 1e-5\n")
    grpo = load_recipe(path, ["grpo.beta=4e-2"]).grpo
    assert grpo["learning_rate"] == 1e-5
    assert grpo["beta"] == 0.04


def test_an_override_of_a_dotted_reward_and_of_a_new_section(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    recipe = load_recipe(
        path,
        [
            "rewards.trl.rewards.get_soft_overlong_punishment={max_completion_len: 64, soft_punish_cache: 16}",
            "sft.max_steps=3",
            "evaluate.limit=5",
        ],
    )
    assert recipe.rewards["trl.rewards.get_soft_overlong_punishment"]["max_completion_len"] == 64
    assert recipe.sft == {"max_steps": 3}
    assert recipe.evaluate.limit == 5


def test_there_are_recipes():
    assert len(RECIPES) >= 6


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_shipped_recipe_is_thin_and_right(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 45
    assert all(word in text for word in ("# Run ", "# Needs ", "# Reaches "))
    recipe = load_recipe(path)
    assert recipe.name == path.stem


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_no_shipped_recipe_restates_a_default_of_the_library(path):
    from dataclasses import fields

    from stages.configs import section_class

    completes_the_batch = {"num_generations", "per_device_train_batch_size", "gradient_accumulation_steps"}
    for section in ("sft", "grpo", "adapter"):
        values = getattr(load_recipe(path), section) or {}
        defaults = {field.name: field.default for field in fields(section_class(section))}
        same = [key for key, value in values.items() if value == defaults[key] and key not in completes_the_batch]
        assert not same, f"{section}: {same} equal the library's default"


def test_the_next_command_names_the_recipe_and_its_overrides(tmp_path):
    recipe = load_recipe("recipes/qwen-math-lora.yaml", ["grpo.max_steps=3", "data.train=[gsm8k, math]"])
    assert make_command("eval", recipe) == (
        "make eval RECIPE=qwen-math-lora ARGS='grpo.max_steps=3 \"data.train=[gsm8k, math]\"'"
    )
    assert make_command("grpo", load_recipe("recipes/tiny-arithmetic.yaml")) == "make grpo"
    (tmp_path / "mine.yaml").write_text(GOOD)
    assert make_command("grpo", load_recipe(tmp_path / "mine.yaml")) == f"make grpo RECIPE={tmp_path}/mine.yaml"


def test_an_installed_package_may_be_trusted(tmp_path, monkeypatch):
    recipe = tmp_path / "x.yaml"
    recipe.write_text(GOOD.replace("correct_answer:", "trl.rewards.think_format_reward:"))
    load_recipe(recipe)
    recipe.write_text(GOOD.replace("correct_answer: {", "torch.hub.list: {github: x, "))
    with pytest.raises(RecipeError, match="TRUST_PACKAGES=torch before the command lets recipes run"):
        load_recipe(recipe)
    monkeypatch.setenv("TRUST_PACKAGES", "numpy, torch")
    load_recipe(recipe)
