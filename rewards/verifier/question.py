"""What a question says about its answer: its words, those that it counts, and its sentence that
asks."""

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, takewhile

from .notation import plain
from .numerals import SCALES, is_number_word
from .phrases import REQUESTS, asks_for
from .tables import rows, word_lists
from .units import KINDS, NAMES, RATES, kind_of, parts_of
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
_THINGS = re.compile(
    r"\b(?:how many|number\s+of)\s+(?:\$?\d[\d.,]*(?:-[a-z]+)?\s+)?"
    r"((?:[a-z'’-]+[ ,]+){0,5}[a-z'’-]+)"
)
# What is asked, up to a condition: "how much will it cost" of "… if she buys 5 pounds?"
_CLAUSE = re.compile(
    r"\b(?:how|what|which|calculate|find|determine|compute)\b(?:(?!\b(?:if|when|given)\b).)*",
    re.DOTALL,
)
_DIVIDING = frozenset(["a", "an", "per", "each", "every"])
_UNCOUNTED = frozenset(["length", "mass", "volume"])  # "How many are left?"
_NOT_COUNTED = NEVER | JOINING | ANNOUNCING
_VERBS = _WORDS["verbs"]  # they end what "how many" counts
_COMPARED = frozenset(["more", "fewer", "less"])  # "How many more apples"
ASKED_BY = {kind: re.compile(words) for kind, words in rows("dimensions.tsv")}
_SIGNS = "$€£¥₹₩₽₪₱₫₦₺元圆円¢"
# "$5000 in capital" has no inches, "a board of 12 in by 8 in" has.
_PREPOSITION = (
    r"[Ii]n (?!(?:long|wide|tall|high|deep|thick|longer|wider|by|x|and|of|from|per)\b)[A-Za-z]"
)
# "costs 15$", where no `$` opens mathematics
_DOLLARS_BEHIND = re.compile(r"(?<=\d)\$(?![\w$])")
# A word of a question, but no child "6 years old", or a sign of money, but no `$` of mathematics.
_UNIT_OF_QUESTION = re.compile(
    rf"(?<![A-Za-z\\])(?!{_PREPOSITION})[A-Za-z]+(?![A-Za-z])(?![ -]old)"
    rf"|[{_SIGNS.replace('$', '')}]"
    r"|\$ ?\.?\d[\d,.]*+(?![A-Za-z$])(?!\\?\$|\(| ?[-=+*^<>\\{}])|(?<=\d)[\"”″]"
)
_NUMBER_BEFORE = re.compile(
    r"(?:\d|\b([a-z]+))(?: more| extra| full)?(?:[\s,~}$-]|\\[,;]|\\text\{)*$"
)
# The time during which something happens is none of the times that the question measures: "in 4
# weeks", "5 days a week".
_DURING = re.compile(r"(?i)\b(?:over|in|after|within|during) (?:the (?:\w+ )?)?[\w.,-]+[\s-]*\Z")
_PER = re.compile(r"(?:/ ?|\bper )\Z")
_ORDINAL = re.compile("third|[a-z]+th")  # "on the third day"
_AND_A_HALF = re.compile(r"(?i)[a-z]+ and a half\b|(?<=half an )[a-z]+")
_FREQUENCY = re.compile(r"(?i)(?:day|week|month)s? (?:a|an|per|each|every|of (?:the|each|every)) ")
_OTHER_KINDS = {"deg": ["temperature"], "oz": ["volume"], "lb": ["energy"]}
_POWERS = {"2": "an area", "3": "a volume"}  # of a length, by what a question asks for
_SENTENCE = re.compile(r"(?<=[.!?。？])(?<!\b(?:Mr|Ms|Dr|St|vs)\.)(?<!\bMrs\.)\s+")
TIMES = ["s", "min", "h", "day", "week", "month", "year"]
_CALENDAR = frozenset(["day", "week", "month", "year"])
_LONGER = {"s": ["min", "h"], "min": ["h"]}
_UNIT_WORDS = [word for word in NAMES if len(word) > 1 or not word.isascii()]
_LONGEST_FIRST = sorted(_UNIT_WORDS, key=len, reverse=True)


def stem(word: str) -> str:
    """Return a word of more than four letters without its last two."""
    word = word.lower().removesuffix("s")
    return word[: max(4, len(word) - 2)] if len(word) > 4 else word


_SCALE_STEMS = frozenset(map(stem, SCALES))


def _counted_words(phrase: str) -> list[str]:
    """Return the words of "how many …" up to its verb."""
    words = words_of(phrase)
    verbs = [n for n, word in enumerate(words) if word in _VERBS]
    return words[: verbs[0]] if verbs else words


