"""Multiple choice: the letter of an option, or the text of one that the question lists."""

import re

from rewards.verifier.compare import compare
from rewards.verifier.context import Algebra
from rewards.verifier.kinds import Value
from rewards.verifier.notation import key, plain
from rewards.verifier.value import trimmed, value

_CHOICE = re.compile(
    r"(?i:(?:the )?(?:option|choice|answer)(?: is)?:?\s*)?(?:\\text\{\s*)?"
    r"(?:[(\[]\s*([A-Za-z])\s*[)\]]|([A-Za-z])\s*(?:[).:]|$))\s*\}?\s*[.:,]?\s*(.*)"
)
_LETTER = re.compile(r"(?<![A-Za-z])[A-J](?![A-Za-z])")
_ALSO = re.compile(r"(?:or|and|also|plus|along|as well|together)\b|[/&]|[A-J]\b")
_OPTION = re.compile(r"(?:\\text(?:bf)?\{\s*)?\(\s*([A-J])\s*\)\s*\}?~?|(?:^|\n)[^\S\n]*([A-J])\s*[.):]\s")


def choice(gold: str, answer: str, question: str | None, algebra: Algebra) -> tuple[bool | None, str] | None:
    """The verdict where the gold is the letter of an option, or the answer is one and the question lists options."""
    wanted, given = (_CHOICE.fullmatch(trimmed(plain(text))) for text in (gold, answer))
    letter = given and (given[1] or given[2]).upper()
    options = _options(question) if question else {}
    if wanted and not wanted[3] and (g := wanted[1] or wanted[2]) in "ABCDEFGHIJ":
        if given and (given[1] or given[2]) in "ABCDEFGHIJabcdefghij":
            rest = given[3]
            # Behind the letter stands the option's text, and no other letter where that text is not known.
            listed = re.search(r"(?<![A-Za-z])[A-J]\s*[).:]" if g in options else _LETTER, rest) or _ALSO.match(rest)
            right = letter == g and not listed and (not rest or g not in options or _agree(options[g], rest, algebra))
            return right, "the option" if right else "another option"
        if g in options:
            return _as_text(value(options[g]), value(answer), question, algebra)
    elif letter in options and given and (not given[3] or _agree(options[letter], given[3], algebra)):
        return _as_text(value(gold), value(options[letter]), question, algebra)
    return None


def _as_text(gold: Value, answer: Value, question: str | None, algebra: Algebra) -> tuple[bool, str]:
    """The verdict where the text of an option stands for its letter."""
    right, reason = compare(gold, answer, question, algebra)
    return right, f"the option's text: {reason}"


def _agree(option: str, rest: str, algebra: Algebra) -> bool:
    return key(option) == key(rest) or compare(value(option), value(rest), None, algebra)[0]


def _options(question: str) -> dict[str, str]:
    marks = list(_OPTION.finditer(question))
    if len(marks) < 2:
        return {}
    ends = [m.start() for m in marks[1:]] + [len(question)]
    return {(m[1] or m[2]): question[m.end() : end].strip(" \n$\\~,;") for m, end in zip(marks, ends, strict=True)}
