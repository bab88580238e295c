r"""What kind of answer a short text is: a quantity, a list, a set, a tuple or interval, a matrix,
words, an expression.

An inequality that says which `x` are meant is read as the interval it means.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf

from rewards.verifier.notation import (
    NUMBER,
    SCALES,
    base_named,
    closing,
    number,
    plain,
    split,
    without_text,
)
from rewards.verifier.units import known, unit
from rewards.verifier.wholes import TURNED, respelled


class Value:
    """The type that an answer may have; `compare` has a rule for each pair of types that may be
    equal."""


@dataclass(frozen=True)
class Quantity(Value):
    r"""A number with its unit or percent sign, if it has one: `18`, `\frac{1}{2}`, `5 cm`, `20%`,
    "twelve apples"."""

    value: Fraction
    unit: str = ""
    percent: bool = False
    written: str = ""  # the number as it was written, without its unit


@dataclass(frozen=True)
class Expr(Value):
    r"""What only the algebra can read, with its unit taken off: `x^2 + 1`, `2\sqrt{3}`, `40 +
    2`."""

    text: str
    unit: str = ""


@dataclass(frozen=True)
class Words(Value):
    """An answer in words, without capitals: "ellipse", "yes"."""

    text: str


@dataclass(frozen=True)
class Clock(Value):
    """A time of day: `3:30 p.m.`, "noon", "5 o'clock"."""

    minutes: int  # after midnight if `half` is known, else as written
    half: str | None  # "a", "p" or None


@dataclass(frozen=True)
class InBase(Value):
    """A number with its base: `1011_2`."""

    digits: str
    base: int


@dataclass(frozen=True)
class Ratio(Value):
    """Numbers with colons between them, as they were written: `2:3`. `3:30` may also be a time."""

    terms: tuple[str, ...]
    spoken: bool = False  # "2 to 3", which may be a range as well


@dataclass(frozen=True)
class Measure(Value):
    """Quantities of several units that add up to one: `6 ft 2 in`."""

    parts: tuple[Quantity, ...]


@dataclass(frozen=True)
class Interval(Value):
    """Two values in round or square brackets: `[0, 5)`. In round ones, `(1, 2)`, they may be a
    point as well."""

    lower: Value
    upper: Value
    left_open: bool
    right_open: bool

    @property
    def items(self) -> tuple:
        return self.lower, self.upper


@dataclass(frozen=True)
class Tuple(Value):
    """Three or more values in their order: `(1, 2, 3)`."""

    items: tuple


@dataclass(frozen=True)
class Set(Value):
    r"""Values in braces, in any order: `\{1, 2\}`."""

    items: tuple


@dataclass(frozen=True)
class List(Value):
    r"""Values without brackets, in any order unless they are named: `1, 2`, `x = 1 or x = 2`, `\pm
    3`."""

    items: tuple


@dataclass(frozen=True)
class Union(Value):
    r"""Intervals or sets together: `(0, 1) \cup (2, 3)`."""

    items: tuple


@dataclass(frozen=True)
class Matrix(Value):
    """Rows of values."""

    rows: tuple[tuple, ...]


@dataclass(frozen=True)
class Relation(Value):
    r"""Sides with `=`, `<`, `\approx` … between them, where they are no interval: `y = 2x + 1`, `a
    < b`."""

    signs: tuple[str, ...]
    sides: tuple[str, ...]


TYPES = Value.__subclasses__()
INFINITY = Expr(r"\infty")
MINUS_INFINITY = Expr(r"-\infty")

_RELATION = re.compile(r"\\(?:le|ge|ne|in|approx|sim|equiv)(?![a-zA-Z])|[<>=]")
_SYMBOL = re.compile(
    r"(?:\\[A-Za-z]+ ?)?[A-Za-z]{0,3}(?:_\{?\w+\}?|')?(?:\s*\([A-Za-z](?:, ?[A-Za-z])*\))?"
)
# the name of a ratio
_SEGMENTS = re.compile(r"\\frac\{[A-Z]{2}\}\{[A-Z]{2}\}|[A-Z]{1,2}\s*[:/]\s*[A-Z]{1,2}")
_OF_A_FUNCTION = re.compile(r"(?<=[a-zA-Z])(?:'+|\^\{-1\})(?=\()")  # f'(x), f^{-1}(x)
_LEFT_SIDE = re.compile(r"(?=.*[A-Za-z])(?!-)[A-Za-z\\{}^', +*/-]{1,60}")
_FUNCTION = re.compile(
    r"\\(?:sqrt|log|ln|exp|sin|cos|tan|cot|sec|csc|infty|pi)(?![a-zA-Z])|\^(?!\\circ)"
)
_SPLIT_WORD = re.compile(
    r"\\text\{\s*,?\s*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])"
    r"|(?<=[\d)}]) (?:et|ou|und|oder) (?=[-\d\\a-z(])|(?<=\d) y (?=-?\d|[a-z] ?=)"
)
_OR = re.compile(
    r"\\text\{\s*or\s*\}|(?<![A-Za-z\\])or(?![A-Za-z])|\\cup(?![a-zA-Z])|\\lor(?![a-zA-Z])|\\vee(?![a-zA-Z])"
)
_AND = re.compile(
    r"\\text\{\s*and\s*\}|(?<![A-Za-z\\])and(?![A-Za-z])|\\(?:land|wedge)(?![a-zA-Z])"
)
_AND_HOLE = re.compile(_AND.pattern + "|,")
_WHOLE_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_MATRIX = re.compile(r"\\begin\{([pb]?matrix|array)\}(?:\{[lcr|]*\})?(.*)\\end\{\1\}", re.DOTALL)
_COMMA = re.compile(r"[,;]")
_IN_BASE = re.compile(
    r"\(?\s*(?:\\text\{)?(-?\s*\.?[0-9A-Z](?:[0-9A-Z .]*[0-9A-Z])?)\}?\s*\)?\s*"
    r"(?:_\s*\{?\s*(?:\\text\{)?\s*(?:base\s*\}?\s*)?\(?(\w+?)\)?\s*\}?\s*\}?"
    r"|\\?,?\s*(?:\\text\{)?\s*\(?(?:in )?base[ -](\w+)\)?\s*\}?)"
)
_CLOCK = re.compile(
    r"(?P<hour>\d{1,2})\s*(?::\s*(?P<minute>[0-5]\d))?\s*(?:\\text\{)?\s*"
    r"(?P<half>[ap](?:\.\s*m\.?|m)|o'clock|noon|midnight)?\s*\}?(?:,? \(?(?:on )?the"
    r" (?:next|following) day\)?)?",
    re.IGNORECASE,
)
_CURRENCY = re.compile(
    r"([+-]?)\s*(?:((?:R|A|C|HK|NT|S|US|CA|AU|NZ|USD)?\s*\$|[£€¥₹₩₽₪₱₫₦₺]|(?:Rs|USD|EUR|GBP|CHF|CAD|AUD|INR|JPY|CNY|"
    r"KRW|"
    r"BRL|RM|Rp|kr|zł)\.?(?=\s*\d)))\s*(?=[-\d.\\(])"
)
_MEASURE = re.compile(
    r"(?<!\d)(\d+)\s*(?:\\text\{\s*)?([A-Za-z]+)\.?\s*(?:,?\s*and\b)?\s*\}?\s*,?\s*"
)


def value(text: str) -> Value:
    """The typed value of `text`; never raises, and always the same for the same text."""
    text = trimmed(plain(text))
    return _value(text if NUMBER.fullmatch(text) else respelled(text))


def is_name(text: str) -> bool:
    r"""Whether `text` is the name of one thing: `x`, `a_1`, `f(x)`, `AB`, `\theta`."""
    text = _OF_A_FUNCTION.sub("", _SEGMENTS.sub("AB", text.strip()))
    return _SYMBOL.fullmatch(text) is not None and text != ""


def is_variable(text: str) -> bool:
    r"""Whether `text` is a name and not that of a number, as `\pi` is."""
    return is_name(text) and text.strip() not in (r"\infty", r"\pi", "e", "i")


def is_left_side(text: str) -> bool:
    """Whether `text` can stand left of the `=` of an answer: a name, `a + b`, "the total", but no
    power of one."""
    text = re.sub(r"^\(\s*[a-z](?:\s*[,;]\s*[a-z])*\s*\)$", "x", text.strip())  # (x, y)
    text = _OF_A_FUNCTION.sub("", text)
    # a_1, f(3), P(x, y)
    text = re.sub(r"_\{?\w+\}?|(?<=[A-Za-z}])\s*\([\w, +-]*\)", "", text.strip())
    if _FUNCTION.search(text):
        return False
    return _LEFT_SIDE.fullmatch(text) is not None and not re.search(
        r"\b(?:not|never|isn't|or|wrong)\b", text
    )


def trimmed(text: str) -> str:
    """Without the punctuation that ends a sentence and without braces or one `\\text` around all of
    it."""
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
def _value(text: str) -> Value:
    single = clock_or_ratio, quantity, compound, in_base
    for read in (*single, _matrix, _plus_minus, _union, _both, _list, _relation, _brackets):
        if (found := read(text)) is not None:
            return found
    return words(text) or expression(text)


def _matrix(text: str) -> Matrix | None:
    r"""Rows of a matrix; `[` `(` around an `array` or a bare `matrix` say nothing more."""
    if "array" in text or "{matrix}" in text:
        text = re.sub(r"^[(\[]\s*|\s*[)\]]$", "", text)
    match = _MATRIX.fullmatch(text.strip())
    if match is None or r"\begin" in match[2]:
        return None
    rows = [
        row
        for row in re.split(r"\\\\(?:\[[^\]]*\])?", match[2])
        if row.strip() and row.strip() != r"\hline"
    ]
    return Matrix(tuple(tuple(value(cell) for cell in row.split("&")) for row in rows))


def _plus_minus(text: str) -> List | None:
    if not re.search(r"\\pm(?![a-z])", text) or len(split(text, _COMMA)) > 1:
        return None
    sides = re.fullmatch(r"(?:([^=]*)=)?([^=<>]*)", text)
    if sides is None or (sides[1] and not is_left_side(sides[1])):
        return None
    ends = (sides[2].replace(r"\pm", one).replace(r"\mp", other) for one, other in ("+-", "-+"))
    name = re.search(r"(?:(?<=\s)|^)[a-z]\s*$", sides[1] or "")
    return List(tuple(value(f"{name[0]}={end}" if name else end) for end in ends))


def _union(text: str) -> Union | None:
    parts = split(text, _OR)
    if len(parts) == 1:
        return None
    items = tuple(value(p) for p in parts)
    return Union(items) if all(isinstance(i, Interval | Tuple | Set) for i in items) else None


def _both(text: str) -> Interval | Union | None:
    r"""`x > 1 and x < 3`: one interval; `x > 1, x \ne 3`: two."""
    parts = split(text, _AND_HOLE if r"\ne" in text else _AND)
    names = {side.strip() for part in parts for side in split(part, _RELATION) if is_variable(side)}
    ranges = [value(part) for part in parts] if len(parts) == 2 and len(names) == 1 else []
    if ranges and isinstance(ranges[0], Interval) and isinstance(ranges[1], Union):
        whole, hole = ranges[0], ranges[1].items[0].upper
        far = {MINUS_INFINITY: -inf, INFINITY: inf}
        ends = [getattr(end, "value", far.get(end)) for end in (whole.lower, hole, whole.upper)]
        return _without(whole, hole) if None not in ends and ends[0] < ends[1] < ends[2] else None
    if not ranges or not all(isinstance(r, Interval) for r in ranges):
        return None
    above, below = ranges if ranges[1].lower == MINUS_INFINITY else ranges[::-1]
    if above.upper != INFINITY or below.lower != MINUS_INFINITY:
        return None
    return Interval(above.lower, below.upper, above.left_open, below.right_open)


def _without(whole: Interval, hole: Value) -> Union:
    """`whole` but for one value inside it."""
    ends = (whole.lower, hole, whole.left_open, True), (hole, whole.upper, True, whole.right_open)
    return Union(tuple(Interval(*each) for each in ends))


def _list(text: str) -> List | None:
    if re.search(r"=\s*\d{1,3}(?:,\d{3})+(?:\.\d+)?(?: [a-zA-Z]+)?$", text):  # 2^20 = 1,048,576
        return None
    parts = [p for part in split(text, _COMMA) for p in split(part, _SPLIT_WORD)]
    parts = [p for p in parts if p.strip() not in ("", ".")]
    if len(parts) < 2:
        return None
    return List(_flattened(value(part) for part in parts))


def _flattened(items: Iterable[Value]) -> tuple:
    r"""`items`, with those of a list among them in its place: `1, \pm 2` has three."""
    return tuple(i for item in items for i in (item.items if isinstance(item, List) else (item,)))


def _relation(text: str) -> Value | None:
    sides = [s.strip() for s in split(text, _RELATION)]
    if len(sides) == 1 or not all(sides[1:]):
        return None
    signs = [sign.replace(r"\equiv", "=") for sign in _RELATION.findall(text)]
    if len(signs) != len(sides) - 1:
        return None
    if signs == ["\\in"] and is_left_side(sides[0]):
        return value(sides[1])
    return _range(signs, sides) or Relation(tuple(signs), tuple(sides))


def _range(signs: list[str], sides: list[str]) -> Interval | Union | None:
    r"""The interval that `x < 5`, `5 \ge x` or `1 < x \le 2` describes."""
    named = [is_variable(s) for s in sides]
    if signs == [r"\ne"] and named[0]:
        return _without(Interval(MINUS_INFINITY, INFINITY, True, True), value(sides[1]))
    if not all(s in TURNED for s in signs):
        return None
    if named == [False, True]:
        signs, sides, named = [TURNED[signs[0]]], sides[::-1], [True, False]
    if named == [True, False]:
        bound = value(sides[1])
        if signs[0] in ("<", r"\le"):
            return Interval(MINUS_INFINITY, bound, True, signs[0] == "<")
        return Interval(bound, INFINITY, signs[0] == ">", True)
    if named == [False, True, False]:
        if signs[0] in (">", r"\ge"):
            signs, sides = [TURNED[s] for s in signs[::-1]], sides[::-1]
        if all(s in ("<", r"\le") for s in signs):
            return Interval(value(sides[0]), value(sides[2]), signs[0] == "<", signs[1] == "<")
    return None


def _brackets(text: str) -> Value | None:
    if text == r"\mathbb{R}" or text.casefold() in (
        "all real numbers",
        "all reals",
        "real numbers",
    ):
        return Interval(MINUS_INFINITY, INFINITY, True, True)
    if text in (r"\emptyset", r"\{\}", r"\{ \}"):
        return Set(())
    if builder := re.fullmatch(
        r"\\\{\s*[a-z]\s*(?:\\in\s*\\mathbb\{R\})?\s*(?::|\||\\mid(?![a-z]))(.*)\\\}", text
    ):
        return value(builder[1])
    if text.startswith(r"\{") and text.endswith(r"\}"):
        return Set(_flattened(_inside(text[2:-2])))
    if (
        text[:1] not in ("(", "[")
        or text[-1:] not in (")", "]")
        or closing(text, 0) != len(text) - 1
    ):
        return None
    items = _inside(text[1:-1])
    if len(items) < 2:
        return None
    if text[0] == "[" and text[-1] == "]" and all(map(_is_row, items)):
        return Matrix(tuple(item.items for item in items))
    return (
        Interval(*items, text[0] == "(", text[-1] == ")")
        if len(items) == 2
        else Tuple(tuple(items))
    )


def _inside(text: str) -> list[Value]:
    return [value(p) for part in split(text, _COMMA) for p in split(part, _SPLIT_WORD) if p.strip()]


def _is_row(item: Value) -> bool:
    """Whether `item` is a row of `[[1, 2], [3, 4]]`."""
    return isinstance(item, Tuple) or (
        isinstance(item, Interval) and item.left_open == item.right_open
    )


# ---- single values


def quantity(text: str) -> Quantity | None:
    r"""`18`, `\$18`, `5 cm`, `20\%`, `1.5 million`, `twelve apples`."""
    currency = _CURRENCY.match(text)
    name = ""
    if currency:
        name, text = _money(currency[2]), currency[1] + text[currency.end() :]
    if (n := number(text)) is not None:
        return Quantity(n, name, False, text)
    match = NUMBER.match(text)
    end = match.end() if match else _end_of_words(text)
    while end and (n := number(text[:end])) is None:
        end = text.rfind(" ", 0, end - 1) if text.rfind(" ", 0, end - 1) > 0 else 0
    if not end:
        return None
    rest = text[end:]
    if scale := re.match(
        r"\s*(?:\\text\{\s*)?(dozen|hundred|thousand|million|billion|trillion)s?(?![a-z])(?:\s*\})?",
        rest,
    ):
        n, rest = n * SCALES[scale[1]], rest[scale.end() :]
    if percent := re.match(
        r"\s*(?:%|(?:\\text\{\s*)?(?:percent(?:age(?: points?)?)?|per cent|pct)(?![a-z])\s*\}?)",
        rest,
    ):
        rest = rest[percent.end() :]
    if (aside := re.fullmatch(r"\s*\(([A-Za-z -]+)\)", rest)) and number(aside[1]) in (
        None,
        n,
    ):  # "9 (apples)"
        rest = "" if number(aside[1]) == n else f" {aside[1]}"
    follows = _unit_after(rest, currency is not None) if rest.strip() else ""
    if follows is None or (follows and name and follows.split(" ")[0] not in (name, "/")):
        return None
    if name and follows.startswith("/"):
        name = f"{name} {follows}"
    return Quantity(
        n, name or follows, percent is not None, text[:end].strip() + (scale[1] if scale else "")
    )


def _money(sign: str) -> str:
    """The unit that `US$` or `Rs.` before a number names."""
    return unit(re.sub(r"[\s.]|^USD?(?=\s*\$)", "", sign)) or sign


def compound(text: str) -> Measure | None:
    """`6 ft 2 in`, "two hours and thirty minutes"."""
    text = re.sub(r"\\text\{\s*(?:and\s*)?\}|\\text\{ and \}", " ", text)
    text = re.sub(
        r"(?<![A-Za-z])[A-Za-z]++(?:-[a-z]++)?(?= [a-z])",
        lambda m: str(number(m[0].lower()) or m[0]),
        text,
    )
    parts = _MEASURE.findall(text)
    names = [unit(name) for _, name in parts]
    if names[:1] == ["h"]:  # 7h 25m
        names = ["min" if name == "m" else name for name in names]
    if len(parts) < 2 or len({*names}) < len(parts):  # "6 cm and 4 cm" are two
        return None
    if not all(name and known(name) for name in names) or _MEASURE.sub("", text).strip(" }{"):
        return None
    return Measure(
        tuple(Quantity(Fraction(n), name) for (n, _), name in zip(parts, names, strict=True))
    )


def _end_of_words(text: str) -> int:
    """Where the number words at the start of `text` may end at most."""
    words = re.match(r"[A-Za-z -]+", text)
    return words.end() if words and len(text) < 100 else 0


def _unit_after(rest: str, currency: bool) -> str | None:
    """The unit that follows a number, or None: letters glued to it are variables, as in `2s` and
    `3x`, except `5km`."""
    name = unit(rest)
    if name is None or rest.lstrip().startswith(("\\text", "^\\circ")):
        return name
    # A difference or a quotient, but "5-foot".
    if (
        rest.lstrip()[0] in "-/"
        and not currency
        and not (known(name) and re.fullmatch(r"-[a-z]{2,}", rest))
    ):
        return None
    if (
        not rest[0].isspace()
        and rest[0] not in "$£€¥₹¢-"
        and not (known(name) and len(rest.strip()) > 1)
    ):
        return None
    return name


def clock_or_ratio(text: str) -> Clock | Ratio | None:
    """`3:30 p.m.`, `noon`; `2:3` and `3:30` are ratios, which a comparison with a time reads as
    one."""
    match = _CLOCK.fullmatch(text)
    if match and match["half"] and int(match["hour"]) <= 12 and match["half"].lower() != "o'clock":
        half = {"noon": "p", "midnight": "a"}.get(match["half"].lower(), match["half"][0].lower())
        return Clock(
            (int(match["hour"]) % 12 + 12 * (half == "p")) * 60 + int(match["minute"] or 0), half
        )
    if match and match["half"] and match["half"].lower() == "o'clock":
        return Clock(int(match["hour"]) * 60 + int(match["minute"] or 0), None)
    if text.lower() in ("noon", "midnight"):
        return Clock(720 * (text.lower() == "noon"), "p" if text.lower() == "noon" else "a")
    spoken = re.split(
        r"(?:\s+|-)(?:\\text\{\s*)?(?:to|zu|à|pour)(?:\s*\})?(?:\s+|-)",
        re.sub(r"\\text\{ to \}", " to ", text),
    )
    if 1 < len(spoken) < 7 and all(number(part) is not None for part in spoken):
        return Ratio(tuple(str(number(part)) for part in spoken), True)
    if text.count(":") and len(parts := text.split(":")) <= 6:
        numbers = [p.strip() for p in parts]
        if all(number(p) is not None for p in numbers):
            return Ratio(tuple(numbers))
    return None


def in_base(text: str) -> InBase | None:
    r"""`1011_2`, `1011_{\text{two}}`, `1011 base 2`."""
    match = _IN_BASE.fullmatch(text)
    if match is None:
        return None
    name = (match[2] or match[3]).lower()
    base = base_named(name) or 0
    sign, digits = re.fullmatch(r"(-?)0*(.+)", match[1].replace(" ", "")).groups()
    if (
        not 2 <= base <= 36
        or digits.count(".") > 1
        or any(int(d, 36) >= base for d in digits.replace(".", ""))
    ):
        return None
    return InBase(sign + digits, base)


def words(text: str) -> Words | None:
    r"""Words, not the product of variables: a `\text{…}`, "no", one of three letters, several with
    a longer one."""
    bare = without_text(text)
    if "\\" in bare or re.search(r"[\d=+*/^_<>|(){}\[\]]", bare):
        return None
    letters = re.findall(r"[^\W\d_]+", bare)
    if (
        not any(len(w) > 3 or not w.isascii() for w in letters)
        and len(bare) == len(text)
        and not re.fullmatch("(?i)no|[a-z]{3}", text)
    ):
        return None
    return Words(" ".join(letters).casefold()) if letters else None


def expression(text: str) -> Expr:
    r"""The expression, with its unit off: a trailing `\text{…}`, `^\circ` or the name of a known
    unit."""
    currency = _CURRENCY.match(text)
    if currency:
        return Expr((currency[1] + text[currency.end() :]).strip(), _money(currency[2]))
    match = re.search(
        r"\s*(\\text\{[^{}]*\}\s*(?:\^\s*\{?[23]\}?)?|\^\\circ\s*[CF]?|\\pmod\{\w+\})\s*$", text
    )
    match = match or re.search(
        r"(?:(?<=[\d})])|(?<=\\pi))\s((?:(?:square|cubic|sq|cu)"
        r" )?[a-zA-Z]{2,}(?:\s*\^\s*\{?[23]\}?)?)$",
        text,
    )
    if r"^\circ" in text and re.search(r"\\(?:sin|cos|tan|cot|sec|csc)", text):
        return Expr(text)
    name = unit(match[1]) if match and match.start() else None
    if name is not None and (
        match[1].startswith(("\\text", "^", "\\pmod"))
        or known(name)
        or not name
        or name.startswith("unit^")
    ):
        return Expr(text[: match.start()].strip(), name)
    return Expr(text)
