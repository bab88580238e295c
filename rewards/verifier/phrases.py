r"""What the words around an answer make of it, and what a question asks for: tables of named
phrases.

A person extends a table by adding an entry. A `Phrase` shows, in whole responses, what it matches
and what it spares; tests/rewards/verifier/test_phrases.py holds it to that. A `Table` holds the
phrases that have one consequence and says which of them decided.
"""

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Phrase:
    """A regular expression, and the name under which a verdict's reason gives it."""

    name: str
    pattern: str
    matches: tuple[str, ...]  # responses in which it decides
    spares: tuple[str, ...]  # similar responses in which it does not, and which have an answer

    def __post_init__(self) -> None:
        if not (self.matches and self.spares):
            raise ValueError(
                f"the phrase {self.name!r} needs examples of what it matches and of what it spares"
            )

    @cached_property
    def regex(self) -> re.Pattern:
        return re.compile(self.pattern)

    def of(self, question: str) -> bool:
        """Whether `question` makes this request."""
        return self.regex.search(question) is not None


class Table:
    """Phrases with one consequence: `says`, in which `{}` is the name of the phrase that decided.

    Each stands between the expressions `head` and `tail`. Of several phrases in a text the one that
    begins first decides. Tables of words are asked about text in lower case, which takes half the
    time of ignoring case.
    """

    def __init__(self, says: str, *phrases: Phrase, head: str = "", tail: str = "") -> None:
        self.says, self.phrases = says, phrases
        self._head, self._tail = head, tail

    @cached_property
    def regex(self) -> re.Pattern:
        """All phrases as one expression: most texts contain none of them, and one search finds that
        out."""
        return re.compile(
            f"{self._head}(?:{'|'.join(phrase.pattern for phrase in self.phrases)}){self._tail}"
        )

    @cached_property
    def _named(self) -> re.Pattern:
        """The same with a group for each phrase, which takes longer."""
        groups = "|".join(f"(?P<_{n}>{phrase.pattern})" for n, phrase in enumerate(self.phrases))
        return re.compile(f"{self._head}(?:{groups}){self._tail}")

    def search(self, text: str) -> str | None:
        """What the table says about `text`, or None if it contains none of the phrases."""
        found = self.regex.search(text)
        return found and self._said(text, found.start())

    def match(self, text: str, at: int = 0) -> str | None:
        """The same for a phrase that begins at position `at`."""
        return self._said(text, at) if self.regex.match(text, at) else None

    def phrase(self, text: str, at: int = 0) -> Phrase:
        """Which of the phrases it is that begins at position `at`."""
        return self.phrases[int(self._named.match(text, at).lastgroup[1:])]

    def _said(self, text: str, at: int) -> str:
        return self.says.format(self.phrase(text, at).name)


@dataclass(frozen=True)
class Rival(Phrase):
    """What would be an answer too, if it is listed beside a box that holds one of the same kind."""

    held: str  # what such a box holds, without spaces, dollars and \text


# fmt: off
DENIAL = r"\b(?:not|never|neither|nor|cannot|unlikely|doubt|wrong|incorrect|false)\b|n't\b"
DOUBT = r"\b(?:maybe|perhaps|possibly|probably|either|might|could|may|guess|unsure|if|whether)\b"
# What may stand between a denial and what it denies: "I don't think the answer is".
_LINK = (
    r"(?:[\s$(,:=~}]|\\[(\[,;]|\b(?:that|the|a|an|is|are|be|it|it's|its|answers?|results?|value|equals?|to|final|correct|"
    r"thinks?|believes?|says?|knows?|true|case|sure|of|in|one|some)\b)*$"
)
# What may stand between a bound and its number: "at least $x = ".
_NEAR = r"(?:[\s$(*:=}]|\\[(\[]|\b(?:the|a|an|just|only|is|equal to)\b)*"
_CLOSING = r"[\s$).\]\\,}]{0,6}"  # the end of a formula or of a sentence

# ---- an answer that is taken back

