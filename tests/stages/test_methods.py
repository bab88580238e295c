"""`make methods`: the arms that a recipe allows, and the whole road, stopped once."""

import json
import shlex
from pathlib import Path

import pytest

from console.faults import TOO_FEW_CORRECT, RecipeError
from evaluation import methods as report
from evaluation.completions import named_model
from runs import writing
from runs.identity import find_run
from schema.recipe import load_recipe
from schema.settings import size_of_run
from stages import methods
from tests.support import CHAIN, LORA, NF4, ROOT, copied, run_stage

WORKED = [{"reasoning": "7+5=12"}] * 160
BUDGET = 3840  # of the recipe
TOY = "recipes/tiny-arithmetic.yaml"


def arms(path: str, *overrides: str, rows=WORKED, sft: str | None = None) -> dict[str, methods.Arm]:
    recipe = load_recipe(path, overrides)
    return {arm.name: arm for arm in methods.arms_of(recipe, rows, Path("seed-1"), sft)}


def sampled(run: tuple) -> dict:
    [setting] = [word for word in run[2] if word.startswith("data.rejection_sampling=")]
    return json.loads(setting.partition("=")[2])


def test_each_way_spends_grpos_completions():
    by_name = arms("recipes/tiny-distill.yaml")
    start = "SFT (the warm start)"
    order = [start, "RFT", "RFT in three rounds", "GRPO", "distillation"]
    assert list(by_name) == order and {arm.start for arm in by_name.values()} == {"base", start}
    [once] = by_name["RFT"].runs
    own = {"problems": 160, "samples": 24, "keep": 24, "model": "seed-1/sft"}
    assert sampled(once) == own and BUDGET == 160 * 24
    rounds = list(map(sampled, by_name["RFT in three rounds"].runs))
    assert [each["samples"] for each in rounds] == [8, 8, 8]
    assert [each["model"] for each in rounds] == [
        "seed-1/sft",
        "seed-1/rft-1-of-3/sft",
        "seed-1/rft-2-of-3/sft",
    ]
    assert by_name["distillation"].runs[0][2] == [f"distill.max_steps={BUDGET // 32}"]
    assert size_of_run(load_recipe(TOY))[1] == BUDGET


def test_what_the_data_and_the_recipe_allow():
    few = arms(TOY, "data.worked=40")
    assert list(few) == ["warm start", "SFT", "RFT", "RFT in three rounds", "GRPO"]
    assert "data.worked=null" in few["SFT"].runs[0][2] and few["SFT"].start == "base"
    without = arms(TOY, "sft=null", rows=[{"reasoning": None}] * 1000, sft="{max_steps: 9}")
    assert list(without) == ["RFT", "RFT in three rounds", "GRPO"]
    assert without["GRPO"].start == "base" and "sft={max_steps: 9}" in without["RFT"].runs[0][2]
    assert sampled(without["RFT"].runs[0]) == {"problems": 480, "samples": 8, "keep": 8}
    rounds = without["RFT in three rounds"].runs
    assert [sampled(run)["samples"] for run in rounds] == [3, 3, 2]
    with pytest.raises(RecipeError, match=r"grpo.max_steps: .* budget"):
        arms(TOY, "grpo.max_steps=-1")
    with pytest.raises(RecipeError, match=r"data.dynamic_sampling: .* budget"):
        arms(TOY, "data.dynamic_sampling=2")


def test_a_budget_of_a_group_of_two_is_spent():
    two = ["grpo.num_generations=2", "grpo.per_device_train_batch_size=2", "grpo.max_steps=1"]
    by_name = arms(TOY, *two, "grpo.gradient_accumulation_steps=1")
    assert sampled(by_name["RFT"].runs[0])["samples"] == 2
    rounds = by_name["RFT in three rounds"].runs
    assert [sampled(run)["samples"] for run in rounds] == [1, 1, 1]


@pytest.fixture
def compare(tmp_path, monkeypatch):
    """Run `make methods` with made exit codes, by the folder's last part and the stage."""

    def run(*overrides: str, codes: dict | None = None, sft: str | None = None) -> list[list[str]]:
        commands = []

        def code_of(self, command: list[str]) -> int:
            commands.append(command)
            [*_, place] = [word for word in command if word.startswith("output_dir=")]
            return (codes or {}).get((Path(place).name, command[0]), 0)

        monkeypatch.setattr(methods.Running, "code_of", code_of)
        monkeypatch.setattr(methods, "_outcomes", lambda seed: [])
        monkeypatch.setattr(report, "write", lambda folder, lines, notes: "\n".join(notes))
        words = [f"output_dir={tmp_path}/x", *overrides]
        return methods.main(load_recipe(TOY, words), ("1",), sft), commands

    return run


