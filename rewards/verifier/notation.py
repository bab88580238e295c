r"""One spelling for the many ways to write the same mathematics, and the exact value of a written-out number.

`plain` turns Unicode and LaTeX variants into one LaTeX spelling; `number` reads integers, decimals, fractions, mixed
numbers, repeating decimals, powers of ten and number words as a `Fraction`. No algebra happens here.
"""

import re
import unicodedata
from fractions import Fraction
from functools import lru_cache

from rewards.verifier.brackets import closing
from rewards.verifier.spellings import CHARACTERS, SPELLINGS

MAX_DIGITS = 300  # of one number; a longer one can still be right by being spelled like the gold
_MAX_POWER_OF_TEN = 300

_TRANSLATE = str.maketrans(CHARACTERS)
_SUBSTITUTIONS = [(re.compile(s.pattern).sub, s.replacement) for s in SPELLINGS]
_SUPER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_SUB = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_VULGAR = re.compile("[¼-¾⅐-⅞↉]")

_ROOT_OF_PARENTHESES = re.compile(r"\\sqrt\s*\(")
_ROOT_SIGN = re.compile(r"([√∛∜])\s*(\d+(?:\.\d+)?|[a-zA-Zπ])?")


def _root(match: re.Match) -> str:
    index = {"√": "", "∛": "[3]", "∜": "[4]"}[match.group(1)]
    return rf"\sqrt{index}" + (f"{{{match.group(2)}}}" if match.group(2) else "")


def _parentheses_to_braces(text: str) -> str:
    r"""`\sqrt(2+x)` as `\sqrt{2+x}`."""
    while match := _ROOT_OF_PARENTHESES.search(text):
        end = closing(text, match.end() - 1)
        if end is None:
            return text
        text = rf"{text[: match.start()]}\sqrt{{{text[match.end() : end]}}}{text[end + 1 :]}"
    return text


@lru_cache(maxsize=65536)
def plain(text: str) -> str:
    """`text` in one spelling: Unicode signs, digits of any script and LaTeX's synonyms become one LaTeX form each."""
    text = "".join(c for c in text if unicodedata.category(c) != "Cf")
    text = re.sub("[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹ⁿ]+", lambda m: f"^{{{m.group().translate(_SUPER)}}}", text)
    text = re.sub("[₀-₉]+", lambda m: f"_{{{m.group().translate(_SUB)}}}", text)
    text = re.sub("(?:\\d\u0305)+", lambda m: rf"\overline{{{m.group().replace(chr(0x305), '')}}}", text)
    text = _VULGAR.sub(
        lambda m: r" \frac{{{}}}{{{}}}".format(*unicodedata.normalize("NFKC", m.group()).split("⁄")), text
    )
    text = _ROOT_SIGN.sub(_root, text).translate(_TRANSLATE)
    text = unicodedata.normalize("NFKC", text)
    text = "".join(str(unicodedata.decimal(c)) if not c.isascii() and c.isdecimal() else c for c in text)
    text = _without_dollars(text)
    for substitute, replacement in _SUBSTITUTIONS:
        text = substitute(replacement, text)
    return _parentheses_to_braces(text).strip()


def _without_dollars(text: str) -> str:
    r"""Math delimiters removed; a dollar sign that means money stays, as a bare `$`."""
    text = re.sub(r"\\[()\[\]]", " ", text.replace(r"\\", "\0"))  # not the `\\[4pt]` that ends a matrix row
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


_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d{1,3}(?: \d{3})+|\d+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.\d*)?|\.\d+)"
_SIGNED = rf"(?:[+-]?\s*{_DECIMAL})"
_FRACTION = (
    rf"(?:\\frac\{{\s*(?P<a>{_SIGNED})\s*\}}\s*\{{\s*(?P<b>{_SIGNED})\s*\}}|(?P<c>{_DECIMAL})\s*/\s*(?P<d>{_SIGNED}))"
)
NUMBER = re.compile(
    rf"(?P<sign>[+-]?)\s*(?:(?:(?P<whole>\d+)\s*(?:\s|(?=\\frac))\s*)?{_FRACTION}"
    r"|(?P<before>\d*)\.(?P<once>\d*)(?:\\overline\{(?P<over>\d+)\}|\((?P<parens>\d+)\)|(?P<dots>\d)\.\.\.+)"
    rf"|(?P<decimal>{_DECIMAL})"
    r"(?:\s*(?:\\times|\\cdot|\*|[xX])\s*10\s*\^\s*\{?\s*(?P<power>[+-]?\s*\d+)\s*\}?|[eE](?P<exp>[+-]?\d+))?"
    r"|10\s*\^\s*\{?\s*(?P<ten>[+-]?\s*\d+)\s*\}?)"
)

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
)
WORDS = {word: n for n, word in enumerate((_ONES + "eighteen nineteen").split())}
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
WORDS |= {word: 10 * n for n, word in enumerate(_TENS, 2)}
SCALES = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
PARTS = {"half": 2, "halves": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7}
PARTS |= {"eighth": 8, "ninth": 9, "tenth": 10, "eleventh": 11, "twelfth": 12, "twentieth": 20, "hundredth": 100}
PARTS |= {f"{word}th": n for word, n in WORDS.items() if 13 <= n < 20} | {"thousandth": 1000, "millionth": 10**6}
PARTS |= {f"{word}s": n for word, n in PARTS.items() if word != "halves"}


