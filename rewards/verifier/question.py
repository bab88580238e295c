"""What a question says about its answer: its words, those that it counts, and its sentence that
asks."""

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from .numerals import SCALES, is_number_word
from .phrases import UNIT
from .tables import word_lists
from .units import ASKED_BY, KINDS, NAMES, is_known_unit
from .units import unit as unit_name

_WORDS = word_lists("words.tsv")
ANNOUNCING = _WORDS["announcing"]
JOINING = _WORDS["joining"]
NEVER = _WORDS["never"]
PUNCTUATION = "()[]{}.,;:!?\"'“”«»*`"
_ENGLISH = re.compile(
    r"(?i)\b(?:the|of|how|what|which|who|find|compute|evaluate|calculate|write|give|solve|express|"
    r"simplify|list|name|order|sort|convert|determine|round|is)\b"
)
# "how many more red apples does": the words between "how many" and a verb
_COUNTED = re.compile(
    r"\b(?:how many|how much|number of|amount of)\s+((?:[a-z'’-]+[ ,]+){0,5}[a-z'’-]+)"
)
_NOT_COUNTED = NEVER | JOINING | ANNOUNCING
_VERBS = _WORDS["verbs"]  # they end what "how many" counts
_COMPARED = frozenset(["more", "fewer", "less"])  # "How many more apples"
_ASKS_FOR_AGE = re.compile(r"\b(?:how old|what age|ages?\b)")
_PART_OF_A_YEAR = re.compile(r"\b(?:month|week|day|hour)s?\b")
_ASKS_FOR_MONEY = re.compile(
    r"\bhow much (?!time|longer)(?:money\b|[^.?]*\b(?:earn|cost|pay|paid|spen[dt]|owe)\b)"
)
_ASKS_FOR_AMOUNT = re.compile(r"\bhow (?:much|long|far|old|tall|high|wide|deep)\b")
# "What is the total surface area", not "the side of a square with area 25"
_ASKS_FOR_CONTENT = re.compile(
    r"\bwhat (?:is|was|will be) the (?:(?:total|surface|lateral|maximum|minimum|largest|smallest|"
    r"new|combined) )*(area|volume)\b"
)
_ASKS_FOR_SHARE = re.compile(
    r"(?i)\b(?:what|which)(?: is the| was the)? (?:percent|percentage|fraction|share|proportion|"
    r"ratio|probability)\b"
)
_SENTENCE = re.compile(r"(?<=[.!?。？])\s+")


def stem(word: str) -> str:
    """Return a word of more than four letters without its last two."""
    word = word.lower().removesuffix("s")
    return word[: max(4, len(word) - 2)] if len(word) > 4 else word


_RESTRICTING_STEMS = frozenset(map(stem, _WORDS["restricting"]))
_SCALE_STEMS = frozenset(map(stem, SCALES))


def _counted_words(phrase: str) -> list[str]:
    """Return the words of "how many …" up to its verb."""
    words = words_of(phrase)
    verbs = [n for n, word in enumerate(words) if word in _VERBS]
    return words[: verbs[0]] if verbs else words


def _kinds_in(phrase: str) -> set[str]:
    """Return the dimensions of the units that a phrase names."""
    names = [unit_name(f" {word}") or "" for word in words_of(phrase)]
    return {KINDS[name] for name in names if name in KINDS}


