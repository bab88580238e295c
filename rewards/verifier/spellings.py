r"""The table of spellings: what Unicode and LaTeX write in several ways, and the one way that the verifier reads.

To teach it another, add a row with an example of what it changes and of what it must leave alone; the rows are applied
in this order. tests/rewards/verifier/test_values_spellings.py fires every one of them.
"""

import unicodedata
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
    ":": "：",
    ".": "。٫",
    "%": "％",
    "...": "…",
    r" \times ": "×✕✖",
    r" \cdot ": "·⋅∙•",
    r" \infty ": "∞",
    r" \le ": "≤⩽",
    r" \ge ": "≥⩾",
    r" \ne ": "≠",
    r" \pm ": "±",
    r" \approx ": "≈",
    r" \cup ": "∪",
    r" \cap ": "∩",
    r" \in ": "∈",
    r" \emptyset ": "∅",
    r" \mathbb{R} ": "ℝ",
    r" \setminus ": "∖",
    r"^\circ ": "°º",
}
CHARACTERS = {char: written for written, chars in _CHARACTERS.items() for char in chars} | {
    chr(c): rf" \{unicodedata.name(chr(c)).split()[-1].lower()} "
    for c in range(0x3B1, 0x3CA)
    if c != 0x3C2  # α to ω
}


class Spelling(NamedTuple):
    """A row: `replacement` is written for what the regular expression `pattern` finds."""

    name: str
    pattern: str
    replacement: str
    matches: dict[str, str]  # texts, and what they become
    spares: tuple[str, ...]  # texts that stay as they are


_ONE = r"[^{}\\\s]|\\(?:pi|theta|alpha|beta)(?![a-zA-Z])"  # an argument without braces: \frac12, \frac\pi2

