r"""One spelling for the many ways to write the same mathematics, and the exact value of a
written-out number.

`plain` turns Unicode and LaTeX variants into one LaTeX spelling, by the table `SPELLINGS`; `number`
reads integers, decimals, fractions, mixed numbers, repeating decimals, powers of ten and number
words as a `Fraction`. To teach `plain` another spelling, add a row, and to
tests/rewards/verifier/examples.tsv an example of what it changes and of what it must leave alone.
"""

import re
import unicodedata
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

MAX_DIGITS = 300  # of one number; a longer one can still be right by being spelled like the gold
_MAX_POWER_OF_TEN = 300

# What stands for each of these characters.
_CHARACTERS = {
    "-": "\u2212\u2010\u2011\u2012\u2013\u2014\u2796",  # minus signs, hyphens and dashes
    "/": "÷∕⁄",
    "'": "′’‘",
    "(": "⟨",
    ")": "⟩",
    ",": "、，٬",
    ";": "；",
    ":": "：∶",
    ".": "。٫",
    "%": "％٪﹪",
    "...": "…",
    r" \times ": "×✕✖",
    r" \cdot ": "·⋅∙•",
    r" \infty ": "∞",
    r" \le ": "≤⩽≦",
    r" \ge ": "≥⩾≧",
    r" \ne ": "≠",
    r" \pm ": "±",
    r" \approx ": "≈",
    r" \cup ": "∪",
    r" \cap ": "∩",
    r" \in ": "∈",
    r" \emptyset ": "∅",
    r" \mathbb{R} ": "ℝ",
    r" \setminus ": "∖",
    r"^\circ ": "°º˚",
}
CHARACTERS = {char: written for written, chars in _CHARACTERS.items() for char in chars} | {
    chr(c): rf" \{unicodedata.name(chr(c)).split()[-1].lower()} "
    for c in range(0x3B1, 0x3CA)
    if c != 0x3C2  # α to ω
}

# And for each of these commands of LaTeX.
_COMMANDS = {
    "(": "langle",
    ")": "rangle",
    "[": "lbrack",
    "]": "rbrack",
    r"\{": "lbrace",
    r"\}": "rbrace",
    "<": "lt",
    ">": "gt",
    ":": "colon",
    "£": "pounds",
    "€": "euro",
    "...": "dots ldots cdots ddots",
    r"\le": "leq leqslant leqq",
    r"\ge": "geq geqslant geqq",
    r"\ne": "neq",
    r"\cdot": "ast",
    r"\frac": "dfrac tfrac cfrac",
    r"\binom": "dbinom tbinom",
    r"\overline": "bar dot",
    "L": "ell",
    r"\emptyset": "varnothing",
    r"\mathbb{R}": "R reals Reals",
    " ": (
        "displaystyle textstyle scriptstyle mathstrut limits rm bf it boldmath hfill nobreak quad"
        " qquad"
    ),
}
COMMANDS = {
    command: written for written, commands in _COMMANDS.items() for command in commands.split()
}
_COMMAND = re.compile(rf"\\({'|'.join(COMMANDS)})(?![a-zA-Z])")


class Spelling(NamedTuple):
    """A row: `replacement` is written for what the regular expression `pattern` finds."""

    name: str
    needs: str  # a text without it has no match, and is not searched
    pattern: str
    replacement: str


_FUNCTION = r"(?:sin|cos|tan|cot|csc)h?|sech|(?:arc|ar)(?:sin|cos|tan|cot|sec|csc)h?|log|ln|gcd|lcm"
_ONE = (  # an argument without braces: \frac12, \frac\pi2
    r"[^{}\\\s]|\\(?:pi|theta|alpha|beta)(?![a-zA-Z])"
)

