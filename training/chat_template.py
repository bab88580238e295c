"""The chat template that writes a recipe's conversations: the recipe's own or the tokenizer's,
with the recipe's arguments."""

import json
import re

from jinja2 import TemplateError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from data import prompt

# The code that applies a template sets these arguments.
SET_BY_CALLER = {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}


def template_of(tokenizer, template: str | None, arguments: dict) -> str:
    """The recipe's template, or else the tokenizer's, or else a plain one, with the recipe's
    arguments."""
    template = template or one_template(tokenizer) or prompt.PLAIN_CHAT_TEMPLATE
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
