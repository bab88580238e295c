r"""Tables of named phrases: words around an answer that object to it, and requests of a question.

To extend a table, add an entry to it, and to tests/rewards/verifier/examples.tsv complete responses
that it matches and similar ones that it spares. A `Table` holds the phrases that have one
consequence, and reports the phrase that decided.
"""

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Phrase:
    """A regular expression, and its name in the reason of a verdict."""

    name: str
    pattern: str

    @cached_property
    def regex(self) -> re.Pattern:
        return re.compile(self.pattern)

    def is_in(self, question: str) -> bool:
        """Whether `question` makes this request."""
        return self.regex.search(question) is not None


class Table:
    """Phrases with one consequence, a text in which `{}` is the name of the phrase that decided.

    A phrase stands between the expressions `head` and `tail`. If a text has several phrases, the
    first decides. Tables of words search text in lower case, which takes half the time of ignoring
    case.
    """

    def __init__(self, consequence: str, *phrases: Phrase, head: str = "", tail: str = "") -> None:
        self.consequence = consequence
        self.phrases = phrases
        self._head = head
        self._tail = tail

    @cached_property
    def regex(self) -> re.Pattern:
        """All phrases as one expression: most texts contain none of them, and one search shows
        it."""
        patterns = "|".join(phrase.pattern for phrase in self.phrases)
        return re.compile(f"{self._head}(?:{patterns}){self._tail}")

    @cached_property
    def _named(self) -> re.Pattern:
        """The same with a group for every phrase, which takes longer."""
        groups = "|".join(f"(?P<_{n}>{phrase.pattern})" for n, phrase in enumerate(self.phrases))
        return re.compile(f"{self._head}(?:{groups}){self._tail}")

    def search(self, text: str) -> str | None:
        """Return the consequence for `text`, or None if it contains none of the phrases."""
        match = self.regex.search(text)
        return self._consequence_at(text, match.start()) if match else None

    def match(self, text: str, start: int = 0) -> str | None:
        """Return the consequence of the phrase that begins at position `start`."""
        return self._consequence_at(text, start) if self.regex.match(text, start) else None

    def phrase(self, text: str, start: int = 0) -> Phrase:
        """Return the phrase that begins at position `start`."""
        return self.phrases[int(self._named.match(text, start).lastgroup[1:])]

    def _consequence_at(self, text: str, start: int) -> str:
        return self.consequence.format(self.phrase(text, start).name)


@dataclass(frozen=True)
class Rival(Phrase):
    """A value that is an answer too, if it is listed beside a box with a value of its kind."""

    box: str  # the pattern of the content of such a box, without spaces, dollars and \text


# fmt: off
DENIAL = r"\b(?:not|never|neither|nor|cannot|unlikely|doubt|wrong|incorrect|false)\b|n't\b"
DOUBT = r"\b(?:maybe|perhaps|possibly|probably|either|might|could|may|guess|unsure|if|whether)\b"
# Words that may stand between a denial and its answer: "I don't think the answer is".
_LINK = (
    r"(?:[\s$(,:=~}]|\\[(\[,;]|\b(?:that|the|a|an|is|are|be|it|it's|its|answers?|results?|value|equals?|"
    r"to|final|correct|thinks?|believes?|says?|knows?|true|case|sure|of|in|one|some)\b)*$"
)
# Words that may stand between a bound and its number: "at least $x = ".
_NEAR = r"(?:[\s$(*:=}]|\\[(\[]|\b(?:the|a|an|just|only|is|equal to)\b)*"
_CLOSING = r"[\s$).\]\\,}]{0,6}"  # the end of a formula or of a sentence

# ---- a denied or doubted answer

DENIED_BEFORE = Table(
    "doubted or denied: {} before it",
    Phrase("a word of denial", DENIAL),
    Phrase("a word of doubt", DOUBT),
    Phrase('"or"', r"\bor\b"),
    Phrase("nobody or nothing", r"\b(?:nobody|nothing|no one)\b"),
    Phrase("a sign of inequality", r"\\neq?(?![a-z])|≠"),
    tail=_LINK,
)

