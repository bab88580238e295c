"""A graded reward, and an example of how to write one: a question with several answers earns credit
for each."""

import re
from fractions import Fraction

from data.gold import boxed, gold_answer
from rewards.completion import Messages, answered

_ANSWER = re.compile(r"<answer>((?:(?!</?answer>).)*)</answer>\s*\Z", re.DOTALL)
_NUMBER = re.compile(r"[-+]?\d{1,30}(?:\.\d{1,30})?(?:/\d{1,30})?")
_PARTS = re.compile(r",|;|\band\b|\bor\b|\\text\{\s*(?:and|or)\s*\}")


def partial_credit(
    completions: list[str | Messages], solution: list[str], **columns: object
) -> list[float | None]:
    r"""The share, 0.0 to 1.0, of the gold's values that the answer gives, and 0.0 as soon as one of
    them is wrong.

    For "find all x" (gold `2, 3`): `2` earns half, `2, 3` earns all and `1, 2, 3` nothing, so
    listing candidates never pays. A gold of one value earns all or nothing: closeness of numbers is
    left out on purpose, because a guess of the usual size would then earn more than an honest
    attempt that goes astray.

    Limits: it compares numbers and spelling, without algebra, and it pays a policy that is unsure
    of its second root to leave it out. Use it beside `correct_answer`, at a smaller weight.
    """
    return [
        _share(answered(c), gold_answer(gold))
        for c, gold in zip(completions, solution, strict=True)
    ]


def _share(text: str, gold: str | None) -> float | None:
    wanted = _values(gold or "")
    if not wanted:
        return None
    given = _values(_answer(text))
    return len(given) / len(wanted) if given <= wanted else 0.0


def _answer(text: str) -> str:
    """What the closing answer block says (its box if it has one), or without a block the one box
    after the thought."""
    block = _ANSWER.search(text)
    said = block[1] if block else text.rpartition("</think>")[2]
    boxes = set(boxed(said))
    if len(boxes) > 1 or "<think>" in said:
        return ""
    return boxes.pop() if boxes else block[1] if block else ""


def _values(text: str) -> frozenset[object]:
    """`2 and x = 3` as {2, 3}; a bracketed list is one value, because its order or its ends
    matter."""
    text = re.sub(r"\\[,;! ]|\\left|\\right|\\[{}]|\$|(?<=\d),(?=\d{3}(?!\d))", "", text).strip()
    parts = [text] if re.search(r"[(\[]", text) else _PARTS.split(text)
    return frozenset(_value(part) for part in parts if part.strip())


def _value(part: str) -> object:
    part = re.sub(r"\s+", "", part).split("=")[-1].rstrip(".")
    part = re.sub(r"\\[dt]?frac\{(\d+)\}\{(\d+)\}", r"\1/\2", part)
    if not _NUMBER.fullmatch(part):
        return part.casefold()
    top, _, bottom = part.partition("/")
    return Fraction(top) / Fraction(bottom or 1) if Fraction(bottom or 1) else part
