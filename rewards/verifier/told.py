"""What a sentence says beside its question: words and numbers that both have tell nothing, and what
is left does."""

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

from rewards.verifier.languages import number_said
from rewards.verifier.notation import PARTS, SCALES, is_number_word, key, number, plain
from rewards.verifier.phrases import BASE, hedge
from rewards.verifier.units import denies, known, shifts, unit
from rewards.verifier.value import (
    Expr,
    InBase,
    Interval,
    List,
    Ratio,
    Set,
    Tuple,
    Value,
    Words,
    is_name,
)

_FUNCTION_WORDS = (
    "a an the it is are was were be been will would has have had of in on at to for by from there"
    " this that these he she we they you i one ones its it's their his her our so answer result"
    " value number total exactly just only such equals equal gives give makes make get gets got"
    " becomes leaves falls fall comes came lands lies stands sits needs take takes pays costs"
    " measure measures left remain remains altogether all with and as then hence therefore thus"
    " which who must can finally point vector matrix pair ratio proportion ist est es è é sind sont"
    " son sono são jest now är je είναι це дорівнює vaut vale beträgt wynosi um à das der die le la"
    " el il lo las los les"
)
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
_ANNOUNCING = (
    "is are was were be equals gives giving makes making has have so thus hence therefore namely ⟹"
    " ⇒ => \\implies ist sind est sont soit donc son è sono é são jest är это beträgt vaut vale"
)
_ANNOUNCES = frozenset(_ANNOUNCING.split())
_JOINING = "and or to et und y e ou oder и или à zu en og och"
_DIGITS = re.compile("(?:zeroe?|one|two|three|four|five|sixe|seven|eight|nine)s")
_JOINS = frozenset(_JOINING.split())
_DENYING = "nicht pas non não не nie niet inte ikke nu bukan değil"
_NOT = frozenset(_DENYING.split())
_BASES = frozenset(["binary", "octal", "decimal", "hexadecimal", "hex"])
_PIECE = re.compile(
    r"\$(?!\d[\d,.]*\s+[A-Za-z]{2})[^$]+\$|\\\(.+?\\\)|\\begin\{(\w+)\}.+?\\end\{\1\}|\d\d?"
    r" (?:Uhr|h) \d\d\S*|\S+"
)
_PUNCTUATION = "()[]{}.,;:!?\"'“”«»*`"
_END = re.compile(
    r"(?<=[.!?。])(?<!\d!)(?<!\b[apt]\.)(?<![ap]\.m\.)(?<!\b(?:sq|cu)\.)\s+(?=[^\W\d_]|[$(*“])"
)
_WORD = re.compile(r"[^\W\d_]{2,}(?:['’:-][^\W\d_]+)*|[aI⟹⇒]|=>|\\implies|[^\W\d_A-Za-zπ]")
# A pair of names that tells which way round a ratio is, and what makes a sentence say less than a
# number.
_PAIR = re.compile(r"(?!is\b)([^\W\d_]{2,}) ?(?:to|:) ?(?:the )?([^\W\d_]{2,})")
_OF = re.compile(r"\b(square|cube|double|triple|share|part|multiple) of\b")
_LESS = re.compile(r"(?i)\?|\bused to\b|\bone (?:of|answer|solution|root|value|possible)\b")
_CONCLUDING = "so thus hence therefore and giving gives making which ⟹ ⇒ => \\implies donc soit"
_CONCLUDES = frozenset(_CONCLUDING.split())
_WHO = re.compile(r"([^\W\d_]+) (?:is|was|does|did|has|will|can)\W*")  # "Amy is."
_HALF = re.compile(r"(\d{1,2}(?::\d\d)?) in the (morning|afternoon|evening)\b")
# "seven and a half", "an hour and a half"
_AND_A_HALF = re.compile(r"\b(?:([a-z]+)|an?( [a-z]+)) and a half\b")
_COMES_TO = re.compile(
    r"\b(?:comes?|came|amounts?|simplifies|reduces|evaluates|adds? up|works? out) to$"
)
_ORDINAL = re.compile(r"(?i)(?:\d|ty-)(?:st|nd|rd|th|first|second|third)$|[a-z]{2}th$")
_BEING = re.compile(
    r"(?i)\b(?:is|are|was|were|be) (?:called |always |only |then"
    r" )?(?:(?:a|an|the|its|his|her|their) )?"
    r"(?=[^\W\d_])([^,.;:()]{1,40})\W*$"
)
_YES_OR_NO = re.compile(
    r"(?i)(?:.*[.?!,:] )?(?:yes or no:? )?(?:is|are|does|do|can|will|has|have|was|were) [^.?]*\?$"
)
# Of the codes of pieces: mathematics (b before a colon or a full stop), a unit, a word that joins
# values, another word.
_SPAN = re.compile(r"(?:mu*(?:j(?=[mb]))?)*b|mu*(?:j?mu*)*")
_ENGLISH = re.compile(
    r"(?i)\b(?:the|of|how|what|which|who|find|compute|evaluate|calculate|write|give|solve|express|simplify|list|name|"
    r"order|sort|convert|determine|round|is)\b"
)