PARTIAL_BEFORE = Table(
    "not the answer itself: {} before it",
    Phrase('"one of" several', r"(?:one|some|any|all|each|both|two|most|part|none) of"
           r"(?:\s+(?:the|my|our|its|these|those|two|possible)){0,2}"),
    Phrase("another or a possible answer", r"another|possible|alternative"),
    Phrase("a rough answer", r"approximate|rough|estimated"),
    Phrase('"no"', r"no"),
    Phrase("a factor, a share or a sign",
           r"(?:twice|half|minus|negative|(?:square|root|opposite|reciprocal|double|half) of)"
           r"(?:\s+(?:the|our|its))?"),
    head=r"\b",
    tail=rf"\s+(?:(?:final )?answers?{_LINK})?$",
)

DENIED_AFTER = Table(
    "doubted or denied: {} after it",
    Phrase('"or"',
           rf"{_CLOSING}\(?or\b"
           r"(?! (?:equivalently|more precisely|in other words|about|approximately))"),
    Phrase("a word of doubt", rf"{_CLOSING}(?:\(?maybe|perhaps|possibly)"),
    Phrase("a question mark", rf"{_CLOSING}\?"),
    Phrase("a denial",
           rf"{_CLOSING}"
           r"(?:(?:is|was|seems|looks) (?:the |an? )?(?:not|wrong|incorrect|false|unlikely)"
           r"|isn't|cannot be|can't be)"),
    Phrase("a second thought", rf"{_CLOSING}(?:no,? wait|wait\b)"),
    Phrase("a clause that denies it", r"[\s$.)*,]*which (?:is|was|seems) (?:\w+ )?"
           r"(?:wrong|incorrect|false|unlikely|impossible)"),
)

# ---- an answer that is less than a number

BOUND_BEFORE = Table(
    "a bound: {} before it",
    Phrase("a comparison", rf"(?:than|exceeds?){_NEAR}"),
    Phrase('"at least" or "at most"', rf"at (?:least|most){_NEAR}"),
    Phrase('"up to"', rf"(?<!round )(?<!add )(?<!adds )(?<!\$ )up to{_NEAR}"),
    Phrase('"between"', rf"between{_NEAR}"),
    Phrase('"all but"', rf"(?:anything|everything|all|nothing) but{_NEAR}"),
    Phrase("an exception", rf"(?:instead of|except(?: for)?|excluding|without){_NEAR}"),
    Phrase('"over" or "under"', r"(?:over|under|above|below)[ $]*"),
    head=r"\b",
    tail="$",
)

# Not applied to a box with a decimal, which may be as rounded as its gold. The sign ≈ is no hedge:
# a derivation ends with it where the question asks to round.
ROUNDED_BEFORE = Table(
    "an approximation: {} before it",
    Phrase('"about"', r"about|around|close to|near"),
    Phrase('"approximately"', r"approx(?:imately|\.)?|roughly"),
    Phrase('"almost"', r"nearly|almost"),
    head=r"(?<!\\)\b",
    tail=rf"{_NEAR}$",
)

BOUND_AFTER = Table(
    "a bound: {} after it",
    Phrase("a bound or an estimate",
           r"(?:as|is) an? (?:lower|upper|minimum|maximum|bound|estimate|guess)"),
    Phrase('"at least" or "at most"', r"at (?:least|most|minimum)\b"),
    Phrase('"or more"', r"or (?:more|less)\b(?! precisely)"),
    head=r"[\s$.)*,]*",
)

# ---- mathematics right beside a box: the box is part of an expression, or one of two answers

