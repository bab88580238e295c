"""Takes the pictures of the page that the docs show, docs/img/*.png. Look at them before you commit
them.

`python -m tests.bench.pictures outputs/x STEP GROUP`: a run, and the group to show.
`python -m tests.bench.pictures --lab FOLDER`: every part of the lab, in both schemes, as wide as a
desk's and a phone's screen.
"""

import argparse
import tempfile
from itertools import product
from pathlib import Path

from runs.records import find_runs
from tests.viewer.browser import CHROMIUM, FLAGS, address_of

FOLDER = Path("docs/img")
LAB = Path("docs/lab/index.html").absolute().as_uri()


def lab(folder: Path):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for scheme, width in product(("light", "dark"), (1440, 390)):
            size = {"width": width, "height": 900}
            page = browser.new_page(viewport=size, color_scheme=scheme)
            page.goto(LAB)
            page.wait_for_selector(".seeds [data-trapped]", timeout=120_000)
            page.screenshot(path=folder / f"first-{width}-{scheme}.png")
            for section in page.locator("section.play").all():
                name = section.get_attribute("id").removeprefix("part-")
                section.screenshot(path=folder / f"{name}-{width}-{scheme}.png")
            page.close()
        browser.close()


def main(run: str, step: int, group: int):
    # An extra, which `--help` does without: make setup EXTRAS=browser
    from playwright.sync_api import sync_playwright

    views = {
        "overview": ("overview", ".chart canvas", 1400),
        "groups": (f"groups/0/{step}/{group}", "[data-advantage]", 760),
        "changed": ("changed/0", ".pair", 460),
    }
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = address_of(Path(folder, "page.html"), find_runs([run])[0])
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name, (address, there, height) in views.items():
            page = browser.new_page(
                viewport={"width": 1120, "height": height}, color_scheme="light"
            )
            page.goto(file + address)
            page.wait_for_selector(there)
            page.wait_for_timeout(1000)
            page.screenshot(path=FOLDER / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.pictures", description=__doc__)
    parser.add_argument("run", nargs="?")
    parser.add_argument("step", type=int, nargs="?")
    parser.add_argument("group", type=int, nargs="?")
    parser.add_argument("--lab", type=Path)
    options = vars(parser.parse_args())
    folder = options.pop("lab")
    if folder:
        lab(folder)
    else:
        main(**options)
