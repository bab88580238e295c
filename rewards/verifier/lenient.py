"""The lenient reading: what a response says where it does not keep to the contract.

A bare sentence, a last line, `{"answer": 12}` or another tag than `<answer>`. Evaluation's lenient
column reads so, and no reward does.
"""

import json
import re

from .phrases import CONCLUDING
from .tables import rows

_TAG = re.compile(
    r"<\s*+(solution|final_answer|final answer|final|ans|result)\s*>(.*?)<\s*+/\s*+\1\s*>",
    re.I | re.S,
)
_KEYS = ("answer", "final_answer", "final answer", "solution", "result")
_OBJECT = re.compile(r"\{[^{}]{1,300}\}\s*(?:```)?\s*\Z")
_COURTESY = re.compile(
    r"(?:(?<=[.!?。\n*])|\A)\s*(?:"
    + "|".join(pattern for (pattern,) in rows("courtesies.txt"))
    + r")[^\n]*\Z",
    re.IGNORECASE,
)
_CONCLUSION = re.compile(rf"(?i)\W*(?:{CONCLUDING})(?!\w)")
_SENTENCE = re.compile(r".*[^\W\d_].*[.。।]$")
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_EQUATION = re.compile(r"(?:\$\$?|\\\[|\\\()?\s*[a-zA-Z](?:_\w|\([a-z]\))?\s*=[^=]+")
_LONGEST_LINE = 200  # characters
_MOST_COURTESIES = 4


def tagged_answers(visible: str) -> list[str]:
    """Return the contents of the tags that other prompts ask for, `<solution>12</solution>`."""
    return [match[2] for match in _TAG.finditer(visible)]


def last_line(visible: str) -> str | None:
    """Return the answer that the last line of a response says, without courtesies after it; None
    where it may as well be a step on the way."""
    text = visible.strip()
    for _ in range(_MOST_COURTESIES):
        courtesy = _COURTESY.search(text)
        if not courtesy or not courtesy.start():
            break
        text = text[: courtesy.start()].strip(" \n\U0001f300-\U0001faff")
    in_json = _answer_of_json(text)
    if in_json:
        return in_json
    *way, line = text.splitlines() or [""]
    line = line.strip()
    if line in ("$$", r"\]") and way:
        line = way.pop().strip()
    if not 0 < len(line) <= _LONGEST_LINE:
        return None
    bold = _BOLD.findall(line)
    is_bold = len(bold) == 1 and not _BOLD.sub("", line).strip(" .*_")
    is_answer = (
        not way or is_bold or any(pattern.match(line) for pattern in (_CONCLUSION, _SENTENCE))
    )
    if is_answer or _EQUATION.fullmatch(line):
        return line.removeprefix("∴").strip()
    return None


def _answer_of_json(text: str) -> str | None:
    match = _OBJECT.search(text)
    if not match:
        return None
    try:
        values = json.loads(match[0].rstrip("` \n"))
    except ValueError:
        return None
    answers = [values[key] for key in _KEYS if key in values]
    return str(answers[0]) if len(answers) == 1 and not isinstance(answers[0], dict) else None
