"""What the trainer is given beside a recipe's own settings."""

import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from trl import GRPOConfig, GRPOTrainer

from evaluation import engines
from machine.launch import on_this_machine
from schema.configs import ACCURACY
from schema.recipe import RecipeError, load_recipe
from schema.settings import Machine, training_config
from stages import probe_memory
from tests.evaluation import test_vllm
from tests.stages import test_gpu
from tests.support import (
    CHAIN,
    FEW_PROBLEMS,
    refused,
    run_program,
    same_weights,
    trainer_of,
    write_lines,
)
from tests.tables import lacking
from training import train as training
from training import trainer as trainer_module
from training.lean_loss import with_advantage
from training.trainer import stop_at_the_end


def recipe(*overrides: str):
    return load_recipe("recipes/qwen-math-lora.yaml", overrides)


def tiny(*overrides: str):
    return load_recipe("recipes/tiny-arithmetic.yaml", [*FEW_PROBLEMS, *overrides])


def test_vllm_is_told_where_an_answer_ends():
    """tests/training/test_vllm_colocate.py shows with vLLM itself that nothing follows it, and what
    follows without."""
    args = GRPOConfig(use_cpu=True, bf16=False, use_vllm=True, generation_kwargs={"min_tokens": 4})
    stop_at_the_end(args, [7, 9])
    assert args.generation_kwargs == {"stop_token_ids": [7, 9], "min_tokens": 4}


def test_vllms_start_does_not_choose_the_seed(monkeypatch):
    """vLLM 0.31 seeds the trainer's process with its rank (`set_random_seed` of gpu_worker.py)."""
    build = trainer_module.built

    def build_and_start_vllm(*arguments, args, **options):
        trainer = build(*arguments, args=args, **options)
        args.use_vllm = True
        torch.manual_seed(0)
        return trainer

    monkeypatch.setattr(trainer_module, "built", build_and_start_vllm)
    trainer_of(tiny("seed=5"))
    assert torch.initial_seed() == 5


def test_the_sampler_is_corrected_token_by_token():
    """A product over a thousand tokens' ratios leaves the bounds for the engines' rounding
    alone."""
    other = recipe("grpo.vllm_importance_sampling_mode=sequence_mask")
    modes = []
    for each in (recipe(), other):
        args = training_config(on_this_machine(each), "grpo")
        modes.append(args.vllm_importance_sampling_mode)
    assert modes == ["token_truncate", "sequence_mask"]
    # trl's own, for which ours stands in
    assert GRPOConfig.vllm_importance_sampling_mode == "sequence_mask"


@pytest.mark.parametrize(
    "loss, beta, rows", [("dapo", 0, 2), ("cispo", 0, 2), ("dapo", 0.1, 6), ("grpo", 0, 6)]
)
def test_the_loss_reads_no_padding_and_nothing_without_advantage(loss, beta, rows, tmp_path):
    """The gradient is trl's, of the whole batch."""
    given = [f"grpo.loss_type={loss}", f"grpo.beta={beta}", f"output_dir={tmp_path}"]
    given += ["grpo.epsilon_high=5"] * (loss == "cispo")
    trainer = trainer_of(tiny(*given))
    trainer.current_gradient_accumulation_steps = 1
    random = torch.Generator().manual_seed(0)
    before, after = torch.tensor([3, 5, 4, 2, 5, 5]), torch.tensor([4, 2, 7, 6, 3, 1])
    inputs = {
        "prompt_ids": torch.randint(3, 90, (6, 8), generator=random),
        "prompt_mask": (torch.arange(8) >= 8 - before[:, None]).long(),
        "completion_ids": torch.randint(3, 90, (6, 9), generator=random),
        "completion_mask": (torch.arange(9) < after[:, None]).long(),
        "old_per_token_logps": -3 - torch.rand(6, 9, generator=random),
        "ref_per_token_logps": -3 - torch.rand(6, 9, generator=random),
        "advantages": torch.tensor([0, 1.5, 0, -1.5, 0, 0]),
        "num_items_in_batch": after.sum(),
    }
    seen, gradients = [], []
    embedding = trainer.model.train().get_input_embeddings()
    embedding.register_forward_hook(lambda module, given, _: seen.append(tuple(given[0].shape)))
    for kind in (GRPOTrainer, type(trainer)):
        trainer.model.zero_grad()
        trainer.__class__ = kind
        trainer._compute_loss(trainer.model, inputs).backward()
        gradients.append(torch.cat([each.grad.flatten() for each in trainer.model.parameters()]))
    assert seen == [(6, 17), (rows, 5 + (6 if rows == 2 else 7))]
    assert gradients[0].norm() > 0.01
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-6)
    # the passes before the loss, of two rows each
    text = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
    passes = []
    for kind in (GRPOTrainer, type(trainer)):
        method = kind._get_per_token_logps_and_entropies
        logps, _, _ = method(trainer, trainer.model, text, mask, 9, batch_size=2)
        passes.append(logps.detach() * inputs["completion_mask"])
    torch.testing.assert_close(passes[1], passes[0], rtol=1e-5, atol=1e-5)
    assert seen[2:] == [(2, 17)] * 3 + [(2, 5 + 4), (2, 4 + 7), (2, 5 + 3)]
    # mask_truncated_completions
    nothing = inputs | {"completion_mask": torch.zeros(6, 9, dtype=torch.long)}
    assert trainer._compute_loss(trainer.model, nothing) == 0
    inputs["completion_mask"][0] = 0  # cut off, and masked
    flat = with_advantage(inputs | {"advantages": torch.zeros(6)})
    assert torch.equal(flat["prompt_ids"], inputs["prompt_ids"][1:2])
    assert flat["num_items_in_batch"] == after.sum()


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 6, 8, 12, 16])
def test_the_validation_problems_go_into_full_batches(processes):
    """On any usual number of GPUs, as the recipe ships; into one for vLLM, which is woken for
    each."""
    shared = [f"{stage}.gradient_accumulation_steps=48" for stage in ("sft", "grpo")]
    sizes = []
    for use_vllm in ("true", "false"):
        overrides = [*shared, f"grpo.use_vllm={use_vllm}"]
        shipped = load_recipe("recipes/qwen-math-lora.yaml", overrides, processes=processes)
        sizes.append(shipped.settings["grpo"]["per_device_eval_batch_size"])
    by_vllm, without = sizes
    assert by_vllm * processes == 192
    assert 192 % (without * processes) == 0 and without <= 16


