r"""What kind of answer a short text is: a quantity, a list, a set, a tuple or interval, a matrix, words, an expression.

An inequality that says which `x` are meant is read as the interval it means.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from rewards.verifier.brackets import closing, split
from rewards.verifier.kinds import (
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
from rewards.verifier.notation import plain
from rewards.verifier.scalars import clock_or_ratio, compound, expression, in_base, quantity, words

_RELATION = re.compile(r"\\(?:le|ge|ne|in|approx|sim|equiv)(?![a-zA-Z])|[<>=]")
_SYMBOL = re.compile(r"(?:\\[A-Za-z]+ ?)?[A-Za-z]{0,3}(?:_\{?\w+\}?|')?(?:\s*\([A-Za-z](?:, ?[A-Za-z])*\))?")
_LEFT_SIDE = re.compile(r"(?=.*[A-Za-z])(?!-)[A-Za-z\\{}^', +*/-]{1,60}")
_FUNCTION = re.compile(r"\\(?:sqrt|log|ln|exp|sin|cos|tan|cot|sec|csc|infty|pi)(?![a-zA-Z])|\^(?!\\circ)")
_SPLIT_WORD = re.compile(r"\\text\{\s*,?\s*(?:and|or)\s*\}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])")
_OR = re.compile(
    r"\\text\{\s*or\s*\}|(?<![A-Za-z\\])or(?![A-Za-z])|\\cup(?![a-zA-Z])|\\lor(?![a-zA-Z])|\\vee(?![a-zA-Z])"
)
_AND = re.compile(r"\\text\{\s*and\s*\}|(?<![A-Za-z\\])and(?![A-Za-z])|\\(?:land|wedge)(?![a-zA-Z])")
_WHOLE_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_MATRIX = re.compile(r"\\begin\{([pb]?matrix|array)\}(?:\{[lcr|]*\})?(.*)\\end\{\1\}", re.DOTALL)
_COMMA = re.compile(r"[,;]")


def value(text: str) -> Value:
    """The typed value of `text`; never raises, and always the same for the same text."""
    return _value(trimmed(plain(text)))


def is_name(text: str) -> bool:
    r"""Whether `text` is the name of one thing: `x`, `a_1`, `f(x)`, `AB`, `\theta`."""
    return _SYMBOL.fullmatch(text.strip()) is not None and text.strip() != ""


def is_variable(text: str) -> bool:
    r"""Whether `text` is a name and not that of a number, as `\pi` is."""
    return is_name(text) and text.strip() not in (r"\infty", r"\pi", "e", "i")


def is_left_side(text: str) -> bool:
    """Whether `text` can stand left of the `=` of an answer: a name, `a + b`, "the total", but no power of one."""
    text = re.sub(r"^\(\s*[a-z](?:\s*,\s*[a-z])*\s*\)$", "x", text.strip())  # (x, y)
    text = re.sub(r"_\{?\w+\}?|(?<=[A-Za-z}])\s*\([\w, +-]*\)", "", text.strip())  # a_1, f(3), P(x, y)
    if _FUNCTION.search(text):
        return False
    return _LEFT_SIDE.fullmatch(text) is not None and not re.search(r"\b(?:not|never|isn't|or|wrong)\b", text)


def trimmed(text: str) -> str:
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
def _value(text: str) -> Value:
    for read in (
        clock_or_ratio,
        quantity,
        compound,
        in_base,
        _matrix,
        _plus_minus,
        _union,
        _both,
        _list,
        _relation,
        _brackets,
    ):
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
    rows = [row for row in re.split(r"\\\\(?:\[[^\]]*\])?", match[2]) if row.strip() and row.strip() != r"\hline"]
    return Matrix(tuple(tuple(value(cell) for cell in row.split("&")) for row in rows))


def _plus_minus(text: str) -> List | None:
    if r"\pm" not in text or len(split(text, _COMMA)) > 1:
        return None
    sides = re.fullmatch(r"(?:([^=]*)=)?([^=<>]*)", text)
    if sides is None or (sides[1] and not is_left_side(sides[1])):
        return None
    upper = sides[2].replace(r"\pm", "+").replace(r"\mp", "-")
    lower = sides[2].replace(r"\pm", "-").replace(r"\mp", "+")
    return List((value(upper), value(lower)))


def _union(text: str) -> Union | None:
    parts = split(text, _OR)
    if len(parts) == 1:
        return None
    items = tuple(value(p) for p in parts)
    return Union(items) if all(isinstance(i, Interval | Tuple | Set) for i in items) else None


def _both(text: str) -> Interval | None:
    """`x > 1 and x < 3`: one interval."""
    parts = split(text, _AND)
    names = {side.strip() for part in parts for side in split(part, _RELATION) if is_variable(side)}
    ranges = [value(part) for part in parts] if len(parts) == 2 and len(names) == 1 else []
    if not ranges or not all(isinstance(r, Interval) for r in ranges):
        return None
    above, below = ranges if ranges[1].lower == MINUS_INFINITY else ranges[::-1]
    if above.upper != INFINITY or below.lower != MINUS_INFINITY:
        return None
    return Interval(above.lower, below.upper, above.left_open, below.right_open)


def _list(text: str) -> List | None:
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
    signs = _RELATION.findall(text)
    if len(signs) != len(sides) - 1:
        return None
    if signs == ["\\in"] and is_left_side(sides[0]):
        return value(sides[1])
    return _range(signs, sides) or Relation(tuple(signs), tuple(sides))


def _range(signs: list[str], sides: list[str]) -> Interval | Union | None:
    r"""The interval that `x < 5`, `5 \ge x` or `1 < x \le 2` describes."""
    named = [is_variable(s) for s in sides]
    if signs == [r"\ne"] and named[0]:
        hole = value(sides[1])
        return Union((Interval(MINUS_INFINITY, hole, True, True), Interval(hole, INFINITY, True, True)))
    flip = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le"}
    if not all(s in flip for s in signs):
        return None
    if named == [False, True]:
        signs, sides, named = [flip[signs[0]]], sides[::-1], [True, False]
    if named == [True, False]:
        bound = value(sides[1])
        if signs[0] in ("<", r"\le"):
            return Interval(MINUS_INFINITY, bound, True, signs[0] == "<")
        return Interval(bound, INFINITY, signs[0] == ">", True)
    if named == [False, True, False]:
        if signs[0] in (">", r"\ge"):
            signs, sides = [flip[s] for s in signs[::-1]], sides[::-1]
        if all(s in ("<", r"\le") for s in signs):
            return Interval(value(sides[0]), value(sides[2]), signs[0] == "<", signs[1] == "<")
    return None


def _brackets(text: str) -> Value | None:
    if text == r"\mathbb{R}" or text.casefold() in ("all real numbers", "all reals", "real numbers"):
        return Interval(MINUS_INFINITY, INFINITY, True, True)
    if text in (r"\emptyset", r"\{\}", r"\{ \}"):
        return Set(())
    if builder := re.fullmatch(r"\\\{\s*[a-z]\s*(?:\\in\s*\\mathbb\{R\})?\s*(?::|\||\\mid(?![a-z]))(.*)\\\}", text):
        return value(builder[1])
    if text.startswith(r"\{") and text.endswith(r"\}"):
        return Set(_flattened(_inside(text[2:-2])))
    if text[:1] not in ("(", "[") or text[-1:] not in (")", "]") or closing(text, 0) != len(text) - 1:
        return None
    items = _inside(text[1:-1])
    if len(items) < 2:
        return None
    if text[0] == "[" and text[-1] == "]" and all(map(_is_row, items)):
        return Matrix(tuple(item.items for item in items))
    return Interval(*items, text[0] == "(", text[-1] == ")") if len(items) == 2 else Tuple(tuple(items))


def _inside(text: str) -> list[Value]:
    parts = [p for part in split(text, _COMMA) for p in split(part, _SPLIT_WORD) if p.strip()]
    return [value(part) for part in parts]


def _is_row(item: Value) -> bool:
    """Whether `item` is a row of `[[1, 2], [3, 4]]`."""
    return isinstance(item, Tuple) or (isinstance(item, Interval) and item.left_open == item.right_open)
