"""Pages are templates: what they insert is text, whatever is in it."""

import jinja2
import pytest

from evaluation.pages import TEMPLATES, page
from tests.console.test_terminal import MARKDOWN, kinds


@pytest.mark.parametrize("text", MARKDOWN)
def test_a_text_that_no_filter_marks_is_only_text(text):
    content = {"n": 8, "labels": [text], "accuracies": {1: {text: 0.5}}, "means": []}
    gain = {"before": text, "after": "grpo", "sentence": "+1"}
    written = page("seeds.md", content | {"means": [(0.5, 0.1)], "gains": [gain]})
    counts = kinds(written)
    assert (counts["table_open"], counts["tr_open"], counts["list_item_open"]) == (1, 3, 1)
    markup = ["image", "link_open", "html_inline", "html_block", "heading_open", "hr", "em_open"]
    assert not counts.keys() & {*markup}


def test_a_name_that_a_page_lacks_is_an_error():
    with pytest.raises(jinja2.UndefinedError):
        page("seeds.md", {})


def test_every_template_says_what_it_is():
    for file in TEMPLATES.iterdir():
        first = file.read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith("{# ") and first.endswith(" #}"), file.name