@dataclass
class Asked:
    """What the readings may look at."""

    gold: Value
    text: str  # of the question, "" where there is none

    @cached_property  # most steps ask for it
    def foreign(self) -> bool:
        """Whether the question is in another language than English."""
        return (
            _ENGLISH.search(self.text) is None and re.search(r"[^\W\d_]{3}", self.text) is not None
        )

    @property
    def several(self) -> bool:
        return isinstance(self.gold, List | Set | Tuple) or (
            isinstance(self.gold, Interval) and self.gold.left_open
        )

    @cached_property
    def _stems(self) -> set[str]:
        return {stem(word) for word in re.findall(r"[^\W_]+(?:['’][^\W\d_]+)?", self.text)}

    @cached_property
    def _keys(self) -> set[str]:
        """The mathematics of the question, each number in digits."""
        pieces = (piece[0].strip(_PUNCTUATION) for piece in _PIECE.finditer(self.text))
        return {_in_digits(piece) for piece in pieces if piece and not _is_word(piece)}

    @cached_property
    def in_base(self) -> bool:
        return isinstance(self.gold, InBase) or BASE.of(self.text.lower())

    def has(self, word: str) -> bool:
        return stem(word) in self._stems

    def lacks(self, word: str) -> bool:
        """Whether `word` is more than grammar, and not in the question."""
        return not self.has(word) and word.lower() not in FUNCTION_WORDS | _ANNOUNCES

    def has_in_order(self, names: tuple[str, str]) -> bool:
        return (
            any(map(is_number_word, names))
            or re.search(rf"(?i){names[0]}\W+(?:\w+\W+){{0,2}}{names[1]}", self.text) is not None
        )

    def has_value(self, text: str) -> bool:
        """Whether the question has this number or formula, or it is a mere name."""
        text = re.sub(r"(?<=\d) .*|(?<=[a-z]{3}) [a-z]+$|\$", "", text)
        name = is_name(text) and (not self.text or text.lower() in self.text.lower())
        return name or _in_digits(text) in self._keys


class Span(NamedTuple):
    """Mathematics in a sentence, the words since the span before it, and where it ends."""

    text: str
    before: list[str]
    end: int


