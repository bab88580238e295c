r"""Find the answer in a completion, by the rule of docs/verifier.md.

It stands outside every thought: in the `<answer>` block; without a block in the box; without either
after "the answer is …". The lenient reading takes the last number where there is none of them.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from .gold import boxes
from .lenient import last_number
from .notation import key
from .phrases import CONCLUDING, LONGEST_SENTENCE, TABLES, asks_for
from .question import ANNOUNCING, Question, words_of
from .tables import alternatives
from .thoughts import END_OF_TURN, NEXT_QUESTION, answer_blocks, outside_thoughts
from .units import is_known_unit, unit
from .value import value
from .value_types import Quantity

STRICT = "strict"  # only a closed <answer> block
CONTRACT = "contract"  # a block, a box or an announced answer
LENIENT = "lenient"  # without these the last number of the text
READINGS = (STRICT, CONTRACT, LENIENT)

_MAX_ANSWERS = 300  # boxes or statements of a text
# The most frequent completion is read by this alone: one block, of an integer, and no tags but
# those of a thought.
_INTEGER_COMPLETION = re.compile(
    r"(?!\s*analysis)[^<\[◁]*+(?:(?:<think>[^<]*+)?</think>[^<]*+)?<answer>\s*(\$?-?\d+\$?)\s*</answer>[^<]*+",
    re.ASCII,
)
# Long runs of white space are replaced by one character first: every `\s*` would cross them again
# from every start.
_SPACES = re.compile(r"\s\s{8,}")  # in this form it is looked for in two thirds of the time
_SENTENCE_END = re.compile(
    r"(?!(?<=\d)!\.)[.!?。]+(?=(?:\*\*|__)?(?:\s|$))(?<![ap]\.m\.)(?<!\b[DMS][rst]\.)(?<!\bMrs\.)(?<!\b(?:sq|cu)\.)(?!\s*[ap]\.m\.)|[。]"
)
# Text around a box that is not mathematics: text commands, spaces, and before it HTML tags, arrows
# and the marks at the start of a line.
_TEXT = re.compile(r"\\(?:text[a-z]*|math(?:rm|bf)|[mh]box|[hH]uge|[lL]arge)\s*\{|\\[,;:!> ]")
_MARKS = re.compile(r"</?[a-zA-Z]+\s*/?>|[=-]+>|(?<=\n)[ \t]*(?:[-*+>]+[ \t]+)+")
# The text after a box that belongs to its number.
_SUFFIX = re.compile(
    r"\s*\$?\s*(\\?%|_(?:\d+|\{\d+\})|(?:hundred|thousand|million|billion|trillion|dozen)\b)"
)
# "x = \boxed{1} or x = \boxed{2}" gives two values, as a comma would.
_OR_BOX = re.compile(
    r"\A[\s$]*,?\s*(?:or|\\text\{\s*or\s*\})[\s$]*(?:[a-zA-Z](?:_\w)?\s*=\s*)?(?=\\boxed)"
)
# An answer of the box's own kind right beside it: "6, \boxed{5}", "x = 6 or x = \boxed{5}",
# "\boxed{B} and C".
_RIVALS = TABLES["RIVALS"]
_RIVAL = rf"(?P<rival>{_RIVALS.regex.pattern})"
_JOINT = r"[\s$]*(?:,[\s$]*(?:or\b|and\b)?|\bor\b|\band\b|&|/)[\s$]*"
_LIST_BEGINS = r"(?:^|[\n(\[{:,;]|\b(?:is|are|be|answers?|either|between))[\s$]*"
_RIVAL_BEFORE = re.compile(
    rf"(?:(?P<name>\b[a-zA-Z])\s*=\s*|{_LIST_BEGINS}){_RIVAL}{_JOINT}(?:(?P<again>[a-zA-Z])\s*=[\s$]*)?\Z"
)
_RIVAL_AFTER = re.compile(
    rf"{_JOINT}(?:[a-zA-Z]\s*=\s*)?{_RIVAL}(?![^.,;\n]*=)"
)  # not "\boxed{9} and 2^3 = 8"
_STATEMENT = re.compile(
    rf"(?i)(?:{alternatives('announcements.tsv')})"
    rf"\s*\**\s*(?P<answer>[^\n]{{1,{LONGEST_SENTENCE + 1}}})"
)
_IN_ENGLISH = re.compile(r"(?i)ans|#")
_CORRECTION = re.compile(alternatives("corrections.txt"), re.IGNORECASE)
_FINAL = re.compile(
    r"\b(?:final result|answer)\b(?:[\s:*$=({\[]|\\[\[(]|\b(?:is|are|therefore|thus|then|hence|"
    r"so)\b)*\Z",
    re.IGNORECASE,
)


class Extraction(NamedTuple):
    """The answers of a completion, or the reason why it has none."""

    answers: list[str]  # several where the completion has several
    reason: str  # "" where there are answers


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of a completion. Read `.correct`: the verdict itself is neither true nor
    false."""

    correct: bool | None  # None if it cannot be judged: there is no gold, or none that can be read
    answer: str | None  # the answer of the completion; several are joined by "; "
    reason: str  # the rule that decided, and the words or signs around an answer that did
    timed_out: bool = False

    def __bool__(self) -> bool:
        raise TypeError("a Verdict is neither true nor false: read its .correct, which may be None")


