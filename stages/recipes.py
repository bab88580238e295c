"""Lists the recipes, each described by the comment at its top."""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

from console.terminal import say
from schema.text import Unreadable, text_of
from stages.cli import mistakes_reported

NOT_RUN = "not yet run"


class Line(NamedTuple):
    """A recipe in one line: its name, and what the comment at its top says, each cut short."""

    name: str
    what: str
    needs: str
    result: str

    @property
    def order(self) -> tuple[bool, bool, str]:
        """The default recipe first, then what was measured, by name."""
        return self.result.startswith(NOT_RUN), self.name != "tiny-arithmetic", self.name


def main(folder: Path = Path("recipes")):
    lines = sorted(map(line_of, folder.glob("*.yaml")), key=lambda line: line.order)
    for line in [Line("recipe", "what", "needs", "result"), *lines]:
        say(f"{line.name:<20} {line.what:<38} {line.needs:<18} {line.result}".rstrip())
    say("the first lines of recipes/name.yaml say more, and how it is run")
    say("next: make check RECIPE=name, or make grpo RECIPE=name")


def line_of(path: Path) -> Line:
    try:
        what, words = header(text_of(path))
    except (
        FileNotFoundError,
        Unreadable,
    ) as error:  # a link that an editor leaves beside a file, say
        return Line(path.stem, f"cannot be read ({error})", "", NOT_RUN)
    result = words.get("reaches", NOT_RUN).removeprefix("held-out ").removeprefix("accuracy ")
    if result.startswith(NOT_RUN):
        result = NOT_RUN
    needs = re.split(r"[;,(]| and ", words.get("needs", ""))[0]
    needs = needs.replace(" with ", " ").removeprefix("one ").removeprefix("a ")
    what = re.sub(r" \(.*?\)", "", what) or "no description"  # without papers and years
    return Line(
        path.stem, short(what, 38), short(needs, 18), short(re.split(r",| over ", result)[0], 21)
    )


def short(text: str, most: int) -> str:
    """The text, or its first words and … where it is longer."""
    return textwrap.shorten(text, most, placeholder=" …", break_on_hyphens=False)


def header(text: str) -> tuple[str, dict[str, str]]:
    """A recipe's description in the comment at its top, and what that says after Run, Needs and
    Reaches."""
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