DENIED_BEFORE = Table(
    "doubted or denied: {} before it",
    Phrase("a word of denial", DENIAL,
           matches=(r"It is not \boxed{5}.", r"I don't think the answer is \boxed{5}.", r"$x \not= \boxed{5}$"),
           spares=(r"Not all eggs are sold, so it is \boxed{5}.", r"That is wrong. We get \boxed{5}.")),
    Phrase("a word of doubt", DOUBT,
           matches=(r"Maybe it is \boxed{5}.", r"The answer might be \boxed{5}.", "I guess the answer is 5."),
           spares=(r"If we add 2 and 3, we get \boxed{5}.", "Maybe I should add 2 and 3. The answer is 5.")),
    Phrase('"or"', r"\bor\b", matches=(r"It is $x$ or \boxed{5}.", "Either way, or the answer is 5."),
           spares=(r"$x = \boxed{5}$ or $x = \boxed{-2}$", r"Add 2 or 3 more to get \boxed{5}.")),
    Phrase("nobody or nothing", r"\b(?:nobody|nothing|no one)\b",
           matches=(r"Nobody believes it is \boxed{5}.", r"No one knows that it's \boxed{5}."),
           spares=(r"Nobody eats the other eggs, so she sells \boxed{5}.",)),
    Phrase("a sign of inequality", r"\\neq?(?![a-z])|≠",
           matches=(r"$x \neq \boxed{5}$", r"$x \ne \boxed{5}$", r"x ≠ \boxed{5}"),
           spares=(r"$x \ne 0$, so $x = \boxed{5}$",)),
    tail=_LINK,
)

PARTIAL_BEFORE = Table(
    "not the answer itself: {} before it",
    Phrase('"one of" several', r"(?:one|some|any|all|each|both|two|most|part|none) of"
           r"(?:\s+(?:the|my|our|its|these|those|two|possible)){0,2}",
           matches=(r"One of the answers is \boxed{5}.", "Part of the answer is 5."),
           spares=(r"One of the eggs breaks, so the answer is \boxed{5}.", "All of them are sold. The answer is 5.")),
    Phrase("another or a possible answer", r"another|possible|alternative",
           matches=(r"Another answer is \boxed{5}.", "A possible answer is 5."),
           spares=(r"Another way gives \boxed{5}.",)),
    Phrase("a rough answer", r"approximate|rough|estimated",
           matches=(r"A rough answer is \boxed{5}.", "The approximate answer is 5."),
           spares=(r"A rough sketch shows \boxed{5}.",)),
    Phrase('"no"', r"no", matches=(r"No answer is \boxed{5}.",), spares=(r"No, the answer is \boxed{5}.",)),
    Phrase("a factor, a share or a sign",
           r"(?:twice|half|minus|negative|(?:square|root|opposite|reciprocal|double|half) of)(?:\s+(?:the|our|its))?",
           matches=(r"Twice the answer is \boxed{5}.", "The square of our answer is 5.", r"It is minus \boxed{5}."),
           spares=(r"Half the eggs are sold; the answer is \boxed{5}.",)),
    head=r"\b",
    tail=rf"\s+(?:(?:final )?answers?{_LINK})?$",
)

DENIED_AFTER = Table(
    "doubted or denied: {} after it",
    Phrase('"or"', rf"{_CLOSING}\(?or\b(?! (?:equivalently|more precisely|in other words|about|approximately))",
           matches=(r"\boxed{5} or six", r"$\boxed{5}$ (or 6)", r"\boxed{5}. Or is it"),
           spares=(r"\boxed{5}, or equivalently five", r"\boxed{5} or about five", r"\boxed{5} orders")),
    Phrase("a word of doubt", rf"{_CLOSING}(?:\(?maybe|perhaps|possibly)",
           matches=(r"\boxed{5}, perhaps", r"\boxed{5} (maybe)", r"\boxed{5}, possibly"),
           spares=(r"\boxed{5} is what we get. Perhaps it looks small.",)),
    Phrase("a question mark", rf"{_CLOSING}\?",
           matches=(r"Is it \boxed{5}?", r"$\boxed{5}$ ?"), spares=(r"\boxed{5}! Was that so hard?",)),
    Phrase("a denial", rf"{_CLOSING}(?:(?:is|was|seems|looks) (?:the |an? )?(?:not|wrong|incorrect|false|unlikely)"
           r"|isn't|cannot be|can't be)",
           matches=(r"\boxed{5} is wrong.", r"\boxed{5} is the wrong one", r"\boxed{5} isn't it",
                    r"\boxed{5} cannot be"),
           spares=(r"\boxed{5} is right. It was wrong to add 7.",)),
    Phrase("a second thought", rf"{_CLOSING}(?:no,? wait|wait\b)",
           matches=(r"\boxed{5}. Wait, I forgot one.", r"\boxed{5}. No, wait."),
           spares=(r"\boxed{5}. Now we are done.", r"\boxed{5} waiters")),
    Phrase("a clause that denies it",
           r"[\s$.)*,]*which (?:is|was|seems) (?:\w+ )?(?:wrong|incorrect|false|unlikely|impossible)",
           matches=(r"\boxed{5}, which is wrong", r"\boxed{5}, which seems quite impossible"),
           spares=(r"\boxed{5}, which is prime",)),
)

