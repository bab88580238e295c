"""Units of measurement: one name for each, and which of them measure the same thing."""

import re
from fractions import Fraction

from rewards.verifier.notation import is_number_word, plain, without_text
from rewards.verifier.phrases import UNIT

# Every name of one unit on one line, the first is its name here; a plural s is understood.
_UNITS = """
length: mm millimeter millimetre|cm centimeter centimetre|m meter metre|km kilometer kilometre|in inch inches inche
length: ft foot feet|yd yard|mi mile
mass: mg milligram|g gram|kg kilogram kilo|oz ounce|lb lbs pound|t ton tonne
time: s sec second|ms millisecond|min minute mins|h hr hour hrs|day d|week wk|month|year yr|decade|century centuries
volume: ml mL milliliter millilitre|l L liter litre|gal gallon|qt quart|pt pint|cup|tbsp tablespoon|tsp teaspoon
money: $ dollar usd USD buck|¢ cent|€ euro eur EUR|£ gbp GBP|¥ yen yuan|₹ rupee Rs INR
money: ₩ won KRW|₽ ruble rouble RUB|₪ shekel|₱ PHP|₫ VND|₦ NGN|₺ TRY|CHF franc|kr krona kronor krone|zł zloty PLN|元
money: R$ BRL|A$ AUD|C$ CAD|RM MYR|Rp IDR|HK$|NT$|S$
angle: deg degree|rad radian
area: ha hectare|acre
temperature: degC celsius|degF fahrenheit
energy: J joule|kJ kilojoule|cal calorie|N newton|W watt|Hz hertz|V volt|K kelvin
charge: C coulomb|A ampere|Ω ohm|mol mole|Pa pascal
"""
NAMES: dict[str, str] = {}
KINDS: dict[str, str] = {}
for _line in _UNITS.strip().splitlines():
    _kind, _, _row = _line.partition(": ")
    for _unit in _row.split("|"):
        _first = _unit.split()[0]
        KINDS[_first] = _kind
        for _word in _unit.split():
            NAMES[_word] = NAMES.setdefault(f"{_word}s", _first) if len(_word) > 1 else _first
del _line, _kind, _row, _unit, _first, _word

# How much of its kind a unit is, where another one of the kind says the same.
SIZES = {
    "mm": "1/1000",
    "cm": "1/100",
    "m": "1",
    "km": "1000",
    "mg": "1/1000",
    "g": "1",
    "kg": "1000",
    "mL": "1/1000",
}
SIZES |= {"L": "1", "s": "1", "min": "60", "h": "3600", "day": "86400", "week": "604800"}
RATES = {
    "mph": "mi / h",
    "kph": "km / h",
    "kmph": "km / h",
    "kmh": "km / h",
    "fps": "ft / s",
    "mps": "m / s",
}

# Words behind a number that change or doubt it, by their effect: they are no unit.
CHANGES = {
    "another answer": (
        "or and also plus versus vs rather instead else then either between to through till until"
        " from so"
    ),
    "a denial": (
        "no not nor never neither isn't aren't wasn't wrong incorrect false nope mistaken denied"
        " typo oops unless without except excluded"
    ),
    "a doubt": (
        "maybe perhaps might could if seems think suppose guess guessing believe hope assume"
        " assuming uncertain unsure unknown supposed alleged something anything whereas though"
        " although however while"
    ),
    "a rounding": (
        "approx approximated about around almost near close circa ish rounded estimate estimated"
        " expected give"
    ),
    "a bound": (
        "over above below under beyond upward upwards downward downwards less greater than at"
        " least most but minimum maximum max"
    ),
    "a claim": "is are was equals",
    "a month": "july",  # which would else be a doubt, as words in -ly are
    "arithmetic": (
        "times minus divided with mod modulo modulus choose root roots squareroot factorial"
        " exponent raised reciprocal inverse negative positive opposite complement conjugate"
        " remainder sine cosine theta alpha recurring repeating repeated"
    ),
    "a multiple": (
        "double doubled triple tripled halved twice thrice quarter score gross mega giga mil"
        " mille permille basis lakh lakhs crore crores"
    ),
}
_EFFECT_OF = {word: effect for effect, words in CHANGES.items() for word in words.split()}
_TOKEN = re.compile(
    r"\s*(?:([A-Za-z'$£€¥₹¢₩₽₪₱₫₦₺ł元Ω]+|\^\\circ\s*[CFKcf]?)\s*\.?(?:\s*\^\s*\{?\s*(-?[123])\s*\}?)?|([/-])|\\cdot)\s*"
)
_WORD = re.compile(r"(?<![a-z'\\])[a-z']+")  # but no LaTeX command
# Every other word in -ly is a doubt: "likely", "presumably".
_IN_LY = (
    "daily weekly monthly hourly yearly only exactly precisely family jelly butterfly early supply"
    " assembly friendly elderly"
)
NO_DOUBT = frozenset(_IN_LY.split())
AMOUNTS = {
    "quarter": Fraction(1, 4),
    "score": Fraction(20),
}  # units that are numbers too: no coins, no points
# Words that change a number right beside them, and not a sentence that has them elsewhere.
_HARMLESS = frozenset(["and", "to", "so", "from", "then", "at", "times", "quarter", "give"])
_HEDGES = (
    "either whether may possibly probably likely roughly nearly fewer smaller larger bigger half"
    " several some many few hardly nobody nothing none everything anything bound limit up exceeds"
    " exceed besides alternatively possible failed hoped tried wanted planned refused morning"
    " afternoon evening night hex octal binary decimal unclear refuse next possibility squared"
    " cubed each too someone claimed claims"
)
_HEDGED = frozenset(_HEDGES.split())
_FILLER = frozenset(["us", "of", "the", "a", "an", "in", "unit", "units"])


