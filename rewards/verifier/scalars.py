r"""Texts of one value: a ratio, a number with its unit, words, an expression."""

import re
from fractions import Fraction

from .notation import without_text
from .numerals import NUMBER, SCALES, base_named, number
from .units import is_known_unit, unit
from .value_types import Expr, InBase, Quantity, Ratio, Words

_IN_BASE = re.compile(
    r"\(?\s*(?:\\text\{)?(-?\s*\.?[0-9A-Z](?:[0-9A-Z .]*[0-9A-Z])?)\}?\s*\)?\s*"
    r"(?:_\s*\{?\s*(?:\\text\{)?\s*(?:base\s*\}?\s*)?\(?(\w+?)\)?\s*\}?\s*\}?"
    r"|\\?,?\s*(?:\\text\{)?\s*\(?(?:in )?base[ -](\w+)\)?\s*\}?)"
)
_CURRENCY = re.compile(
    r"([+-]?)\s*(?:((?:R|A|C|HK|NT|S|US|CA|AU|NZ|USD)?\s*\$|[£€¥₹₩₽₪₱₫₦₺]|(?:Rs|USD|EUR|GBP|CHF|CAD|AUD|INR|JPY|CNY|"
    r"KRW|"
    r"BRL|RM|Rp|kr|zł)\.?(?=\s*\d)))\s*(?=[-\d.\\(])"
)

_TIME = re.compile(r"0?(\d{1,2})(?::00|(:[0-5]\d))?( [ap]\.m)\.?")
_SCALE = re.compile(
    r"\s*(?:\\text\{\s*)?(dozen|hundred|thousand|million|billion|trillion)s?(?![a-z])(?:\s*\})?"
)
_PERCENT = re.compile(
    r"\s*(?:%|(?:\\text\{\s*)?(?:percent(?:age(?: points?)?)?|per cent|pct)(?![a-z])\s*\}?)"
)
_UNIT_IN_TEXT = re.compile(
    r"\s*(\\text\{[^{}]*\}\s*(?:\^\s*\{?-?[123]\}?)?|\^\\circ\s*[CF]?|\\pmod\{\w+\})\s*$"
)
_UNIT_IN_LETTERS = re.compile(
    r"(?:(?<=[\d})])|(?<=\\pi))\s"
    r"((?:(?:square|cubic|sq|cu) )?[a-zA-Z]{2,}(?:\s*\^\s*\{?[23]\}?)?"
    r"(?:\s?(?:/|per)\s?[a-zA-Z]+)?)$"
)


def quantity(text: str) -> Quantity | None:
    r"""`18`, `\$18`, `5 cm`, `20\%`, `1.5 million`, `twelve apples`."""
    currency = _CURRENCY.match(text)
    name = ""
    if currency:
        name = _unit_of_money(currency[2])
        text = currency[1] + text[currency.end() :]
    amount = number(text)
    if amount is not None:
        return Quantity(amount, name, False, text)
    amount, end = _leading_number(text)
    if amount is None:
        return None
    written = text[:end].strip()
    behind = text[end:]
    scale = _SCALE.match(behind)
    if scale:
        amount *= SCALES[scale[1]]
        written += scale[1]
        behind = behind[scale.end() :]
    percent = _PERCENT.match(behind)
    if percent:
        behind = behind[percent.end() :]
    behind = _without_parentheses(behind, amount)
    unit_name = _unit_after(behind, currency is not None) if behind.strip() else ""
    if unit_name is None or (name and unit_name and unit_name.split(" ")[0] not in (name, "/")):
        return None
    if name and unit_name.startswith("/"):
        name = f"{name} {unit_name}"
    return Quantity(amount, name or unit_name, percent is not None, written)


def _leading_number(text: str) -> tuple[Fraction | None, int]:
    """The number at the start of `text`, and where it ends."""
    match = NUMBER.match(text)
    end = match.end() if match else _end_of_words(text)
    while end > 0:
        amount = number(text[:end])
        if amount is not None:
            return amount, end
        end = text.rfind(" ", 0, end - 1)
    return None, 0


def _end_of_words(text: str) -> int:
    """Where the number words at the start of `text` may end at most."""
    match = re.match(r"[A-Za-z -]+", text)
    return match.end() if match and len(text) < 100 else 0


