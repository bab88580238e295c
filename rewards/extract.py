r"""Where the answer of a response stands: the rule of docs/rewards.md.

After the thought, the `<answer>` block; without one, the box; without either, "the answer is …", or the whole of a
response of one line. What stands in a thought, closed or not, never counts.
"""

import re
from typing import NamedTuple

from data.gold import boxed

_THINK = re.compile(r"<\s*(/?)\s*think(?:ing)?\s*>", re.IGNORECASE)
_ANSWER = re.compile(r"<\s*(/?)\s*answer\s*>", re.IGNORECASE)
_MAX_LINE = 200  # characters of a response that is nothing but its answer

# "the answer is 5", "**Answer:** 5", "#### 5", "答案是5", up to the end of the sentence.
_STATED = re.compile(
    r"(?:(?:final\s+)?answers?(?:\s+to\s[^.\n]{0,60})?\s*\**\s*(?:is|are|=|:)\s*:?"
    r"|####|答案\s*(?:是|为|為|:|：)|(?:la\s+)?respuesta\s*(?:final\s*)?(?:es|:)|(?:la\s+)?réponse\s*(?:finale\s*)?(?:est|:)"
    r"|(?:die\s+)?antwort\s*(?:ist|lautet|:)|ответ\s*(?:—|-|:)?)\s*\**\s*(?P<answer>[^\n]+)",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?。](?=\s|$)(?<![ap]\.m\.)(?!\s*[ap]\.m\.)|[。]")
_DENIAL = r"\bnot|n't|\bnever|\bno longer|\bneither|\bnor|\bcannot|\bcan't|\brather than|\binstead of|\bunlikely|\bwrong|\bincorrect|\bfalse"
_DOUBT = r"\bmaybe|\bperhaps|\bpossibly|\bprobably|\beither|\bmight|\bcould be|\bmay be|\bguess|\bunsure|\bor\b"
_BEFORE = re.compile(rf"(?:\\neq?\b|\\not\b|≠|{_DENIAL}|{_DOUBT})[^.\n]{{0,25}}$", re.IGNORECASE)
_AFTER = re.compile(
    r"^[\s$).\]\\,]{0,6}(?:or\b|maybe|perhaps|possibly|\(?(?:not|is (?:wrong|not|incorrect))|n't|\?|isn't|is unlikely)",
    re.IGNORECASE,
)


class Found(NamedTuple):
    answers: list[str]  # what the response gives as its answer, several where it gives several
    reason: str  # why there is none


def extract(response: str, strict: bool = False) -> Found:
    """The answers of `response`; `strict` takes nothing but closed `<answer>` blocks."""
    visible = _outside_thoughts(response)
    if visible is None:
        return Found([], "the thought is not closed")
    blocks, closed = _blocks(visible)
    if strict and not (blocks and closed):
        return Found([], "no closed <answer> block")
    if blocks:
        answers = [a for block in blocks for a in _of_block(block)]
        return Found(answers, "") if all(answers) else Found([], "nothing in <answer>")
    if found := _boxes(visible):
        return found
    if stated := _stated(visible):
        return Found(stated, "")
    line = _bare(visible)
    if line and "\n" not in line and len(line) <= _MAX_LINE:
        return Found([line], "")
    return Found([], "no answer block, box or stated answer")


def _outside_thoughts(response: str) -> str | None:
    """`response` without its thoughts, or None if one is never closed. A first `</think>` ends a thought that the prompt
    opened."""
    kept, depth, start = [], 0, 0
    for n, tag in enumerate(_THINK.finditer(response)):
        if tag[1]:
            if n == 0:
                start = tag.end()
            elif depth:
                depth -= 1
                if depth == 0:
                    start = tag.end()
        else:
            if depth == 0:
                kept.append(response[start : tag.start()])
            depth += 1
    if depth:
        # A thought that opens after the answer is text after the answer.
        visible = "\n".join(kept)
        return visible if _ANSWER.search(visible) else None
    return "\n".join([*kept, response[start:]])


def _blocks(visible: str) -> tuple[list[str], bool]:
    """Contents of the `<answer>` blocks and whether the last is closed."""
    blocks: list[str] = []
    start = None
    for tag in _ANSWER.finditer(visible):
        if not tag[1]:
            if start is not None:  # opened twice: neither says what the answer is
                blocks.append("")
            start = tag.end()
        elif start is not None:
            blocks.append(visible[start : tag.start()])
            start = None
    closed = start is None
    if start is not None:
        blocks.append(visible[start:])
    return blocks, closed


def _of_block(block: str) -> list[str]:
    """The answers in one block; "" for none."""
    if found := _boxes(block):
        return found.answers or [""]
    if stated := _stated(block):
        return stated
    text = _bare(block)
    return [_after_verb(text)]


def _boxes(text: str) -> Found | None:
    contents = boxed(text)
    if not contents:
        return None
    at = 0
    for content in contents:
        at = text.find(content, at)
        if _BEFORE.search(_without_box(text[max(0, at - 60) : at])) or _AFTER.search(
            text[at + len(content) :].lstrip("}")
        ):
            return Found([], "the box is doubted or denied")
        at += len(content)
    return Found([_inner(c) for c in contents], "")


def _without_box(text: str) -> str:
    return re.sub(r"\\(?:fbox|f?boxed)\s*\{?\s*$", "", text)


def _inner(content: str) -> str:
    """What a box within a box holds."""
    inner = boxed(content)
    return _inner(inner[0]) if len(inner) == 1 and len(inner[0]) < len(content) else content


def _stated(text: str) -> list[str]:
    answers = []
    for match in _STATED.finditer(text):
        if _BEFORE.search(text[max(0, match.start() - 40) : match.start()]):
            return [""]
        sentence = match["answer"]
        end = _SENTENCE_END.search(sentence)
        answer = _bare(sentence[: end.start()] if end else sentence)
        answers.append(_after_verb(answer))
    return answers


def _bare(text: str) -> str:
    """Without the marks of Markdown around it."""
    return text.strip().strip("*`").strip()


def is_hedged(text: str) -> bool:
    """Whether `text` denies or doubts what it says."""
    return (
        re.search(
            rf"(?:{_DENIAL}|\bmaybe|\bperhaps|\bpossibly|\bprobably|\beither|\bmight|\bcould be|\bguess)",
            text,
            re.IGNORECASE,
        )
        is not None
        or "?" in text
    )


_VERB = (
    r"(?:is|are|was|were|be|equals|has|have|had|costs?|makes?|made|earns?|gets?|got|needs?|takes?|spends?|spent|pays?|paid|"
    r"sells?|sold|uses?|used|buys?|bought|saves?|eats?|ate|receives?|received)"
)
_SENTENCE = re.compile(rf"[A-Z][^.\d\\$=]{{1,80}}?\b{_VERB}\s+(?:exactly\s+)?([^A-Za-z]*\d.*)|(?!Option|Choice)[A-Z][A-Za-z ]{{2,40}}:\s*(.*)")


def _after_verb(text: str) -> str:
    """What a sentence such as "She has 18 eggs left, as …" or "Total: $18" says, else all of `text`."""
    text = re.split(r",?\s+(?:as|because|since|which|so)\s", text, maxsplit=1)[0]
    match = _SENTENCE.fullmatch(text)
    return (match[1] or match[2] or "") if match else text