# fmt: off
SPELLINGS = [
    Spelling("size of a bracket", "\\",
             r"\\(?:left|right|[bB]igg?[lrm]?)(?![a-zA-Z])\s*\.?(?=\s*[()\[\]|\\.{}<>]|$)", ""),
    Spelling("kind of a sign", r"\math", r"\\math(?:bin|rel|ord|op)\s*(?=\{)", ""),
    Spelling("aligned", "aligned", r"\\(?:begin|end)\{aligned\}|&(?==)|(?<==)&", ""),
    Spelling("comma in braces between thousands", ",",
             r"(?<=\d)(?:\s?\{\s?\\?,\s?\}|,\\!)\s*(?=\d{3}(?!\d))", ","),
    Spelling("prime as a command", r"\prime", r"\^\s*\{?\s*\\prime(?![a-z])\s*\}?", "'"),
    Spelling("power of ten in text", r"\text", r"(?<=\d)\\text\{\s*[eE]([-+]?)\s*\}(?=[-+]?\d)",
             r"e\1"),
    Spelling("comma in braces in a decimal", "{,}", r"(?<=\d)\{,\}(?=\d{1,2}(?!\d)|\d{4})", "."),
    Spelling("braces around a sign", "{", r"(?<![a-z][a-z])\{([-+,:;=.])\}", r"\1"),
    Spelling("apostrophe between thousands", "'", r"(?<=\d)'(?=\d{3}(?!\d))", ","),
    Spelling("leading tilde", "~", r"^~(?=\s*[\d.\\])", r"\\approx "),
    Spelling("over", r"\over",
             r"\{([^{}]*)\\over(?![a-zA-Z])([^{}]*)\}|^([^{}\\]*)\\over(?![a-zA-Z])([^{}\\]*)$",
             r"\\frac{\1\3}{\2\4}"),
    Spelling("choose", r"\choose", r"\{([^{}]*)\\choose(?![a-zA-Z])([^{}]*)\}", r"\\binom{\1}{\2}"),
    Spelling("union as a letter", "U", r"(?<=[)\]])\s*U\s*(?=[(\[])", r"\\cup "),
    Spelling("plus before infinity", r"\infty", r"(?<![\w)}\]])\+\s*(?=\\infty)", ""),
    Spelling("negative space or phantom", "\\", r"\\!|\\[hv]?phantom(?:\{[^{}]*\})?", ""),
    Spelling("space", "", r"(?<!\\)\\(?:[,;:> ]|$)|~|\\h?space\{[^{}]*\}", " "),
    Spelling("function in upright letters", "\\",
             rf"\\(?:operatorname\*?|mathrm|text|textrm)\s*\{{({_FUNCTION}|"
             rf"(?:floor|ceil)(?=\}}\())\}}",
             r"\\\1 "),
    Spelling("other text commands", "\\",
             r"\\(?:textbf|textit|textrm|textnormal|textsf|texttt|"
             r"mbox|hbox|mathrm|operatorname\*?|emph)\s*(?=\{)",
             r"\\text"),
    Spelling("font of a letter", "\\",
             r"\\(?:mathbf|mathit|mathsf|mathcal|mathnormal|boldsymbol|bm|vec|overrightarrow|ensuremath)"
             r"(?:\s*(?=\{)|\s+(?=[a-z](?![a-z])))", ""),
    Spelling("real numbers without braces", r"\mathbb", r"\\mathbb ([A-Z])(?![a-zA-Z])",
             r"\\mathbb{\1}"),
    Spelling("braces around a base of a power", "{", r"(?<![\w\\}^_])\{(\d+)\}(?=\s*\^)", r"\1"),
    Spelling("size in letters", "abs(", r"(?<![\\a-zA-Z])abs\(([^()|]*)\)", r"|\1|"),
    Spelling("logarithm before a stroke", "/", r"\\(ln|log) (\d+)(?=\s*/)", r"\\\1(\2)"),
    Spelling("two indices at once", "_{1,2}", r"_\{1,2\}", ""),
    Spelling("space before text", r"\text", r"\\text\s+(?=\{)", r"\\text"),
    Spelling("empty text", r"\text", r"\\text\{\s*\}", " "),
    Spelling("residue", "mod",
             r"\s?\(?\s?(?:\\[bp]mod|\\text\{\s*\(?\s*mod\s*\}|\(\s*mod|(?<=\d) mod)"
             r"\s*\{?\s*(\d+|[mnp])\s*\}?\)?",
             r" \\pmod{\1}"),
    Spelling("set without backslashes", r"\cup",
             r"(?<=\\cup)\s*\{([^{}]*)\}|^\{([^{}]*)\}(?=\s*\\cup)", r"\\{\1\2\\}"),
    Spelling("length of a segment", "|", r"\|([A-Z]{2})\|", r"\1"),
    Spelling("at most in ASCII", "<", r"<=|=<", r"\\le "),
    Spelling("at least in ASCII", ">", r">=|=>", r"\\ge "),
    Spelling("unequal in ASCII", "=", r"!=|\\not\s*=", r"\\ne "),
    Spelling("degrees", "\\",
             r"\^\s*\{\s*(?:\\circ|\\degrees?)\s*\}|\\degrees?(?![a-zA-Z])|\^\s*\\circ(?![a-zA-Z])",
             r"^\\circ "),
    Spelling("percent", r"\%", r"\\%", "%"),
    Spelling("bar over a digit", r"\overline", r"\\overline\s*(\d)", r"\\overline{\1}"),
    Spelling("fraction without braces", "\\", rf"\\(frac|binom)\s*({_ONE})\s*({_ONE})",
             r"\\\1{\2}{\3}"),
    Spelling("fraction with a bare numerator", r"\frac", rf"\\frac\s*({_ONE})\s*(?=\{{)",
             r"\\frac{\1}"),
    Spelling("fraction with a bare denominator", r"\frac", rf"\\frac\s*(\{{[^{{}}]*\}})\s*({_ONE})",
             r"\\frac\1{\2}"),
    Spelling("space before a numerator", r"\frac", r"\\frac\s+\{", r"\\frac{"),
    Spelling("space before a denominator", r"\frac", r"(\\frac\{[^{}]*\})\s+\{", r"\1{"),
    Spelling("root without braces", r"\sqrt", r"\\sqrt\s*([^{}\\\s\[(])", r"\\sqrt{\1}"),
    Spelling("root of pi", r"\sqrt", r"\\sqrt\s*\\pi(?![a-zA-Z])", r"\\sqrt{\\pi}"),
    Spelling("space before a radicand", r"\sqrt", r"\\sqrt\s+\{", r"\\sqrt{"),
    Spelling("pi in letters", "pi", r"(?<![\\a-zA-Z])pi(?![a-zA-Z])", r"\\pi "),
    Spelling("function in letters", "",
             rf"(?<![\\a-zA-Z])({_FUNCTION}|exp|(?<!\d)(?<!\d )sec)(?![a-z])", r"\\\1"),
    Spelling("root in letters", "sqrt", r"(?<![\\a-zA-Z])sqrt(?=\s*[\d({])", r"\\sqrt"),
    Spelling("mixed number in braces", r"{\frac",
             r"(?<![\w^.}])(\d+)\{(\\frac\{[^{}]*\}\{[^{}]*\})\}", r"\1\2"),
    Spelling("minus infinity in words", "nfinity",
             r"(?<![\\a-zA-Z])(?:[Nn]egative|[Mm]inus) infinity(?![a-zA-Z])", r"-\\infty "),
    Spelling("infinity in words", "nfinity",
             r"(?<![\\a-zA-Z])(?:positive )?[Ii]nfinity(?![a-zA-Z])", r"\\infty "),
    Spelling("sign in words", "", r"^(?:[Mm]inus|[Nn]egative) (?=\d)", "-"),
    Spelling("power as in Python", "**", r"\*\*(?=\s*[\d({-])", "^"),
    Spelling("power in parentheses", "^", r"\^\s*\(\s*([+-]?\d+)\s*\)", r"^{\1}"),
    Spelling("underscore between thousands", "_", r"(?<=\d)_(?=\d{3}(?:_\d{3})*(?![\d_]))", ""),
    Spelling("fraction of something", "/",
             r"(?<![\w.)}/^])(\d+)/(\d+)(?= (?:[a-zA-Z](?![a-zA-Z])|\\pi(?![a-zA-Z])|\\sqrt))",
             r"\\frac{\1}{\2}"),
    Spelling("white space", "", r"\s+", " "),
]
# fmt: on

