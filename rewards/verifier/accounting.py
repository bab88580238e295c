"""Every word of an answer is accounted for.

An answer may say "There are 12 apples." for 12. Each word around the mathematics has to be one
that announces or joins (tables/words.txt), a unit, or a noun that the question counts. A word of
denial, doubt, choice, bound or comparison is none of these, whatever the question says. An answer
with any other word is not read.
"""

import re
from collections.abc import Iterator

from rewards.verifier.notation import without_text
from rewards.verifier.phrases import CONCLUDING
from rewards.verifier.question import (
    ANNOUNCING,
    JOINING,
    NEVER,
    PIECE,
    PUNCTUATION,
    Question,
    is_word,
    words_of,
)
from rewards.verifier.units import is_known_unit, unit
from rewards.verifier.value import value
from rewards.verifier.value_types import Expr, Quantity, Ratio, Words

_ARTICLES = frozenset(["a", "an", "the", "one"])
_RATES = frozenset(["a", "an", "per", "each", "every"])  # behind a value
_COPULA = re.compile(r"(?:입니다|이에요|예요|이다|です|である|だ)[.。]?$")
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
        answer = bare
    core = (
        answer_in(gold, answer, question, is_lenient) if re.search(r"[^\W\d_]{2}", answer) else None
    )
    if core and core != answer:
        yield core
    ordinal = value(core or answer)
    if isinstance(ordinal, Quantity) and ordinal.unit == "ordinal" and question.asks_which:
        yield str(ordinal.value)
    decimal = with_decimal_points(core or answer, question)
    if decimal != (core or answer):
        yield decimal


def answer_in(gold: str, answer: str, question: Question, is_lenient: bool) -> str | None:
    """Return `12 kg` for "It is 12 kg.", or None where a word is not accounted for."""
    text = without_text(answer).replace("**", "").strip()
    if ".." in text or "…" in text:  # more follows
        return None
    *way, text = _CONCLUSION.split(text)
    strange = (word.lower() for word in words_of(" ".join(way)) if word.lower() not in ANNOUNCING)
    if any(word in NEVER if is_lenient else True for word in strange):
        return None
    if isinstance(value(gold), Words):
        return _words_behind_announcement(text)
    # The terms of a ratio may stand in another order than its nouns.
    is_ratio = isinstance(value(gold), Ratio)
    spans = []  # the positions of runs of mathematics
    words = []
    kinds = set()
    was_value = after_joint = False
    article_start = 0
    last_kind = ""
    for piece in PIECE.finditer(text):
        word = piece[0].strip(PUNCTUATION)
        if not word:
            continue
        kind = _kind(word, last_kind, question, is_lenient)
        if kind is None or (after_joint and kind != "value") or (is_ratio and kind == "noun"):
            return None
        if kind == "value" and was_value:
            spans[-1] = (spans[-1][0], piece.end())
        elif kind == "value":
            # "a third" is another number than "third"
            has_article = words[-1:] and words[-1].lower() in _ARTICLES and word.isalpha()
            spans.append((article_start if has_article else piece.start(), piece.end()))
        article_start = piece.start()
        after_joint = kind == "joint"
        was_value = kind in ("value", "joint")  # a value behind a joint belongs to the same run
        last_kind = kind
        kinds.add(kind)
        words += ["per", "each", "every"] if kind == "rate" else [word]
    if after_joint or len(spans) != 1:
        return None
    if "noun" in kinds and not question.counts_by_scale_of(words):
        return None
    if "asked" in kinds and not question.is_answered_by(words):
        return None
    start, end = spans[0]
    return text[start:end].rstrip(".,;:")


def _kind(word: str, last_kind: str, question: Question, is_lenient: bool) -> str | None:
    """Return what a word of an answer is; None where nobody accounts for it."""
    lower = word.lower()
    follows_value = last_kind in ("value", "joint")
    if last_kind in ("value", "noun", "asked", "rate") and lower in _RATES:
        return "rate"
    if last_kind == "rate":
        return "announcing" if question.asks_for_rate(word) else None
    if follows_value and lower in JOINING:
        return "joint"
    if not is_word(word):
        return "value"
    if follows_value and is_known_unit(unit(f" {word}") or ""):
        return "value"
    if lower in ANNOUNCING or lower in JOINING:
        return "announcing"
    if last_kind in ("value", "noun") and question.counts(word):
        return "noun"
    if last_kind == "value" and not question.text and unit(f" {word}"):
        return "value"  # nobody can tell which noun it should be
    if is_lenient and question.asks_with(word):
        return "asked"
    return None


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
    gold_words = {word.lower() for word in words_of(gold)}
    for word in words_of(typed.unit):
        lower = word.lower()
        is_accounted = (
            lower in gold_words
            or lower in ANNOUNCING
            or is_known_unit(lower)
            or is_known_unit(word)
            or is_known_unit(unit(f" {word}") or "")
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
