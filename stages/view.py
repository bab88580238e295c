"""Show what runs did, in a browser: curves, groups, what changed. A page served on this machine, or
one file.

`python -m stages.view outputs/<recipe>/grpo …`; with no run named, the one that was written to
last.
"""

import re
import sys
from pathlib import Path

from console.faults import RecipeError
from console.terminal import say
from runs.folder import find, name_of
from stages.cli import run
from viewer.page import ODD, complaint, serve, whole

PORT = "8090"


def main(runs: list[str], html: Path | None, port: str, lab: bool):
    """Show what runs did."""
    if not re.fullmatch("[0-9]{1,5}", port):
        raise RecipeError(
            [f"PORT={port}: a port is a number up to 65535; 0 takes any that is free"]
        )
    found = [] if lab else find(runs, stages=("grpo", "dpo", "sft"))
    names = ", ".join(name_of(run) for run in found) or "the lab"
    if html is not None:
        if html.suffix != ".html" or html.is_dir() or not html.absolute().parent.is_dir():
            raise RecipeError(
                [f"HTML={html}: name a file that ends in .html, in a folder that is there"]
            )
        say(f"view: reading {names}, which may take half a minute")
        try:
            text = whole(found, lambda parts: say(f"view: {parts:,} parts of the page are read"))
        except ODD as error:
            raise RecipeError([complaint(error)]) from None
        html.write_text(text, encoding="utf-8")
        say(
            f"view: {names}, written to {html} ({len(text.encode()) / 2**20:.1f} MiB): open it in"
            " any browser"
        )
        return

    def ready(taken: int):
        say(f"view: {names}, at http://127.0.0.1:{taken} until you press Ctrl-C")
        if sys.stdout.isatty():
            say(f"on another machine, forward the port: ssh -L {taken}:127.0.0.1:{taken} …")

    try:
        serve(found, int(port), ready)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or "a port is a number up to 65535"
        raise RecipeError(
            [f"PORT={port}: {why}: take another, or 0 for any that is free"]
        ) from None
    say("view: stopped")


OPTIONS = {
    "runs": {"nargs": "*", "help": "the folders of runs"},
    "--html": {"type": Path, "help": "write one file instead of serving a page"},
    "--port": {"default": PORT, "help": "0 takes any that is free"},
    "--lab": {"action": "store_true", "help": "the lab alone, without a run"},
}

if __name__ == "__main__":
    run("view", main, OPTIONS, takes_recipe=False)
