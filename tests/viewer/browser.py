"""What the tests of the page share: its data, a browser's settings, and what stands in a tab."""

import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from runs.state import RunState
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


def data_of(text: str) -> dict[str, Any]:
    """The answers in a page, by their questions."""
    script = r'<script type="application/json" id="answers">(.*?)</script>'
    return json.loads(re.search(script, text, re.S)[1])


def page_of(runs: Sequence[Path]) -> str:
    """The page of the runs in these folders."""
    return page.standalone_page(list(map(RunState.read, runs)))


def data(*runs: Path) -> dict[str, Any]:
    """The answers in the page of these runs."""
    return data_of(page_of(runs))


def address_of(file: Path, *runs: Path) -> str:
    """Write the page of these runs into a file; its address, which a place of the page follows."""
    file.write_text(page_of(runs), encoding="utf-8")
    return f"{file.as_uri()}#"


def visit(tab, address: str, selector: str):
    """Go to an address, until the page has drawn what the selector names."""
    tab.goto("about:blank")  # or another place of the same page would not load it anew
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


def drag(locator, start: float, end: float, below: float):
    """With the mouse, from one share of an element's width to another, so far below its top, once
    it stands still: what was clicked before may have moved it."""
    locator.hover()
    box, mouse = locator.bounding_box(), locator.page.mouse
    mouse.move(box["x"] + start * box["width"], box["y"] + below)
    mouse.down()
    mouse.move(box["x"] + end * box["width"], box["y"] + below, steps=5)
    mouse.up()


def totals_of(run: Path, step: int, group: int) -> np.ndarray:
    """The rewards of a group of eight."""
    frame = pd.read_parquet(run / TABLE.format(step)).iloc[8 * group : 8 * group + 8]
    return (frame["correct_answer"] + 0.25 * frame["format_tags"]).to_numpy(copy=True)


def by_numpy(totals: np.ndarray, divisor: float | None = None) -> np.ndarray:
    """Equation 3.1 of DeepSeekMath as trl has it."""
    return (totals - totals.mean()) / ((totals.std(ddof=1) if divisor is None else divisor) + 1e-4)
