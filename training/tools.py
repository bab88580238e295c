"""Tools while a policy reasons: what its tokenizer needs, and the turns that calls make of a
completion.

trl's trainer has a loop of its own; evaluation and chat have the same turns from `in_turns`, and
the warm start from `worked`. A call is read in one form, Qwen's, which a regular expression bounds:
all else is text, and none can fail.
"""

import json
import re
from collections.abc import Callable, Sequence

from transformers.utils import get_json_schema
from trl import chat_template_utils as templates

from console.faults import Fault, RecipeError
from data import prompt
from data.limits import Exceeded, limited
from schema.configs import setting
from schema.names import tools_of
from schema.recipe import Recipe
from training import opening

# One argument of ours, a text without half characters, so that the files of completions have
# columns of one type.
_ARGUMENTS = r'\{\s*"(?:expression|code)"\s*:\s*"(?:[^"\\\x00-\x1f]|\\(?!u[dD][89a-fA-F]).)*+"\s*\}'
_OPEN = r'<tool_call>\s*\{\s*"name"\s*:\s*"(?P<name>\w{1,50})"\s*,\s*"arguments"\s*:\s*'
_CLOSE = r"\s*\}\s*</tool_call>"
_FUNCTION = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
_CALL = {
    "open_pattern": f"{_OPEN}(?={_ARGUMENTS}{_CLOSE})",
    "close_pattern": _CLOSE,
    "repeats": True,
}
_CALL |= {"content": "json", "transform": _FUNCTION}
_TEXT = {"content": "text", "content_args": {"strip": False}, "repeats": True, "join": ""}
_ASKED = {"role": "user", "content": "?"}

Tools = dict[str, Callable[..., str]]
Sample = Callable[[list[list[int]]], list[list[int]]]


def use_tools(tokenizer, recipe: Recipe, given: str):
    """Make the tokenizer announce the recipe's tools in every prompt, and read their calls.
    `given`: what stands before its template (`chat_template.arguments_set`).

    Raises:
        RecipeError: its template does not know them, this machine holds no program, or no call fits
            a completion.
    """
    tools, ends = tools_of(recipe), sorted(tokenizer.all_special_tokens, key=len, reverse=True)
    tokenizer.response_template = {
        "defaults": {"role": "assistant"},
        "start_anchor_pattern": r"(?s)\A.*\Z",  # nothing of the prompt is the model's
        "fields": {
            "tool_calls": _CALL,
            "content": _TEXT | {"close_pattern": "|".join(map(re.escape, ends))},
        },
    }
    try:
        for name in tools.keys() & {"python"}:
            tools[name]("0")
        schemas = json.dumps([get_json_schema(each) for each in tools.values()])
        limits = {"seconds": opening.SECONDS, "memory": opening.MEMORY}
        template, least = limited(_with_tools, tokenizer, schemas, given, **limits)
        wrong = (
            None if template else "the model's chat template does not know tools as Qwen2.5's does"
        )
    except Exceeded as error:
        wrong = f"the model's chat template {error} for a call"
    except RuntimeError as error:  # NotHeld: found here, and not in the middle of a run
        wrong = str(error)
    if wrong:
        raise RecipeError(
            [Fault(recipe.place("tools"), f"tools: {wrong}: leave them out, or take another")]
        )
    tokenizer.chat_template = template
    if least >= (longest := setting(recipe, "grpo", "max_completion_length")):
        message = (
            f"grpo.max_completion_length: {longest} tokens hold no call of `tools` and an answer"
            " after it: take "
        )
        raise RecipeError(
            [Fault(recipe.place("grpo", "max_completion_length"), f"{message}more than {least}")]
        )


