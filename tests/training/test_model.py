"""A model as every stage loads it; and a chat template and a tokenizer, which are tried first."""

import json
import shutil
import warnings

import httpx
import pytest
import torch
from huggingface_hub import constants
from peft import LoraConfig, get_peft_model
from torch.profiler import ProfilerActivity, profile
from transformers import AutoTokenizer, BertConfig, BertLMHeadModel

from console.faults import RecipeError
from console.terminal import quiet_libraries
from data import hub
from schema.recipe import load_recipe
from tests.support import refused
from tests.tables import cases
from training.model import load_model, load_tokenizer, name_base
from training.tiny_models import built_model


def row_by_row(model) -> tuple[bool, torch.Tensor]:
    """Whether torch multiplies a head for the last three positions row by row; and the logits."""
    ids = torch.arange(4 * 20).reshape(4, 20) % 8
    with (
        torch.no_grad(),
        profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled,
    ):
        logits = model(input_ids=ids, logits_to_keep=3).logits
    products = [each.input_shapes[1] for each in profiled.events() if each.name == "aten::bmm"]
    return [4, *model.get_output_embeddings().weight.T.shape] in products, logits


def test_the_head_is_one_product_for_all_rows():
    """Without the hook it is not: once that changes, the hook can go."""
    recipe = load_recipe("recipes/tiny-arithmetic.yaml")
    model = load_model(recipe, load_tokenizer(recipe)).requires_grad_(False)  # as under an adapter
    slow, logits = row_by_row(model)
    assert not slow
    model.get_output_embeddings()._forward_pre_hooks.clear()
    slow, expected = row_by_row(model)
    assert slow
    torch.testing.assert_close(logits, expected)


def test_a_model_that_trl_would_train_on_other_probabilities_than_it_samples_with_is_refused(
    tmp_path,
):
    """BERT's kind has a layer between what trl takes for the last and the head."""
    tokenizer = load_tokenizer(load_recipe("recipes/tiny-arithmetic.yaml"))
    tokenizer.save_pretrained(tmp_path / "bert")
    sizes = {"hidden_size": 32, "intermediate_size": 64}
    sizes |= {"num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=len(tokenizer), is_decoder=True, **sizes)
    BertLMHeadModel(config).save_pretrained(tmp_path / "bert")
    given = ["sft=null", "grpo.max_steps=1", f"output_dir={tmp_path}/out"]
    given += [f"model={{name_or_path: {tmp_path}/bert}}"]
    message = refused("grpo", "recipes/tiny-arithmetic.yaml", *given)
    assert "bert: trl would train other log-probabilities" in message
    assert not (tmp_path / "out").exists()


@cases(__file__, "templates")
def test_a_template_that_cannot_be_used_is_one_line(template, message):
    words = [f"model.chat_template={json.dumps(template)}", "prompt.system=Think."]
    with pytest.raises(RecipeError) as error:
        load_tokenizer(load_recipe("recipes/tiny-arithmetic.yaml", words))
    message = f"the chat template or the tokenizer {message}"
    assert str(error.value).startswith(f"override {words[0]}: {message}")
    assert len(str(error.value).splitlines()) == 1


def test_a_token_that_the_model_does_not_know_is_refused(tmp_path):
    """A tokenizer that was given more tokens than its model has."""
    folder = shutil.copytree(built_model("tiny-qwen3", 42), tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|user|>"]})
    tokenizer.chat_template = tokenizer.chat_template.replace("{%", "<|user|>{%", 1)
    tokenizer.save_pretrained(folder)
    words = [f"model={{name_or_path: {folder}}}", "evaluate.benchmarks=[]"]
    number = len(tokenizer) - 1
    message = f"writes the token '<|user|>', number {number}, and the model knows {number}"
    assert message in refused("check", "recipes/tiny-arithmetic.yaml", *words)


def test_the_hub_is_not_asked_when_an_adapter_is_saved(tmp_path, monkeypatch):
    """peft would look whether its base has another vocabulary there; a training run is kept from
    it, and quietly."""
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)

    def ask(*arguments, **options):
        pytest.fail("the Hub was asked")

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", ask)
    recipe = load_recipe("recipes/tiny-arithmetic.yaml")
    base = load_model(recipe, load_tokenizer(recipe))
    policy = get_peft_model(base, LoraConfig(target_modules="all-linear"))
    name_base(policy, "a/model")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet_libraries()
        hub.offline()(policy.save_pretrained)(tmp_path)
    assert (tmp_path / "adapter_model.safetensors").is_file()
