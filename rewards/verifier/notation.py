r"""One spelling for the many ways to write the same mathematics.

`plain` turns Unicode and LaTeX variants into one LaTeX spelling, by the table `SPELLINGS`. To teach
it another spelling, add a row, and to tests/rewards/verifier/examples.tsv an example of what it
changes and of what it must leave alone.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

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
CHARACTERS = {char: written for written, chars in _CHARACTERS.items() for char in chars}
for _char in "αβγδεζηθικλμνξοπρστυφχψω":
    CHARACTERS[_char] = rf" \{unicodedata.name(_char).split()[-1].lower()} "
del _char

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
    Spelling("colour or underline", "\\",
             r"\\(?:(?:text)?color(?:box)?\s*\{\s*[a-zA-Z]+\s*\}|underline(?=\s*\{))\s*", ""),
    Spelling("number in an upright letter", r"\math", r"\\mathrm\s*\{\s*([eid])\s*\}", r"\1 "),
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
    Spelling("infinity as in Python", "", r"(?<![a-zA-Z\\])(?:oo|[Ii]nf|infty)(?![a-zA-Z])",
             r"\\infty "),
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


def _with_point(match: re.Match) -> str:
    """The number without separators and with a decimal point."""
    integer, *decimals = filter(None, match.groups())
    return ".".join([re.sub(r"\D", "", integer), *decimals])


def _root(match: re.Match) -> str:
    command = {"√": r"\sqrt", "∛": r"\sqrt[3]", "∜": r"\sqrt[4]"}[match[1]]
    return f"{command}{{{match[2]}}}" if match[2] else command


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
        text = _COMMAS.sub(_with_point, text)
    if not text.isascii():
        text = _in_ascii(text)
    text = _without_dollars(text)
    if "\\" in text:
        text = _COMMAND.sub(lambda match: COMMANDS[match[1]], text)
    for needs, substitute, replacement in _SUBSTITUTIONS:
        if needs in text:
            text = substitute(replacement, text)
    return _parentheses_to_braces(text).strip()


def _in_ascii(text: str) -> str:
    """`text` with LaTeX for the signs of Unicode."""
    text = "".join(char for char in text if unicodedata.category(char) != "Cf")
    text = re.sub("([⁰¹²³⁴⁵⁶⁷⁸⁹]+)⁄([₀-₉]+)", _fraction, text)
    text = re.sub("[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹ⁿ]+", lambda m: f"^{{{m[0].translate(_SUPER)}}}", text)
    text = re.sub("[₀-₉]+", lambda m: f"_{{{m[0].translate(_SUB)}}}", text)
    text = re.sub("(?:\\d\u0305)+", _overlined, text)
    text = _VULGAR.sub(_vulgar_fraction, text)
    text = unicodedata.normalize("NFKC", _ROOT_SIGN.sub(_root, text).translate(_TRANSLATE))
    return "".join(map(_as_ascii_digit, text))


def _fraction(match: re.Match) -> str:
    return f" {match[1].translate(_SUPER)}/{match[2].translate(_SUB)}"


def _overlined(match: re.Match) -> str:
    digits = match[0].replace("\u0305", "")
    return rf"\overline{{{digits}}}"


def _vulgar_fraction(match: re.Match) -> str:
    top, bottom = unicodedata.normalize("NFKC", match[0]).split("⁄")
    return rf" \frac{{{top}}}{{{bottom}}}"


def _as_ascii_digit(char: str) -> str:
    is_foreign_digit = not char.isascii() and char.isdecimal()
    return str(unicodedata.decimal(char)) if is_foreign_digit else char


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
    parts = []
    start = 0
    for cut in cuts:
        parts.append(text[start : cut.start()])
        start = cut.end()
    return [*parts, text[start:]]