# ---- an answer that says less than a number does

BOUND_BEFORE = Table(
    "a bound: {} before it",
    Phrase("a comparison", rf"(?:than|exceeds?){_NEAR}",
           matches=(r"It is more than \boxed{5}.", r"It exceeds $\boxed{5}$."),
           spares=(r"There are more than three hens, which lay \boxed{5}.",)),
    Phrase('"at least" or "at most"', rf"at (?:least|most){_NEAR}",
           matches=(r"at least \boxed{5}", r"It is at most equal to $\boxed{5}$."),
           spares=(r"At least three hens lay \boxed{5}.",)),
    Phrase('"up to"', rf"(?<!round )(?<!add )(?<!adds )(?<!\$ )up to{_NEAR}",
           matches=(r"up to \boxed{5}",), spares=(r"We round up to \boxed{5}.", r"They add up to \boxed{5}.")),
    Phrase('"between"', rf"between{_NEAR}",
           matches=(r"between \boxed{5}",), spares=(r"The difference between them is \boxed{5}.",)),
    Phrase('"all but"', rf"(?:anything|everything|all|nothing) but{_NEAR}",
           matches=(r"anything but the \boxed{5}", r"all but \boxed{5}"), spares=(r"all but one hen, so \boxed{5}",)),
    Phrase("an exception", rf"(?:instead of|except(?: for)?|excluding|without){_NEAR}",
           matches=(r"instead of \boxed{5}", r"all numbers except for \boxed{5}", r"all without \boxed{5}"),
           spares=(r"without the broken egg \boxed{5}",)),
    Phrase('"over" or "under"', r"(?:over|under|above|below)[ $]*",
           matches=(r"over \boxed{5}", r"just below $\boxed{5}$"),
           spares=(r"The sum over all hens is \boxed{5}.", r"As shown above: \boxed{5}")),
    head=r"\b",
    tail="$",
)

# Not asked where the box holds a decimal, which may be as rounded as its gold. The sign ≈ is no
# hedge: a derivation ends with it where the question asks to round.
ROUNDED_BEFORE = Table(
    "an approximation: {} before it",
    Phrase('"about"', r"about|around|close to|near", matches=(r"about \boxed{5}", r"It is close to $\boxed{5}$."),
           spares=(r"about \boxed{5.3}", r"It is about eggs: there are \boxed{5}.", r"$x \approx \boxed{5}$")),
    Phrase('"approximately"', r"approx(?:imately|\.)?|roughly",
           matches=(r"approximately \boxed{5}", r"approx. \boxed{5}", r"roughly \boxed{5}"),
           spares=(r"roughly \boxed{5.3}",)),
    Phrase('"almost"', r"nearly|almost",
           matches=(r"nearly \boxed{5}", r"almost \boxed{5}"), spares=(r"Almost done: \boxed{5}",)),
    head=r"(?<!\\)\b",
    tail=rf"{_NEAR}$",
)

BOUND_AFTER = Table(
    "a bound: {} after it",
    Phrase("a bound or an estimate", r"(?:as|is) an? (?:lower|upper|minimum|maximum|bound|estimate|guess)",
           matches=(r"\boxed{5} as a lower bound", r"\boxed{5} is an estimate"),
           spares=(r"\boxed{5} is a prime number",)),
    Phrase('"at least" or "at most"', r"at (?:least|most|minimum)\b",
           matches=(r"\boxed{5} at least", r"\boxed{5} at minimum"), spares=(r"\boxed{5} at last",)),
    Phrase('"or more"', r"or (?:more|less)\b(?! precisely)",
           matches=(r"**\boxed{5}** or more",), spares=(r"**\boxed{5}** or more precisely five",)),
    head=r"[\s$.)*,]*",
)

# ---- the mathematics right beside a box that makes it part of a larger expression, or one of two
# answers

# LaTeX commands that are no operators or functions.
_LAYOUT = (
    r"q?quad|implies|iff|[A-Za-z]*arrow|therefore|because|approx|equiv|cong|sim|begin|end|tag|label|boxed|fbox|hline|par|"
    r"noindent|item|newline|[hv]space|hfill|displaystyle|bf|rm"
)

