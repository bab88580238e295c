"""Lists the recipes, each described by the comment at its top."""

import re
from pathlib import Path

from schema.terminal import say
from schema.text import Unreadable, text_of
from stages.cli import mistakes_reported


def main(folder: Path = Path("recipes")):
    for path in sorted(folder.glob("*.yaml")):
        try:
            what, told = header(text_of(path))
        except (FileNotFoundError, Unreadable) as error:  # a link that an editor leaves beside a file, say
            what, told = f"cannot be read ({error})", {}
        say(f"{path.stem}\n  {what or 'no description'}")
        for word, line in told.items():
            say(f"  {word:<8} {line}")
        say()
    say("next: make check RECIPE=name, or make grpo RECIPE=name")


def header(text: str) -> tuple[str, dict[str, str]]:
    """A recipe's description in the comment at its top, and what that says after Run, Needs and Reaches."""
    lines = re.match(r"(?:#.*\n)*", text)[0].splitlines()
    what, told = [], {}
    for line in lines:
        line = line.lstrip("# ").strip()
        if match := re.match(r"(Run|Needs|Reaches)\s+(.*)", line):
            told[match[1].lower()] = match[2]
        else:
            what.append(line)
    return " ".join(what), told


if __name__ == "__main__":
    with mistakes_reported():
        main()
