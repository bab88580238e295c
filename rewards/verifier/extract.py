r"""Where the answer of a response stands: the rule of docs/rewards.md.

After the thought, the `<answer>` block; without one, the box; without either, "the answer is …", or the whole of a
response of one line. What stands in a thought, closed or not, never counts.
"""

import re
from typing import NamedTuple

from data.gold import boxes
from rewards.verifier.units import known, unit

_THINK = re.compile(r"<\s*(/?)\s*think(?:ing)?\s*>", re.IGNORECASE)
_ANSWER = re.compile(r"<\s*(/?)\s*answer\s*>", re.IGNORECASE)
_MAX_LINE = 200  # characters of a response that is nothing but its answer
_MAX_SENTENCE = 1000  # characters of a sentence with an answer; a longer answer is wrong anyway
# Long runs of white space are made one character first: every `\s*` below would cross them again from each start.
_SPACES = re.compile(r"\s{9,}")

# "the answer is 5", "**Answer:** 5", "#### 5", "答案是5", up to the end of the sentence.
_STATED = re.compile(
    r"(?:(?:final\s+)?answers?(?:\s+to\s[^.\n]{0,60})?\s*\**\s*"
    r"(?:(?:is|are|would be)(?:\s+(?:therefore|thus|hence|then|clearly|indeed|simply|just|exactly|equal to)\b)*"
    r"|=|:)\s*:?"
    r"|#{1,6} *(?:final )?answer\s*\n|####|答案\s*(?:是|为|為|:|：)|(?:la\s+)?respuesta\s*(?:final\s*)?(?:es|:)"
    r"|(?:la\s+)?réponse\s*(?:finale\s*)?(?:est|:)"
    r"|(?:die\s+)?antwort\s*(?:ist|lautet|:)|ответ\s*(?:—|-|:)?)\s*\**\s*"
    rf"(?P<answer>[^\n]{{1,{_MAX_SENTENCE + 1}}})",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?。](?=\s|$)(?<![ap]\.m\.)(?<!\b[DMS][rst]\.)(?<!\bMrs\.)(?!\s*[ap]\.m\.)|[。]")
