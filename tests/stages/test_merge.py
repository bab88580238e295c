"""`make merge`: the written model computes what the adapter does on its base, or nothing is
written."""

import pytest

from console.faults import RecipeError
from evaluation.completions import named_model
from runs import files, identity
from schema.recipe import load_recipe
from stages import merge
from tests.support import FEW_PROBLEMS, run_stage
from training.merging import log_probabilities
from training.model import load_model, load_tokenizer

GIVEN = ["recipes/tiny-arithmetic.yaml", *FEW_PROBLEMS, "sft=null", "grpo.max_steps=2"]
GIVEN += ["grpo.per_device_train_batch_size=8", "grpo.num_generations=4", "grpo.logging_steps=1"]
GIVEN += ["grpo.max_completion_length=16", "grpo.learning_rate=1e-2", "grpo.eval_steps=null"]
GIVEN += ["rewards.tests.varied_reward.varied={weight: 1.0}"]
TIED = "adapter={r: 4, lora_alpha: 8, target_modules: [q_proj, embed_tokens]}"
PLAIN = "adapter={r: 4, lora_alpha: 8, target_modules: all-linear}"


@pytest.fixture(scope="module", params=["tied", "bfloat16"])
def run(request, tmp_path_factory):
    """The tiny model's head is its embedding."""
    given = [*GIVEN, f"output_dir={tmp_path_factory.mktemp('merge')}/run"]
    given += [TIED] if request.param == "tied" else [PLAIN, "model.dtype=bfloat16"]
    run_stage("grpo", *given)
    return load_recipe(given[0], given[1:])


def test_a_merge_that_is_another_model_is_refused_and_leaves_nothing(run, monkeypatch, capsys):
    if run.model.dtype == "float32":
        monkeypatch.setattr(merge, "separate_shared", lambda model: None)
    else:
        monkeypatch.setattr(merge, "LIMIT", {"bfloat16": -1.0})
    with pytest.raises(RecipeError, match=r"not the trained policy: .* Nothing was written: serve"):
        merge.main(run)
    assert not run.stage_dir("merged").exists()
    assert not run.stage_dir("merged").with_name("merged.partial").exists()


def test_the_merged_model_is_the_adapter_on_its_base_and_says_by_how_much_not(
    run, capsys, monkeypatch
):
    on_disk = []
    monkeypatch.setattr(files, "sync", on_disk.append)
    merge.main(run)
    assert run.stage_dir("merged.partial") / "model.safetensors" in on_disk
    assert "tokens of the run differ from the trained policy's by" in capsys.readouterr().out
    tokenizer = load_tokenizer(run)
    ids = [[5, 6, 7, 8, 9, 10]]
    policy, merged = (
        log_probabilities(load_model(run, tokenizer, run.stage_dir(stage)), ids)
        for stage in ("grpo", "merged")
    )
    difference = (policy - merged).abs().mean()
    assert difference < (1e-4 if run.model.dtype == "float32" else 0.05)
    merge.main(run)
    assert "merged already" in capsys.readouterr().out
    merged = str(run.stage_dir("merged"))
    named_model(run, merged)
    monkeypatch.setattr(identity, "weights_hash", lambda folder: ["of a policy trained on since"])
    for main in (merge.main, lambda recipe: named_model(recipe, merged)):
        with pytest.raises(RecipeError, match=r"was not made from the policy .*: delete it, and"):
            main(run)
