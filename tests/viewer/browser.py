"""What the tests of the page share: its server in a thread, a browser's settings, and what stands
in a tab."""

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import uvicorn

from tests.made_runs import TABLE
from viewer import page

CHROMIUM = (
    os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome") or ""
)
# A browser started for a test asks nobody for anything, and runs as whoever runs the tests.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-sync"]
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
CURVES, GROUP, PAIR = ".chart canvas", "[data-advantage]", ".pair"  # what a view is waited for by
FITS = "document.documentElement.scrollWidth <= innerWidth"


@contextmanager
def served(*runs: Path) -> Iterator[str]:
    """`port/token` of a server that shows these runs, in a thread of this process."""
    server = uvicorn.Server(
        uvicorn.Config(page.app(list(runs), "token"), log_level="warning", lifespan="off")
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield f"{listening.getsockname()[1]}/token"
        finally:
            server.should_exit = server.force_exit = True
            thread.join(60)


def visit(tab, address: str, selector: str):
    """Go to an address, until the page has drawn what the selector names."""
    tab.goto(address)
    tab.wait_for_selector(selector)


def texts(tab, selector: str) -> list[str]:
    return tab.locator(selector).all_inner_texts()


def main_text(tab) -> str:
    return tab.locator("main").inner_text()


def numbers(tab, selector: str, name: str = "value") -> list[float]:
    """The numbers behind what is drawn, `data-<name>` of each element."""
    script = "(all, name) => all.map((e) => Number(e.dataset[name]))"
    return tab.eval_on_selector_all(selector, script, name)


def announced(tab, words: str):
    """Wait until a screen reader is told these words."""
    tab.locator("#said", has_text=words).wait_for(state="attached")


def drag(tab, box: dict, start: float, end: float, below: float):
    """With the mouse, from one share of a box's width to another, so far below its top."""
    tab.mouse.move(box["x"] + start * box["width"], box["y"] + below)
    tab.mouse.down()
    tab.mouse.move(box["x"] + end * box["width"], box["y"] + below, steps=5)
    tab.mouse.up()


def totals_of(run: Path, step: int, group: int) -> np.ndarray:
    """The rewards of a group of eight."""
    frame = pd.read_parquet(run / TABLE.format(step)).iloc[8 * group : 8 * group + 8]
    return (frame["correct_answer"] + 0.25 * frame["format_tags"]).to_numpy(copy=True)


def by_numpy(totals: np.ndarray, divisor: float | None = None) -> np.ndarray:
    """Equation 3.1 of DeepSeekMath as trl has it."""
    return (totals - totals.mean()) / ((totals.std(ddof=1) if divisor is None else divisor) + 1e-4)
