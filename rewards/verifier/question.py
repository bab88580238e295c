"""What a question says about its answer: its words, those that it counts, and its sentence that
asks."""

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from .notation import plain
from .numerals import SCALES, is_number_word
from .phrases import REQUESTS, asks_for
from .tables import rows, word_lists
from .units import KINDS, NAMES, is_known_unit, kind_of, parts_of
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
    r"\b(?:how many|how much|number\s+of|amount of)\s+((?:[a-z'’-]+[ ,]+){0,5}[a-z'’-]+)"
)
_NOT_COUNTED = NEVER | JOINING | ANNOUNCING
_VERBS = _WORDS["verbs"]  # they end what "how many" counts
_COMPARED = frozenset(["more", "fewer", "less"])  # "How many more apples"
ASKED_BY = {kind: re.compile(words) for kind, words in rows("dimensions.tsv")}
_SIGNS = "$€£¥₹₩₽₪₱₫₦₺元圆円¢"
# A word of a question, but no child "6 years old", or a sign of money, but no `$` of mathematics.
_UNIT_OF_QUESTION = re.compile(
    rf"(?<![A-Za-z\\])[A-Za-z]+(?![A-Za-z])(?![ -]old)|[{_SIGNS.replace('$', '')}]"
    r"|\$ ?\d[\d,.]*(?![\d$])(?!\\?\$| ?[-=+*^<>\\{}(])|(?<=\d)[\"”″]"
)
_NUMBER_BEFORE = re.compile(r"(?:\d|\b([a-z]+))(?:[\s,~}$-]|\\[,;]|\\text\{)*$")
_POWERS = {"2": "an area", "3": "a volume"}  # of a length, by what a question asks for
_SENTENCE = re.compile(r"(?<=[.!?。？])\s+")
_UNIT_WORDS = [word for word in NAMES if len(word) > 1 or not word.isascii()]
_LONGEST_FIRST = sorted(_UNIT_WORDS, key=len, reverse=True)


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
    return {kind_of(name) for name in names if name in KINDS}


