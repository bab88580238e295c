"""Rewards for the format `<think>...</think> <answer>...</answer>`, complete or in part."""

import re

from rewards.completion import Messages, content

TAGS = ("<think>", "</think>", "<answer>", "</answer>")

# Anything a reader would take for one of the tags, so that `<Think>` or `< answer id=2>` is a stray
# tag and not prose. Every quantifier is possessive or ends at the next `<`: the time stays linear
# in the text, whatever the text.
_TAG = r"<\s*+/?\s*+(?i:think|answer)\b[^<>]*+>"
_TEXT = rf"((?:[^<]++|(?!{_TAG})<)*+)"
_FORMAT = re.compile(rf"\s*+<think>{_TEXT}</think>\s*+<answer>{_TEXT}</answer>\s*+")
_SPLIT = re.compile(f"({_TAG})")


def format_tags(
    completions: list[str | Messages], think_opened: list[bool] | None = None, **columns: object
) -> list[float]:
    """Return 1.0 for a completion that is exactly reasoning and then an answer, both in their tags;
    else 0.0. The format is DeepSeek-R1's (arXiv:2501.12948, section 2.2.2).

    Every tag must appear once and in order, neither part may be empty, and only whitespace may
    surround them. `think_opened` is true for a row whose prompt already ends in `<think>`; its
    completion lacks that tag.
    """
    return [float(_has_form(text)) for text in _tagged_texts(completions, think_opened)]


def tag_count(
    completions: list[str | Messages], think_opened: list[bool] | None = None, **columns: object
) -> list[float]:
    """Return a quarter for every tag of the four that is in its place, 0.0 to 1.0; 1.0 is exactly
    the format that `format_tags` accepts.

    Use it for a policy that gets the complete format correct so seldom that `format_tags` teaches
    nothing. A tag counts when it appears once, in order, and separates its parts: `<think>` opens
    the completion, `<answer>` directly follows `</think>` (where there is one), neither part is
    empty, and `</answer>` closes the completion. Repeated tags earn nothing.
    """
    return [_working_tags(text) / 4 for text in _tagged_texts(completions, think_opened)]


def _tagged_texts(completions: list[str | Messages], think_opened: list[bool] | None) -> list[str]:
    """Return the texts, with the `<think>` that the prompt wrote for them."""
    texts = list(map(content, completions))
    if think_opened is None:
        return texts
    rows = zip(texts, think_opened, strict=True)
    return [f"<think>{text}" if is_opened else text for text, is_opened in rows]


def _has_form(text: str) -> bool:
    match = _FORMAT.fullmatch(text)
    return match is not None and _is_visible(match[1]) and _is_visible(match[2])


def _is_visible(text: str) -> bool:
    """Whether the text has a visible character, which the zero-width space is not (`strip` does not
    remove it)."""
    return any(char.isprintable() and not char.isspace() for char in text)


def _working_tags(text: str) -> int:
    """Count the tags in their places."""
    pieces = _SPLIT.split(text)
    texts = pieces[::2]
    tags = pieces[1::2]
    tags_before = ["", *tags]
    if len(tags) > 2 * len(TAGS) or not set(tags) <= set(TAGS):
        return 0  # Stuffed, or misspelt: nothing is in its place.
    ranks = [TAGS.index(tag) for tag in tags]
    count = 0
    for i, rank in enumerate(ranks):
        in_order = all(r < rank for r in ranks[:i]) and all(r > rank for r in ranks[i + 1 :])
        if in_order and _separates(tags[i], texts[i], texts[i + 1], tags_before[i]):
            count += 1
    return count


def _separates(tag: str, before: str, after: str, tag_before: str) -> bool:
    """Whether the texts around a tag are those that it should separate."""
    match tag:
        case "<think>":
            return not before.strip() and _is_visible(after)
        case "</think>":
            return _is_visible(before)
        case "<answer>":
            return _is_visible(after) and not (tag_before == "</think>" and before.strip())
        case _:
            return _is_visible(before) and not after.strip()