# Several phrases look back from a character that most texts lack, `\{(?<=x\{)` for `x\{`: that is
# found much faster.
PART_BEFORE = Table(
    "part of a larger expression: {} before it",
    Phrase("a minus sign", r"[-−–]", matches=(r"-\boxed{5}", r"It is −\boxed{5}."),
           spares=("- \\boxed{5}", r"Answer - \boxed{5}", r"--> \boxed{5}")),
    Phrase("a digit", r"\d", matches=(r"2\boxed{5}", r"x = 10\boxed{5}"), spares=(r"Step 2: \boxed{5}",)),
    Phrase("a root or ±", r"[√±]", matches=(r"√\boxed{5}", r"x = ±\boxed{5}"), spares=(r"√25 = \boxed{5}",)),
    Phrase("a subscript", r"_", matches=(r"__\boxed{5}", r"a _\boxed{5}"), spares=(r"_So:_ \boxed{5}",)),
    Phrase("a letter", r"(?<![a-zA-Z])[a-zA-Z]",
           matches=(r"x\boxed{5}", r"$y = x\boxed{5}$"), spares=(r"so\boxed{5}", r"x = \boxed{5}")),
    Phrase("a closing parenthesis", r"\)(?<=[^\\]\))",
           matches=(r"(2)\boxed{5}", r"f(x)\boxed{5}"), spares=(r"(2+3) \boxed{5}", r"\(2+3\)\boxed{5}")),
    Phrase("a closing brace", r"[\d)}]\}", matches=(r"{2}\boxed{5}", r"{f(x)}\boxed{5}"), spares=(r"{x}\boxed{5}",)),
    Phrase("a ratio", r"\d:", matches=(r"2:\boxed{5}",), spares=(r"2: \boxed{5}",)),
    Phrase("an operator or a comparison", r"[+/^×÷·⋅<>≤≥]=?\s*\$?\s*",
           matches=(r"2 + \boxed{5}", r"10 / $\boxed{5}$", r"x > \boxed{5}", r"x >= \boxed{5}", r"x ≤ \boxed{5}"),
           spares=(r"2 + 3 = \boxed{5}", r"<b>\boxed{5}", r"=> \boxed{5}")),
    Phrase("a minus sign after mathematics", r"[=\d$)}(,<>:a-zA-Z](?<!\w[a-zA-Z])\s*[-−–]\s*(?:\\?\$)?\s*",
           matches=(r"7 - \boxed{5}", r"x = -\boxed{5}", r"x = - $\boxed{5}$", r"f(x) – \boxed{5}", r"x - \boxed{5}"),
           spares=(r"We are done - \boxed{5}",)),
    Phrase("a star for times", r"[\d)}]\s*\*{1,2}|\*(?<=\b[a-zA-Z]\*)\*?",
           matches=(r"2*\boxed{5}", r"2 *\boxed{5}", r"x**\boxed{5}"), spares=(r"**\boxed{5}**", r"So: **\boxed{5}**")),
    Phrase("a factor or a function", r"\((?<=[\w)}]\()|\d\s*\(|\\left\s*\(",
           matches=(r"f(\boxed{5})", r"2 (\boxed{5})", r"(x)(\boxed{5})", r"\left(\boxed{5}\right)"),
           spares=(r"It is (\boxed{5})", r"\(\boxed{5}\)")),
    Phrase("an opening brace", r"\{(?<=[^\s$=]\{)|\}\s*\{",
           matches=(r"x^{\boxed{5}}", r"\frac{1} {\boxed{5}}"), spares=(r"{\boxed{5}}", r"$={\boxed{5}}$")),
    Phrase("a LaTeX command",
           rf"\\(?!(?:{_LAYOUT}|to|in|colon|centering|[lL]arge|LARGE|[hH]uge)(?![a-zA-Z]))[a-zA-Z]+\s*",
           matches=(r"2 \cdot \boxed{5}", r"\sin\boxed{5}", r"x \le \boxed{5}", r"\pm \boxed{5}"),
           spares=(r"\implies \boxed{5}", r"x \in \boxed{5}", r"x \approx \boxed{5.3}", r"\Large\boxed{5}")),
    Phrase("a minus sign and a parenthesis", r"[-−–][ \t]*\(",
           matches=(r"-(\boxed{5})", r"So - (\boxed{5})"), spares=(r"So: (\boxed{5})",)),
    Phrase("a minus sign and a dollar", r"[-−–]\\?\$",
           matches=(r"-$\boxed{5}$", r"-\$\boxed{5}"), spares=(r"$\boxed{5}$",)),
    Phrase("the first digits of a number", r"\d[.,]|\s\.",
           matches=(r"3.\boxed{5}", r"1,\boxed{500}", r"It is .\boxed{5}"),
           spares=(r"Step 3. \boxed{5}", r"It is this.\boxed{5}")),
    Phrase("a bar", r"[$=]\|", matches=(r"$|\boxed{5}|$", r"x =|\boxed{5}|"), spares=(r"| x | \boxed{5} |",)),
    Phrase("a function with an index or a power", r"\\[a-z]+[_^](?:\w|\{[^{}]*\})\s*",
           matches=(r"\log_2 \boxed{5}", r"\sin^{2} \boxed{5}"), spares=(r"x_2 = \boxed{5}", r"\log_2 32 = \boxed{5}")),
    Phrase("a fraction or a root", r"\\(?:[dtc]?frac|sqrt)(?:\{[^{}]*\})+\s*",
           matches=(r"\frac{1}{2} \boxed{5}", r"\sqrt{x}\boxed{5}"), spares=(r"\frac{10}{2} = \boxed{5}",)),
    tail=r"\Z",
)

