"""Sampling with the adapter merged, by transformers and by vLLM: the same answers, the same
learning, and the base as it was, however often."""

import contextlib
import shutil
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
from peft import get_peft_model
from transformers import AutoModelForCausalLM, GenerationConfig, GPT2Config, Lfm2Config
from transformers.utils import is_bitsandbytes_available
from trl.generation.vllm_generation import VLLMGeneration

from console.faults import RecipeError
from schema.recipe import load_recipe
from schema.settings import adapter_config
from tests.bench.merged import RATES, difference, set_size, surviving_share, young_adapter
from tests.made_runs import TABLE
from tests.support import FEW_PROBLEMS, LORA, NF4, run_program, run_stage, same_weights
from training.merging import (
    _copy,
    keep_base_exact,
    log_probabilities,
    merge_at_random,
    mergeable,
    round_at_random,
)
from training.model import load_model, load_tokenizer
from training.sampling import Rollout
from training.trainer import set_rollout

SHORT = [*FEW_PROBLEMS, "sft.max_steps=20", "sft.learning_rate=1e-2"]
SHORT += ["grpo.learning_rate=1e-3"]
SHORT += ["sft.per_device_train_batch_size=16", "grpo.per_device_train_batch_size=16"]
SHORT += ["grpo.max_steps=3", "grpo.logging_steps=1", "grpo.beta=0.04"]
SHORT += ["grpo.max_completion_length=32", "grpo.eval_steps=null"]
SHORT += ["rewards.tests.varied_reward.varied={weight: 1.0}"]
BF16 = "model.dtype=bfloat16"


def tuned(*overrides: str, size: float = 0.1):
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", [LORA, *overrides])
    torch.manual_seed(0)
    base = load_model(recipe, load_tokenizer(recipe))
    model = get_peft_model(base, adapter_config(recipe)).eval()
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=size)
    return model


def random_ids(rows: int, length: int) -> torch.Tensor:
    return torch.randint(3, 90, (rows, length), generator=torch.Generator().manual_seed(0))


def copied(model) -> dict[str, torch.Tensor]:
    """Its parameters as they are now."""
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def is_as(before: dict[str, torch.Tensor], model) -> bool:
    """To the bit."""
    after = dict(model.named_parameters())
    return all(torch.equal(weight, after[name]) for name, weight in before.items())


def test_the_adapter_is_merged_while_it_samples_and_only_then():
    model = tuned()
    before, ids = copied(model), random_ids(4, 12)
    options = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    options |= {"max_new_tokens": 24, "do_sample": False}
    beside = model.generate(**options)
    seen = []
    layer = model.base_model.model.model.layers[0].mlp.down_proj
    layer.register_forward_hook(lambda module, *_: seen.append(module.merged))
    model.generate = Rollout(model, merges=True)
    assert torch.equal(model.generate(**options), beside)
    assert seen and all(seen)
    assert not layer.merged
    assert is_as(before, model)


@pytest.mark.parametrize(
    "rows, read", [([0, 0, 0, 1, 1, 1], 2), ([0, 0, 0, 0, 1, 1], 3), ([0, 1, 0, 1], 4)]
)
def test_a_prompt_of_a_group_is_read_once(rows, read):
    model = tuned()
    mask = (torch.arange(12) >= torch.tensor([0, 5])[rows][:, None]).long()
    given = {"input_ids": random_ids(2, 12)[rows], "attention_mask": mask}
    sampled, seen = [], []
    embedding = model.get_input_embeddings()
    embedding.register_forward_hook(lambda module, given, _: seen.append(tuple(given[0].shape)))
    for shares, merges in ((False, False), (True, False), (True, True)):
        generate = model.generate
        if shares:
            generate = Rollout(model, merges)
        torch.manual_seed(1)
        sampled.append(generate(**given, do_sample=True, max_new_tokens=24))
        assert seen[0] == ((read, 11) if shares and read < 4 else (len(rows), 12))
        seen.clear()
    assert torch.equal(sampled[0], sampled[1]) and torch.equal(sampled[0], sampled[2])


