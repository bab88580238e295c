"""Every word of an answer is accounted for.

An answer may say "There are 12 apples." for 12. Each word around the mathematics has to be one
that announces or joins (tables/words.txt), a unit, or a noun that the question counts. A word of
denial, doubt, choice, bound or comparison is none of these, whatever the question says. An answer
with any other word is not read.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from .notation import without_text
from .phrases import CONCLUDING
from .question import ANNOUNCING, JOINING, NEVER, PIECE, PUNCTUATION, Question, is_word, words_of
from .units import is_known_unit, unit
from .value import value
from .value_types import Expr, Quantity, Ratio, Words

_ARTICLES = frozenset(["a", "an", "the", "one"])
_RATES = frozenset(["a", "an", "per", "each", "every"])  # behind a value
_COPULA = re.compile(r"(?:입니다|이에요|예요|이다|です|である|だ)[.。]?$")
_APPROXIMATION = re.compile(r"\s*\((?:≈|\\approx|approx\.|approximately|about)[^()]*\d[^()]*\)\W*$")
_SCALED_UNITS = frozenset(["square", "cubic", "sq", "cu"])
_UNFINISHED = frozenset(["is", "are", "was", "were", "be", "equals", "the", "a", "an"])
_TWO_LETTERS = re.compile(r"[^\W\d_]{2}")
_LONGEST = 300  # characters of an answer that is read again
_CONCLUSION = re.compile(
    rf"(?i)(?:^|(?<=[\s,;:]))(?:{CONCLUDING})(?!\w)[\s,:，]*|"
    r"(?:⟹|⇒|=>|\\implies|\\Rightarrow|\\therefore)\s*"
)


def readings(gold: str, answer: str, question: Question, is_lenient: bool) -> Iterator[str]:
    """Yield what an answer says without its words, and with decimal points for commas.

    `is_lenient` lets a sentence have the words of the sentence that asks, if it has all of them
    that make the question narrower.
    """
    if len(answer) > _LONGEST:
        return
    bare = _COPULA.sub("", answer)
    if bare != answer:
        yield bare
    core = answer_in(gold, bare, question, is_lenient) if _TWO_LETTERS.search(bare) else None
    if core and core != bare:
        yield core
    core = core or bare
    ordinal = value(core)
    if isinstance(ordinal, Quantity) and ordinal.unit == "ordinal" and question.asks_which:
        yield str(ordinal.value)
    decimal = with_decimal_points(core, question)
    if decimal != core:
        yield decimal


class Piece(NamedTuple):
    """A word of an answer, or a piece of its mathematics, and what it is there for."""

    text: str
    start: int
    end: int
    kind: str  # value, joint, announcing, noun, asked or rate


def answer_in(gold: str, answer: str, question: Question, is_lenient: bool) -> str | None:
    """Return `12 kg` for "It is 12 kg.", or None where a word is not accounted for."""
    text = without_text(answer).replace("**", "").strip()
    text = _conclusion(_APPROXIMATION.sub("", text), is_lenient)
    if text is None or ".." in text or "…" in text:  # an ellipsis: more follows
        return None
    expected = value(gold)
    if isinstance(expected, Words):
        return _words_behind_announcement(text)
    pieces = _pieces(text, question, is_lenient)
    runs = _runs(pieces) if pieces else []
    if len(runs) != 1 or pieces[-1].kind == "joint" or pieces[-1].text.lower() in _UNFINISHED:
        return None
    kinds = {piece.kind for piece in pieces}
    if isinstance(expected, Ratio) and "noun" in kinds:
        return None  # its terms may stand in another order than the nouns
    if not _narrows_enough(pieces, kinds, question):
        return None
    return text[_start(runs[0][0], pieces) : runs[0][-1].end].rstrip(".,;:")


def _conclusion(text: str, is_lenient: bool) -> str | None:
    """Return what follows the last "so"; None where a word before it is not accounted for, or, read
    leniently, takes something back."""
    *way, conclusion = _CONCLUSION.split(text)
    for word in words_of(" ".join(way)):
        is_strange = word.lower() not in ANNOUNCING
        if is_strange and (not is_lenient or word.lower() in NEVER):
            return None
    return conclusion


def _pieces(text: str, question: Question, is_lenient: bool) -> list[Piece] | None:
    """Return the words and the mathematics of an answer, or None where one is not accounted for."""
    pieces: list[Piece] = []
    for match in PIECE.finditer(text):
        word = match[0].strip(PUNCTUATION)
        if not word:
            continue
        kind = _kind(word, pieces[-1].kind if pieces else "", question, is_lenient)
        if kind is None:
            return None
        pieces.append(Piece(word, match.start(), match.end(), kind))
    return pieces


def _kind(word: str, kind_before: str, question: Question, is_lenient: bool) -> str | None:
    """Return what a word is there for, from the kind of the piece before it."""
    lower = word.lower()
    if kind_before == "rate":
        return "announcing" if question.asks_for_rate(word) else None
    if kind_before in ("value", "noun") and lower in _RATES:
        return "rate"
    if kind_before in ("value", "joint"):
        if lower in JOINING:
            return "joint"
        if lower in _SCALED_UNITS or _is_unit(word):
            return "value"
    if not is_word(word):
        return "value"
    if kind_before == "joint":
        return None  # "12 or more"
    if lower in ANNOUNCING or lower in JOINING:
        return "announcing"
    return _kind_of_noun(word, kind_before, question, is_lenient)


def _is_unit(word: str) -> bool:
    return is_known_unit(unit(f" {word}") or "")


def _kind_of_noun(word: str, kind_before: str, question: Question, is_lenient: bool) -> str | None:
    if kind_before in ("value", "noun") and question.counts(word):
        return "noun"
    if kind_before == "value" and not question.text and unit(f" {word}"):
        return "value"  # nobody can tell which noun it should be
    if _is_unit(word):
        return None  # "an hour and a half"
    return "asked" if is_lenient and question.asks_with(word) else None


def _runs(pieces: list[Piece]) -> list[list[Piece]]:
    """Return the values that stand together, with the words that join them."""
    runs: list[list[Piece]] = []
    kind_before = ""
    for piece in pieces:
        if piece.kind in ("value", "joint"):
            if kind_before not in ("value", "joint"):
                runs.append([])
            runs[-1].append(piece)
        kind_before = piece.kind
    return runs


def _start(first: Piece, pieces: list[Piece]) -> int:
    """Return where a run begins: "a third" is another number than "third"."""
    at = pieces.index(first)
    if at and first.text.isalpha() and pieces[at - 1].text.lower() in _ARTICLES:
        return pieces[at - 1].start
    return first.start


def _narrows_enough(pieces: list[Piece], kinds: set[str], question: Question) -> bool:
    """Whether an answer with words of the question has all of them that narrow it."""
    words = [piece.text for piece in pieces]
    if "rate" in kinds:
        words += ["per", "each", "every"]
    if "noun" in kinds and not question.counts_by_scale_of(words):
        return False
    return "asked" not in kinds or question.is_answered_by(words)


def _words_behind_announcement(text: str) -> str | None:
    """Return `Evelyn` for "It's Evelyn.", where the gold is words."""
    words = text.rstrip(".!").split()
    first = 0
    while first < len(words) and words[first].strip(PUNCTUATION).lower() in ANNOUNCING:
        first += 1
    return " ".join(words[first:]) or None


def unaccounted_word(answer: str, gold: str, question: Question) -> str | None:
    """Return the first word beside the number of an answer that is neither a unit nor a noun that
    the question counts; None where there is none."""
    typed = value(answer)
    if not isinstance(typed, Quantity | Expr) or not typed.unit or not question.text:
        return None
    if typed.unit in ("ordinal", getattr(value(gold), "unit", "")):
        return None
    if not question.counts_by_scale_of(words_of(answer)) and not is_known_unit(typed.unit):
        return typed.unit
    if question.is_foreign and is_known_unit(typed.unit):
        base = re.split(r"[ ^]", typed.unit)[0]
        return typed.unit if question.names_another_unit(base) else None
    divisor = typed.unit.partition("/")[2].split("^")[0].strip()
    if divisor and "/" not in gold and not question.asks_for_rate(divisor):
        return f"per {divisor}"
    gold_words = {word.lower() for word in words_of(gold)}
    for word in words_of(typed.unit):
        lower = word.lower()
        is_accounted = (
            lower in gold_words
            or lower in ANNOUNCING
            or is_known_unit(lower)
            or is_known_unit(word)
            or _is_unit(word)
            or question.counts(word)
        )
        if not is_accounted:
            return word
    return None


def with_decimal_points(text: str, question: Question) -> str:
    """Return `12.5` for "12,5" and `1320` for "1.320", where the question is in a language that
    writes so."""
    if not question.is_foreign or re.search(r"[(\[]|,\s", text):
        return text
    thousands = r"(?<![\d.,])\d{1,3}(?:\.\d{3})+(?![\d.])"
    text = re.sub(thousands, lambda match: match[0].replace(".", ""), text)
    return re.sub(r"(?<![\d.,])(\d+),(\d+)(?![\d,])", r"\1.\2", text)