def test_only_too_few_correct_completions_leave_an_arm_out(compare, tmp_path):
    codes = {("rft", "rejection-sampling"): TOO_FEW_CORRECT}
    text, commands = compare(codes=codes)
    assert text.startswith(f"Left out: RFT, whose completions in {tmp_path}/x/methods/seed-1/rft ")
    greedy = commands[-2]
    assert "--model=base" in greedy and not any("/rft/sft" in word for word in greedy)
    with pytest.raises(SystemExit) as stopped:
        compare(codes={("rft", "rejection-sampling"): 2})
    assert stopped.value.code == 2
    own = "data.rejection_sampling={problems: 64, samples: 4}"
    with pytest.raises(SystemExit) as stopped:  # without its warm start nothing is compared
        compare(own, codes={("seed-1", "rejection-sampling"): TOO_FEW_CORRECT})
    assert stopped.value.code == TOO_FEW_CORRECT


def test_the_base_is_evaluated_as_the_recipe_loads_it():
    pinned = [NF4, LORA, "model={name_or_path: a/b, revision: v1, build: null}"]
    recipe = load_recipe(TOY, pinned)
    base = named_model(recipe, "base").recipe
    assert base.quantization and base.model.revision == "v1"


def test_every_method_keeps_its_last_step(compare):
    _, commands = compare("grpo.eval_steps=10")
    assert all("grpo.eval_steps=null" in words for words in commands)


def test_how_solutions_are_learned_is_said_once(compare):
    with pytest.raises(RecipeError, match=r':13: sft: SFT is for .* ARGS="sft.max_steps='):
        compare(sft="{max_steps: 9}")
    with pytest.raises(RecipeError, match=r"unknown key sft.max_step; did you mean max_steps"):
        compare("sft=null", sft="{max_step: 9}")
    with pytest.raises(RecipeError, match=r"it has no `sft` section, .* try values") as refusal:
        compare("sft=null")
    line = str(refusal.value).partition("try values, as ")[2]
    _, *options = shlex.split(line)[1:]
    values = dict(option.split("=", 1) for option in options)
    assert values["SEEDS"] == "1"
    asks = "prompt.system='Put the answer into <answer> tags.'"
    assert compare("sft=null", asks, sft=values["SFT"])[0] == ""
    boxed = compare("sft=null", r"prompt.system='Use \boxed{}.'", sft=values["SFT"])[0]
    assert boxed.startswith("SFT and RFT learn to write <think> and <answer> tags, which the")


def test_models_of_other_settings_are_not_reported(compare, tmp_path):
    values = "{max_steps: 9}"
    _, commands = compare("sft=null", sft=values)
    for stage, path, *words in commands:
        if stage in ("sft", "grpo"):
            recipe = load_recipe(path, words)
            writing.begin(find_run(recipe, stage), recipe, [{"problem": "1+1", "solution": "2"}])
            (recipe.stage_dir(stage) / "summary.json").write_text('{"steps": 9}')
    _, commands = compare("sft=null", sft=values)
    assert [words[0] for words in commands] == ["check", "evaluate", "evaluate"]
    with pytest.raises(RecipeError) as refusal:
        compare("sft=null", sft="{max_steps: 8}")
    message = str(refusal.value)
    for folder in ("worked", "rft", "rft-3-of-3"):
        expected = "it was trained with\n  sft.max_steps: 9 there, 8 here"
        assert f"/seed-1/{folder}/sft: {expected}" in message
    command = f'make methods ARGS="sft=null output_dir={tmp_path}/x-2" SEEDS=1'
    assert message.endswith(f'folder: {command} SFT="{{max_steps: 8}}"')
    with pytest.raises(RecipeError, match=r"/grpo: it was .*\n  grpo.max_steps: 240 there"):
        compare("sft=null", "grpo.max_steps=241", sft=values)


@pytest.mark.slow
def test_a_stopped_comparison_goes_on(chain, tmp_path, monkeypatch, capsys):
    """The warm start is there; the rest is made."""
    words = ["recipes/tiny-distill.yaml", f"output_dir={tmp_path}", f"teacher={chain / 'grpo'}"]
    words += [
        *CHAIN,
        "distill.per_device_train_batch_size=32",
        "data.train=[arithmetic: {digits: 1}]",
    ]
    copied(chain, tmp_path / "methods/seed-42", "sft")
    commands = []

    def code_of(self, command: list[str]) -> int:
        commands.append(command[0])
        if len(commands) == 3:
            return 75
        return run_stage(*command, check=False).returncode

    monkeypatch.setattr(methods.Running, "code_of", code_of)
    recipe = load_recipe(words[0], words[1:])
    with pytest.raises(SystemExit) as stopped:
        methods.main(recipe, ["42"])
    assert stopped.value.code == 75 and commands == ["check", "rejection-sampling", "sft"]
    methods.main(recipe, ["42"])
    assert commands[3:5] == ["check", "rejection-sampling"] and commands.count("grpo") == 1
    printed = capsys.readouterr().out
    assert "| GRPO | answers | 256 |" in printed and "| distillation | a teacher | 256 |" in printed
    lines = (tmp_path / "methods/outcomes.jsonl").read_text().splitlines()
    assert {json.loads(line)["measure"] for line in lines} == {
        "greedy",
        "lenient",
        "answered",
        "sampled",
    }
    assert (tmp_path / "methods/methods.png").is_file() and (ROOT / "recipes").is_dir()
