"""What a run's card and its report say of the ways that not every run goes: the warm start's own solutions, rewards of
steps, and rounds."""

import json

import pytest

from evaluation.run_pages import data, ways
from runs.folder import FinishedRun

OWN = {"completions": 2000, "problems": 500, "solved": 150, "accepted": 310, "kept": 290, "tokens": 9}


def of(folder, **recipe) -> FinishedRun:
    return FinishedRun(folder, folder, recipe, {}, {}, None)


@pytest.mark.parametrize("stage", ["sft", "grpo"])
@pytest.mark.parametrize(
    ("summary", "counts"),
    [
        (
            json.dumps({"own_solutions": OWN}),
            ": of 2,000 completions of 500 problems 310 are accepted, for 150 problems, and 290 kept",
        ),
        (json.dumps({"own_solutions": OWN | {"kept": "many"}}), ""),
        (json.dumps({"own_solutions": [1]}), ""),
        ("{}", ""),
        ("{" * 100_000, ""),
        (None, ""),
    ],
)
def test_a_warm_start_of_the_models_own_solutions_is_told_with_its_counts(summary, counts, stage, tmp_path):
    (tmp_path / "sft").mkdir()
    if summary is not None:
        (tmp_path / "sft/summary.json").write_text(summary)
    given = {"train": ["arithmetic"], "own_solutions": {"samples": 4}}
    lines = data(of(tmp_path / stage, data=given, sft={"max_steps": 5}))
    assert lines[1:] == [f"for the warm start the base model's own right solutions{counts}"]
    for other in ({"data": given}, {"data": given | {"own_solutions": None}, "sft": {"max_steps": 5}}):
        assert data(of(tmp_path / stage, **other)) == lines[:1]


def test_rounds_and_rewards_of_steps_are_told_of_grpo_alone(tmp_path):
    rewards = {"correct_answer": {"weight": 1.0}, "true_equations": {"weight": 0.5, "steps": "\n"}}
    assert ways(of(tmp_path / "grpo", rewards=rewards, rounds=3)) == [
        "`3` rounds, each with the policy that it began with as its reference",
        'process supervision: `true_equations` was given for each step, with `"\\n"` between two steps',
    ]
    assert ways(of(tmp_path / "grpo", rewards={"correct_answer": {"weight": 1.0}}, rounds=None)) == []
    assert ways(of(tmp_path / "sft", rewards=rewards, rounds=3)) == []
