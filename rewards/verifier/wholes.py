r"""Spellings of a complete answer, in tables/wholes.tsv: `3\mathbf{i}+4\mathbf{j}` is `(3,4)`,
`0x1F` is `1F_{16}`.

A row applies to a complete text alone, where what it changes inside a longer one could mean
something else. tests/rewards/verifier/examples.tsv has examples of what a row changes and of what
it leaves alone.
"""

import re

from .notation import split
from .tables import patterns

_COEFFICIENT = r"(?:\d+(?:\.\d+)?|\\frac\{\d+\}\{\d+\}|\d*\\sqrt\{\d+\})"
_GROUPS = re.compile(r";|\\text\{\s*(?:or|and)\s*\}|(?<![a-zA-Z\\])(?:or|and)(?![a-zA-Z])")
TURNED = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le"}


def _coordinates(match: re.Match) -> str | None:
    r"""`2i - j` as (2,-1); not `3 + 4i`, which is a complex number."""
    text = re.sub(r"\\hat|\s", "", match[1].replace(r"\imath", "i").replace(r"\jmath", "j"))
    text = re.sub(r"\{+([ijk])\}+", r"\1", text)
    if not re.fullmatch(rf"(?:(?:^|[+-])[+-]?{_COEFFICIENT}?\*?[ijk])+", text):
        return None
    terms = re.findall(rf"([+-]?)({_COEFFICIENT}?)\*?([ijk])", text)
    factors = {letter: sign.replace("+", "") + (factor or "1") for sign, factor, letter in terms}
    if len(factors) < len(terms) or len(factors) < 2:
        return None
    letters = "ijk" if "k" in factors else "ij"
    return "(" + ",".join(factors.get(letter, "0") for letter in letters) + ")"


def _solutions(match: re.Match) -> str | None:
    """`p=5,q=2;p=7,q=2` as points, the names in alphabetical order."""
    parts = split(match[0], _GROUPS)
    groups = [dict(re.findall(r"([a-z](?:_\w)?)\s*=\s*([^=,]+)", part)) for part in parts]
    if len(groups) < 2 or len(groups[0]) < 2:
        return None
    points = []
    for part, group in zip(parts, groups, strict=True):
        if group.keys() != groups[0].keys() or part.count("=") != len(group):
            return None
        points.append("(" + ",".join(group[name].strip() for name in sorted(group)) + ")")
    return ", ".join(points)


# The names by which wholes.tsv calls them.
_FUNCTIONS = {
    "coordinates()": _coordinates,
    "solutions()": _solutions,
}
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
            function = _FUNCTIONS.get(replacement)
            spelled = function(match) if function else match.expand(replacement)
            if spelled is not None:
                return spelled
    return text
