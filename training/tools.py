"""Tools that a policy calls while it reasons: the tokenizer's settings, and completions of several
turns, in which tools answer calls.

trl's trainer has its own loop; evaluation and chat sample the same turns with `sample_in_turns`,
and the warm start tokenises them with `tokenise_solution`. Only Qwen's form of a call is parsed, by
a bounded regular expression; everything else is text, so parsing cannot fail.
"""

import json
import re
from collections.abc import Callable, Sequence

from transformers.utils import get_json_schema
from trl import chat_template_utils as templates

from console.faults import Fault, RecipeError
from data import prompt
from schema.names import tools_of
from schema.recipe import Recipe

# The one argument of our tools, a text without lone surrogates, so that the files of completions
# have columns of one type.
_ARGUMENTS = r'\{\s*"expression"\s*:\s*"(?:[^"\\\x00-\x1f]|\\(?!u[dD][89a-fA-F]).)*+"\s*\}'
_OPEN = r'<tool_call>\s*\{\s*"name"\s*:\s*"(?P<name>\w{1,50})"\s*,\s*"arguments"\s*:\s*'
_CLOSE = r"\s*\}\s*</tool_call>"
_FUNCTION = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
_CALL = {
    "open_pattern": f"{_OPEN}(?={_ARGUMENTS}{_CLOSE})",
    "close_pattern": _CLOSE,
    "repeats": True,
    "content": "json",
    "transform": _FUNCTION,
}
_TEXT = {"content": "text", "content_args": {"strip": False}, "repeats": True, "join": ""}
_QUESTION = {"role": "user", "content": "?"}

Tools = dict[str, Callable[..., str]]
Sample = Callable[[list[list[int]]], list[list[int]]]


def use_tools(tokenizer, recipe: Recipe, prefix: str):
    """Make the tokenizer announce the recipe's tools in every prompt, and parse their calls.
    `prefix`: the start of its template that sets arguments (`chat_templates.arguments_set`).

    Raises:
        RecipeError: the template cannot express tools, or a completion has no room for a call.
    """
    tools = tools_of(recipe)
    ends = sorted(tokenizer.all_special_tokens, key=len, reverse=True)
    tokenizer.response_template = {
        "defaults": {"role": "assistant"},
        "start_anchor_pattern": r"(?s)\A.*\Z",  # no part of the prompt is the model's
        "fields": {
            "tool_calls": _CALL,
            "content": _TEXT | {"close_pattern": "|".join(map(re.escape, ends))},
        },
    }
    schemas = json.dumps([get_json_schema(tool) for tool in tools.values()])
    template, call_tokens = _with_tools(tokenizer, schemas, prefix)
    if template is None:
        message = "tools: the model's chat template does not know tools as Qwen2.5's does: leave"
        raise RecipeError([Fault(recipe.place("tools"), f"{message} them out, or take another")])
    tokenizer.chat_template = template
    max_tokens = recipe.settings["grpo"]["max_completion_length"]
    if call_tokens >= max_tokens:
        message = (
            f"grpo.max_completion_length: {max_tokens} tokens hold no call of `tools` and an answer"
            f" after it: take more than {call_tokens}"
        )
        raise RecipeError([Fault(recipe.place("grpo", "max_completion_length"), message)])


def _with_tools(tokenizer, schemas: str, prefix: str) -> tuple[str | None, int]:
    """The template with its tools, and about how many tokens a call takes together with its result.
    None where the template, even after trl's repair for training, writes calls in another form than
    we parse, changes earlier turns, or opens thoughts."""
    call = {
        "type": "function",
        "function": {"name": "calculator", "arguments": {"expression": '"1"'}},
    }
    turns = [_QUESTION, {"role": "assistant", "content": "", "tool_calls": [call]}]
    try:
        tokenizer.chat_template = tokenizer.chat_template.removeprefix(prefix)
        if not templates.is_chat_template_prefix_preserving(tokenizer):
            tokenizer.chat_template = templates.get_training_chat_template(tokenizer)
        announcement = f"{{%- set tools = tools or {schemas} %}}"
        tokenizer.chat_template = f"{announcement}{prefix}{tokenizer.chat_template}"
        if not templates.supports_tool_calling(tokenizer):
            return None, 0
        if not templates.is_chat_template_prefix_preserving(tokenizer):
            return None, 0
        before = tokenizer.apply_chat_template(turns[:1], tokenize=False)
        after = tokenizer.apply_chat_template(turns, tokenize=False)
        call_ids = tokenizer(after.removeprefix(before))["input_ids"]
        if message_of(tokenizer, call_ids).get("tool_calls") != [call]:
            return None, 0
        if prompt.think_opened(tokenizer):
            return None, 0
        result = [{"role": "tool", "name": "calculator", "content": "1"}]
        return tokenizer.chat_template, len(call_ids + result_ids(tokenizer, result))
    except Exception:  # a template may raise anything
        return None, 0