# Words that deny or doubt, and the words that may stand between them and what they deny: "I don't think the answer is".
_DENIAL = r"\b(?:not|never|neither|nor|cannot|unlikely|doubt|wrong|incorrect|false)\b|n't\b"
_DOUBT = r"\b(?:maybe|perhaps|possibly|probably|either|might|could|may|guess|unsure|if|whether)\b"
_LINK = (
    r"(?:[\s$(,:=~}]|\\[(\[,;]|\b(?:that|the|a|an|is|are|be|it|it's|its|answers?|results?|value|equals?|to|final|correct|"
    r"thinks?|believes?|says?|knows?|true|case|sure|of|in|one|some)\b)*$"
)
_BEFORE = re.compile(
    rf"(?:{_DENIAL}|{_DOUBT}|\b(?:or|nobody|nothing|no one)\b|\\neq?(?![a-z])|\\not\b|≠){_LINK}", re.IGNORECASE
)
# "One of the answers is", "another answer is": there are more.
_MORE = (
    r"\b(?:(?:one|some|any|all|each|both|two|most|part|none) of(?:\s+(?:the|my|our|its|these|those|two|possible)){0,2}"
    r"|another|possible|alternative|approximate|rough|estimated|no"
    r"|(?:twice|half|minus|negative|(?:square|root|opposite|reciprocal|double|half) of)(?:\s+(?:the|our|its))?)\s+"
)
_ONE_OF = re.compile(rf"{_MORE}(?:(?:final )?answers?{_LINK})?$", re.IGNORECASE)
_AFTER = re.compile(
    r"[\s$).\]\\,}]{0,6}(?:\(?or\b(?! (?:equivalently|more precisely|in other words|about|approximately))"
    r"|\(?maybe|perhaps|possibly|\?|(?:is|was|seems|looks) (?:the |an? )?(?:not|wrong|incorrect|false|unlikely)|isn't"
    r"|cannot be|can't be|no,? wait|wait\b)",
    re.IGNORECASE,
)
_HEDGE = re.compile(rf"{_DENIAL}|{_DOUBT}|\?", re.IGNORECASE)
# What is no part of the mathematics around a box: text commands, spaces, and before it HTML tags, arrows and the marks
# at the start of a line.
_TEXT = re.compile(r"\\(?:text[a-z]*|math(?:rm|bf)|[mh]box|[hH]uge|[lL]arge)\s*\{|\\[,;:!> ]")
_MARKS = re.compile(r"</?[a-zA-Z]+\s*/?>|[=-]+>|(?<=\n)[ \t]*(?:[-*+>]+[ \t]+)+")
# "at least \boxed{5}", "anything but the \boxed{5}", and "\boxed{5} as a lower bound"; "about \boxed{5}" may be a gold
# that is rounded itself if it is a decimal.
_NEAR = r"(?:[\s$(*:=}]|\\[(\[]|\b(?:the|a|an|just|only|is|equal to)\b)*"
_BOUND_BEFORE = re.compile(
    r"(?:\b(?:than|at (?:least|most)|(?<!round )(?<!\$ )up to|between|(?:anything|everything|all|nothing) but|"
    rf"instead of|except(?: for)?|excluding|without|exceeds?){_NEAR}|\b(?:over|under|above|below)[ $]*)$",
    re.IGNORECASE,
)
# The sign ≈ before a box is how a derivation ends whose question asks to round; only the words are a hedge.
_ROUNDED_BEFORE = re.compile(
    rf"(?<!\\)\b(?:about|approx(?:imately|\.)?|roughly|around|nearly|almost|close to|near){_NEAR}$", re.IGNORECASE
)
_INEXACT_AFTER_BOX = re.compile(
    r"[\s$.)*,]*(?:(?:as|is) an? (?:lower|upper|minimum|maximum|bound|estimate|guess)|at (?:least|most|minimum)\b"
    r"|or (?:more|less)\b(?! precisely)|which (?:is|was|seems) (?:\w+ )?(?:wrong|incorrect|false|unlikely|impossible))",
    re.IGNORECASE,
)
# A box within a larger expression is not the answer: -\boxed{3}, 2 \cdot \boxed{3}, \boxed{3}x, \boxed{3} + 4.
_PROSE = (  # commands that are no operators or functions
    r"q?quad|implies|iff|[A-Za-z]*arrow|therefore|because|approx|equiv|cong|sim|begin|end|tag|label|boxed|fbox|hline|par|"
    r"noindent|item|newline|[hv]space|hfill|displaystyle|bf|rm"
)
_PART_BEFORE = re.compile(
    r"(?:[\d√±_−–-]|(?<![a-zA-Z])[a-zA-Z]|[^\\]\)|[\d)}]\}|\d:|[+/^×÷·⋅<>≤≥]=?\s*\$?\s*"
    r"|(?:[=\d$)}(,<>:]|\b[a-zA-Z])\s*[-−–]\s*(?:\\?\$)?\s*"  # not "Answer - \boxed{5}"
    r"|(?:[\d)}]\s*|\b[a-zA-Z])\*{1,2}|[\w)}]\(|\d\s*\(|\\left\s*\(|[^\s$=]\{|\}\s*\{"
    rf"|\\(?!(?:{_PROSE}|to|in|colon|centering|[lL]arge|LARGE|[hH]uge)(?![a-zA-Z]))[a-zA-Z]+\s*"
    r"|[-−–][ \t]*\(|[-−–]\\?\$|\d[.,]|\s\.|[$=]\|"
    r"|\b(?i:twice|thrice|half(?: of)?|minus|plus|times|negative|divided by"
    r"|(?:root|square|cube|opposite|reciprocal) of)(?:\s+the)?[\s$]*"
    r"|\\[a-z]+[_^](?:\w|\{[^{}]*\})\s*|\\(?:[dtc]?frac|sqrt)(?:\{[^{}]*\})+\s*)\Z"
)
_PART_AFTER = re.compile(
    r"[)}]*(?:\d|[.,:]\d|_\{?[\w\\]|[²³¹⁰⁴-⁹₀-₉¼-¾⅐-⅞]|[,;][ \t$]+-?\d|[ \t]\$?\d|[a-zA-Z](?![a-zA-Z])"
    r"|\((?!\s*[a-zA-Z]{2})|-[a-z]\b|\s*[+/×÷·⋅±]\s*(?:[\d\\(]|\$\d|[a-zA-Z](?![a-zA-Z]))|[ \t]*[-−–][ \t]*\$?[\d\\(]"
    r"|[ \t]*\*[ \t]*(?:[\d\\]|[a-z]\b)|\*\(|\*\*\d|\s*\^(?!\s*\{?\s*\\circ)"
    r"|[ \t]*\$?[ \t]*(?:<[ \t]*[\d\\$a-z=]?(?:\s|$)|<\d|>[ \t]*[\d\\$]|[≤≥])"
    r"|[\s$]*(?:(?:(?:to|through|and|plus|minus|times|divided by)\s+(?:\$?\s*-?\d|a half\b)|to\s+\$?\s*\\boxed)"
    r"|(?:squared|cubed|factorial|(?:ten|hundred|thousand|million)ths)\b|x\s*\d)|[!']\$|\s*\\(?:cdot|times)(?![a-z])"
    rf"|[ \t]*\\(?!(?:{_PROSE}|blacksquare|square|Box|checkmark|qed|right|[pb]?mod|degrees?|circ)(?![a-zA-Z]))"
    r"[a-zA-Z]+)"
)
_LABEL = re.compile(r"(?:\\text[a-z]*\s*\{\s*(?:final )?answer\s*[:=]\s*\}|(?:final )?answer\s*[:=])\s*", re.IGNORECASE)
# What follows a box and belongs to its number.
_SUFFIX = re.compile(r"\s*\$?\s*(\\?%|_(?:\d+|\{\d+\})|(?:hundred|thousand|million|billion|trillion|dozen)\b)")


