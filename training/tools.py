"""Tools while a policy reasons: what its tokenizer needs, and the turns that calls make of a completion.

trl's trainer has a loop of its own; evaluation and chat have the same turns from `in_turns`, and the warm start from
`worked`. A call is read in one form, Qwen's, which a regular expression bounds: all else is text, and none can fail.
"""

import json
import re
from collections.abc import Callable, Sequence

from transformers.utils import get_json_schema
from trl.chat_template_utils import is_chat_template_prefix_preserving, parse_response, supports_tool_calling

from data import prompt
from schema.faults import Fault, RecipeError
from schema.names import tools_of
from schema.recipe import Recipe

# One argument of ours, a text without half characters, so that the files of completions have columns of one type.
_ARGUMENTS = r'\{\s*"(?:expression|code)"\s*:\s*"(?:[^"\\\x00-\x1f]|\\(?!u[dD][89a-fA-F]).)*+"\s*\}'
_OPEN = r'<tool_call>\s*\{\s*"name"\s*:\s*"(?P<name>\w{1,50})"\s*,\s*"arguments"\s*:\s*'
_CLOSE = r"\s*\}\s*</tool_call>"
_FUNCTION = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
_CALL = {"open_pattern": f"{_OPEN}(?={_ARGUMENTS}{_CLOSE})", "close_pattern": _CLOSE, "repeats": True}
_CALL |= {"content": "json", "transform": _FUNCTION}
_TEXT = {"content": "text", "content_args": {"strip": False}, "repeats": True, "join": ""}
_ASKED = {"role": "user", "content": "?"}

Tools = dict[str, Callable[..., str]]
Sample = Callable[[list[list[int]]], list[list[int]]]


def use_tools(tokenizer, recipe: Recipe):
    """Make the tokenizer announce the recipe's tools in every prompt, and read their calls.

    Raises:
        RecipeError: its template does not know them as is needed here, or this machine can hold no program.
    """
    tools, ends = tools_of(recipe), sorted(tokenizer.all_special_tokens, key=len, reverse=True)
    tokenizer.response_template = {
        "defaults": {"role": "assistant"},
        "start_anchor_pattern": r"(?s)\A.*\Z",  # nothing of the prompt is the model's
        "fields": {"tool_calls": _CALL, "content": _TEXT | {"close_pattern": "|".join(map(re.escape, ends))}},
    }
    wrong = None if _known(tokenizer) else "the model's chat template does not know tools as Qwen2.5's does"
    try:
        for name in tools.keys() & {"python"}:
            tools[name]("0")
    except RuntimeError as error:  # NotHeld: found here, and not in the middle of a run
        wrong = str(error)
    if wrong:
        raise RecipeError([Fault(recipe.place("tools"), f"tools: {wrong}: leave them out, or take another")])
    schemas = json.dumps([get_json_schema(each) for each in tools.values()])
    tokenizer.chat_template = f"{{%- set tools = tools or {schemas} %}}{tokenizer.chat_template}"


def _known(tokenizer) -> bool:
    """Whether the template writes calls in the form that is read, keeps earlier turns as they were, and opens no
    thoughts."""
    if not (supports_tool_calling(tokenizer) and is_chat_template_prefix_preserving(tokenizer)):
        return False
    call = {"type": "function", "function": {"name": "calculator", "arguments": {"expression": '"1"'}}}
    turns = [_ASKED, {"role": "assistant", "content": "", "tool_calls": [call]}]
    before, after = (tokenizer.apply_chat_template(each, tokenize=False) for each in (turns[:1], turns))
    written = parsed(tokenizer, tokenizer(after.removeprefix(before))["input_ids"])
    return written.get("tool_calls") == [call] and not prompt.think_opened(tokenizer)


def parsed(tokenizer, ids: Sequence[int]) -> dict:
    """The message that a model wrote in a turn, as trl's trainer reads it: `content`, and `tool_calls` if it calls."""
    return parse_response(tokenizer, ids, prefix=[])


def results(message: dict, tools: Tools) -> list[dict]:
    """A message of each tool that was called; a call that fails says why, in trl's words."""
    said = []
    for call in message.get("tool_calls") or []:
        name, content = call["function"]["name"], str({"error": f"Tool {call['function']['name']} not found."})
        try:
            content = tools[name](**call["function"]["arguments"]) if name in tools else content
        except Exception as error:  # another argument than the tool's
            content = str({"error": str(error)})
        said.append({"role": "tool", "name": name, "content": content})
    return said


def ids_of_results(tokenizer, said: list[dict]) -> list[int]:
    """The tokens between the end of the turn that called and the next turn's first, with what the tools said."""
    call = {"type": "function", "function": {"name": said[0]["name"], "arguments": {}}}
    turns = [_ASKED, {"role": "assistant", "content": "", "tool_calls": [call]}]
    before = tokenizer.apply_chat_template(turns, tokenize=True, return_dict=False)
    last = max((i for i, each in enumerate(before) if each == tokenizer.eos_token_id), default=len(before) - 1)
    return list(prompt.prompt_ids(tokenizer, turns + said))[last + 1 :]


def in_turns(
    sample: Sample, tokenizer, tools: Tools, prompts: list[list[int]], longest: int, most: int | None
) -> list[tuple[list[int], list[dict] | None]]:
    """(tokens, messages) of a completion of each prompt, as GRPOTrainer samples it; without tools no messages.

    Args:
        sample: from prompts to the tokens of a turn of each, with the token that ends it where it ended.
        longest: tokens of a completion, those of tools too: a tool whose turn finds no room says nothing.
        most: how often a completion may call and be answered; None for no limit.
    """
    tokens = sample(prompts)
    if not tools:
        return [(each, None) for each in tokens]
    messages, calling = [[parsed(tokenizer, each)] for each in tokens], list(range(len(prompts)))
    for _ in range(most or longest):
        asked, calling = calling, []
        for i in asked:
            said = results(messages[i][-1], tools)
            so_far = tokens[i] + ids_of_results(tokenizer, said) if said else []
            if said and len(so_far) <= longest:
                tokens[i], messages[i] = so_far, messages[i] + said
                calling.append(i)
        turns = sample([prompts[i] + tokens[i] for i in calling]) if calling else []
        for i, turn in zip(calling, turns, strict=True):
            turn = turn[: longest - len(tokens[i])]
            tokens[i], messages[i] = tokens[i] + turn, messages[i] + ([parsed(tokenizer, turn)] if turn else [])
    return list(zip(tokens, messages, strict=True))


def worked(tokenizer, tools: Tools, text: str) -> tuple[list[int], list[int]]:
    """(tokens, mask) of a worked solution, whose calls end turns and are answered: 0 for what the tools say."""
    ids, mask = [], []
    until_call = re.compile(f"(?s:.*?){_OPEN}{_ARGUMENTS}{_CLOSE}|(?s:.+)") if tools else re.compile("(?s:.+)")
    for turn in until_call.finditer(text):
        written = [*tokenizer(turn[0], add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
        said = results(parsed(tokenizer, written), tools) if tools else []
        told = ids_of_results(tokenizer, said) if said else []
        ids, mask = ids + written + told, mask + [1] * len(written) + [0] * len(told)
    return ids, mask
