r"""Where the answer of a response stands: the rule of docs/rewards.md.

After the thought, the `<answer>` block; without one, the box; without either, "the answer is …", or
the whole of a response of one line. What stands in a thought, closed or not, never counts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from data.gold import boxes
from rewards.verifier import phrases
from rewards.verifier.languages import doubted
from rewards.verifier.notation import key
from rewards.verifier.units import known, unit

# No way back into the spaces of a tag: a long run of them would be crossed again from each of its
# characters.
_THINK = re.compile(r"<\s*+(/?)\s*+think(?:ing)?\s*>", re.IGNORECASE)
_ANSWER = re.compile(r"<\s*+(/?)\s*+answer\s*>", re.IGNORECASE)
_MAX_LINE = 200  # characters of a response that is nothing but its answer
_LAST_LINE = re.compile(
    rf"(?i)\W*(?:{phrases.CONCLUDING})(?!\w)|.*[^\W\d_].*[.。।]$|\W*\*\*[^*]+(?:\*\*)?$"
)
# all of a response, each item a line
_LIST = re.compile(r"\s*(?:(?:[-*•]|\d\.) [^\n.]{1,30}(?:\n+|\s*$)){2,9}")
_MOST = 300  # boxes or statements of a text
# The most frequent response needs no more looking: one block, of a whole number, and no tags but
# those of a thought.
_WHOLE = re.compile(
    r"[^<]*+(?:(?:<think>[^<]*+)?</think>[^<]*+)?<answer>\s*(\$?-?\d+\$?)\s*</answer>[^<]*+",
    re.ASCII,
)
# Long runs of white space are made one character first: every `\s*` would cross them again from
# each start.
_SPACES = re.compile(r"\s\s{8,}")  # in this form it is looked for in two thirds of the time
_SENTENCE_END = re.compile(
    r"(?!(?<=\d)!\.)[.!?。]+(?=(?:\*\*|__)?(?:\s|$))(?<![ap]\.m\.)(?<!\b[DMS][rst]\.)(?<!\bMrs\.)"
    r"(?<!\b(?:sq|cu)\.)(?!\s*[ap]\.m\.)|[。]"
)
# What is no part of the mathematics around a box: text commands, spaces, and before it HTML tags,
# arrows and the marks at the start of a line.
_TEXT = re.compile(r"\\(?:text[a-z]*|math(?:rm|bf)|[mh]box|[hH]uge|[lL]arge)\s*\{|\\[,;:!> ]")
_MARKS = re.compile(r"</?[a-zA-Z]+\s*/?>|[=-]+>|(?<=\n)[ \t]*(?:[-*+>]+[ \t]+)+")
_LABEL = re.compile(
    r"(?:\\text[a-z]*\s*\{\s*(?:final )?answer\s*[:=]\s*\}|(?:final )?answer\s*[:=])\s*",
    re.IGNORECASE,
)
# What follows a box and belongs to its number.
_SUFFIX = re.compile(
    r"\s*\$?\s*(\\?%|_(?:\d+|\{\d+\})|(?:hundred|thousand|million|billion|trillion|dozen)\b)"
)
# "x = \boxed{1} or x = \boxed{2}" gives two values, as a comma would.
_OR_BOX = re.compile(
    r"\A[\s$]*,?\s*(?:or|\\text\{\s*or\s*\})[\s$]*(?:[a-zA-Z](?:_\w)?\s*=\s*)?(?=\\boxed)"
)
# An answer of the box's own kind right beside it: "6, \boxed{5}", "x = 6 or x = \boxed{5}",
# "\boxed{B} and C".
_RIVAL = rf"(?P<rival>{phrases.RIVALS.regex.pattern})"
_JOINT = r"[\s$]*(?:,[\s$]*(?:or\b|and\b)?|\bor\b|\band\b|&|/)[\s$]*"
_RIVAL_BEFORE = re.compile(
    rf"(?:(?P<name>\b[a-zA-Z])\s*=\s*)?(?<![\w.\\]){_RIVAL}(?P<joint>{_JOINT})(?:(?P<again>[a-zA-Z])\s*=[\s$]*)?\Z"
)
_RIVAL_AFTER = re.compile(rf"{_JOINT}(?:(?P<again>[a-zA-Z])\s*=\s*)?{_RIVAL}")
_LIST_BEGINS = re.compile(r"(?:^|[\n(\[{:,;]|\b(?:is|are|be|answers?|either))[\s$]*\Z")
_TAKEN_BACK = phrases.DENIED_AFTER.says.format("a second thought")
_FINAL = re.compile(
    r"\b(?:final"
    r" result|answer)\b(?:[\s:*$=({\[]|\\[\[(]|\b(?:is|are|therefore|thus|then|hence|so)\b)*"
    r"\Z",
    re.IGNORECASE,
)
_NAME_BEFORE = re.compile(r"\b([a-zA-Z])\s*=[\s$]*\Z")


class Found(NamedTuple):
    answers: list[str]  # what the response gives as its answer, several where it gives several
    reason: str  # why there is none
    leads: tuple[
        str, ...
    ] = ()  # the text that leads to each answer, where they are boxes of one text


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the verifier says about a response. Read `.right`: the verdict itself is neither true
    nor false."""

    right: bool | None  # None if it cannot be judged: there is no gold, or none that can be read
    answer: str | None  # what the response gives as its answer; several are joined by "; "
    reason: str  # what decided, and for words or signs around an answer which of them
    timed_out: bool = False

    def __bool__(self) -> bool:
        raise TypeError(
            "a Verdict is neither true nor false: read its .right, which is True, False or None"
        )


