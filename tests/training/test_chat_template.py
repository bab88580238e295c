"""A chat template is tried where it can do no harm: bounded in time, memory and output."""

import time

import pytest
from transformers import AutoTokenizer

from schema.faults import RecipeError
from schema.local_models import built_model
from training.chat_template import SECONDS, require_harmless


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(built_model("tiny-qwen3", 42))


def test_an_honest_template_is_harmless(tokenizer):
    require_harmless(tokenizer, "Think.", "here")


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ 'a' * 10000000000 }}", "takes more than a GiB"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "takes more than 5 s"),
        ("{{ 10 ** (10 ** 9) }}", "takes more than 5 s"),  # while it is compiled: no signal ends that
        ("{{ 'a' * 1000000 }}", "writes 1,000,000 characters"),
        ("{% if x %}", "fails: TemplateSyntaxError: Unexpected end of template"),
        ("{{ raise_exception('no system here') }}", "fails: TemplateError: no system here"),
        ("{{ ''.__class__.__mro__ }}", "fails: SecurityError"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "fails: RecursionError"),
    ],
)
def test_a_hostile_one_is_one_line(template, message, tokenizer):
    began, honest = time.monotonic(), tokenizer.chat_template
    try:
        tokenizer.chat_template = template
        with pytest.raises(RecipeError) as refused:
            require_harmless(tokenizer, "Think.", "mine.yaml:3")
    finally:
        tokenizer.chat_template = honest
    assert str(refused.value).startswith(f"mine.yaml:3: the chat template {message}")
    assert len(str(refused.value).splitlines()) == 1
    assert time.monotonic() - began < SECONDS + 5
