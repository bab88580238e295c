"""The answer within a sentence: the words and numbers that the question has too are no answer, so
the one that remains is."""

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from rewards.verifier.languages import spoken_number
from rewards.verifier.notation import plain
from rewards.verifier.numerals import PARTS, SCALES, is_number_word, number
from rewards.verifier.phrases import hedge
from rewards.verifier.question import (
    ANNOUNCES,
    FUNCTION_WORDS,
    PIECE,
    PUNCTUATION,
    Question,
    is_word,
    stem,
    words_of,
)
from rewards.verifier.units import denies, is_known_unit, shifts, unit
from rewards.verifier.value import is_name
from rewards.verifier.value_types import Ratio, Words

_DIGITS = re.compile("(?:zeroe?|one|two|three|four|five|sixe|seven|eight|nine)s")
_JOINING = "and or to et und y e ou oder и или à zu en og och"
_JOINS = frozenset(_JOINING.split())
_DENYING = "nicht pas non não не nie niet inte ikke nu bukan değil"
_NOT = frozenset(_DENYING.split())
_BASES = frozenset(["binary", "octal", "decimal", "hexadecimal", "hex"])
_END = re.compile(
    r"(?<=[.!?。])(?<!\d!)(?<!\b[apt]\.)(?<![ap]\.m\.)(?<!\b(?:sq|cu)\.)\s+(?=[^\W\d_]|[$(*“])"
)
# A pair of names shows the order of a ratio's terms.
_PAIR = re.compile(r"(?!is\b)([^\W\d_]{2,}) ?(?:to|:) ?(?:the )?([^\W\d_]{2,})")
_MULTIPLE_OF = re.compile(r"\b(square|cube|double|triple|share|part|multiple) of\b")
_NO_VALUE = re.compile(r"(?i)\?|\bused to\b|\bone (?:of|answer|solution|root|value|possible)\b")
_CONCLUDING = "so thus hence therefore and giving gives making which ⟹ ⇒ => \\implies donc soit"
_CONCLUDES = frozenset(_CONCLUDING.split())
_SUBJECT = re.compile(r"([^\W\d_]+) (?:is|was|does|did|has|will|can)\W*")  # "Amy is."
_HALF_OF_DAY = re.compile(r"(\d{1,2}(?::\d\d)?) in the (morning|afternoon|evening)\b")
# "seven and a half", "an hour and a half"
_AND_A_HALF = re.compile(r"\b(?:([a-z]+)|an?( [a-z]+)) and a half\b")
_COMES_TO = re.compile(
    r"\b(?:comes?|came|amounts?|simplifies|reduces|evaluates|adds? up|works? out) to$"
)
_ORDINAL = re.compile(r"(?i)(?:\d|ty-)(?:st|nd|rd|th|first|second|third)$|[a-z]{2}th$")
_BEING = re.compile(
    r"(?i)\b(?:is|are|was|were|be) (?:called |always |only |then )?(?:(?:a|an|the|its|his|her|"
    r"their) )?(?=[^\W\d_])([^,.;:()]{1,40})\W*$"
)
_YES_OR_NO = re.compile(
    r"(?i)(?:.*[.?!,:] )?(?:yes or no:? )?(?:is|are|does|do|can|will|has|have|was|were) [^.?]*\?$"
)
# The codes of pieces: m mathematics, b the same before a colon or a full stop, u a unit, j a word
# that joins values, w another word.
_SPAN = re.compile(r"(?:mu*(?:j(?=[mb]))?)*b|mu*(?:j?mu*)*")


class Span(NamedTuple):
    """Mathematics in a sentence, the words since the span before it, and where it ends."""

    text: str
    words_before: list[str]
    end: int

    @property
    def word_before(self) -> str:
        return self.words_before[-1] if self.words_before else ""


@dataclass
class Sentence:
    """A sentence, cut into words and mathematics."""

    text: str
    words: list[str]
    new_words: list[str]  # those that the question does not have
    spans: list[Span]


