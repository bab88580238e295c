"""Multiple choice: the letter of an option, or the text of one that the question lists."""

import re
from typing import NamedTuple

from .compare import compare
from .context import Algebra
from .notation import key, plain
from .value import trimmed, value

_LETTERS = "ABCDEFGHIJ"
_CHOICE = re.compile(
    r"(?i:(?:the )?(?:(?:correct |right )?(?:option|choice|answer)(?: is)?:?\s*)*)(?:\\text\{\s*)?"
    r"(?:[(\[]\s*([A-Za-z])\s*[)\]]|([A-Za-z])\s*(?:[).:]|,(?!\s*[A-Za-z](?![a-z]))|$))\s*\}?\s*[.:,]?\s*(.*)"
)
_LETTER = re.compile(r"(?<![A-Za-z])[A-J](?![A-Za-z])")
_OPTION = re.compile(
    r"(?:\\text(?:bf)?\{\s*)?\(\s*([A-J])\s*\)\s*\}?~?|(?:^|\n)[^\S\n]*([A-J])\s*[.):]\s|(?<!\S)([A-J])\)\s"
)
_MARKED_LETTER = re.compile(r"(?<![A-Za-z])[A-J]\s*[).:]")


class _Choice(NamedTuple):
    """An answer such as "(B)" or "B. 14"."""

    letter: str
    text: str  # behind the letter


def choice(
    gold: str, answer: str, question: str | None, algebra: Algebra
) -> tuple[bool | None, str] | None:
    """The verdict where the gold is the letter of an option, or the answer is one and the question
    lists options; None elsewhere."""
    wanted = _read_choice(gold)
    chosen = _read_choice(answer)
    options = _options(question) if question and (wanted or chosen) else {}
    wanted = _confirmed(wanted, options, algebra)
    if wanted and wanted.letter in _LETTERS:  # C, or C of "C. 14"
        if chosen and chosen.letter.upper() in _LETTERS:
            is_correct = _is_correct_choice(wanted.letter, chosen, options, algebra)
            return is_correct, "the option" if is_correct else "another option"
        listed = options.get(wanted.letter)
        return None if listed is None else _as_text(listed, answer, question, algebra)
    listed = options.get(chosen.letter.upper()) if chosen else None
    if listed is not None and (not chosen.text or _alike(listed, chosen.text, algebra)):
        return _as_text(gold, listed, question, algebra)
    return None


def _read_choice(text: str) -> _Choice | None:
    match = _CHOICE.fullmatch(trimmed(plain(text)))
    return match and _Choice(match[1] or match[2], match[3])


def _confirmed(wanted: _Choice | None, options: dict[str, str], algebra: Algebra) -> _Choice | None:
    """The gold's choice with its letter as the question has it; None where its text is another than
    that option's. An option that the question does not list gets its text."""
    if wanted is None:
        return None
    if wanted.letter.upper() in options and wanted.letter not in options.values():
        wanted = wanted._replace(letter=wanted.letter.upper())
    listed = options.setdefault(wanted.letter, wanted.text) if wanted.text else ""
    return wanted if not wanted.text or _alike(listed, wanted.text, algebra) else None


def _is_correct_choice(
    letter: str, chosen: _Choice, options: dict[str, str], algebra: Algebra
) -> bool:
    """Whether an answer has the letter and, behind it, nothing but the option's text. Where that
    text is unknown, no further letter may follow."""
    is_listed = letter in options
    further = _MARKED_LETTER if is_listed else _LETTER
    if chosen.letter.upper() != letter or further.search(chosen.text):
        return False
    return not chosen.text or not is_listed or _alike(options[letter], chosen.text, algebra)


def _as_text(gold: str, answer: str, question: str | None, algebra: Algebra) -> tuple[bool, str]:
    """The verdict where the text of an option stands for its letter."""
    correct, reason = compare(value(gold), value(answer), question, algebra)
    return correct, f"the option's text: {reason}"


def _alike(option: str, text: str, algebra: Algebra) -> bool:
    return key(option) == key(text) or compare(value(option), value(text), None, algebra)[0]


def _options(question: str) -> dict[str, str]:
    """The texts of the options that a question lists, by their letters."""
    marks = list(_OPTION.finditer(question))
    if len(marks) < 2:
        return {}
    ends = [mark.start() for mark in marks[1:]] + [len(question)]
    options = {}
    for mark, end in zip(marks, ends, strict=True):
        letter = mark[1] or mark[2] or mark[3]
        options[letter] = question[mark.end() : end].strip(" \n$\\~,;")
    return options