def base_named(name: str) -> int | None:
    """The base that "2", "two" or "binary" names."""
    if name.isdecimal():
        return int(name) if len(name) < 3 else None
    return {"binary": 2, "decimal": 10}.get(name, WORDS.get(name))


def is_number_word(word: str) -> bool:
    """Whether `word` is a number, a scale or a part: "six", "tens", "thousands", "thirds", "sixtieths"."""
    stems = {word, word.removesuffix("s"), word.removesuffix("es"), re.sub("ths?$", "", word)}
    return bool((stems | {re.sub("ieths?$", "y", word)}) & (WORDS.keys() | SCALES.keys() | PARTS.keys()))


def number(text: str) -> Fraction | None:
    """The exact value of `text` (in `plain` spelling) if it is one written-out number, else None."""
    text = text.strip()
    while len(text) > 2 and text[0] in "({" and closing(text, 0) == len(text) - 1:
        if text[0] == "(" and "," in text:  # (1,234) is a pair
            return None
        text = text[1:-1].strip()
    if len(text) > MAX_DIGITS + 40:
        return None
    match = NUMBER.fullmatch(text)
    if match is None:
        return _spoken(text)
    try:
        value = _matched(match.groupdict())
    except (ZeroDivisionError, ValueError):  # 1/0, or a denominator of spaces and signs only
        return None
    return -value if value is not None and match["sign"] == "-" else value


def _matched(part: dict[str, str | None]) -> Fraction | None:
    def exact(digits: str) -> Fraction:
        return Fraction(re.sub(r"[\s,]", "", digits))

    if bottom := part["b"] or part["d"]:
        fraction = exact(part["a"] or part["c"]) / exact(bottom)
        if part["whole"] is None:
            return fraction
        # "3 -1/2" and "3 5/2" are not mixed numbers.
        return exact(part["whole"]) + fraction if 0 < fraction < 1 else None
    if part["decimal"]:
        power = int(re.sub(r"\s", "", part["power"] or part["exp"] or "0"))
        return exact(part["decimal"]) * Fraction(10) ** power if abs(power) <= _MAX_POWER_OF_TEN else None
    if part["ten"]:
        power = int(re.sub(r"\s", "", part["ten"]))
        return Fraction(10) ** power if abs(power) <= _MAX_POWER_OF_TEN else None
    return _repeating(part)


def _repeating(part: dict[str, str | None]) -> Fraction | None:
    once, block = part["once"], part["over"] or part["parens"]
    if block is None:
        # "0.1666..." names 1/6 because a block is seen to repeat; "3.14..." names nothing.
        digits = once + part["dots"]
        seen = re.search(r"(\d)\1\1+$|(\d{2,}?)\2+$", digits)
        if seen is None:
            return None
        once, block = digits[: seen.start()], seen.group(1) or seen.group(2)
    base = Fraction(int((part["before"] or "0") + once), 10 ** len(once))
    return base + Fraction(int(block), 10 ** len(once) * (10 ** len(block) - 1))


def _spoken(text: str) -> Fraction | None:
    words = re.sub(r"(?<=[a-z])-(?=[a-z])", " ", text.lower()).split()
    if not words or len(words) > 12:
        return None
    if words[0] in ("negative", "minus"):
        value = number(" ".join(words[1:]))
        return None if value is None else -value
    if words[-1] in PARTS:
        return _spoken_fraction(words)
    total = group = 0
    for before, word in zip([None, *words], words, strict=False):
        n = WORDS.get(word)
        if n is not None:
            # "twenty one" and "hundred five", not "one two" and not "twenty twelve"
            if (group % 100 if n > 9 else group % 10) or (before in WORDS and (WORDS[before] < 20 or not 0 < n < 10)):
                return None
            group += n
        elif word in SCALES and before is not None:
            group = (group or 1) * SCALES[word]
            if word != "hundred":
                total, group = total + group, 0
        elif not (word == "and" and before in SCALES and word is not words[-1]) and not (
            word == "a" and before is None
        ):
            return None
    return None if words == ["a"] else Fraction(total + group)


def _spoken_fraction(words: list[str]) -> Fraction | None:
    """ "one half", "two and three quarters", "a third"."""
    whole = Fraction(0)
    if "and" in words:
        cut = words.index("and")
        whole, words = _spoken(" ".join(words[:cut])), words[cut + 1 :]
    top = Fraction(1) if words[:-1] in ([], ["a"]) else _spoken(" ".join(words[:-1]))
    return None if whole is None or top is None else whole + top / PARTS[words[-1]]
