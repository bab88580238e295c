r"""Whether an answer says the same as the gold: the rule of docs/verifier.md, cheap steps first.

`compare_answers` runs in the trainer's process and raises `NeedsAlgebra` where exact numbers, text
and structure do not decide; `compare_by_algebra` is the same rule in a worker process, with the
algebra to ask.
"""

import contextlib
import re
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import prod
from types import SimpleNamespace

from .accounting import readings, unaccounted_word
from .compare import compare
from .context import Algebra, Unreadable
from .notation import depths, key, plain
from .numerals import NUMBER, number
from .objections import form, objection
from .options import choice
from .phrases import hedge
from .question import Question
from .value import trimmed, value
from .value_types import READ_AS, Interval, List, Quantity, Set, Tuple, Union, Value, Words

_MAX_LENGTH = 1000  # characters of an answer, and so of a gold
# characters of one that is read in the trainer's process, without a limit on the time
_MAX_QUESTION = 2000
_MAX_ANSWERS = 20
LABELLED = re.compile(r"\(?(?:a|i|1)\).*\(?(?:b|ii|2)\)", re.DOTALL)  # (a) 5; (b) 7
_OTHER_NUMBER = "not equal to the gold, as whole numbers"  # no second reading can change that
# No word stands beside these answers that the gold does not have too.
_WITHOUT_WORDS = ("equal, as whole numbers", "spelled like the gold")
_MAX_DEPTH = 12
_MAX_EXPONENT = 9999
_TOWER = re.compile(r"\d\s*\^\s*\{?\s*\d+\s*\^|\^\{[^{}]*\^\{[^{}]*\^")  # 9^{9^9}
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_INTEGER_AS_MATHS = re.compile(r"(-?\d{1,18})|\$(-?\d{1,18})\$", re.ASCII)
_AFFIRMED = re.compile(  # "No, it is."
    r"(?i)\s*no\W+\w+ (?:is|are|was|were|do|does|did|has|have|can|will|would)\W*"
)
# "No, 91 is not prime"
_NOT = re.compile(r"(?i)^(\W*(?:text\{)?no[,.;:] [^?]*?)(?: not\b|n['’]t\b)")
_UNWORKED = re.compile(r"\\(?:sum|prod|int|lim)(?![a-z])|[∑∏∫]")
_LARGE_FACTORIAL = re.compile(
    r"\d{4}\s*[})]*\s*!|!\s*[})]*\s*!|(?:\\binom|choose).*\d{4}|\d{4}.*choose"
)

Judgement = tuple[bool | None, str]  # correct or not (None: cannot be judged), and the reason


class NeedsAlgebra(Exception):
    """Only algebra can tell."""


def kind_of_gold(gold: str) -> str:
    """As what a gold answer is read: "a number of km", "a list"."""
    typed = value(gold)
    unit = getattr(typed, "unit", "")
    if isinstance(typed, Quantity) and typed.percent:
        unit = "percent"
    return READ_AS[type(typed)] + (f" of {unit}" if unit and unit != "ordinal" else "")


def _undecided(*texts: object) -> bool:
    raise NeedsAlgebra


# Stands for the algebra in the trainer's process.
_NO_ALGEBRA = SimpleNamespace(equal=_undecided, equal_relations=_undecided, is_near=_undecided)


def compare_by_algebra(gold: str, answers: list[str], question: str | None) -> Judgement:
    """`compare_answers`, in a worker process."""
    from . import algebra

    try:
        return compare_answers(gold, answers, question, algebra)
    except Unreadable:
        return None, "the gold cannot be read as mathematics"


def compare_answers(
    gold: str,
    answers: Sequence[str],
    question: str | None,
    algebra: Algebra = _NO_ALGEBRA,
) -> Judgement:
    """(correct, reason) for the `answers` of a completion: every one must be correct, or all
    together a gold of several values.

    Raises `NeedsAlgebra` without an `algebra`, and `Unreadable` with one.
    """
    if max(map(len, answers)) > _MAX_LENGTH:
        return False, "too long for an answer"
    if len(gold) > _MAX_LENGTH:
        return None, "the gold is too long for an answer"
    if len(answers) == 1:
        return _compare_one(gold, answers[0], question, algebra)
    if LABELLED.match(gold) and not LABELLED.match(answers[0]):
        return _compare_one(gold, f"({'; '.join(answers)})", question, algebra)
    distinct = {key(answer): answer for answer in reversed(answers)}
    if len(distinct) > _MAX_ANSWERS:
        return False, "several different answers"
    if len(distinct) > 1 and _holds_several(gold, answers):
        separator = "; " if "," in answers[0] else ", "
        return _as_written(gold, separator.join(answers), question, algebra)
    verdicts = [_compare_one(gold, answer, question, algebra) for answer in distinct.values()]
    if len(distinct) > 1 and not all(correct for correct, _ in verdicts):
        return False, "several different answers"
    return verdicts[0]


def _holds_several(gold: str, answers: Sequence[str]) -> bool:
    """Whether several answers may be the values of one gold."""
    types = List | Set | Union
    if all("=" in answer for answer in answers):
        types |= Interval | Tuple
    return _too_large(gold) is None and isinstance(value(gold), types)