def told(text: str, asked: Asked) -> str | None:
    """`19` of "The third Friday falls on the 19th", `(4,2)` of "We halve both. The midpoint is
    (4,2).".

    All but the last sentence is the way to it. A sentence tells nothing if a word of it changes or
    doubts a number, or if more than two of its words are not in the question.
    """
    *earlier, said = _END.split(re.sub(r"\*\*([^*]+)\*\*", r"\1", text).replace("i.e.", "so"))
    said = _AND_A_HALF.sub(
        lambda found: f"{found[1]} and one half" if found[1] else f"1.5{found[2]}", said
    )
    said = _HALF.sub(lambda found: f"{found[1]} {'a' if found[2] == 'morning' else 'p'}.m.", said)
    pieces = list(_PIECE.finditer(said))
    codes = _codes(pieces)
    words = [
        piece[0].strip(_PUNCTUATION)
        for piece, code in zip(pieces, codes, strict=True)
        if code in "jw"
    ]
    spans = [_span(said, pieces, codes, found) for found in _SPAN.finditer(codes)]
    named = isinstance(asked.gold, Expr) and asked.gold.text.isalpha()
    spans = [
        span for span in spans if re.search(r"\w", span.text) and (not named or is_name(span.text))
    ]
    grammar = _JOINS if not asked.in_base else _JOINS | _BASES
    new = [word for word in words if asked.lacks(word) and word.lower() not in grammar]
    truth = asked.gold in (Words("yes"), Words("no"))
    if (
        _LESS.search(said)
        or not all(map(asked.has, _OF.findall(said)))
        or any(changes(word) and not (truth and word == "not") for word in new)
        # even if the question has it too
        or (not truth and (hedge(said) or any(map(denies, words))))
        or any(
            changes(word)
            for span in spans
            for word in span.before[-1:]
            if word.lower() not in FUNCTION_WORDS
        )
    ):
        return None
    other = number_said(said, asked.text or None)
    if other is not None and (
        other.objection or (other.answer[:1] == "-" and not re.search("[-−]", said))
    ):
        return None
    if any(
        re.search(r"\d[^?]*$", each) and not any(map(asked.lacks, words_of(each)))
        for each in earlier
    ):
        return None  # "It is 15. It is 29."
    if isinstance(asked.gold, Ratio) and not all(map(asked.has_in_order, _PAIR.findall(said))):
        return None
    if truth and _YES_OR_NO.match(asked.text) and not spans:  # "It is not prime."
        return {(): "yes", ("not",): "no"}.get(tuple(new)) if any(map(asked.has, words)) else None
    if isinstance(asked.gold, Words) and not truth:
        end = _BEING.search(said)
        if end and (
            all(map(asked.has, words_of(end[1])))
            or all(asked.has_value(span.text) for span in spans)
        ):
            return end[1]
        if who := _WHO.fullmatch(said):
            return who[1]
    if (
        asked.several
        and len(spans) == len(asked.gold.items)
        and len(new) < 3
        and _listed_alone(spans)
    ):
        return ", ".join(span.text for span in spans)
    if asked.several and len(spans) == len(asked.gold.items) and (named := _by_names(spans, asked)):
        return named
    if asked.text and len(new) > 2:
        return None
    if not spans and (named or isinstance(asked.gold, Words)):
        return " ".join(new) if new and " ".join(new) in said else None
    if len(spans) > 1:
        fresh = [span for span in spans if not asked.has_value(span.text)]
        if not asked.text and len(fresh) > 1:
            return None
        fresh = [
            span for span in fresh if not _ORDINAL.search(span.text)
        ] or fresh  # "the 1st term is 5"
        spans = (
            fresh if len(fresh) == 1 else spans[-1:] if _announced(said, *spans[-2:], asked) else []
        )
    if len(spans) != 1 or not words:
        return said if spans and not words else None
    value, before, end = spans[0]
    by_asked = re.search(r"(?i)\bby (?:what|how)\b", asked.text) is not None
    sound = {"by": by_asked, "to": asked.several, "from": False, "than": False}
    if before and not (sound.get(before[-1].lower(), True) or _COMES_TO.search(" ".join(before))):
        return None
    if not asked.text and (not before or asked.lacks(before[-1])):
        return None
    subject = before[-2] if len(before) > 1 else ""
    verb = subject.lower() in ("he", "she", "they", "we") or (
        subject[:1].isupper() and subject in asked.text
    )
    if (
        before and before[-1] in new and not (verb or re.search(r"(?:s|ed)$", before[-1]))
    ):  # "Room 5"
        return None
    return _with_unit(value, before, said[end:], asked)


def _listed_alone(spans: list[Span]) -> bool:
    """Whether no value of a list has a name of its own, as in "the quotient is 7 and the remainder
    is 5"."""
    return len(spans) > 1 and not any(
        re.match(r"[A-Z]|\w{4}", word) and word.lower() not in FUNCTION_WORDS
        for span in spans[1:]
        for word in span.before
    )


def _by_names(spans: list[Span], asked: Asked) -> str | None:
    """The values in the order in which the question has their names, where they are the gold's one
    by one."""
    names = [
        [word for word in span.before if word.lower() not in FUNCTION_WORDS and asked.has(word)]
        for span in spans
    ]
    if not all(names):
        return None
    text, stems = asked.text.lower(), [stem(words[-1]) for words in names]
    named = sorted(
        zip(
            map(text.find, stems),
            map(text.rfind, stems),
            (span.text for span in spans),
            strict=True,
        )
    )
    if len(set(stems)) < len(stems) or named != sorted(named, key=lambda one: one[1]):
        return None
    numbers = [number(plain(said.split()[0]).strip("$ ")) for *_, said in named]
    same = numbers == [getattr(item, "value", "") for item in asked.gold.items]
    return ", ".join(said for *_, said in named) if same else None


def stem(word: str) -> str:
    return word.lower()[: max(4, len(word) - 2)] if len(word) > 4 else word.lower()


def words_of(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text)


def changes(word: str) -> bool:
    """Whether a word changes, bounds, doubts or denies what a sentence gives."""
    return shifts(word.lower()) or hedge(word) is not None or word.lower() in _NOT