# LaTeX commands that are no operators or functions.
_LAYOUT = (
    r"q?quad|implies|iff|[A-Za-z]*arrow|therefore|because|approx|equiv|cong|sim|begin|end|tag|label|boxed|"
    r"fbox|hline|par|noindent|item|newline|[hv]space|hfill|displaystyle|bf|rm"
)

# Several phrases look back from a character that most texts lack, `\{(?<=x\{)` for `x\{`: that is
# found much faster.
PART_BEFORE = Table(
    "part of a larger expression: {} before it",
    Phrase("a minus sign", r"[-−–]"),
    Phrase("a digit", r"\d"),
    Phrase("a root or ±", r"[√±]"),
    Phrase("a subscript", r"_"),
    Phrase("a letter", r"(?<![a-zA-Z])[a-zA-Z]"),
    Phrase("a closing parenthesis", r"\)(?<=[^\\]\))"),
    Phrase("a closing brace", r"[\d)}]\}"),
    Phrase("a ratio", r"\d:"),
    Phrase("an operator or a comparison", r"[+/^×÷·⋅<>≤≥]=?\s*\$?\s*"),
    Phrase("a minus sign after mathematics",
           r"[=\d$)}(,<>:a-zA-Z](?<!\w[a-zA-Z])\s*[-−–]\s*(?:\\?\$)?\s*"),
    Phrase("a star for times", r"[\d)}]\s*\*{1,2}|\*(?<=\b[a-zA-Z]\*)\*?"),
    Phrase("a factor or a function", r"\((?<=[\w)}]\()|\d\s*\(|\\left\s*\("),
    Phrase("an opening brace", r"\{(?<=[^\s$=]\{)|\}\s*\{"),
    Phrase("a LaTeX command",
           rf"\\(?!(?:{_LAYOUT}|to|in|colon|centering|[lL]arge|LARGE|[hH]uge)(?![a-zA-Z]))"
           r"[a-zA-Z]+\s*"),
    Phrase("a minus sign and a parenthesis", r"[-−–][ \t]*\("),
    Phrase("a minus sign and a dollar", r"[-−–]\\?\$"),
    Phrase("the first digits of a number", r"\d[.,]|\s\."),
    Phrase("a bar", r"[$=]\|"),
    Phrase("a function with an index or a power", r"\\[a-z]+[_^](?:\w|\{[^{}]*\})\s*"),
    Phrase("a fraction or a root", r"\\(?:[dtc]?frac|sqrt)(?:\{[^{}]*\})+\s*"),
    tail=r"\Z",
)

ARITHMETIC_BEFORE = Table(
    "part of a larger expression: {} before it",
    Phrase("a factor in words", r"twice|thrice|half(?: of)?"),
    Phrase("an operator in words", r"minus|plus|times|negative|divided by"),
    Phrase("a function in words", r"(?:root|square|cube|opposite|reciprocal) of"),
    head=r"\b",
    tail=r"(?:\s+the)?[\s$]*\Z",
)