def words_of(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+(?:['’-][^\W\d_]+)*", text)


@dataclass
class Question:
    """The text of a problem; "" where there is none."""

    text: str

    @cached_property
    def is_foreign(self) -> bool:
        """Whether the question is in another language than English."""
        has_words = re.search(r"[^\W\d_]{3}", self.text) is not None
        return has_words and _ENGLISH.search(self.text) is None

    @cached_property
    def _asking(self) -> str:
        """The sentence that asks: the last one with a question mark, or the last of all."""
        sentences = _SENTENCE.split(self.text.strip())
        asking = [sentence for sentence in sentences if sentence.endswith(("?", "？"))]
        return (asking or sentences)[-1]

    @cached_property
    def _counted(self) -> list[list[str]]:
        """What the question counts: `red apples` of "How many red apples does Tom have?"."""
        return [_counted_words(phrase) for phrase in _COUNTED.findall(self._asking.lower())]

    @cached_property
    def _counted_stems(self) -> frozenset[str]:
        return frozenset(map(stem, chain(*self._counted)))

    @cached_property
    def _asking_stems(self) -> frozenset[str]:
        return frozenset(map(stem, words_of(self._asking)))

    def counts(self, word: str) -> bool:
        """Whether the question counts what `word` names. One that does not say what it counts
        ("How many are left?") counts whatever it speaks of."""
        if self._asks_for_share:
            return False
        if self._counted_stems:
            is_bound = word.lower() in NEVER and word.lower() not in _COMPARED
            return stem(word) in self._counted_stems and not is_bound
        return word.lower() not in NEVER and stem(word) in set(map(stem, words_of(self.text)))

    def asks_with(self, word: str) -> bool:
        """Whether the sentence that asks has a word, and one that changes no number."""
        is_word = len(word) > 1 and words_of(word) == [word] and not is_number_word(word.lower())
        if not is_word or self.is_foreign or word.lower() in NEVER | ANNOUNCING:
            return False
        return stem(word) in self._asking_stems and not is_known_unit(unit_name(f" {word}") or "")

    def names_another_unit(self, name: str) -> bool:
        """Whether the text has units of the dimension of `name`, and this one is not among them."""
        text = self.text.lower()
        named = {
            unit
            for word, unit in NAMES.items()
            if word.lower() in text and (len(word) > 1 or not word.isascii())
        }
        return name not in named and any(KINDS[unit] == KINDS.get(name) for unit in named)

    def wants_no(self, name: str) -> bool:
        """Whether the sentence that asks wants no number of the unit `name`: "How many oysters?"
        wants none of hours, "How old?" none of months, "What is the area?" none of metres."""
        base, _, divisor = name.partition(" / ")
        base, _, power = base.partition("^")
        kind = KINDS.get(base)
        asking = self._asking.lower()
        kinds = self._kinds_asked_for
        if kind is not None and kinds is not None and kind not in kinds:
            return True
        if kind == "time" and not self.is_foreign:
            if _ASKS_FOR_AGE.search(asking):
                return base != "year" and not _PART_OF_A_YEAR.search(asking)
            return kinds is None and not ASKED_BY["time"].search(asking)
        content = _ASKS_FOR_CONTENT.search(asking)
        if content is None or divisor or (base != "unit" and kind != "length"):
            return False
        return power != ("2" if content[1] == "area" else "3")

    @cached_property
    def _kinds_asked_for(self) -> set[str] | None:
        """The dimensions of which the question wants a number, none where it counts things or asks
        for a share; None where it does not say."""
        if self._asks_for_share:
            return set()
        asking = self._asking.lower()
        if _ASKS_FOR_MONEY.search(asking):
            return {"money"}
        wanted = [re.split(r" per |/| an? ", phrase)[0] for phrase in UNIT.regex.findall(asking)]
        kinds = _kinds_in(" ".join(wanted))
        if kinds or _ASKS_FOR_AMOUNT.search(asking):
            return kinds or None
        for words in self._counted:
            if not words or (words[0] in _NOT_COUNTED and words != ["times"]):
                return None
        return _kinds_in(" ".join(chain(*self._counted))) if self._counted else None

    @cached_property
    def _asks_for_share(self) -> bool:
        """Whether the question asks for a part of something, which is no count of it."""
        return _ASKS_FOR_SHARE.search(self._asking) is not None and not self._counted_stems

    def asks_for_rate(self, unit: str) -> bool:
        """Whether the question asks for an amount per `unit`, as in "each week", or for a speed."""
        if re.search(r"(?i)\b(?:speed|fast|rate|velocity|pace|density|slope)", self._asking):
            return True
        divisors = re.findall(r"(?i)(?:\b(?:per|each|every|an?)\s+|/\s*)([a-z]+)", self._asking)
        names = [unit_name(f" {divisor}") for divisor in divisors]
        return unit in divisors or unit_name(f" {unit}") in names

    def is_answered_by(self, words: list[str]) -> bool:
        """Whether a sentence of these words has every word that makes the question narrower: "left"
        of "How many are left?"."""
        narrowing = (_RESTRICTING_STEMS | _SCALE_STEMS) & self._asking_stems
        return narrowing <= set(map(stem, words))

    def counts_by_scale_of(self, words: list[str]) -> bool:
        """Whether words beside a number have the scale that the question counts by, if it has one:
        "12 eggs" is no answer to "How many dozen eggs?"."""
        scales = _SCALE_STEMS & self._counted_stems
        return scales <= set(map(stem, words))
