r"""Named phrases: words around an answer that object to it, and requests of a question.

tables/phrases.tsv has them. To add one, add its row, and to tests/rewards/verifier/examples.tsv
complete responses that it matches and similar ones that it spares.
"""

import re
from dataclasses import dataclass, field
from functools import cached_property

from .tables import patterns, rows

LONGEST_SENTENCE = 1000  # characters of a sentence with an answer; a longer answer is wrong anyway


@dataclass(frozen=True)
class Phrase:
    """A regular expression, and its name in the reason of a verdict."""

    name: str
    pattern: str
    box: str = ""  # of a rival: the content of a box beside it, without spaces, dollars and \text

    @cached_property
    def regex(self) -> re.Pattern:
        return re.compile(self.pattern)

    def is_in(self, question: str) -> bool:
        """Whether `question` makes this request."""
        return self.regex.search(question) is not None


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

    @cached_property
    def _named(self) -> re.Pattern:
        """The same with a group for every phrase, which takes longer."""
        groups = "|".join(f"(?P<_{n}>{phrase.pattern})" for n, phrase in enumerate(self.phrases))
        return re.compile(f"{self.head}(?:{groups}){self.tail}")

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


def _read() -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for name, *columns in patterns("phrases.tsv"):
        if name.startswith("["):
            table = tables[name.strip("[]")] = Table(*columns) if columns else Table("{}")
        else:
            table.phrases.append(Phrase(name, *columns))
    return tables


TABLES = _read()
REQUESTS = {request.name: request for request in TABLES.pop("REQUESTS").phrases}
# Words between the way to the answer and the answer.
CONCLUDING = "|".join(pattern for (pattern,) in rows("concluding.txt"))
DENIED_BEFORE = TABLES["DENIED_BEFORE"]
PARTIAL_BEFORE = TABLES["PARTIAL_BEFORE"]
DENIED_AFTER = TABLES["DENIED_AFTER"]
BOUND_BEFORE = TABLES["BOUND_BEFORE"]
ROUNDED_BEFORE = TABLES["ROUNDED_BEFORE"]
BOUND_AFTER = TABLES["BOUND_AFTER"]
PART_BEFORE = TABLES["PART_BEFORE"]
ARITHMETIC_BEFORE = TABLES["ARITHMETIC_BEFORE"]
PART_AFTER = TABLES["PART_AFTER"]
RIVALS = TABLES["RIVALS"]
HEDGES = TABLES["HEDGES"]
PERCENT = REQUESTS["a percentage"]
BASE = REQUESTS["a base"]
INTO_BASE = REQUESTS["a number in another base"]
UNIT = REQUESTS["a unit"]
LOWEST_TERMS = REQUESTS["lowest terms"]
FACTORED = REQUESTS["a product"]
SIMPLIFIED = REQUESTS["the simplest root"]
EXPANDED = REQUESTS["a sum"]
ORDER = REQUESTS["an order"]
INTERVAL = REQUESTS["interval notation"]


def hedge(answer: str) -> str | None:
    """Return how `answer` doubts or denies its value, or None if it does neither."""
    return HEDGES.search(re.sub(r"\b(?:in|of|by|since|and|to) May\b", "", answer).lower())
