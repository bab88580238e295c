"""The chat template of a run: the recipe's, or the tokenizer's, with the recipe's arguments. It is
tried before anything is trained with it. jinja's sandbox, in which transformers runs it, lets it
reach neither files nor the network.
"""

import json
import re

from jinja2 import TemplateError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from data import prompt

# With characters that a template may rewrite.
QUESTION = ("What is 2 + 2 < 5 & x > 'y'? " * 100).strip()


def complaint(tokenizer, system: str | None, vocabulary: int) -> str | None:
    """Let a tokenizer and its chat template write and split a question and an answer. Return the
    fault in words; None for no fault.

    Args:
        system: the instructions that the recipe gives the model.
        vocabulary: how many tokens the model knows.
    """
    question = prompt.messages(QUESTION, system)
    answered = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "!"}]
    try:
        text = tokenizer.apply_chat_template(question, add_generation_prompt=True, tokenize=False)
        texts = [text, tokenizer.apply_chat_template(answered, tokenize=False)]
        tokens = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    except MemoryError:
        raise
    except Exception as error:  # whatever the template raises
        return f"fails: {type(error).__name__}: {' '.join(str(error).split())}"
    if QUESTION not in text:
        return "does not write the question as it is"
    if system and system.strip() not in text:
        return "does not write prompt.system: put it into model.chat_template, or leave it out"
    last = max(map(max, tokens))
    if last >= vocabulary:
        name = tokenizer.convert_ids_to_tokens(last)
        return f"writes the token {name!r}, number {last}, and the model knows {vocabulary:,}"
    return None


# The code that applies a template sets these arguments.
SET_BY_CALLER = {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}


def template_of(tokenizer, template: str | None, arguments: dict) -> str:
    """The recipe's template, or else the tokenizer's, or else a plain one, with the recipe's
    arguments."""
    template = template or one_template(tokenizer)
    if not template:
        template = prompt.PLAIN_CHAT_TEMPLATE
        if prompt.begins_with_bos(tokenizer):
            template = "{{ bos_token }}" + template
    return with_arguments(template, arguments)


def with_arguments(template: str, arguments: dict[str, bool | int | float | str]) -> str:
    """Set a template's arguments to these values, unless the code that applies it sets them. So the
    values hold everywhere: in trl, vLLM, the warm start, evaluation and chat, and in the tokenizer
    that a run saves.

    Raises:
        ValueError: the template reads no such argument.
    """
    if not arguments:
        return template
    try:
        variables = meta.find_undeclared_variables(_parsed(template))
    except TemplateError:  # reported where the template is tried
        variables = set(arguments)
    variables -= SET_BY_CALLER
    for name in arguments:
        if name not in variables:
            names = ", ".join(sorted(variables)) or "none"
            raise ValueError(f"reads no argument {name!r}, but {names}")
    return arguments_set(arguments) + template


def arguments_set(arguments: dict) -> str:
    """The lines to put before a template, which set these arguments."""
    lines = []
    for name, value in arguments.items():
        literal = json.dumps(value, ensure_ascii=False)
        lines.append(f"{{%- set {name} = {name} if {name} is defined else {literal} %}}\n")
    return "".join(lines)


def _parsed(template: str) -> nodes.Template:
    tags = re.sub(r"{%-?\s*(end)?generation\s*-?%}", "", template)  # transformers' own
    return ImmutableSandboxedEnvironment(extensions=["jinja2.ext.loopcontrols"]).parse(tags)


def one_template(tokenizer) -> str | None:
    """The template that a tokenizer writes conversations with; some hold one for tools or documents
    beside it."""
    template = tokenizer.chat_template
    return template.get("default") if isinstance(template, dict) else template
