r"""The gold answer, by which an answer is judged, as a data set gives it; no judging happens here.

GSM8K ends a solution with `#### 1,234`, MATH marks the answer with the last `\boxed{...}`, other
sets give it alone.
"""

import re

from .tables import rows

_BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])\s*")
_BARE = re.compile(r"(?:[^\s$.,;{}\\]|[.,](?=\d))+")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_OF_MATHS = r"(?:[\s$]|\\[()\[\]])*+"
_BESIDE = re.compile(
    rf"{_OF_MATHS}(?:,?\s*(?:and|or|\\text\s*\{{\s*(?:and|or)\s*\}})|[,;]){_OF_MATHS}(?:(?P<name>\w(?:\(\w\))?)"
    r" *= *)?"
)
_ANNOUNCED = re.compile(r"\A(?:the )?(?:final )?answer(?: is\b:?|:)\s*(?=.)", re.IGNORECASE)
_KINDS = [(kind, re.compile(text, re.DOTALL | re.IGNORECASE)) for kind, text in rows("golds.tsv")]
_PRINTED = [pattern for kind, pattern in _KINDS if kind == "printed"]
_UNEARNABLE = [(reason, pattern) for reason, pattern in _KINDS if reason != "printed"]
_SENTENCE_ENDS = re.compile(r"[a-z0-9)$][.!?]\s+[A-Z]|\n")
_OPTIONS = re.compile(r"^[ \t]*\(?([A-E])[.):][ \t]+(\S+)", re.MULTILINE)
_MOST_WORDS = 30  # of an answer that nobody could spell like the gold
_HASHES = re.compile(r"####[ \t]*(.*)")


def boxes(text: str) -> list[tuple[int, int, str]]:
    r"""(start, end, content) of every outermost `\boxed{...}` or `\boxed 2`, without unclosed ones:
    `text[start:end]` is the whole box."""
    spans = []
    closing = None  # computed once, where there is a box at all
    position = 0
    while match := _BOX.search(text, position):
        if closing is None:
            closing = _closing_braces(text, match.end())
        position = match.end()
        if text[position : position + 1] == "{":
            end = closing.get(position)
            if end is not None:
                spans.append((match.start(), end + 1, text[position + 1 : end].strip()))
                position = end + 1
        elif bare := _BARE.match(text, position):
            spans.append((match.start(), bare.end(), bare.group()))
            position = bare.end()
    return spans


def _closing_braces(text: str, start: int) -> dict[int, int]:
    """Where each `{` from `start` on is closed, found in one pass; `\\{` and `\\}` are characters,
    not groups."""
    ends = {}
    opened = []
    for brace in _BRACE.finditer(text, start):
        if brace.group() == "{":
            opened.append(brace.start())
        elif brace.group() == "}" and opened:
            ends[opened.pop()] = brace.start()
    return ends


def gold_answer(text: object) -> str | None:
    r"""The gold answer in `text`, whichever way its data set writes it; None where there is nothing
    to judge against."""
    if not isinstance(text, str):
        return None
    text = _as_answer(text.strip())
    if "####" in text:
        answer = _HASHES.findall(text)[-1].strip()
        # A thousands comma only: "1,2" stays a pair.
        return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", answer) or None
    if _BOX.search(text):
        return _last_boxes(text)
    return _ANNOUNCED.sub("", text.strip()) or None


def _as_answer(text: str) -> str:
    """`85` of `["85"]` or `{"ground_truth": "85"}`."""
    for pattern in _PRINTED:
        match = pattern.fullmatch(text)
        if match:
            content = match[2].strip()
            if match[1]:  # quoted: a backslash may be written twice
                content = content.replace("\\\\", "\\")
            return _as_answer(content)
    return text


def why_unearnable(gold: object, question: str | None = None) -> str | None:
    """Why no answer can be judged correct by a gold; None where one can."""
    answer = gold_answer(gold)
    if answer is None:
        return "it is empty"
    for reason, pattern in _UNEARNABLE:
        if pattern.fullmatch(answer):
            return reason
    words = re.findall(r"(?<![\\a-zA-Z])[^\W\d_]{2,}", re.sub(r"\\text\{[^{}]*\}", "", answer))
    if len(words) > _MOST_WORDS or (len(words) > 11 and _SENTENCE_ENDS.search(answer)):
        return "it is a solution in prose whose answer nothing marks (#### or \\boxed{…})"
    options = dict(_OPTIONS.findall(question or ""))
    if {"A", "B"} <= options.keys() and re.fullmatch("[0-5]", answer):
        texts = {text.strip(".,;$") for text in options.values()}
        if answer not in texts:
            return "it is a number, and the question's options have letters"
    return None


def _last_boxes(text: str) -> str | None:
    r"""The last box of `text`, with those that stand beside it in a list: `$\boxed{1}$ and
    $\boxed{2}$`."""
    spans = boxes(text)
    first = len(spans) - 1
    while first > 0 and _is_list(text, spans[first - 1], spans[first]):
        first -= 1
    contents = dict.fromkeys(content for _, _, content in spans[max(first, 0) :] if content)
    return ", ".join(contents) or None


def _is_list(text: str, before: tuple[int, int, str], box: tuple[int, int, str]) -> bool:
    """Whether two boxes stand beside each other in a list of answers."""
    if _is_same_answer(before[2], box[2]) or box[0] - before[1] >= 40:
        return False
    between = _BESIDE.fullmatch(text[before[1] : box[0]])
    if between is None:
        return False
    # "k = \boxed{12} and k = \boxed{18}", but not "x = … and y = …"
    return text[: before[0]].rstrip(" =").endswith(between["name"] or "")


def _is_same_answer(first: str, second: str) -> bool:
    """Whether two boxes hold one answer in two forms: 11+x and x+11, 28 and 28_9."""
    terms = []
    for text in (first, second):
        bare = re.sub(r"\\[a-z]+|_\{?\w+\}?|[{}\s\\!]", "", text)
        terms.append(sorted(re.findall(r"-?(?:\d+|[a-z])|[^+\w]", bare)))
    return terms[0] == terms[1] and "," not in first


def worked_solution(text: str) -> str | None:
    """What leads to the gold answer in `text`, which GSM8K writes before its `####`, MATH around
    its box. None where there is the answer alone."""
    before, hashes, _ = text.partition("####")
    if hashes:
        # Calculator marks <<48/2=24>> were made for a tool that no policy here has.
        return re.sub(r"<<.*?>>", "", before).strip() or None
    spans = boxes(text)
    if spans and text[: spans[-1][0]].strip("$ \n"):
        return text
    return None
