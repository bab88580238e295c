r"""Named phrases: words around an answer that object to it, and requests of a question.

tables/phrases.tsv has them. To add one, add its row, and to tests/rewards/verifier/examples.tsv
complete completions that it matches and similar ones that it spares.
"""

import re
from dataclasses import dataclass, field
from functools import cached_property

from .tables import alternatives, patterns

LONGEST_SENTENCE = 1000  # characters of a sentence with an answer; a longer answer is incorrect


@dataclass(frozen=True)
class Phrase:
    """A regular expression, and its name in the reason of a verdict."""

    name: str
    pattern: str
    box: str = ""  # of a rival: the content of a box beside it, without spaces, dollars and \text

    @cached_property
    def regex(self) -> re.Pattern:
        return re.compile(self.pattern)


@dataclass
class Table:
    """Phrases with one consequence, a text in which `{}` is the name of the phrase that decided.

    A phrase stands between the patterns `head` and `tail`. If a text has several phrases, the
    first decides. Tables of words search text in lower case, which takes half the time of ignoring
    case.
    """

    consequence: str
    head: str = ""
    tail: str = ""
    phrases: list[Phrase] = field(default_factory=list)

    @cached_property
    def regex(self) -> re.Pattern:
        """All phrases as one expression: most texts contain none of them, and one search shows
        it."""
        patterns = "|".join(phrase.pattern for phrase in self.phrases)
        return re.compile(f"{self.head}(?:{patterns}){self.tail}")

    def search(self, text: str) -> str | None:
        """Return the consequence for `text`, or None if it contains none of the phrases."""
        match = self.regex.search(text)
        return self.match(text, match.start()) if match else None

    def match(self, text: str, start: int = 0) -> str | None:
        """Return the consequence of the phrase that begins at position `start`."""
        phrase = self.phrase(text, start) if self.regex.match(text, start) else None
        return self.consequence.format(phrase.name) if phrase else None

    def phrase(self, text: str, start: int = 0) -> Phrase | None:
        """Return the phrase that begins at position `start`."""
        for phrase in self.phrases:
            if re.compile(f"{self.head}(?:{phrase.pattern}){self.tail}").match(text, start):
                return phrase
        return None


def _read() -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for name, *columns in patterns("phrases.tsv"):
        if name.startswith("["):
            table = tables[name.strip("[]")] = Table(*columns) if columns else Table("{}")
        else:
            table.phrases.append(Phrase(name, *columns))
    return tables


TABLES = _read()
REQUESTS = {request.name: request.regex for request in TABLES.pop("REQUESTS").phrases}
# Words between the way to the answer and the answer.
CONCLUDING = alternatives("concluding.txt")


def hedge(answer: str) -> str | None:
    """Return how `answer` doubts or denies its value, or None if it does neither."""
    return TABLES["HEDGES"].search(re.sub(r"\b(?:in|of|by|since|and|to) May\b", "", answer).lower())


def asks_for(request: str, question: str) -> bool:
    """Whether `question` makes the request of this name."""
    return REQUESTS[request].search(question) is not None