@pytest.mark.parametrize(
    "kind, change", [(GPT2Config, {"n_embd": 32, "n_head": 2, "n_layer": 2}), (Lfm2Config, {})]
)
def test_so_it_is_with_models_of_other_kinds(kind, change):
    """GPT-2's `forward` has another order; LFM2 keeps more than keys and values, and reads every
    prompt."""
    small = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    small |= {"intermediate_size": 64, "num_key_value_heads": 2}
    small |= {"layer_types": ["conv", "full_attention"]}
    torch.manual_seed(0)
    config = kind(**(change or small), bos_token_id=1, eos_token_id=2)
    model = AutoModelForCausalLM.from_config(config).eval()
    model.resize_token_embeddings(99)
    ids = random_ids(2, 12).repeat_interleave(3, 0)
    prompts = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    settings = {"max_new_tokens": 12, "do_sample": True, "pad_token_id": 0}
    rollout = Rollout(model)
    sampled = []
    for generate in (model.generate, rollout):
        torch.manual_seed(1)
        sampled.append(generate(**prompts, **settings))
    assert torch.equal(*sampled)
    assert rollout.shares_prompts == (kind is not Lfm2Config)
    # transformers refuses a cache beside its name
    static = GenerationConfig(cache_implementation="static", **settings)
    assert len(rollout(**prompts, generation_config=static)) == 6


def test_a_sampling_that_fails_leaves_the_base_as_it_was():
    model = tuned()
    before = copied(model)
    model.generate = Rollout(model, merges=True)
    with pytest.raises(AttributeError):
        model.generate(input_ids="no tokens", attention_mask="none")
    assert is_as(before, model)


EXPERTS = "target_parameters: [experts.gate_up_proj, experts.down_proj]"


@pytest.mark.parametrize("of", [EXPERTS, "target_modules: all-linear"])
def test_experts_are_merged_too_and_are_restored_to_the_bit(of, tiny_moe, tmp_path):
    """And an adapter on them is read again as any other is."""
    given = [f"model.name_or_path={tiny_moe}", "model.build=null", "adapter=null"]
    given += [f"adapter={{r: 4, {of}}}"]
    model = tuned(*given)
    before = copied(model)
    assert surviving_share(model) == pytest.approx(1, abs=1e-6) and mergeable(model)
    policy = log_probabilities(model, [[5, 6, 7, 8]])
    keep_base_exact(model)
    model.merge_adapter()
    assert torch.allclose(log_probabilities(model, [[5, 6, 7, 8]]), policy, atol=1e-5)
    merged = dict(model.named_parameters())
    changed = [name for name in merged if not torch.equal(before[name], merged[name])]
    assert any(name.endswith("experts.base_layer.base_layer.down_proj") for name in changed)
    # docs/migrate.md says so
    assert any("mlp.gate" in name for name in changed) == ("all-linear" in of)
    model.unmerge_adapter()
    assert is_as(before, model)
    assert 0.9 < surviving_share(model.to(torch.bfloat16)) < 1.1
    model.float().save_pretrained(tmp_path)
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", given)
    again = load_model(recipe, load_tokenizer(recipe), tmp_path)
    assert {name for name, _ in again.named_parameters()} == before.keys()
    with pytest.raises(RecipeError, match=r"no parameter experts.up; did you mean experts.\w+\?"):
        tuned(*given[:3], "adapter={target_parameters: [experts.up]}")


def test_what_merging_would_change_elsewhere_is_not_merged():
    """The tiny model's head is its embedding."""
    assert mergeable(tuned())
    assert not mergeable(tuned("adapter.target_modules=[lm_head]"))
    assert not mergeable(tuned("adapter.lora_bias=true"))
    quantised = tuned()
    quantised.get_base_model().is_quantized = True  # as that of a folder that says so itself
    assert not mergeable(quantised)