ARITHMETIC_BEFORE = Table(
    "part of a larger expression: {} before it",
    Phrase("a factor in words", r"twice|thrice|half(?: of)?",
           matches=(r"Twice $\boxed{5}$", r"thrice the \boxed{5}", r"half of $\boxed{5}$"),
           spares=(r"We add twice: \boxed{5}",)),
    Phrase("an operator in words", r"minus|plus|times|negative|divided by",
           matches=(r"two plus \boxed{5}", r"ten divided by the \boxed{5}", r"three times $\boxed{5}$"),
           spares=(r"We add three times: \boxed{5}",)),
    Phrase("a function in words", r"(?:root|square|cube|opposite|reciprocal) of",
           matches=(r"the cube of \boxed{5}", r"the root of $\boxed{5}$", r"the reciprocal of the $\boxed{5}$"),
           spares=(r"The square of it is \boxed{5}",)),
    head=r"\b",
    tail=r"(?:\s+the)?[\s$]*\Z",
)

PART_AFTER = Table(
    "part of a larger expression: {} after it",
    Phrase("a digit", r"\d", matches=(r"\boxed{5}0",), spares=(r"\boxed{5}.",)),
    Phrase("decimals or a ratio", r"[.,:]\d",
           matches=(r"\boxed{5}.2", r"\boxed{5},000", r"\boxed{5}:3"), spares=(r"\boxed{5}. 2 are left.",)),
    Phrase("a subscript", r"_\{?[\w\\]", matches=(r"\boxed{5}_n", r"\boxed{5}_{\pi}"), spares=(r"\boxed{1011}_2",)),
    Phrase("a small digit or a fraction", r"[²³¹⁰⁴-⁹₀-₉¼-¾⅐-⅞]",
           matches=(r"\boxed{5}²", r"\boxed{5}₂", r"\boxed{5}½"), spares=(r"\boxed{5}°",)),
    Phrase("more of a list", r"[,;][ \t$]+-?\d",
           matches=(r"\boxed{5}, 6", r"$\boxed{5}; -6$"), spares=(r"\boxed{5}, that is five",)),
    Phrase("a number", r"[ \t]\$?\d", matches=(r"\boxed{5} 6", r"\boxed{5} $6"), spares=("\\boxed{5}\n6 are left.",)),
    Phrase("a letter", r"[a-zA-Z](?![a-zA-Z])", matches=(r"\boxed{5}x", r"(\boxed{5})x"), spares=(r"\boxed{5}cm",)),
    Phrase("a parenthesis", r"\((?!\s*[a-zA-Z]{2})",
           matches=(r"\boxed{5}(x+1)", r"\boxed{5}(3)"), spares=(r"\boxed{5}(see above)", r"\boxed{5} (x+1)")),
    Phrase("a minus sign and a letter", r"-[a-z]\b", matches=(r"\boxed{5}-x",), spares=(r"\boxed{5}-based",)),
    Phrase("an operator", r"\s*[+/×÷·⋅±]\s*(?:[\d\\(]|\$\d|[a-zA-Z](?![a-zA-Z]))",
           matches=(r"\boxed{5} + 3", r"\boxed{5}/x", r"\boxed{5} × $3", r"\boxed{5}±\sqrt{2}"),
           spares=(r"\boxed{5} + tax",)),
    Phrase("a subtraction", r"[ \t]*[-−–][ \t]*\$?[\d\\(]",
           matches=(r"\boxed{5} - 3", r"\boxed{5}−\pi", r"\boxed{5} – (x+1)"), spares=(r"\boxed{5} - done",)),
    Phrase("a star for times", r"[ \t]*\*[ \t]*(?:[\d\\]|[a-z]\b)|\*\(|\*\*\d",
           matches=(r"\boxed{5} * 3", r"\boxed{5}*x", r"\boxed{5}*(x+1)", r"\boxed{5}**2"),
           spares=(r"**\boxed{5}** it is",)),
    Phrase("a power", r"\s*\^(?!\s*\{?\s*\\circ)",
           matches=(r"\boxed{5}^2", r"(\boxed{5})^x"), spares=(r"\boxed{5}^\circ", r"\boxed{5}^{\circ}")),
    Phrase("a comparison", r"[ \t]*\$?[ \t]*(?:<[ \t]*[\d\\$a-z=]?(?:\s|$)|<\d|>[ \t]*[\d\\$]|[≤≥])",
           matches=(r"\boxed{5} < x", r"$\boxed{5}$ <6", r"\boxed{5} > 4", r"\boxed{5} ≤ x"),
           spares=(r"\boxed{5}</b>", r"\boxed{5} > that is it")),
    Phrase("a range or a sum in words",
           r"[\s$]*(?:(?:to|through|and|plus|minus|times|divided by)\s+(?:\$?\s*-?\d(?![^.,;\n]*=)|a half\b)|"
           r"to\s+\$?\s*\\boxed)",
           matches=(r"\boxed{5} to 6", r"$\boxed{5}$ plus $2$", r"\boxed{5} and a half", r"\boxed{5} to $\boxed{6}$"),
           spares=(r"\boxed{5} to be exact", r"\boxed{5} and that is it", r"$\boxed{5}$ and $2^3 = 8$")),
    Phrase("a power or a share in words", r"[\s$]*(?:squared|cubed|factorial|(?:ten|hundred|thousand|million)ths)\b",
           matches=(r"\boxed{5} squared", r"$\boxed{5}$ hundredths", r"\boxed{5} factorial"),
           spares=(r"\boxed{5} squares", r"\boxed{5} hundred")),
    Phrase("an x for times", r"[\s$]*x\s*\d", matches=(r"\boxed{5} x 3",), spares=(r"\boxed{5} xylophones",)),
    Phrase("a factorial or a prime", r"[!']\$", matches=(r"$\boxed{5}!$", r"$\boxed{5}'$"), spares=(r"$\boxed{5}$!",)),
    Phrase("a LaTeX command", r"\s*\\(?:cdot|times)(?![a-z])"
           rf"|[ \t]*\\(?!(?:{_LAYOUT}|blacksquare|square|Box|checkmark|qed|right|[pb]?mod|degrees?|circ)(?![a-zA-Z]))"
           r"[a-zA-Z]+",
           matches=(r"\boxed{5} \cdot 2", "\\boxed{5}\n\\times 2", r"\boxed{5}\pi", r"\boxed{5} \le x"),
           spares=(r"\boxed{5} \quad", r"\boxed{5}\square", r"\boxed{5} \pmod{7}", r"\boxed{5} \approx 5")),
    head=r"[)}]*",
)