def extract(response: str, strict: bool = False) -> Found:
    """The answers of `response`; `strict` takes nothing but closed `<answer>` blocks."""
    if whole := _WHOLE.fullmatch(response):
        return Found([whole[1]], "")
    visible = outside_thoughts(response)
    if visible is None:
        return Found([], "the thought is not closed")
    visible = _SPACES.sub(lambda run: "\n" if "\n" in run[0] else " ", visible)
    blocks, closed = blocks_of(visible)
    if strict and not (blocks and closed):
        return Found([], "no closed <answer> block")
    if blocks:
        return _of_blocks(blocks)
    found = _given(visible)
    if found and not (not found.answers and found.reason.startswith(_PARTLY)):
        return found
    if len(visible) <= _MAX_LINE and _LIST.fullmatch(visible):
        return Found([_bare(visible)], "")
    *way, line = (_bare(visible) or "\n").splitlines()
    if (
        line
        and len(line) <= _MAX_LINE
        and not (way and not _LAST_LINE.match(line))
        and not (found and "boxed" in line)
    ):
        return Found([_bare(line)], "")
    return found or Found([], "no answer block, box or stated answer")


def outside_thoughts(response: str) -> str | None:
    """`response` without its thoughts, or None if one is never closed. A `</think>` without a
    `<think>` ends a thought that the prompt opened, or one that began in between: what stands
    before it is hidden, but for an answer given.
    """
    kept, depth, start, answered = [], 0, 0, False
    for n, tag in enumerate(_THINK.finditer(response)):
        if not tag[1]:
            # Nothing but space between two thoughts is left out: a run of it would be long white
            # space again.
            if depth == 0 and (not kept or response[start : tag.start()].strip()):
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


def last_turn(turns: Sequence[str]) -> str:
    """What is judged of a response in several turns, between which a tool spoke: the last, inside
    the thought that those before left open."""
    opened = outside_thoughts("".join(turns[:-1])) is None
    return "<think>" * opened + "".join(turns[-1:])


def _answered(text: str) -> bool:
    """Whether `text` has a closed `<answer>` block."""
    opened = False
    for tag in _ANSWER.finditer(text):
        if tag[1] and opened:
            return True
        opened = opened or not tag[1]
    return False


def blocks_of(visible: str) -> tuple[list[str], bool]:
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


def _of_blocks(blocks: list[str]) -> Found:
    """The answers of all blocks; none if one of the blocks has none."""
    answers, leads = [], ()
    for block in blocks:
        found = _given(block) or Found([_bare(block)], "")
        if not found.answers or "" in found.answers:
            return Found([], found.reason or "an <answer> block is empty")
        answers, leads = answers + found.answers, leads + found.leads
    return Found(answers, "", leads if len(blocks) == 1 else ())


def _given(text: str) -> Found | None:
    """What `text` boxes or announces. A value announced after the last box is the answer; if that
    box was announced as the answer too, or stands alone in its line, the two are several."""
    if not (found := boxes(text)):
        return _stated(text)
    start, end, content = found[-1]
    boxed, said = _boxes(text, found), _stated(text[end:], after_a_box=True)
    if said is None or not said.answers or len(content) > phrases.LONGEST_SENTENCE:
        return boxed
    if {key(answer).rpartition("=")[2] for answer in said.answers} == {key(content)}:
        return said if boxed.reason.startswith(_PARTLY) else boxed
    before = _MARKS.sub("", _TEXT.sub(" ", text[max(0, start - 80) : start]))
    beside = text[text.rfind("\n", 0, start) + 1 : start] + text[end:].partition("\n")[0]
    announced = _FINAL.search(before) or not re.search(r"\w", beside)
    return (
        Found([*boxed.answers, *said.answers], "")
        if announced and boxed.answers
        else boxed
        if announced
        else said
    )


