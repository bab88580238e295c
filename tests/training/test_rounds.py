"""GRPO in rounds, also after a kill: the reference of each is the policy that it begins with. And a reward model that
is refreshed between two rounds: from which pairs, and what it leaves alone."""

import json
import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from accelerate.state import GradientState
from transformers import set_seed

from schema.faults import RecipeError, RunStopped
from schema.recipe import load_recipe, read_recipe
from tests.support import CHAIN, copied, kill_when, read_lines, run_stage, same_weights, weights
from tests.training.test_reward_model import made
from training.pairs import PAIRS, RewardPair, pairs_of_batch, read_pairs, replayed, write_pairs
from training.reward_model import load_reward_model
from training.rounds import Refresh, undisturbed
from training.run_folder import find_run
from training.scoring import guarded_rewards

TINY = "recipes/tiny-arithmetic.yaml"
LORA = "adapter={r: 8, lora_alpha: 16, target_modules: all-linear}"
SHORT = [TINY, "rounds=2", "grpo.beta=0.04", "grpo.max_steps=8", "grpo.save_steps=1"]
SHORT += ["grpo.logging_steps=1", "grpo.num_iterations=1", "grpo.per_device_train_batch_size=16"]
SHORT += ["rewards.tests.varied_reward.varied={weight: 1.0}", "sft.max_steps=20", "data.validation=40"]
SHORT += ["sft.per_device_train_batch_size=16"]
KINDS = {
    "whole": ["sft=null"],
    "whole, after a warm start": [],
    "LoRA": [LORA, "sft=null"],
    "LoRA, after a warm start": [LORA],
}
# Of a reward model that is refreshed.
SMALL = [TINY, *CHAIN, "rounds=2", "grpo.beta=0.04", "grpo.save_steps=1", "grpo.save_total_limit=8"]
SMALL += ["grpo.temperature=1", "grpo.per_device_train_batch_size=16", "evaluate.benchmarks=[]"]
SMALL += ["reward_model={max_steps: 4, per_device_train_batch_size: 4, learning_rate: 1.0e-3}"]
BEFORE = [RewardPair(f"{i}?", [{"role": "user", "content": f"{i}?"}], f"{i}", f"not {i}") for i in range(30)]


@pytest.fixture(
    params=["LoRA, after a warm start", *(pytest.param(each, marks=pytest.mark.slow) for each in list(KINDS)[:3])]
)
def run(request, tmp_path):
    """The arguments of a run in two rounds, and its folder."""
    arguments = [*SHORT, *KINDS[request.param], f"output_dir={tmp_path}/run"]
    if "sft=null" not in arguments:
        run_stage("sft", *arguments)
    return arguments, tmp_path / "run/grpo"


@pytest.mark.train
def test_a_round_begins_without_a_distance_and_is_resumed_to_the_bit(run, tmp_path):
    arguments, folder = run
    killed = [*arguments[:-1], f"output_dir={tmp_path}/killed"]
    if (folder.parent / "sft").exists():
        shutil.copytree(folder.parent, tmp_path / "killed")
    said = run_stage("grpo", *arguments).stdout
    assert said.count("the reference is now the policy") == 1 and "round 2 of 2" in said
    distances = [line["kl"] for line in read_lines(folder / "metrics.jsonl") if "kl" in line]
    assert distances[0] == pytest.approx(0, abs=1e-9) and distances[4] == pytest.approx(0, abs=1e-9)
    assert all(each > 1e-9 for each in distances[1:4] + distances[5:])

    kill_when((tmp_path / "killed/grpo/checkpoint-6/manifest.json").exists, "grpo", *killed)  # within the second round
    resumed = run_stage("grpo", *killed).stdout
    assert "checkpoint-6" in resumed or "checkpoint-7" in resumed
    assert same_weights(tmp_path / "killed/grpo", folder)


