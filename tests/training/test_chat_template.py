"""A chat template and a tokenizer are tried where they can do no harm: bounded in time, memory and output."""

import json
import shutil
import time

import pytest

from schema.faults import RecipeError
from schema.models import built_model
from training import model
from training.model import require_usable


@pytest.fixture(scope="module")
def folder():
    return built_model("tiny-qwen3", 42)


def test_an_honest_template_is_usable(folder):
    require_usable(folder, None, "Think.", "here")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ 'a' * 10000000000 }}", "takes more than 4 GiB"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "takes more than 2 s"),
        ("{{ 10 ** (10 ** 9) }}", "takes more than 2 s"),  # while it is compiled: no signal ends that
        ("{{ messages[-1].content }}{{ 'a' * 1000000 }}", "writes 1,000,001 characters"),
        ("{% if x %}", "fails: TemplateSyntaxError: Unexpected end of template"),
        ("{{ raise_exception('no system here') }}", "fails: TemplateError: no system here"),
        ("{{ ''.__class__.__mro__ }}", "fails: SecurityError"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "fails: RecursionError"),
        ("nothing", "does not write the question"),
    ],
)
def test_a_hostile_one_is_one_line(template, message, folder, monkeypatch):
    monkeypatch.setattr(model, "SECONDS", 2)
    began = time.monotonic()
    with pytest.raises(RecipeError) as refused:
        require_usable(folder, template, "Think.", "mine.yaml:3")
    assert str(refused.value).startswith(f"mine.yaml:3: the chat template or the tokenizer {message}")
    assert len(str(refused.value).splitlines()) == 1
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"normalizer": {"type": "Prepend", "prepend": "a" * 10**6}}, "tokens of"),
        ({"decoder": {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10**6}}, "in one token"),
        (  # a few kilobytes that make 10^12 characters of one
            {
                "decoder": {
                    "type": "Sequence",
                    "decoders": [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}] * 4,
                }
            },
            "takes more than 4 GiB",
        ),
    ],
)
def test_a_tokenizer_that_swells_is_refused(part, message, folder, tmp_path):
    theirs = shutil.copytree(folder, tmp_path / "theirs")
    written = json.loads((theirs / "tokenizer.json").read_text())
    (theirs / "tokenizer.json").write_text(json.dumps(written | part))
    with pytest.raises(RecipeError, match=message):
        require_usable(theirs, None, None, "theirs")
