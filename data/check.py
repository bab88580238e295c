"""A row's `check`: what an answer has to satisfy where no single gold says it, because many answers are right.

It is JSON text with one entry, a kind and what that needs: `{"countdown": {"numbers": [3, 5, 8], "target": 9}}`. Text,
because a column of a data set has one type. The verifier has a function for each kind.
"""

import json
from functools import lru_cache

MOST_NUMBERS, LARGEST_NUMBER = 10, 10**9  # of a countdown, so that its arithmetic takes no time


def read(check: str) -> tuple[str, dict]:
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
    except (ValueError, RecursionError) as error:
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
    if not isinstance(numbers, list) or not 1 <= len(numbers) <= MOST_NUMBERS or not all(map(_whole, numbers)):
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