@pytest.mark.train
def test_a_reference_that_is_gone_is_told(tmp_path):
    """Of a whole model: an adapter's is in the checkpoint."""
    arguments = [*SHORT, "sft=null", "grpo.max_steps=4", f"output_dir={tmp_path}"]
    run_stage("grpo", *arguments)
    (tmp_path / "grpo/summary.json").unlink()
    shutil.rmtree(tmp_path / "grpo/checkpoint-4")
    shutil.rmtree(tmp_path / "grpo/reference-2")
    done = run_stage("grpo", *arguments, check=False)
    assert "reference-2 is missing" in done.stderr and "Traceback" not in done.stderr and done.returncode


@pytest.mark.train
def test_a_checkpoint_of_an_earlier_round_keeps_its_reference(tmp_path):
    """Where checkpoints are rarer than rounds, a run goes back over the beginning of one."""
    rare = ["rounds=4", "grpo.save_steps=3", "grpo.save_total_limit=5", "sft=null"]
    arguments = [*SHORT, *rare, f"output_dir={tmp_path}"]
    run_stage("grpo", *arguments)
    shutil.copytree(tmp_path / "grpo", tmp_path / "whole")
    (tmp_path / "grpo/summary.json").unlink()
    for step in (8, 6):
        shutil.rmtree(tmp_path / f"grpo/checkpoint-{step}")
    assert "checkpoint-3" in run_stage("grpo", *arguments).stdout
    assert same_weights(tmp_path / "grpo", tmp_path / "whole")


@pytest.mark.train
def test_a_round_leads_elsewhere(tmp_path):
    for rounds in ("2", "null"):
        overrides = [f"rounds={rounds}", "sft=null", "grpo.max_steps=4", "grpo.learning_rate=1e-3"]
        run_stage("grpo", *SHORT, *overrides, f"output_dir={tmp_path}/{rounds}")
    assert not same_weights(tmp_path / "2/grpo", tmp_path / "null/grpo")
    assert "rounds" not in (tmp_path / "null/grpo/recipe.yaml").read_text()
    assert json.loads((tmp_path / "2/grpo/summary.json").read_text())["steps"] == 4


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["grpo.beta=0"], "rounds: 2: without a reference a round is nothing"),
        (["grpo.max_steps=7"], "take a multiple of 2"),
        (["grpo.max_steps=6", "grpo.num_iterations=2"], "take a multiple of 4"),
        (["rounds=1"], "rounds: expected a whole number from 2 to 1,000, got 1"),
        (["grpo.sync_ref_model=true"], "a checkpoint would not contain the reference"),
    ],
)
def test_rounds_that_do_not_fit(overrides, message):
    with pytest.raises(RecipeError) as error:
        load_recipe(SHORT[0], [*SHORT[1:], *overrides])
    assert message in str(error.value)


def said(text: str) -> list[dict]:
    return [{"role": "assistant", "content": text}]


def test_the_pairs_of_a_batch_are_right_and_wrong_of_one_group():
    asked = {each: [{"role": "user", "content": each, "more": None}] for each in ("a", "b", "c", "held out")}
    sampled = [("a", f"wrong {i}", 0.0) for i in range(6)] + [("a", f"right {i}", 1.0) for i in range(5)]
    sampled += [("b", "only right", 1.0), ("b", "unclear", None), ("held out", "1", 1.0), ("held out", "2", 0.0)]
    sampled += [("c", "no", 0.0), ("c", "no", 0.0), ("c", "yes", 1.0), ("c", "also", 1.0)]
    problems, texts, verdicts = zip(*sampled, strict=True)
    found = pairs_of_batch([asked[each] for each in problems], list(map(said, texts)), verdicts, {"a", "b", "c"})
    assert [(each.problem, each.right, each.wrong) for each in found] == [
        *(("a", f"right {i}", f"wrong {i}") for i in range(4)),  # no more of one group
        ("c", "yes", "no"),  # a text that was sampled twice is in one pair
    ]
    assert found[0].prompt == [{"role": "user", "content": "a"}]
    assert found[0].row()["chosen"] == said("right 0") and found[0].row()["rejected"] == said("wrong 0")


