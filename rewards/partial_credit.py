"""A graded reward, and an example to copy: every value of an answer earns credit."""

import re
from fractions import Fraction

from rewards.completion import Messages

_NUMBER = re.compile(r"[-+]?\d{1,30}(?:\.\d{1,30})?(?:/\d{1,30})?")
_PARTS = re.compile(r",|;|\band\b|\bor\b|\\text\{\s*(?:and|or)\s*\}")


def partial_credit(
    completions: list[str | Messages], solution: list[str], **columns: object
) -> list[float | None]:
    r"""Return the share, 0.0 to 1.0, of the gold's values that the answer has, and 0.0 as soon as
    it has another value.

    For "find all x" (gold `2, 3`): `2` earns half, `2, 3` earns all and `1, 2, 3` nothing, so
    listing candidates never pays. A gold of one value earns all or nothing: closeness of numbers is
    left out on purpose, because a guess of the usual size would then earn more than an honest
    attempt that goes astray.

    Limits: it compares numbers and spelling, without algebra, and it pays a policy that is unsure
    of its second root to leave it out. Use it beside `correct_answer`, at a smaller weight.
    """
    from rewards.verifier import gold_answer
    from rewards.verifier.hosts import judged_text

    shares = []
    for completion, gold in zip(completions, solution, strict=True):
        gold_values = _values(gold_answer(gold) or "")
        values = _values(_answer(judged_text(completion)))
        if not gold_values:
            shares.append(None)
        elif values <= gold_values:
            shares.append(len(values) / len(gold_values))
        else:
            shares.append(0.0)
    return shares


def _answer(text: str) -> str:
    """Return the one answer of a text by the verifier's contract, or "" where it has none or
    several."""
    from rewards.verifier.extract import extract

    answers = extract(text).answers
    if len(answers) != 1:
        return ""
    return answers[0]


def _values(text: str) -> frozenset[object]:
    """Return {2, 3} for `2 and x = 3`; a list in brackets is one value, because its order or its
    ends matter."""
    text = re.sub(r"\\[,;! ]|\\left|\\right|\\[{}]|\$|(?<=\d),(?=\d{3}(?!\d))", "", text).strip()
    parts = [text]
    if not re.search(r"[(\[]", text):
        parts = _PARTS.split(text)
    return frozenset(_value(part) for part in parts if part.strip())


def _value(part: str) -> object:
    part = re.sub(r"\s+", "", part).split("=")[-1].rstrip(".")
    part = re.sub(r"\\[dt]?frac\{(\d+)\}\{(\d+)\}", r"\1/\2", part)
    if not _NUMBER.fullmatch(part):
        return part.casefold()
    numerator, _, denominator = part.partition("/")
    divisor = Fraction(denominator or 1)
    if not divisor:
        return part
    return Fraction(numerator) / divisor
