"""What makes a step on a CPU cheaper changes what it computes by no more than its rounding."""

import json
import types

import pytest
import torch
import trl.trainer.utils
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import Linear
from torch.nn.functional import scaled_dot_product_attention
from transformers import (
    AttentionInterface,
    AutoConfig,
    AutoModelForCausalLM,
    GenerationConfig,
    StoppingCriteriaList,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from trl.kernels import ChunkedLogProbFunction

from evaluation import pictures
from machine.launch import on_this_machine
from schema.recipe import load_recipe
from schema.settings import training_config
from tests.support import FEW_PROBLEMS, LORA, run_program, trainer_of
from training import cpu, sampling
from training.model import load_for_sampling, load_model, load_tokenizer
from training.sampling import Rollout
from training.trainer import GRPO

RECIPE = "recipes/tiny-arithmetic.yaml"


@pytest.fixture
def restored(monkeypatch):
    """What is changed for the whole process is as it was after the test."""
    attentions = AttentionInterface._global_mapping
    monkeypatch.setitem(attentions, "sdpa", attentions["sdpa"])
    monkeypatch.setattr(trl.trainer.utils, "_use_triton", trl.trainer.utils._use_triton)
    monkeypatch.setattr(cpu, "keep_memory", lambda: None)
    monkeypatch.setattr(pictures, "curves", lambda file, metrics: False)  # takes a second
    return monkeypatch


def loaded(*overrides: str):
    recipe = load_recipe(RECIPE, [LORA, *overrides])
    return load_model(recipe, load_tokenizer(recipe))


def inputs_of_attention(heads: int, key_heads: int, tokens: int, dtype: torch.dtype):
    """Six rows of which the first begin with padding, and transformers' module for them."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(6, heads, tokens, 16, generator=generator).to(dtype)
    key, value = torch.randn(2, 6, key_heads, 40, 16, generator=generator).to(dtype)
    mask = torch.ones(6, 1, tokens, 40, dtype=torch.bool)
    mask[:3, :, :, :7] = False
    module = types.SimpleNamespace(num_key_value_groups=heads // key_heads, is_causal=True)
    return module, query, key, value, mask


def heads_of_keys(monkeypatch) -> list[int]:
    """For how many heads torch's attention got keys, call by call."""
    calls = []

    def counted(query, key, *rest, **options):
        calls.append(key.shape[1])
        return scaled_dot_product_attention(query, key, *rest, **options)

    monkeypatch.setattr(cpu, "scaled_dot_product_attention", counted)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    return calls


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("heads, key_heads", [(9, 3), (14, 2), (4, 1)])
@pytest.mark.parametrize("masked", [True, False])
def test_a_token_attends_to_shared_keys_without_copies(
    dtype, heads, key_heads, masked, monkeypatch
):
    *inputs, mask = inputs_of_attention(heads, key_heads, 1, dtype)
    mask = mask if masked else None
    with torch.no_grad():
        expected, _ = sdpa_attention_forward(*inputs, mask, scaling=0.3)
        calls = heads_of_keys(monkeypatch)
        output, weights = cpu.attention(*inputs, mask, scaling=0.3)
    assert calls == [key_heads] and weights is None
    close = 1e-6 if dtype == torch.float32 else 0.02
    torch.testing.assert_close(output, expected, atol=close, rtol=close)


@pytest.mark.parametrize("heads, key_heads, options", [(9, 3, {"scaling": 0.25}), (4, 4, {})])
def test_few_keys_are_attended_to_by_products_and_so_is_the_way_back(heads, key_heads, options):
    """Torch's own in bfloat16 is about as far from attention in float32."""
    module, *inputs, mask = inputs_of_attention(heads, key_heads, 40, torch.bfloat16)
    mask = mask & torch.ones(40, 40, dtype=torch.bool).tril()
    errors = {}
    exact = None
    for attention, dtype in (
        (sdpa_attention_forward, torch.float32),
        (sdpa_attention_forward, torch.bfloat16),
        (cpu.attention, torch.bfloat16),
    ):
        leaves = [tensor.detach().to(dtype).requires_grad_() for tensor in inputs]
        output, weights = attention(module, *leaves, mask, **options)
        output = output[3:]  # without the rows whose padding attends to nothing
        output.square().sum().backward()
        results = [output.detach(), *[leaf.grad[3:] for leaf in leaves]]
        assert weights is None and results[0].shape == (3, 40, heads, 16)
        if exact is None:
            exact = results
        else:
            pairs = zip(results, exact, strict=True)
            errors[attention] = [(a.float() - b).abs().mean() for a, b in pairs]
    for ours, torchs in zip(errors[cpu.attention], errors[sdpa_attention_forward], strict=True):
        assert 0 < ours < 2 * torchs


@pytest.mark.parametrize("case", ["by heads", "numbers", "none"])
def test_a_mask_of_another_kind_is_left_to_transformers(case):
    module, *inputs, mask = inputs_of_attention(4, 2, 40, torch.bfloat16)
    masks = {"by heads": mask.expand(-1, 4, -1, -1), "numbers": mask.bfloat16(), "none": None}
    output, _ = cpu.attention(module, *inputs, masks[case])
    expected, _ = sdpa_attention_forward(module, *inputs, masks[case])
    assert torch.equal(output, expected)


def test_tokens_that_attend_to_nothing_stay_finite():
    *inputs, mask = inputs_of_attention(9, 3, 40, torch.bfloat16)
    mask[0] = False
    output, _ = cpu.attention(*inputs, mask, scaling=0.25)
    assert output.isfinite().all()


@pytest.mark.parametrize(
    "heads, key_heads, tokens, options",
    [(4, 4, 1, {}), (8, 2, 3, {}), (8, 2, 1, {"position_bias": torch.ones(1, 8, 1, 40)})],
    ids=["a key for each head", "several tokens in float32", "a bias of positions"],
)
def test_any_other_attention_is_that_of_transformers(heads, key_heads, tokens, options):
    inputs = inputs_of_attention(heads, key_heads, tokens, torch.float32)
    with torch.no_grad():
        expected, _ = sdpa_attention_forward(*inputs, **options)
        output, _ = cpu.attention(*inputs, **options)
    assert torch.equal(output, expected)


def test_so_is_what_is_trained(monkeypatch):
    inputs = inputs_of_attention(8, 2, 1, torch.float32)
    calls = heads_of_keys(monkeypatch)
    cpu.attention(*inputs)
    assert calls == [8]


def test_a_draw_has_the_probabilities_of_its_row():
    torch.manual_seed(0)
    row = torch.tensor([0.0, 0.1, 0.0, 0.4, 0.25, 0.25, 0.0])
    draws = sampling.draw(row.expand(40_000, -1))
    assert draws.shape == (40_000, 1)
    shares = torch.bincount(draws[:, 0], minlength=7) / 40_000
    assert (shares[row == 0] == 0).all()
    deviation = (row * (1 - row) / 40_000).sqrt()
    assert ((shares - row).abs() <= 4 * deviation).all()


def test_a_draw_of_no_probabilities_is_refused():
    with pytest.raises(RuntimeError, match="nan"), sampling.DrawOnce():
        torch.multinomial(torch.tensor([[0.5, torch.nan]]), num_samples=1)


@pytest.mark.parametrize("share", [0.0, 1 - 2**-24])
def test_a_draw_at_either_end_takes_a_token_that_can_be(share, monkeypatch):
    monkeypatch.setattr(torch, "rand_like", lambda total: torch.full_like(total, share))
    rows = torch.rand(200, 5_000, generator=torch.Generator().manual_seed(1))
    rows[:, :9] = 0
    rows[:, -9:] = 0
    rows /= rows.sum(-1, keepdim=True)
    expected = 9 if share == 0 else 4_990
    assert (sampling.draw(rows) == expected).all()


def test_a_model_samples_from_the_same_distribution(restored):
    """Two tokens each of 3,000 times, beside transformers' own."""
    restored.setattr(cpu, "SMALL", 0)
    model = loaded()
    model.generate = Rollout(model)
    settings = GenerationConfig(
        do_sample=True, temperature=1.3, top_k=6, max_new_tokens=2, pad_token_id=0
    )
    ids = torch.arange(5, 15).expand(3_000, -1)
    shares = []
    for generate in (model.generate, type(model).generate.__get__(model)):
        torch.manual_seed(3)
        prompts = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        tokens = generate(**prompts, generation_config=settings)[:, 10:]
        shares.append(torch.bincount(tokens.flatten(), minlength=100) / tokens.numel())
    assert (shares[0] > 0).sum() >= 6
    assert (shares[0] - shares[1]).abs().max() < 0.04


def test_each_token_of_a_sampling_is_drawn_so(restored):
    """It fails when transformers draws in another way."""
    restored.setattr(cpu, "SMALL", 0)
    model = loaded()
    model.generate = Rollout(model)
    draws = []

    def counted(probabilities):
        draws.append(probabilities.shape)
        return torch.full((2, 1), 7)

    restored.setattr(sampling, "draw", counted)
    settings = GenerationConfig(do_sample=True, max_new_tokens=3, pad_token_id=0)
    prompts = {"input_ids": torch.ones(2, 4).long(), "attention_mask": torch.ones(2, 4).long()}
    tokens = model.generate(**prompts, generation_config=settings)
    assert len(draws) == 3 and tokens[:, 4:].tolist() == [[7, 7, 7]] * 2


def ending(seed: int, **settings) -> tuple[dict, GenerationConfig]:
    """Questions of different lengths that begin alike, some of them asked twice, and settings with
    which their answers end at different places."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 90, (8, 14), generator=generator)
    ids[:, :9] = ids[0, :9]
    mask = torch.ones_like(ids)
    ids[4:] = ids[4:].roll(3, 1)
    mask[4:, :3] = 0
    rows = {
        "input_ids": ids.repeat_interleave(2, 0),
        "attention_mask": mask.repeat_interleave(2, 0),
    }
    ends = list(range(5, 100, 13))
    config = GenerationConfig(
        max_new_tokens=24, pad_token_id=0, eos_token_id=ends, repetition_penalty=3.0, **settings
    )
    return rows, config


def counted_tokens(model) -> list[int]:
    """How many tokens the model reads, pass by pass."""
    read = []
    model.get_input_embeddings().register_forward_pre_hook(
        lambda module, inputs: read.append(inputs[0].numel())
    )
    return read


@pytest.mark.parametrize("as_arguments", [False, True])
def test_rows_that_have_ended_and_what_prompts_share_are_not_computed(as_arguments, restored):
    restored.setattr(cpu, "SMALL", 0)
    recipe = load_recipe(RECIPE, [LORA])
    model = load_model(recipe, load_tokenizer(recipe)).eval()
    read = counted_tokens(model)
    rows, config = ending(seed=1)
    settings = config.to_diff_dict() if as_arguments else {"generation_config": config}
    expected = model.generate(**rows, **settings)
    plain = list(read)
    lengths = (expected[:, 14:] != 0).sum(1)
    assert lengths.min() < 6 and lengths.max() == 24
    model = load_for_sampling(recipe, load_tokenizer(recipe))
    read = counted_tokens(model)
    # as that of a folder of weights without one
    model.generation_config.update(output_attentions=False, _from_model_config=True)
    widths = []

    def counted(ids, scores, **options):
        widths.append(ids.shape[1])
        return torch.zeros(len(ids), dtype=torch.bool)

    settings["stopping_criteria"] = StoppingCriteriaList([counted])
    assert torch.equal(model.generate(**rows, **settings)[:, 14:], expected[:, 14:])
    assert widths == list(range(15, 39))
    assert plain == [16 * 14] + [16] * 23
    # the beginning, then what is left of 8 prompts without their last tokens
    assert read[:2] == [9, 8 * 4]
    batch = 16
    for drawn, tokens_read in enumerate(read[2:], 1):
        assert tokens_read == batch
        going_on = int((lengths > drawn).sum())
        if 2 * going_on <= batch:
            batch = going_on
    assert batch < 8


@pytest.mark.parametrize("setting", [{"min_new_tokens": 9}, {"num_beams": 2}])
def test_settings_that_count_from_the_beginning_are_left_to_transformers(setting, restored):
    restored.setattr(cpu, "SMALL", 0)
    model = loaded().eval()
    rows, config = ending(seed=1, **setting)
    expected = model.generate(**rows, generation_config=config)
    model.generate = Rollout(model)
    tokens = model.generate(**rows, generation_config=config)
    assert torch.equal(tokens[:, 14:], expected[:, 14:])


@pytest.mark.parametrize("setting", [{}, {"no_repeat_ngram_size": 2}, {"of_a_later_version": 2}])
@pytest.mark.parametrize("by_model", [False, True])
def test_what_may_read_the_order_of_a_prompt_gets_it(setting, by_model, restored):
    restored.setattr(cpu, "SMALL", 0)
    model = loaded().eval()
    calls = []
    restored.setattr(model, "generate", lambda **options: calls.append(options["input_ids"]))
    rollout = Rollout(model)
    rollout.drops_ended_rows = False
    rows, config = ending(seed=1, **setting)
    if by_model:
        restored.setattr(model, "generation_config", config)
        config = None
    rollout(**rows, generation_config=config)
    assert torch.equal(calls[0], rows["input_ids"]) is bool(setting)


def test_prompts_may_differ_in_their_last_token_alone(restored):
    restored.setattr(cpu, "SMALL", 0)
    model = loaded().eval()
    ids = torch.randint(5, 90, (1, 12), generator=torch.Generator().manual_seed(0)).repeat(3, 1)
    ids[:, -1] = torch.tensor([5, 6, 7])
    rows = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "max_new_tokens": 4}
    expected = model.generate(**rows)
    model.generate = Rollout(model)
    assert torch.equal(model.generate(**rows), expected)


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen2", "qwen3", "smollm3"])
def test_models_ask_of_attention_what_is_computed_here(kind, restored):
    """It fails when transformers hands attention more options than it ignores."""
    AttentionInterface.register("sdpa", cpu.attention)
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"intermediate_size": 32, "num_hidden_layers": 1, "vocab_size": 90, "head_dim": 8}
    config = AutoConfig.for_model(kind, **sizes, pad_token_id=0)
    model = AutoModelForCausalLM.from_config(config).eval()
    calls = heads_of_keys(restored)
    rows = {"input_ids": torch.ones(2, 5).long(), "attention_mask": torch.ones(2, 5).long()}
    rows["attention_mask"][0, 0] = 0
    model.generate(**rows, max_new_tokens=3, do_sample=False, eos_token_id=None)
    assert calls == [4, 2, 2]


def test_a_small_model_computes_as_before(restored):
    attention = AttentionInterface._global_mapping["sdpa"]
    model = loaded()
    assert "generate" not in vars(model)
    assert AttentionInterface._global_mapping["sdpa"] is attention
    assert trl.trainer.utils._use_triton(torch.device("cpu")) is False


@pytest.mark.parametrize("small", [0, 10**9])
def test_generate_stands_under_one_wrapper(small, restored, tmp_path):
    restored.setattr(cpu, "SMALL", small)
    recipe = load_recipe(RECIPE, [*FEW_PROBLEMS, LORA, "sft=null", f"output_dir={tmp_path}"])
    policy = trainer_of(recipe).model
    assert type(policy.generate) is Rollout
    assert policy.generate.generate == type(policy).generate.__get__(policy)
    assert "generate" not in vars(policy.get_base_model())


def test_a_gpu_does_too(restored):
    restored.setattr(cpu, "SMALL", 0)
    restored.setattr(cpu, "has_gpu", lambda: True)
    assert "generate" not in vars(loaded())


def test_the_head_reads_the_completions_alone_and_returns_the_same(restored, tmp_path):
    """trl leaves the switch to itself: it is gone when this fails."""
    recipe = load_recipe(RECIPE, [*FEW_PROBLEMS, LORA, "sft=null", f"output_dir={tmp_path}"])
    trainer = trainer_of(recipe)
    ids = torch.randint(3, 90, (4, 20), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[:2, 15:] = 0
    read = []
    apply = ChunkedLogProbFunction.apply

    def counted(hidden, *rest):
        read.append(len(hidden))
        return apply(hidden, *rest)

    restored.setattr(ChunkedLogProbFunction, "apply", counted)
    returned = []
    for is_compact in (lambda device: False, cpu.is_compact):
        restored.setattr(trl.trainer.utils, "_use_triton", is_compact)
        logps, _, _ = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, 8)
        trainer.model.zero_grad()
        logps[mask[:, -8:].bool()].sum().backward()
        gradients = [
            weight.grad for weight in trainer.model.parameters() if weight.grad is not None
        ]
        returned.append((logps.detach() * mask[:, -8:], gradients))
    assert read == [4 * 19, 2 * 3 + 2 * 8]
    torch.testing.assert_close(returned[0], returned[1])


def test_an_adapter_multiplies_in_its_bases_16_bits_and_learns_in_32(restored):
    """It fails when peft casts in another way."""
    restored.setattr(cpu, "SMALL", 0)
    model = get_peft_model(loaded("model.dtype=bfloat16"), LoraConfig(target_modules="all-linear"))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.02)
    ids = torch.randint(3, 90, (4, 20), generator=torch.Generator().manual_seed(0))
    dtypes = []
    for module in model.modules():
        if isinstance(module, Linear):
            module.lora_B["default"].register_forward_hook(
                lambda module, inputs, output: dtypes.append(output.dtype)
            )
    results = []
    for speed_up in (lambda model: None, cpu.speed_up_adapter):
        speed_up(model)
        dtypes.clear()
        model.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        gradients = [weight.grad for weight in model.parameters() if weight.requires_grad]
        assert {gradient.dtype for gradient in gradients} == {torch.float32}
        results.append((loss.item(), torch.cat([part.flatten() for part in gradients]), {*dtypes}))
    (loss, gradient, exact), (cheap_loss, cheap_gradient, half) = results
    assert exact == {torch.float32} and half == {torch.bfloat16}
    assert cheap_loss == pytest.approx(loss, abs=0.01)
    assert torch.cosine_similarity(gradient, cheap_gradient, dim=0) > 0.99


@pytest.mark.parametrize("stage", ["sft", "grpo"])
def test_so_does_the_adapter_of_every_stage(stage, restored, tmp_path):
    from stages import grpo, sft

    calls = []
    restored.setattr(cpu, "speed_up_adapter", calls.append)
    restored.setattr("training.trainer.speed_up_adapter", calls.append)
    overrides = [*FEW_PROBLEMS, LORA, f"{stage}.max_steps=2", f"output_dir={tmp_path}"]
    if stage == "grpo":
        overrides += ["sft=null", "grpo.save_steps=2"]
    main = {"sft": sft.main, "grpo": grpo.main}[stage]
    main(load_recipe(RECIPE, overrides))
    assert [type(model).__name__ for model in calls] == ["PeftModelForCausalLM"]


def test_a_saved_adapter_computes_as_it_did_in_training(restored, tmp_path):
    from stages import grpo, sft

    restored.setattr(cpu, "SMALL", 0)
    overrides = [LORA, "model.dtype=bfloat16", "sft.max_steps=20", "sft.learning_rate=0.01"]
    overrides += [*FEW_PROBLEMS, "sft.per_device_train_batch_size=16"]
    overrides += ["grpo.max_steps=2", "grpo.save_steps=2", f"output_dir={tmp_path}"]
    recipe = load_recipe(RECIPE, overrides)
    sft.main(recipe)
    grpo.main(recipe)
    summary = json.loads((tmp_path / "grpo" / "summary.json").read_text())
    assert summary["adapter_error"] == 0


@pytest.fixture
def passes(restored, tmp_path):
    """A function that gives the log-probabilities of rows of tokens, where those of the same prompt
    share it or not, the gradients, and how many tokens the backbone read."""
    overrides = [LORA, "sft=null", "grpo.gradient_checkpointing=false", *FEW_PROBLEMS]
    overrides.append(f"output_dir={tmp_path}")
    recipe = load_recipe(RECIPE, overrides)
    trainer = trainer_of(recipe)
    for name, weight in trainer.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.05)
    read = []
    embedding = trainer.model.get_input_embeddings()
    embedding.register_forward_pre_hook(lambda module, inputs: read.append(inputs[0].numel()))

    def run(ids, mask, small: int):
        restored.setattr(cpu, "SMALL", small)
        read.clear()
        trainer.model.zero_grad()
        logps, entropies, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, mask, 8, compute_entropy=True
        )
        weights = torch.linspace(-1, 1, logps.numel()).view_as(logps) * mask[:, -8:]
        (logps * weights).sum().backward()
        gradients = [
            weight.grad for weight in trainer.model.parameters() if weight.grad is not None
        ]
        return logps.detach() * mask[:, -8:], entropies * mask[:, -8:], gradients, sum(read)

    run.trainer = trainer
    return run


def rows_of_groups(
    prompts: int, completions: int, common: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and their mask, shape (rows, 20), in no order: prompts of 12 columns, the first
    padded, which begin with so many common tokens, and completions of up to 8."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(3, 90, (prompts, 12), generator=generator)
    beginning = torch.randint(3, 90, (common,), generator=generator)
    ids[0, 2 : 2 + common] = beginning
    ids[1:, :common] = beginning
    ids = ids.repeat_interleave(completions, 0)
    ids = torch.cat([ids, torch.randint(3, 90, (len(ids), 8), generator=generator)], 1)
    mask = torch.ones_like(ids)
    mask[:completions, :2] = 0
    mask[::3, 16:] = 0
    order = torch.randperm(len(ids), generator=generator)
    return ids[order], mask[order]


@pytest.mark.parametrize("common, read", [(0, 3 * 12), (5, 3 * 12), (8, 8 + 3 * 4)])
def test_the_completions_of_a_group_share_their_prompt(common, read, passes):
    ids, mask = rows_of_groups(3, 4, common)
    *expected, alone = passes(ids, mask, 10**9)
    *returned, shared = passes(ids, mask, 0)
    assert alone == 12 * 20 and shared == read + 12 * 8
    assert any(gradient.abs().max() > 0.01 for gradient in expected[2])
    torch.testing.assert_close(returned, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "case", ["a prompt each", "checkpointing", "a GPU", "dropout", "rotations by length"]
)
def test_a_prompt_is_read_for_each_where_it_cannot_be_shared(case, passes, monkeypatch):
    ids, mask = rows_of_groups(6, 1) if case == "a prompt each" else rows_of_groups(3, 2)
    if case == "checkpointing":
        passes.trainer.model.gradient_checkpointing_enable()
    if case == "a GPU":
        monkeypatch.setattr(cpu, "has_gpu", lambda: True)
    if case == "dropout":
        passes.trainer.model.base_model.dropout = torch.nn.Dropout(0.1)
    if case == "rotations by length":
        rotations = passes.trainer.model.config.rope_parameters
        monkeypatch.setitem(rotations, "rope_type", "longrope")
    *_, read = passes(ids, mask, 0)
    assert read == 6 * 20


@pytest.mark.parametrize(
    "setting, kept",
    [("loss_type=dapo", True), ("loss_type=grpo", False), ("top_entropy_quantile=0.5", False)],
)
def test_a_group_stays_in_its_micro_batch(setting, kept, restored, tmp_path):
    """It fails when trl shuffles in another way."""
    from stages import grpo

    restored.setattr(cpu, "SMALL", 0)
    batches = []
    compute = GRPO._compute_loss

    def watched(self, model, inputs):
        batches.append(len(inputs["prompt_ids"].unique(dim=0)))
        return compute(self, model, inputs)

    generate = sampling.generate_in_rounds
    rounds = []
    restored.setattr(
        sampling,
        "generate_in_rounds",
        lambda *args, **kw: rounds.append(1) or generate(*args, **kw),
    )
    restored.setattr(GRPO, "_compute_loss", watched)
    overrides = ["grpo.max_steps=2", "grpo.save_steps=2", "grpo.per_device_train_batch_size=16"]
    overrides += ["grpo.gradient_accumulation_steps=4", "grpo.num_iterations=1"]
    overrides += [f"grpo.{setting}", "grpo.eval_steps=null", "sft=null", LORA, *FEW_PROBLEMS]
    overrides += [f"output_dir={tmp_path}"]
    recipe = load_recipe(RECIPE, overrides)
    grpo.main(recipe)
    groups = 16 // training_config(on_this_machine(recipe), "grpo").num_generations
    assert len(batches) == 8 and (batches == [groups] * 8) is kept
    assert len(rounds) == 2  # each step samples without rows that have ended


def test_freed_memory_is_kept(tmp_path):
    """So that the system clears no pages again: counted as faults."""
    program = """
import json, resource, sys
from training import cpu
import torch
def faults(rounds):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        torch.zeros(2**24).add_(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults(3)
usual = faults(10)
cpu.keep_memory()
faults(3)
# The heap may grow once more.
print(json.dumps([usual, min(faults(10), faults(10))]))
"""
    file = tmp_path / "faults.py"
    file.write_text(program)
    done = run_program(file)
    usual, kept = json.loads(done.stdout)
    assert usual > 10_000 and kept < usual / 50