@pytest.mark.parametrize(
    ("new", "earlier", "again"), [(40, 30, 3 + 1), (40, 2, 2), (200, 30, 20), (4, 30, 0), (40, 0, 0)]
)
def test_a_tenth_as_many_earlier_pairs_are_learned_again(new, earlier, again):
    drawn = replayed(BEFORE[:1] * new, BEFORE[:earlier], seed=7)
    assert len(drawn) == again == len(set(map(str, drawn))) and set(map(str, drawn)) <= set(map(str, BEFORE))
    assert drawn == replayed(BEFORE[:1] * new, BEFORE[:earlier], seed=7)


def test_a_trainer_inside_leaves_random_states_and_accelerate_alone():
    def draw() -> list[float]:
        return [random.random(), np.random.rand(), torch.rand(1).item()]

    set_seed(0)
    untouched = draw()
    set_seed(0)
    GradientState()._set_sync_gradients(False)
    with undisturbed():
        set_seed(5)
        draw()
        GradientState()._set_sync_gradients(True)
    assert draw() == untouched and GradientState().sync_gradients is False
    GradientState()._set_sync_gradients(True)


OPTIONS = [
    ("rounds=null", "refresh: true", "rewards.learned.refresh: the reward model is refreshed between two rounds"),
    ("seed=1", 'refresh: true, steps: "\\n"', "rewards.learned.refresh: whole completions are right or wrong"),
    ("rewards.correct_answer=null", "refresh: true", "rewards.learned.refresh: correct_answer tells right from wrong"),
    ("seed=1", "refresh: 3", "learned: refresh: expected true or false, got 3"),
    ("rounds=null", "refresh: false", None),
    ("seed=1", "refresh: true", None),
]


@pytest.mark.parametrize(("override", "options", "told"), OPTIONS)
def test_options_that_do_not_go_with_it(override, options, told):
    given = [*SMALL[1:], f"rewards.learned={{model: some/model, {options}}}", override]
    if override.startswith("rewards."):
        given[-1:] = ["rewards={format_tags: {weight: 1.0}, learned: {model: some/model, refresh: true}}"]
    _, faults = read_recipe(TINY, given, check=())
    assert any(told in str(each) for each in faults) if told else not faults


def test_several_processes_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    _, faults = read_recipe(TINY, [*SMALL[1:], "rewards.learned={model: some/model, refresh: true}"], check=())
    assert any("it works with one process, and there are 2" in str(each) for each in faults)


def test_a_reward_model_that_is_gone_is_told(tmp_path):
    recipe = load_recipe(TINY, [*SMALL[1:], "rewards.learned={model: some/model, refresh: true}"], check=())
    refresh, args = Refresh(recipe, None, set(), 4), SimpleNamespace(output_dir=str(tmp_path))
    with pytest.raises(RunStopped, match=r"checkpoint-6/pairs\.jsonl is not what a run wrote"):
        refresh.on_train_begin(args, SimpleNamespace(global_step=6), None)
    (tmp_path / "checkpoint-6").mkdir()
    (tmp_path / "checkpoint-4").mkdir()
    for step in (4, 6):
        write_pairs(tmp_path / f"checkpoint-{step}" / PAIRS, BEFORE[:step])
    with pytest.raises(RunStopped, match="reward-model-4 is missing, the reward model of this round"):
        refresh.on_train_begin(args, SimpleNamespace(global_step=6), None)
    refresh.on_train_begin(args, SimpleNamespace(global_step=4), None)  # refreshed once this run goes on
    assert refresh.pairs == BEFORE[:4]