def _with_tools(tokenizer, schemas: str, given: str) -> tuple[str | None, int]:
    """The template with its tools, and about how many tokens a call takes with what it is told.
    None where it, even as trl's trainer mends it, writes calls otherwise than they are read,
    changes earlier turns, or opens thoughts. A stranger's may do anything."""
    call = {
        "type": "function",
        "function": {"name": "calculator", "arguments": {"expression": '"1"'}},
    }
    turns = [_ASKED, {"role": "assistant", "content": "", "tool_calls": [call]}]
    try:
        tokenizer.chat_template = tokenizer.chat_template.removeprefix(given)
        if not templates.is_chat_template_prefix_preserving(tokenizer):
            tokenizer.chat_template = templates.get_training_chat_template(tokenizer)
        tokenizer.chat_template = (
            f"{{%- set tools = tools or {schemas} %}}{given}{tokenizer.chat_template}"
        )
        known = templates.supports_tool_calling(
            tokenizer
        ) and templates.is_chat_template_prefix_preserving(tokenizer)
        before, after = (
            tokenizer.apply_chat_template(each, tokenize=False) for each in (turns[:1], turns)
        )
        written = tokenizer(after.removeprefix(before))["input_ids"]
        if (
            not known
            or message_of(tokenizer, written).get("tool_calls") != [call]
            or prompt.think_opened(tokenizer)
        ):
            return None, 0
        told = [{"role": "tool", "name": "calculator", "content": "1"}]
        return tokenizer.chat_template, len(written + ids_of_results(tokenizer, told))
    except BaseException:  # whatever the template is made to raise
        return None, 0


def message_of(tokenizer, ids: Sequence[int]) -> dict:
    """The message that a model wrote in a turn, as trl's trainer reads it: `content`, and
    `tool_calls` if it calls."""
    return templates.parse_response(tokenizer, ids, prefix=[])


def results(message: dict, tools: Tools) -> list[dict]:
    """A message of each tool that was called; a call that fails says why, in trl's words."""
    said = []
    for call in message.get("tool_calls") or []:
        name, content = (
            call["function"]["name"],
            str({"error": f"Tool {call['function']['name']} not found."}),
        )
        try:
            content = tools[name](**call["function"]["arguments"]) if name in tools else content
        except Exception as error:  # another argument than the tool's
            content = str({"error": str(error)})
        said.append({"role": "tool", "name": name, "content": content})
    return said


def ids_of_results(tokenizer, said: list[dict]) -> list[int]:
    """The tokens between the end of the turn that called and the next turn's first, with what the
    tools said."""
    call = {"type": "function", "function": {"name": said[0]["name"], "arguments": {}}}
    turns = [_ASKED, {"role": "assistant", "content": "", "tool_calls": [call]}]
    before = tokenizer.apply_chat_template(turns, tokenize=True, return_dict=False)
    last = max(
        (i for i, each in enumerate(before) if each == tokenizer.eos_token_id),
        default=len(before) - 1,
    )
    return list(prompt.prompt_ids(tokenizer, turns + said))[last + 1 :]


def in_turns(
    sample: Sample,
    tokenizer,
    tools: Tools,
    prompts: list[list[int]],
    longest: int,
    most: int | None,
) -> list[tuple[list[int], list[dict] | None]]:
    """(tokens, messages) of a completion of each prompt, as GRPOTrainer samples it; without tools
    no messages.

    Args:
        sample: from prompts to the tokens of a turn of each, with the token that ends it where it
            ended.
        longest: tokens of a completion, those of tools too: a tool whose turn finds no room says
            nothing.
        most: how often a completion may call and be answered; None for no limit.
    """
    tokens = sample(prompts)
    if not tools:
        return [(each, None) for each in tokens]
    messages = [[message_of(tokenizer, each)] for each in tokens]
    calling = list(range(len(prompts)))
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
            tokens[i], messages[i] = (
                tokens[i] + turn,
                messages[i] + ([message_of(tokenizer, turn)] if turn else []),
            )
    return list(zip(tokens, messages, strict=True))


def worked(tokenizer, tools: Tools, text: str) -> tuple[list[int], list[int]]:
    """(tokens, mask) of a worked solution, whose calls end turns and are answered: 0 for what the
    tools say."""
    ids, mask = [], []
    until_call = (
        re.compile(f"(?s:.*?){_OPEN}{_ARGUMENTS}{_CLOSE}|(?s:.+)")
        if tools
        else re.compile("(?s:.+)")
    )
    for turn in until_call.finditer(text):
        written = [
            *tokenizer(turn[0], add_special_tokens=False)["input_ids"],
            tokenizer.eos_token_id,
        ]
        said = results(message_of(tokenizer, written), tools) if tools else []
        told = ids_of_results(tokenizer, said) if said else []
        ids, mask = ids + written + told, mask + [1] * len(written) + [0] * len(told)
    return ids, mask