def extract(
    completion: str, reading: str = CONTRACT, question: str | None = None, gold: str | None = None
) -> Extraction:
    """Return the answers of `completion` where `reading` looks for them.

    The `question` may ask for a bound or a rounding, which then objects to no answer; the lenient
    reading needs the `gold`, for it reads numbers alone.
    """
    integer = _INTEGER_COMPLETION.fullmatch(completion)
    if integer:
        return Extraction([integer[1]], "")
    visible = outside_thoughts(completion)
    if visible is None:
        return Extraction([], "the thought is not closed")
    visible = END_OF_TURN.split(visible, 1)[0]
    visible = _SPACES.sub(lambda run: "\n" if "\n" in run[0] else " ", visible)
    visible = _first_answer(visible)
    if question and "\\boxed" in visible:
        visible = _without_what_is_asked(visible, question)
    blocks, is_closed = answer_blocks(visible)
    if reading == STRICT and not (blocks and is_closed):
        return Extraction([], "no closed <answer> block")
    extraction = _extract_from_blocks(blocks) if blocks else _extract_from_text(visible)
    if extraction is not None:
        return extraction
    number = None
    if reading == LENIENT and isinstance(value(gold or ""), Quantity):
        number = last_number(visible)
    if number is not None:
        return Extraction([number], "")
    return Extraction([], "no answer block, box or announced answer")


_ASKED = [
    (request, re.compile(rf"(?i)\b(?:{words})(?=[\s$*:=(]*(?:\\[(\[]\s*)?\\boxed)"))
    for request, words in (
        ("a minimum", "at least|a minimum of"),
        ("a maximum", "at most|a maximum of|up to"),
        ("a rounding", "approximately|about|roughly|around"),
    )
]


def _without_what_is_asked(visible: str, question: str) -> str:
    """Return a completion without "at least" before its box where a question asks for a minimum."""
    asking = Question(question).asking.lower()
    for request, words in _ASKED:
        if asks_for(request, asking):
            visible = words.sub("", visible)
    return visible


def _first_answer(visible: str) -> str:
    """Return a completion up to the next question that a base model asks itself."""
    first = NEXT_QUESTION.split(visible, 1)[0]
    return first if first != visible and _has_place(first) else visible


def _has_place(text: str) -> bool:
    """Whether `text` has a block, a box or an announcement."""
    return bool(answer_blocks(text)[0] or boxes(text) or _STATEMENT.search(text))


def _extract_from_blocks(blocks: list[str]) -> Extraction:
    """Return the answers of all blocks; none if one of the blocks has none."""
    answers = []
    for block in blocks:
        extraction = _extract_from_text(block) or Extraction([_strip_marks(block)], "")
        if not extraction.answers or "" in extraction.answers:
            return Extraction([], extraction.reason or "an <answer> block is empty")
        answers += extraction.answers
    return extraction if len(blocks) == 1 else Extraction(answers, "")


