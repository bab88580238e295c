"""What a sentence says beside its question: words and numbers that both have tell nothing, and what is left does."""

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile

from rewards.verifier import phrases
from rewards.verifier.languages import number_said
from rewards.verifier.notation import PARTS, is_number_word
from rewards.verifier.units import shifts
from rewards.verifier.value import Expr, Interval, List, Set, Tuple, Value, Words

_ENGLISH = re.compile(
    r"(?i)\b(?:the|of|how|what|which|who|find|compute|evaluate|calculate|write|give|solve|express|simplify|list|name|"
    r"order|sort|convert|determine|round|is)\b"
)

NOT = r"(?:not|nicht|pas|no|non|não|не|nie|niet|inte|ikke|nu|bukan|değil)"
JOINTS = re.compile(
    r"(?i)\s+(?:et|und|y|e|i|и|й|ou|oder|o|u|или|och|eller|en|of|și|sau|lub|oraz|albo|ve|veya|dan|atau|và|hoặc|και|"
    r"або|та)\s+|[和或与及]|または|と|(?<=\d)(?:와|과)\s|\s(?:또는|और|या|এবং|বা|أو)\s"
)
_FUNCTION_WORDS = (
    "a an the it is are was were be been will would has have had of in on at to for by from there this that these he "
    "she we they you i one ones its their his her our so answer result value number total exactly just only equals "
    "equal gives give makes make get gets got becomes leaves falls fall comes came lands lies stands sits needs "
    "takes costs left remain remains altogether all with and as then hence therefore thus which who must can ist est "
    "es è é sind sont son sono são jest är je είναι це дорівнює vaut vale beträgt wynosi um à das der die le la el "
    "il lo"
)
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
_TOKEN = re.compile(
    r"[$€£]?\s?[-−]?\d++(?:[.,:/]\d++)*+(?:st|nd|rd|th)?+(?![^\W\d_])(?:\s?(?:%|°|€|[ap]\.?m\b\.?))?|"
    r"[^\W\d_]+(?:['’][^\W\d_]+)?|[=<>^_\\{}|+*/?\d]"
)
_YES_OR_NO = re.compile(r"(?i)(?:.*[.?!,:] )?(?:yes or no:? )?(?:is|are|does|do|can|will|has|have|was|were) [^.?]*\?$")
DOUBTS = re.compile(
    rf"(?i){phrases.DOUBT}|\b(?:or|other|another|{NOT}|ou|oder|albo|lub|of|eller|sau|може|może|kanske|poate)\b"
)


@dataclass
class Asked:
    """What the steps may look at."""

    gold: Value
    text: str  # of the question

    @cached_property  # most steps ask for it
    def foreign(self) -> bool:
        """Whether the question is in another language than English."""
        return _ENGLISH.search(self.text) is None and re.search(r"[^\W\d_]{3}", self.text) is not None

    @property
    def several(self) -> bool:
        return isinstance(self.gold, List | Set | Tuple) or (isinstance(self.gold, Interval) and self.gold.left_open)


