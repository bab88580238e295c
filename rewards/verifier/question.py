r"""What a question asks for, as a table of requests: each with a name, questions that it matches and some it spares.

Percentages, bases and units are looked for in a question in lower case, the others in the question as it is written.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """A regular expression that finds one request in a question; a verdict's reason gives its `name`."""

    name: str
    pattern: re.Pattern
    matches: tuple[str, ...]
    spares: tuple[str, ...]

    def of(self, question: str) -> bool:
        """Whether `question` makes this request."""
        return self.pattern.search(question) is not None


PERCENT = Request(
    "a percentage",
    re.compile(
        r"(?:what|which|how many|find)(?: is| was| are)?(?: the| an?)?(?: [a-z]+)? ?percent|\b(?:as an?|in|a) percent"
    ),
    matches=("what percent of 50 is 10?", "find the percentage of girls", "write 1/4 as a percent"),
    spares=("20 percent of the 50 apples are red. how many are green?", "the price falls by ten percent"),
)
BASE = Request(
    "a base",
    re.compile(
        r"\bbases?[\s$~\\-]*(?:\d|(?:two|three|four|five|six|seven|eight|nine|ten|twelve|sixteen|[a-z])\b)|\d_|binary"
    ),
    matches=("write 11 in base 2", "in base six, what is 5 + 5?", "what is 101_2 + 11_2?", "in base $b$", "as binary"),
    spares=("the base of a triangle is 5 long", "how many baseballs are there?"),
)
INTO_BASE = Request(  # its groups hold the base
    "a number in another base",
    re.compile(r"\b(?:in|to|into|as)\s+(?:an?\s+)?(?:base[\s$~\\-]*(\w+)|(binary)|(decimal))"),
    matches=("convert 101_2 to base 10", "write it in base $7$", "as a decimal", "into binary"),
    spares=("the base 5 number 14", "in the basement"),
)
UNIT = Request(  # its group holds the unit
    "a unit",
    re.compile(
        r"(?:how many|number of|\bin)(?: (?:more|fewer|other|additional|extra|whole|full|total))? (?!in\b)"
        r"((?:(?:square|cubic|sq\.?|cu\.?) )?[a-z]+(?: ?\^ ?\{?[23]\}?| squared| cubed)?"
        r"(?:(?: per | an? | ?/ ?)[a-z]+)?)"
    ),
    matches=("how many minutes is that?", "what is its area in square feet?", "the number of extra dollars"),
    spares=("how long does it take?", "what is 2 + 2?"),
)
LOWEST_TERMS = Request(
    "lowest terms",
    re.compile(r"lowest terms|simplest (?:form|terms)|reduced|simplif", re.IGNORECASE),
    matches=("Express it in lowest terms.", "in simplest form", "as a reduced fraction", "Simplify $6/8$."),
    spares=("What is the lowest of its terms?", "the simplest way"),
)
FACTORED = Request(
    "a product",
    re.compile(r"(?:^|[.?!:]\s*)(?:Completely )?[Ff]actor(?:ize|ise)?\b|factored form|as a product"),
    matches=("Factor $x^2-1$.", "Let a > 0. Factorise $a^2-a$.", "Completely factor it.", "Write it in factored form."),
    spares=("What is the largest factor of 12?", "Factoring is hard. What is 2 + 2?"),
)
EXPANDED = Request(
    "a sum",
    re.compile(r"\b[Ee]xpand|[Mm]ultiply out|expanded form"),
    matches=("Expand $(x+1)^2$.", "Please multiply out.", "What is its expanded form?"),
    spares=("What is 2 times 3?", "The gas is unexpanded."),
)
INTERVAL = Request(
    "interval notation",
    re.compile("interval notation"),
    matches=("Express your answer in interval notation.",),
    spares=("On which interval is it positive?",),
)