@pytest.mark.parametrize("adapter", ["null", "{r: 4, target_modules: all-linear}"])
def test_what_is_kept_and_used_after_each_round(adapter, tmp_path, capsys):
    first = made(tmp_path / "first")
    given = [*SMALL[1:], f"adapter={adapter}", f"rewards.learned={{model: {first}, refresh: true}}"]
    recipe = load_recipe(TINY, given, check=())
    reward, state = load_reward_model(recipe), SimpleNamespace(global_step=0, max_steps=16)
    refresh, args = Refresh(recipe, reward, set(), 4), SimpleNamespace(output_dir=str(tmp_path), seed=1)
    begun = []
    for state.global_step, pairs in ((0, []), (2, BEFORE), (4, []), (8, BEFORE[:20]), (12, BEFORE[20:])):
        if state.global_step == 12:  # a checkpoint of the round before, whose model it needs
            (tmp_path / "checkpoint-10").mkdir()
        refresh.pairs = pairs
        refresh.on_step_begin(args, state, None)
        begun.append(sorted(each.name for each in tmp_path.glob("reward-model-*")))
    assert begun == [[], [], ["reward-model-4"], ["reward-model-8"], ["reward-model-12", "reward-model-8"]]
    assert refresh.pairs == [] and refresh.earlier == BEFORE == read_pairs(tmp_path / "reward-model-12" / PAIRS)
    assert not same_weights(tmp_path / "reward-model-8", first)
    assert not same_weights(tmp_path / "reward-model-12", tmp_path / "reward-model-8")
    used = {name: each.numpy() for name, each in reward.model.state_dict().items()}
    kept = weights(tmp_path / "reward-model-12")
    assert kept.keys() == used.keys() and all(np.array_equal(kept[name], used[name]) for name in kept)
    assert not reward.model.training and not any(each.requires_grad for each in reward.model.parameters())
    assert not list((tmp_path / "reward-model-12").glob("adapter*"))
    said = capsys.readouterr().out
    assert "round 2 of 4: the reward model stays as it is: it could learn from none of 0 new pairs" in said
    assert "round 4 of 4: the reward model learned from 10 new pairs and 1 earlier ones" in said


def test_pairs_that_are_all_too_long_change_nothing(tmp_path, capsys):
    first = made(tmp_path / "first")
    given = [*SMALL[1:], "reward_model.max_length=2", f"rewards.learned={{model: {first}, refresh: true}}"]
    recipe = load_recipe(TINY, given, check=())
    refresh = Refresh(recipe, load_reward_model(recipe), set(), 4)
    refresh.pairs = list(BEFORE)
    args = SimpleNamespace(output_dir=str(tmp_path), seed=1)
    refresh.on_step_begin(args, SimpleNamespace(global_step=4, max_steps=8), None)
    assert same_weights(tmp_path / "reward-model-4", first)
    assert "could learn from none of 30 new" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line",
    [
        "[" * 10**6,
        "7",
        "{}",
        '{"problem": "1?", "prompt": [], "right": "1", "wrong": "2"}',
        '{"problem": "1?", "prompt": [7], "right": "1", "wrong": "2"}',
        '{"problem": "1?", "prompt": [{"role": "user", "content": "1?"}], "right": 1, "wrong": "2"}',
        '{"problem": "1?", "prompt": [{"role": "user", "content": {}}], "right": "1", "wrong": "2"}',
        '{"problem": "1?", "prompt": [{"role": "user", "content": "1?"}], "right": "1", "wrong": "2", "path": "/"}',
    ],
)
def test_a_strangers_pairs_are_text_and_nothing_else(line, tmp_path):
    file = tmp_path / PAIRS
    write_pairs(file, BEFORE)
    assert read_pairs(file) == BEFORE
    file.write_text(f"{file.read_text()}{line}\n")
    with pytest.raises(RunStopped, match="is not what a run wrote"):
        read_pairs(file)


@pytest.fixture(scope="module")
def refreshed(chain, tmp_path_factory) -> tuple[list[str], Path, Path]:
    """The arguments of a run in two rounds but for its folder, the folder, and that of its first reward model."""
    folder, first = copied(chain, tmp_path_factory.mktemp("run"), "sft"), made(tmp_path_factory.mktemp("reward"))
    write_pairs(first / PAIRS, BEFORE)
    arguments = [*SMALL, f"rewards.learned={{model: {first}, weight: 0.5, refresh: true}}"]
    shutil.copytree(folder, folder.parent / "killed")
    said = run_stage("grpo", *arguments, f"output_dir={folder}").stdout
    assert said.count("the reward model learned from") == 1 and "round 2 of 2: the reward model learned" in said
    return arguments, folder, first


