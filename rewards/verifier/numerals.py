"""The exact value of a written-out number: integers, decimals, fractions, mixed numbers, repeating
decimals, powers of ten and "twelve"."""

import re
from fractions import Fraction

from .notation import closing
from .tables import rows

MAX_DIGITS = 300  # of one number; a longer one can still be correct by being spelled like the gold
_MAX_POWER_OF_TEN = 300

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d{1,3}(?: \d{3})+|\d+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.\d*)?|\.\d+)"
_SIGNED = rf"(?:[+-]?\s*{_DECIMAL})"
_FRACTION = (
    rf"(?:\\frac\{{\s*(?P<a>{_SIGNED})\s*\}}\s*\{{\s*(?P<b>{_SIGNED})\s*\}}"
    rf"|(?P<c>{_DECIMAL})\s*/\s*(?P<d>{_SIGNED}))"
)
NUMBER = re.compile(
    rf"(?P<sign>[+-]?)\s*(?:(?:(?P<whole>\d+)\s*(?:\s|(?=\\frac))\s*)?{_FRACTION}"
    r"|(?P<before>\d*)\.(?P<once>\d*)(?:\\overline\{(?P<over>\d+)\}|\((?P<parens>\d+)\)|"
    r"(?P<dots>\d)\.\.\.+)"
    rf"|(?P<decimal>{_DECIMAL})"
    r"(?:\s*(?:\\times|\\cdot|\*|[xX])\s*10\s*\^\s*\{?\s*(?P<power>[+-]?\s*\d+)(?:\s*\})?|"
    r"[eE](?P<exp>[+-]?\d+))?"
    r"|10\s*\^\s*\{?\s*(?P<ten>[+-]?\s*\d+)(?:\s*\})?)"
)

_NUMBERS: dict[str, dict[str, int]] = {}
for _kind, _number, _words in rows("numbers.tsv"):
    _NUMBERS.setdefault(_kind, {}).update(dict.fromkeys(_words.split(), int(_number)))
del _kind, _number, _words
WORDS = _NUMBERS["number"]
SCALES = _NUMBERS["scale"]
PARTS = _NUMBERS["part"]
_BASES = _NUMBERS["base"]


def base_named(name: str) -> int | None:
    """The base that "2", "two" or "binary" names."""
    if name.isdecimal():
        return int(name) if len(name) < 3 else None
    return _BASES.get(name, WORDS.get(name))


def is_number_word(word: str) -> bool:
    """Whether `word` is a number, a scale or a part: "six", "tens", "thousands", "thirds",
    "sixtieths"."""
    stems = {word, word.removesuffix("s"), word.removesuffix("es"), re.sub("ths?$", "", word)}
    stems.add(re.sub("ieths?$", "y", word))
    return any(stem in WORDS or stem in SCALES or stem in PARTS for stem in stems)


def number(text: str) -> Fraction | None:
    """The exact value of `text` (in `plain` spelling) if it is one written-out number, else
    None."""
    text = text.strip()
    while len(text) > 2 and text[0] in "({" and closing(text, 0) == len(text) - 1:
        if text[0] == "(" and "," in text:  # (1,234) is a pair
            return None
        text = text[1:-1].strip()
    if len(text) > MAX_DIGITS + 40:
        return None
    match = NUMBER.fullmatch(text)
    if match is None:
        word = WORDS.get(text.lower())
        return None if word is None else Fraction(word)
    try:
        amount = _matched(match.groupdict())
    except (ZeroDivisionError, ValueError):  # 1/0, or a denominator of spaces and signs only
        return None
    return -amount if amount is not None and match["sign"] == "-" else amount


def _matched(part: dict[str, str | None]) -> Fraction | None:
    """The value of a match of `NUMBER`, by its groups."""
    bottom = part["b"] or part["d"]
    if bottom:
        fraction = _exact(part["a"] or part["c"]) / _exact(bottom)
        if part["whole"] is None:
            return fraction
        # "3 -1/2" and "3 5/2" are not mixed numbers.
        return _exact(part["whole"]) + fraction if 0 < fraction < 1 else None
    if not part["decimal"] and not part["ten"]:
        return _repeating(part)
    power = int(re.sub(r"\s", "", part["power"] or part["exp"] or part["ten"] or "0"))
    if abs(power) > _MAX_POWER_OF_TEN:
        return None
    return _exact(part["decimal"] or "1") * Fraction(10) ** power


def _exact(digits: str) -> Fraction:
    return Fraction(re.sub(r"[\s,]", "", digits))


def _repeating(part: dict[str, str | None]) -> Fraction | None:
    once = part["once"]
    block = part["over"] or part["parens"]
    if block is None:
        # "0.1666..." names 1/6 because a block is seen to repeat; "3.14..." names nothing.
        digits = once + part["dots"]
        repeated = re.search(r"(\d)\1\1+$|(\d{2,}?)\2+$", digits)
        if repeated is None:
            return None
        once = digits[: repeated.start()]
        block = repeated[1] or repeated[2]
    base = Fraction(int((part["before"] or "0") + once), 10 ** len(once))
    return base + Fraction(int(block), 10 ** len(once) * (10 ** len(block) - 1))
