"""Units of measurement: one name for every unit, and which of them have the same dimension."""

import re
from fractions import Fraction

from .notation import without_text
from .numerals import is_number_word
from .tables import rows, word_lists

NAMES: dict[str, str] = {}  # by each other name of a unit, and by itself
KINDS: dict[str, str] = {}  # the dimension of a unit
PREFIXED: dict[str, tuple[str, Fraction]] = {}  # of a name with a prefix: that without, the factor


def _add_unit(kind: str, words: list[str]):
    name = NAMES.get(words[0], words[0])
    KINDS.setdefault(name, kind)
    for word in words:
        NAMES.setdefault(word, name)
        if len(word) > 1:
            NAMES.setdefault(f"{word}s", name)


for _kind, _words, *_prefixed in rows("units.tsv"):
    _add_unit(_kind, _words.split())
for _kind, _words, *_prefixed in rows("units.tsv"):
    _symbol, *_spoken = _words.split()
    for _sign, _prefix, _power, _symbols in rows("prefixes.tsv") if _prefixed else []:
        _names = [f"{_prefix}{_word}" for _word in _spoken if _word.isascii() and len(_word) > 3]
        if _symbol in _symbols.split():
            _names.insert(0, f"{_sign}{_symbol}")
        if _names:
            _add_unit(_kind, _names)
            PREFIXED[NAMES[_names[0]]] = (_symbol, Fraction(10) ** int(_power))
del _kind, _words, _prefixed, _symbol, _spoken, _sign, _prefix, _power, _symbols, _names
RATES = dict(rows("rates.tsv"))
# Words behind a number that change or doubt it, by their effect: they are no unit.
CHANGES = dict(rows("changes.tsv"))
_CHANGES = frozenset(" ".join(CHANGES.values()).split())
_TOKEN = re.compile(
    r"\s*(?:((?:[^\W\d_]|['$£€¥₹¢₩₽₪₱₫₦₺])+|\^\\circ\s*[CFKcf]?)\s*\.?(?:\s*\^\s*\{?\s*(-?[123])\s*\}?)?|([/-])|\\cdot)\s*"
)
NO_DOUBT = word_lists("words.tsv")["no doubt"]  # though they end in -ly
# units that are numbers too: no coins, no points
AMOUNTS = {"quarter": Fraction(1, 4), "score": Fraction(20)}
_UNIT_WORDS = ("unit", "units")
_FILLER = frozenset(["us", "of", "the", "a", "an", "in", *_UNIT_WORDS])
_POWERS = {"square": 2, "sq": 2, "cubic": 3, "cu": 3, "squared": 2, "cubed": 3}
_POWER_IN_WORDS = re.compile(r"(?i)(?<![a-z])(square|sq|cubic|cu)\.? ([a-z]+)")


def unit(text: str) -> str | None:
    r"""The unit `text` names, in one spelling ("square feet" is "ft^2"), "" for none, or None if it
    is no unit.

    Any few words may be a unit ("red marbles"), but for those that change the number ("squared",
    "thirds") or doubt it; letters that may as well be variables ("xy") may not.
    """
    if ".." in text:  # an ellipsis: more follows
        return None
    residue = re.fullmatch(r"\s*\\pmod\{(\w+)\}", text)
    if residue:  # "4 (mod 9)" is 4 of the residues of 9
        return f"mod {residue[1]}"
    is_marked = r"\text" in text
    text = re.sub(r"\^\s*\{(-?\d)\}", r"^\1", text)  # \text{g cm^{-3}}
    text = without_text(text).strip(" .")
    text = _POWER_IN_WORDS.sub(lambda match: f"{match[2]}^{_POWERS[match[1].lower()]}", text)
    tokens = _tokens(text)
    return None if tokens is None or len(tokens) > 8 else _name_of_tokens(tokens, is_marked)


def _tokens(text: str) -> list[tuple[str, str | None]] | None:
    """The words and signs of a unit with their exponents; None where `text` has anything else."""
    matches = list(_TOKEN.finditer(text))
    if "".join(match[0] for match in matches) != text:
        return None
    tokens = []
    for match in matches:
        if match[1]:
            tokens.append((match[1], match[2]))
        else:  # "four-minute", but not "a - b"
            is_sign = match[3] == "/" or match[0] == "-"
            tokens.append((match[3] if is_sign else "", None))
    return tokens


