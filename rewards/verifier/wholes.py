r"""Spellings of a complete answer, in tables/wholes.tsv: "no real solutions" is "no solution".

A row applies to a complete text alone, where what it changes inside a longer one could mean
something else. tests/rewards/verifier/examples.tsv has examples of what a row changes and of what
it leaves alone.
"""

import re

from .tables import patterns

TURNED = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le"}


WHOLES = [
    (name, re.compile(pattern), replacement)
    for name, pattern, replacement in patterns("wholes.tsv")
]


def respelled(text: str) -> str:
    """`text`, or what the first row that applies makes of it."""
    if len(text) > 200:
        return text
    for _, pattern, replacement in WHOLES:
        match = pattern.fullmatch(text)
        if match:
            return match.expand(replacement)
    return text