_WORD = r"[A-Za-z][a-z]+"
RIVALS = Table(
    "beside another answer: {}",
    Rival("a number", r"[-−]?\d[\d.,]*(?<![.,])",
          held=r"[-−]?\d[\d.,]*", matches=(r"6, \boxed{5}", r"x = 6 or x = \boxed{5}", r"\boxed{5} & 6"),
          spares=(r"2 + 3 = 5, \boxed{5}", r"On May 3, \boxed{12}", r"x = 6, y = \boxed{5}", r"5, \boxed{5}")),
    Rival("an option's letter", r"[A-H](?![\w'.])",
          held=r"\(?[A-H]\)?", matches=(r"\boxed{B} and C", r"A, \boxed{B}"),
          spares=(r"\boxed{B} and Carl", r"\boxed{5}, B")),
    Rival("a name", r"[A-Z][a-z]+\b",
          held=_WORD, matches=(r"\boxed{Alice} and Bob", r"Bob and \boxed{\text{Alice}}"),
          spares=(r"Bob, \boxed{Alice}", r"Bob and \boxed{5}")),
    Rival("yes or no", r"(?:yes|no)\b",
          held=_WORD, matches=(r"\boxed{yes} / no", r"yes and \boxed{no}"), spares=(r"\boxed{5}, yes",)),
    Rival("a tuple", r"\([^()\n]*,[^()\n]*\)",
          held=r"\(.*,.*\)", matches=(r"\boxed{(1,2)}, (3,4)", r"(3,4) and \boxed{(1,2)}"),
          spares=(r"From (3,4), \boxed{(1,2)}", r"(3,4) and \boxed{5}")),
)

# ---- how a sentence gives an answer, and what in it makes the answer less than one

