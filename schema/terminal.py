"""What a stage writes on the terminal: once, whatever the number of processes, and nothing that could rewrite it."""

import os
import re
import shlex
import sys

from schema.recipe import Recipe


def is_main_process() -> bool:
    return int(os.environ.get("RANK", 0)) == 0


def say(text: str = ""):
    """Print once, whatever the number of processes."""
    if is_main_process():
        print(clean(text), flush=True)


def clean(text: str) -> str:
    """With the names of control characters in their place: a text of another's could rewrite the terminal with them."""
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def say_markdown(text: str):
    """Print a text with tables: drawn where a person looks on, as it is in a file or a pipe."""
    if sys.stdout.isatty() and is_main_process():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        say(text)


def chain() -> str | None:
    """The target, `grpo` or `dpo`, for which `make` runs this stage as one of several, and goes on with the next by
    itself; None where it runs this stage alone."""
    target = os.environ.get("MAKE_TARGET")
    return target if target in ("grpo", "dpo") else None


def make_command(target: str, recipe: Recipe) -> str:
    """The `make` line for a recipe and the overrides and the launcher it was asked for with, as the next step a stage
    prints."""
    # What stands on make's command line is in the environment of what it runs.
    launcher = [f" {name}={shlex.quote(os.environ[name])}" for name in ("ACCELERATE", "PROCESSES") if os.getenv(name)]
    return f"make {target}{recipe.asked_for}{''.join(launcher)}"
