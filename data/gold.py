"""Finds the gold answer in the solution that a data set gives; no judging happens here.

GSM8K ends a worked answer with `#### 1,234`; MATH marks the answer with its last `\\boxed{...}`, which twice in its
train split has no braces (`\\boxed 2`) and twice is empty (`\\boxed{}`); other sets give the bare answer.
"""

import re

_BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])\s*")
_BARE = re.compile(r"(?:[^\s$.,;{}\\]|[.,](?=\d))+")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_HASHES = re.compile(r"####[ \t]*(.*)")


def boxed(text: str) -> list[str]:
    r"""Contents of every outermost `\boxed{...}` or `\boxed 2` in `text`, in order; unclosed ones are left out.

    >>> boxed(r"\boxed{\frac{1}{2}} or \boxed 9")
    ['\\frac{1}{2}', '9']
    """
    return [content for _, _, content in boxes(text)]


def boxes(text: str) -> list[tuple[int, int, str]]:
    """(start, end, content) of what `boxed` finds: `text[start:end]` is the whole box."""
    found, at, ends = [], 0, None
    while match := _BOX.search(text, at):
        if ends is None:
            ends = _closing_braces(text, match.end())
        at = match.end()
        if text[at : at + 1] == "{":
            if (end := ends.get(at)) is not None:
                found.append((match.start(), end + 1, text[at + 1 : end].strip()))
                at = end + 1
        elif bare := _BARE.match(text, at):
            found.append((match.start(), bare.end(), bare.group()))
            at = bare.end()
    return found


def _closing_braces(text: str, start: int) -> dict[int, int]:
    """Where each `{` from `start` on is closed, found in one pass; `\\{` and `\\}` are characters, not groups."""
    ends, opened = {}, []
    for brace in _BRACE.finditer(text, start):
        if brace.group() == "{":
            opened.append(brace.start())
        elif brace.group() == "}" and opened:
            ends[opened.pop()] = brace.start()
    return ends


def gold_answer(text: object) -> str | None:
    r"""The gold answer in `text`, whichever way its data set writes it; None where there is nothing to judge against.

    >>> gold_answer("48/2 = <<48/2=24>>24 clips.\n#### 1,024"), gold_answer(r"so $\boxed{\frac{3}{4}}$.")
    ('1024', '\\frac{3}{4}')
    """
    if not isinstance(text, str):
        return None
    if "####" in text:
        answer = _HASHES.findall(text)[-1].strip()
        # A thousands comma only: "1,2" stays a pair.
        return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", answer) or None
    if _BOX.search(text):
        boxes = boxed(text)
        return boxes[-1] or None if boxes else None
    return text.strip() or None