LONGEST_SENTENCE = 1000  # characters of a sentence with an answer; a longer answer is wrong anyway

# Which way something goes, and the other way.
_OPPOSITES = [
    ("rise rises rose increase increased gain gained grow grew", "fall falls fell decrease decreased drop dropped"),
    ("profit", "loss"),
    ("more", "fewer"),
    ("older", "younger"),
    ("late later", "early earlier"),
    ("taller longer", "shorter"),
    ("north", "south"),
    ("east", "west"),
    ("up upwards", "down downwards"),
]
OPPOSITES = [tuple(frozenset(words.split()) for words in pair) for pair in _OPPOSITES]
# What leads from the way to the answer.
CONCLUDING = (
    r"so(?! (?:many|much|far|that|on|long)\b)|thus|hence|therefore|consequently|in conclusion|donc|somit|folglich|por "
    r"(?:lo )?tanto|así que|quindi|dunque|portanto|logo|значит|следовательно|поэтому|итого|то есть|dolayısıyla|öyleyse|"
    r"所以|因此|故|よって|したがって|ゆえに|따라서|그러므로|इसलिए|अतः|لذلك|إذن"
)
# What announces an answer that goes on to the end of the sentence.
STATEMENTS = Table(
    "{}",
    Phrase('"the answer is"', r"(?:final\s+)?answers?(?:\s+to\s[^.\n]{0,60})?\s*\**\s*"
           r"(?:(?:is|are|would be)(?:\s+(?:therefore|thus|hence|then|clearly|indeed|simply|just|exactly|equal to)\b)*"
           r"|=|:)\s*:?",
           matches=("We add. The answer is 5.", "**Answer:** 5", "The answer to the question would be exactly 5."),
           spares=("I answer with 5.",)),
    Phrase("a heading", r"(?:#{1,6} *|\*\*)(?:final )?answer:?(?:\*\*)?\s*\n",
           matches=("## Final answer\n5", "**Answer**\n\n5"), spares=("## Answer 5",)),
    Phrase("GSM8K's mark", r"####", matches=("We add.\n#### 5",), spares=("### 5",)),
    Phrase("Chinese", r"答案\s*(?:是|为|為|:|：)", matches=("答案是5。", "答案：5"), spares=("答案5",)),
    Phrase("Spanish", r"(?:la\s+)?respuesta\s*(?:final\s*)?(?:es|:)",
           matches=("La respuesta es 5.", "Respuesta final: 5"), spares=("La respuesta 5",)),
    Phrase("French", r"(?:la\s+)?réponse\s*(?:finale\s*)?(?:est(?:\s+donc)?|:)",
           matches=("La réponse est 5.", "Réponse finale : 5"), spares=("La réponse 5",)),
    Phrase("German", r"(?:die\s+)?antwort\s*(?:(?:ist|lautet)(?:\s+(?:also|somit))?|:)",
           matches=("Die Antwort lautet 5.", "Antwort: 5"), spares=("Die Antwort 5",)),
    Phrase("Russian", r"ответ\s*(?:—|-|:)?", matches=("Ответ: 5", "Ответ — 5"), spares=("Отвёт: 5",)),
    head="(?i)",
    tail=rf"\s*\**\s*(?P<answer>[^\n]{{1,{LONGEST_SENTENCE + 1}}})",
)

# Doubts and denials within an answer.
HEDGES = Table(
    "doubted or denied: {}",
    Phrase("a word of denial", DENIAL,
           matches=("It is wrong that she has 5 eggs.", "She doesn't say that she has 5 eggs."),
           spares=("She knows that she has 5 eggs.",)),
    Phrase("a word of doubt", DOUBT,
           matches=("Maybe she has 5 eggs.", "I guess she has 5 eggs.", "She has 5 eggs since they could break."),
           spares=("The guests have 5 eggs.",)),
    Phrase("a question mark", r"\?", matches=("Really? It is 5.",), spares=("Really! It is 5.",)),
)

# ---- what a question asks for; the first four are looked for in a question in lower case

PERCENT = Phrase(
    "a percentage",
    r"(?:what|which|how many|find)(?: is| was| are)?(?: the| an?)?(?: [a-z]+)? ?percent|\b(?:as an?|in|a) percent",
    matches=("what percent of 50 is 10?", "find the percentage of girls", "write 1/4 as a percent"),
    spares=("20 percent of the 50 apples are red. how many are green?", "the price falls by ten percent"))