# the sizes that a few steps at the recipes' own rates give an adapter's B, and a large one
@pytest.mark.parametrize("size", [1e-5, 1e-4, 1e-3, 0.1])
def test_what_rounding_would_swallow_survives_on_average(size):
    """To the nearest number of bfloat16 a young adapter moves most weights by nothing."""
    nearest = surviving_share(tuned(BF16, size=size))
    assert (nearest < 0.8) is (size < 1e-3)
    model = tuned(BF16, size=size)
    merge_at_random(model, lambda: "1")
    assert 0.95 < surviving_share(model) < 1.05
    assert surviving_share(tuned(size=size)) == pytest.approx(1, abs=0.02)  # float32


def test_rounding_at_random_is_correct_on_average_and_keeps_what_fits():
    generator = torch.Generator().manual_seed(0)
    exact = torch.tensor([1.001, -1.001, 3e-5, -250.3, 0.0, 1.0, 0.5, -2.0])
    for dtype in (torch.bfloat16, torch.float16):
        rounded = round_at_random(exact.repeat(20_000, 1), dtype, generator)
        assert torch.allclose(rounded.float().mean(0), exact, rtol=3e-4)
        assert torch.equal(rounded[:, 4:].float(), exact[4:].repeat(20_000, 1))
        assert len(rounded[:, 0].unique()) == 2


@pytest.mark.parametrize("rate", RATES)
def test_at_the_recipes_rates_the_merged_model_is_the_policy(rate):
    """One step of Adam moves every number of B by the rate, and all the same way for the text."""
    texts = random_ids(4, 32).tolist()
    model, signs = young_adapter(tuned(BF16, size=0.0), texts)
    set_size(model, signs, rate)
    nearest, lost = difference(model, torch.bfloat16, texts)
    merge_at_random(model, lambda: "1")
    at_random, noise = difference(model, torch.bfloat16, texts)
    assert 0.95 < at_random < 1.05
    assert noise < 0.003
    if rate < 3e-4:
        assert nearest < 0.9 and noise < lost / 1.5


def test_what_trl_sends_to_vllm_is_rounded_by_seed_and_step():
    """By trl's own walk over what it sends; so a resumed run samples the same again."""
    merged = []
    for step in (4, 4, 5):
        model = tuned(BF16, size=1e-4)
        before = base_of(model)
        accelerator = SimpleNamespace(unwrap_model=lambda model: model)
        args = SimpleNamespace(seed=42, use_vllm=True)
        state = SimpleNamespace(global_step=step)
        trainer = SimpleNamespace(accelerator=accelerator, args=args, state=state, model=model)
        set_rollout(trainer, load_recipe("recipes/tiny-arithmetic.yaml", [LORA]))
        sender = object.__new__(VLLMGeneration)
        sender.model = model
        sender._dist = SimpleNamespace(gather_params=contextlib.nullcontext, is_fsdp=False)
        merged.append({name: weight.clone() for name, weight in sender._iter_named_params()})
        assert is_as(before, model)
        assert 0.95 < surviving_share(model) < 1.05
    first, again, later = merged
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], later[name]) for name in first)


PATCHED = """
import sys
from training import trainer
from stages.cli import run
from stages.grpo import main
Rollout = trainer.Rollout
def rollout(policy, merges, in_shards):
    made = Rollout(policy, merges and {merged}, in_shards)
    print("merges:", made.merges)
    return made
trainer.Rollout = rollout
run("grpo", main)
"""


@pytest.mark.train
def test_the_weights_that_are_learned_are_those_of_the_unmerged_way(tmp_path):
    """In float32 a merged layer's output differs in its last bits, which moves no sampled token of
    these three steps; and what is learned from the same tokens is the same, to the bit."""
    arguments = ["recipes/tiny-arithmetic.yaml", LORA, *SHORT]
    run_stage("sft", *arguments, f"output_dir={tmp_path}/merged")
    shutil.copytree(tmp_path / "merged/sft", tmp_path / "beside/sft")
    for way in ("merged", "beside"):
        (tmp_path / f"{way}.py").write_text(PATCHED.format(merged=way == "merged"))
        done = run_program(tmp_path / f"{way}.py", *arguments, f"output_dir={tmp_path / way}")
        assert f"merges: {way == 'merged'}" in done.stdout

    def completions(way: str, step: int) -> list[str]:
        file = tmp_path / way / "grpo" / TABLE.format(step)
        return [str(completion) for completion in pd.read_parquet(file)["completion"]]

    for step in range(1, 4):
        assert completions("merged", step) == completions("beside", step), step
    assert same_weights(tmp_path / "merged/grpo", tmp_path / "beside/grpo")
    assert not same_weights(tmp_path / "merged/grpo", tmp_path / "merged/sft")


