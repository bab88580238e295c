"""The problems that a trainer samples completions for: those whose prompts fit the model, as the
dataset that trl takes."""

from datasets import Dataset
from pyarrow import ArrowException

from console.faults import Fault, RecipeError
from console.terminal import say
from data import prompt
from data.problems import for_rewards
from data.sources import DataError
from schema import configs
from schema.recipe import Recipe


def rows_that_fit(recipe: Recipe, config, tokenizer, rows: list[dict]) -> list[dict]:
    """The rows whose prompts leave room for the longest completion in the window of the model, and
    in vLLM's where it samples.

    Args:
        config: of the model.

    Raises:
        RecipeError: there are none.
    """
    longest_prompt = _longest_prompt(recipe, config)
    system = recipe.prompt.system
    template_tokens = len(prompt.question_ids(tokenizer, "", system))
    fitting = []
    for row in rows:
        # A token is at least one byte, so most rows need not be tokenised.
        tokens = template_tokens + len(row["problem"].encode())
        if tokens > longest_prompt:
            tokens = len(prompt.question_ids(tokenizer, row["problem"], system))
        if tokens <= longest_prompt:
            fitting.append(row)
    if not fitting:
        room = "no room for a prompt"
        if longest_prompt > 0:
            room = f"{longest_prompt:,} tokens for a prompt, and none is that short"
        place = recipe.place("grpo", "max_completion_length")
        raise RecipeError([Fault(place, f"grpo.max_completion_length leaves {room}")])
    if len(fitting) < len(rows):
        say(
            f"grpo: left out {len(rows) - len(fitting):,} problems whose prompts have more than"
            f" {longest_prompt:,} tokens"
        )
    return fitting


def _longest_prompt(recipe: Recipe, config) -> int:
    """In tokens, beside the longest completion."""
    window = config.get_text_config().max_position_embeddings
    vllm_window = configs.setting(recipe, "grpo", "vllm_max_model_length")
    if configs.setting(recipe, "grpo", "use_vllm") and vllm_window:
        window = min(window, vllm_window)
    return window - configs.setting(recipe, "grpo", "max_completion_length")


def prompt_dataset(rows: list[dict], tokenizer, system: str | None) -> Dataset:
    """The rows with the columns `prompt` (messages) and `think_opened`, and with every other one
    for rewards.

    Raises:
        DataError: a column has values of several types, half a character, or is nested too deeply.
    """
    opened = prompt.think_opened(tokenizer)
    prompted = []
    for row in rows:
        columns = for_rewards(row)
        columns["prompt"] = prompt.messages(row["problem"], system)
        columns["think_opened"] = opened
        prompted.append(columns)
    if len({type(columns["answer"]) for columns in prompted}) > 1:  # of several sets
        for columns in prompted:
            columns["answer"] = str(columns["answer"])
    try:
        return Dataset.from_list(prompted)
    except (ArrowException, TypeError, ValueError, OverflowError, RecursionError) as error:
        reason = "a column has values of several types, half a character, or is nested too deeply"
        raise DataError(f"data.train: {reason}: {str(error).splitlines()[0]}") from error