_TRANSLATE = str.maketrans(CHARACTERS)
_SUBSTITUTIONS = [(row.needs, re.compile(row.pattern).sub, row.replacement) for row in SPELLINGS]
_SUPER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_SUB = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_BARE = re.compile(r"-?\d+(?:\.\d+)?|[a-z]", re.ASCII)
_VULGAR = re.compile("[¼-¾⅐-⅞↉]")

_ROOT_OF_PARENTHESES = re.compile(r"\\sqrt\s*\(")
_ROOT_SIGN = re.compile(r"([√∛∜])\s*(\d+(?:\.\d+)?|[a-zA-Zπ])?")


# 1.234,50, 5,00 € and 2,5%, with a decimal comma; 1.234.567; 1,50,000 and ₹12,34,567, grouped as in
# India.
_COMMAS = re.compile(
    r"(?<![\d.,])(?:(\d{1,3}(?:[.\s]\d{3})+),(\d\d)|(\d+),(\d\d)"
    r"(?=\s*(?:€|\\text\{\s*€|euros?\b|EUR\b|kr\b|zł))|"
    r"(\d{1,2}(?:,\d\d)+,000)|(?:(?<=₹)|(?<=₹ )|(?<=Rs )|(?<=Rs\."
    r" ))(\d{1,2}(?:,\d\d)+,\d{3})|(?<=€)(\d+),(\d\d)|"
    r"(\d+),(\d\d?)(?=\s?\\?%)|(\d{1,3}(?:\.\d{3}){2,})(?!\.))(?![\d,])"
)


