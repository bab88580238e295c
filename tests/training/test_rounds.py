"""GRPO in rounds: the reference of each is the policy that it begins with, also after a kill."""

import json
import shutil

import pytest

from schema.recipe import RecipeError, load_recipe
from tests.support import kill_when, read_lines, run_stage, same_weights

LORA = "adapter={r: 8, lora_alpha: 16, target_modules: all-linear}"
SHORT = ["recipes/tiny-arithmetic.yaml", "rounds=2", "grpo.beta=0.04", "grpo.max_steps=8", "grpo.save_steps=1"]
SHORT += ["grpo.logging_steps=1", "grpo.num_iterations=1", "grpo.per_device_train_batch_size=16"]
SHORT += ["rewards.tests.varied_reward.varied={weight: 1.0}", "sft.max_steps=20", "data.validation=40"]
KINDS = {
    "whole": ["sft=null"],
    "whole, after a warm start": [],
    "LoRA": [LORA, "sft=null"],
    "LoRA, after a warm start": [LORA],
}


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
    arguments = [
        *SHORT,
        "rounds=4",
        "grpo.save_steps=3",
        "grpo.save_total_limit=5",
        "sft=null",
        f"output_dir={tmp_path}",
    ]
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