def read_sentence(text: str, question: Question) -> str | None:
    """Return `19` for "The third Friday falls on the 19th", and `(4,2)` for "We halve both. The
    midpoint is (4,2).".

    The last sentence has the answer; those before it are the way to it. It has none if a word of it
    changes or doubts a number, or if more than two of its words are not in the question.
    """
    *earlier, text = _END.split(re.sub(r"\*\*([^*]+)\*\*", r"\1", text).replace("i.e.", "so"))
    sentence = _parse(_HALF_OF_DAY.sub(_am_or_pm, _AND_A_HALF.sub(_one_half, text)), question)
    if _is_doubtful(sentence, question) or _have_answer(earlier, question):
        return None  # "It is 15. It is 29."
    if question.is_yes_or_no and _YES_OR_NO.match(question.text) and not sentence.spans:
        return _yes_or_no(sentence, question)
    answer = _words_of_answer(sentence, question) or _list_of_values(sentence, question)
    if answer:
        return answer
    if question.text and len(sentence.new_words) > 2:
        return None
    if not sentence.spans and (question.has_name or isinstance(question.gold, Words)):
        new_words = " ".join(sentence.new_words)
        return new_words if new_words and new_words in sentence.text else None
    span = _span_of_answer(sentence, question)
    if span is None:
        return None
    if not sentence.words:
        return sentence.text
    return _with_unit(span, sentence, question)


def _one_half(match: re.Match) -> str:
    return f"{match[1]} and one half" if match[1] else f"1.5{match[2]}"


def _am_or_pm(match: re.Match) -> str:
    return f"{match[1]} a.m." if match[2] == "morning" else f"{match[1]} p.m."


def _parse(text: str, question: Question) -> Sentence:
    pieces = list(PIECE.finditer(text))
    codes = _codes(pieces)
    words = []
    for piece, code in zip(pieces, codes, strict=True):
        if code in "jw":
            words.append(piece[0].strip(PUNCTUATION))
    grammar = _JOINS | _BASES if question.mentions_base else _JOINS
    new_words = [word for word in words if question.is_new(word) and word.lower() not in grammar]
    spans = []
    for match in _SPAN.finditer(codes):
        span = _span(text, pieces, codes, match)
        if re.search(r"\w", span.text) and (not question.has_name or is_name(span.text)):
            spans.append(span)
    return Sentence(text, words, new_words, spans)


def _is_doubtful(sentence: Sentence, question: Question) -> bool:
    """Whether a word of the sentence changes, bounds, doubts or denies its value, or the sentence
    has the terms of a ratio in another order than the question."""
    text = sentence.text
    if _NO_VALUE.search(text) or not all(map(question.has_word, _MULTIPLE_OF.findall(text))):
        return True
    changing = [word for word in sentence.new_words if changes_value(word)]
    if question.is_yes_or_no:
        if any(word != "not" for word in changing):
            return True
    elif changing or hedge(text) or any(map(denies, sentence.words)):  # the question may have them
        return True
    for span in sentence.spans:
        word = span.word_before
        if word and word.lower() not in FUNCTION_WORDS and changes_value(word):
            return True
    if isinstance(question.gold, Ratio) and not all(
        map(question.has_in_order, _PAIR.findall(text))
    ):
        return True
    return _has_changed_number(text, question)


def _has_changed_number(text: str, question: Question) -> bool:
    """Whether words of another language change the number of the text, or make it negative."""
    number_in_words = spoken_number(text, question.text or None)
    if number_in_words is None or number_in_words.objection:
        return number_in_words is not None
    return number_in_words.answer[:1] == "-" and not re.search("[-−]", text)


def _have_answer(sentences: list[str], question: Question) -> bool:
    """Whether a sentence ends in a number and has only words of the question."""
    for sentence in sentences:
        has_number = re.search(r"\d[^?]*$", sentence)
        if has_number and not any(map(question.is_new, words_of(sentence))):
            return True
    return False


def _yes_or_no(sentence: Sentence, question: Question) -> str | None:
    """Return `no` for "It is not prime."."""
    if not any(map(question.has_word, sentence.words)):
        return None
    return {(): "yes", ("not",): "no"}.get(tuple(sentence.new_words))


def _words_of_answer(sentence: Sentence, question: Question) -> str | None:
    """Return `Amy` for "Amy is.", where the gold is words."""
    if not isinstance(question.gold, Words) or question.is_yes_or_no:
        return None
    being = _BEING.search(sentence.text)
    if being:
        is_from_question = all(map(question.has_word, words_of(being[1])))
        if is_from_question or all(question.has_value(span.text) for span in sentence.spans):
            return being[1]
    subject = _SUBJECT.fullmatch(sentence.text)
    return subject[1] if subject else None


def _list_of_values(sentence: Sentence, question: Question) -> str | None:
    """Return all values of the sentence, where the gold has as many."""
    spans = sentence.spans
    if not question.has_several_values or len(spans) != len(question.gold.items):
        return None
    if len(sentence.new_words) < 3 and _is_without_names(spans):
        return ", ".join(span.text for span in spans)
    return _in_order_of_names(spans, question)


