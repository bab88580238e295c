"""Rewards for the form `<think>...</think> <answer>...</answer>`, whole or in part."""

import re
from itertools import repeat

from rewards.completion import Messages, content

TAGS = ("<think>", "</think>", "<answer>", "</answer>")

# Anything a reader would take for one of the tags, so that `<Think>` or `< answer id=2>` is a stray
# tag and not prose. Every quantifier is possessive or ends at the next `<`: the time stays linear
# in the text, whatever the text.
_TAG = r"<\s*+/?\s*+(?i:think|answer)\b[^<>]*+>"
_TEXT = rf"((?:[^<]++|(?!{_TAG})<)*+)"
_FORM = re.compile(rf"\s*+<think>{_TEXT}</think>\s*+<answer>{_TEXT}</answer>\s*+")
_SPLIT = re.compile(f"({_TAG})")


def format_tags(
    completions: list[str | Messages], think_opened: list[bool] | None = None, **columns: object
) -> list[float]:
    """1.0 for a completion that is exactly a thought and then an answer, each in its tags; else
    0.0. The form is that of DeepSeek-R1 (arXiv:2501.12948, section 2.2.2).

    Each tag must appear once and in order, neither part may be empty, and only whitespace may
    surround them. `think_opened` says for each row whether its prompt already ends in `<think>`;
    the completion then lacks that tag.
    """
    return [float(_has_form(text)) for text in _whole(completions, think_opened)]


def tag_count(
    completions: list[str | Messages], think_opened: list[bool] | None = None, **columns: object
) -> list[float]:
    """A quarter for each of the four tags that is in its place, 0.0 to 1.0; 1.0 is exactly what
    `format_tags` accepts.

    Use it for a policy that gets the whole form right so seldom that `format_tags` teaches nothing.
    A tag counts when it appears once, in order, and separates what it should: `<think>` opens the
    completion, `<answer>` directly follows `</think>` (where there is one), neither part is empty,
    and `</answer>` closes the completion. Repeated tags earn nothing.
    """
    return [_working_tags(text) / 4 for text in _whole(completions, think_opened)]


def _whole(completions: list[str | Messages], think_opened: list[bool] | None) -> list[str]:
    """The texts with the `<think>` that the prompt wrote for them."""
    opened = repeat(False, len(completions)) if think_opened is None else think_opened
    return [
        "<think>" * bool(by_prompt) + content(c)
        for c, by_prompt in zip(completions, opened, strict=True)
    ]


def _has_form(text: str) -> bool:
    form = _FORM.fullmatch(text)
    return form is not None and _says_something(form[1]) and _says_something(form[2])


def _says_something(text: str) -> bool:
    """Whether the text has a visible character; the zero-width space, which `strip` keeps, is
    none."""
    return any(char.isprintable() and not char.isspace() for char in text)


def _working_tags(text: str) -> int:
    pieces = _SPLIT.split(text)
    texts, tags = pieces[::2], pieces[1::2]
    if len(tags) > 2 * len(TAGS) or not set(tags) <= set(
        TAGS
    ):  # Stuffed, or misspelt: nothing is in its place.
        return 0
    ranks = [TAGS.index(tag) for tag in tags]
    count = 0
    for i, rank in enumerate(ranks):
        before, after = texts[i], texts[i + 1]
        after_thought = ranks[i - 1 : i] == [1]
        in_order = all(r < rank for r in ranks[:i]) and all(r > rank for r in ranks[i + 1 :])
        works = (
            not before.strip() and _says_something(after),
            _says_something(before),
            _says_something(after) and not (after_thought and before.strip()),
            _says_something(before) and not after.strip(),
        )[rank]
        count += in_order and works
    return count
