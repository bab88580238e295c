"""Reading one value: a quantity with its unit, a time or ratio, a number in some base, words, else an expression."""

import re
from fractions import Fraction

from rewards.verifier.kinds import Clock, Expr, InBase, Measure, Quantity, Ratio, Words
from rewards.verifier.notation import NUMBER, SCALES, base_named, number
from rewards.verifier.units import known, unit

_IN_BASE = re.compile(
    r"\(?\s*(?:\\text\{)?(-?\s*[0-9A-Z](?:[0-9A-Z .]*[0-9A-Z])?)\}?\s*\)?\s*"
    r"(?:_\s*\{?\s*(?:\\text\{)?\s*(?:base\s*\}?\s*)?\(?(\w+?)\)?\s*\}?\s*\}?"
    r"|\\?,?\s*(?:\\text\{)?\s*\(?(?:in )?base[ -](\w+)\)?\s*\}?)"
)
_CLOCK = re.compile(
    r"(?P<hour>\d{1,2})\s*(?::\s*(?P<minute>[0-5]\d))?\s*(?:\\text\{)?\s*"
    r"(?P<half>[ap](?:\.\s*m\.?|m)|o'clock|noon|midnight)?\s*\}?",
    re.IGNORECASE,
)
_CURRENCY = re.compile(r"([+-]?)\s*(?:([$£€¥₹])|(?:Rs\.?|USD|US\s*\$)(?=\s*\d))\s*(?=[-\d.\\(])")


def quantity(text: str) -> Quantity | None:
    r"""`18`, `\$18`, `5 cm`, `20\%`, `1.5 million`, `twelve apples`."""
    currency = _CURRENCY.match(text)
    name = ""
    if currency:
        name, text = unit(currency[2] or "$"), currency[1] + text[currency.end() :]
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
        r"\s*(?:\\text\{\s*)?(dozen|hundred|thousand|million|billion|trillion)s?(?![a-z])(?:\s*\})?", rest
    ):
        n, rest = n * SCALES[scale[1]], rest[scale.end() :]
    if percent := re.match(
        r"\s*(?:%|(?:\\text\{\s*)?(?:percent|per cent|percentage points?|pct)(?![a-z])\s*\}?)", rest
    ):
        rest = rest[percent.end() :]
    if (aside := re.fullmatch(r"\s*\(([A-Za-z -]+)\)", rest)) and number(aside[1]) in (None, n):  # "9 (apples)"
        rest = "" if number(aside[1]) == n else f" {aside[1]}"
    follows = _unit_after(rest, currency is not None) if rest.strip() else ""
    if follows is None or (follows and name and follows.split(" ")[0] not in (name, "/")):
        return None
    if name and follows.startswith("/"):
        name = f"{name} {follows}"
    return Quantity(n, name or follows, percent is not None, text[:end].strip() + (scale[1] if scale else ""))


_MEASURE = re.compile(r"(?<!\d)(\d+)\s*(?:\\text\{\s*)?([A-Za-z]+)\.?\s*(?:,?\s*and\b)?\s*\}?\s*,?\s*")


def compound(text: str) -> Measure | None:
    """`6 ft 2 in`, `2 hours and 30 minutes`."""
    parts = _MEASURE.findall(re.sub(r"\\text\{\s*(?:and\s*)?\}", " ", text).replace(r"\text{ and }", " "))
    names = [unit(name) for _, name in parts]
    if len(parts) < 2 or not all(name and known(name) for name in names) or _MEASURE.sub("", text).strip(" }{"):
        return None
    return Measure(tuple(Quantity(Fraction(n), name) for (n, _), name in zip(parts, names, strict=True)))


def _end_of_words(text: str) -> int:
    """Where the number words at the start of `text` may end at most."""
    words = re.match(r"[A-Za-z -]+", text)
    return words.end() if words and len(text) < 100 else 0


def _unit_after(rest: str, currency: bool) -> str | None:
    """The unit that follows a number, or None: letters glued to it are variables, as in `2s` and `3x`, except `5km`."""
    name = unit(rest)
    if name is None or rest.lstrip().startswith(("\\text", "^\\circ")):
        return name
    # A difference or a quotient, but "5-foot".
    if rest.lstrip()[0] in "-/" and not currency and not (known(name) and re.fullmatch(r"-[a-z]{2,}", rest)):
        return None
    if not rest[0].isspace() and rest[0] not in "$£€¥₹¢-" and not (known(name) and len(rest.strip()) > 1):
        return None
    return name


def clock_or_ratio(text: str) -> Clock | Ratio | None:
    """`3:30 p.m.`, `noon`; `2:3` and `3:30` are ratios, which a comparison with a time reads as one."""
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
    if not 2 <= base <= 36 or digits.count(".") > 1 or any(int(d, 36) >= base for d in digits.replace(".", "")):
        return None
    return InBase(sign + digits, base)


def words(text: str) -> Words | None:
    r"""Words, not the product of variables: a `\text{…}`, "no", one of three letters, several with a longer one."""
    bare = re.sub(r"\\text\{([^{}]*)\}", r" \1 ", text)
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
    name = unit(match[1]) if match and match.start() else None
    if name is not None and (match[1].startswith(("\\text", "^")) or known(name) or not name):
        return Expr(text[: match.start()].strip(), name)
    return Expr(text)