# "x = \boxed{1} or x = \boxed{2}" gives two values, as a comma would.
_OR_BOX = re.compile(r"\A[\s$]*,?\s*(?:or|\\text\{\s*or\s*\})[\s$]*(?:[a-zA-Z](?:_\w)?\s*=\s*)?(?=\\boxed)")


# An answer of the box's own kind right beside it: "6, \boxed{5}", "x = 6 or x = \boxed{5}", "\boxed{B} and C".
_RIVAL = r"(?P<rival>[-−]?\d[\d.,]*(?<![.,])|[A-H](?![\w'.])|[A-Z][a-z]+\b|(?:yes|no)\b|\([^()]*,[^()]*\))"
_JOINT = r"[\s$]*(?:,[\s$]*(?:or\b|and\b)?|\bor\b|\band\b|&|/)[\s$]*"
_RIVAL_BEFORE = re.compile(
    rf"(?:(?P<name>\b[a-zA-Z])\s*=\s*)?(?<![\w.\\]){_RIVAL}(?P<joint>{_JOINT})(?:(?P<again>[a-zA-Z])\s*=[\s$]*)?\Z"
)
_RIVAL_AFTER = re.compile(rf"{_JOINT}(?:(?P<again>[a-zA-Z])\s*=\s*)?{_RIVAL}")
_LIST_BEGINS = re.compile(r"(?:^|[\n(\[{:,;]|\b(?:is|are|be|answers?|either))[\s$]*\Z")
_NAME_BEFORE = re.compile(r"\b([a-zA-Z])\s*=[\s$]*\Z")


class Found(NamedTuple):
    answers: list[str]  # what the response gives as its answer, several where it gives several
    reason: str  # why there is none


def extract(response: str, strict: bool = False) -> Found:
    """The answers of `response`; `strict` takes nothing but closed `<answer>` blocks."""
    visible = _outside_thoughts(_SPACES.sub(lambda run: "\n" if "\n" in run[0] else " ", response))
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
    """`response` without its thoughts, or None if one is never closed. A `</think>` without a `<think>` ends a thought
    that the prompt opened, or one that began in between: what stands before it is hidden, but for an answer given."""
    kept, depth, start, answered = [], 0, 0, False
    for n, tag in enumerate(_THINK.finditer(response)):
        if not tag[1]:
            if depth == 0:
                kept.append(response[start : tag.start()])
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                start = tag.end()
        elif not answered:
            answered = n > 0 and _answered("\n".join([*kept, response[start : tag.start()]]))
            if not answered:
                kept, start = [], tag.end()
    if depth:
        # A thought that opens after the answer is text after the answer.
        visible = "\n".join(kept)
        return visible if _answered(visible) else None
    return "\n".join([*kept, response[start:]])