def unit(text: str) -> str | None:
    r"""The unit `text` names, in one spelling ("square feet" is "ft^2"), "" for none, or None if it
    is no unit.

    Any few words may be a unit ("red marbles"), but for those that change the number ("squared",
    "thirds") or doubt it; letters that may as well be variables ("xy") may not.
    """
    if ".." in text:  # an ellipsis: more follows
        return None
    if residue := re.fullmatch(
        r"\s*\\pmod\{(\w+)\}", text
    ):  # "4 (mod 9)" is 4 of the residues of 9
        return f"mod {residue[1]}"
    marked, text = r"\text" in text, re.sub(r"\^\s*\{(-?\d)\}", r"^\1", text)  # \text{g cm^{-3}}
    text = without_text(text).strip(" .")
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.end() == at:
            return None
        at = match.end()
        # "four-minute", but not "a - b"
        sign = match[3] if match[3] == "/" or match.group() == "-" else ""
        tokens.append((match[1], match[2]) if match[1] else (sign, None))
    if len(tokens) > 8:
        return None
    return _named(tokens, marked)


def _named(tokens: list[tuple[str, str | None]], marked: bool) -> str | None:
    names, power = [], None
    for at, (word, exponent) in enumerate(tokens, 1):
        low = word.lower()
        after = tokens[at][0].lower() if at < len(tokens) else ""
        harmless = (
            after.startswith("grade")
            or (is_number_word(low) and after == "-")
            or (low == "ones" and names)
        )
        # these and "scores" are left to AMOUNTS
        another_number = is_number_word(low) and low != "quarters"
        if (_effect(low) or another_number) and not harmless and (low != "times" or after):
            return None
        if low in ("squared", "cubed"):
            before = tokens[at - 2][0].lower() if at > 1 else ""
            if before not in ("unit", "units") and not (names and is_known_unit(names[-1])):
                return None
            if names:
                names[-1] += "^2" if low == "squared" else "^3"
            continue
        if low in ("square", "sq", "cubic", "cu"):
            if at == len(tokens):
                return None
            power = "2" if low.startswith("sq") else "3"
            continue
        if word.startswith("^"):
            name = "deg" + word.removeprefix(r"^\circ").strip().upper()
        else:
            name = NAMES.get(word) or NAMES.get(low) or RATES.get(low)
        scaled = re.match("(?:micro|milli|kilo|mega|giga)(?=[a-z]{3})", low)  # millicoulombs
        if name is None and (
            not _may_be_a_word(low, marked) or (scaled and low[scaled.end() :] in NAMES)
        ):
            return None
        if low in ("per", "each", "every") or (low in ("a", "an") and names):
            name = "/"
        if low in ("unit", "units") and not (exponent or power):
            continue
        if (
            low in _FILLER and name != "/" and low not in ("unit", "units") and len(tokens) > 1
        ) or low in (
            "",
            "-",
            "times",
        ):
            continue
        if exponent and exponent[0] == "-" and names:  # m s^{-1}
            names.append("/")
            exponent = exponent[1:].replace("1", "")
        name = name or (
            low[:-1] if low.endswith("s") and not low.endswith("ss") and len(low) > 3 else low
        )
        names.append(name + (f"^{exponent or power}" if exponent or power else ""))
        power = None
    return " ".join(names).replace("deg deg", "deg")


