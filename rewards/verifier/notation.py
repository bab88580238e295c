r"""One spelling for the many ways to write the same mathematics.

`plain` turns Unicode and LaTeX variants into one LaTeX spelling, by tables/characters.tsv,
commands.tsv and spellings.tsv. To teach it another spelling, add a row, and to
tests/rewards/verifier/examples.tsv what it changes and what it must leave alone.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from .tables import patterns, rows

CHARACTERS = {char: sign for sign, chars in rows("characters.tsv") for char in chars}
COMMANDS = {command: text for text, names in rows("commands.tsv") for command in names.split()}
_COMMAND = re.compile(rf"\\({'|'.join(COMMANDS)})(?![a-zA-Z])")


class Spelling(NamedTuple):
    """A row of spellings.tsv: `replacement` is written for what `pattern` matches."""

    name: str
    needs: str  # a text without it has no match, and is not searched
    pattern: str
    replacement: str = ""


SPELLINGS = [Spelling(*row) for row in patterns("spellings.tsv")]
_TRANSLATE = str.maketrans(CHARACTERS)
_SUBSTITUTIONS = [(row.needs, re.compile(row.pattern).sub, row.replacement) for row in SPELLINGS]
_SCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ₀₁₂₃₄₅₆₇₈₉", "0123456789+-n0123456789")
_BARE = re.compile(r"-?\d+(?:\.\d+)?|[a-z]", re.ASCII)
# 1.234,50, 5,00 € and 2,5%, with a decimal comma; 1.234.567; 1,50,000 and ₹12,34,567, grouped as in
# India.
_COMMAS = re.compile(
    r"(?<![\d.,])(?:(\d{1,3}(?:[.\s]\d{3})+),(\d\d)|(\d+),(\d\d)"
    r"(?=\s*(?:€|\\text\{\s*€|euros?\b|EUR\b|kr\b|zł))|"
    r"(\d{1,2}(?:,\d\d)+,000)|(?:(?<=₹)|(?<=₹ )|(?<=Rs )|(?<=Rs\."
    r" ))(\d{1,2}(?:,\d\d)+,\d{3})|(?<=€)(\d+),(\d\d)|"
    r"(\d+),(\d\d?)(?=\s?\\?%)|(\d{1,3}(?:\.\d{3}){2,})(?!\.))(?![\d,])"
)


def _with_point(match: re.Match) -> str:
    """The number without separators and with a decimal point."""
    integer, *decimals = filter(None, match.groups())
    return ".".join([re.sub(r"\D", "", integer), *decimals])


@lru_cache(maxsize=65536)
def plain(text: str) -> str:
    """`text` in one spelling: Unicode signs, digits of any script and LaTeX's synonyms become one
    LaTeX form each."""
    if _BARE.fullmatch(text):
        return text
    if "$" in text:
        text = re.sub(r"\\text\{\s*\\?\$\s*\}", r"\\$", text)
    if re.search(r"[,.]\d", text):
        text = _COMMAS.sub(_with_point, text)
    if not text.isascii():
        text = _in_ascii(text)
    text = _without_dollars(text)
    if "\\" in text:
        text = _COMMAND.sub(lambda match: COMMANDS[match[1]], text)
    for needs, substitute, replacement in _SUBSTITUTIONS:
        if needs in text:
            text = substitute(replacement, text)
    return text.strip()


def _in_ascii(text: str) -> str:
    """`text` with LaTeX for the signs of Unicode."""
    text = "".join(char for char in text if unicodedata.category(char) != "Cf")
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹]+⁄[₀-₉]+", lambda m: f" {m[0].translate(_SCRIPTS)}", text)
    text = re.sub("[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹ⁿ]+", lambda m: f"^{{{m[0].translate(_SCRIPTS)}}}", text)
    text = re.sub("[₀-₉]+", lambda m: f"_{{{m[0].translate(_SCRIPTS)}}}", text)
    text = re.sub("(\\d)\u0305", r"\\overline{\1}", text).replace(r"}\overline{", "")
    text = re.sub("[¼-¾⅐-⅞↉]", r" \g<0>", text)
    # ½ becomes 1⁄2, whose stroke spellings.tsv reads as a fraction.
    text = unicodedata.normalize("NFKC", text.translate(_TRANSLATE))
    return re.sub(r"\d", lambda digit: str(unicodedata.decimal(digit[0])), text)


def _without_dollars(text: str) -> str:
    r"""Math delimiters removed; a dollar sign that means money stays, as a bare `$`."""
    # not the `\\[4pt]` that ends a matrix row
    text = re.sub(r"\\[()\[\]]", " ", text.replace(r"\\", "\0"))
    text = text.replace(r"\$", "\1").replace("$$", " ")
    if text.count("$") % 2 == 0:
        text = text.replace("$", " ")
    return text.replace("\1", "$").replace("\0", r"\\")


@lru_cache(maxsize=65536)
def key(text: str) -> str:
    """`plain` without spaces and closing punctuation: equal keys are equal answers."""
    text = re.sub(r"(?<!\d)\s|\s(?!\d)", "", plain(text))
    bare = text.rstrip(".,;")
    dots = text.rfind("..", len(bare))  # an ellipsis says that more follows
    text = bare if dots < 0 else text[: dots + 2]
    return re.sub(r"([_^])\{(\w)\}", r"\1\2", text)


def without_text(text: str) -> str:
    r"""` and ` of `\text{and}`: what each text command holds, between spaces."""
    return re.sub(r"\\text\{([^{}]*)\}", r" \1 ", text)


# ---- brackets: any of `)]}` closes any of `([{`, as half-open intervals ask for


def depths(text: str) -> Iterator[int]:
    """How many brackets are open behind each character of `text`; below 0 where more are closed
    than were opened."""
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
    parts = []
    start = 0
    for cut in cuts:
        parts.append(text[start : cut.start()])
        start = cut.end()
    return [*parts, text[start:]]
