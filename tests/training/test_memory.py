"""The memory estimate against tensors that are really there."""

import json
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from peft import get_peft_model

from evaluation import findings
from evaluation.findings import of_model
from machine.hardware import gpu_named
from machine.launch import launch
from schema.recipe import load_recipe
from schema.settings import adapter_config
from stages import memory as memory_table
from tests.tables import cases, row_cases
from training import memory
from training.model import load_model, load_tokenizer
from training.problem_sets import train_and_validation


def size(tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def really_there(recipe) -> dict[str, int]:
    """Bytes of a model's tensors after one step of AdamW."""
    model = load_model(recipe, load_tokenizer(recipe))
    if recipe.adapter is not None:
        model = get_peft_model(model, adapter_config(recipe))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    frozen = [parameter for parameter in model.parameters() if not parameter.requires_grad]
    scales = []
    for state in [weight.quant_state for weight in frozen if hasattr(weight, "quant_state")]:
        scales += [state.absmax, *([state.state2.absmax] if state.nested else [])]
    ids = torch.arange(8)[None]
    optimizer = torch.optim.AdamW(trained)
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    moments = []
    for state in optimizer.state.values():
        moments += [state["exp_avg"], state["exp_avg_sq"]]
    return {
        "weights": size(frozen) + size(scales),
        "trained_weights": size(trained),
        "gradients": size(parameter.grad for parameter in trained if parameter.grad is not None),
        "optimizer": size(moments),
    }


@row_cases(__file__, "measured")
def test_weights_gradients_and_optimizer_are_what_is_really_there(row):
    recipe = load_recipe(f"recipes/{row.recipe}.yaml", row.set)
    estimated, measured = memory.estimate(recipe), really_there(recipe)
    for part, there in measured.items():
        assert getattr(estimated, part) == pytest.approx(there, rel=0.03), part


def test_a_shard_is_a_share():
    recipe = load_recipe("recipes/tiny-arithmetic.yaml")
    whole = memory.estimate(recipe)
    zero2 = memory.estimate(recipe, setting=memory.Setting(optimizer_shards=4))
    zero3 = memory.estimate(recipe, setting=memory.Setting(optimizer_shards=4, weight_shards=4))
    assert zero2.optimizer == whole.optimizer // 4
    assert zero2.trained_weights == whole.trained_weights
    assert zero3.trained_weights == whole.trained_weights // 4


def test_ddp_keeps_the_gradients_a_second_time():
    recipe = load_recipe("recipes/tiny-arithmetic.yaml")
    alone = memory.estimate(recipe)
    ddp = memory.estimate(recipe, setting=memory.Setting(copies_gradients=True))
    assert ddp.gradients == 2 * alone.gradients
    assert ddp.total - alone.total == alone.gradients


def test_checkpointing_keeps_less_and_longer_answers_more():
    recipe = load_recipe("recipes/tiny-arithmetic.yaml")
    config = memory.model_config(recipe)
    kept_bytes = partial(memory.activation_bytes, recipe, config)
    kept = kept_bytes(8, 100, checkpointing=False)
    assert kept_bytes(8, 100, checkpointing=True) < kept
    assert kept_bytes(16, 100, checkpointing=False) == pytest.approx(2 * kept, rel=0.05)
    assert kept_bytes(8, 200, checkpointing=False) > 1.9 * kept


def test_a_mixture_of_experts_is_tried_and_not_estimated(tiny_moe, capsys):
    given = [f"model.name_or_path={tiny_moe}", "model.build=null"]
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", given)
    with pytest.raises(memory.NotEstimated, match="make probe-memory ARGS="):
        memory.estimate(recipe)
    rows = train_and_validation(recipe)[0]
    faults = list(of_model(recipe, rows, {"num_processes": 1}, None))
    (fault,) = [fault for fault in faults if "mixture of experts" in fault.message]
    assert fault.level == "hint" and "GiB" not in capsys.readouterr().out


def test_sampling_and_training_take_turns_unless_vllm_stays_awake():
    """And vLLM's share of a GPU is its weights and its cache together."""
    overrides = ["model.name_or_path=null", "model.build=tiny-qwen3"]
    recipe = load_recipe("recipes/qwen-math-lora.yaml", overrides)
    asleep = memory.estimate(recipe, gpu=24)
    held = asleep.vllm_weights + asleep.vllm_work + asleep.vllm_cache
    assert held == pytest.approx(0.5 * 24 * memory.GIB)
    training = asleep.activations + asleep.logits
    overrides.append("grpo.vllm_enable_sleep_mode=false")
    awake = memory.estimate(load_recipe("recipes/qwen-math-lora.yaml", overrides), gpu=24)
    assert awake.total == asleep.total + training


@pytest.mark.parametrize(
    ("given", "told"),
    [("0.05", "fits 0 GiB | no"), ("24", "fits 24 GiB | yes"), ("h100", "fits 79 GiB | yes")],
)
def test_a_gpu_is_named_by_its_gib_or_its_name(given, told):
    recipe = load_recipe("recipes/tiny-arithmetic.yaml")
    assert f"| {told} |" in memory_table.table(recipe, gpu=gpu_named(given).gib)


QWEN3 = {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "head_dim": 128}
QWEN3 |= {"num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 151936}
QWEN3 |= {"tie_word_embeddings": True, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}


@cases(__file__, "shares_of_vllm")
def test_vllm_needs_more_of_the_gpu_than_its_weights(
    share, gpu, message, tmp_path, capsys, monkeypatch
):
    """Qwen3-0.6B was promised to fit 8 GiB with a share in which vLLM would not have started."""
    (tmp_path / "config.json").write_text(json.dumps(QWEN3))
    overrides = [f"model.name_or_path={tmp_path}", f"grpo.vllm_gpu_memory_utilization={share}"]
    overrides += ["grpo.max_completion_length=1024", "grpo.vllm_max_model_length=2048"]
    recipe = load_recipe("recipes/qwen3-0.6b-lora.yaml", overrides)
    monkeypatch.setattr(memory, "activation_bytes", lambda *arguments: memory.GIB)
    launched = {"num_processes": 1}
    faults = list(findings._memory_findings(recipe, (256, 256), launched, gpu_named(gpu)))
    assert message in capsys.readouterr().out + "".join(fault.message for fault in faults)


def test_checkpoints_that_will_not_fit_on_the_disk_are_an_error(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text(json.dumps(QWEN3))
    given = [f"model.name_or_path={tmp_path}", "adapter=null", f"output_dir={tmp_path}/not/yet"]
    recipe = load_recipe("recipes/qwen3-0.6b-lora.yaml", given)
    config = memory.model_config(recipe)
    free = SimpleNamespace(free=1e9)
    monkeypatch.setattr(findings.shutil, "disk_usage", lambda folder: free)
    [fault] = findings._disk_findings(recipe, config, None)
    assert fault.level == "error" and f"{tmp_path} has 1.0 GB left: make room" in fault.message
    assert list(findings._disk_findings(recipe, config, gpu_named("H100"))) == []
    free.free = 1e12
    assert list(findings._disk_findings(recipe, config, None)) == []


@pytest.mark.parametrize(
    ("config", "setting"),
    [
        (None, (1, 1)),
        ("ddp", (1, 1, True)),
        ("zero2", (8, 1)),
        ("zero3", (8, 8)),
        ("fsdp2", (8, 8)),
    ],
)
def test_what_an_accelerate_config_shares(config, setting):
    assert memory.shards(launch(config, None)) == memory.Setting(*setting)


def test_check_and_memory_tell_the_same(capsys):
    """Of the data's own prompts; a recipe's memory was told for 256 tokens by the one once, for 17
    by the other."""
    recipe = load_recipe("recipes/tiny-arithmetic.yaml")
    (found,) = memory_table.longest_prompt(recipe)[:1]
    list(of_model(recipe, train_and_validation(recipe)[0], {"num_processes": 1}, None))
    told = capsys.readouterr().out
    assert f"longest {found} " in told
    total = memory.estimate(recipe, found).total / memory.GIB
    assert f"memory: {total:.1f} GiB" in told