def _undivided(words: list[str]) -> list[str]:
    """Return `pages` of "pages a day"."""
    return list(takewhile(lambda word: word not in _DIVIDING, words))


def _kinds_in(phrase: str) -> set[str]:
    """Return the dimensions of the units that a phrase names."""
    names = [unit_name(f" {word}") or "" for word in words_of(phrase)]
    return {kind_of(name) for name in names if name in KINDS}


def _is_of_money(name: str) -> bool:
    return kind_of(name) == "money"


def _kinds_named(phrase: str) -> set[str]:
    """Return the dimensions that a phrase in lower case names: "how long" a length and a time."""
    return {kind for kind, words in ASKED_BY.items() if words.search(phrase)}


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
    def asking(self) -> str:
        """The sentence that asks: the last one with a question mark, or the last of all."""
        sentences = _SENTENCE.split(self.text.strip())
        asking = [sentence for sentence in sentences if sentence.endswith(("?", "？"))]
        return (asking or sentences)[-1]

    @cached_property
    def _counted(self) -> list[list[str]]:
        """What the question counts: `red apples` of "How many red apples does Tom have?"."""
        return [_counted_words(phrase) for phrase in _COUNTED.findall(self.asking.lower())]

    @cached_property
    def _counted_stems(self) -> frozenset[str]:
        return frozenset(map(stem, chain(*self._counted)))

    def counts(self, word: str) -> bool:
        """Whether the question counts what `word` names. One that does not say what it counts
        ("How many are left?") counts whatever it speaks of."""
        if self._asks_for_share:
            return False
        if self._counted_stems:
            is_bound = word.lower() in NEVER and word.lower() not in _COMPARED
            return stem(word) in self._counted_stems and not is_bound
        return word.lower() not in NEVER and stem(word) in set(map(stem, words_of(self.text)))

    def wants_no(self, name: str) -> bool:
        """Whether the question contradicts a number of the unit `name`, where the gold has none:
        "How many oysters?" wants none of hours, "How old?" none of months, "in feet" none of
        inches."""
        base, power, divisor = parts_of(name)
        kind = kind_of(base)
        if kind is None and base != "unit":
            return False
        is_requested = self._requests(name)
        if is_requested is not None:
            return not is_requested
        if self._counts_another(base) or self._wants_another_power(base, power, divisor):
            return True
        if kind is None:
            return False
        # g/mol, of which nobody speaks
        is_compound = bool(divisor) or power.startswith("-")
        return self._wants_no_kind(base, kind, is_compound)

    def _wants_no_kind(self, base: str, kind: str, is_compound: bool) -> bool:
        """Whether the question asks for another kind of measure than this unit's, or measures the
        kind with another unit."""
        kinds = self._kinds_asked_for
        for other_kind in set(_OTHER_KINDS.get(base, ())).intersection(kinds or ()):
            kind = other_kind
        if kinds is not None and kind not in kinds:
            return True
        asking = self.asking.lower()
        if kind == "time" and asks_for("an age", asking):
            return base != "year" and not asks_for("a part of a year", asking)
        if base in self._times_too_long or (kind == "time" and asks_for("a moment", self._clause)):
            return True
        if kinds is None and is_compound:
            return False
        return kind in ASKED_BY and not self._measures_with(base, kind)

    def asks_for_another_unit(self, name: str) -> bool:
        """Whether the question asks for a unit of the kind of `name`, but not for it."""
        return self.text != "" and self._requests(name) is False

    def _requests(self, name: str) -> bool | None:
        """Whether the question asks for a unit, or for another one of its kind; None where it asks
        for none."""
        for text in (self.asking + self.text.partition(self.asking)[2], self.text):
            is_requested = _is_requested(text, name.split(" ")[0], parts_of(name)[2])
            if is_requested is not None:
                return is_requested
        return None

    def _wants_another_power(self, base: str, power: str, divisor: str | None) -> bool:
        """Whether an area or a volume is asked for, and this power of a length is neither. Square
        and cubic "units" are correct only where they are asked for."""
        asking = self.asking.lower()
        powers = [power for power, request in _POWERS.items() if asks_for(request, asking)]
        if power in powers:
            return False
        if base == "unit" and power != "":
            return True
        is_length = KINDS.get(base, "length") == "length" and not divisor
        return powers != [] and is_length

    def _counts_another(self, base: str) -> bool:
        """Whether the question counts another unit of the kind: "How many leap years"."""
        counted = [_undivided(words)[:4] for words in self._counted]
        counted = {unit_name(f" {word}") for word in chain(*counted)}
        kinds = {kind_of(base), *_OTHER_KINDS.get(base, ())}
        return base not in counted and not kinds.isdisjoint(map(kind_of, counted & KINDS.keys()))

    def _measures_with(self, base: str, kind: str) -> bool:
        """Whether the question measures with this unit of its kind, or asks for the kind and
        measures with none. Of several units one has to be measured clearly more often than the
        others; where cents stand beside dollars, money is dollars."""
        mentioned, measured, counted = self._units
        units = mentioned
        if kind == "time" and base in mentioned and not asks_for("an end", self._clause):
            units = counted if base in _CALENDAR else measured
            units = units.keys() | mentioned.intersection(_LONGER.get(base, ()))
        rivals = {unit for unit in units if kind_of(unit) == kind} - {base}
        if self.is_foreign:
            return base in mentioned or not rivals
        if base == "$":
            rivals.discard("¢")
        rivals -= self._times_too_long
        if base == "¢":  # a price in cents has a sum in dollars
            return False
        if base in mentioned:
            return all(self._is_rather(base, rival) for rival in rivals)
        return not rivals and self._may_be_measured(kind, mentioned)

    def _may_be_measured(self, kind: str, mentioned: set[str]) -> bool:
        """Whether a number may have a unit of this kind, none of which the question names."""
        kinds = self._kinds_asked_for or set()
        if _UNCOUNTED.issubset(kinds):
            return False
        # "How long" asks for hours where the question has hours, and no feet.
        kinds_mentioned = set(map(kind_of, mentioned))
        if kind not in kinds_mentioned and not kinds.isdisjoint(kinds_mentioned):
            return False
        if kind in _kinds_named(self.text.lower()) or not _ENGLISH.search(self.text):
            return True
        return not mentioned and asks_for("an amount", self.asking.lower())

    def _is_rather(self, base: str, rival: str) -> bool:
        """Whether a number without a unit is rather one of `base` than of its `rival`."""
        if base in TIMES and rival in TIMES:
            return self._is_rather_time(base, rival)
        _, measured, _ = self._units
        return 2 * measured[base] >= 3 * measured[rival]

    def _is_rather_time(self, base: str, rival: str) -> bool:
        """Whether a time is rather one of `base`: what lasts hours on some days is hours, unless
        the day is asked on which it ends; else it is the more frequent unit, or the longer one."""
        _, counts, all_counts = self._units
        if (base in _CALENDAR) != (rival in _CALENDAR):
            is_clock = base not in _CALENDAR and counts[base] > 0
            return is_clock and not asks_for("an end", self._clause)
        if base in _CALENDAR:
            counts = all_counts
        elif counts[base] == 1 and not counts[rival]:  # "30 minutes" beside "50 miles per hour"
            return TIMES.index(base) > TIMES.index(rival)
        if counts[base] != counts[rival]:
            return counts[base] > counts[rival]
        return TIMES.index(base) > TIMES.index(rival)

    @cached_property
    def _units(self) -> tuple[set[str], Counter[str], Counter[str]]:
        """The units whose names the question has, how often each stands behind a number that is
        not the time during which something happens, and how often behind any number."""
        if self.is_foreign:
            return self._foreign_units()
        mentioned = set()
        measured = Counter()
        counted = Counter()
        for match in _UNIT_OF_QUESTION.finditer(self.text):
            word = match[0].rstrip("0123456789., ")
            word = "inch" if word in '"”″' else word
            name = NAMES.get(word) or NAMES.get(word.lower())
            start = match.start()
            before = self.text[:start][-60:]
            is_measured = self._is_behind_number(start) or not word.isalpha()
            if word.lower() in RATES:
                mentioned.update(RATES[word.lower()].split(" / "))
            # "her second car", but "9 feet per second"
            is_ordinal = word.lower() == "second" and not (is_measured or _PER.search(before))
            if name not in KINDS or word == "has" or is_ordinal:
                continue
            is_condition = KINDS[name] == "time" and self._is_duration(before, start)
            is_size = self._is_size(name, before)
            if is_measured and not is_size:
                counted[name] += 1
                measured[name] += not is_condition
            if len(word) > 2 and word not in ANNOUNCING:
                mentioned.add(name)
        dollars = self._dollars_behind()
        measured["$"] += dollars
        counted["$"] += dollars
        measured = +measured
        counted = +counted
        return mentioned | counted.keys(), measured, counted

    def _dollars_behind(self) -> int:
        """How many numbers have a dollar sign behind them, in a question without mathematics."""
        signs = len(_DOLLARS_BEHIND.findall(self.text))
        if signs == self.text.count("$"):
            return signs
        return 0

    def _is_size(self, name: str, before: str) -> bool:
        """Whether a unit is in the name of something, as in "a 12-ounce drink"."""
        return KINDS[name] in ("mass", "volume") and before.endswith("-")

    def _is_duration(self, before: str, start: int) -> bool:
        """Whether the time at a place is that during which, or how often, something happens."""
        return bool(_DURING.search(before) or _FREQUENCY.match(self.text, start))

    def _foreign_units(self) -> tuple[set[str], Counter[str], Counter[str]]:
        """The units whose names a question in a language without spaces has."""
        text = self.text.lower()
        named = set()
        for word in _LONGEST_FIRST:
            if word.lower() in text:
                named.add(NAMES[word])
                text = text.replace(word.lower(), " ")  # no 厘米 in 平方厘米
        return named, Counter(named), Counter(named)

    def _is_behind_number(self, start: int) -> bool:
        """Whether the word that begins here stands behind a number, or behind "and a half"."""
        before = _NUMBER_BEFORE.search(self.text[max(0, start - 20) : start])
        if before is not None:
            word = before[1]
            if not word or (is_number_word(word) and not _ORDINAL.fullmatch(word)):
                return True
        return _AND_A_HALF.match(self.text, start) is not None

    @cached_property
    def _clause(self) -> str:
        """What is asked, in lower case, without the conditions before and behind it."""
        asking = self.asking.lower()
        clause = _CLAUSE.search(asking)
        return clause[0] if clause else asking

    @cached_property
    def _kinds_asked_for(self) -> set[str] | None:
        """The dimensions of which the question wants a number, none where it counts things or asks
        for a share; None where it does not say."""
        if self._asks_for_share:
            return set()
        asking = self.asking.lower()
        wanted = REQUESTS["a unit"].findall(self._clause)
        wanted = [re.split(r" per |/| an? ", phrase)[0] for phrase in wanted]
        kinds = _kinds_in(" ".join(wanted))
        if kinds:
            return kinds
        phrases = _THINGS.findall(self._clause)
        if phrases and not self._clause.startswith("how much"):
            return self._kinds_counted(phrases)
        named = _kinds_named(self._clause)
        is_of_money = any(map(_is_of_money, self._units[0]))
        if not named and is_of_money and asks_for("an amount", asking):
            return {"money"}
        return named or None

    def _kinds_counted(self, phrases: list[str]) -> set[str]:
        """The dimensions that phrases behind "how many" count by; of "how many are left" all that
        a number may be left of."""
        words = [word for phrase in phrases for word in _counted_words(phrase)]
        words = _undivided([word for word in words if word not in _COMPARED])
        if not words:
            return _UNCOUNTED | _kinds_named(self._clause)
        if words[0] in _NOT_COUNTED and words[0] != "times":
            return _UNCOUNTED
        kinds = _kinds_in(" ".join(words))
        return kinds | {"temperature"} if "angle" in kinds else kinds

    @cached_property
    def _asks_for_share(self) -> bool:
        """Whether the question asks for a part of something, which is no count of it."""
        return asks_for("a pure number", self.asking) and not self._counted_stems

    @cached_property
    def _times_too_long(self) -> set[str]:
        """The units of time that are no part of the period asked for: days and weeks for "how long
        each day"."""
        starts = [TIMES.index(period) for period in self._periods_asked_for if period in TIMES]
        return set(TIMES[min(starts) :]) if starts else set()

    @cached_property
    def _periods_asked_for(self) -> set[str]:
        """The units of which the question asks for a rate: the day of "each day"."""
        divisors = re.findall(r"(?:\b(?:per|each|every|an?)\s+|/\s*)([a-z]+)(?! ago)", self._clause)
        return {unit_name(f" {divisor}") or "" for divisor in divisors}

    def asks_for_another_rate(self, counted: str, divisor: str) -> bool:
        """Whether `counted` per `divisor` contradicts the question: it asks for an amount per
        another unit of the kind ("each week"), or for a length and no speed."""
        if re.search(r"(?i)\b(?:speed|fast|rate|velocity|pace|density|slope)", self.asking):
            return False
        name = unit_name(f" {divisor}") or divisor
        if name in self._periods_asked_for:
            return False
        kind = kind_of(name)
        if kind == "time" and kind_of(counted.split("^")[0]) == "length":
            return "length" in (self._kinds_asked_for or ())
        return kind is not None and kind in map(kind_of, self._periods_asked_for)

    def counts_by_scale_of(self, words: list[str]) -> bool:
        """Whether words beside a number have the scale that the question counts by, if it has one:
        "12 eggs" is no answer to "How many dozen eggs?"."""
        scales = _SCALE_STEMS & self._counted_stems
        return scales <= set(map(stem, words))