def _is_without_names(spans: list[Span]) -> bool:
    """Whether no value of a list has a name of its own, as in "the quotient is 7 and the remainder
    is 5"."""
    for span in spans[1:]:
        for word in span.words_before:
            if re.match(r"[A-Z]|\w{4}", word) and word.lower() not in FUNCTION_WORDS:
                return False
    return len(spans) > 1


def _in_order_of_names(spans: list[Span], question: Question) -> str | None:
    """Return the values in the order in which the question has their names, where they equal the
    gold's values in this order."""
    text = question.text.lower()
    stems, places = set(), []
    for span in spans:
        names = [word for word in span.words_before if word.lower() not in FUNCTION_WORDS]
        names = list(filter(question.has_word, names))
        if not names:
            return None
        name = stem(names[-1])
        stems.add(name)
        places.append((text.find(name), text.rfind(name), span.text))
    places.sort()
    last_places = [last for _, last, _ in places]
    if len(stems) < len(spans) or last_places != sorted(last_places):
        return None
    values = [value for _, _, value in places]
    numbers = [number(plain(value.split()[0]).strip("$ ")) for value in values]
    if numbers != [getattr(item, "value", "") for item in question.gold.items]:
        return None
    return ", ".join(values)


def _span_of_answer(sentence: Sentence, question: Question) -> Span | None:
    """Return the value of several that the question does not have, or else the last if it is
    announced as the answer."""
    spans = sentence.spans
    if len(spans) < 2:
        return spans[0] if spans else None
    new_spans = [span for span in spans if not question.has_value(span.text)]
    if not question.text and len(new_spans) > 1:
        return None
    # "the 1st term is 5"
    cardinals = [span for span in new_spans if not _ORDINAL.search(span.text)]
    candidates = cardinals or new_spans
    if len(candidates) == 1:
        return candidates[0]
    return spans[-1] if _is_announced(sentence.text, spans[-2], spans[-1], question) else None


def _may_be_answer(span: Span, sentence: Sentence, question: Question) -> bool:
    """Whether the words before a value leave it as it is."""
    words = span.words_before
    if not words:
        return question.text != ""
    last_word = words[-1]
    if not question.text and question.is_new(last_word):
        return False
    if not _COMES_TO.search(" ".join(words)):
        match last_word.lower():
            case "from" | "than":
                return False
            case "to" if not question.has_several_values:
                return False
            case "by" if not re.search(r"(?i)\bby (?:what|how)\b", question.text):
                return False
    if last_word not in sentence.new_words:
        return True
    subject = words[-2] if len(words) > 1 else ""  # "Room 5" has none
    is_name_of_question = subject[:1].isupper() and subject in question.text
    has_subject = is_name_of_question or subject.lower() in ("he", "she", "they", "we")
    return has_subject or re.search(r"(?:s|ed)$", last_word) is not None


def is_unit(name: str) -> bool:
    return is_known_unit(unit(name) or "")


def changes_value(word: str) -> bool:
    """Whether a word changes, bounds, doubts or denies the value of its sentence."""
    return shifts(word.lower()) or hedge(word) is not None or word.lower() in _NOT


def _codes(pieces: list[re.Match]) -> str:
    """Return a letter for every piece; `_SPAN` lists them."""
    words = [piece[0].strip(PUNCTUATION) for piece in pieces]
    codes = ""
    words_before = ["", *words[:-1]]
    words_after = [*words[1:], ""]
    for piece, before, word, after in zip(pieces, words_before, words, words_after, strict=True):
        codes += _code(piece[0], before, word, after, codes[-1:])
    return codes


def _code(piece: str, word_before: str, word: str, word_after: str, code_before: str) -> str:
    lower = word.lower()
    follows_value = code_before in ("m", "u")
    if lower in ("minus", "negative"):
        return "w" if follows_value else "m"
    if lower == "one":
        return "m" if _is_number_one(word_before, word_after) else "w"
    if code_before == "m" and _DIGITS.fullmatch(lower):  # "63 zeros"
        return "w"
    if not code_before and lower == "a" and is_unit(word_after):  # "A kilo costs"
        return "w"
    if not is_word(word) and not (lower in _JOINS and code_before == "m"):
        return _code_of_value(piece, word, word_after)
    if lower in _JOINS:
        return "j"
    return "u" if follows_value and _is_unit_word(word, word_after) else "w"


