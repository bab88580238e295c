r"""Whether an answer says the same as the gold: the rule of docs/rewards.md, cheap steps first.

`compare_answers` runs in the trainer's process and raises `NeedsAlgebra` where exact numbers, text and structure do not
decide; `compare_by_algebra` is the same rule in a worker process, with the algebra to ask.
"""

import re
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import prod

from rewards.verifier.brackets import depths
from rewards.verifier.choice import choice
from rewards.verifier.compare import compare
from rewards.verifier.context import Algebra, Unreadable
from rewards.verifier.kinds import Expr, List, Quantity, Relation, Set, Union, Words
from rewards.verifier.notation import key, plain
from rewards.verifier.objections import form, objection
from rewards.verifier.sentences import hedge
from rewards.verifier.units import change
from rewards.verifier.value import is_name, trimmed, value

_MAX_LENGTH = 1000  # characters of an answer, and so of a gold
_MAX_QUESTION = 2000  # characters of one that is read in the trainer's process, without a limit on the time
_MAX_ANSWERS = 20
_MAX_DEPTH = 12
_MAX_EXPONENT = 9999
_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
_WHOLE_AS_MATHS = re.compile(r"(-?\d{1,18})|\$(-?\d{1,18})\$", re.ASCII)
_YES_OR_NO = re.compile(
    r"(?i)(yes|no)[,.;:]? (?:it|they|he|she|we|you|there|this|that) "
    r"(?:((?:is|are|was|were|do|does|did|has|have|ca|wo|would)n['’]t|(?:is|are|was|were|do|does|did|will|can) ?not)"
    r"|(?:is|are|was|were|do|does|did|has|have|can|will|would))\.?"
)
_UNWORKED = re.compile(r"\\(?:sum|prod|int|lim)(?![a-z])|[∑∏∫]")


class NeedsAlgebra(Exception):
    """Only algebra can tell."""


class _NoAlgebra:
    """Stands for the algebra in the trainer's process."""

    def equal(self, gold: str, answer: str, worked_out: bool = True) -> bool:
        raise NeedsAlgebra

    def equal_relations(self, gold: tuple[str, str, str], answer: tuple[str, str, str]) -> bool:
        raise NeedsAlgebra

    def close(self, exact: str, rounded: Fraction, places: int) -> bool:
        raise NeedsAlgebra


_NO_ALGEBRA = _NoAlgebra()


def compare_by_algebra(gold: str, answers: list[str], question: str | None) -> tuple[bool | None, str]:
    """`compare_answers`, in a worker process."""
    from rewards.verifier import algebra

    try:
        return compare_answers(gold, answers, question, algebra)
    except Unreadable:
        return None, "the gold cannot be read as mathematics"


def compare_answers(
    gold: str, answers: Sequence[str], question: str | None, algebra: Algebra = _NO_ALGEBRA
) -> tuple[bool | None, str]:
    """(right, reason) for the `answers` of a response: each must be right, or all together a gold of several values."""
    if any(len(a) > _MAX_LENGTH for a in answers):
        return False, "too long for an answer"
    if len(gold) > _MAX_LENGTH:
        return None, "the gold is too long for an answer"
    if len(answers) == 1:
        return _compare_one(gold, answers[0], question, algebra)
    different = {key(a): a for a in reversed(answers)}
    if len(different) > _MAX_ANSWERS:
        return False, "several different answers"
    if len(different) > 1 and _too_large(gold) is None and _has_several_values(gold):
        return _compare_one(gold, ", ".join(answers), question, algebra)
    verdicts = [_compare_one(gold, a, question, algebra) for a in different.values()]
    wrong = next((v for v in verdicts if not v[0]), None)
    if wrong and len(different) > 1:
        return False, "several different answers"
    return wrong or verdicts[0]


def _has_several_values(gold: str) -> bool:
    return isinstance(value(gold), List | Set | Union)