def _extract_from_text(text: str) -> Extraction | None:
    """Return the answers that `text` boxes or announces.

    What stands before a correction ("Wait, …") does not count. A value announced after the last box
    is the answer; if that box was announced as the answer too, or stands alone in its line and no
    line begins with "Answer:" after it, the two are several.
    """
    text = _after_correction(text)
    text_boxes = boxes(text)
    end = text_boxes[-1][1] if text_boxes else 0
    if _OPEN_BOX.search(text, end):
        return Extraction([], "the last box is not closed")
    # An empty box is the instruction repeated, or a step without its value.
    text_boxes = [box for box in text_boxes if not _EMPTY.fullmatch(box[2])] or text_boxes
    if not text_boxes:
        return _extract_statements(text)
    start, end, content = text_boxes[-1]
    boxed = _extract_boxes(text, text_boxes)
    stated = _extract_statements(text[end:], after_a_box=True)
    if stated is None or not stated.answers or len(content) > LONGEST_SENTENCE:
        return boxed
    if {key(answer).rpartition("=")[2] for answer in stated.answers} == {key(content)}:
        return stated if boxed.reason.startswith(_PARTLY) else boxed
    before = _mathematics_before(text[max(0, start - 80) : start])
    beside = text[text.rfind("\n", 0, start) + 1 : start] + text[end:].partition("\n")[0]
    is_alone = not re.search(r"\w", beside) and not _ANSWER_LINE.search(text, end)
    if not _FINAL.search(before) and not is_alone:
        return stated
    return Extraction(boxed.answers + stated.answers, "") if boxed.answers else boxed


_OPEN_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_EMPTY = re.compile(r"(?:\\(?:[,;:!> ]|q?quad|[lc]?dots|text\w*\{\s*\})|[\s.…_~{}])*")


def _after_correction(text: str) -> str:
    """Return `text` from its last correction on ("Wait, …"), where an answer stands before it and
    another one after it."""
    *_, last = [None, *_CORRECTION.finditer(text)]
    if last is None or not (_has_place(text[: last.start()]) and _has_place(text[last.end() :])):
        return text
    return text[last.end() :]


_ANSWER_LINE = re.compile(r"\n[\s*#]*(?:final )?answer[\s*]*:", re.IGNORECASE)
# These objections to a box are none to the same value announced after it.
_PARTLY = ("the box is part of", "the box is beside")


def _mathematics_before(text: str) -> str:
    return _MARKS.sub("", _TEXT.sub(" ", text))


def _extract_boxes(text: str, text_boxes: list[tuple[int, int, str]]) -> Extraction:
    """Return the answers of all boxes (start, end, content); none if the text objects to one."""
    if len(text_boxes) > _MAX_ANSWERS:
        return Extraction([], "too many boxes")
    answers, befores, leads = [], [], []
    end_before = 0
    for start, end, content in text_boxes:
        # From the box before on, where that is near; a line break stands for the start of the text.
        lead_start = max(end_before, start - 80)
        end_before = end
        lead = before = text[lead_start:start]
        after = text[end : end + 40]
        if lead_start == 0:
            before = "\n" + before
        if answers:
            before = _OR_BOX.sub(", ", before + "\\boxed").removesuffix("\\boxed")
        after = _OR_BOX.sub(", ", after, count=1)
        before = _mathematics_before(before)
        after = _TEXT.sub(" ", after)
        suffix = _SUFFIX.match(after)
        objection = _objection(content, before, after, suffix.end() if suffix else 0)
        if objection:
            return Extraction([], f"the box is {objection}")
        leads.append(lead)
        befores.append(before)
        answers.append(content + (suffix[1] if suffix else "") + _unit_after(text[end : end + 40]))
    if len(answers) == 1:
        return Extraction(answers, "")
    ranks = list(map(_rank, befores, leads))
    if ranks[-1] > max(ranks[:-1]):  # the boxes on the way are no answers
        return Extraction(answers[-1:], "")
    return Extraction(_named(answers, leads), "")


def _rank(before: str, lead: str) -> int:
    """How much the text before a box says that it is the answer, not one on the way to it."""
    return 2 if _FINAL.search(before) else int(_CONCLUDES.search(lead) is not None)


_CONCLUDES = re.compile(
    rf"(?i)(?<!\w)(?:{CONCLUDING}|together|total|altogether|overall|combined|finally|"
    r"that is|au total|insgesamt|en total|in totale|no total|всего)(?!\w)|一共"
)


