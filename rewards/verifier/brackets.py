"""Brackets, walked in one place. Any of `)]}` closes any of `([{`, as half-open intervals ask for."""

import re
from collections.abc import Iterator
from itertools import accumulate


def depths(text: str) -> Iterator[int]:
    """How many brackets are open behind each character of `text`; below 0 where more are closed than were opened."""
    return accumulate((char in "([{") - (char in ")]}") for char in text)


def closing(text: str, start: int) -> int | None:
    """Index of the bracket that closes the one at `start`, or None."""
    behind = enumerate(depths(text[start:]), start)
    return next((at for at, depth in behind if depth == 0 and text[at] in ")]}"), None)


def split(text: str, separator: re.Pattern) -> list[str]:
    """`text` cut at every separator that stands outside all brackets."""
    cuts = list(separator.finditer(text))
    if not cuts:
        return [text]
    depth = list(depths(text))
    cuts = [cut for cut in cuts if depth[cut.start()] == 0]
    starts, ends = [0, *(cut.end() for cut in cuts)], [*(cut.start() for cut in cuts), len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]