def base_of(model) -> dict[str, torch.Tensor]:
    return {name: weight for name, weight in copied(model).items() if "lora_" not in name}


def cycle(model, times: int):
    for _ in range(times):
        model.merge_adapter()
        model.unmerge_adapter()


QUANTISED = pytest.mark.skipif(
    not is_bitsandbytes_available(), reason="bitsandbytes is not installed"
)


def scales_of(model) -> list[torch.Tensor]:
    """Of a quantised base; none of another."""
    states = [getattr(each, "quant_state", None) for each in model.parameters()]
    return [each.absmax.clone() for each in states if each]


# biases that an adapter trains too
BIASES = ["adapter.lora_bias=true", "adapter.target_modules=[q_proj]"]


@pytest.mark.parametrize("given", [[], BIASES, pytest.param([NF4], marks=QUANTISED)])
def test_twenty_syncs_leave_the_base_as_it_was(given, tiny_qwen2):
    model = tuned(BF16, "model.build=null", f"model.name_or_path={tiny_qwen2}", *given)
    before, policy = base_of(model), log_probabilities(model, [[1, 2, 3, 4]])
    constants = scales_of(model)
    keep_base_exact(model)
    model.merge_adapter()
    # which is what is sent
    assert not is_as(before, model)
    model.unmerge_adapter()
    cycle(model, 20)
    assert is_as(before, model)
    assert all(map(torch.equal, constants, scales_of(model))) and bool(constants) is (NF4 in given)
    assert torch.equal(log_probabilities(model, [[1, 2, 3, 4]]), policy)


def test_the_copy_of_a_gpu_s_weights_is_pinned_where_it_can_be(monkeypatch):
    """From pinned memory it is back at every sync in a fraction of the time."""

    class OnGPU(torch.nn.Parameter):
        is_cuda = True

    def refused(_):
        raise RuntimeError("CUDA error: out of memory")

    pinned = torch.zeros(2)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda _: pinned)
    assert _copy(OnGPU(torch.ones(2)))[0] is pinned
    assert _copy(torch.nn.Parameter(torch.ones(2)))[0] is not pinned
    monkeypatch.setattr(torch.Tensor, "pin_memory", refused)
    assert torch.equal(_copy(OnGPU(torch.ones(2)))[0], torch.ones(2))


def test_without_it_they_drift():
    """What the module is for; should peft mend it, this test says so."""
    model = tuned(BF16)
    before = base_of(model)
    cycle(model, 20)
    assert not is_as(before, model)


@QUANTISED
@pytest.mark.parametrize("double", ["true", "false"])
def test_saving_leaves_a_quantised_base_as_it_was(double, tiny_qwen2):
    from bitsandbytes.functional import has_avx512bf16

    quantization = NF4.replace("}", f", bnb_4bit_use_double_quant: {double}}}")
    model = tuned(BF16, quantization, "model.build=null", f"model.name_or_path={tiny_qwen2}")
    policy = log_probabilities(model, [[1, 2, 3, 4]])
    model.state_dict()
    assert torch.equal(log_probabilities(model, [[1, 2, 3, 4]]), policy)
    if not has_avx512bf16():
        return

    def support(value: bool):
        for module in model.modules():
            if hasattr(module, "support_avx512bf16_for_cpu"):
                module.support_avx512bf16_for_cpu = value

    # Left to itself bitsandbytes loses digits there; should it mend that, this says so.
    support(True)
    log_probabilities(model, [[1, 2, 3, 4]])
    model.state_dict()
    support(False)
    assert not torch.equal(log_probabilities(model, [[1, 2, 3, 4]]), policy)
