r"""What kind of answer a short text is: a quantity, a list, a set, a tuple or interval, a matrix, words, an expression …

`value` reads it into one of the types below. Intervals and tuples are both `Items`, told apart by their brackets, and
an inequality that says which `x` are meant is read as the interval it means.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from rewards.notation import _NUMBER, SCALES, closing, number, plain
from rewards.units import known, unit


@dataclass(frozen=True)
class Quantity:
    value: Fraction
    unit: str = ""
    percent: bool = False
    written: str = ""  # the number as it was written, without its unit


@dataclass(frozen=True)
class Expr:
    text: str
    unit: str = ""


@dataclass(frozen=True)
class Words:
    text: str


@dataclass(frozen=True)
class Clock:
    minutes: int  # after midnight if `half` is known, else as written
    half: str | None  # "a", "p" or None


@dataclass(frozen=True)
class InBase:
    digits: str
    base: int


@dataclass(frozen=True)
class Items:
    kind: str  # its brackets: "()" "[]" "(]" "[)" "{}", "," without any, "U" a union, ":" a ratio, "matrix", "row"
    items: tuple


@dataclass(frozen=True)
class Relation:
    signs: tuple[str, ...]
    sides: tuple[str, ...]


INFINITY = Expr(r"\infty")
MINUS_INFINITY = Expr(r"-\infty")

_LETTERS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_IN_BASE = re.compile(
    r"\(?\s*(?:\\text\{)?(-?\s*[0-9A-Z](?:[0-9A-Z .]*[0-9A-Z])?)\}?\s*\)?\s*"
    r"(?:_\s*\{?\s*(?:\\text\{)?\s*(?:base )?\(?(\w+?)\)?\s*\}?\s*\}?|\\?,?\s*(?:\\text\{)?\s*\(?(?:in )?base[ -](\w+)\)?\s*\}?)"
)
_CLOCK = re.compile(
    r"(?P<hour>\d{1,2})\s*(?::\s*(?P<minute>[0-5]\d))?\s*(?:\\text\{)?\s*"
    r"(?P<half>[ap](?:\.\s*m\.?|m)|o'clock|noon|midnight)?\s*\}?",
    re.IGNORECASE,
)
_CURRENCY = re.compile(r"([+-]?)\s*(?:([$£€¥₹])|(?:Rs\.?|USD|US\s*\$)(?=\s*\d))\s*(?=[\d.\\(])")
_RELATION = re.compile(r"\\(?:le|ge|ne|in|approx|sim|equiv)(?![a-zA-Z])|[<>=]")
_SYMBOL = re.compile(r"(?:\\[A-Za-z]+ ?)?[A-Za-z]{0,3}(?:_\{?\w+\}?|')?(?:\s*\([A-Za-z](?:, ?[A-Za-z])*\))?")
_LEFT_SIDE = re.compile(r"(?=.*[A-Za-z])[A-Za-z\\{}^', +*/-]{1,60}")
_SPLIT_WORD = re.compile(r"\\text\{\s*,?\s*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])")
_OR = re.compile(
    r"\\text\{\s*or\s*\}|(?<![A-Za-z\\])or(?![A-Za-z])|\\cup(?![a-zA-Z])|\\lor(?![a-zA-Z])|\\vee(?![a-zA-Z])"
)
_WHOLE_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_MATRIX = re.compile(r"\\begin\{([pb]?matrix|array)\}(?:\{[lcr|]*\})?(.*)\\end\{\1\}", re.DOTALL)


def value(text: str):
    """The typed value of `text`; never raises, and always the same for the same text."""
    return _value(_trimmed(plain(text)))


def is_name(text: str) -> bool:
    r"""Whether `text` is the name of one thing: `x`, `a_1`, `f(x)`, `AB`, `\theta`."""
    return _SYMBOL.fullmatch(text.strip()) is not None


def is_left_side(text: str) -> bool:
    """Whether `text` can stand left of the `=` of an answer: a name, `a + b`, "the total"."""
    text = re.sub(r"^\(\s*[a-z](?:\s*,\s*[a-z])*\s*\)$", "x", text.strip())  # (x, y)
    text = re.sub(r"_\{?\w+\}?|(?<=[A-Za-z}])\s*\([\w, +-]*\)", "", text.strip())  # a_1, f(3), P(x, y)
    return _LEFT_SIDE.fullmatch(text) is not None and not re.search(r"\b(?:not|never|isn't|or|wrong)\b", text)


def _trimmed(text: str) -> str:
    """Without the punctuation that ends a sentence and without braces or one `\\text` around all of it."""
    while True:
        before = text
        text = text.strip().rstrip(";,").strip()
        text = text.removeprefix("=").lstrip()
        if text.endswith(".") and not text.endswith("..."):
            text = text[:-1]
        if text[:1] == "{" and closing(text, 0) == len(text) - 1:
            text = text[1:-1]
        if whole := _WHOLE_TEXT.fullmatch(text):
            text = whole[1]
        if text == before:
            return text


@lru_cache(maxsize=65536)
def _value(text: str):
    for read in (_clock_or_ratio, _quantity, _in_base, _matrix, _plus_minus, _union, _list, _relation, _brackets):
        if (found := read(text)) is not None:
            return found
    return _words(text) or _expression(text)


def _quantity(text: str) -> Quantity | None:
    currency = _CURRENCY.match(text)
    name = ""
    if currency:
        name, text = unit(currency[2] or "$"), currency[1] + text[currency.end() :]
    if (n := number(text)) is not None:
        return Quantity(n, name, False, text)
    match = _NUMBER.match(text)
    end = match.end() if match else _end_of_words(text)
    while end and (n := number(text[:end])) is None:
        end = text.rfind(" ", 0, end - 1) if text.rfind(" ", 0, end - 1) > 0 else 0
    if not end:
        return None
    rest = text[end:]
    if scale := re.match(r"\s*(?:\\text\{\s*)?(dozen|hundred|thousand|million|billion|trillion)(?![a-z])\s*\}?", rest):
        n, rest = n * SCALES[scale[1]], rest[scale.end() :]
    if percent := re.match(
        r"\s*(?:%|(?:\\text\{\s*)?(?:percent|per cent|percentage points?|pct)(?![a-z])\s*\}?)", rest
    ):
        rest = rest[percent.end() :]
    follows = _unit_after(rest) if rest.strip() else ""
    if follows is None or (follows and name and follows.split(" ")[0] not in (name, "/")):
        return None
    if name and follows.startswith("/"):
        name = f"{name} {follows}"
    return Quantity(n, name or follows, percent is not None, text[:end].strip() + (scale[1] if scale else ""))


def _end_of_words(text: str) -> int:
    """Where the number words at the start of `text` may end at most."""
    words = re.match(r"[A-Za-z -]+", text)
    return words.end() if words and len(text) < 100 else 0


def _unit_after(rest: str) -> str | None:
    r"""The unit in what follows a number. Letters glued to it are variables: `2s`, `3x`; so is a lone letter but m, g …"""
    name = unit(rest)
    if name is None or rest.lstrip().startswith(("\\text", "^\\circ")):
        return name
    if not rest[0].isspace() and rest[0] not in "$£€¥₹¢-" and not (known(name) and len(rest.strip()) > 1):
        return None
    return name


def _clock_or_ratio(text: str) -> Clock | Items | None:
    match = _CLOCK.fullmatch(text)
    if match and match["half"] and int(match["hour"]) <= 12 and match["half"].lower() != "o'clock":
        half = {"noon": "p", "midnight": "a"}.get(match["half"].lower(), match["half"][0].lower())
        return Clock((int(match["hour"]) % 12 + 12 * (half == "p")) * 60 + int(match["minute"] or 0), half)
    if match and match["half"] and match["half"].lower() == "o'clock":
        return Clock(int(match["hour"]) * 60 + int(match["minute"] or 0), None)
    if text.lower() in ("noon", "midnight"):
        return Clock(720 * (text.lower() == "noon"), "p" if text.lower() == "noon" else "a")
    if text.count(":") and len(parts := text.split(":")) <= 6:
        numbers = [p.strip() for p in parts]
        if all(number(p) is not None for p in numbers):
            return Items(":", tuple(numbers))
    return None


def _in_base(text: str) -> InBase | None:
    match = _IN_BASE.fullmatch(text)
    if match is None:
        return None
    name = (match[2] or match[3]).lower()
    base = int(name) if name.isdecimal() and len(name) < 3 else _LETTERS.get(name, 0)
    sign, digits = re.fullmatch(r"(-?)0*(.+)", match[1].replace(" ", "")).groups()
    if not 2 <= base <= 36 or digits.count(".") > 1 or any(int(d, 36) >= base for d in digits.replace(".", "")):
        return None
    return InBase(sign + digits, base)


def _matrix(text: str) -> Items | None:
    r"""Rows of a matrix; `[` `(` around an `array` or a bare `matrix` say nothing more."""
    match = _MATRIX.fullmatch(
        re.sub(r"^[(\[]\s*|\s*[)\]]$", "", text).strip() if "array" in text or "{matrix}" in text else text
    )
    if match is None or r"\begin" in match[2]:
        return None
    rows = [row for row in re.split(r"\\\\(?:\[[^\]]*\])?", match[2]) if row.strip() and row.strip() != r"\hline"]
    return Items("matrix", tuple(Items("row", tuple(value(cell) for cell in row.split("&"))) for row in rows))


def _plus_minus(text: str) -> Items | None:
    if (
        r"\pm" not in text
        or _split(text, _COMMA)[1:]
        or _RELATION.search(text[: text.find(r"\pm")].replace("=", "", 1))
    ):
        return None
    if not (sides := re.fullmatch(r"(?:([^=]*)=)?([^=]*)", text)) or (sides[1] and not is_left_side(sides[1])):
        return None
    up, down = sides[2].replace(r"\mp", "\0"), sides[2].replace(r"\mp", "\0")
    up, down = up.replace(r"\pm", "+").replace("\0", "-"), down.replace(r"\pm", "-").replace("\0", "+")
    return Items(",", (value(up), value(down)))


_COMMA = re.compile(r"[,;]")


def _split(text: str, separator: re.Pattern) -> list[str]:
    """`text` cut at every separator that stands outside all brackets."""
    parts, start, at, depth = [], 0, 0, 0
    while at < len(text):
        if text[at] == "\\" and text[at : at + 5] != r"\text" and text[at + 1 : at + 2] in ("{", "}"):
            depth += 1 if text[at + 1] == "{" else -1
            at += 2
            continue
        if depth == 0 and (match := separator.match(text, at)):
            parts.append(text[start:at])
            start = at = match.end()
            continue
        depth += (text[at] in "([{") - (text[at] in ")]}")
        at += 1
    return [*parts, text[start:]]


def _union(text: str) -> Items | None:
    parts = _split(text, _OR)
    if len(parts) == 1:
        return None
    items = tuple(value(p) for p in parts)
    return Items("U", items) if all(isinstance(i, Items) and i.kind in (*_RANGES, "{}") for i in items) else None


_RANGES = ("()", "[]", "(]", "[)")


def _list(text: str) -> Items | None:
    parts = [p for part in _split(text, _COMMA) for p in _split(part, _SPLIT_WORD)]
    parts = [p for p in parts if p.strip() not in ("", ".")]
    if len(parts) < 2 or (
        re.search(r"[a-z]{3,} [a-z]{3,}", " ".join(parts)) and r"\text" not in text and _is_prose(text)
    ):
        return None
    items = []
    for part in parts:
        item = value(part)
        items += item.items if isinstance(item, Items) and item.kind == "," else [item]
    return Items(",", tuple(items))


def _is_prose(text: str) -> bool:
    return len(re.findall(r"[A-Za-z]{3,}", text)) > 8


def _relation(text: str):
    sides = [s.strip() for s in _split(text, _RELATION)]
    if len(sides) == 1 or not all(sides[1:]):
        return None
    signs = [s for s in _RELATION.findall(text)]
    if len(signs) != len(sides) - 1:
        return None
    if signs == ["\\in"] and is_left_side(sides[0]):
        return value(sides[1])
    return _range(signs, sides) or Relation(tuple(signs), tuple(sides))


def _range(signs: list[str], sides: list[str]) -> Items | None:
    r"""The interval that `x < 5`, `5 \ge x` or `1 < x \le 2` describes."""
    named = [
        bool(re.fullmatch(r"\\?[A-Za-z]+(?:_\{?\w+\}?)?(?:\([a-z]\))?", s)) and s not in (r"\infty", r"\pi")
        for s in sides
    ]
    if signs == [r"\ne"] and named[0]:
        hole = value(sides[1])
        return Items("U", (Items("()", (MINUS_INFINITY, hole)), Items("()", (hole, INFINITY))))
    flip = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le"}
    if not all(s in flip for s in signs):
        return None
    if named == [False, True]:
        signs, sides, named = [flip[signs[0]]], sides[::-1], [True, False]
    if named == [True, False]:
        bound = value(sides[1])
        if signs[0] in ("<", r"\le"):
            return Items("()" if signs[0] == "<" else "(]", (MINUS_INFINITY, bound))
        return Items("()" if signs[0] == ">" else "[)", (bound, INFINITY))
    if named == [False, True, False]:
        if signs[0] in (">", r"\ge"):
            signs, sides = [flip[s] for s in signs[::-1]], sides[::-1]
        if all(s in ("<", r"\le") for s in signs):
            brackets = ("(" if signs[0] == "<" else "[") + (")" if signs[1] == "<" else "]")
            return Items(brackets, (value(sides[0]), value(sides[2])))
    return None


def _brackets(text: str) -> Items | None:
    if text == r"\mathbb{R}" or text.casefold() in ("all real numbers", "all reals", "real numbers"):
        return Items("()", (MINUS_INFINITY, INFINITY))
    if text in (r"\emptyset", r"\{\}", r"\{ \}"):
        return Items("{}", ())
    if builder := re.fullmatch(r"\\\{\s*[a-z]\s*(?:\\in\s*\\mathbb\{R\})?\s*(?::|\||\\mid(?![a-z]))(.*)\\\}", text):
        return value(builder[1])
    if text.startswith(r"\{") and text.endswith(r"\}"):
        inner, brackets = text[2:-2], "{}"
    elif text[:1] in ("(", "[") and text[-1:] in (")", "]") and closing(text, 0) == len(text) - 1:
        inner, brackets = text[1:-1], text[0] + text[-1]
    else:
        return None
    parts = [p for part in _split(inner, _COMMA) for p in _split(part, _SPLIT_WORD) if p.strip()]
    if len(parts) < 2 and brackets != "{}":
        return None
    items = [value(p) for p in parts]
    if brackets == "[]" and all(isinstance(i, Items) and i.kind in ("[]", "()") for i in items):
        return Items("matrix", tuple(Items("row", i.items) for i in items))
    if brackets == "{}":
        items = [i for item in items for i in (item.items if isinstance(item, Items) and item.kind == "," else [item])]
    return Items(brackets if len(items) == 2 or brackets == "{}" else "()", tuple(items))


def _words(text: str) -> Words | None:
    """Words, not the product of variables: a word of four letters or several of three."""
    bare = re.sub(r"\\text\{([^{}]*)\}", r" \1 ", text)
    if "\\" in bare or re.search(r"[\d=+*/^_<>|(){}\[\]]", bare):
        return None
    letters = re.findall(r"[^\W\d_]+", bare)
    if (
        not any(len(w) > 3 or not w.isascii() for w in letters)
        and len(bare) == len(text)
        and not _SHORT.fullmatch(text)
    ):
        return None
    return Words(" ".join(letters).casefold()) if letters else None


_SHORT = re.compile(r"(?i)yes|no|odd|red|none|one|two|six|ten|may|mon|tue|wed|thu|fri|sat|sun|tie|all|[A-Z][a-z]{2}")


def _expression(text: str) -> Expr:
    r"""The expression, with its unit off: a trailing `\text{…}`, `^\circ` or the name of a known unit."""
    currency = _CURRENCY.match(text)
    if currency:
        return Expr((currency[1] + text[currency.end() :]).strip(), unit(currency[2] or "$"))
    match = re.search(r"\s*(\\text\{[^{}]*\}\s*(?:\^\s*\{?[23]\}?)?|\^\\circ\s*[CF]?)\s*$", text)
    match = match or re.search(
        r"(?:(?<=[\d})])|(?<=\\pi))\s((?:(?:square|cubic|sq|cu) )?[a-zA-Z]{2,}(?:\s*\^\s*\{?[23]\}?)?)$", text
    )
    if r"^\circ" in text and re.search(r"\\(?:sin|cos|tan|cot|sec|csc)", text):
        return Expr(text)
    if match and match.start() and (name := unit(match[1])) is not None:
        if match[1].startswith(("\\text", "^")) or known(name) or not name:
            return Expr(text[: match.start()].strip(), name)
    return Expr(text)
