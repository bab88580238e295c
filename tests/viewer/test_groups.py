import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from runs.records import completion_files
from runs.state import RunState
from tests import made_runs
from tests.tables import cases
from tests.viewer.browser import data
from training.step_rewards import normalise
from viewer import groups
from viewer.groups import CUT, flags
from viewer.runs import describe


def run(folder: Path, change: Callable[[pd.DataFrame], pd.DataFrame | None], **options) -> Path:
    """A run of one step, whose file of completions is changed, in place or into another."""
    path = made_runs.run(folder, steps=1, **options)
    made_runs.change_table(path, 1, change)
    return path


def of_step(path: Path, step: int, folder: str = "completions") -> list[tuple[dict, dict]]:
    """The groups of a step with their entries."""
    description = describe(RunState.read(path))
    return groups.of_step(path / f"{folder}/completions_{step:05d}.parquet", description)


def group(path: Path, step: int, place: int) -> dict:
    return of_step(path, step)[place][1]


def test_every_group_has_an_entry(tmp_path):
    path = made_runs.run(tmp_path, steps=3, groups=2, size=4)
    told = [entry for step in (1, 2, 3) for entry, _ in of_step(path, step)]
    places = [(step, place) for step in (1, 2, 3) for place in (0, 1)]
    assert [(entry["step"], entry["group"]) for entry in told] == places
    description = describe(RunState.read(path))
    assert groups.count(path / made_runs.TABLE.format(2), description) == 2
    frame = pd.read_parquet(path / "completions/completions_00002.parquet").iloc[4:]
    total = (frame["correct_answer"] + 0.25 * frame["format_tags"]).to_numpy()
    found = told[3]
    assert found["question"] == "What is 2 + 1?" and found["n"] == 4
    assert found["mean"] == pytest.approx(total.mean(), abs=1e-5)
    assert found["std"] == pytest.approx(total.std(ddof=1), abs=1e-5)
    assert found["correct"] == frame["correct_answer"].sum()
    assert found["truncated"] == frame["truncated"].sum()


def test_a_group_has_all_that_its_advantages_are_made_of(tmp_path):
    path = made_runs.run(tmp_path)
    told = group(path, 4, 1)
    totals = np.array([row["total"] for row in told["rows"]])
    logged = [row["advantage"] for row in told["rows"]]
    assert np.allclose((totals - totals.mean()) / (totals.std(ddof=1) + 1e-4), logged, atol=1e-4)
    assert told["others"] == [] and told["gold"] == "1" and told["system"] == "Think."
    assert told["batch_tokens"] == sum(10 + i % 7 for i in range(24))
    assert told["batch_completions"] == 24
    made_runs.same_questions(path, {3: 6})
    repeated = of_step(path, 3, "same_questions")
    assert [entry["group"] for entry, _ in repeated] == [-1, -2]
    assert [each["group"] for _, each in repeated] == [-1, -2]
    assert repeated[1][1]["question"] == "Held out 1?"


def test_the_totals_of_the_batch_are_there_where_they_scale_the_rewards(tmp_path):
    path = made_runs.run(tmp_path, scale_rewards="batch")
    totals = [row["total"] for _, each in of_step(path, 2) for row in each["rows"]]
    assert group(path, 2, 1)["others"] == totals[:8] + totals[16:]


def test_a_conversation_is_shown_with_its_turns(tmp_path):
    texts = {"system": "Think.", "user": "x = 5.", "assistant": "OK."}
    prompt = [{"role": role, "content": text} for role, text in texts.items()]
    prompt.append({"role": "user", "content": "2 + x?"})
    path = run(tmp_path, lambda frame: frame.assign(prompt=[prompt] * len(frame)))
    told = group(path, 1, 0)
    assert told["question"] == "user: x = 5.\n\nassistant: OK.\n\nuser: 2 + x?"
    assert told["system"] == "Think."


