"""A browser's tab, and the runs that it shows."""

import pytest

from tests import made_runs
from tests.viewer.browser import CHROMIUM, FLAGS, WIDE, address_of, visit


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "no Chromium found: install it, or name it with CHROMIUM=path"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def tab(browser):
    """A new page; whatever goes wrong in it, or asks another machine, fails the test."""
    faults = []
    page = browser.new_page(viewport=WIDE)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if is_error(message) else None)
    page.on("request", lambda request: faults.append(request.url) if is_away(request.url) else None)
    yield page
    page.close()
    assert faults == []


def is_error(message) -> bool:
    return message.type == "error"


def is_away(url: str) -> bool:
    return not url.startswith(("file://", "data:"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """(an honest run, a hostile one, the address of the page that shows both)."""
    folder = tmp_path_factory.mktemp("outputs")
    good = made_runs.run(folder / "good")
    bad = made_runs.run(folder / "bad", hostile=True)
    return good, bad, address_of(folder / "both.html", good, bad)


@pytest.fixture
def show(tab, tmp_path):
    """Shows runs in the tab, at a place, once what the selector names is drawn; returns the
    address without the place."""

    def open_page(place: str, selector: str, *runs) -> str:
        address = address_of(tmp_path / "shown.html", *runs)
        visit(tab, address + place, selector)
        return address

    return open_page
