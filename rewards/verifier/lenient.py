"""The lenient reading: what a response says where it does not keep to the contract.

A bare sentence, a last line, `{"answer": 12}` or another tag than `<answer>`. Evaluation's lenient
column reads so, and no reward does.
"""

import re

from .phrases import CONCLUDING
from .tables import alternatives

# what other prompts ask for, `<solution>12</solution>`
TAG = re.compile(
    r"<\s*+(solution|final_answer|final answer|final|ans|result)\s*>(.*?)<\s*+/\s*+\1\s*>",
    re.I | re.S,
)
_OTHER_KEYS = r"(?:(?!answer|solution|result)[^{}]){0,300}"
_JSON = re.compile(
    rf"\{{{_OTHER_KEYS}?\"(?:(?:final[ _])?answer|solution|result)\"\s*:\s*\"?([^\",{{}}]+)\"?"
    rf"{_OTHER_KEYS}\}}\s*(?:```)?\s*\Z"
)
_COURTESY = re.compile(
    rf"(?:(?<=[.!?。\n*])|\A)\s*(?:{alternatives('courtesies.txt')})[^\n]*\Z", re.IGNORECASE
)
_CONCLUSION = re.compile(rf"(?i)\W*(?:{CONCLUDING})(?!\w)")
_SENTENCE = re.compile(r".*[^\W\d_].*[.。।]$")
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_EQUATION = re.compile(r"(?:\$\$?|\\\[|\\\()?\s*[a-zA-Z](?:_\w|\([a-z]\))?\s*=[^=]+")
_LONGEST_LINE = 200  # characters
_MOST_COURTESIES = 4


def last_line(visible: str) -> str | None:
    """Return the answer that the last line of a response says, without courtesies after it; None
    where it may as well be a step on the way."""
    text = visible.strip()
    for _ in range(_MOST_COURTESIES):
        courtesy = _COURTESY.search(text)
        if not courtesy or not courtesy.start():
            break
        text = text[: courtesy.start()].strip(" \n\U0001f300-\U0001faff")
    in_json = _JSON.search(text)
    if in_json:
        return in_json[1].strip()
    *way, line = text.splitlines() or [""]
    line = line.strip()
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
