"""What the docs show of the page and the lab is what they look like now: `python -m
tests.bench.pictures` makes it anew."""

import json
import re

import pytest

from tests.bench.moving import drawn
from tests.bench.pictures import SHOWN, own_words, scene_of
from tests.support import ROOT
from tests.viewer.browser import CURVES, GROUP, PAIR, PHONE, data_of, visit
from viewer import page

PICTURES = {"overview": page.FOLDER, "groups": page.FOLDER, "changed": page.FOLDER}
PICTURES |= {"lab": ROOT / "docs/lab"}
FINISHED = ROOT / "docs/finished-run.html"
ANEW = "is no longer there: python -m tests.bench.pictures"


@pytest.mark.parametrize("name", PICTURES)
def test_what_a_picture_shows_is_on_the_page(name):
    from PIL import Image

    with Image.open(ROOT / f"docs/img/{name}.png") as image:
        shown = json.loads(image.text[SHOWN])
    assert len(shown) > 4
    gone = set(shown) - set(own_words(shown, PICTURES[name]))
    assert gone == set(), f"docs/img/{name}.png shows {gone}, which {ANEW}"
    if name != "lab":
        titles = set(re.findall(r'^  \w+: \{ title: "([\w ]+)", draw', page.asset("app.js"), re.M))
        assert titles - {"Runs"} <= set(shown), f"docs/img/{name}.png lacks a tab"


def test_the_moving_picture_is_of_the_finished_run():
    scene = scene_of(data_of(FINISHED.read_text(encoding="utf-8")))
    picture = (ROOT / "docs/img/grpo.svg").read_text(encoding="utf-8")
    assert picture == drawn(scene), f"docs/img/grpo.svg: what it shows {ANEW}"
    assert len(picture) < 100_000 and "<script" not in picture


def test_the_finished_run_is_one_file_that_loads_nothing():
    text = FINISHED.read_text(encoding="utf-8")
    assert len(text) < 1.5e6
    assert not re.search(r'(?:src|href)="(?!data:|#)', text)
    answers = data_of(text)
    assert answers["0/results"][0]["story"] and answers["0/groups"]["of"] > 9
    assert not re.search(r"/(?:home|root|work|tmp)/", text)


@pytest.mark.browser
@pytest.mark.parametrize("is_as_it_stands", [True, False])
def test_the_finished_run_opens(tab, tmp_path, is_as_it_stands):
    """As it stands, and with the page's files of now."""
    file = FINISHED
    if not is_as_it_stands:
        answers = data_of(FINISHED.read_text(encoding="utf-8"))
        texts = {question: page.json_text(answer) for question, answer in answers.items()}
        file = tmp_path / "page.html"
        file.write_text(page.rendered(texts), encoding="utf-8")
    tab.set_viewport_size(PHONE)
    for place, selector in {"overview": CURVES, "groups/0": GROUP, "changed/0": PAIR}.items():
        visit(tab, f"{file.as_uri()}#{place}", selector)
