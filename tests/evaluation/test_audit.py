"""The audit passes every shipped recipe, and fails a reward that pays a cheat or hides a right answer."""

from pathlib import Path

import pytest

from schema.recipe import load_recipe
from stages import audit
from tests.support import DISTINCT


@pytest.mark.parametrize("path", DISTINCT, ids=lambda path: Path(path).stem)
def test_no_cheat_beats_honesty_in_a_shipped_recipe(path, math_data, capsys):
    overrides = [f"data.dir={math_data}", "data.validation=10", "evaluate.checkpoint_problems=5"]
    audit.main(load_recipe(path, overrides, check=()), rows=20)
    printed = capsys.readouterr().out
    assert "20 of 20 gold answers are accepted when repeated" in printed
    assert "audit: no cheat earns more than an honest answer" in printed


def audited(reward: str, data: str = "arithmetic", rows: int = 5):
    overrides = [f"rewards={{{reward}}}", f"data.train=[{data}]", "data.validation=1"]
    audit.main(load_recipe("recipes/tiny-arithmetic.yaml", overrides, check=()), rows=rows)


def test_a_reward_that_pays_for_listing_every_candidate_fails(own_file, capsys):
    own_file(
        "naive.py",
        "def mentions_it(completions, solution, **columns):\n"
        "    return [float(s in c[0]['content'].split('<answer>')[-1]) for c, s in zip(completions, solution)]\n",
    )
    with pytest.raises(SystemExit) as failed:
        audited("naive.mentions_it: {}")
    assert "all candidates" in str(failed.value.code)
    assert "one or the other" in str(failed.value.code)
    listed = next(line for line in capsys.readouterr().out.splitlines() if "cheat  all candidates " in line)
    assert listed.endswith("← more than an honest answer on 5 of 5")


def test_a_reward_that_pays_mistakes_as_much_as_right_answers_fails():
    with pytest.raises(SystemExit) as failed:
        audited("format_tags: {}")
    assert "wrong, worked out" in str(failed.value.code)


def test_a_trick_that_earns_more_than_the_plain_answer_fails(own_file):
    own_file(
        "talkative.py",
        "def long_text(completions, **columns):\n    return [len(c[0]['content']) / 10_000 for c in completions]\n",
    )
    with pytest.raises(SystemExit) as failed:
        audited("correct_answer: {}, talkative.long_text: {weight: 0.25}")
    assert "right, after a thought without end" in str(failed.value.code)


def test_golds_the_verifier_cannot_judge_are_listed(own_file, capsys):
    own_file(
        "towers.py",
        "def problems(split):\n"
        "    golds = ['((9!)!)!', '2', '3', '4', '5', '6']\n"
        "    return [{'problem': f'What comes next, {gold}?', 'solution': gold} for gold in golds]\n",
    )
    audited("correct_answer: {}", data="towers.problems")
    printed = capsys.readouterr().out
    assert "4 of 5 gold answers are accepted when repeated" in printed
    assert "cannot be told from a wrong answer: gold '((9!)!)!' of 'What comes next, ((9!)!)!?'" in printed


ONES = "countdown: {numbers: 2, largest: 2}"  # a number times one is often right


@pytest.mark.parametrize("data", ["countdown", "arithmetic: {rows: 2000}, countdown", ONES])
def test_the_cheats_on_a_check_are_tried_where_the_data_has_one(data, capsys):
    audited("correct_answer: {}, format_tags: {weight: 0.25}", data=data)
    printed = capsys.readouterr().out
    assert "5 of 5 gold answers are accepted when repeated" in printed
    assert "cheat  a number left out" in printed
    assert "audit: no cheat earns more than an honest answer" in printed


def test_the_cheats_on_a_program_are_run(capsys):
    audited("correct_answer: {run_programs: true}, format_tags: {weight: 0.25}", data="puzzles", rows=2)
    printed = capsys.readouterr().out
    assert "2 of 2 gold answers are accepted when repeated" in printed
    assert "cheat  the results looked up in its caller" in printed
    assert "audit: no cheat earns more than an honest answer" in printed


def test_a_reward_that_only_computes_the_value_of_a_countdown_fails(own_file):
    own_file(
        "gullible.py",
        "import json\n"
        "def value(text):\n"
        "    try:\n"
        "        return eval(text.split('<answer>')[1].split('</answer>')[0])\n"
        "    except Exception:\n"
        "        return None\n"
        "def reaches(completions, check, **columns):\n"
        "    wanted = [json.loads(each)['countdown']['target'] for each in check]\n"
        "    return [float(value(c[0]['content']) == target) for c, target in zip(completions, wanted)]\n",
    )
    with pytest.raises(SystemExit) as failed:
        audited("gullible.reaches: {}", data="countdown")
    for cheat in ("the target alone", "the target times one", "a number used again and again", "to the power of one"):
        assert cheat in str(failed.value.code)