def test_an_evaluation_passes_no_more_through_the_model_than_training(tmp_path):
    """trl would pass a whole batch: its loss, and its log-probabilities under the reference."""
    overrides = ["sft=null", "evaluate.checkpoint_problems=32", "grpo.eval_steps=2"]
    overrides += ["data.validation=40"]
    overrides += ["grpo.max_completion_length=8"]
    overrides += ["grpo.per_device_train_batch_size=16", "grpo.beta=0.04", f"output_dir={tmp_path}"]
    trainer = trainer_of(tiny(*overrides), validates=True)
    sizes = []

    def seen(module, _, given):
        if "labels" in given:  # not while it samples
            sizes.append(len(given["input_ids"]))

    for model in (trainer.model, trainer.ref_model):
        model.register_forward_pre_hook(seen, with_kwargs=True)
    assert ACCURACY in trainer.evaluate()
    assert max(sizes) == 16 < trainer.args.per_device_eval_batch_size


def test_an_evaluation_that_chooses_no_checkpoint_leaves_the_weights_as_they_are(chain, tmp_path):
    logged = []
    for steps in ("2", "null"):
        overrides = [
            *CHAIN,
            "grpo.max_steps=4",
            f"grpo.eval_steps={steps}",
            "evaluate.checkpoint_problems=0",
        ]
        run = tiny(*overrides, f"output_dir={tmp_path / steps}")
        trainer = trainer_of(run, validates=steps == "2", warm_start=chain / "sft")
        trainer.train()
        logged.append([line["step"] for line in trainer.state.log_history if ACCURACY in line])
    assert logged == [[2, 4], []]
    assert same_weights(tmp_path / "2/grpo/checkpoint-4", tmp_path / "null/grpo/checkpoint-4")


def test_the_questions_that_every_evaluation_samples_change_nothing_else(chain, tmp_path):
    """A run that writes no completions samples none for them."""
    ends = []
    for writes in ("true", "false"):
        overrides = [*CHAIN, "grpo.eval_steps=2", "evaluate.checkpoint_problems=8"]
        overrides.append("grpo.max_steps=4")
        overrides += [f"grpo.log_completions={writes}", f"output_dir={tmp_path / writes}"]
        trainer = trainer_of(tiny(*overrides), validates=True, warm_start=chain / "sft")
        trainer.train()
        drawn = [random.random(), np.random.rand(), torch.rand(1).item()]
        times = ("runtime", "per_second", "step_time")
        for line in trainer.state.log_history:
            drawn += [line[key] for key in line if not key.endswith(times)]
        ends.append(drawn)
    assert ends[0] == ends[1]
    last, without = tmp_path / "true/grpo", tmp_path / "false/grpo"
    assert same_weights(last / "checkpoint-4", without / "checkpoint-4")
    assert not (without / "same_questions").exists()
    tables = [pd.read_parquet(file) for file in sorted((last / "same_questions").iterdir())]
    assert [set(table["step"]) for table in tables] == [{2}, {4}]
    prompts = [list(map(str, table["prompt"])) for table in tables]
    assert prompts == prompts[:1] * 2 and set(Counter(prompts[0]).values()) == {8}


def test_a_revision_is_refused_where_vllm_would_load_another():
    with pytest.raises(RecipeError, match="trl has vLLM load the newest revision"):
        recipe("model.revision=abc")
    recipe("model.revision=abc", "grpo.use_vllm=false")


