r"""What kind of answer a short text is: a quantity, a list, a set, a tuple or interval, a matrix, words, an expression.

Intervals and tuples are both `Items`, told apart by their brackets, and an inequality that says which `x` are meant is
read as the interval it means.
"""

import re
from functools import lru_cache

from rewards.verifier.kinds import INFINITY, MINUS_INFINITY, Clock, Expr, InBase, Items, Quantity, Relation, Words
from rewards.verifier.notation import closing, plain
from rewards.verifier.scalars import clock_or_ratio, compound, expression, in_base, quantity, words

Value = Quantity | Expr | Words | Clock | InBase | Items | Relation

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
_RANGES = ("()", "[]", "(]", "[)")


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


def _matrix(text: str) -> Items | None:
    r"""Rows of a matrix; `[` `(` around an `array` or a bare `matrix` say nothing more."""
    if "array" in text or "{matrix}" in text:
        text = re.sub(r"^[(\[]\s*|\s*[)\]]$", "", text)
    match = _MATRIX.fullmatch(text.strip())
    if match is None or r"\begin" in match[2]:
        return None
    rows = [row for row in re.split(r"\\\\(?:\[[^\]]*\])?", match[2]) if row.strip() and row.strip() != r"\hline"]
    return Items("matrix", tuple(Items("row", tuple(value(cell) for cell in row.split("&"))) for row in rows))


def _plus_minus(text: str) -> Items | None:
    if r"\pm" not in text or len(_split(text, _COMMA)) > 1:
        return None
    sides = re.fullmatch(r"(?:([^=]*)=)?([^=<>]*)", text)
    if sides is None or (sides[1] and not is_left_side(sides[1])):
        return None
    upper = sides[2].replace(r"\pm", "+").replace(r"\mp", "-")
    lower = sides[2].replace(r"\pm", "-").replace(r"\mp", "+")
    return Items(",", (value(upper), value(lower)))


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


def _both(text: str) -> Items | None:
    """`x > 1 and x < 3`: one interval."""
    parts = _split(text, _AND)
    names = {side.strip() for part in parts for side in _split(part, _RELATION) if is_variable(side)}
    ranges = [value(part) for part in parts] if len(parts) == 2 and len(names) == 1 else []
    if not ranges or not all(isinstance(r, Items) and r.kind in _RANGES and len(r.items) == 2 for r in ranges):
        return None
    lower, upper = ranges if ranges[1].items[0] == MINUS_INFINITY else ranges[::-1]
    if lower.items[1] != INFINITY or upper.items[0] != MINUS_INFINITY:
        return None
    return Items(lower.kind[0] + upper.kind[1], (lower.items[0], upper.items[1]))


def _list(text: str) -> Items | None:
    parts = [p for part in _split(text, _COMMA) for p in _split(part, _SPLIT_WORD)]
    parts = [p for p in parts if p.strip() not in ("", ".")]
    if len(parts) < 2:
        return None
    items = []
    for part in parts:
        item = value(part)
        items += item.items if isinstance(item, Items) and item.kind == "," else [item]
    return Items(",", tuple(items))


def _relation(text: str) -> Value | None:
    sides = [s.strip() for s in _split(text, _RELATION)]
    if len(sides) == 1 or not all(sides[1:]):
        return None
    signs = _RELATION.findall(text)
    if len(signs) != len(sides) - 1:
        return None
    if signs == ["\\in"] and is_left_side(sides[0]):
        return value(sides[1])
    return _range(signs, sides) or Relation(tuple(signs), tuple(sides))


def _range(signs: list[str], sides: list[str]) -> Items | None:
    r"""The interval that `x < 5`, `5 \ge x` or `1 < x \le 2` describes."""
    named = [is_variable(s) for s in sides]
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
