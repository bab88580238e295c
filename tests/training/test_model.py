"""A model as every stage loads it."""

import torch
from torch.profiler import ProfilerActivity, profile
from transformers import BertConfig, BertLMHeadModel

from schema.recipe import load_recipe
from tests.support import run_stage
from training.model import load_model, load_tokenizer


def row_by_row(model) -> tuple[bool, torch.Tensor]:
    """Whether torch multiplies a head for the last three positions row by row; and the logits."""
    ids = torch.arange(4 * 20).reshape(4, 20) % 8
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        logits = model(input_ids=ids, logits_to_keep=3).logits
    products = [each.input_shapes[1] for each in profiled.events() if each.name == "aten::bmm"]
    return [4, *model.get_output_embeddings().weight.T.shape] in products, logits


def test_the_head_is_one_product_for_all_rows():
    """Without the hook it is not: once that changes, the hook can go."""
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", check=())
    model = load_model(recipe, load_tokenizer(recipe)).requires_grad_(False)  # as under an adapter
    slow, logits = row_by_row(model)
    assert not slow
    model.get_output_embeddings()._forward_pre_hooks.clear()
    slow, expected = row_by_row(model)
    assert slow
    torch.testing.assert_close(logits, expected)


def test_a_model_that_trl_would_train_on_other_probabilities_than_it_samples_with_is_refused(tmp_path):
    """BERT's kind has a layer between what trl takes for the last and the head."""
    tokenizer = load_tokenizer(load_recipe("recipes/tiny-arithmetic.yaml", check=()))
    tokenizer.save_pretrained(tmp_path / "bert")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=len(tokenizer), is_decoder=True, **sizes)
    BertLMHeadModel(config).save_pretrained(tmp_path / "bert")
    given = ["sft=null", "grpo.max_steps=1", f"model={{name_or_path: {tmp_path}/bert}}", f"output_dir={tmp_path}/out"]
    done = run_stage("grpo", "recipes/tiny-arithmetic.yaml", *given, check=False)
    assert done.returncode == 2 and "bert: trl would train other log-probabilities" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()