def _answered(text: str) -> bool:
    """Whether `text` has a closed `<answer>` block."""
    opened = False
    for tag in _ANSWER.finditer(text):
        if tag[1] and opened:
            return True
        opened = opened or not tag[1]
    return False


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
    answers, last = [], 0
    for start, end, content in boxes(text):
        # From the box before on, where that is near; a line break stands for the start of the text.
        near = max(last, start - 80)
        before, after = "\n" * (near == 0) + text[near:start], text[end : end + 40]
        if answers:
            before = _OR_BOX.sub(", ", before + "\\boxed").removesuffix("\\boxed")
        after = _OR_BOX.sub(", ", after)
        last = end
        unit = _SUFFIX.match(_TEXT.sub(" ", after))
        named = _named_unit(after)
        before, after = _MARKS.sub("", _TEXT.sub(" ", before)), _TEXT.sub(" ", after)
        if _BEFORE.search(before) or _ONE_OF.search(before) or _AFTER.match(after):
            return Found([], "the box is doubted or denied")
        rounded = "." not in content and _ROUNDED_BEFORE.search(before)
        if rounded or _BOUND_BEFORE.search(before) or _INEXACT_AFTER_BOX.match(after):
            return Found([], "the box is inexact")
        if _PART_BEFORE.search(before) or _PART_AFTER.match(after, unit.end() if unit else 0):
            return Found([], "the box is part of an expression")
        if _has_rival(content, before, after):
            return Found([], "another answer stands beside the box")
        if (held := _inner(content)) is None:
            return Found([], "the box is part of a box")
        label = _LABEL.match(held)
        answers.append(held[label.end() if label else 0 :] + (unit[1] if unit else "") + named)
    return Found(answers, "") if answers else None


def _has_rival(content: str, before: str, after: str) -> bool:
    """Whether another candidate of the box's kind is listed right beside it. What another name is given
    ("x = 2, y = \\boxed{5}"), and the end of a calculation ("2 + 3 = 5, \\boxed{5}"), are none."""
    if match := _RIVAL_BEFORE.search(before):
        end_of_a_sum = before[: match.start("rival")].rstrip(" $-−")[-1:] in ("=", "+", "*", "/", "^", "·", "×", "}")
        named = match["name"] is not None and match["name"] == match["again"]
        alone = match["name"] is None and match["again"] is None and not end_of_a_sum
        # "on May 3, \boxed{12}" and "Bob, \boxed{Alice}" list nothing.
        comma = match["joint"].strip(" $\n") == ","
        prose = comma and (match["rival"][1:2].islower() or not _LIST_BEGINS.search(before[: match.start("rival")]))
        if (named or (alone and not prose)) and _same_kind(match["rival"], content):
            return True
    if match := _RIVAL_AFTER.match(after):
        own = _NAME_BEFORE.search(before)
        other_name = own is not None and match["again"] is not None and own[1] != match["again"]
        calls = match["rival"][1:2].islower() and match[0].lstrip(" $").startswith(",")
        return not other_name and not calls and _same_kind(match["rival"], content)
    return False


def _same_kind(rival: str, content: str) -> bool:
    """Whether both are numbers, option letters, words or tuples, and not the same one."""
    held = re.sub(r"\\(?:text|mathrm|textbf|mathbf)\s*\{([^{}]*)\}|[\s$]", r"\1", content)
    kinds = (r"[-−]?\d[\d.,]*", r"\(?[A-H]\)?", r"[A-Za-z][a-z]+", r"\(.*,.*\)")
    return rival != held and any(re.fullmatch(k, rival) and re.fullmatch(k, held) for k in kinds)


_UNIT_AFTER = re.compile(
    r"[\s$]*(?:\\[,;:! ]|~)*\s*(?:\\(?:text[a-z]*|mathrm|mbox)\s*\{\s*([^{}]*?)\s*\}(\s*\^\s*\{?[23]\}?)?|"
    r"((?:in )?base[ -]\w+|[ap]\.?m\b\.?|(?:(?:square|cubic|sq|cu)\.? )?[A-Za-z]+(?:\s*\^\s*\{?[23]\}?|[²³])?))"
)


def _named_unit(after: str) -> str:
    """The unit, the base or the half of the day behind a box, which is part of what it says."""
    match = _UNIT_AFTER.match(after)
    if match is None:
        return ""
    text = (match[1] or "") + (match[2] or "") if match[1] is not None else match[3]
    if re.fullmatch(r"(?:in )?base[ -]\w+|[ap]\.?m\.?", text, re.IGNORECASE):
        return " " + text
    if match[3] == "in" and re.match(r"\s*[A-Za-z0-9$\\]", after[match.end() :]):
        return ""  # "\boxed{5} in total"
    name = unit(text)
    if not name or not known(name):
        return ""
    return f" \\text{{{match[1]}}}{match[2] or ''}" if match[1] else f" {text}"


