"""Builds trl's DPOTrainer as a recipe describes it."""

from pathlib import Path

from datasets import Dataset
from trl import DPOConfig, DPOTrainer

from schema import configs
from schema.faults import said_by_library
from schema.recipe import Recipe
from training.model import load_model
from training.sharding import share_reference
from training.train import keep_adapter_float32


class Tokenised(DPOTrainer):
    """DPOTrainer for rows that are token ids already: tokenised by trl from text, a chat template that rewrites a turn
    (or drops its thoughts) would have a say in what is learned."""

    def _prepare_dataset(self, dataset: Dataset, *args, **kwargs) -> Dataset:
        return dataset


def dpo_trainer(recipe: Recipe, args: DPOConfig, tokenizer, rows: list[dict], warm_start: Path | None) -> Tokenised:
    """trl's trainer with the recipe's model and adapter. The reference is what the policy begins as: a second model, or
    of an adapter trl's own frozen copy; without a warm start, the base with the adapter switched off.

    Args:
        rows: `prompt_ids`, `chosen_ids` and `rejected_ids` of each pair.
    """
    model = load_model(recipe, tokenizer, warm_start)
    loaded = {name: each.data for name, each in model.named_parameters() if each.requires_grad and recipe.quantization}
    with said_by_library(recipe.place("dpo")):
        trainer = Tokenised(
            model=model,
            ref_model=load_model(recipe, tokenizer, warm_start) if recipe.adapter is None else None,
            args=args,
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
            peft_config=None if warm_start else configs.adapter_config(recipe),
        )
    if recipe.quantization is not None:
        keep_adapter_float32(trainer, loaded)
    if trainer.is_fsdp_enabled and trainer.ref_model is not None:
        share_reference(trainer, load_model(recipe, tokenizer, warm_start))
    return trainer