def _one_way(match: re.Match) -> str:
    whole, *cents = filter(None, match.groups())
    return ".".join([re.sub(r"\D", "", whole), *cents])


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
    """`text` in one spelling: Unicode signs, digits of any script and LaTeX's synonyms become one
    LaTeX form each."""
    if _BARE.fullmatch(text):
        return text
    if "$" in text:
        text = re.sub(r"\\text\{\s*\\?\$\s*\}", r"\\$", text)
    if re.search(r"[,.]\d", text):
        text = _COMMAS.sub(_one_way, text)
    if not text.isascii():
        text = "".join(c for c in text if unicodedata.category(c) != "Cf")
        text = re.sub(
            "([⁰¹²³⁴⁵⁶⁷⁸⁹]+)⁄([₀-₉]+)",
            lambda m: f" {m[1].translate(_SUPER)}/{m[2].translate(_SUB)}",
            text,
        )
        text = re.sub("[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹ⁿ]+", lambda m: f"^{{{m.group().translate(_SUPER)}}}", text)
        text = re.sub("[₀-₉]+", lambda m: f"_{{{m.group().translate(_SUB)}}}", text)
        text = re.sub(
            "(?:\\d\u0305)+", lambda m: rf"\overline{{{m.group().replace(chr(0x305), '')}}}", text
        )
        text = _VULGAR.sub(
            lambda m: r" \frac{{{}}}{{{}}}".format(
                *unicodedata.normalize("NFKC", m.group()).split("⁄")
            ),
            text,
        )
        text = unicodedata.normalize("NFKC", _ROOT_SIGN.sub(_root, text).translate(_TRANSLATE))
        text = "".join(
            str(unicodedata.decimal(c)) if not c.isascii() and c.isdecimal() else c for c in text
        )
    text = _without_dollars(text)
    if "\\" in text:
        text = _COMMAND.sub(lambda match: COMMANDS[match[1]], text)
    for needs, substitute, replacement in _SUBSTITUTIONS:
        if needs in text:
            text = substitute(replacement, text)
    return _parentheses_to_braces(text).strip()


def _without_dollars(text: str) -> str:
    r"""Math delimiters removed; a dollar sign that means money stays, as a bare `$`."""
    # not the `\\[4pt]` that ends a matrix row
    text = re.sub(r"\\[()\[\]]", " ", text.replace(r"\\", "\0"))
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


def without_text(text: str) -> str:
    r"""` and ` of `\text{and}`: what each text command holds, between spaces."""
    return re.sub(r"\\text\{([^{}]*)\}", r" \1 ", text)


# ---- brackets: any of `)]}` closes any of `([{`, as half-open intervals ask for


def depths(text: str) -> Iterator[int]:
    """How many brackets are open behind each character of `text`; below 0 where more are closed
    than were opened."""
    return accumulate((char in "([{") - (char in ")]}") for char in text)


def closing(text: str, start: int) -> int | None:
    """Index of the bracket that closes the one at `start`, or None."""
    behind = enumerate(depths(text[start:]), start)
    return next((at for at, depth in behind if depth == 0 and text[at] in ")]}"), None)