def _inner(content: str) -> str | None:
    """What a box within a box holds; None where it is a part of the outer one."""
    inner = boxes(content)
    if not inner:
        return content
    start, end, held = inner[0]
    alone = not (content[:start] + content[end:]).strip(" $\n")
    return held if alone and not boxes(held) else None


def _stated(text: str) -> list[str]:
    answers, at = [], 0
    while match := _STATED.search(text, at):
        before = text[max(0, match.start() - 80) : match.start()]
        if _BEFORE.search(before) or _ONE_OF.search(before):
            return [""]
        end = _SENTENCE_END.search(match["answer"])
        answer = match["answer"][: end.start()] if end else match["answer"]
        if len(answer) > _MAX_SENTENCE or (end and end[0] == "?"):
            return [""]
        if not re.match(r"\s*not\b", answer, re.IGNORECASE):  # "the answer is not 4" may lead to "the answer is 5"
            answers.append(_after_verb(_bare(answer)))
        at = match.start("answer") + len(answer)
    return answers or ([""] if at else [])


def _bare(text: str) -> str:
    """Without the marks of Markdown around it."""
    return text.strip().strip("*`").strip()


def is_hedged(text: str) -> bool:
    """Whether `text` denies or doubts what it says."""
    return _HEDGE.search(text) is not None


_VERB = (
    r"(?:is|are|was|were|be|equals|has|have|had|costs?|makes?|made|earns?|gets?|got|needs?|takes?|spends?|spent|pays?|paid|"
    r"sells?|sold|uses?|used|buys?|bought|saves?|eats?|ate|receives?|received)"
)
_SENTENCE = re.compile(
    rf"[A-Z][^.\d\\$=]{{1,80}}?\b{_VERB}\s+(?:exactly\s+)?([^A-Za-z]*\d.*?)(?:\s+(?:in total|in all|altogether)\.?)?"
    r"|(?!Option|Choice)[A-Z][A-Za-z ]{2,40}:\s*(.*)"
    # A letter or a name.
    r"|(?:The )?(?:correct |right )?(?:option|choice|answer) is (\(?[A-J]\)?)\.?"
    r"|(\(?[A-J]\)?) is (?:the )?(?:correct|right)(?: (?:option|choice|answer))?\.?"
    r"|(?:It's|It is|The [a-z ]{1,60} (?:is|was)) ([A-Z][a-z]+)\.?"
)
_REASON = re.compile(r",?\s+(as|because|since|which|so(?!\s+on\b))\s")
# Words beside an answer that make it less than an answer.
_INEXACT = re.compile(
    rf"{_HEDGE.pattern}|\b(?:nobody|nothing|none|no one|no-one|hardly|than|at (?:least|most)|about|approx\w*|"
    r"roughly|around|nearly|almost|close to|between|anything|everything|except|instead|up to|bounds?|limit|"
    r"estimated?|over|under|exceeds?|no way|negative|minus|twice|half|unclear|seems?|used to|supposedly|refuse)\b",
    re.IGNORECASE,
)
_INEXACT_AFTER = re.compile(rf"{_INEXACT.pattern}|\b(?:minimum|maximum|possible|well)\b", re.IGNORECASE)


def _after_verb(text: str) -> str:
    """What a sentence such as "She has 18 eggs left, as …" or "Total: $18" says, else all of `text`."""
    if len(text) > _MAX_SENTENCE:
        return text
    said, word, reason = [*_REASON.split(text, maxsplit=1), "", ""][:3]
    # "5 each, so 10 in total", "3 as the first, 4 as the second": the reason must come out at what was said.
    numbers = re.findall(r"\d+(?:[.,]\d+)*", reason) if word in ("as", "so") else []
    if _INEXACT_AFTER.search(reason) or (numbers and numbers[-1] not in re.findall(r"\d+(?:[.,]\d+)*", said)):
        return text
    match = _SENTENCE.fullmatch(said)
    if not match:
        return said
    answer = next(filter(None, match.groups()), "")
    return text if _INEXACT.search(said.replace(answer, "", 1)) else answer