PART_AFTER = Table(
    "part of a larger expression: {} after it",
    Phrase("a digit", r"\d"),
    Phrase("decimals or a ratio", r"[.,:]\d"),
    Phrase("a subscript", r"_\{?[\w\\]"),
    Phrase("a small digit or a fraction", r"[²³¹⁰⁴-⁹₀-₉¼-¾⅐-⅞]"),
    Phrase("more of a list", r"[,;][ \t$]+-?\d"),
    Phrase("a number", r"[ \t]\$?\d"),
    Phrase("a letter", r"[a-zA-Z](?![a-zA-Z])"),
    Phrase("a parenthesis", r"\((?!\s*[a-zA-Z]{2})"),
    Phrase("a minus sign and a letter", r"-[a-z]\b"),
    Phrase("an operator", r"\s*[+/×÷·⋅±]\s*(?:[\d\\(]|\$\d|[a-zA-Z](?![a-zA-Z]))"),
    Phrase("a subtraction", r"[ \t]*[-−–][ \t]*\$?[\d\\(]"),
    Phrase("a star for times", r"[ \t]*\*[ \t]*(?:[\d\\]|[a-z]\b)|\*\(|\*\*\d"),
    Phrase("a power", r"\s*\^(?!\s*\{?\s*\\circ)"),
    Phrase("a comparison",
           r"[ \t]*\$?[ \t]*(?:<[ \t]*[\d\\$a-z=]?(?:\s|$)|<\d|>[ \t]*[\d\\$]|[≤≥])"),
    Phrase("a range or a sum in words",
           r"[\s$]*(?:(?:to|through|and|plus|minus|times|divided by)\s+"
           r"(?:\$?\s*-?\d(?![^.,;\n]*=)|a half\b)|to\s+\$?\s*\\boxed)"),
    Phrase("a power or a share in words",
           r"[\s$]*(?:squared|cubed|factorial|(?:ten|hundred|thousand|million)ths)\b"),
    Phrase("an x for times", r"[\s$]*x\s*\d"),
    Phrase("a factorial or a prime", r"[!']\$"),
    Phrase("a LaTeX command", r"\s*\\(?:cdot|times)(?![a-z])"
           rf"|[ \t]*\\(?!(?:{_LAYOUT}|blacksquare|square|Box|checkmark|qed|right|"
           r"[pb]?mod|degrees?|circ)(?![a-zA-Z]))[a-zA-Z]+"),
    head=r"[)}]*",
)

_WORD = r"[A-Za-z][a-z]+"
RIVALS = Table(
    "beside another answer: {}",
    Rival("a number", r"[-−]?\d[\d.,]*(?<![.,])", box=r"[-−]?\d[\d.,]*"),
    Rival("an option's letter", r"[A-H](?![\w'.])", box=r"\(?[A-H]\)?"),
    Rival("a name", r"[A-Z][a-z]+\b", box=_WORD),
    Rival("yes or no", r"(?:yes|no)\b", box=_WORD),
    Rival("a tuple", r"\([^()\n]*,[^()\n]*\)", box=r"\(.*,.*\)"),
)

# ---- sentences that announce an answer, and words that make it less than one

LONGEST_SENTENCE = 1000  # characters of a sentence with an answer; a longer answer is wrong anyway