def _compare_one(gold: str, answer: str, question: str | None, algebra: Algebra) -> tuple[bool | None, str]:
    if _WHOLE.fullmatch(gold) and (whole := _WHOLE_AS_MATHS.fullmatch(answer)):  # by far the most frequent case
        right = int(gold) == int(whole[1] or whole[2])
        return right, "equal, as whole numbers" if right else "not equal to the gold, as whole numbers"
    if not answer.strip():
        return False, "empty answer"
    if key(gold) == key(answer):
        return True, "spelled like the gold"
    if (said := _YES_OR_NO.fullmatch(answer.strip())) and trimmed(plain(gold)).casefold() == said[1].lower():
        return (said[2] is not None) == (said[1].lower() == "no"), "the first word"  # "no, they can't" is no denial
    if (doubt := hedge(answer)) and not hedge(gold):
        return False, doubt
    if (refusal := _too_large(answer)) is not None:
        return False, refusal
    if (sign := _UNWORKED.search(answer)) and sign[0] not in gold:
        return False, "left unevaluated"
    if _too_large(gold) is not None:
        return None, "the gold is beyond the limits of the algebra"
    if algebra is _NO_ALGEBRA and question and len(question) > _MAX_QUESTION:
        raise NeedsAlgebra  # a worker is ended when it takes too long
    if (chosen := choice(gold, answer, question, algebra)) is not None:
        return chosen
    g, a = value(gold), value(answer)
    if g in (Words("yes"), Words("no")) and (said := re.match(r"(?i)(yes|no)[,.;:] ", answer.strip())):
        opposite = "no" if said[1].lower() == "yes" else "yes"
        return g == Words(said[1].lower()) and not re.search(rf"(?i)\b{opposite}\b", answer), "the first word"
    if form(g, gold) == form(a, answer) == "inequality" and _letters(gold) != _letters(answer):
        return False, "about another variable"
    if isinstance(a, Relation) and not isinstance(g, Relation) and set(a.signs) == {"="}:
        shown = a.sides[-1] if not is_name(a.sides[-1]) else a.sides[0]
    else:
        shown = answer
    if question and (objected := objection(g, value(shown), gold, shown, question)):
        return False, objected
    right, reason = compare(g, a, question, algebra)
    if right or not isinstance(g, Quantity | Expr) or isinstance(a, Quantity):
        return right, reason
    changed = change(plain(answer))  # why "5 or 6" or "about 5" was not read as a number
    return False, f"not equal to the gold: {changed}" if changed else reason


@lru_cache(maxsize=16384)
def _too_large(text: str) -> str | None:
    """Why `text` is not given to the algebra: nesting or powers that would keep it busy."""
    if max(depths(text), default=0) > _MAX_DEPTH:
        return f"nested deeper than {_MAX_DEPTH}"
    spelled = plain(text)
    exponents = re.findall(r"\^\s*\{?\s*[+-]?\s*(\d+)", spelled)
    if any(len(digits) > 4 for digits in exponents):
        return f"an exponent above {_MAX_EXPONENT}"
    if prod(int(digits) for digits in exponents if len(digits) > 2) > _MAX_EXPONENT**2 or _tower(spelled):
        return "a tower of powers"
    if re.search(r"\d{4}\s*[})]*\s*!|!\s*[})]*\s*!|(?:\\binom|choose).*\d{4}|\d{4}.*choose", spelled):
        return "a factorial of a large number"
    return None


def _tower(text: str) -> bool:
    r"""Whether a number is raised to a power of numbers, `9^{9^9}`, or exponents are nested more than two deep."""
    if re.search(r"\d\s*\^\s*\{?\s*\d+\s*\^", text):
        return True
    opened: list[bool] = []
    for brace in re.finditer(r"(\^\s*)?\{|\}", text):
        if brace.group() != "}":
            opened.append(brace[1] is not None)
        elif opened:
            opened.pop()
        if sum(opened) > 2:
            return True
    return False


def _letters(text: str) -> set[str]:
    """The variables of an inequality: letters that stand alone."""
    return set(re.findall(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])", plain(text).replace(r"\mathbb{R}", "")))
