r"""The mathematics right beside a box that makes it another answer, or one of two: tables as in phrases.py.

A box that is part of a larger expression is not the answer: `-\boxed{3}`, `2 \cdot \boxed{3}`, `\boxed{3}x`.
"""

from dataclasses import dataclass

from rewards.verifier.phrases import Phrase, Table

# LaTeX commands that are no operators or functions.
_LAYOUT = (
    r"q?quad|implies|iff|[A-Za-z]*arrow|therefore|because|approx|equiv|cong|sim|begin|end|tag|label|boxed|fbox|hline|par|"
    r"noindent|item|newline|[hv]space|hfill|displaystyle|bf|rm"
)

# Several phrases look back from a character that most texts lack, `\{(?<=x\{)` for `x\{`: that is found much faster.
PART_BEFORE = Table(
    "part of a larger expression: {} before it",
    Phrase(
        "a minus sign",
        r"[-−–]",
        matches=(r"-\boxed{5}", r"It is −\boxed{5}."),
        spares=("- \\boxed{5}", r"Answer - \boxed{5}", r"--> \boxed{5}"),
    ),
    Phrase("a digit", r"\d", matches=(r"2\boxed{5}", r"x = 10\boxed{5}"), spares=(r"Step 2: \boxed{5}",)),
    Phrase("a root or ±", r"[√±]", matches=(r"√\boxed{5}", r"x = ±\boxed{5}"), spares=(r"√25 = \boxed{5}",)),
    Phrase("a subscript", r"_", matches=(r"__\boxed{5}", r"a _\boxed{5}"), spares=(r"_So:_ \boxed{5}",)),
    Phrase(
        "a letter",
        r"(?<![a-zA-Z])[a-zA-Z]",
        matches=(r"x\boxed{5}", r"$y = x\boxed{5}$"),
        spares=(r"so\boxed{5}", r"x = \boxed{5}"),
    ),
    Phrase(
        "a closing parenthesis",
        r"\)(?<=[^\\]\))",
        matches=(r"(2)\boxed{5}", r"f(x)\boxed{5}"),
        spares=(r"(2+3) \boxed{5}", r"\(2+3\)\boxed{5}"),
    ),
    Phrase("a closing brace", r"[\d)}]\}", matches=(r"{2}\boxed{5}", r"{f(x)}\boxed{5}"), spares=(r"{x}\boxed{5}",)),
    Phrase("a ratio", r"\d:", matches=(r"2:\boxed{5}",), spares=(r"2: \boxed{5}",)),
    Phrase(
        "an operator or a comparison",
        r"[+/^×÷·⋅<>≤≥]=?\s*\$?\s*",
        matches=(r"2 + \boxed{5}", r"10 / $\boxed{5}$", r"x > \boxed{5}", r"x >= \boxed{5}", r"x ≤ \boxed{5}"),
        spares=(r"2 + 3 = \boxed{5}", r"<b>\boxed{5}", r"=> \boxed{5}"),
    ),
    Phrase(
        "a minus sign after mathematics",
        r"[=\d$)}(,<>:a-zA-Z](?<!\w[a-zA-Z])\s*[-−–]\s*(?:\\?\$)?\s*",
        matches=(r"7 - \boxed{5}", r"x = -\boxed{5}", r"x = - $\boxed{5}$", r"f(x) – \boxed{5}", r"x - \boxed{5}"),
        spares=(r"We are done - \boxed{5}",),
    ),
    Phrase(
        "a star for times",
        r"[\d)}]\s*\*{1,2}|\*(?<=\b[a-zA-Z]\*)\*?",
        matches=(r"2*\boxed{5}", r"2 *\boxed{5}", r"x**\boxed{5}"),
        spares=(r"**\boxed{5}**", r"So: **\boxed{5}**"),
    ),
    Phrase(
        "a factor or a function",
        r"\((?<=[\w)}]\()|\d\s*\(|\\left\s*\(",
        matches=(r"f(\boxed{5})", r"2 (\boxed{5})", r"(x)(\boxed{5})", r"\left(\boxed{5}\right)"),
        spares=(r"It is (\boxed{5})", r"\(\boxed{5}\)"),
    ),
    Phrase(
        "an opening brace",
        r"\{(?<=[^\s$=]\{)|\}\s*\{",
        matches=(r"x^{\boxed{5}}", r"\frac{1} {\boxed{5}}"),
        spares=(r"{\boxed{5}}", r"$={\boxed{5}}$"),
    ),
    Phrase(
        "a LaTeX command",
        rf"\\(?!(?:{_LAYOUT}|to|in|colon|centering|[lL]arge|LARGE|[hH]uge)(?![a-zA-Z]))[a-zA-Z]+\s*",
        matches=(r"2 \cdot \boxed{5}", r"\sin\boxed{5}", r"x \le \boxed{5}", r"\pm \boxed{5}"),
        spares=(r"\implies \boxed{5}", r"x \in \boxed{5}", r"x \approx \boxed{5.3}", r"\Large\boxed{5}"),
    ),
    Phrase(
        "a minus sign and a parenthesis",
        r"[-−–][ \t]*\(",
        matches=(r"-(\boxed{5})", r"So - (\boxed{5})"),
        spares=(r"So: (\boxed{5})",),
    ),
    Phrase(
        "a minus sign and a dollar",
        r"[-−–]\\?\$",
        matches=(r"-$\boxed{5}$", r"-\$\boxed{5}"),
        spares=(r"$\boxed{5}$",),
    ),
    Phrase(
        "the first digits of a number",
        r"\d[.,]|\s\.",
        matches=(r"3.\boxed{5}", r"1,\boxed{500}", r"It is .\boxed{5}"),
        spares=(r"Step 3. \boxed{5}", r"It is this.\boxed{5}"),
    ),
    Phrase("a bar", r"[$=]\|", matches=(r"$|\boxed{5}|$", r"x =|\boxed{5}|"), spares=(r"| x | \boxed{5} |",)),
    Phrase(
        "a function with an index or a power",
        r"\\[a-z]+[_^](?:\w|\{[^{}]*\})\s*",
        matches=(r"\log_2 \boxed{5}", r"\sin^{2} \boxed{5}"),
        spares=(r"x_2 = \boxed{5}", r"\log_2 32 = \boxed{5}"),
    ),
    Phrase(
        "a fraction or a root",
        r"\\(?:[dtc]?frac|sqrt)(?:\{[^{}]*\})+\s*",
        matches=(r"\frac{1}{2} \boxed{5}", r"\sqrt{x}\boxed{5}"),
        spares=(r"\frac{10}{2} = \boxed{5}",),
    ),
    tail=r"\Z",
)