def test_a_prompt_may_be_plain_text(tmp_path):
    path = run(tmp_path, lambda frame: frame.assign(prompt=["2 + 3?"] * len(frame)))
    assert (group(path, 1, 0)["question"], group(path, 1, 0)["system"]) == ("2 + 3?", "")


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_the_steps_of_a_group_have_the_shares_of_the_training(tmp_path, scale):
    path = made_runs.run(tmp_path, steps=2, scale_rewards=scale)
    pairs = made_runs.with_steps(path, 0.5)[2]
    normal = normalise([[reward for _, reward in steps] for steps in pairs], 8, scale)
    told = [row for place in range(3) for row in group(path, 2, place)["rows"]]
    assert [[[each["end"], each["reward"]] for each in row["steps"]] for row in told] == pairs
    shares = [[each["share"] for each in row["steps"]] for row in told]
    for ours, theirs in zip(shares, normal, strict=True):
        assert np.allclose(ours, 0.5 * np.array(theirs))
    # the step without a reward
    assert max(max(map(abs, each)) for each in shares) > 0.1 and shares[0][0] == 0


def test_a_long_completion_is_cut(tmp_path):
    path = made_runs.run(tmp_path, hostile=True)
    row = group(path, 1, 0)["rows"][4]
    assert len(row["text"]) == CUT and row["length"] == 1_000_000
    json.dumps(group(path, 1, 0), allow_nan=False)


def test_a_completion_without_a_reward_has_none_and_one_whose_square_is_infinite_neither(tmp_path):
    def change(frame: pd.DataFrame):
        frame.loc[0, ["correct_answer", "format_tags"]] = np.nan
        frame.loc[1, "format_tags"] = np.nan
        frame.loc[2:3, "correct_answer"] = [1e299, -1e299]

    path = run(tmp_path, change)
    rows = group(path, 1, 0)["rows"]
    assert rows[0]["total"] is None and rows[1]["total"] == rows[1]["rewards"]["correct_answer"]
    assert [row["rewards"]["correct_answer"] for row in rows[2:4]] == [None, None]
    assert rows[2]["total"] == 0.25 * rows[2]["rewards"]["format_tags"]
    found = of_step(path, 1)[0][0]
    mean = np.mean([row["total"] for row in rows[1:]])
    assert found["mean"] == pytest.approx(mean, abs=1e-5) and found["std"] < 10


@pytest.mark.parametrize("content", [b"", b"PAR1 no parquet PAR1", b"\x00" * 1000])
def test_a_file_that_is_none_of_trls_is_told_and_hides_no_other(tmp_path, content):
    path = made_runs.run(tmp_path, steps=3)
    (path / "completions/completions_00002.parquet").write_bytes(content)
    with pytest.raises(ValueError, match=r"completions_00002\.parquet cannot be read"):
        group(path, 2, 0)
    told = data(path)["0/groups"]
    assert "completions_00002.parquet cannot be read" in told["why"]
    assert told["unreadable"] == 1 and {each["step"] for each in told["groups"]} == {1, 3}


def test_rewards_that_are_not_the_recipes_are_not_guessed_at(tmp_path):
    path = made_runs.run(tmp_path, steps=1)
    made_runs.replace_text(path / "recipe.yaml", "  format_tags: {weight: 0.25}\n", "")
    reason = r"parquet has the rewards correct_answer, format_tags, and the recipe 1"
    with pytest.raises(ValueError, match=reason):
        group(path, 1, 0)


def test_other_files_are_left_out(tmp_path):
    path = made_runs.run(tmp_path, steps=1)
    (path / "completions/other.parquet").write_bytes(b"x")
    assert [file.name for file in completion_files(path)] == ["completions_00001.parquet"]


GOOD = "<think>1+1=2</think>\n<answer>2</answer>"


@cases(__file__, "flags")
def test_what_gives_reason_to_read_a_completion(completion, correct, advantage, reasons):
    assert flags(completion.replace("{good}", GOOD), correct, advantage) == reasons