BASE = Phrase(
    "a base",
    r"\bbases?[\s$~\\-]*(?:\d|(?:two|three|four|five|six|seven|eight|nine|ten|twelve|sixteen|[a-z])\b)|\d_|binary|octal|hexadecimal",
    matches=("write 11 in base 2", "in base six, what is 5 + 5?", "what is 101_2 + 11_2?", "in base $b$", "as binary"),
    spares=("the base of a triangle is 5 long", "how many baseballs are there?"))
INTO_BASE = Phrase(  # its groups hold the base
    "a number in another base",
    r"\b(?:in|to|into|as)\s+(?:an?\s+)?(?:base[\s$~\\-]*(\w+)|(binary)|(octal)|(hexadecimal)|(decimal))",
    matches=("convert 101_2 to base 10", "write it in base $7$", "as a decimal", "into binary"),
    spares=("the base 5 number 14", "in the basement"))
UNIT = Phrase(  # its group holds the unit
    "a unit",
    r"(?:how many|number of|\b[ie]n|\bem|\b(?:convert|express|change)\b[^?]{0,60}? (?:in)?to)"
    r"(?: (?:more|fewer|other|additional|extra|whole|full|total|degrees))? (?!in\b|degrees )"
    r"((?:(?:square|cubic|sq\.?|cu\.?) |\^\\circ ?)?[a-z]+(?: ?\^ ?\{?[23]\}?| squared| cubed)?"
    r"(?:(?: per | an? | ?/ ?)[a-z]+)?)",
    matches=("how many minutes is that?", "what is its area in square feet?", "the number of extra dollars"),
    spares=("how long does it take?", "what is 2 + 2?"))
LOWEST_TERMS = Phrase(
    "lowest terms", r"(?i)lowest terms|simplest (?:form|terms)|reduced|simplif",
    matches=("Express it in lowest terms.", "in simplest form", "as a reduced fraction", "Simplify $6/8$."),
    spares=("What is the lowest of its terms?", "the simplest way"))
FACTORED = Phrase(
    "a product", r"(?:^|[.?!:]\s*)(?:Completely )?[Ff]actor(?:ize|ise)?\b|factored form|as a product",
    matches=("Factor $x^2-1$.", "Let a > 0. Factorise $a^2-a$.", "Completely factor it.", "Write it in factored form."),
    spares=("What is the largest factor of 12?", "Factoring is hard. What is 2 + 2?"))
SIMPLIFIED = Phrase(
    "the simplest root", r"(?:^|[.?!:]\s*)[Ss]implify\b|simplest (?:radical )?form|simplified",
    matches=("Simplify $\\sqrt{72}$.", "Give it in simplest radical form."), spares=("Use the simplest way.",))
EXPANDED = Phrase(
    "a sum", r"\b[Ee]xpand|[Mm]ultiply out|expanded form",
    matches=("Expand $(x+1)^2$.", "Please multiply out.", "What is its expanded form?"),
    spares=("What is 2 times 3?", "The gas is unexpanded."))
ORDER = Phrase(
    "an order",
    r"\bin (?:\w+ )?order\b(?! to\b| that\b)|(?:^|[.?!,:]\s*|\bplease )(?:order|arrange|rank|sort)\b|"
    r"\b(?:[a-z]+est|least|most) to (?:the )?(?:[a-z]+est|least|most)|"
    r"\bfrom (?:the )?(?:first|best|top|left|winner) to (?:the )?[a-z]+|"
    r"\brespectively\b|\bcoefficients\b|\bfirst(?:,| and)(?: the)? second\b|\b[a-z]+est first\b|"
    r"\bgive (?:the )?[a-z]+ first\b",
    matches=("list them in ascending order.", "order them by age.", "from least to greatest", "who is first, second"),
    spares=("in order to win, which two cards does she need?", "which of them are the oldest?", "arrangements"))
VALUE = Phrase(
    "a value",
    r"\b(?:evaluate|compute|calculate|simplify|remainder|integer|decimal|numerical)\b|\bvalue of\b",
    matches=("compute the number of ways", "find the value of n", "as an integer"),
    spares=("in how many ways can it be done?",))
BEFORE = Phrase(
    "a time before", r"\b(?:before|ago|earlier|latest|must|should|until|leave|left|start|began|begin)\b",
    matches=("when did it start?", "what time was it an hour ago?"), spares=("when does it end?",))
INTERVAL = Phrase(
    "interval notation", "interval notation",
    matches=("Express your answer in interval notation.",), spares=("On which interval is it positive?",))
# fmt: on


def hedge(answer: str) -> str | None:
    """How `answer` doubts or denies what it says, or None if it does neither."""
    return HEDGES.search(re.sub(r"\b(?:in|of|by|since|and|to) May\b", "", answer).lower())
