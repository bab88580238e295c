"""Every promise of docs/security.md has its tests, and every test that is named is there."""

import re

from tests.support import ROOT, tracked
from tests.tables import yaml_text

PROMISES, OTHER = yaml_text(__file__, "promises"), yaml_text(__file__, "other")


def test_every_promise_has_its_tests():
    text = (ROOT / "docs/security.md").read_text("utf-8")
    blocks = re.split(r"\n(?=[|-])|\n\n", text)
    blocks = [block.strip() for block in blocks if not block.strip().startswith("## ")]
    begins = [promise["says"] for promise in PROMISES] + OTHER
    unknown = [block for block in blocks if not block.startswith(tuple(begins))]
    gone = [words for words in begins if not any(block.startswith(words) for block in blocks)]
    assert (unknown, gone) == ([], [])


def test_every_test_of_a_promise_is_there():
    files = [ROOT / name for name in [*tracked("tests/*.py"), "tests/stages/test_reach.yaml"]]
    texts = "\n".join(file.read_text("utf-8") for file in files)
    for promise in PROMISES:
        assert promise.keys() & {"by", "fact"}, promise
        for test in promise.get("by", []):
            words = f"def {test}(" if test.startswith("test_") else f'case: "{test}"'
            assert words in texts, test