def _without_parentheses(behind: str, amount: Fraction) -> str:
    """` apples` of "9 (apples)", and nothing of "9 (nine)"."""
    aside = re.fullmatch(r"\s*\(([A-Za-z -]+)\)", behind)
    if aside is None:
        return behind
    repeated = number(aside[1])
    if repeated == amount:
        return ""
    return f" {aside[1]}" if repeated is None else behind


def _unit_of_money(sign: str) -> str:
    """The unit that `US$` or `Rs.` before a number names."""
    return unit(re.sub(r"[\s.]|^USD?(?=\s*\$)", "", sign)) or sign


def _unit_after(text: str, is_money: bool) -> str | None:
    """The unit that follows a number, or None: letters glued to it are variables, as in `2s` and
    `3x`, except `5km`."""
    name = unit(text)
    bare = text.strip()
    if name is None or bare.startswith(("\\text", "^\\circ")):
        return name
    # A difference or a quotient, but "5-foot".
    is_foot = is_known_unit(name) and re.fullmatch(r"-[a-z]{2,}", text)
    if bare[0] in "-/" and not is_money and not is_foot:
        return None
    is_glued = not text[0].isspace() and text[0] not in "$£€¥₹¢-"
    is_letter = len(bare) == 1 and bare.isascii()
    return None if is_glued and (is_letter or not is_known_unit(name)) else name


def ratio(text: str) -> Ratio | None:
    """`2:3`, and `3:30`, which may be a time."""
    parts = [part.strip() for part in re.split(r":|\\text\{\s*to\s*\}|(?<=\d) to (?=\d)", text)]
    if 1 < len(parts) < 7 and all(number(part) is not None for part in parts):
        return Ratio(tuple(parts))
    return None


def in_base(text: str) -> InBase | None:
    r"""`1011_2`, `1011_{\text{two}}`, `1011 base 2`."""
    match = _IN_BASE.fullmatch(text)
    if match is None:
        return None
    base = base_named((match[2] or match[3]).lower()) or 0
    if not 2 <= base <= 36:
        return None
    sign, digits = re.fullmatch(r"(-?)0*(.+)", match[1].replace(" ", "")).groups()
    is_too_large = any(int(digit, 36) >= base for digit in digits.replace(".", ""))
    return None if is_too_large or digits.count(".") > 1 else InBase(sign + digits, base)


def time(text: str) -> Words | None:
    """`3:30 p.m.`, and `9 a.m.` of 09:00 a.m."""
    match = _TIME.fullmatch(text)
    return match and Words("".join(filter(None, match.groups())))


def words(text: str) -> Words | None:
    r"""Words, not the product of variables: a `\text{…}`, "no", one of three letters, several with
    a longer one."""
    bare = without_text(text)
    if "\\" in bare or re.search(r"[\d=+*/^_<>|(){}\[\]]", bare):
        return None
    if re.match(r"\s*-(?:[^\W\d_]|\\text)", text):  # a negative name is none
        return None
    letters = re.findall(r"[^\W\d_]+", bare)
    has_word = any(len(word) > 3 or not word.isascii() for word in letters)
    is_marked = len(bare) != len(text)
    if not letters or not (has_word or is_marked or re.fullmatch("(?i)no|[a-z]{3}", text)):
        return None
    return Words(" ".join(letters).casefold())


def expression(text: str) -> Expr:
    r"""The expression, with its unit off: a trailing `\text{…}`, `^\circ` or the name of a known
    unit."""
    currency = _CURRENCY.match(text)
    if currency:
        name = _unit_of_money(currency[2])
        return Expr((currency[1] + text[currency.end() :]).strip(), name)
    if r"^\circ" in text and re.search(r"\\(?:sin|cos|tan|cot|sec|csc)", text):
        return Expr(text)
    match = _UNIT_IN_TEXT.search(text) or _UNIT_IN_LETTERS.search(text)
    name = unit(match[1]) if match and match.start() else None
    if name is None:
        return Expr(text)
    is_marked = match[1].startswith(("\\text", "^", "\\pmod"))
    if is_marked or is_known_unit(name) or not name or name.startswith("unit^"):
        return Expr(text[: match.start()].strip(), name)
    return Expr(text)