# What a box may have against it that says nothing against the same value announced after it.
_PARTLY = ("the box is part of", "the box is beside")


def _boxes(text: str, found: list[tuple[int, int, str]]) -> Found:
    answers, finals, leads, last = [], [], [], 0
    if len(found) > _MOST:
        return Found([], "too many boxes")
    for start, end, content in found:
        # From the box before on, where that is near; a line break stands for the start of the text.
        near = max(last, start - 80)
        before, after = "\n" * (near == 0) + text[near:start], text[end : end + 40]
        if answers:
            before = _OR_BOX.sub(", ", before + "\\boxed").removesuffix("\\boxed")
        if listed := _OR_BOX.match(after):
            after = ", " + after[listed.end() :]
        leads.append(text[max(last, start - 80) : start])
        last = end
        named = _named_unit(after)
        before, after = _MARKS.sub("", _TEXT.sub(" ", before)), _TEXT.sub(" ", after)
        unit = _SUFFIX.match(after)
        if objection := _objection(content, before, after, unit.end() if unit else 0):
            if start != found[-1][0] and objection == _TAKEN_BACK:  # and a later box says what for
                answers, finals, leads = [], [], []
                continue
            return Found([], f"the box is {objection}")
        if (held := _inner(content)) is None:
            return Found([], "the box holds more than the box inside it")
        label = _LABEL.match(held)
        finals.append(_FINAL.search(before) is not None)
        answers.append(held[label.end() if label else 0 :] + (unit[1] if unit else "") + named)
    if (
        len(answers) > 1 and finals[-1] and not any(finals[:-1])
    ):  # boxes on the way, and the one announced as the last
        answers, leads = answers[-1:], leads[-1:]
    return Found(answers, "", tuple(leads))


def _objection(content: str, before: str, after: str, suffix: int) -> str | None:
    """What the text around a box has against it; the first `suffix` characters after it belong to
    its number."""
    words_before, words_after = before.lower(), after.lower()
    return (
        phrases.DENIED_BEFORE.search(words_before)
        or phrases.PARTIAL_BEFORE.search(words_before)
        or phrases.DENIED_AFTER.match(words_after)
        or ("." not in content and phrases.ROUNDED_BEFORE.search(words_before))
        or phrases.BOUND_BEFORE.search(words_before)
        or phrases.BOUND_AFTER.match(words_after)
        or phrases.PART_BEFORE.search(before)
        or phrases.ARITHMETIC_BEFORE.search(words_before)
        or phrases.PART_AFTER.match(after, suffix)
        or _rival(content, before, after)
    )


def _rival(content: str, before: str, after: str) -> str | None:
    """An objection to a box that has another candidate of its kind listed right beside it.

    The value of another name ("x = 2, y = \\boxed{5}") is no rival, nor is the result of a
    calculation ("2 + 3 = 5, \\boxed{5}").
    """
    if match := _RIVAL_BEFORE.search(before):
        end_of_a_sum = before[: match.start("rival")].rstrip(" $-−")[-1:] in (
            "=",
            "+",
            "*",
            "/",
            "^",
            "·",
            "×",
            "}",
        )
        named = match["name"] is not None and match["name"] == match["again"]
        alone = match["name"] is None and match["again"] is None and not end_of_a_sum
        # "on May 3, \boxed{12}" and "Bob, \boxed{Alice}" list nothing.
        comma = match["joint"].strip(" $\n") == ","
        prose = comma and (
            match["rival"][1:2].islower() or not _LIST_BEGINS.search(before[: match.start("rival")])
        )
        if (named or (alone and not prose)) and _same_kind(match["rival"], content):
            return f"{phrases.RIVALS.match(match['rival'])} before it"
    if match := _RIVAL_AFTER.match(after):
        own = _NAME_BEFORE.search(before)
        other_name = own is not None and match["again"] is not None and own[1] != match["again"]
        address = match["rival"][1:2].islower() and match[0].lstrip(" $").startswith(",")
        sum_begins = re.match(r"[^.,;\n]*=", after[match.end() :])  # "\boxed{9} and 2^3 = 8"
        if not (other_name or address or sum_begins) and _same_kind(match["rival"], content):
            return f"{phrases.RIVALS.match(match['rival'])} after it"
    return None


def _same_kind(rival: str, content: str) -> bool:
    """Whether the box holds what the table of rivals says of this one, and not the same."""
    held = re.sub(r"\\(?:text|mathrm|textbf|mathbf)\s*\{([^{}]*)\}|[\s$]", r"\1", content)
    return rival != held and re.fullmatch(phrases.RIVALS.phrase(rival).held, held) is not None


