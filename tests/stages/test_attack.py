"""The attack as a user runs it: it says what is overpaid, and writes a test that fails until the
reward is mended."""

import importlib.util
import json

import pytest

from console.faults import RecipeError
from schema.recipe import load_recipe
from stages import attack

WEAK = """
def ends_well(completions, solution, **columns):
    answers = [c[0]["content"].split("<answer>")[-1].split("</answer>")[0] for c in completions]
    return [float(answer.endswith(gold)) for answer, gold in zip(answers, solution)]
"""
MENDED = """
from rewards import correct_answer

def ends_well(completions, solution, **columns):
    return correct_answer(completions, solution)
"""


def test_it_writes_a_test_that_fails_until_the_reward_is_mended(own_file, tmp_path, capsys):
    own_file("own.py", WEAK)
    overrides = ["rewards={own.ends_well: {}}", f"output_dir={tmp_path}/run"]
    with pytest.raises(SystemExit) as failed:
        attack.main(load_recipe("recipes/tiny-arithmetic.yaml", overrides))
    printed = capsys.readouterr().out
    assert "earn more than an honest one" in str(failed.value.code)
    assert "rewards.own.ends_well pays 1, an honest incorrect answer 0; so on 50 of 50" in printed
    file = tmp_path / "run/attack/test_attack.py"
    assert f"-m pytest {file}" in printed
    spec = importlib.util.spec_from_file_location("test_of_attack", file)
    written = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(written)
    [check] = [getattr(written, name) for name in dir(written) if name.startswith("test_")]
    written_cases = list(map(json.loads, written.CASES))
    assert 0 < len(written_cases) <= attack.SHOWN
    for case in written_cases:
        with pytest.raises(AssertionError):
            check(case)
    own_file("own.py", MENDED)
    for case in written_cases:
        check(case)


def test_it_finds_nothing_in_a_recipe_of_ours_and_writes_nothing(tmp_path, capsys):
    overrides = [f"output_dir={tmp_path}/run"]
    found = attack.main(load_recipe("recipes/tiny-arithmetic.yaml", overrides), seconds=1)
    printed = capsys.readouterr().out
    assert found == [] and not (tmp_path / "run").exists()
    assert "attack: nothing earns more than an honest incorrect answer, in " in printed
    assert "next: make grpo ARGS=" in printed


def test_golds_that_nobody_can_judge_are_refused(own_file):
    own_file(
        "towers.py",
        "def problems(split):\n    return [{'problem': f'{i}?', 'solution': f'(({i}!)!)!'}"
        " for i in range(7, 12)]\n",
    )
    overrides = ["data.train=[towers.problems]", "data.validation=1"]
    with pytest.raises(RecipeError, match="no gold to judge by: make audit ARGS="):
        attack.main(load_recipe("recipes/tiny-arithmetic.yaml", overrides))