# Opposite directions of a change.
_OPPOSITES = [
    ("rise rises rose increase increased gain gained grow grew",
     "fall falls fell decrease decreased drop dropped"),
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
# Words between the way to the answer and the answer.
CONCLUDING = (
    r"so(?! (?:many|much|far|that|on|long)\b)|thus|hence|therefore|consequently|in conclusion|"
    r"donc|somit|folglich|por (?:lo )?tanto|así que|quindi|dunque|portanto|logo|"
    r"значит|следовательно|поэтому|итого|то есть|dolayısıyla|öyleyse|"
    r"所以|因此|故|よって|したがって|ゆえに|따라서|그러므로|इसलिए|अतः|لذلك|إذن"
)
# Announcements of an answer that goes on to the end of the sentence.
STATEMENTS = Table(
    "{}",
    Phrase('"the answer is"', r"(?:final\s+)?answers?(?:\s+to\s[^.\n]{0,60})?\s*\**\s*"
           r"(?:(?:is|are|would be)"
           r"(?:\s+(?:therefore|thus|hence|then|clearly|indeed|simply|just|exactly|equal to)\b)*"
           r"|=|:)\s*:?"),
    Phrase("a heading", r"(?:#{1,6} *|\*\*)(?:final )?answer:?(?:\*\*)?\s*\n"),
    Phrase("GSM8K's mark", r"####"),
    Phrase("Chinese", r"答案\s*(?:是|为|為|:|：)"),
    Phrase("Spanish", r"(?:la\s+)?respuesta\s*(?:final\s*)?(?:es|:)"),
    Phrase("French", r"(?:la\s+)?réponse\s*(?:finale\s*)?(?:est(?:\s+donc)?|:)"),
    Phrase("German", r"(?:die\s+)?antwort\s*(?:(?:ist|lautet)(?:\s+(?:also|somit))?|:)"),
    Phrase("Russian", r"ответ\s*(?:—|-|:)?"),
    head="(?i)",
    tail=rf"\s*\**\s*(?P<answer>[^\n]{{1,{LONGEST_SENTENCE + 1}}})",
)

# Doubts and denials within an answer.
HEDGES = Table(
    "doubted or denied: {}",
    Phrase("a word of denial", DENIAL),
    Phrase("a word of doubt", DOUBT),
    Phrase("a question mark", r"\?"),
)

# ---- requests of a question; the first four search a question in lower case

PERCENT = Phrase("a percentage",
    r"(?:what|which|how many|find)(?: is| was| are)?(?: the| an?)?(?: [a-z]+)? ?percent"
    r"|\b(?:as an?|in|a) percent")
BASE = Phrase("a base",
    r"\bbases?[\s$~\\-]*(?:\d|(?:two|three|four|five|six|seven|eight|nine|ten|twelve|sixteen|[a-z])\b)"
    r"|\d_|binary|octal|hexadecimal")
INTO_BASE = Phrase("a number in another base",  # its groups hold the base
    r"\b(?:in|to|into|as)\s+(?:an?\s+)?(?:base[\s$~\\-]*(\w+)"
    r"|(binary)|(octal)|(hexadecimal)|(decimal))")
UNIT = Phrase("a unit",  # its group holds the unit
    r"(?:how many|number of|\b[ie]n|\bem|\b(?:convert|express|change)\b[^?]{0,60}? (?:in)?to)"
    r"(?: (?:more|fewer|other|additional|extra|whole|full|total|degrees))? (?!in\b|degrees )"
    r"((?:(?:square|cubic|sq\.?|cu\.?) |\^\\circ ?)?[a-z]+(?: ?\^ ?\{?[23]\}?| squared| cubed)?"
    r"(?:(?: per | an? | ?/ ?)[a-z]+)?)")
LOWEST_TERMS = Phrase("lowest terms", r"(?i)lowest terms|simplest (?:form|terms)|reduced|simplif")
FACTORED = Phrase("a product",
    r"(?:^|[.?!:]\s*)(?:Completely )?[Ff]actor(?:ize|ise)?\b|factored form|as a product")
SIMPLIFIED = Phrase("the simplest root",
    r"(?:^|[.?!:]\s*)[Ss]implify\b|simplest (?:radical )?form|simplified")
EXPANDED = Phrase("a sum", r"\b[Ee]xpand|[Mm]ultiply out|expanded form")
ORDER = Phrase("an order",
    r"\bin (?:\w+ )?order\b(?! to\b| that\b)|(?:^|[.?!,:]\s*|\bplease )"
    r"(?:order|arrange|rank|sort)\b|"
    r"\b(?:[a-z]+est|least|most) to (?:the )?(?:[a-z]+est|least|most)|"
    r"\bfrom (?:the )?(?:first|best|top|left|winner) to (?:the )?[a-z]+|"
    r"\brespectively\b|\bcoefficients\b|\bfirst(?:,| and)(?: the)? second\b|\b[a-z]+est first\b|"
    r"\bgive (?:the )?[a-z]+ first\b")
VALUE = Phrase("a value",
    r"\b(?:evaluate|compute|calculate|simplify|remainder|integer|decimal|numerical)\b|\bvalue of\b")
BEFORE = Phrase("a time before",
    r"\b(?:before|ago|earlier|latest|must|should|until|leave|left|start|began|begin)\b")
INTERVAL = Phrase("interval notation", "interval notation")
# fmt: on


def hedge(answer: str) -> str | None:
    """Return how `answer` doubts or denies its value, or None if it does neither."""
    return HEDGES.search(re.sub(r"\b(?:in|of|by|since|and|to) May\b", "", answer).lower())
