"""What an answer is judged by, as a data set gives it; no judging happens here.

Most often a gold answer, found in a solution: GSM8K ends a worked answer with `#### 1,234`; MATH
marks the answer with its last `\\boxed{...}`, which twice in its train split has no braces
(`\\boxed 2`) and twice is empty (`\\boxed{}`); other sets give the bare answer.

Where many answers are right, a row's `check` says what one has to satisfy: JSON text with one
entry, a kind and what that needs, `{"countdown": {"numbers": [3, 5, 8], "target": 9}}`. Text,
because a column of a data set has one type. The verifier has a function for each kind.
"""

import json
import re
from functools import lru_cache

_BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])\s*")
_BARE = re.compile(r"(?:[^\s$.,;{}\\]|[.,](?=\d))+")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_OF_MATHS = r"(?:[\s$]|\\[()\[\]])*+"
_BESIDE = re.compile(
    rf"{_OF_MATHS}(?:,?\s*(?:and|or|\\text\s*\{{\s*(?:and|or)\s*\}})|[,;]){_OF_MATHS}(?:(?P<name>\w(?:\(\w\))?)"
    r" *= *)?"
)
_ANNOUNCED = re.compile(r"\A(?:the )?(?:final )?answer(?: is\b:?|:)\s*(?=.)", re.IGNORECASE)
_HASHES = re.compile(r"####[ \t]*(.*)")


MOST_NUMBERS, LARGEST_NUMBER = 10, 10**9  # of a countdown, so that its arithmetic takes no time


def boxed(text: str) -> list[str]:
    r"""Contents of every outermost `\boxed{...}` or `\boxed 2` in `text`, in order; unclosed ones
    are left out.

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
    """Where each `{` from `start` on is closed, found in one pass; `\\{` and `\\}` are characters,
    not groups."""
    ends, opened = {}, []
    for brace in _BRACE.finditer(text, start):
        if brace.group() == "{":
            opened.append(brace.start())
        elif brace.group() == "}" and opened:
            ends[opened.pop()] = brace.start()
    return ends


def gold_answer(text: object) -> str | None:
    r"""The gold answer in `text`, whichever way its data set writes it; None where there is nothing
    to judge against.

    >>> gold_answer("48/2 = <<48/2=24>>24 clips.\n#### 1,024")
    '1024'
    >>> gold_answer(r"so $\boxed{\frac{3}{4}}$.")
    '\\frac{3}{4}'
    """
    if not isinstance(text, str):
        return None
    if "####" in text:
        answer = _HASHES.findall(text)[-1].strip()
        # A thousands comma only: "1,2" stays a pair.
        return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", answer) or None
    if _BOX.search(text):
        return _last_boxes(text)
    return _ANNOUNCED.sub("", text.strip()) or None


def _last_boxes(text: str) -> str | None:
    r"""The last box of `text`, with those that stand beside it in a list: `$\boxed{1}$ and
    $\boxed{2}$`."""
    found = boxes(text)
    first = len(found) - 1
    while (
        first > 0
        and not _say_the_same(found[first - 1][2], found[first][2])
        and found[first][0] - found[first - 1][1] < 40
        and (beside := _BESIDE.fullmatch(text[found[first - 1][1] : found[first][0]]))
        # "k = \boxed{12} and k = \boxed{18}", but not "x = … and y = …"
        and text[: found[first - 1][0]].rstrip(" =").endswith(beside["name"] or "")
    ):
        first -= 1
    contents = dict.fromkeys(content for _, _, content in found[max(first, 0) :] if content)
    return ", ".join(contents) or None


def _say_the_same(one: str, other: str) -> bool:
    bases = [re.findall(r"(?<=\d)_\{?(\w+)", each) for each in (one, other)]
    return (not all(bases) or bases[0] == bases[1]) and (_said(one) or 0) == _said(other)


def _said(text: str) -> list[str] | None:
    """What two boxes share that give one answer in two forms: 11+x and x+11, 28 and 28_9, 20:34 and
    8:34 p.m."""
    bare = re.sub(r"(?<=\d)_\{?\w+\}?|\\[a-z]+|[{}\s\\!]", "", text)
    if time := re.fullmatch(r"(\d+):(\d\d)(?:([ap])\.?m\.?)?", bare):
        hour = int(time[1]) % 12 + 12 * (time[3] == "p") if time[3] else int(time[1])
        return [str(hour), time[2]]
    if bare.isdigit():
        return [bare]
    return (
        sorted(re.findall(r"-?\w", bare)) if "," not in bare and re.search("[a-z]", bare) else None
    )


def worked_solution(text: str) -> str | None:
    """What leads to the gold answer in `text`, which GSM8K writes before its `####`, MATH around
    its box. None where there is the answer alone."""
    before, hashes, _ = text.partition("####")
    if hashes:
        # Calculator marks <<48/2=24>> were made for a tool that no policy here has.
        return re.sub(r"<<.*?>>", "", before).strip() or None
    found = boxes(text)
    return text if found and text[: found[-1][0]].strip("$ \n") else None


def read_check(check: str) -> tuple[str, dict]:
    """The kind of a check and what it needs.

    Raises:
        ValueError: it cannot be used; the message says why.
    """
    if not isinstance(check, str):
        raise ValueError("it is not JSON text")
    return _parsed(check)


@lru_cache(maxsize=50_000)
def _parsed(check: str) -> tuple[str, dict]:
    try:
        made = json.loads(check)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"it is not JSON ({error})") from None
    if not isinstance(made, dict) or len(made) != 1:
        raise ValueError("it is not an object with one entry, a kind")
    (kind, needed), *_ = made.items()
    if kind not in KINDS:
        raise ValueError(f"there is no kind {kind!r:.40}; there is {', '.join(KINDS)}")
    if wrong := KINDS[kind](needed) if isinstance(needed, dict) else "an object":
        raise ValueError(f"{kind} needs {wrong}")
    return kind, needed


def _countdown(needed: dict) -> str | None:
    """What is missing, or None."""
    numbers, target = needed.get("numbers"), needed.get("target")
    if needed.keys() != {"numbers", "target"}:
        return "`numbers` and `target`, and nothing else"
    if (
        not isinstance(numbers, list)
        or not 1 <= len(numbers) <= MOST_NUMBERS
        or not all(map(_whole, numbers))
    ):
        return f"1 to {MOST_NUMBERS} `numbers`, whole and 0 to {LARGEST_NUMBER:,}"
    return None if _whole(target) else f"a `target` that is whole and 0 to {LARGEST_NUMBER:,}"


def _whole(value: object) -> bool:
    return type(value) is int and 0 <= value <= LARGEST_NUMBER


def _python(needed: dict) -> str | None:
    if needed.keys() != {"function", "cases"}:
        return "`function` and `cases`, and nothing else"
    if not isinstance(needed["function"], str) or not needed["function"].isidentifier():
        return "a `function` that is a name"
    cases = needed["cases"]
    if not isinstance(cases, list) or not cases or not all(map(_case, cases)):
        return "`cases`, each [[argument, …], result]"
    return None


def _case(case: object) -> bool:
    return isinstance(case, list) and len(case) == 2 and isinstance(case[0], list)


KINDS = {"countdown": _countdown, "python": _python}
RUNS = ("python",)  # kinds that run what a model wrote: only where a recipe says so