def _objection(content: str, before: str, after: str, suffix: int) -> str | None:
    """Return the objection of the text around a box to it; the first `suffix` characters after it
    belong to its number."""
    words_before = before.lower()
    words_after = after.lower()
    return (
        TABLES["DENIED_BEFORE"].search(words_before)
        or TABLES["PARTIAL_BEFORE"].search(words_before)
        or TABLES["DENIED_AFTER"].match(words_after)
        or ("." not in content and TABLES["ROUNDED_BEFORE"].search(words_before))
        or TABLES["BOUND_BEFORE"].search(words_before)
        or TABLES["BOUND_AFTER"].match(words_after)
        or TABLES["PART_BEFORE"].search(before)
        or TABLES["ARITHMETIC_BEFORE"].search(words_before)
        or TABLES["PART_AFTER"].match(after, suffix)
        or _rival(content, before, after)
    )


def _rival(content: str, before: str, after: str) -> str | None:
    """Return an objection to a box that has another candidate of its kind right beside it.

    The value of another name ("x = 2, y = \\boxed{5}") is no rival.
    """
    match = _RIVAL_BEFORE.search(before)
    if match and match["name"] == match["again"] and _same_kind(match["rival"], content):
        return f"{_RIVALS.match(match['rival'])} before it"
    match = _RIVAL_AFTER.match(after)
    if match and _same_kind(match["rival"], content):
        return f"{_RIVALS.match(match['rival'])} after it"
    return None


def _same_kind(rival: str, content: str) -> bool:
    """Whether the box and its rival are of one kind, and not the same."""
    content = re.sub(r"\\(?:text|mathrm|textbf|mathbf)\s*\{([^{}]*)\}|[\s$]", r"\1", content)
    if rival == content:
        return False
    return re.fullmatch(_RIVALS.phrase(rival).box, content) is not None


# No "in" before another word: \\boxed{11} in total.
_UNIT_AFTER = re.compile(
    r"[\s$]*(?:\\[,;:! ]|~)*\s*("
    r"\\(?:text[a-z]*|math(?:rm|bf)|mbox)\s*\{[^{}]*\}(?:\s*\^\s*\{?-?[123]\}?)?|"
    r"(?!has\b|in\s+[\w$])(?:(?:square|cubic|sq|cu)\.? )?[A-Za-z]+(?:\s*\^\s*\{?[23]\}?|[²³])?"
    r"(?:\s?(?:/|per)\s?[a-zA-Z]+| (?:[Cc]elsius|[Ff]ahrenheit|[CF]\b))?)"
)


def _unit_after(after: str) -> str:
    """Return the unit after a box."""
    match = _UNIT_AFTER.match(after)
    name = unit(match[1]) if match else None
    return f" {match[1]}" if name and is_known_unit(name) else ""


# The beginning of a sentence that announces an answer, and the answer: not "this answer is 2 more",
# nor "the answer is even".
_OPENING = re.compile(
    r"(?i)(?:\A|[\n.!?。"
    rf"]|\b(?:{CONCLUDING}))(?:\W|(?:and|but|then|the|our|my|correct|wait|no|actually|"
    rf"sorry|{CONCLUDING})(?!\w))*\Z"
)
_VALUE = re.compile(r"(?i)(?:[\s$*({\[]|\\[(\[]|[a-z]\s*=)*+(?:[-−+±√π.\d\\]|[a-z]\s*[-^+*/(_<>])")


def _extract_statements(text: str, after_a_box: bool = False) -> Extraction | None:
    """Return the answers that `text` announces, each up to the end of its sentence; `after_a_box`
    only values that a sentence of its own announces."""
    answers = []
    end = 0
    while match := _STATEMENT.search(text, end):
        before = text[max(0, match.start() - 80) : match.start()].lower()
        if after_a_box and not (_OPENING.search(before) and _VALUE.match(match["answer"])):
            end = match.start("answer")
            continue
        objection = _objection_before(before, text[match.start() : match.start("answer")])
        if objection:
            return Extraction([], objection)
        sentence_end = _SENTENCE_END.search(match["answer"])
        answer = match["answer"][: sentence_end.start()] if sentence_end else match["answer"]
        if len(answer) > LONGEST_SENTENCE:
            return Extraction([], "the stated answer is too long")
        if sentence_end and "?" in sentence_end[0]:
            return Extraction([], "the stated answer is a question")
        # "the answer is not 4" may lead to "the answer is 5"
        if not re.match(r"\s*not\b", answer, re.IGNORECASE):
            answers.append(_strip_marks(re.sub(r"^\s*that ", "", answer)))
        end = match.start("answer") + len(answer)
        if len(answers) > _MAX_ANSWERS:
            return Extraction([], "too many stated answers")
    if end and not answers:
        return Extraction([], "the statement only says what the answer is not")
    return Extraction(answers, "") if answers else None


