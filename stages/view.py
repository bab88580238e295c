"""Show what runs did, in a browser: curves, groups, what changed. A page served on this machine, or
one file.

`python -m stages.view outputs/<recipe>/grpo …`; with no run named, the one that was written to
last.
"""

import re
import signal
import sys
from pathlib import Path

from console.faults import RecipeError
from console.terminal import say
from runs.folder import find_runs, name_of
from stages.cli import run
from viewer.page import FILE_ERRORS, error_message, serve, standalone_page

PORT = "8090"


def main(runs: list[str], html: Path | None, port: str, lab: bool):
    """Show what runs did."""
    if not re.fullmatch("[0-9]{1,5}", port):
        message = f"PORT={port}: a port is a number up to 65535; 0 takes any that is free"
        raise RecipeError([message])
    folders = [] if lab else find_runs(runs, stages=("grpo", "dpo", "sft"))
    names = ", ".join(map(name_of, folders)) or "the lab"
    if html is not None:
        _write_page(html, folders, names)
        return

    for timer in (signal.ITIMER_PROF, signal.ITIMER_VIRTUAL):  # readers may come for weeks
        signal.setitimer(timer, 0)

    def say_address(bound_port: int, token: str):
        say(f"view: {names}, at http://127.0.0.1:{bound_port}/{token}/ until you press Ctrl-C")
        if sys.stdout.isatty():
            forwarded = f"{bound_port}:127.0.0.1:{bound_port}"
            say(f"on another machine, forward the port: ssh -L {forwarded} …")

    try:
        serve(folders, int(port), say_address)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or "a port is a number up to 65535"
        message = f"PORT={port}: {reason}: take another, or 0 for any that is free"
        raise RecipeError([message]) from None
    say("view: stopped")


def _write_page(file: Path, folders: list[Path], names: str):
    """Write the page of some runs as one file."""
    if file.suffix != ".html" or file.is_dir() or not file.absolute().parent.is_dir():
        message = f"HTML={file}: name a file that ends in .html, in a folder that is there"
        raise RecipeError([message])
    say(f"view: reading {names}, which may take half a minute")
    try:
        text = standalone_page(folders)
    except FILE_ERRORS as error:
        raise RecipeError([error_message(error)]) from None
    file.write_text(text, encoding="utf-8")
    size = len(text.encode()) / 2**20
    say(f"view: {names}, written to {file} ({size:.1f} MiB): open it in any browser")


OPTIONS = {
    "runs": {"nargs": "*", "help": "the folders of runs"},
    "--html": {"type": Path, "help": "write one file instead of serving a page"},
    "--port": {"default": PORT, "help": "0 takes any that is free"},
    "--lab": {"action": "store_true", "help": "the lab alone, without a run"},
}

if __name__ == "__main__":
    run("view", main, OPTIONS, takes_recipe=False, is_limited=True)
