"""The rows that trl's trainers take: prompts to sample from, and pairs of completions for DPO."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from console.faults import Fault, RecipeError
from console.terminal import say
from data import prompt
from data.problems import for_rewards
from data.sources import DataError
from runs.folder import sampled_batches
from schema import configs
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
    vllm_window = configs.setting(recipe, "grpo", "vllm_max_model_length")
    if configs.setting(recipe, "grpo", "use_vllm") and vllm_window:
        window = min(window, vllm_window)
    return window - configs.setting(recipe, "grpo", "max_completion_length")


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


COLUMNS = ("prompt", "completion", "advantage", "truncated")


class PreferencePair(NamedTuple):
    """`prompt`: the conversation. `chosen`, `rejected`: the texts of the best and the worst
    completion of a group. `truncated`: for each of the two, in this order, whether it was cut off.
    """

    prompt: list[dict]
    chosen: str
    rejected: str
    truncated: tuple[bool, bool]

    @property
    def problem(self) -> str:
        return self.prompt[-1]["content"]


def preference_pairs(run: Path, size: int) -> tuple[list[PreferencePair], dict]:
    """The pairs in a GRPO run's files of completions, by step, and the numbers of completions,
    groups and pairs.

    Within a group the advantage rises with the total reward, whatever it is divided by, so it
    determines the best and the worst; the first of several. A group whose completions all earned
    the same has no pair.

    Args:
        size: the number of completions of a group; they follow one another in a file.

    Raises:
        DataError: a file is not what a run wrote.
    """
    pairs = []
    completions = 0
    groups = 0
    for file, rows in sampled_batches(run, COLUMNS):
        completions += len(rows)
        for first in range(0, len(rows), size):
            group = rows[first : first + size]
            if any(row["prompt"] != group[0]["prompt"] for row in group):
                raise DataError(
                    f"{file}: rows {first} to {first + len(group) - 1} are not one group of a"
                    " GRPO run"
                )
            groups += 1
            best = max(group, key=lambda row: row["advantage"])
            worst = min(group, key=lambda row: row["advantage"])
            if best["advantage"] > worst["advantage"]:
                pair = PreferencePair(
                    prompt=best["prompt"],
                    chosen=best["completion"][-1]["content"],
                    rejected=worst["completion"][-1]["content"],
                    truncated=(best["truncated"], worst["truncated"]),
                )
                pairs.append(pair)
    return pairs, {"completions": completions, "groups": groups, "pairs": len(pairs)}


def tokenise_pairs(pairs: list[PreferencePair], tokenizer, max_length: int | None) -> list[dict]:
    """`prompt_ids`, `chosen_ids` and `rejected_ids` of every pair whose two sequences fit into
    `max_length` tokens, as trl's DPOTrainer collates them; the prompt's tokens are the same as in
    every other stage.
    """
    rows = []
    for pair in pairs:
        ids = prompt.prompt_ids(tokenizer, pair.prompt)
        chosen = _completion_ids(tokenizer, pair.chosen, pair.truncated[0])
        rejected = _completion_ids(tokenizer, pair.rejected, pair.truncated[1])
        if not max_length or len(ids) + max(len(chosen), len(rejected)) <= max_length:
            rows.append({"prompt_ids": ids, "chosen_ids": chosen, "rejected_ids": rejected})
    return rows


def _completion_ids(tokenizer, text: str, is_truncated: bool) -> list[int]:
    """The tokens of a completion; unless it was cut off, with the token that ends a turn."""
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if is_truncated:
        return ids
    return [*ids, tokenizer.eos_token_id]