def split(text: str, separator: re.Pattern) -> list[str]:
    """`text` cut at every separator that stands outside all brackets."""
    cuts = list(separator.finditer(text))
    if not cuts:
        return [text]
    depth = list(depths(text))
    cuts = [cut for cut in cuts if depth[cut.start()] == 0]
    starts, ends = [0, *(cut.end() for cut in cuts)], [*(cut.start() for cut in cuts), len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


# ---- numbers

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d{1,3}(?: \d{3})+|\d+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.\d*)?|\.\d+)"
_SIGNED = rf"(?:[+-]?\s*{_DECIMAL})"
_FRACTION = (
    rf"(?:\\frac\{{\s*(?P<a>{_SIGNED})\s*\}}\s*\{{\s*(?P<b>{_SIGNED})\s*\}}"
    rf"|(?P<c>{_DECIMAL})\s*/\s*(?P<d>{_SIGNED}))"
)
NUMBER = re.compile(
    rf"(?P<sign>[+-]?)\s*(?:(?:(?P<whole>\d+)\s*(?:\s|(?=\\frac))\s*)?{_FRACTION}"
    r"|(?P<before>\d*)\.(?P<once>\d*)(?:\\overline\{(?P<over>\d+)\}|\((?P<parens>\d+)\)|"
    r"(?P<dots>\d)\.\.\.+)"
    rf"|(?P<decimal>{_DECIMAL})"
    r"(?:\s*(?:\\times|\\cdot|\*|[xX])\s*10\s*\^\s*\{?\s*(?P<power>[+-]?\s*\d+)(?:\s*\})?|"
    r"[eE](?P<exp>[+-]?\d+))?"
    r"|10\s*\^\s*\{?\s*(?P<ten>[+-]?\s*\d+)(?:\s*\})?)"
)

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen "
)
WORDS = {word: n for n, word in enumerate((_ONES + "eighteen nineteen").split())}
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
WORDS |= {word: 10 * n for n, word in enumerate(_TENS, 2)}
SCALES = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
PARTS = {
    "half": 2,
    "halves": 2,
    "third": 3,
    "quarter": 4,
    "fourth": 4,
    "fifth": 5,
    "sixth": 6,
    "seventh": 7,
}
PARTS |= {
    "eighth": 8,
    "ninth": 9,
    "tenth": 10,
    "eleventh": 11,
    "twelfth": 12,
    "twentieth": 20,
    "hundredth": 100,
}
PARTS |= {f"{word}th": n for word, n in WORDS.items() if 13 <= n < 20} | {
    "thousandth": 1000,
    "millionth": 10**6,
}
PARTS |= {f"{word}s": n for word, n in PARTS.items() if word != "halves"}


def base_named(name: str) -> int | None:
    """The base that "2", "two" or "binary" names."""
    if name.isdecimal():
        return int(name) if len(name) < 3 else None
    return {"binary": 2, "octal": 8, "decimal": 10, "hexadecimal": 16, "hex": 16}.get(
        name, WORDS.get(name)
    )


def is_number_word(word: str) -> bool:
    """Whether `word` is a number, a scale or a part: "six", "tens", "thousands", "thirds",
    "sixtieths"."""
    stems = {word, word.removesuffix("s"), word.removesuffix("es"), re.sub("ths?$", "", word)}
    return bool(
        (stems | {re.sub("ieths?$", "y", word)}) & (WORDS.keys() | SCALES.keys() | PARTS.keys())
    )


def number(text: str) -> Fraction | None:
    """The exact value of `text` (in `plain` spelling) if it is one written-out number, else
    None."""
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
        return (
            exact(part["decimal"]) * Fraction(10) ** power
            if abs(power) <= _MAX_POWER_OF_TEN
            else None
        )
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
    if words[:2] == ["half", "a"] and words[2:] and words[2] in SCALES and len(words) == 3:
        return Fraction(SCALES[words[2]], 2)
    if words[-1] in PARTS:
        return _spoken_fraction(words)
    if "point" in words[1:] and all(
        WORDS.get(word, 10) < 10 for word in words[words.index("point") + 1 :]
    ):
        at = words.index("point")
        whole, digits = (
            _spoken(" ".join(words[:at])),
            "".join(str(WORDS[word]) for word in words[at + 1 :]),
        )
        return (
            None
            if whole is None or not digits
            else whole + Fraction(int(digits), 10 ** len(digits))
        )
    total = group = 0
    for before, word in zip([None, *words], words, strict=False):
        n = WORDS.get(word)
        if n is not None:
            # "twenty one" and "hundred five", not "one two" and not "twenty twelve"
            if (group % 100 if n > 9 else group % 10) or (
                before in WORDS and (WORDS[before] < 20 or not 0 < n < 10)
            ):
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
    if not words[:-1] and words[-1].endswith("s"):  # "thirds"
        return None
    top = Fraction(1) if words[:-1] in ([], ["a"]) else _spoken(" ".join(words[:-1]))
    return None if whole is None or top is None else whole + top / PARTS[words[-1]]