def _compare_one(gold: str, answer: str, question: str | None, algebra: Algebra) -> Judgement:
    """The verdict on the answer as it is written, or else on what it says without its words."""
    correct, reason = _as_written(gold, answer, question, algebra)
    if correct and reason in _WITHOUT_WORDS:
        return correct, reason
    problem = Question(question or "")
    if correct:
        word = unaccounted_word(answer, gold, problem)
        return (
            (False, f"a word that the question does not count: {word}")
            if word
            else (correct, reason)
        )
    if correct is None or reason == _OTHER_NUMBER:
        return correct, reason
    for reading in readings(gold, answer, problem):
        # Where the gold is unreadable in one reading, the verdict stands.
        with contextlib.suppress(Unreadable):
            is_equal, rule = _as_written(gold, reading, question, algebra)
            if is_equal:
                return True, f"{rule}; read as {reading}"
    return False, reason


def _as_written(gold: str, answer: str, question: str | None, algebra: Algebra) -> Judgement:
    verdict = _by_spelling(gold, answer)
    if verdict is not None:
        return verdict
    doubt = _doubt(gold, answer)
    if doubt:
        return False, doubt
    refusal = _refusal(gold, answer)
    if refusal is not None:
        return refusal
    if algebra is _NO_ALGEBRA and question and len(question) > _MAX_QUESTION:
        raise NeedsAlgebra  # a worker is ended when it takes too long
    verdict = choice(gold, answer, question, algebra)
    if verdict is not None:
        return verdict
    verdict = _by_first_word(value(gold), answer)
    return verdict or _by_value(gold, answer, question, algebra)


def _by_spelling(gold: str, answer: str) -> Judgement | None:
    """The verdict that the spelling or two numbers allow; None where they do not decide."""
    integer = _INTEGER.fullmatch(gold) and _INTEGER_AS_MATHS.fullmatch(answer)
    if integer:  # by far the most frequent case
        correct = int(gold) == int(integer[1] or integer[2])
        return correct, "equal, as whole numbers" if correct else _OTHER_NUMBER
    if not answer.strip():
        return False, "empty answer"
    if answer in (gold, f"${gold}$") or key(gold) == key(answer):
        return True, "spelled like the gold"
    numbers = [_written_number(gold), _written_number(answer)]
    if None not in numbers and numbers[0] != numbers[1]:
        return False, "not equal to the gold, as numbers"
    return None


def _doubt(gold: str, answer: str) -> str | None:
    """How the words of an answer take it back, where the gold's words do not."""
    if trimmed(plain(gold)).casefold() == "no":
        answer = _NOT.sub(r"\1", answer)
    doubt = hedge(answer)
    return doubt if doubt and not hedge(gold) else None


def _written_number(text: str) -> Fraction | None:
    spelled = plain(text)
    return number(spelled) if NUMBER.fullmatch(spelled) else None


def _refusal(gold: str, answer: str) -> Judgement | None:
    """The verdict on what is not given to the algebra; None for the rest."""
    refusal = _too_large(answer)
    if refusal is not None:
        return False, refusal
    sign = _UNWORKED.search(answer)
    if sign and sign[0] not in gold:
        return False, "left unevaluated"
    if _too_large(gold) is not None:
        return None, "the gold is beyond the limits of the algebra"
    return None


def _by_first_word(expected: Value, answer: str) -> Judgement | None:
    """The verdict on "Yes, …" for "yes"; None for any other answer."""
    opening = re.match(r"(?i)(yes|no)[,.;:] ", answer.strip())
    if not opening or expected not in (Words("yes"), Words("no")):
        return None
    word = opening[1].lower()
    opposite = "no" if word == "yes" else "yes"
    contradicts = re.search(rf"(?i)\b{opposite}\b", answer)
    is_correct = expected.text == word and not contradicts and not _AFFIRMED.fullmatch(answer)
    return is_correct, "the first word"


def _by_value(gold: str, answer: str, question: str | None, algebra: Algebra) -> Judgement:
    """The verdict by the types of gold and answer, and by what the question has against it."""
    expected = value(gold)
    typed = value(answer)
    if _are_inequalities(expected, typed, gold, answer) and _letters(gold) != _letters(answer):
        return False, "about another variable"
    try:
        correct, reason = compare(expected, typed, question, algebra)
    except NeedsAlgebra:
        correct = None
    # Most incorrect answers need no other reason, and it would take most of their time.
    if correct is not False or answer in (question or ""):
        objected = objection(expected, typed, gold, answer, question)
        if objected:
            return False, objected
    if correct is None:
        raise NeedsAlgebra
    return correct, reason


def _are_inequalities(expected: Value, typed: Value, gold: str, answer: str) -> bool:
    if type(expected) is not type(typed) or isinstance(typed, Quantity):
        return False
    return form(expected, gold) == "inequality" and form(typed, answer) == "inequality"


@lru_cache(maxsize=16384)
def _too_large(text: str) -> str | None:
    """Why `text` is not given to the algebra: nesting or powers that would keep it busy."""
    if sum(map(text.count, "([{")) > _MAX_DEPTH and max(depths(text)) > _MAX_DEPTH:
        return f"nested deeper than {_MAX_DEPTH}"
    spelled = plain(text)
    exponents = re.findall(r"\^\s*\{?\s*[+-]?\s*(\d+)", spelled)
    if any(len(digits) > 4 for digits in exponents):
        return f"an exponent above {_MAX_EXPONENT}"
    product = prod(int(digits) for digits in exponents if len(digits) > 2)
    if product > _MAX_EXPONENT**2 or _TOWER.search(spelled):
        return "a tower of powers"
    if _LARGE_FACTORIAL.search(spelled):
        return "a factorial of a large number"
    return None


def _letters(text: str) -> set[str]:
    """The variables of an inequality: letters that stand alone."""
    without_sets = plain(text).replace(r"\mathbb{R}", "")
    return set(re.findall(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])", without_sets))