def _codes(pieces: list[re.Match]) -> str:
    codes, bare = "", [piece[0].strip(_PUNCTUATION) for piece in pieces]
    for n, (word, piece) in enumerate(zip(bare, pieces, strict=True)):
        low, behind = word.lower(), bare[n + 1] if n + 1 < len(bare) else ""
        if low in ("minus", "negative"):
            code = "w" if codes[-1:] in ("m", "u") else "m"
        elif low == "one":  # the number, or "the one"
            given = n and bare[n - 1].lower() in _ANNOUNCES and behind != "of"
            joined = {behind, bare[n - 1] if n else ""} & {"and", "to"} or is_number_word(behind)
            code = "m" if given or known(unit(behind) or "") or (joined and behind != "of") else "w"
        elif (_DIGITS.fullmatch(low) and codes[-1:] == "m") or (
            low == "a" and not n and known(unit(behind) or "")
        ):
            code = "w"  # "63 zeros", "A kilo costs"
        elif not _is_word(word) and not (low in _JOINS and codes[-1:] == "m"):
            code = "b" if word and piece[0][-1] in ".:!" and behind else "m"
        else:
            name = f" {word} {behind}" if low in ("square", "cubic") else f" {word}"
            unit_of = (
                codes[-1:] in ("m", "u") and low not in FUNCTION_WORDS and known(unit(name) or "")
            )
            code = "j" if low in _JOINS else "u" if unit_of else "w"
        codes += code
    return codes


def _span(said: str, pieces: list[re.Match], codes: str, found: re.Match) -> Span:
    end = pieces[found.end() - 1].end()
    text = (
        said[pieces[found.start()].start() : end]
        .removeprefix("— ")
        .strip(' ,;:`"')
        .removesuffix(".")
        .rstrip('.`"')
    )
    text = text if text.endswith("!") and said[end - 1] == "." else text.rstrip("!")
    text = text.strip("()") if text.count("(") != text.count(")") else text
    since = 1 + max(codes.rfind(code, 0, found.start()) for code in "mbu")
    before = [piece[0].strip(_PUNCTUATION) for piece in pieces[since : found.start()]]
    return Span(text, before, end - (said[end - 1] in ".,;:!"))


def _is_word(piece: str) -> bool:
    if re.search(r"[⁰¹²³⁴-⁹]", piece):
        return False
    parts = re.sub("-(?:first|second)$", "", piece.lower())  # twenty-first
    return _WORD.fullmatch(piece) is not None and not all(
        map(is_number_word, re.split("[-’']", parts))
    )


def _in_digits(text: str) -> str:
    n = number(plain(text))
    return key(text) if n is None else str(n)


def _announced(said: str, other: Span, last: Span, asked: Asked) -> bool:
    """Whether "so the remainder is" stands right before the last value, and has no word but those
    of the question. What a clause begins with is its subject: "$x^2$ is 5"."""
    words = [word.lower() for word in last.before]
    words = words[:-1] if words[-1:] in (["a"], ["an"], ["the"]) else words
    verb_before = [word.lower() for word in other.before[-1:]]
    if (
        words[:1] == ["and"] and verb_before == words[-1:]
    ):  # "Lily has 12 and Max has 24": who of them is asked for?
        last_asked = Asked(asked.gold, re.split(r"[.?!]\s", asked.text.strip())[-1])
        if not all(map(last_asked.has, (word for word in words if word not in FUNCTION_WORDS))):
            return False
    concludes = bool(_CONCLUDES & {*words}) or said[other.end : other.end + 1] in tuple(",;.:")
    announces = words[-1:] and (
        words[-1] in _ANNOUNCES or {"so", "thus", "hence", "therefore"} & {*words}
    )
    return (
        bool(announces)
        and (concludes or asked.has_value(other.text))
        and not any(map(asked.lacks, last.before))
    )


def _with_unit(text: str, before: list[str], behind: str, asked: Asked) -> str | None:
    """The value with the unit or the base behind it; "the tenth power", where the question speaks
    of powers."""
    if base := re.match(r" \(?(?:in )?(?:base[- ]\w+|binary|octal|decimal|hex\w*)\)?", behind):
        return text + base[0]
    # "12 (cakes)", of which the question does not speak
    aside = re.match(r"\s*\(([^()\d]*)\)", behind)
    measured = known(unit(f" {text.split()[-1]}") or "")  # "5 litres a day"
    if (re.match(r"\s+an?\s", behind) and not measured) or (
        aside and any(map(asked.lacks, words_of(aside[1])))
    ):  # "half a day"
        return None
    if re.match(r"\s+(?:or|at (?:least|most))\b", behind):
        return None
    words = re.match(r"(?:\s+[^\W\d_]+)*", behind)[0].split()
    words = list(takewhile(lambda word: word.lower() not in FUNCTION_WORDS, words))
    ordinal = text.split()[-1].lower() in PARTS or re.search(r"\d(?:st|nd|rd|th)$", text)
    if text.split()[0] in SCALES and before[-1:] == ["a"]:  # "a dozen"
        text = f"a {text}"
    if ordinal and before[-1:] in (["a"], ["an"], ["one"]):
        return None
    if ordinal and before[-1:] == ["the"] and text[0].isalpha():
        text = f"the {text}"
    of_unit = not ordinal and any(known(unit(word) or "") for word in words)
    kept = (word for word in words if of_unit or asked.lacks(word))
    return " ".join([text, *kept])