def _is_requested(text: str, name: str, divisor: str | None) -> bool | None:
    """Whether a text asks for a unit ("in feet", "how many dollars per day"), or for another one of
    its kind; None where it asks for none."""
    text = re.sub(r"\\text\{([^{}]*)\}|\$", r"\1", plain(text).lower())
    wanted = [unit_name(phrase) or "" for phrase in REQUESTS["a unit"].findall(text)]
    rates = {parts_of(unit)[2] for unit in wanted if unit.split(" ")[0] == name}
    kind = kind_of(name.split("^")[0])
    if rates:
        # "How many dollars per day" may be answered by dollars, but a speed not by a length.
        is_speed = kind == "length" and not {divisor, *rates}.isdisjoint(["h", "min", "s"])
        return divisor in rates or (not is_speed and None in {divisor, *rates})
    kinds = [kind_of(parts_of(unit)[0]) for unit in wanted]
    return False if kind and kind in kinds else None


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

    def wants_no(self, name: str) -> bool:
        """Whether the question wants no number of the unit `name`, where the gold has none: "How
        many oysters?" wants none of hours, "How old?" none of months, "in feet" none of inches."""
        base, power, divisor = parts_of(name)
        kind = kind_of(base)
        if kind is None and base != "unit":
            return False
        kinds = self._kinds_asked_for
        if kind is not None and kinds is not None and kind not in kinds:
            return True
        for text in (self._asking + self.text.partition(self._asking)[2], self.text):
            is_requested = _is_requested(text, name.split(" ")[0], divisor)
            if is_requested is not None:
                return not is_requested
        if self._counts_another(base):
            return True
        if kind == "time" and not self.is_foreign and not self._asks_for_time(base):
            return True
        if self._wants_another_power(base, power, divisor):
            return True
        return kind in ASKED_BY and not self._measures_with(base, kind)

    def _wants_another_power(self, base: str, power: str, divisor: str | None) -> bool:
        """Whether an area or a volume is asked for, and this power of a length is neither. Square
        and cubic "units" are right only where they are asked for."""
        asking = self._asking.lower()
        powers = [power for power, request in _POWERS.items() if asks_for(request, asking)]
        if power in powers:
            return False
        if base == "unit" and power != "":
            return True
        is_length = KINDS.get(base, "length") == "length" and not divisor
        return powers != [] and is_length

    def _counts_another(self, base: str) -> bool:
        """Whether the question counts another unit of the kind: "How many leap years"."""
        counted = {unit_name(f" {word}") for words in self._counted for word in words[:4]}
        return base not in counted and kind_of(base) in map(kind_of, counted & KINDS.keys())

    def _asks_for_time(self, base: str) -> bool:
        """Whether the sentence that asks wants a duration, and of this unit if it wants an age."""
        asking = self._asking.lower()
        if asks_for("an age", asking):
            return base == "year" or asks_for("a part of a year", asking)
        if asks_for("a moment", asking):
            return False
        return self._kinds_asked_for is not None or ASKED_BY["time"].search(asking) is not None

    def _measures_with(self, base: str, kind: str) -> bool:
        """Whether the question measures with this unit of its kind alone; or with none, and asks
        for the kind. Where cents stand beside dollars, money is dollars."""
        mentioned, measured = self._units
        named = measured if kind == "time" else mentioned
        rivals = {unit for unit in named if kind_of(unit) == kind} - {base}
        if base == "$":
            rivals.discard("¢")
        if base in mentioned:
            return self.is_foreign or measured.isdisjoint(rivals)
        if rivals or base == "¢":
            return False
        return (
            not _ENGLISH.search(self.text) or ASKED_BY[kind].search(self.text.lower()) is not None
        )

    @cached_property
    def _units(self) -> tuple[set[str], set[str]]:
        """The units whose names the question has, and those behind one of its numbers."""
        if self.is_foreign:
            text = self.text.lower()
            named = set()
            for word in _LONGEST_FIRST:
                if word.lower() in text:
                    named.add(NAMES[word])
                    text = text.replace(word.lower(), " ")  # no 厘米 in 平方厘米
            return named, named
        mentioned = set()
        measured = set()
        for match in _UNIT_OF_QUESTION.finditer(self.text):
            word = match[0].rstrip("0123456789., ")
            word = "inch" if word in '"”″' else word
            name = NAMES.get(word) or NAMES.get(word.lower())
            if name not in KINDS:
                continue
            before = _NUMBER_BEFORE.search(self.text[max(0, match.start() - 20) : match.start()])
            is_behind_number = before is not None and (not before[1] or is_number_word(before[1]))
            if is_behind_number or not word.isalpha():
                measured.add(name)
            if len(word) > 2 and word not in ANNOUNCING:
                mentioned.add(name)
        return mentioned | measured, measured

    @cached_property
    def _kinds_asked_for(self) -> set[str] | None:
        """The dimensions of which the question wants a number, none where it counts things or asks
        for a share; None where it does not say."""
        if self._asks_for_share:
            return set()
        asking = self._asking.lower()
        if asks_for("money", asking):
            return {"money"}
        wanted = REQUESTS["a unit"].findall(asking)
        wanted = [re.split(r" per |/| an? ", phrase)[0] for phrase in wanted]
        kinds = _kinds_in(" ".join(wanted))
        if kinds or asks_for("an amount", asking):
            return kinds or None
        for words in self._counted:
            if not words or (words[0] in _NOT_COUNTED and words != ["times"]):
                return None
        return _kinds_in(" ".join(chain(*self._counted))) if self._counted else None

    @cached_property
    def _asks_for_share(self) -> bool:
        """Whether the question asks for a part of something, which is no count of it."""
        return asks_for("a pure number", self._asking) and not self._counted_stems

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
