"""What the page can ask, as paths, and the answers to them: from a server, or written into a page of its own."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from viewer import changed, groups, lab, tokens
from viewer.runs import advice, curves, describe

MEMORY = Path(__file__).parent / "page/memory.json"  # made by tests/bench/sizes.py
# The pattern of a question's path, and the function that answers it for a run.
QUESTIONS: dict[str, Callable[..., Any]] = {
    r"curves": curves,
    r"advice": advice,
    r"groups": groups.index,
    r"group/(\d+)/(\d+)": lambda run, step, place: groups.group(run, int(step), int(place)),
    r"text/(\d+)/(\d+)": lambda run, step, row: {"text": groups.text(run, int(step), int(row))},
    r"explained": tokens.explained,
    r"tokens/(\d+)/(\d+)": lambda run, step, row: tokens.tokens(run, int(step), int(row)),
    r"changed/([^/]+)/([^/]+)/([^/]+)": changed.changed,
    r"pair/([^/]+)/([^/]+)/([^/]+)/(\d+)": lambda run, benchmark, before, after, question: changed.pair(
        run, benchmark, before, after, int(question)
    ),
}


# What may be raised by files that no run wrote.
ODD = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError, OSError)


def complaint(error: Exception) -> str:
    """What to say of one of these."""
    return str(error) if isinstance(error, ValueError | OSError) else f"a file is not what a run wrote ({error})"


def answer(runs: list[Path], question: str) -> Any:
    """The answer, as JSON, to a path such as `runs` or `0/group/40/3`, where 0 is the place of a run among those shown.

    Raises:
        ValueError: there is no such question, or nothing that answers it; the message is for the reader of the page.
    """
    if question == "runs":
        return [describe(run) for run in runs]
    if question.startswith("lab/"):
        return _of_lab(question.removeprefix("lab/"))
    number, _, asked = question.partition("/")
    if not re.fullmatch(r"\d{1,4}", number) or int(number) >= len(runs):
        raise ValueError(f"there is no run {number:.20}")
    for pattern, function in QUESTIONS.items():
        if found := re.fullmatch(pattern, asked):
            return function(runs[int(number)], *found.groups())
    raise ValueError(f"nothing answers {asked:.80}")


def _of_lab(asked: str) -> Any:
    """What the lab computes: its `settings`; `memory`, of PPO and GRPO by the size of a model; with settings as
    JSON, `compare` of all algorithms, or a `run` of one."""
    if asked == "memory":
        return json.loads(MEMORY.read_text(encoding="utf-8"))
    if asked == "settings":
        return {
            "algorithms": lab.ALGORITHMS,
            "landscapes": lab.LANDSCAPES,
            "defaults": {name: default for name, (_, default) in lab.SETTINGS.items()},
        }
    kind, _, text = asked.partition("/")
    try:
        given = json.loads(text)
        if kind == "run":
            return lab.run(**given)
        given.pop("algorithm", None)
        runs = {name: lab.run(name, **given) for name in lab.ALGORITHMS if kind == "compare"}
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"settings are a JSON object of the lab's names ({error})") from None
    if not runs:
        raise ValueError(f"the lab has no {kind:.20}")
    return {name: {key: run[key] for key in ("expected_reward", "kl", "diverged")} for name, run in runs.items()}