def _name_of_tokens(tokens: list[tuple[str, str | None]], is_marked: bool) -> str | None:
    """The name of a unit; None where a word changes the number, or may be no word at all."""
    lows = ["", *(word.lower() for word, _ in tokens), ""]
    names: list[str] = []
    for at, (word, exponent) in enumerate(tokens, start=1):
        low = lows[at]
        if _changes_number(low, lows[at + 1], not names):
            return None
        name = _name_of_word(word, is_marked, not names)
        if name is None:
            return None
        if _is_skipped(low, name, exponent, len(tokens)):
            continue
        if exponent and exponent[0] == "-" and names:  # m s^{-1}
            names.append("/")
            exponent = exponent[1:].replace("1", "")
        names.append(f"{name}^{exponent}" if exponent else name)
    return " ".join(names).replace("deg deg", "deg")


def _changes_number(low: str, after: str, is_first: bool) -> bool:
    """Whether a word, with the one after it, changes the number before it."""
    is_number = is_number_word(low)
    if after.startswith("grade") or (is_number and after == "-"):
        return False
    if (low == "ones" and not is_first) or (low == "times" and not after):
        return False
    # "quarters" and "scores" are left to AMOUNTS.
    return _is_change(low) or (is_number and low != "quarters")


def _name_of_word(word: str, is_marked: bool, is_first: bool) -> str | None:
    """The name of one word, in the singular: "/" for "per", None for letters that may be
    variables."""
    if word.startswith("^"):
        return "deg" + word.removeprefix(r"^\circ").strip().upper()
    low = word.lower()
    if low in _POWERS:  # "5 squared"
        return None
    name = NAMES.get(word) or NAMES.get(low) or RATES.get(low)
    if name is None and not _may_be_a_word(low, is_marked):
        return None
    if low in ("per", "each", "every") or (low in ("a", "an") and not is_first):
        return "/"
    is_plural = low.endswith("s") and not low.endswith("ss") and len(low) > 3
    return name or (low[:-1] if is_plural else low)


def _is_skipped(low: str, name: str, power: str | None, count: int) -> bool:
    """Whether a word adds nothing to the name of a unit of `count` words."""
    if low in _UNIT_WORDS:
        return not power
    if low in _FILLER:
        return name != "/" and count > 1
    return low in ("", "-", "times")


def _is_change(word: str) -> bool:
    """Whether `word`, in lower case, changes or doubts a number beside it."""
    return (
        word in _CHANGES or word.endswith("n't") or (word.endswith("ly") and word not in NO_DOUBT)
    )


def _may_be_a_word(low: str, is_marked: bool) -> bool:
    if is_marked or low in _FILLER or low in ("/", "-", ""):
        return True
    return len(low) > 2 and re.search("[aeiouy]", low) is not None


def is_known_unit(name: str) -> bool:
    """Whether the unit `name`, as `unit` spells it, is one of those listed in this file."""
    return name.split("^")[0].split(" ")[0] in KINDS


def without_prefixes(name: str) -> tuple[str, Fraction]:
    """A unit in units without prefixes, and how many of these it is: "m / s", 1000 of "km / s"."""
    factor = Fraction(1)
    words = []
    sign = 1
    for word in name.split(" "):
        if word == "/":
            sign = -1
        base, hat, power = word.partition("^")
        unit_name, size = PREFIXED.get(base, (base, Fraction(1)))
        factor *= size ** (sign * int(power or 1))
        words.append(unit_name + hat + power)
    return " ".join(words), factor


def parts_of(name: str) -> tuple[str, str, str | None]:
    """The first unit of `name`, its power, and the known unit that divides it: ("m", "", "s") of "m
    / s^2"."""
    first, *behind = name.split(" ")
    base, _, power = first.partition("^")
    divisor = next((part for part in behind if part != "/"), "")
    return base, power, divisor.split("^")[0] if is_known_unit(divisor) else None


def kind_of(base: str) -> str | None:
    """The dimension of a unit. An area counts as a length, for which another unit may have been
    asked as well."""
    kind = KINDS.get(base)
    return "length" if kind == "area" else kind