def message_of(tokenizer, ids: Sequence[int]) -> dict:
    """The message that a model wrote in a turn, as trl's trainer reads it: `content`, and
    `tool_calls` if it calls."""
    return templates.parse_response(tokenizer, ids, prefix=[])


def answer_calls(message: dict, tools: Tools) -> list[dict]:
    """The tools' messages in answer to a message's calls; a call of an unknown tool gets the error,
    in trl's words."""
    messages = []
    for call in message.get("tool_calls") or []:
        name = call["function"]["name"]
        if name in tools:
            content = tools[name](**call["function"]["arguments"])
        else:
            content = str({"error": f"Tool {name} not found."})
        messages.append({"role": "tool", "name": name, "content": content})
    return messages


def result_ids(tokenizer, results: list[dict]) -> list[int]:
    """The tokens from the end of the turn that called to the start of the model's next turn: the
    tools' messages as the template writes them."""
    call = {"type": "function", "function": {"name": results[0]["name"], "arguments": {}}}
    turns = [_QUESTION, {"role": "assistant", "content": "", "tool_calls": [call]}]
    ids = tokenizer.apply_chat_template(turns, tokenize=True, return_dict=False)
    length = len(ids)
    if tokenizer.eos_token_id in ids:
        length -= ids[::-1].index(tokenizer.eos_token_id)  # up to the last end of a turn
    return list(prompt.prompt_ids(tokenizer, turns + results))[length:]


def sample_in_turns(
    sample: Sample,
    tokenizer,
    tools: Tools,
    prompts: list[list[int]],
    max_tokens: int,
    max_calls: int | None,
) -> list[tuple[list[int], list[dict] | None]]:
    """A completion of each prompt as (tokens, messages), sampled as GRPOTrainer does it; messages
    is None without tools.

    Args:
        sample: returns for each prompt the tokens of the next turn, including the token that ends
            it unless it was cut off.
        max_tokens: the limit of a completion, tools' messages included: a tool's message that does
            not fit is dropped.
        max_calls: the number of turns of a completion whose calls are answered; None for no limit.
    """
    tokens = sample(prompts)
    if not tools:
        return [(ids, None) for ids in tokens]
    messages = [[message_of(tokenizer, ids)] for ids in tokens]
    calling = list(range(len(prompts)))
    for _ in range(max_calls or max_tokens):
        answered = []
        for i in calling:
            results = answer_calls(messages[i][-1], tools)
            if not results:
                continue
            ids = tokens[i] + result_ids(tokenizer, results)
            if len(ids) <= max_tokens:
                tokens[i] = ids
                messages[i] += results
                answered.append(i)
        if not answered:
            break
        calling = answered
        turns = sample([prompts[i] + tokens[i] for i in calling])
        for i, turn in zip(calling, turns, strict=True):
            turn = turn[: max_tokens - len(tokens[i])]
            tokens[i] = tokens[i] + turn
            if turn:
                messages[i].append(message_of(tokenizer, turn))
    return list(zip(tokens, messages, strict=True))


def tokenise_solution(tokenizer, tools: Tools, text: str) -> tuple[list[int], list[int]]:
    """(tokens, mask) of a worked solution whose calls end turns and are answered by the tools; the
    mask is 1 for the model's tokens and 0 for the tools'."""
    ids = []
    mask = []
    turn_pattern = "(?s:.+)"
    if tools:
        turn_pattern = f"(?s:.*?){_OPEN}{_ARGUMENTS}{_CLOSE}|{turn_pattern}"
    for turn in re.finditer(turn_pattern, text):
        turn_ids = [*tokenizer(turn[0], add_special_tokens=False)["input_ids"]]
        turn_ids.append(tokenizer.eos_token_id)
        ids += turn_ids
        mask += [1] * len(turn_ids)
        results = []
        if tools:
            results = answer_calls(message_of(tokenizer, turn_ids), tools)
        if results:
            tool_ids = result_ids(tokenizer, results)
            ids += tool_ids
            mask += [0] * len(tool_ids)
    return ids, mask