@pytest.mark.train
def test_a_round_begins_with_a_reward_model_that_learned_from_the_round_before(refreshed):
    arguments, folder, first = refreshed
    kept, problems = folder / "grpo/reward-model-4", set()
    assert not same_weights(kept, first)
    assert [each.name for each in (folder / "grpo").glob("reward-model-*")] == [kept.name]
    pairs = read_pairs(kept / PAIRS)
    assert pairs[: len(BEFORE)] == BEFORE and len(pairs) > len(BEFORE)
    columns = ["prompt", "completion", "correct_answer", "learned"]
    sampled = [pd.read_parquet(folder / f"grpo/completions/completions_0000{step}.parquet") for step in (1, 2, 3, 4, 5)]
    verdicts = {}
    for frame in sampled[:4]:
        for prompt, completion, verdict, _ in frame[columns].itertuples(index=False):
            verdicts[prompt[-1]["content"], completion[0]["content"]] = verdict
            problems.add(prompt[-1]["content"])
    for each in pairs[len(BEFORE) :]:
        assert verdicts[each.problem, each.right] == 1 and verdicts[each.problem, each.wrong] == 0
    # What was paid: by the first model before the round's end, by the refreshed one after it.
    for frame, model, other in ((sampled[3], first, kept), (sampled[4], kept, first)):
        asked = {f"{name}s": frame[name].map(list).tolist() for name in ("prompt", "completion")}
        paid, not_paid = (
            guarded_rewards(load_recipe(TINY, [f"rewards.learned={{model: {each}}}"], check=()))[-1](**asked)
            for each in (model, other)
        )
        assert frame["learned"].tolist() == pytest.approx(paid, abs=1e-5)
        assert frame["learned"].tolist() != pytest.approx(not_paid, abs=1e-2)
    with pytest.raises(RecipeError, match=r"reward_model\.max_steps: 4 there, 5 here"):
        find_run(load_recipe(TINY, [*arguments[1:], "reward_model.max_steps=5", f"output_dir={folder}"]), "grpo")


@pytest.mark.train
def test_a_run_that_was_killed_is_resumed_to_the_bit(refreshed):
    arguments, folder, _ = refreshed
    killed = folder.parent / "killed"
    second_round = (killed / "grpo/checkpoint-6/manifest.json").exists
    kill_when(second_round, "grpo", *arguments, f"output_dir={killed}")
    shutil.copytree(killed, folder.parent / "between")
    between = folder.parent / "between/grpo"  # as if it had been killed after step 4, before its reward model was kept
    for each in [*between.glob("checkpoint-[5678]"), *between.glob("*-model-4"), *between.glob("reference-4")]:
        shutil.rmtree(each)
    for each, step in ((killed, "checkpoint-[67]"), (between.parent, "checkpoint-4")):
        resumed = run_stage("grpo", *arguments, f"output_dir={each}").stdout
        assert any(f"from {found}" in resumed for found in map(str, (each / "grpo").glob(step)))
        assert ("the reward model learned from" in resumed) == (each != killed)
        assert same_weights(each / "grpo", folder / "grpo")
        for name in ("model.safetensors", PAIRS):
            ours, theirs = (at / "grpo/reward-model-4" / name for at in (each, folder))
            assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.train
def test_a_refresh_disturbs_nothing_but_the_reward(refreshed):
    """Where the reward has no weight, the policy is the one of a run without a refresh."""
    arguments, folder, first = refreshed
    for name, refresh in (("with", "true"), ("without", "false")):
        shutil.copytree(folder / "sft", folder.parent / name / "sft")
        unpaid = f"rewards.learned={{model: {first}, weight: 0.0, refresh: {refresh}}}"
        run_stage("grpo", *arguments[:-1], unpaid, f"output_dir={folder.parent / name}")
    assert (folder.parent / "with/grpo/reward-model-4").is_dir()
    assert not (folder.parent / "without/grpo/reward-model-4").exists()
    assert same_weights(folder.parent / "with/grpo", folder.parent / "without/grpo")
