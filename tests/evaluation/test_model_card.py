"""The lines of a model's card, run as they stand there: an adapter, and the model that `make merge`
makes of it."""

import shlex
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from data import prompt
from evaluation.engines import generate
from evaluation.run_pages import QUESTION
from schema.recipe import load_recipe
from schema.sections import Sampling
from tests.stage_process import DRAWS
from tests.support import FEW_PROBLEMS, ROOT, run_program, run_stage
from training.model import load_model, load_tokenizer
from training.tiny_models import built_model

SHORT = shlex.split("""
    model.build=null 'prompt.system=Think first.' evaluate.batch_size=8
    'adapter={r: 8, lora_alpha: 16, target_modules: all-linear}' sft.max_steps=40
    sft.logging_steps=20 sft.per_device_train_batch_size=16 grpo.per_device_train_batch_size=16
    grpo.max_steps=2 grpo.num_iterations=1 grpo.logging_steps=1 grpo.max_completion_length=24
""")
pytestmark = pytest.mark.train  # a whole chain, which CI runs beside the fast tests


@pytest.fixture(scope="module")
def arguments(tmp_path_factory) -> list[str]:
    """The recipe of a small run, whose base is a folder; trained, evaluated and merged."""
    base = ROOT / built_model("tiny-qwen3", 42)
    given = ["recipes/tiny-arithmetic.yaml", f"model.name_or_path={base}", *FEW_PROBLEMS]
    given += ["data.validation=8", *SHORT]
    given += [f"output_dir={tmp_path_factory.mktemp('here') / 'tiny'}"]
    run_stage("sft", *given)
    said = run_stage("grpo", *given, **DRAWS).stdout
    assert f"grpo: report in {folder_of(given)}/grpo/report.md" in said
    assert "It was not evaluated" in (folder_of(given) / "grpo/README.md").read_text()
    said = run_stage("evaluate", *given, "--validation", **DRAWS).stdout
    assert f"report: {folder_of(given)}/grpo/report.md" in said
    run_stage("merge", *given)
    return given


def folder_of(arguments: list[str]) -> Path:
    return Path(arguments[-1].removeprefix("output_dir="))


@pytest.mark.parametrize("stage", ["grpo", "merged"])
def test_the_lines_of_the_card_give_the_policys_answer(stage, arguments, tmp_path):
    recipe = load_recipe(arguments[0], arguments[1:])
    tokenizer = load_tokenizer(recipe)
    asked = prompt.prompt_ids(tokenizer, prompt.messages(QUESTION, recipe.prompt.system))
    policy = load_model(recipe, tokenizer, folder_of(arguments) / "grpo")
    (tokens,) = generate(policy, tokenizer, [asked], 24, Sampling())
    answer = tokenizer.decode(tokens, skip_special_tokens=True)
    assert "<think>" in answer  # it has learned something
    card = (folder_of(arguments) / stage / "README.md").read_text()
    (code,) = [block.content for block in MarkdownIt().parse(card) if block.info == "python"]
    assert "Think first." in code and f"'tiny/{stage}'" in code
    (tmp_path / "card.py").write_text(code)
    done = run_program(tmp_path / "card.py", cwd=folder_of(arguments).parent)
    assert done.stdout == answer + "\n"


def test_a_card_says_what_was_measured_and_no_path_of_this_machine(arguments):
    by_grpo = "made by GRPO after an SFT warm start"
    made_by = {"sft": "A LoRA adapter for mathematics, made by an SFT warm start."}
    made_by["grpo"] = f"A LoRA adapter for mathematics, {by_grpo}."
    made_by["merged"] = f"A model for mathematics, {by_grpo}, its adapter merged in."
    for stage in made_by:
        card = (folder_of(arguments) / stage / "README.md").read_text()
        assert made_by[stage] in card and "Base: `tiny-qwen3-seed42`, a local folder." in card
        assert f"| {stage.replace('merged', 'grpo')} | " in card and "validation (n = 8)" in card
        assert ("Measured before the adapter was merged." in card) == (stage == "merged")
        assert str(ROOT) not in card and str(folder_of(arguments).parent) not in card


def test_the_report_is_of_this_run(arguments):
    folder = folder_of(arguments) / "grpo"
    report = (folder / "report.md").read_text()
    assert "It ran to its end, step 2." in report and "| grpo | " in report
    assert "## A group of step 1, " not in report and "## A group of step 1\n" in report
    assert report.count("advantage ") == 16  # two logged steps, a group of eight each
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