def _effect(word: str) -> str | None:
    """The name of the effect that `word`, in lower case, has on a number beside it, or None if it
    has none."""
    if word in _EFFECT_OF:
        return _EFFECT_OF[word]
    if word.endswith("n't"):
        return "a denial"
    return "a doubt" if word.endswith("ly") and word not in NO_DOUBT else None


def denies(word: str) -> bool:
    """Whether `word` denies what a sentence gives, or leaves something out of it."""
    return _effect(word.lower()) == "a denial"


def shifts(word: str) -> bool:
    """Whether `word`, in lower case, makes a sentence with one number say something else."""
    return (word not in _HARMLESS and _effect(word) not in (None, "a claim")) or word in _HEDGED


def change(text: str) -> str | None:
    """The effect and the word by which `text` changes the number in it, "a rounding, approx"; None
    if it does not."""
    words = _WORD.findall(text.lower())
    if not re.search(r"\d", text) and not any(map(is_number_word, words)):
        return None
    effects = [(effect, word) for word in words if (effect := _effect(word))]
    # "The total is under 5" is more than a claim.
    return ", ".join(min(effects, key=lambda found: found[0] == "a claim")) if effects else None


def _may_be_a_word(low: str, marked: bool) -> bool:
    if marked or low in _FILLER or low in ("/", "-", ""):
        return True
    return len(low) > 2 and re.search("[aeiouy]", low) is not None


def is_known_unit(name: str) -> bool:
    """Whether the unit `name`, as `unit` spells it, is one of those listed here."""
    return name.split("^")[0].split(" ")[0] in KINDS


def size(name: str) -> tuple[list[str], Fraction] | None:
    """What a unit measures and how much of it, `(["length", "/ time"], 5/18)` of "km / h"; None
    where unknown."""
    kinds, amount = [], Fraction(1)
    for part in name.replace("/ ", "/").split():
        base, _, power = part.lstrip("/").partition("^")
        if base not in SIZES:
            return None
        kinds.append(("/ " if part[0] == "/" else "") + KINDS[base] + power)
        amount *= Fraction(SIZES[base]) ** (int(power or 1) * (-1 if part[0] == "/" else 1))
    return kinds, amount


def asks_for_another_unit(name: str, question: str) -> bool:
    """Whether `question` asks for a number of some other unit of the same kind: minutes, and `name`
    is hours."""
    unit_of, per = _parts(name)
    kind = _kind(unit_of)
    if kind is None:
        return False
    question = re.sub(r"\\text\{([^{}]*)\}|\$", r"\1", plain(question).lower())
    asked = [_parts(unit(phrase) or "") for phrase in UNIT.regex.findall(question)]
    asked = [(u, p) for u, p in asked if _kind(u) == kind]
    return bool(asked) and not any(u == unit_of and _same_rate(kind, p, per) for u, p in asked)


def asks_for_inverse(name: str, question: str) -> bool:
    """Whether `name` is litres per kilometre where `question` asks for kilometres per litre."""
    one, per = _parts(name)
    return per is not None and any(
        _parts(unit(f"{found[1]} per {found[2]}") or "") == (per, one)
        for found in re.finditer(
            r"\bhow (?:many|much) ([a-z]+)\b[^.?]*?\b(?:per|each|every) ([a-z]+)", question.lower()
        )
    )


def _kind(name: str) -> str | None:
    """What a unit measures; areas are lengths here, for which another unit may have been asked as
    well."""
    kind = KINDS.get(name.split("^")[0])
    return "length" if kind == "area" else kind


def _same_rate(kind: str, asked: str | None, given: str | None) -> bool:
    """ "How many dollars per day" may be answered by dollars, but a speed not by a length."""
    speed = kind == "length" and {asked, given} & {"h", "min", "s"}
    return asked == given or (None in (asked, given) and not speed)


def _parts(name: str) -> tuple[str, str | None]:
    """The first unit of `name` and that by which it is divided, without its power: ("m", "s") of "m
    / s^2"."""
    first, *others = name.split(" ")
    other = next((o for o in others if o != "/"), "")
    return first, other.split("^")[0] if is_known_unit(other) else None
