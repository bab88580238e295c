"""Every word of an answer is accounted for.

An answer may say "There are 12 apples." for 12. The words at its two ends have to announce or join
(tables/words.tsv), and those beside its number to be a unit or a noun that the question counts. A
word of denial, doubt, choice, bound or comparison is none of these, whatever the question says. An
answer with any other word is not read.
"""

import re
from collections.abc import Iterator

from .notation import without_text
from .phrases import CONCLUDING
from .question import ANNOUNCING, JOINING, PUNCTUATION, Question, words_of
from .units import is_known_unit
from .value import value
from .value_types import Expr, Quantity, Words

_APPROXIMATION = re.compile(
    r"\s*\((?:≈|\\approx|approx\.|approximately|about)[\s$]*([^()]*\d[^()]*)\)[^\w()]*$"
)
_UNFINISHED = (
    frozenset(["is", "are", "was", "were", "be", "equals", "the", "a", "an", "in"]) | JOINING
)
_TWO_LETTERS = re.compile(r"[^\W\d_]{2}")
_LONGEST = 300  # characters of an answer that is read again
_CONCLUSION = re.compile(
    rf"(?i)(?:^|(?<=[\s,;:]))(?:{CONCLUDING})(?!\w)[\s,:，]*|"
    r"(?:⟹|⇒|=>|\\implies|\\Rightarrow|\\therefore)\s*"
)


def readings(gold: str, answer: str, question: Question) -> Iterator[str]:
    """Yield what an answer says without its words."""
    if len(answer) > _LONGEST:
        return
    rounded = _APPROXIMATION.search(answer)
    if rounded:
        exact = answer[: rounded.start()]
        exact = answer_in(gold, exact, question) or exact
        yield rf"{exact} \approx {rounded[1]}"
        return
    if _TWO_LETTERS.search(answer):
        core = answer_in(gold, answer, question)
        if core and core != answer:
            yield core


def answer_in(gold: str, answer: str, question: Question) -> str | None:
    """Return `12 kg` for "It is 12 kg.", or None where a word is not accounted for."""
    text = without_text(answer).strip()
    words = _concluding_words(text)
    bare_words = [word.strip(PUNCTUATION) for word in words]
    first, last = _inner_words(bare_words)
    if isinstance(value(gold), Words):
        if re.match(r"\s*-\s*\\text", answer):  # a negative name is none
            return None
        return " ".join(words[first:]).rstrip(".!") or None
    if not words or bare_words[-1].lower() in _UNFINISHED:
        return None
    core = " ".join(words[first:last]).rstrip(".,;:")
    is_shorter = len(core) < len(text.rstrip(".,;:"))
    return core if is_shorter and not unaccounted_word(core, gold, question) else None


def _inner_words(words: list[str]) -> tuple[int, int]:
    """Return where the words begin and end without those at the ends that announce."""
    is_spare = [word.lower() in ANNOUNCING for word in words]
    first = 0
    last = len(words)
    while first < last and is_spare[first]:
        first += 1
    while first < last and is_spare[last - 1]:
        last -= 1
    return first, last


def _concluding_words(text: str) -> list[str]:
    """Return the words that follow the last "so"; none where a word before it is not accounted
    for."""
    *way, conclusion = _CONCLUSION.split(text.replace("**", ""))
    if any(word.lower() not in ANNOUNCING for word in words_of(" ".join(way))):
        return []
    if ".." in conclusion or "…" in conclusion:  # an ellipsis: more follows
        return []
    return re.sub(r"(?<=\d) an? (?=[a-z])", " per ", conclusion).split()  # "$60 a week"


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
        return None
    counted, _, divisor = typed.unit.partition("/")
    divisor = divisor.split("^")[0].strip()
    if divisor and "/" not in gold and question.asks_for_another_rate(counted.strip(), divisor):
        return f"per {divisor}"
    for word in words_of(counted):
        is_unit = word == "unit" or is_known_unit(word) or is_known_unit(word.lower())
        if not is_unit and word.lower() not in ANNOUNCING and not question.counts(word):
            return word
    return None