def told(text: str, asked: Asked) -> str | None:
    """The one thing in a sentence that the question does not say: `19` of "The third Friday falls on the 19th"."""
    tokens = [(m[0].strip(), m.start(), m.end()) for m in _TOKEN.finditer(text)]
    if len(tokens) < 2 or any(
        re.fullmatch(r"[=<>^_\\{}|+*/?\d]", token) and not _counts(token) for token, *_ in tokens
    ):
        return None
    if (said := number_said(text, asked.text)) is not None and said.objection:
        return None
    worded = isinstance(asked.gold, Words) or (isinstance(asked.gold, Expr) and asked.gold.text.isalpha())
    said_by = re.split(r"[.!?]\s+(?=\S)", asked.text.lower())[-1] if worded else asked.text.lower()
    stems = {stem(word) for word in re.findall(r"[^\W_]+(?:['’][^\W\d_]+)?", said_by)}
    tokens = _joined(tokens, text)
    truth = asked.gold in (Words("yes"), Words("no"))
    if any(phrases.hedge(t.lower()) and not _said(t, stems) and not (truth and t.lower() == "not") for t, *_ in tokens):
        return None
    new = [(t, start, end) for t, start, end in tokens if not _said(t, stems) and t.lower() not in FUNCTION_WORDS]
    numbers = [] if worded else [each for each in tokens if _counts(each[0])]
    if len(numbers) > 1:
        numbers = [each for each in numbers if each in new] if _apart(numbers, text) else []
        if len(numbers) != 1:
            return None
    others = [each for each in new if each not in numbers and (worded or not _counts(each[0]))]
    if truth and _YES_OR_NO.match(asked.text) and not numbers:  # "It is not prime."
        left = [t.lower() for t, *_ in others]
        return {(): "yes", ("not",): "no"}.get(tuple(left)) if stems & {stem(t) for t, *_ in tokens} else None
    if len(others) > 2 or any(shifts(t.lower()) and not (numbers and _said(t, stems)) for t, *_ in tokens):
        return None
    if not numbers:
        touching = len(others) == 1 or (len(others) == 2 and not text[others[0][2] : others[1][1]].strip())
        return text[others[0][1] : others[-1][2]] if touching and worded else None
    return _number_told(
        numbers[0], [t for t, _, stop in tokens if stop <= numbers[0][1]], {t for t, *_ in others}, text, stems
    )


def _number_told(
    number: tuple[str, int, int], before: list[str], new: set[str], text: str, stems: set[str]
) -> str | None:
    """The number of a sentence with its unit; None where a word right before it may change it."""
    token, _, end = number
    if any(re.fullmatch("[A-J]", word) for word in new) or re.match(r"\(?[A-J]\s?[).:]", text):  # an option
        return None
    if before and before[-1] in new and not re.search(r"(?:s|ed)$", before[-1]):
        return None
    if before and (before[-1].lower() in ("by", "from", "to", "than") or DOUBTS.fullmatch(before[-1])):
        return None
    if not before and token[-1:].isdigit():
        return None
    behind = re.match(r"(?:\s+[^\W\d_]+)*", text[end:])[0].split()
    unit = list(takewhile(lambda word: word.lower() not in FUNCTION_WORDS, behind))
    unit = [word for word in unit if word.isascii() or not _said(word, stems)]
    if re.search(r"[^\W\d_]$", token):  # an ordinal: "the tenth power", where the question speaks of powers
        if before and before[-1].lower() in ("a", "an", "one"):
            return None
        unit, token = (
            [word for word in unit if not _said(word, stems)],
            token if token[0].isdigit() or not _is_part(token) else f"the {token}",
        )
    return " ".join([token, *unit])


def _joined(tokens: list[tuple[str, int, int]], text: str) -> list[tuple[str, int, int]]:
    """`tokens` with number words in a row as one."""
    made: list[tuple[str, int, int]] = []
    for token, start, end in tokens:
        if (
            made
            and token.lower() not in ("one", "ones")
            and is_number_word(token.lower())
            and is_number_word(made[-1][0].split()[-1].lower())
            and start - made[-1][2] == 1
        ):
            made[-1] = (f"{made[-1][0]} {token}", made[-1][1], end)
        else:
            made.append((token, start, end))
    return made


def _is_part(token: str) -> bool:
    return token.split()[-1].lower() in PARTS or token.lower() in ("first", "second")


def stem(word: str) -> str:
    return word.lower()[: max(4, len(word) - 2)] if len(word) > 4 else word.lower()


def _said(token: str, stems: set[str]) -> bool:
    return stem(token.strip("$€£%° ")) in stems


def _counts(token: str) -> bool:
    words = token.lower().split()
    return re.search(r"\d", token) is not None or (is_number_word(words[-1]) and words not in (["one"], ["ones"]))


def _apart(numbers: list[tuple[str, int, int]], text: str) -> bool:
    """Whether words stand between the numbers of a sentence, and no list of candidates."""
    between = [JOINTS.sub(" ", f" {text[a[2] : b[1]]} ") for a, b in pairwise(numbers)]
    if any(re.search(r"[.!?;:\n](?:\s|$)", text[a[2] : b[1]]) for a, b in pairwise(numbers)):
        return False
    return all(re.search(r"[^\W\d_]{2}", re.sub(r"\b(?:and|or|to)\b", "", each)) for each in between)
