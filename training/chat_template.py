"""The chat template that writes a recipe's conversations: the recipe's own or the tokenizer's,
with the recipe's arguments."""

import json
import re

from jinja2 import TemplateError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from data import prompt


def template_of(tokenizer, own: str | None, arguments: dict) -> str:
    """The template of a recipe, or the tokenizer's, or a plain one; with the recipe's arguments."""
    return with_arguments(own or one_template(tokenizer) or prompt.PLAIN_CHAT_TEMPLATE, arguments)


def with_arguments(template: str, arguments: dict[str, bool | int | float | str]) -> str:
    """The template with these values for its arguments where who applies it gives none. So all have
    them: trl, vLLM, the warm start, evaluation and chat, and the tokenizer that a run saves.

    Raises:
        ValueError: the template reads no such argument.
    """
    if not arguments:
        return template
    try:
        read = meta.find_undeclared_variables(_parsed(template))
    except TemplateError:  # reported where the template is tried
        read = {*arguments}
    read -= {
        "messages",
        "tools",
        "add_generation_prompt",
        "bos_token",
        "eos_token",
    }  # given by who applies it
    if unread := [name for name in arguments if name not in read]:
        has = ", ".join(sorted(read)) or "none"
        raise ValueError(f"reads no argument {unread[0]!r}, but {has}")
    return arguments_set(arguments) + template


def arguments_set(arguments: dict) -> str:
    """What stands before a template that has these arguments."""
    values = {name: json.dumps(each, ensure_ascii=False) for name, each in arguments.items()}
    return "".join(
        f"{{%- set {name} = {name} if {name} is defined else {each} %}}\n"
        for name, each in values.items()
    )


def _parsed(template: str) -> nodes.Template:
    tags = re.sub(r"{%-?\s*(end)?generation\s*-?%}", "", template)  # transformers' own
    return ImmutableSandboxedEnvironment(extensions=["jinja2.ext.loopcontrols"]).parse(tags)


def one_template(tokenizer) -> str | None:
    """The template that a tokenizer writes conversations with; some hold one for tools or documents
    beside it."""
    template = tokenizer.chat_template
    return template.get("default") if isinstance(template, dict) else template