def _is_unit_word(word: str, word_after: str) -> bool:
    lower = word.lower()
    name = f" {word} {word_after}" if lower in ("square", "cubic") else f" {word}"
    return lower not in FUNCTION_WORDS and is_unit(name)


def _code_of_value(piece: str, word: str, word_after: str) -> str:
    ends_clause = word and piece[-1] in ".:!" and word_after
    return "b" if ends_clause else "m"


def _is_number_one(before: str, after: str) -> bool:
    """Whether "one" between these words is the number, as it is not in "the one"."""
    if is_unit(after):
        return True
    if after == "of":
        return False
    is_joined = before in ("and", "to") or after in ("and", "to") or is_number_word(after)
    return is_joined or before.lower() in ANNOUNCES


def _span(sentence: str, pieces: list[re.Match], codes: str, match: re.Match) -> Span:
    """Return the mathematics of the pieces whose codes `match` covers."""
    start = pieces[match.start()].start()
    end = pieces[match.end() - 1].end()
    text = sentence[start:end].removeprefix("— ").strip(' ,;:`"').removesuffix(".").rstrip('.`"')
    if not (text.endswith("!") and sentence[end - 1] == "."):
        text = text.rstrip("!")
    if text.count("(") != text.count(")"):
        text = text.strip("()")
    first = 1 + max(codes.rfind(code, 0, match.start()) for code in "mbu")
    words_before = [piece[0].strip(PUNCTUATION) for piece in pieces[first : match.start()]]
    if sentence[end - 1] in ".,;:!":
        end -= 1
    return Span(text, words_before, end)


def _is_announced(sentence: str, span_before: Span, last: Span, question: Question) -> bool:
    """Whether "so the remainder is" stands right before the last value, and has no word but those
    of the question. What a clause begins with is its subject: "$x^2$ is 5"."""
    words = [word.lower() for word in last.words_before]
    if words[-1:] in (["a"], ["an"], ["the"]):
        words = words[:-1]
    verb_before = [word.lower() for word in span_before.words_before[-1:]]
    if words[:1] == ["and"] and verb_before == words[-1:]:
        # "Lily has 12 and Max has 24": the question has to ask for Max.
        last_question = Question(question.gold, re.split(r"[.?!]\s", question.text.strip())[-1])
        subjects = (word for word in words if word not in FUNCTION_WORDS)
        if not all(map(last_question.has_word, subjects)):
            return False
    if not words or any(map(question.is_new, last.words_before)):
        return False
    if words[-1] not in ANNOUNCES and {"so", "thus", "hence", "therefore"}.isdisjoint(words):
        return False
    mark_after = sentence[span_before.end : span_before.end + 1]
    if mark_after in (",", ";", ".", ":") or not _CONCLUDES.isdisjoint(words):
        return True
    return question.has_value(span_before.text)


def _with_unit(span: Span, sentence: Sentence, question: Question) -> str | None:
    """Return the value with the unit or the base after it; for "the tenth power" of a question
    about powers, `the tenth`."""
    if not _may_be_answer(span, sentence, question):
        return None
    text_after = sentence.text[span.end :]
    base = re.match(r" \(?(?:in )?(?:base[- ]\w+|binary|octal|decimal|hex\w*)\)?", text_after)
    if base:
        return span.text + base[0]
    first_word, last_word = span.text.split()[0], span.text.split()[-1]
    # "half a day", but "5 litres a day"
    if re.match(r"\s+an?\s", text_after) and not is_unit(f" {last_word}"):
        return None
    aside = re.match(r"\s*\(([^()\d]*)\)", text_after)  # "12 (cakes)"
    if aside and any(map(question.is_new, words_of(aside[1]))):
        return None
    if re.match(r"\s+(?:or|at (?:least|most))\b", text_after):
        return None
    text = span.text
    words = re.match(r"(?:\s+[^\W\d_]+)*", text_after)[0].split()
    words = list(takewhile(lambda word: word.lower() not in FUNCTION_WORDS, words))
    has_unit = any(map(is_unit, words))
    article = span.word_before
    if last_word.lower() in PARTS or re.search(r"\d(?:st|nd|rd|th)$", text):  # an ordinal
        if article in ("a", "an", "one"):
            return None
        if article == "the" and text[0].isalpha():
            text = f"the {text}"
        has_unit = False
    if first_word in SCALES and article == "a":  # "a dozen"
        text = f"a {text}"
    if not has_unit:
        words = list(filter(question.is_new, words))
    return " ".join([text, *words])
