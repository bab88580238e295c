"""Show what runs did, in a browser: curves, groups, what changed, in one file.

`python -m stages view outputs/<recipe>/grpo …`; with no run named, the list of all runs, or the
page of the only one.
"""

import os
import sys
import webbrowser
from pathlib import Path

from console.faults import RecipeError
from console.terminal import say
from runs.files import write_whole
from runs.records import all_runs, find_runs, name_of
from runs.state import RunState
from viewer.lab import standalone_lab
from viewer.page import NAME, standalone_list, standalone_page, write_beside

OUTPUTS = Path("outputs")
LIST = OUTPUTS / "runs.html"
STAGES = ("grpo", "distill", "sft")


def main(runs: list[str], html: Path | None, lab: bool) -> Path:
    """Write the page of some runs, the list of all, or the lab, in which a run may be named for its
    widgets, and open it in a browser. Return its file."""
    folders = []
    if runs or not lab:
        folders = find_runs(runs, stages=("grpo",) if lab else STAGES)
    listed = [] if runs or lab else listed_runs()
    is_list = len(listed) > 1
    file = html or (LIST if is_list else default_file([] if lab else folders))
    _require_place(file)
    if lab:
        folders = folders[:1]
        names = ", ".join(["the lab", *map(name_of, folders)])
        text = standalone_lab(*map(RunState.read, folders))
    elif is_list:
        write_beside(RunState.read(folders[0]))  # it may go on, and the list links to it
        names = f"{len(listed):,} runs; RUN={folders[0].parent} shows the newest alone"
        text = standalone_list(list(map(RunState.read, listed)), file.parent)
    else:
        names = ", ".join(map(name_of, folders))
        text = standalone_page(list(map(RunState.read, folders)))
    _write(file, text)
    size = file.stat().st_size / 2**20
    say(f"view: {names}, written to {file} ({size:.1f} MiB)")
    if not (has_browser() and webbrowser.open(file.resolve().as_uri())):
        say("view: open it in any browser; it needs neither a server nor the network")
    return file


def _require_place(file: Path):
    if file.suffix != ".html" or file.is_dir() or not file.absolute().parent.is_dir():
        message = f"HTML={file}: name a file that ends in .html, in a folder that is there"
        raise RecipeError([message])


def _write(file: Path, text: str):
    try:
        write_whole(file, text)
    except OSError as error:
        message = f"{file} cannot be written ({error.strerror or error}): name another, HTML=x.html"
        raise RecipeError([message]) from None


def listed_runs() -> list[Path]:
    """The runs of a list, without the warm start of a policy that is in it."""
    existing = all_runs(OUTPUTS, STAGES)
    runs = []
    for run in existing:
        policies = {run.with_name(name) for name in STAGES if name != "sft"}
        if run.name != "sft" or policies.isdisjoint(existing):
            runs.append(run)
    return runs


def default_file(folders: list[Path]) -> Path:
    """The page's place: a run's own folder, or one of `outputs/` for several runs or none. That
    folder is created."""
    if len(folders) == 1:
        return folders[0] / NAME
    file = OUTPUTS / "compare" / NAME
    if not folders:
        file = OUTPUTS / "lab.html"
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def has_browser() -> bool:
    """Whether somebody sits before a screen of this machine: a pipe, a batch job and a remote
    terminal show no browser."""
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return sys.stdout.isatty() and bool(display or sys.platform in ("darwin", "win32"))
