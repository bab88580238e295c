"""Pages in Markdown: each is a dictionary and a template of `templates/`.

A template inserts numbers as they are, and any other text as `inline` of console/terminal.py
escapes it, unless a filter says what it is: `code`, `fenced`, `cell` in a table, or `safe` for
Markdown of ours. So a template that forgets a filter shows too many backticks and opens no door.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import jinja2

from console import terminal

TEMPLATES = Path(__file__).parent / "templates"


class Markdown(str):
    """A text that is Markdown already."""


def page(template: str, content: dict[str, object]) -> str:
    """The page that a template makes of its content. Raises jinja2.UndefinedError where the content
    lacks a name that the template uses."""
    return _environment().get_template(template).render(content)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        finalize=_escaped,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["safe"] = Markdown
    functions = (terminal.code, terminal.inline, terminal.duration, cell, fenced)
    for function in (*functions, percent, rounded, thousands):
        environment.filters[function.__name__] = _of_markdown(function)
    return environment


def _of_markdown(function: Callable[..., str]) -> Callable[..., Markdown]:
    """A filter whose results are not escaped again. What nobody knows, None, is empty."""

    def markdown(value: object, *arguments: object) -> Markdown:
        return Markdown("" if value is None else function(value, *arguments))

    return markdown


def _escaped(value: object) -> object:
    """What a template inserts, so that other people's text is only text."""
    if value == "" or isinstance(value, Markdown | int | float):
        return value
    return terminal.inline(value)


def cell(value: object) -> str:
    """A name in a row of a table, where a | would begin another cell, in code too."""
    return str(_escaped(value)).replace("|", r"\|")


def fenced(text: str, language: str = "") -> str:
    """A text as a block of code, which it cannot end."""
    return "\n".join(terminal.fenced(text, language))


def percent(share: float, digits: int = 1) -> str:
    """A share: 62.5%."""
    return f"{share:.{digits}%}"


def rounded(value: float) -> str:
    """A whole number: 7417."""
    return f"{value:.0f}"


def thousands(value: float) -> str:
    """A whole number with commas: 7,417."""
    return f"{value:,.0f}"
