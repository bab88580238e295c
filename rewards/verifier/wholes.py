r"""Spellings of a whole answer: `3\mathbf{i}+4\mathbf{j}` is `(3,4)`, `0x1F` is `1F_{16}`, "third
place" is `3 place`.

`respelled` writes an answer, in `plain` spelling, as `value` reads it. A row applies to a whole
text alone, where what it changes inside a longer one could mean something else.
tests/rewards/verifier/examples.tsv has examples of what a row changes and of what it leaves alone.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from rewards.verifier.notation import split
from rewards.verifier.numerals import PARTS, WORDS, base_named, number

_N = r"\d+(?:\.\d+)?"
_THINGS = (
    "(?:place|position|day|floor|term|row|page|number|grade|month|year|week|house|student|person|"
    "level|prize|letter|"
    "digit|quadrant|century|card|step|room|power|percentile|player|team)"
)
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_ORDINALS = {
    "first": 1,
    "second": 2,
    **{word: n for word, n in PARTS.items() if 2 < n <= 100 and word[-1] == "h"},
}
_ORDINALS |= {"third": 3, "fourth": 4} | {
    word[:-1] + "ieth": n for word, n in WORDS.items() if word.endswith("ty")
}
_ORDINAL = "|".join(_ORDINALS)
_COEFFICIENT = rf"(?:{_N}|\\frac\{{\d+\}}\{{\d+\}}|\d*\\sqrt\{{\d+\}})"
_GROUPS = re.compile(r";|\\text\{\s*(?:or|and)\s*\}|(?<![a-zA-Z\\])(?:or|and)(?![a-zA-Z])")
TURNED = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le"}
_BASES = {"b": 2, "o": 8, "x": 16}
_END = r"[\[\]()]"
_RANGE = rf"{_END}\s*[^\[\]()]+[,;][^\[\]()]+{_END}"


class Whole(NamedTuple):
    """A row: what `replacement` makes of a match with all of a text; None leaves the text as it
    is."""

    name: str
    pattern: str
    replacement: Callable[[re.Match], str | None]


def _ordinal(match: re.Match) -> str | None:
    n = int(match["n"])
    wanted = "th" if 10 < n % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{match['thing'] or ' ordinal'}" if match["ends"] == wanted else None


def _ordinal_in_words(match: re.Match) -> str | None:
    *tens, last = re.split("[- ]", match["word"].lower())
    n = _ORDINALS.get(last)
    if n is None or (tens and (n > 9 or WORDS.get(tens[0], 0) < 20)):
        return None
    # "third" may be a share
    plain_part = last in PARTS and not tens and not match["the"] and not match["thing"]
    return (
        None
        if plain_part
        else f"{n + sum(WORDS[word] for word in tens)}{match['thing'] or ' ordinal'}"
    )


def _coordinates(match: re.Match) -> str | None:
    r"""`2i - j` as (2,-1); not `3 + 4i`, which is a complex number."""
    text = re.sub(r"\\hat|\s", "", match[1].replace(r"\imath", "i").replace(r"\jmath", "j"))
    text = re.sub(r"\{+([ijk])\}+", r"\1", text)
    if not re.fullmatch(rf"(?:(?:^|[+-])[+-]?{_COEFFICIENT}?\*?[ijk])+", text):
        return None
    terms = re.findall(rf"([+-]?)({_COEFFICIENT}?)\*?([ijk])", text)
    factors = {letter: sign.replace("+", "") + (factor or "1") for sign, factor, letter in terms}
    if len(factors) < len(terms) or len(factors) < 2:
        return None
    letters = "ijk" if "k" in factors else "ij"
    return "(" + ",".join(factors.get(letter, "0") for letter in letters) + ")"


def _solutions(match: re.Match) -> str | None:
    """`p=5,q=2;p=7,q=2` as points, the names in alphabetical order."""
    parts = split(match[0], _GROUPS)
    if all(
        len(set(re.findall(r"[a-z]_\{?(\d)", part))) == 1 for part in parts
    ):  # x_1=2,y_1=3;x_2=3,y_2=2
        parts = [re.sub(r"(?<=[a-z])_(?:\d|\{\d\})", "", part) for part in parts]
    groups = [dict(re.findall(r"([a-z](?:_\w)?)\s*=\s*([^=,]+)", part)) for part in parts]
    equations = [part.count("=") for part in parts]
    if len(groups) < 2 or len(groups[0]) < 2 or any(g.keys() != groups[0].keys() for g in groups):
        return None
    if equations != [len(g) for g in groups]:
        return None
    return ", ".join(
        "(" + ",".join(group[name].strip() for name in sorted(group)) + ")" for group in groups
    )


def _named(match: re.Match) -> str | None:
    names = [name.strip() for name in match[1].split(":")]
    return match[2] if names == sorted(set(names)) else None


def _outward(match: re.Match) -> str | None:
    r"""`]0,5[` as (0,5): a bracket that looks outward leaves its end out."""
    turned = re.sub(
        _RANGE,
        lambda m: (
            ("(" if m[0][0] == "]" else m[0][0])
            + m[0][1:-1]
            + (")" if m[0][-1] == "[" else m[0][-1])
        ),
        match[0],
    )
    return turned if turned != match[0] else None


def _multiple(match: re.Match) -> str | None:
    r"""`\frac{1}{5}(3,4)` as (3/5,4/5)."""
    factor, *parts = (
        number(match[1]),
        *re.split(r"([,;&]|\\\\|\\(?:begin|end)\{\w+\}|[()])", match[2]),
    )
    terms = [part if n % 2 or not part.strip() else number(part) for n, part in enumerate(parts)]
    if None in terms:
        return None
    return "".join(term if isinstance(term, str) else str(factor * term) for term in terms)


def _of_integers(match: re.Match) -> str | None:
    r"""`x = n\pi`, n any integer, with the letter k."""
    renamed = re.sub(rf"(?<![a-zA-Z\\]){match[2]}(?![a-zA-Z])", "k", match[1])
    return rf"{renamed}, k \in \mathbb{{Z}}" if renamed != match[1] or match[2] == "k" else None


def _roman(match: re.Match) -> str | None:
    """`3 quadrant` of "III", `18 century` of "XVIII century", `1 player` of "Player 1"."""
    digits = [
        {"I": 1, "V": 5, "X": 10, "L": 50}[letter]
        for letter in match["roman"] or match["only"] or ""
    ]
    n = match["n"] or sum(
        -digit if digit < after else digit
        for digit, after in zip(digits, [*digits[1:], 0], strict=True)
    )
    return (
        f"{n}{(match['after'] or ' ' + (match['thing'] or 'quadrant')).lower()}"
        if match[0] != "I"
        else None
    )


def _in_base(match: re.Match) -> str | None:
    name = (match["before"] or match["behind"]).lower()
    digits = match["a"] or match["b"]
    return f"{digits.upper()}_{{{base_named(name)}}}" if base_named(name) else None


# Sentences that say, in several languages, that there is no solution.
_NO_SOLUTION = (
    r"(?i)(?:there are )?none|(?:(?:there (?:is|are|exists?)|(?:it|the"
    r" (?:equation|system|inequality)|this equation) "
    r"has|we get) )?no "
    r"(?:such )?(?:(?:real|integer|whole|complex|valid|rational|such)"
    r" )?(?:solutions?|roots?|(?:values? of )?[a-z])"
    r"(?: exists?)?(?: (?:in|over|among) the reals)?|(?:(?:es gibt|die gleichung hat) )?keine"
    r" (?:reellen? )?"
    r"lösung(?:en)?|(?:(?:il n'y a|l'équation n'a) )?(?:aucune|pas de) solutions?(?:"
    r" réelles?)?|(?:no (?:hay|tiene|"
    r"existe)|sin) soluci(?:ón|ones)(?: real(?:es)?)?|无解|無解|解なし"
)

# fmt: off
WHOLES = [
    Whole("half of the day in words",
          r"(?i)(\d{1,2}(?::\d\d)?)(?: o'clock)? in the (?:(morning)|afternoon|evening)",
          lambda m: f"{m[1]} {'a' if m[2] else 'p'}.m."),
    Whole("clock of other languages",
          r"(\d{1,2})\s*(?:h|Uhr|[時时点點시]|[.:](?=\d\d\s*Uhr\b)|:(?=\d\d\s*h\b))"
          r"\s*([0-5]\d)(?:\s*(?:Uhr|h|[分분]))?",
          lambda m: f"{m[1]}:{m[2]}"),
    Whole("no solution", _NO_SOLUTION, lambda m: r"\text{no solution}"),
    Whole("vector in angle brackets", r"((?:[^<>=]*=\s*)?)<([^<>=]+,[^<>=]+)>",
          lambda m: f"{m[1]}({m[2]})"),
    Whole("transposed row",
          r"((?:[^=]*=\s*)?)[(\[]([^()\[\]]+,[^()\[\]]+)[)\]]"
          r"\s*\^\s*\{?\s*(?:T|\\top|\\intercal)\s*\}?",
          lambda m: f"{m[1]}({m[2]})"),
    *(Whole(f"parts {a} and {b}",
            rf"\(?{a}\)\s*([^();,]+?)\s*[;,]?\s*\(?{b}\)\s*([^();,]+?)"
            rf"(?:\s*[;,]?\s*\(?{c}\)\s*([^();,]+))?",
            lambda m: f"({'; '.join(filter(None, m.groups()))})")
      for a, b, c in (("1", "2", "3"), ("a", "b", "c"), ("i", "ii", "iii"))),
    Whole("column in square brackets", r"\[((?:\s*\[[^\[\],]+\]\s*,?)+)\]",
          lambda m: r"\begin{pmatrix}" + re.sub("] *,? *.", chr(92) * 4, m[1].strip(" ,")[1:-1])
          + r"\end{pmatrix}"),
    Whole("point by its name", r"[A-Z]('?\s*(?:\([^()]*[,;][^()]*\)))",
          lambda m: m[1].lstrip("' ")),
    Whole("sides of a rectangle", rf"({_N})(?: ?\\?[a-z]*)? by ({_N})",
          lambda m: rf"{m[1]} \times {m[2]}"),
    Whole("set by a rule, without its braces",
          r"([a-z])\s*(?:\\in\s*\\mathbb\{R\})?\s*(?::|\||\\mid)\s*((?=.*(?:[<>]|\\[lgn]e)).*\1.*)",
          lambda m: m[2]),
    Whole("sets without backslashes", r"\{[^{}\\]*\}(?:\s*,\s*\{[^{}\\]*\})+",
          lambda m: m[0].replace("{", r"\{").replace("}", r"\}")),
    Whole("diagonal matrix", r"\\text\{diag\}\s*\(([^(),]+),([^(),]+)\)",
          lambda m: rf"\begin{{pmatrix}}{m[1]}&0\\0&{m[2]}\end{{pmatrix}}"),
    Whole("bar between coordinates", r"[A-Z]?'?\s*\(([^()|]+)\|([^()|]+)\)",
          lambda m: f"({m[1]},{m[2]})"),
    Whole("for all",
          r"([^=]+=.*?),?\s*(?:\\text\{\s*)?for (?:all|every) (?:real )?(?:numbers? )?\}?\s*[a-z]"
          r"(?:\s*\\in\s*\\mathbb\{R\})?", lambda m: m[1]),
    Whole("date", rf"(?i)(?:the )?(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({_MONTHS})|"
          rf"({_MONTHS}) (?:the )?(\d{{1,2}})(?:st|nd|rd|th)?",
          lambda m: f"{(m[2] or m[3]).capitalize()} day {m[1] or m[4]}"),
    Whole("unit vectors", r"(?:[^=]*=\s*)?([^=,;]*[ijk](?:math)?\}*)", _coordinates),
    Whole("several solutions", r"[^<>(]*=[^<>(]*=[^<>(]*", _solutions),
    Whole("points with or between them",
          r"(?=.*\))((?:\([^()]*,[^()]*\)\s*or\s*)+\([^()]*,[^()]*\))",
          lambda m: None if "infty" in m[0] else re.sub(r"\)\s*or\s*\(", "), (", m[0])),
    Whole("named ratio",
          r"([a-zA-Z](?:\w|_\{\w+\})*(?:\s*:\s*[a-zA-Z](?:\w|_\{\w+\})*)+)"
          r"\s*(?:=|::)\s*([^=]*:[^=]*)",
          _named),
    Whole("bracket that looks outward", rf"(?:[a-z]\s*\\in\s*)?{_RANGE}(?:\s*\\cup\s*{_RANGE})*",
          _outward),
    Whole("multiple of a point or a matrix",
          r"(\d+|\\frac\{\d+\}\{\d+\})\s*(?:\\cdot\s*)?(\([^()]*,[^()]*\)|"
          r"\\begin\{[pb]matrix\}.*\\end\{[pb]matrix\})",
          _multiple),
    Whole("letter of the integers",
          r"(.+?)[\s,;]*(?:\\text\{\s*)?\(?(?:where |for )?(?:any |all |every )?"
          r"(?:integers? )?([kmnlt])"
          r"(?:\s*\\in\s*\\mathbb\{Z\}| is an?y? (?:arbitrary )?integer)\)?\s*\}?", _of_integers),
    Whole("bar over digits in a base", r"\\overline\s*\{([\dA-F]+)\}\s*(_.+)",
          lambda m: m[1] + m[2]),
    Whole("size of a variable",
          r"\|\s*([a-z])\s*\|\s*(<|>|\\le|\\ge)(?![a-z])\s*([\d./]+|\\frac\{\d+\}\{\d+\})",
          lambda m: f"{m[1]} {m[2]} {m[3]} {'and' if m[2] in ('<', chr(92) + 'le') else 'or'} "
          f"{m[1]} {TURNED[m[2]]} -{m[3]}"),
    Whole("prefix of a base", r"(-?)0([bxo])([\da-fA-F]+)",
          lambda m: f"{m[1]}{m[3].upper()}_{{{_BASES[m[2]]}}}"),
    Whole("name of a base",
          r"(?i)(?:(?P<before>binary|octal|hex\w*|decimal)\s+(?P<a>[\da-f]+(?:\.[\da-f]+)?)|"
          r"(?P<b>[\da-f]+(?:\.[\da-f]+)?)\s*(?:in\s+|\(\s*)?"
          r"(?P<behind>binary|octal|hex\w*|decimal)\s*\)?)",
          _in_base),
    Whole("ordinal",
          rf"(?:the )?(?P<n>\d+)\s*-?\^?\s*\{{?\s*(?:\\text\{{\s*)?"
          rf"(?P<ends>st|nd|rd|th)\s*\}}?\s*\}}?(?P<thing> {_THINGS})?", _ordinal),
    Whole("quadrant, century or player",
          r"(?:the )?(?P<roman>[IVXL]+)(?P<after>(?i: quadrant| century))|"
          r"(?:(?i:quadrant) )?(?P<only>I{1,3}|IV)|"
          r"(?i:(?P<thing>quadrant|player|team)) (?P<n>[1-9])",
          _roman),
    Whole("ordinal in words",
          rf"(?i)(?P<the>the )?(?P<word>(?:[a-z]+ty[- ])?(?:{_ORDINAL}))(?P<thing> {_THINGS})?",
          _ordinal_in_words),
    Whole("power of ten in words",
          rf"({_N}) times 10 ?(?:\^ ?\{{?|to the (?:power (?:of )?)?)(negative |-)?(\d+)"
          r"(?:st|nd|rd|th)?\}?(?: power)?",
          lambda m: rf"{m[1]} \times 10^{{{'-' if m[2] else ''}{m[3]}}}"),
]
# fmt: on
_COMPILED = [(re.compile(row.pattern), row.replacement) for row in WHOLES]


def respelled(text: str) -> str:
    """`text`, or what the first row that applies makes of it."""
    if len(text) > 200:
        return text
    for pattern, replacement in _COMPILED:
        match = pattern.fullmatch(text)
        spelled = replacement(match) if match else None
        if spelled is not None:
            return spelled
    return text
