"""What the page can ask, as paths, and the answers to them: from a server, or written into a page of its own."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from viewer import changed, groups, tokens
from viewer.runs import curves, describe

# The pattern of a question's path, and the function that answers it for a run.
QUESTIONS: dict[str, Callable[..., Any]] = {
    r"run": describe,
    r"curves": curves,
    r"groups": lambda run: {"groups": (every := groups.index(run)), "of": len(every)},
    r"group/(\d+)/(\d+)": lambda run, step, place: groups.group(run, int(step), int(place)),
    r"text/(\d+)/(\d+)": lambda run, step, row: {"text": groups.text(run, int(step), int(row))},
    r"explained": tokens.explained,
    r"tokens/(\d+)/(\d+)": lambda run, step, row: tokens.tokens(run, int(step), int(row)),
    r"changed/([^/]+)/([^/]+)/([^/]+)": changed.changed,
    r"pair/([^/]+)/([^/]+)/([^/]+)/(\d+)": lambda run, benchmark, before, after, question: changed.pair(
        run, benchmark, before, after, int(question)
    ),
}


def answer(runs: list[Path], question: str) -> Any:
    """The answer, as JSON, to a path such as `runs` or `0/group/40/3`, where 0 is the place of a run among those shown.

    Raises:
        ValueError: there is no such question, or nothing that answers it; the message is for the reader of the page.
    """
    if question == "runs":
        return [describe(run) for run in runs]
    number, _, asked = question.partition("/")
    if not re.fullmatch(r"\d{1,4}", number) or int(number) >= len(runs):
        raise ValueError(f"there is no run {number:.20}")
    for pattern, function in QUESTIONS.items():
        if found := re.fullmatch(pattern, asked):
            return function(runs[int(number)], *found.groups())
    raise ValueError(f"nothing answers {asked:.80}")