_UNIT_AFTER = re.compile(
    r"[\s$]*(?:\\[,;:!"
    r" ]|~)*\s*(?:\\(?:text[a-z]*|mathrm|mbox)\s*\{\s*([^{}]*?)\s*\}(\s*\^\s*\{?[23]\}?)?|"
    r"((?:in )?base[ -]\w+|[ap]\.?m\b\.?|"
    r"(?!has\b)(?:(?:square|cubic|sq|cu)\.?"
    r" )?[A-Za-z]+(?:\s*\^\s*\{?[23]\}?|[²³])?(?:\s?(?:/|per)\s?[a-zA-Z]+)?))"
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


# How a sentence begins that announces an answer, and the answer: not "this answer is 2 more", nor
# "the answer is even".
_OPENING = re.compile(
    r"(?i)(?:\A|[\n.!?。"
    rf"]|\b(?:{phrases.CONCLUDING}))(?:\W|(?:and|but|then|the|our|my|correct|wait|no|actually|sorry|"
    rf"{phrases.CONCLUDING})(?!\w))*\Z"
)
_VALUE = re.compile(r"(?i)(?:[\s$*({\[]|\\[(\[]|[a-z]\s*=)*+(?:[-−+±√π.\d\\]|[a-z]\s*[-^+*/(_<>])")


def _stated(text: str, after_a_box: bool = False) -> Found | None:
    """The answers that `text` announces, each up to the end of its sentence; `after_a_box` only
    what is announced in a sentence of its own, and is a value."""
    answers, at = [], 0
    while match := phrases.STATEMENTS.regex.search(text, at):
        before = text[max(0, match.start() - 80) : match.start()].lower()
        if after_a_box and not (_OPENING.search(before) and _VALUE.match(match["answer"])):
            at = match.start("answer")
            continue
        if objection := phrases.DENIED_BEFORE.search(before) or phrases.PARTIAL_BEFORE.search(
            before
        ):
            return Found([], f"the stated answer is {objection}")
        if doubted(
            re.split(r"[\n.!?。！？।]", before + match[0][: match.start("answer") - match.start()])[
                -1
            ]
        ):
            return Found([], "the stated answer is changed or doubted before it")
        end = _SENTENCE_END.search(match["answer"])
        answer = match["answer"][: end.start()] if end else match["answer"]
        if len(answer) > phrases.LONGEST_SENTENCE:
            return Found([], "the stated answer is too long")
        if end and "?" in end[0]:
            return Found([], "the stated answer is a question")
        if not re.match(
            r"\s*not\b", answer, re.IGNORECASE
        ):  # "the answer is not 4" may lead to "the answer is 5"
            answers.append(_bare(re.sub(r"^\s*that ", "", answer)))
        at = match.start("answer") + len(answer)
        if len(answers) > _MOST:
            return Found([], "too many stated answers")
    if at and not answers:
        return Found([], "the statement only says what the answer is not")
    return Found(answers, "") if answers else None


def _bare(text: str) -> str:
    """Without the marks of Markdown, quotes and signs of an end or of a success around it."""
    for _ in range(_MOST_MARKS):
        before, text = text, _AROUND.sub("", text)
        bare = text.strip("*`") if text[:1] == "_" else text.strip("*`").removesuffix("__")
        if text.count("**") % 2 or not bare.count("**") % 2:  # not the last mark of "~~24~~ **42**"
            text = bare
        if wrapped := _WRAPPED.fullmatch(text.removesuffix(".")):
            text = next(filter(None, wrapped.groups()[1:]), "")
        if text == before:
            break
    return text


# around an answer, one kind after the other: each is another walk through the text
_MOST_MARKS = 20
# A run at the end is tried from its beginning alone, or a long one inside the text would take time
# by its square.
_SIGNS = "✓✔✅☑➡⮕👉\ufe0f\U0001f300-\U0001faff"
_AROUND = re.compile(
    rf"\A(?:\s|&nbsp;|[{_SIGNS}]|-\s(?=\*\*))+"
    rf"|(?<![\s{_SIGNS}∎□■▪])(?<!&nbsp;)(?<!\\square)(?<!\\blacksquare)(?<!\\qed)"
    rf"(?:\s|&nbsp;|[{_SIGNS}∎□■▪]|\\(?:blacksquare|square|qed)(?![a-z]))+\Z"
)
_WRAPPED = re.compile(
    r"<(b|strong|i|em|u|code|p)>([^<>]*)</\1>|“([^“”]*)”|«([^«»]*)»|„([^„“”]*)[“”]|\"([^\"]*)\"|'([^']*)'|‘([^‘’]*)’|"
    r"__([^_]*)__|_([^_]*)_|⟦([^⟦⟧]*)⟧|【([^【】]*)】|「([^「」]*)」"
)
