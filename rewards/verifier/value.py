r"""What kind of answer a short text is: a quantity, a list, a set, a tuple or interval, a matrix,
words, an expression.

An inequality that says which `x` are meant is read as the interval it means.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from . import scalars
from .notation import closing, plain, split
from .numerals import NUMBER
from .value_types import (
    INFINITY,
    MINUS_INFINITY,
    Interval,
    List,
    Matrix,
    Relation,
    Set,
    Tuple,
    Union,
    Value,
)
from .wholes import TURNED, respelled

_RELATION = re.compile(r"\\(?:le|ge|ne|in|approx|sim|equiv)(?![a-zA-Z])|[<>=]")
_SYMBOL = re.compile(
    r"(?:\\[A-Za-z]+ ?)?[A-Za-z]{0,3}(?:_\{?\w+\}?|')?(?:\s*\([A-Za-z](?:, ?[A-Za-z])*\))?"
)
# the name of a ratio
_SEGMENTS = re.compile(r"\\frac\{[A-Z]{2}\}\{[A-Z]{2}\}|[A-Z]{1,2}\s*[:/]\s*[A-Z]{1,2}")
_OF_A_FUNCTION = re.compile(r"(?<=[a-zA-Z])(?:'+|\^\{-1\})(?=\()")  # f'(x), f^{-1}(x)
_NO_NAME = re.compile(
    r"\b(?:not|never|isn't|or|wrong|about|approximately|around|roughly|nearly|almost|maybe|perhaps|"
    r"probably|possibly|at least|at most)\b"
)
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
_MATRIX = re.compile(r"\\begin\{([pb]?matrix|array)\}(?:\{[lcr|]*\})?(.*)\\end\{\1\}", re.DOTALL)
_COMMA = re.compile(r"[,;]")
_ALL_TEXT = re.compile(r"\A\\text\{([^{}]*)\}\Z")
_ALL_REALS = Interval(MINUS_INFINITY, INFINITY, True, True)
_WITHOUT = re.compile(
    r"\\(?:setminus|backslash)(?![a-zA-Z])|(?<=\\mathbb\{R\})\s*[-\\](?=\s*[\[(\\])"
)


def value(text: str) -> Value:
    """The typed value of `text`; never raises, and always the same for the same text."""
    text = trimmed(plain(text))
    return _value(text if NUMBER.fullmatch(text) else respelled(text))


def is_name(text: str) -> bool:
    r"""Whether `text` is the name of a quantity: `x`, `a_1`, `f(x)`, `AB`, `\theta`."""
    text = _OF_A_FUNCTION.sub("", _SEGMENTS.sub("AB", text.strip()))
    return _SYMBOL.fullmatch(text) is not None and text != ""


def is_variable(text: str) -> bool:
    r"""Whether `text` is a name, but not of a number as `\pi` is."""
    return is_name(text) and text.strip() not in (r"\infty", r"\pi", "e", "i")


def is_left_side(text: str) -> bool:
    """Whether `text` can stand left of the `=` of an answer: a name, `a + b`, "the total", but no
    power of one."""
    text = re.sub(r"^\(\s*[a-z](?:\s*[,;]\s*[a-z])*\s*\)$", "x", text.strip())  # (x, y)
    text = _OF_A_FUNCTION.sub("", text)
    # a_1, f(3), P(x, y)
    arguments = r"\((?:[\w, +=|-]|\\(?:mid|cap|cup)(?![a-z])|\\text\{[^{}]*\})*\)"
    text = re.sub(rf"_\{{?\w+\}}?|(?<=[A-Za-z}}])\s*{arguments}", "", text.strip())
    if _FUNCTION.search(text) or not _LEFT_SIDE.fullmatch(text):
        return False
    return _NO_NAME.search(text) is None


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
        text = _ALL_TEXT.sub(r"\1", text)
        if text == before:
            return text


@lru_cache(maxsize=65536)
def _value(text: str) -> Value:
    for read in _READERS:
        typed = read(text)
        if typed is not None:
            return typed
    return scalars.expression(text)


def _matrix(text: str) -> Matrix | None:
    r"""Rows of a matrix; `[` `(` around an `array` or a bare `matrix` say nothing more."""
    if "array" in text or "{matrix}" in text:
        text = re.sub(r"^[(\[]\s*|\s*[)\]]$", "", text)
    match = _MATRIX.fullmatch(text.strip())
    if match is None or r"\begin" in match[2]:
        return None
    rows = []
    for row in re.split(r"\\\\(?:\[[^\]]*\])?", match[2]):
        if row.strip() not in ("", r"\hline"):
            rows.append(tuple(map(value, row.split("&"))))
    return Matrix(tuple(rows))


def _plus_minus(text: str) -> List | None:
    if not re.search(r"\\pm(?![a-z])", text) or len(split(text, _COMMA)) > 1:
        return None
    sides = re.fullmatch(r"(?:([^=]*)=)?([^=<>]*)", text)
    if sides is None or (sides[1] and not is_left_side(sides[1])):
        return None
    name = re.search(r"(?:(?<=\s)|^)[a-z]\s*$", sides[1] or "")
    start = f"{name[0]}=" if name else ""
    plus = sides[2].replace(r"\pm", "+").replace(r"\mp", "-")
    minus = sides[2].replace(r"\pm", "-").replace(r"\mp", "+")
    return List((value(start + plus), value(start + minus)))


def _union(text: str) -> Union | None:
    parts = split(text, _OR)
    if len(parts) == 1:
        return None
    items = tuple(map(value, parts))
    return Union(items) if all(isinstance(item, Interval | Tuple | Set) for item in items) else None


def _difference(text: str) -> Union | None:
    r"""`(0,4) \setminus \{1\}`, `\mathbb{R} \setminus [1,2)`: what is left of an interval."""
    text = re.sub(r"^[a-z]\s*\\in\s*(?=\\mathbb\{R\})", "", text)
    parts = split(text, _WITHOUT)
    if len(parts) != 2:
        return None
    interval, removed = map(value, parts)
    if not isinstance(interval, Interval) or not isinstance(removed, Set) or not removed.items:
        return None
    return _with_holes(interval, removed.items)


def _with_holes(interval: Interval, holes: Iterable[Value]) -> Union:
    """`interval` but for the values inside it, in their order."""
    ends = [interval.lower, *holes, interval.upper]
    pieces = [Interval(lower, upper, True, True) for lower, upper in pairwise(ends)]
    pieces[0] = replace(pieces[0], left_open=interval.left_open)
    pieces[-1] = replace(pieces[-1], right_open=interval.right_open)
    return Union(tuple(pieces))


def _list(text: str) -> List | None:
    if re.search(r"=\s*\d{1,3}(?:,\d{3})+(?:\.\d+)?(?: [a-zA-Z]+)?$", text):  # 2^20 = 1,048,576
        return None
    parts = [part for part in _parts(text) if part.strip() != "."]
    return List(_flattened(map(value, parts))) if len(parts) > 1 else None


def _parts(text: str) -> list[str]:
    """The texts between commas and "and"; none of them is empty."""
    parts = [part for between in split(text, _COMMA) for part in split(between, _SPLIT_WORD)]
    return [part for part in parts if part.strip()]


def _flattened(items: Iterable[Value]) -> tuple:
    r"""`items`, with the items of a list among them in its place: `1, \pm 2` has three."""
    flat = []
    for item in items:
        flat.extend(item.items if isinstance(item, List) else [item])
    return tuple(flat)


def _relation(text: str) -> Value | None:
    sides = [side.strip() for side in split(text, _RELATION)]
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
    are_names = [is_variable(side) for side in sides]
    if signs == [r"\ne"] and are_names[0]:
        return _with_holes(_ALL_REALS, [value(sides[1])])
    if not all(sign in TURNED for sign in signs):
        return None
    if are_names == [False, True]:
        return _range([TURNED[signs[0]]], sides[::-1])
    if are_names == [True, False]:
        bound = value(sides[1])
        if signs[0] in ("<", r"\le"):
            return Interval(MINUS_INFINITY, bound, True, signs[0] == "<")
        return Interval(bound, INFINITY, signs[0] == ">", True)
    if are_names != [False, True, False]:
        return None
    if set(signs) <= {">", r"\ge"}:
        return _range([TURNED[sign] for sign in reversed(signs)], sides[::-1])
    if set(signs) <= {"<", r"\le"}:
        return Interval(value(sides[0]), value(sides[2]), signs[0] == "<", signs[1] == "<")
    return None


def _brackets(text: str) -> Value | None:
    if text == r"\mathbb{R}":
        return _ALL_REALS
    if text in (r"\emptyset", r"\{\}", r"\{ \}"):
        return Set(())
    if text.startswith(r"\{") and text.endswith(r"\}"):
        return Set(_flattened(map(value, _parts(text[2:-2]))))
    if text[:1] not in ("(", "[") or text[-1:] not in (")", "]"):
        return None
    if closing(text, 0) != len(text) - 1:
        return None
    items = [value(part) for part in _parts(text[1:-1])]
    if len(items) < 2:
        return None
    if len(items) > 2:
        return Tuple(tuple(items))
    return Interval(*items, text[0] == "(", text[-1] == ")")


# In this order: the first that can read a text decides.
_READERS = (
    scalars.time,
    scalars.ratio,
    scalars.quantity,
    scalars.in_base,
    _matrix,
    _plus_minus,
    _union,
    _difference,
    _list,
    _relation,
    _brackets,
    scalars.words,
)
