"""The prompts that trl's trainer samples from."""

import math
from typing import TYPE_CHECKING

from console.faults import Fault, RecipeError
from console.terminal import say
from data import prompt
from data.files import DataError
from data.problems import for_rewards
from schema.recipe import Recipe
from training.problem_sets import why_mixed

if TYPE_CHECKING:
    from datasets import Dataset


def rows_that_fit(
    recipe: Recipe, config, tokenizer, rows: list[dict], kind: str = "problems"
) -> list[dict]:
    """The rows whose prompts leave room for the longest completion in the window of the model, and
    in vLLM's where it samples.

    Args:
        config: of the model.
        kind: what the rows are, for the message.

    Raises:
        RecipeError: there are none.
    """
    longest = longest_prompt(recipe, config)
    system = recipe.prompt.system
    template_tokens = len(prompt.question_ids(tokenizer, "", system))
    fitting = []
    for row in rows:
        # A token is at least one byte, so most rows need not be tokenised.
        tokens = template_tokens + len(row["problem"].encode())
        if tokens > longest or row.get(prompt.TURNS):
            tokens = len(prompt.question_ids(tokenizer, row, system))
        if tokens <= longest:
            fitting.append(row)
    if not fitting:
        room = "no room for a prompt"
        if longest > 0:
            room = f"{longest:,} tokens for a prompt, and none of the {kind} is that short"
        place = recipe.place("grpo", "max_completion_length")
        raise RecipeError([Fault(place, f"grpo.max_completion_length leaves {room}")])
    if len(fitting) < len(rows):
        say(
            f"grpo: left out {len(rows) - len(fitting):,} {kind} whose prompts have more than"
            f" {longest:,} tokens"
        )
    return fitting


def window_of(config) -> float:
    """How many tokens a model reads, infinite where its config sets no limit."""
    return getattr(config.get_text_config(), "max_position_embeddings", None) or math.inf


def longest_prompt(recipe: Recipe, config) -> float:
    """In tokens, beside the longest completion."""
    window = window_of(config)
    grpo = recipe.settings["grpo"]
    if grpo["use_vllm"] and grpo["vllm_max_model_length"]:
        window = min(window, grpo["vllm_max_model_length"])
    return window - grpo["max_completion_length"]


def prompt_dataset(rows: list[dict], tokenizer, system: str | None) -> "Dataset":
    """The rows with the columns `prompt` (messages) and `think_opened`, and with every other one
    for rewards.

    Raises:
        DataError: a column has values of several types, half a character, or is nested too deeply.
    """
    from datasets import Dataset
    from pyarrow import ArrowException

    opened = prompt.think_opened(tokenizer)
    prompted = []
    for row in rows:
        columns = for_rewards(row)
        columns["prompt"] = prompt.messages(row, system)
        columns["think_opened"] = opened
        prompted.append(columns)
    answers = [columns["answer"] for columns in prompted]
    if len(set(map(type, answers))) > 1 or why_mixed(answers):  # of several sets
        for columns in prompted:
            columns["answer"] = str(columns["answer"])
    try:
        return Dataset.from_list(prompted)
    except (ArrowException, TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = "a column has values of several types, half a character, or is nested too deeply"
        raise DataError(f"data.train: {reason}: {str(error).splitlines()[0]}") from error