ARITHMETIC_BEFORE = Table(
    "part of a larger expression: {} before it",
    Phrase(
        "a factor in words",
        r"twice|thrice|half(?: of)?",
        matches=(r"Twice $\boxed{5}$", r"thrice the \boxed{5}", r"half of $\boxed{5}$"),
        spares=(r"We add twice: \boxed{5}",),
    ),
    Phrase(
        "an operator in words",
        r"minus|plus|times|negative|divided by",
        matches=(r"two plus \boxed{5}", r"ten divided by the \boxed{5}", r"three times $\boxed{5}$"),
        spares=(r"We add three times: \boxed{5}",),
    ),
    Phrase(
        "a function in words",
        r"(?:root|square|cube|opposite|reciprocal) of",
        matches=(r"the cube of \boxed{5}", r"the root of $\boxed{5}$", r"the reciprocal of the $\boxed{5}$"),
        spares=(r"The square of it is \boxed{5}",),
    ),
    head=r"\b",
    tail=r"(?:\s+the)?[\s$]*\Z",
)

PART_AFTER = Table(
    "part of a larger expression: {} after it",
    Phrase("a digit", r"\d", matches=(r"\boxed{5}0",), spares=(r"\boxed{5}.",)),
    Phrase(
        "decimals or a ratio",
        r"[.,:]\d",
        matches=(r"\boxed{5}.2", r"\boxed{5},000", r"\boxed{5}:3"),
        spares=(r"\boxed{5}. 2 are left.",),
    ),
    Phrase("a subscript", r"_\{?[\w\\]", matches=(r"\boxed{5}_n", r"\boxed{5}_{\pi}"), spares=(r"\boxed{1011}_2",)),
    Phrase(
        "a small digit or a fraction",
        r"[²³¹⁰⁴-⁹₀-₉¼-¾⅐-⅞]",
        matches=(r"\boxed{5}²", r"\boxed{5}₂", r"\boxed{5}½"),
        spares=(r"\boxed{5}°",),
    ),
    Phrase(
        "more of a list",
        r"[,;][ \t$]+-?\d",
        matches=(r"\boxed{5}, 6", r"$\boxed{5}; -6$"),
        spares=(r"\boxed{5}, that is five",),
    ),
    Phrase("a number", r"[ \t]\$?\d", matches=(r"\boxed{5} 6", r"\boxed{5} $6"), spares=("\\boxed{5}\n6 are left.",)),
    Phrase("a letter", r"[a-zA-Z](?![a-zA-Z])", matches=(r"\boxed{5}x", r"(\boxed{5})x"), spares=(r"\boxed{5}cm",)),
    Phrase(
        "a parenthesis",
        r"\((?!\s*[a-zA-Z]{2})",
        matches=(r"\boxed{5}(x+1)", r"\boxed{5}(3)"),
        spares=(r"\boxed{5}(see above)", r"\boxed{5} (x+1)"),
    ),
    Phrase("a minus sign and a letter", r"-[a-z]\b", matches=(r"\boxed{5}-x",), spares=(r"\boxed{5}-based",)),
    Phrase(
        "an operator",
        r"\s*[+/×÷·⋅±]\s*(?:[\d\\(]|\$\d|[a-zA-Z](?![a-zA-Z]))",
        matches=(r"\boxed{5} + 3", r"\boxed{5}/x", r"\boxed{5} × $3", r"\boxed{5}±\sqrt{2}"),
        spares=(r"\boxed{5} + tax",),
    ),
    Phrase(
        "a subtraction",
        r"[ \t]*[-−–][ \t]*\$?[\d\\(]",
        matches=(r"\boxed{5} - 3", r"\boxed{5}−\pi", r"\boxed{5} – (x+1)"),
        spares=(r"\boxed{5} - done",),
    ),
    Phrase(
        "a star for times",
        r"[ \t]*\*[ \t]*(?:[\d\\]|[a-z]\b)|\*\(|\*\*\d",
        matches=(r"\boxed{5} * 3", r"\boxed{5}*x", r"\boxed{5}*(x+1)", r"\boxed{5}**2"),
        spares=(r"**\boxed{5}** it is",),
    ),
    Phrase(
        "a power",
        r"\s*\^(?!\s*\{?\s*\\circ)",
        matches=(r"\boxed{5}^2", r"(\boxed{5})^x"),
        spares=(r"\boxed{5}^\circ", r"\boxed{5}^{\circ}"),
    ),
    Phrase(
        "a comparison",
        r"[ \t]*\$?[ \t]*(?:<[ \t]*[\d\\$a-z=]?(?:\s|$)|<\d|>[ \t]*[\d\\$]|[≤≥])",
        matches=(r"\boxed{5} < x", r"$\boxed{5}$ <6", r"\boxed{5} > 4", r"\boxed{5} ≤ x"),
        spares=(r"\boxed{5}</b>", r"\boxed{5} > that is it"),
    ),
    Phrase(
        "a range or a sum in words",
        r"[\s$]*(?:(?:to|through|and|plus|minus|times|divided by)\s+(?:\$?\s*-?\d|a half\b)|to\s+\$?\s*\\boxed)",
        matches=(r"\boxed{5} to 6", r"$\boxed{5}$ plus $2$", r"\boxed{5} and a half", r"\boxed{5} to $\boxed{6}$"),
        spares=(r"\boxed{5} to be exact", r"\boxed{5} and that is it"),
    ),
    Phrase(
        "a power or a share in words",
        r"[\s$]*(?:squared|cubed|factorial|(?:ten|hundred|thousand|million)ths)\b",
        matches=(r"\boxed{5} squared", r"$\boxed{5}$ hundredths", r"\boxed{5} factorial"),
        spares=(r"\boxed{5} squares", r"\boxed{5} hundred"),
    ),
    Phrase("an x for times", r"[\s$]*x\s*\d", matches=(r"\boxed{5} x 3",), spares=(r"\boxed{5} xylophones",)),
    Phrase("a factorial or a prime", r"[!']\$", matches=(r"$\boxed{5}!$", r"$\boxed{5}'$"), spares=(r"$\boxed{5}$!",)),
    Phrase(
        "a LaTeX command",
        r"\s*\\(?:cdot|times)(?![a-z])"
        rf"|[ \t]*\\(?!(?:{_LAYOUT}|blacksquare|square|Box|checkmark|qed|right|[pb]?mod|degrees?|circ)(?![a-zA-Z]))"
        r"[a-zA-Z]+",
        matches=(r"\boxed{5} \cdot 2", "\\boxed{5}\n\\times 2", r"\boxed{5}\pi", r"\boxed{5} \le x"),
        spares=(r"\boxed{5} \quad", r"\boxed{5}\square", r"\boxed{5} \pmod{7}", r"\boxed{5} \approx 5"),
    ),
    head=r"[)}]*",
)


