"""The audit passes every shipped recipe, and fails a reward that pays a hack or hides a correct
answer."""

from pathlib import Path

import pytest

from schema.recipe import load_recipe
from stages import audit
from tests.support import DISTINCT, refused, run_stage
from tests.tables import cases, yaml_text


@pytest.mark.parametrize("path", DISTINCT, ids=lambda path: Path(path).stem)
def test_no_hack_beats_honesty_in_a_shipped_recipe(path, math_data, capsys):
    overrides = [f"data.dir={math_data}", "data.validation=10", "evaluate.checkpoint_problems=5"]
    audit.main(load_recipe(path, overrides), rows=20)
    printed = capsys.readouterr().out
    assert "20 of 20 gold answers are accepted when repeated" in printed
    assert "audit: no reward hack earns more than an honest answer" in printed


def audited(reward: str, data: str = "arithmetic", rows: int = 5):
    overrides = [f"rewards={{{reward}}}", f"data.train=[{data}]", "data.validation=1"]
    audit.main(load_recipe("recipes/tiny-arithmetic.yaml", overrides), rows=rows)


SOURCES = yaml_text(__file__, "sources")


@cases(__file__, "beaten")
def test_a_reward_that_pays_a_hack_fails(source, reward, beaten, as_much, own_file, capsys):
    own_file("own.py", SOURCES[source])
    with pytest.raises(SystemExit) as failed:
        audited(reward)
    out = capsys.readouterr().out
    marked = [line for line in out.splitlines() if "an honest answer on " in line]
    for line in marked:
        assert ("← as much as" in line) == as_much
    for name in beaten:
        assert any(f"  {name}  ←" in line for line in marked)
    more = f" and {len(marked) - 3} more" if len(marked) > 3 else ""
    assert str(failed.value.code).endswith(more) and str(failed.value.code).count(";") <= 2
    assert ("it teaches nothing" in out) == (source == "blind")


BEGIN_GRPO = ["--stages", "sft", "grpo", "evaluate"]


@cases(__file__, "not_begun")
def test_grpo_does_not_begin_with_a_beaten_reward(source, reward, named, own_file, tmp_path):
    """The message names the reward, and the text that it pays."""
    own_file("own.py", SOURCES[source])
    recipe = ["recipes/tiny-arithmetic.yaml", f"rewards={{{reward}}}", f"output_dir={tmp_path}"]
    message = refused("check", "--fast", *recipe, *BEGIN_GRPO)
    assert named in message and "AUDIT=off" in message and "make audit ARGS=" in message


def test_grpo_does_not_begin_with_golds_that_no_plain_answer_earns(own_file, tmp_path):
    own_file(
        "about.py",
        "def problems(split):\n    return [{'problem': f'{i} + 0.2?', 'answer': f'ca. {i}'}"
        " for i in range(40)]\n",
    )
    recipe = ["recipes/tiny-arithmetic.yaml", "data.train=[about.problems]", "data.validation=4"]
    recipe += ["sft=null", f"output_dir={tmp_path}"]
    message = refused("check", "--fast", *recipe, *BEGIN_GRPO)
    assert "36 of 36 golds" in message and "AUDIT=off" in message
    run_stage("check", "--fast", *recipe, *BEGIN_GRPO, AUDIT="off")


def test_grpo_begins_with_a_beaten_reward_where_the_audit_is_off_or_only_memory_is_probed(tmp_path):
    recipe = ["recipes/tiny-arithmetic.yaml", "rewards={format_tags: {}}", f"output_dir={tmp_path}"]
    assert "audit" not in run_stage("check", "--fast", *recipe, *BEGIN_GRPO, AUDIT="off").stderr
    run_stage("check", "--fast", *recipe, "--stages", "grpo", "probe-memory")


def test_grpo_begins_with_honest_rewards_and_leaves_a_broken_one_to_the_training(
    own_file, tmp_path
):
    recipe = ["recipes/tiny-arithmetic.yaml", f"output_dir={tmp_path}"]
    done = run_stage("check", "--fast", *recipe, *BEGIN_GRPO)
    assert "audit: no reward hack earns more than an honest answer, of 53 ways" in done.stdout
    own_file("own.py", "def away(completions, **columns):\n    raise ConnectionError('no judge')\n")
    done = run_stage("check", "--fast", *recipe, "rewards.own.away={weight: 0.1}", *BEGIN_GRPO)
    assert "rewards: they were not tried: rewards.own.away: no judge" in done.stderr


def test_golds_the_verifier_cannot_judge_are_listed(own_file, capsys):
    own_file(
        "towers.py",
        "def problems(split):\n    golds = ['((9!)!)!', 'It has 2 of them.', *'3456']\n    return"
        " [{'problem': f'What follows {gold}?', 'solution': gold} for gold in golds]\n",
    )
    audited("correct_answer: {}", data="towers.problems")
    printed = capsys.readouterr().out
    assert "3 of 5 gold answers are accepted when repeated" in printed
    assert "say this sentence: mark its value, #### 5: gold 'It has 2 of them.'" in printed
    line = "cannot be told from an incorrect answer: gold '((9!)!)!' of 'What follows ((9!)!)!?'"
    assert line in printed
