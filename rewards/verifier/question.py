"""The question of an answer, with its words and its mathematics."""

import re
from dataclasses import dataclass
from functools import cached_property

from rewards.verifier.notation import key, plain
from rewards.verifier.numerals import is_number_word, number
from rewards.verifier.phrases import BASE
from rewards.verifier.value import is_name
from rewards.verifier.value_types import Expr, InBase, Interval, List, Set, Tuple, Value, Words

_FUNCTION_WORDS = """
    a an the it is are was were be been will would has have had of in on at to for by from there
    this that these he she we they you i one ones its it's their his her our so answer result
    value number total exactly just only such equals equal gives give makes make get gets got
    becomes leaves falls fall comes came lands lies stands sits needs take takes pays costs
    measure measures left remain remains altogether all with and as then hence therefore thus
    which who must can finally point vector matrix pair ratio proportion ist est es è é sind sont
    son sono são jest now är je είναι це дорівнює vaut vale beträgt wynosi um à das der die le la
    el il lo las los les
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
_ANNOUNCING = (
    "is are was were be equals gives giving makes making has have so thus hence therefore namely"
    " ⟹ ⇒ => \\implies ist sind est sont soit donc son è sono é são jest är это beträgt vaut vale"
)
ANNOUNCES = frozenset(_ANNOUNCING.split())
PIECE = re.compile(
    r"\$(?!\d[\d,.]*\s+[A-Za-z]{2})[^$]+\$|\\\(.+?\\\)|\\begin\{(\w+)\}.+?\\end\{\1\}|"
    r"\d\d? (?:Uhr|h) \d\d\S*|\S+"
)
PUNCTUATION = "()[]{}.,;:!?\"'“”«»*`"
_WORD = re.compile(r"[^\W\d_]{2,}(?:['’:-][^\W\d_]+)*|[aI⟹⇒]|=>|\\implies|[^\W\d_A-Za-zπ]")
_ENGLISH = re.compile(
    r"(?i)\b(?:the|of|how|what|which|who|find|compute|evaluate|calculate|write|give|solve|express|"
    r"simplify|list|name|order|sort|convert|determine|round|is)\b"
)


@dataclass
class Question:
    """The question, and the type of value that its gold answer has."""

    gold: Value
    text: str  # "" where there is no question

    @cached_property  # most steps read it
    def is_foreign(self) -> bool:
        """Whether the question is in another language than English."""
        has_words = re.search(r"[^\W\d_]{3}", self.text) is not None
        return has_words and _ENGLISH.search(self.text) is None

    @property
    def has_several_values(self) -> bool:
        if isinstance(self.gold, Interval):
            return self.gold.left_open
        return isinstance(self.gold, List | Set | Tuple)

    @property
    def is_yes_or_no(self) -> bool:
        return self.gold in (Words("yes"), Words("no"))

    @property
    def has_name(self) -> bool:
        """Whether the gold answer is the name of a variable or of a figure."""
        return isinstance(self.gold, Expr) and self.gold.text.isalpha()

    @cached_property
    def _stems(self) -> set[str]:
        return {stem(word) for word in re.findall(r"[^\W_]+(?:['’][^\W\d_]+)?", self.text)}

    @cached_property
    def _keys(self) -> set[str]:
        """The mathematics of the question, every number in digits."""
        pieces = (piece[0].strip(PUNCTUATION) for piece in PIECE.finditer(self.text))
        return {_in_digits(piece) for piece in pieces if piece and not is_word(piece)}

    @cached_property
    def mentions_base(self) -> bool:
        return isinstance(self.gold, InBase) or BASE.is_in(self.text.lower())

    def has_word(self, word: str) -> bool:
        return stem(word) in self._stems

    def is_new(self, word: str) -> bool:
        """Whether `word` is more than grammar, and not in the question."""
        return not self.has_word(word) and word.lower() not in FUNCTION_WORDS | ANNOUNCES

    def has_in_order(self, names: tuple[str, str]) -> bool:
        if any(map(is_number_word, names)):
            return True
        in_order = rf"(?i){names[0]}\W+(?:\w+\W+){{0,2}}{names[1]}"
        return re.search(in_order, self.text) is not None

    def has_value(self, text: str) -> bool:
        """Whether the question has this number or formula, or it is a mere name."""
        text = re.sub(r"(?<=\d) .*|(?<=[a-z]{3}) [a-z]+$|\$", "", text)
        if is_name(text) and (not self.text or text.lower() in self.text.lower()):
            return True
        return _in_digits(text) in self._keys


def stem(word: str) -> str:
    """Return a word of more than four letters without its last two."""
    return word.lower()[: max(4, len(word) - 2)] if len(word) > 4 else word.lower()


def words_of(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text)


def is_word(piece: str) -> bool:
    if re.search(r"[⁰¹²³⁴-⁹]", piece) or _WORD.fullmatch(piece) is None:
        return False
    parts = re.sub("-(?:first|second)$", "", piece.lower())  # twenty-first
    return not all(map(is_number_word, re.split("[-’']", parts)))


def _in_digits(text: str) -> str:
    n = number(plain(text))
    return key(text) if n is None else str(n)
