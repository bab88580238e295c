"""Lists the recipes, each described by the comment at its top."""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

from console.terminal import say
from schema.text import Unreadable, text_of

NOT_RUN = "not yet run"


class Line(NamedTuple):
    """A recipe as one line of the list. All but its name is from the comment at its top, cut
    short."""

    name: str
    description: str
    needs: str
    result: str

    @property
    def order(self) -> tuple[bool, bool, str]:
        """The default recipe first, then what was measured, by name."""
        return self.result.startswith(NOT_RUN), self.name != "tiny-arithmetic", self.name


def main(folder: Path = Path("recipes")):
    lines = sorted(map(line_of, folder.glob("*.yaml")), key=lambda line: line.order)
    for line in [Line("recipe", "what", "needs", "result"), *lines]:
        say(f"{line.name:<21} {line.description:<38} {line.needs:<18} {line.result}".rstrip())
    say("the first lines of recipes/name.yaml say more, and how it is run")
    say("next: make check RECIPE=name, or make grpo RECIPE=name")


def line_of(path: Path) -> Line:
    """The line of a recipe's file.

    An editor may leave a link beside a file that it has open; its line says that it cannot be read.
    """
    try:
        description, entries = header(text_of(path))
    except (FileNotFoundError, Unreadable) as error:
        return Line(path.stem, f"cannot be read ({error})", "", NOT_RUN)
    result = entries.get("reaches", NOT_RUN).removeprefix("validation ").removeprefix("accuracy ")
    if result.startswith(NOT_RUN):
        result = NOT_RUN
    result = re.split(r",| over ", result)[0]
    needs = re.split(r"[;,(]| and ", entries.get("needs", ""))[0]
    needs = needs.replace(" with ", " ").removeprefix("one ").removeprefix("a ")
    # without papers and years
    description = re.sub(r" \(.*?\)", "", description) or "no description"
    return Line(path.stem, shorten(description, 38), shorten(needs, 18), shorten(result, 32))


def shorten(text: str, width: int) -> str:
    """The text, or its first words and … where it is longer than the width."""
    return textwrap.shorten(text, width, placeholder=" …", break_on_hyphens=False)


def header(text: str) -> tuple[str, dict[str, str]]:
    """The comment at the top of a recipe: its description, and its entries Run, Needs, Hours
    and Reaches, by their names in lower case."""
    lines = re.match(r"(?:#.*\n)*", text)[0].splitlines()
    description = []
    entries = {}
    for line in lines:
        line = line.lstrip("# ").strip()
        match = re.match(r"(Run|Needs|Hours|Reaches)\s+(.*)", line)
        if match:
            entries[match[1].lower()] = match[2]
        else:
            description.append(line)
    return " ".join(description), entries