def test_a_length_that_the_recipe_leaves_out_is_the_librarys(tmp_path):
    """Everywhere the same: in the evaluation, the largest step, the advice when memory runs out."""
    silent = load_recipe("recipes/qwen-coder-0.5b-lora.yaml")
    assert "max_completion_length" not in silent.grpo
    args = training_config(on_this_machine(silent), "grpo")
    assert engines.max_new_tokens(silent) == args.max_completion_length == 512
    worst = probe_memory.worst_step(silent, tmp_path).grpo
    assert worst["generation_kwargs"] == {"min_tokens": 512}
    assert "max_completion_length 512 → 256" in training.out_of_memory(silent)


@pytest.mark.parametrize("quantization", [[], [test_gpu.NF4]])
def test_the_recipe_of_the_gpu_suite_is_sound(quantization):
    """It runs where nobody may look for long."""
    load_recipe(test_gpu.WIDE[0], [*test_gpu.WIDE[1:], "model.name_or_path=Qwen/Qwen2.5-0.5B"])
    load_recipe(test_gpu.RECIPE, [*test_gpu.SHORT, *quantization])
    load_recipe(test_vllm.RECIPE[0], test_vllm.RECIPE[1:])


def test_mixed_precision_of_a_launcher_is_not_emulated_either(monkeypatch):
    """accelerate's configs for GPUs say bf16, and the library lets that stand where its own field
    is off."""
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    for has_bfloat16, mode in ((True, "bf16"), (False, "no")):
        machine = Machine(has_gpu=False, has_bfloat16=has_bfloat16)
        training_config(replace(recipe(), machine=machine), "grpo")
        assert os.environ["ACCELERATE_MIXED_PRECISION"] == mode


FSDP2 = """
import sys
import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from training.callbacks import Reshard
store = f"file://{sys.argv[1]}/store"
distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
mesh = torch.distributed.init_device_mesh("cpu", (1,))
model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1))
fully_shard(model[1], mesh=mesh)
# as accelerate does with norm, embedding and head
fully_shard(model[2], mesh=mesh, reshard_after_forward=False)
fully_shard(model, mesh=mesh)
parameters = model.named_parameters
whole = lambda: [name for name, each in parameters() if not hasattr(each, "full_tensor")]
with torch.no_grad():
    model(torch.ones(3, 4))
sys.stdout.write(f"after a forward {whole()}\\n")
Reshard().on_prediction_step(None, None, None, model=model)
sys.stdout.write(f"after Reshard {whole()}\\n")
with torch.no_grad():
    model(torch.ones(3, 4))
distributed.destroy_process_group()
"""


@pytest.mark.train
def test_fsdp2_shards_again_between_two_batches_of_an_evaluation(tmp_path):
    """trl takes `full_tensor()` of each parameter for vLLM, which those left whole do not have."""
    (tmp_path / "whole.py").write_text(FSDP2)
    first, second = run_program(tmp_path / "whole.py", tmp_path).stdout.splitlines()
    assert "2.weight" in first
    assert second == "after Reshard []"


def test_a_batch_of_more_problems_than_there_are_is_refused(tmp_path: Path):
    """trl's sampler would be empty, and the run over at once."""
    rows = [{"problem": f"What is {i} + 1?", "answer": i + 1} for i in range(5)]
    write_lines(tmp_path / "few.jsonl", rows)
    overrides = [f"data.train=[{tmp_path}/few.jsonl]", "data.validation=2", "sft=null"]
    overrides += ["grpo.num_generations=2", "grpo.gradient_accumulation_steps=1"]
    overrides += ["grpo.per_device_train_batch_size=8", f"output_dir={tmp_path}/x"]
    message = refused("grpo", "recipes/tiny-arithmetic.yaml", *overrides)
    names = [f"override data.train=[{tmp_path}/few.jsonl]", "3 problems", "4"]
    assert lacking(names, message.splitlines()[-1]) == []
    assert not (tmp_path / "x").exists()


def test_none_beside_the_number_of_another_reward_counts_as_0(tmp_path):
    """Sixteen correct answers to two problems, of which an own reward pays seven."""
    overrides = ["rewards={correct_answer: {}, tests.varied_reward.varied: {weight: 0.25}}"]
    overrides += ["grpo.num_generations=8", "grpo.max_completion_length=2"]
    trainer = trainer_of(tiny(*overrides, f"output_dir={tmp_path}"))
    correct_answer, own = trainer.scores.rewards
    correct_answer.function = lambda **columns: [1.0] * 16
    own.function = lambda **columns: [None, *[1.0] * 7, *[None] * 8]
    rows = [trainer.train_dataset[i // 8] for i in range(16)]
    trainer.model.train()
    output = trainer._generate_and_score_completions(rows)
    expected = [-2.472, *[0.353] * 7, *[0] * 8]
    assert output["advantages"].tolist() == pytest.approx(expected, abs=1e-3)
    assert trainer._metrics["train"]["zero_variance_groups"] == [0.5]