@dataclass(frozen=True)
class Rival(Phrase):
    """What would be an answer too, if it is listed beside a box that holds one of the same kind."""

    held: str  # what such a box holds, without spaces, dollars and \text


_WORD = r"[A-Za-z][a-z]+"
RIVALS = Table(
    "beside another answer: {}",
    Rival(
        "a number",
        r"[-−]?\d[\d.,]*(?<![.,])",
        held=r"[-−]?\d[\d.,]*",
        matches=(r"6, \boxed{5}", r"x = 6 or x = \boxed{5}", r"\boxed{5} & 6"),
        spares=(r"2 + 3 = 5, \boxed{5}", r"On May 3, \boxed{12}", r"x = 6, y = \boxed{5}", r"5, \boxed{5}"),
    ),
    Rival(
        "an option's letter",
        r"[A-H](?![\w'.])",
        held=r"\(?[A-H]\)?",
        matches=(r"\boxed{B} and C", r"A, \boxed{B}"),
        spares=(r"\boxed{B} and Carl", r"\boxed{5}, B"),
    ),
    Rival(
        "a name",
        r"[A-Z][a-z]+\b",
        held=_WORD,
        matches=(r"\boxed{Alice} and Bob", r"Bob and \boxed{\text{Alice}}"),
        spares=(r"Bob, \boxed{Alice}", r"Bob and \boxed{5}"),
    ),
    Rival(
        "yes or no",
        r"(?:yes|no)\b",
        held=_WORD,
        matches=(r"\boxed{yes} / no", r"yes and \boxed{no}"),
        spares=(r"\boxed{5}, yes",),
    ),
    Rival(
        "a tuple",
        r"\([^()\n]*,[^()\n]*\)",
        held=r"\(.*,.*\)",
        matches=(r"\boxed{(1,2)}, (3,4)", r"(3,4) and \boxed{(1,2)}"),
        spares=(r"From (3,4), \boxed{(1,2)}", r"(3,4) and \boxed{5}"),
    ),
)