# fmt: off
SPELLINGS = [
    Spelling("size of a bracket", r"\\(?:left|right|[bB]igg?[lrm]?)(?![a-zA-Z])\s*\.?(?=\s*[()\[\]|\\.{}<>]|$)", "",
             {r"\left(1": "(1", r"1\Bigr]": "1]"}, (r"\leftarrow",)),
    Spelling("comma in braces between thousands", r"(?<=\d)(?:\{,\}|,\\!)\s*(?=\d{3}(?!\d))", ",",
             {"1{,}000": "1,000", r"1,\!000": "1,000"}, ("{,}5",)),
    Spelling("braces around a separator", r"\{([,:;=])\}", r"\1",
             {"1{,}2": "1,2"}, ("{a}",)),
    Spelling("apostrophe between thousands", r"(?<=\d)'(?=\d{3}(?!\d))", ",",
             {"1'000": "1,000"}, ("f'(x)",)),
    Spelling("leading tilde", r"^~(?=\s*[\d.\\])", r"\\approx ",
             {"~3": r"\approx 3"}, ("1~3",)),
    Spelling("over",
             r"\{([^{}]*)\\over(?![a-zA-Z])([^{}]*)\}|^([^{}\\]*)\\over(?![a-zA-Z])([^{}\\]*)$",
             r"\\frac{\1\3}{\2\4}",
             {r"{1 \over 2}": r"\frac{1 }{ 2}", r"1 \over 2": r"\frac{1 }{ 2}"}, (r"\overline{3}",)),
    Spelling("angle bracket on the left", r"\\langle(?![a-zA-Z])", "(",
             {r"\langle 1": "( 1"}, (r"\langles",)),
    Spelling("angle bracket on the right", r"\\rangle(?![a-zA-Z])", ")",
             {r"1\rangle": "1)"}, (r"\rangles",)),
    Spelling("union as a letter", r"(?<=[)\]])\s*U\s*(?=[(\[])", r"\\cup ",
             {"(0,1) U (2,3)": r"(0,1)\cup (2,3)"}, ("5 U",)),
    Spelling("plus before infinity", r"(?<![\w)}\]])\+\s*(?=\\infty)", "",
             {r"(0, +\infty": r"(0, \infty"}, (r"x+\infty",)),
    Spelling("negative space or phantom", r"\\!|\\[hv]?phantom(?:\{[^{}]*\})?", "",
             {r"1\!2": "12", r"\phantom{0}5": "5"}, ("1!",)),
    Spelling("space", r"(?<!\\)\\[,;:> ]|\\q?quad(?![a-zA-Z])|~|\\h?space\{[^{}]*\}", " ",
             {r"1\,2": "1 2", r"5\quad": "5 ", "5~cm": "5 cm", r"5\hspace{1em}": "5 "}, (r"\\,",)),
    Spelling("style",
             r"\\(?:displaystyle|textstyle|scriptstyle|limits|rm|bf|it|boldmath|hfill|nobreak)(?![a-zA-Z])",
             " ",
             {r"\displaystyle 1": "  1"}, (r"\item",)),
    Spelling("other fraction commands", r"\\[dtc]frac(?![a-zA-Z])", r"\\frac",
             {r"\dfrac12": r"\frac12", r"\tfrac12": r"\frac12"}, (r"\frac12",)),
    Spelling("other text commands",
             r"\\(?:textbf|textit|textrm|textnormal|textsf|texttt|mbox|hbox|mathrm|operatorname\*?|emph)\s*(?=\{)",
             r"\\text",
             {r"\textbf{cm}": r"\text{cm}", r"\operatorname{cm}": r"\text{cm}"}, (r"\textbf cm",)),
    Spelling("font of a letter",
             r"\\(?:mathbf|mathit|mathsf|mathcal|mathnormal|boldsymbol|bm|vec|overrightarrow|ensuremath)\s*(?=\{)",
             "",
             {r"\mathbf{v}": "{v}", r"\vec{v}": "{v}"}, (r"\mathbb{R}",)),
    Spelling("space before text", r"\\text\s+(?=\{)", r"\\text",
             {r"\text {cm}": r"\text{cm}"}, (r"\text{cm}",)),
    Spelling("empty text", r"\\text\{\s*\}", " ",
             {r"1\text{ }": "1 "}, (r"\text{a}",)),
    Spelling("at most", r"\\leq(?:slant)?(?![a-zA-Z])", r"\\le",
             {r"x \leq 1": r"x \le 1", r"x \leqslant 1": r"x \le 1"}, (r"\leqq",)),
    Spelling("at least", r"\\geq(?:slant)?(?![a-zA-Z])", r"\\ge",
             {r"x \geq 1": r"x \ge 1", r"x \geqslant 1": r"x \ge 1"}, (r"\geqq",)),
    Spelling("unequal", r"\\(?:neq|not\s*=)(?![a-zA-Z])", r"\\ne",
             {r"x \neq 1": r"x \ne 1", r"x \not= 1": r"x \ne 1"}, (r"\nearrow",)),
    Spelling("less in letters", r"\\lt(?![a-zA-Z])", "<",
             {r"x \lt 1": "x < 1"}, (r"\ltimes",)),
    Spelling("greater in letters", r"\\gt(?![a-zA-Z])", ">",
             {r"x \gt 1": "x > 1"}, (r"\gtr",)),
    Spelling("at most in ASCII", r"<=|=<", r"\\le ",
             {"x <= 1": r"x \le  1", "x =< 1": r"x \le  1"}, ("x < 1",)),
    Spelling("at least in ASCII", r">=|=>", r"\\ge ",
             {"x >= 1": r"x \ge  1", "x => 1": r"x \ge  1"}, ("x > 1",)),
    Spelling("unequal in ASCII", r"!=", r"\\ne ",
             {"x != 1": r"x \ne  1"}, ("5!",)),
    Spelling("left brace", r"\\(?:lbrace|\{)", r"\\{",
             {r"\lbrace 1": r"\{ 1"}, ("{1",)),
    Spelling("right brace", r"\\(?:rbrace|\})", r"\\}",
             {r"1\rbrace": r"1\}"}, ("1}",)),
    Spelling("left bracket", r"\\(?:lbrack)(?![a-zA-Z])", "[",
             {r"\lbrack 1": "[ 1"}, ("[1",)),
    Spelling("right bracket", r"\\(?:rbrack)(?![a-zA-Z])", "]",
             {r"1\rbrack": "1]"}, ("1]",)),
    Spelling("colon", r"\\colon(?![a-zA-Z])", ":",
             {r"1\colon 2": "1: 2"}, ("1:2",)),
    Spelling("ellipsis", r"\\(?:[lcd]?dots)(?![a-zA-Z])", "...",
             {r"1, \dots": "1, ...", r"1, \ldots": "1, ..."}, ("1..",)),
    Spelling("empty set", r"\\(?:varnothing)(?![a-zA-Z])", r"\\emptyset",
             {r"\varnothing": r"\emptyset"}, (r"\emptyset",)),
    Spelling("real numbers", r"\\(?:R|reals|Reals)(?![a-zA-Z])", r"\\mathbb{R}",
             {r"\R": r"\mathbb{R}", r"\reals": r"\mathbb{R}"}, (r"\Re",)),
    Spelling("degrees",
             r"\^\s*\{\s*(?:\\circ|\\degrees?)\s*\}|\\degrees?(?![a-zA-Z])|\^\s*\\circ(?![a-zA-Z])",
             r"^\\circ ",
             {r"30^{\circ}": r"30^\circ ", r"30\degree": r"30^\circ ", r"30^\circ": r"30^\circ "}, (r"f \circ g",)),
    Spelling("pounds", r"\\pounds(?![a-zA-Z])", "£",
             {r"\pounds 5": "£ 5"}, ("5 pounds",)),
    Spelling("euro", r"\\euro(?![a-zA-Z])", "€",
             {r"\euro 5": "€ 5"}, ("5 euros",)),
    Spelling("percent", r"\\%", "%",
             {r"5\%": "5%"}, ("5%",)),
    Spelling("bar over a digit", r"\\(?:bar|overline|dot)\s*(\d)", r"\\overline{\1}",
             {r"0.\bar 3": r"0.\overline{3}"}, (r"\bar x",)),
    Spelling("other bars", r"\\(?:bar|dot)(?![a-zA-Z])", r"\\overline",
             {r"\bar{3}": r"\overline{3}"}, (r"\barwedge",)),
    Spelling("fraction without braces", rf"\\frac\s*({_ONE})\s*({_ONE})", r"\\frac{\1}{\2}",
             {r"\frac12": r"\frac{1}{2}", r"\frac\pi2": r"\frac{\pi}{2}"}, (r"\frac{1}{2}",)),
    Spelling("fraction with a bare numerator", rf"\\frac\s*({_ONE})\s*(?=\{{)", r"\\frac{\1}",
             {r"\frac1{2}": r"\frac{1}{2}"}, (r"\frac{1}2",)),
    Spelling("fraction with a bare denominator", rf"\\frac\s*(\{{[^{{}}]*\}})\s*({_ONE})", r"\\frac\1{\2}",
             {r"\frac{1}2": r"\frac{1}{2}"}, (r"\frac{1}{2}",)),
    Spelling("space before a numerator", r"\\frac\s+\{", r"\\frac{",
             {r"\frac {1}{2}": r"\frac{1}{2}"}, (r"\frac{1}{2}",)),
    Spelling("space before a denominator", r"(\\frac\{[^{}]*\})\s+\{", r"\1{",
             {r"\frac{1} {2}": r"\frac{1}{2}"}, (r"\frac{1}{2}",)),
    Spelling("root without braces", r"\\sqrt\s*([^{}\\\s\[(])", r"\\sqrt{\1}",
             {r"\sqrt2": r"\sqrt{2}"}, (r"\sqrt{2}",)),
    Spelling("root of pi", r"\\sqrt\s*\\pi(?![a-zA-Z])", r"\\sqrt{\\pi}",
             {r"\sqrt\pi": r"\sqrt{\pi}"}, (r"\sqrt{\pi}",)),
    Spelling("space before a radicand", r"\\sqrt\s+\{", r"\\sqrt{",
             {r"\sqrt {2}": r"\sqrt{2}"}, (r"\sqrt{2}",)),
    Spelling("pi in letters", r"(?<![\\a-zA-Z])pi(?![a-zA-Z])", r"\\pi ",
             {"2 pi": r"2 \pi "}, ("pie",)),
    Spelling("function in letters", r"(?<![\\a-zA-Z])(sin|cos|tan|cot|sec|csc|log|ln|exp)(?![a-z])", r"\\\1",
             {"sin x": r"\sin x"}, ("sine",)),
    Spelling("root in letters", r"(?<![\\a-zA-Z])sqrt(?=\s*[\d({])", r"\\sqrt",
             {"sqrt(2)": r"\sqrt(2)"}, ("sqrt x",)),
    Spelling("mixed number in braces", r"(?<![\w^.}])(\d+)\{(\\frac\{[^{}]*\}\{[^{}]*\})\}", r"\1\2",
             {r"1{\frac{1}{2}}": r"1\frac{1}{2}"}, (r"x^2{\frac{1}{2}}",)),
    Spelling("minus infinity in words", r"(?<![\\a-zA-Z])(?:[Nn]egative|[Mm]inus) infinity(?![a-zA-Z])", r"-\\infty ",
             {"negative infinity": r"-\infty ", "minus infinity": r"-\infty "}, ("negative 5",)),
    Spelling("infinity in words", r"(?<![\\a-zA-Z])(?:positive )?[Ii]nfinity(?![a-zA-Z])", r"\\infty ",
             {"infinity": r"\infty ", "positive infinity": r"\infty "}, ("infinitys",)),
    Spelling("power as in Python", r"\*\*(?=\s*[\d({-])", "^",
             {"2**3": "2^3"}, ("a**b",)),
    Spelling("white space", r"\s+", " ",
             {"1  2": "1 2"}, ("12",)),
]
# fmt: on
