"""`make methods`: the arms that a recipe allows, and the whole road, stopped once."""

import json
from pathlib import Path

import pytest

from console.faults import RecipeError
from schema.recipe import load_recipe
from schema.settings import size_of_run
from stages import methods
from tests.support import CHAIN, ROOT, copied, run_stage

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


@pytest.mark.slow
def test_a_stopped_comparison_goes_on(chain, tmp_path, monkeypatch, capsys):
    """The warm start and GRPO are there; RFT, distillation and the answers are made."""
    words = ["recipes/tiny-distill.yaml", f"output_dir={tmp_path}", f"teacher={chain / 'grpo'}"]
    words += [
        *CHAIN,
        "distill.per_device_train_batch_size=32",
        "data.train=[arithmetic: {digits: 1}]",
    ]
    copied(chain, tmp_path / "methods/seed-42", "sft", "grpo")
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
    assert "sft" not in commands[3:5] and commands.count("grpo") == 0
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
