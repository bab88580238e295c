"""The reward model with which trl scores completions: loaded as the policy is, from safetensors
only and without its code. trl computes the scores."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedTokenizerBase,
)

from console.faults import is_out_of_memory
from data import hub
from schema.names import LEARNED
from schema.recipe import Recipe
from training import model_files
from training.chat_templates import complaint
from training.model import load_weights, looked_at, refused

KIND = "ForSequenceClassification"  # what trl's RewardTrainer makes


def reward_arguments(recipe: Recipe, functions: list[Callable]) -> dict[str, list[Any]]:
    """The trainer's arguments for the recipe's rewards, in its order: the functions, and the
    reward model with its tokenizer.

    Raises:
        RecipeError: the reward model cannot be loaded, or its files are refused.
    """
    rewards: list[Any] = list(functions)
    tokenizers: list[Any] = [None] * len(functions)
    if LEARNED in recipe.rewards:
        with reward_model_files(recipe, weights=True) as (folder, tokenizer):
            model = load_weights(folder, recipe, AutoModelForSequenceClassification)
        model.config._name_or_path = LEARNED  # trl's name for its metrics and its column
        place = list(recipe.rewards).index(LEARNED)
        rewards.insert(place, model)
        tokenizers.insert(place, tokenizer)
    return {"reward_funcs": rewards, "reward_processing_classes": tokenizers}


@contextlib.contextmanager
def reward_model_files(
    recipe: Recipe, weights: bool
) -> Iterator[tuple[Path, PreTrainedTokenizerBase]]:
    """The folder to load the recipe's reward model from, and its tokenizer, once both are checked.
    An error that a library raises in the block becomes a fault.

    Args:
        weights: False where the config and the tokenizer are enough.

    Raises:
        RecipeError: a file is refused, or trl cannot use such a model.
    """
    options = recipe.rewards[LEARNED]
    name = options["model"]
    place = recipe.place("rewards", LEARNED, "model")
    try:
        if not Path(name).is_dir():
            hub.reach()
        with looked_at(name, options.get("revision"), weights) as folder:
            model_files.require_tokenizer(folder)
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
            kind = (config.architectures or ["a model of no kind"])[0]
            if not kind.endswith(KIND) or config.num_labels != 1:
                described = f"it is {kind} (labels: {config.num_labels})"
                raise ValueError(f"{described}: take a model …{KIND} with one label")
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
            if not tokenizer.chat_template:
                raise ValueError("its tokenizer has no chat template: add chat_template.jinja")
            if not tokenizer.pad_token and not tokenizer.eos_token:
                raise ValueError("its tokenizer has neither a pad token nor an eos token")
            fault = complaint(tokenizer, recipe.prompt.system, config.get_text_config().vocab_size)
            if fault:
                raise ValueError(f"its chat template {fault}")
            yield folder, tokenizer
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise refused(place, f"reward model {name}", name, error) from error
