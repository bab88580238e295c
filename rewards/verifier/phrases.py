r"""What the words around an answer make of it: tables of named phrases, which a person extends by adding an entry.

A `Phrase` shows, in whole responses, what it matches and what it spares; tests/rewards/verifier/test_phrases.py holds
it to that. A `Table` holds the phrases that have one consequence and says which of them decided. The tables for the
mathematics around a box are in surroundings.py.
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
            raise ValueError(f"the phrase {self.name!r} needs examples of what it matches and of what it spares")


class Table:
    """Phrases with one consequence: `says`, in which `{}` is the name of the phrase that decided.

    Each stands between the expressions `head` and `tail`. Of several phrases in a text the one that begins first
    decides. Tables of words are asked about text in lower case, which takes half the time of ignoring case.
    """

    def __init__(self, says: str, *phrases: Phrase, head: str = "", tail: str = "") -> None:
        self.says, self.phrases = says, phrases
        self._head, self._tail = head, tail

    @cached_property
    def regex(self) -> re.Pattern:
        """All phrases as one expression: most texts contain none of them, and one search finds that out."""
        return re.compile(f"{self._head}(?:{'|'.join(phrase.pattern for phrase in self.phrases)}){self._tail}")

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
    Phrase(
        "a word of denial",
        DENIAL,
        matches=(r"It is not \boxed{5}.", r"I don't think the answer is \boxed{5}.", r"$x \not= \boxed{5}$"),
        spares=(r"Not all eggs are sold, so it is \boxed{5}.", r"That is wrong. We get \boxed{5}."),
    ),
    Phrase(
        "a word of doubt",
        DOUBT,
        matches=(r"Maybe it is \boxed{5}.", r"The answer might be \boxed{5}.", "I guess the answer is 5."),
        spares=(r"If we add 2 and 3, we get \boxed{5}.", "Maybe I should add 2 and 3. The answer is 5."),
    ),
    Phrase(
        '"or"',
        r"\bor\b",
        matches=(r"It is $x$ or \boxed{5}.", "Either way, or the answer is 5."),
        spares=(r"$x = \boxed{5}$ or $x = \boxed{-2}$", r"Add 2 or 3 more to get \boxed{5}."),
    ),
    Phrase(
        "nobody or nothing",
        r"\b(?:nobody|nothing|no one)\b",
        matches=(r"Nobody believes it is \boxed{5}.", r"No one knows that it's \boxed{5}."),
        spares=(r"Nobody eats the other eggs, so she sells \boxed{5}.",),
    ),
    Phrase(
        "a sign of inequality",
        r"\\neq?(?![a-z])|≠",
        matches=(r"$x \neq \boxed{5}$", r"$x \ne \boxed{5}$", r"x ≠ \boxed{5}"),
        spares=(r"$x \ne 0$, so $x = \boxed{5}$",),
    ),
    tail=_LINK,
)

PARTIAL_BEFORE = Table(
    "not the answer itself: {} before it",
    Phrase(
        '"one of" several',
        r"(?:one|some|any|all|each|both|two|most|part|none) of(?:\s+(?:the|my|our|its|these|those|two|possible)){0,2}",
        matches=(r"One of the answers is \boxed{5}.", "Part of the answer is 5."),
        spares=(r"One of the eggs breaks, so the answer is \boxed{5}.", "All of them are sold. The answer is 5."),
    ),
    Phrase(
        "another or a possible answer",
        r"another|possible|alternative",
        matches=(r"Another answer is \boxed{5}.", "A possible answer is 5."),
        spares=(r"Another way gives \boxed{5}.",),
    ),
    Phrase(
        "a rough answer",
        r"approximate|rough|estimated",
        matches=(r"A rough answer is \boxed{5}.", "The approximate answer is 5."),
        spares=(r"A rough sketch shows \boxed{5}.",),
    ),
    Phrase(
        '"no"',
        r"no",
        matches=(r"No answer is \boxed{5}.",),
        spares=(r"No, the answer is \boxed{5}.",),
    ),
    Phrase(
        "a factor, a share or a sign",
        r"(?:twice|half|minus|negative|(?:square|root|opposite|reciprocal|double|half) of)(?:\s+(?:the|our|its))?",
        matches=(r"Twice the answer is \boxed{5}.", "The square of our answer is 5.", r"It is minus \boxed{5}."),
        spares=(r"Half the eggs are sold; the answer is \boxed{5}.",),
    ),
    head=r"\b",
    tail=rf"\s+(?:(?:final )?answers?{_LINK})?$",
)

DENIED_AFTER = Table(
    "doubted or denied: {} after it",
    Phrase(
        '"or"',
        rf"{_CLOSING}\(?or\b(?! (?:equivalently|more precisely|in other words|about|approximately))",
        matches=(r"\boxed{5} or six", r"$\boxed{5}$ (or 6)", r"\boxed{5}. Or is it"),
        spares=(r"\boxed{5}, or equivalently five", r"\boxed{5} or about five", r"\boxed{5} orders"),
    ),
    Phrase(
        "a word of doubt",
        rf"{_CLOSING}(?:\(?maybe|perhaps|possibly)",
        matches=(r"\boxed{5}, perhaps", r"\boxed{5} (maybe)", r"\boxed{5}, possibly"),
        spares=(r"\boxed{5} is what we get. Perhaps it looks small.",),
    ),
    Phrase(
        "a question mark",
        rf"{_CLOSING}\?",
        matches=(r"Is it \boxed{5}?", r"$\boxed{5}$ ?"),
        spares=(r"\boxed{5}! Was that so hard?",),
    ),
    Phrase(
        "a denial",
        rf"{_CLOSING}(?:(?:is|was|seems|looks) (?:the |an? )?(?:not|wrong|incorrect|false|unlikely)"
        r"|isn't|cannot be|can't be)",
        matches=(r"\boxed{5} is wrong.", r"\boxed{5} is the wrong one", r"\boxed{5} isn't it", r"\boxed{5} cannot be"),
        spares=(r"\boxed{5} is right. It was wrong to add 7.",),
    ),
    Phrase(
        "a second thought",
        rf"{_CLOSING}(?:no,? wait|wait\b)",
        matches=(r"\boxed{5}. Wait, I forgot one.", r"\boxed{5}. No, wait."),
        spares=(r"\boxed{5}. Now we are done.", r"\boxed{5} waiters"),
    ),
    Phrase(
        "a clause that denies it",
        r"[\s$.)*,]*which (?:is|was|seems) (?:\w+ )?(?:wrong|incorrect|false|unlikely|impossible)",
        matches=(r"\boxed{5}, which is wrong", r"\boxed{5}, which seems quite impossible"),
        spares=(r"\boxed{5}, which is prime",),
    ),
)

# ---- an answer that says less than a number does

BOUND_BEFORE = Table(
    "a bound: {} before it",
    Phrase(
        "a comparison",
        rf"(?:than|exceeds?){_NEAR}",
        matches=(r"It is more than \boxed{5}.", r"It exceeds $\boxed{5}$."),
        spares=(r"There are more than three hens, which lay \boxed{5}.",),
    ),
    Phrase(
        '"at least" or "at most"',
        rf"at (?:least|most){_NEAR}",
        matches=(r"at least \boxed{5}", r"It is at most equal to $\boxed{5}$."),
        spares=(r"At least three hens lay \boxed{5}.",),
    ),
    Phrase(
        '"up to"',
        rf"(?<!round )(?<!\$ )up to{_NEAR}",
        matches=(r"up to \boxed{5}",),
        spares=(r"We round up to \boxed{5}.",),
    ),
    Phrase(
        '"between"',
        rf"between{_NEAR}",
        matches=(r"between \boxed{5}",),
        spares=(r"The difference between them is \boxed{5}.",),
    ),
    Phrase(
        '"all but"',
        rf"(?:anything|everything|all|nothing) but{_NEAR}",
        matches=(r"anything but the \boxed{5}", r"all but \boxed{5}"),
        spares=(r"all but one hen, so \boxed{5}",),
    ),
    Phrase(
        "an exception",
        rf"(?:instead of|except(?: for)?|excluding|without){_NEAR}",
        matches=(r"instead of \boxed{5}", r"all numbers except for \boxed{5}", r"all without \boxed{5}"),
        spares=(r"without the broken egg \boxed{5}",),
    ),
    Phrase(
        '"over" or "under"',
        r"(?:over|under|above|below)[ $]*",
        matches=(r"over \boxed{5}", r"just below $\boxed{5}$"),
        spares=(r"The sum over all hens is \boxed{5}.", r"As shown above: \boxed{5}"),
    ),
    head=r"\b",
    tail="$",
)

# Not asked where the box holds a decimal, which may be as rounded as its gold. The sign ≈ is no hedge: a derivation
# ends with it where the question asks to round.
ROUNDED_BEFORE = Table(
    "an approximation: {} before it",
    Phrase(
        '"about"',
        r"about|around|close to|near",
        matches=(r"about \boxed{5}", r"It is close to $\boxed{5}$."),
        spares=(r"about \boxed{5.3}", r"It is about eggs: there are \boxed{5}.", r"$x \approx \boxed{5}$"),
    ),
    Phrase(
        '"approximately"',
        r"approx(?:imately|\.)?|roughly",
        matches=(r"approximately \boxed{5}", r"approx. \boxed{5}", r"roughly \boxed{5}"),
        spares=(r"roughly \boxed{5.3}",),
    ),
    Phrase(
        '"almost"',
        r"nearly|almost",
        matches=(r"nearly \boxed{5}", r"almost \boxed{5}"),
        spares=(r"Almost done: \boxed{5}",),
    ),
    head=r"(?<!\\)\b",
    tail=rf"{_NEAR}$",
)

BOUND_AFTER = Table(
    "a bound: {} after it",
    Phrase(
        "a bound or an estimate",
        r"(?:as|is) an? (?:lower|upper|minimum|maximum|bound|estimate|guess)",
        matches=(r"\boxed{5} as a lower bound", r"\boxed{5} is an estimate"),
        spares=(r"\boxed{5} is a prime number",),
    ),
    Phrase(
        '"at least" or "at most"',
        r"at (?:least|most|minimum)\b",
        matches=(r"\boxed{5} at least", r"\boxed{5} at minimum"),
        spares=(r"\boxed{5} at last",),
    ),
    Phrase(
        '"or more"',
        r"or (?:more|less)\b(?! precisely)",
        matches=(r"**\boxed{5}** or more",),
        spares=(r"**\boxed{5}** or more precisely five",),
    ),
    head=r"[\s$.)*,]*",
)