def _objection_before(before: str, announcement: str) -> str | None:
    """Return the objection of the text before a statement to its answer."""
    objection = TABLES["DENIED_BEFORE"].search(before) or TABLES["PARTIAL_BEFORE"].search(before)
    if objection:
        return f"the stated answer is {objection}"
    if announcement.isascii() and _IN_ENGLISH.search(announcement):
        return None
    clauses = re.split(r"[,:;，；]", re.split(r"[\n.!?。！？।]", before)[-1])
    clauses = [clause for clause in clauses if not re.search(r"\d", clause)]  # others calculate
    strange = [word for word in words_of(" ".join(clauses)) if word not in ANNOUNCING]
    return f"the stated answer follows {strange[0]!r}" if strange else None


def _strip_marks(text: str) -> str:
    """Return `text` without the marks of Markdown, the quotes and the signs of an end or of a
    success around it."""
    for _ in range(_MAX_MARKS):
        before = text
        text = _AROUND.sub("", text)
        bare = text.strip("*`")
        if text[:1] != "_":
            bare = bare.removesuffix("__")
        if text.count("**") % 2 or not bare.count("**") % 2:  # not the last mark of "~~24~~ **42**"
            text = bare
        wrapped = _WRAPPED.fullmatch(text.removesuffix("."))
        if wrapped:
            text = next(filter(None, wrapped.groups()[1:]), "")
        if text == before:
            break
    return text


# marks around an answer, one within the other: every one is another walk through the text
_MAX_MARKS = 20
# A run at the end is tried from its beginning alone, or a long one inside the text would take time
# by its square.
_SIGNS = "✓✔✅☑➡⮕👉\ufe0f\U0001f300-\U0001faff"
_AROUND = re.compile(
    rf"\A(?:\s|&nbsp;|[{_SIGNS}]|-\s(?=\*\*))+|(?<![\s{_SIGNS}∎□■▪])(?<!&nbsp;)(?<!\\square)(?<!\\blacksquare)(?<!\\qed)(?:\s|&nbsp;|[{_SIGNS}∎□■▪]|\\(?:blacksquare|square|qed)(?![a-z]))+\Z"
)
_WRAPPED = re.compile(
    r"<(b|strong|i|em|u|code|p)>([^<>]*)</\1>|“([^“”]*)”|«([^«»]*)»|„([^„“”]*)[“”]|\"([^\"]*)\"|"
    r"'([^']*)'|‘([^‘’]*)’|__([^_]*)__|_([^_]*)_|⟦([^⟦⟧]*)⟧|【([^【】]*)】|「([^「」]*)」"
)


_NAME = re.compile(r"(?:(?<![A-Za-z])([A-Za-z])\s*=|\(([a-h]|i{1,3}|[1-9])\)[^()]*)[\s$]*$")


def _named(answers: list[str], leads: list[str]) -> list[str]:
    """Return the `answers` of several boxes, named as the text before them names them:
    `p=\\boxed{4}` and `q=\\boxed{3}` are "p=4, q=3", and (b) stands behind (a)."""
    names = [_NAME.search(lead) for lead in leads]
    if not all(names):
        return answers
    variables = {name[1] for name in names}
    if None not in variables and len(variables) == len(answers):
        pairs = zip(names, answers, strict=True)
        return [", ".join(f"{name[1]}={answer}" for name, answer in pairs)]
    if variables == {None}:
        labelled = sorted(zip([name[2] for name in names], answers, strict=True))
        return [answer for _, answer in labelled]
    return answers
