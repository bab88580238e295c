"""Small programming puzzles made on the spot: what a function should do, in one or two steps, and calls that tell."""

import json
import random
import zlib
from collections.abc import Callable
from functools import lru_cache

from data.sources import DataError

# (what it takes and gives, in words, in Python); `{}` is a number or a letter that is drawn.
_STEPS = [
    ("number", "number", "add {}", "x + {}", range(1, 30)),
    ("number", "number", "subtract {}", "x - {}", range(1, 30)),
    ("number", "number", "multiply by {}", "x * {}", range(2, 20)),
    ("number", "number", "take the remainder after division by {}", "x % {}", range(3, 12)),
    ("list", "list", "reverse it", "x[::-1]", None),
    ("list", "list", "sort it", "sorted(x)", None),
    ("list", "list", "add {} to each number", "[n + {} for n in x]", range(1, 20)),
    ("list", "list", "multiply each number by {}", "[n * {} for n in x]", range(2, 12)),
    ("list", "list", "keep the numbers above {}", "[n for n in x if n > {}]", range(3, 10)),
    ("list", "list", "leave out its first {} numbers", "x[{}:]", range(2, 4)),
    ("list", "list", "put {} at the end", "x + [{}]", range(0, 13)),
    ("list", "number", "add up its numbers", "sum(x)", None),
    ("list", "number", "count its numbers", "len(x)", None),
    ("text", "text", "reverse it", "x[::-1]", None),
    ("text", "text", "make it upper case", "x.upper()", None),
    ("text", "text", "make it lower case", "x.lower()", None),
    ("text", "text", "repeat it {} times", "x * {}", range(2, 8)),
    ("text", "text", "take its first {} letters", "x[:{}]", range(2, 5)),
    ("text", "text", "leave out its first {} letters", "x[{}:]", range(2, 5)),
    ("text", "text", 'put "{}" at the end', 'x + "{}"', "abcdefghijklmnopqrstuvwxyz"),
    ("text", "text", 'put "{}" in front', '"{}" + x', "abcdefghijklmnopqrstuvwxyz"),
    ("text", "number", "count its letters", "len(x)", None),
]
_GIVEN = {"number": "a number", "list": "a list of numbers", "text": "a text"}
_CASES = 8
_MOST = 8000  # drawn in 4 s of one core
_PATIENCE = 100  # draws in a row that bring nothing new, as when hardly any are left


def puzzles(split: str, rows: int = 2000, about: str | None = None) -> list[dict]:
    """Distinct puzzles about a number, a list or a text, or `about` one of them; one in ten is `test`, whatever `rows`
    is. There may be fewer than `rows`: about a list there are fewer than 3,000.

    `check` tells the verifier how to judge an answer: it calls the function, and any program that returns the same is
    right. A row:

    `{"problem": "Write a Python function f(x). x is a number: multiply by 3, then add 4.", "solution": "def f(x):\\n
    x = x * 3\\n    return x + 4", "reasoning": "multiply by 3: x * 3\\nadd 4: x + 4", "check": '{"python":
    {"function": "f", "cases": [[[3], 13], …]}}'}`

    Raises:
        DataError: an argument is out of range.
    """
    if not 1 <= rows <= _MOST:
        raise DataError(f"rows must be 1 to {_MOST:,}, not {rows}")
    if about not in (None, *_GIVEN):
        raise DataError(f"about must be {', '.join(_GIVEN)} or left out, not {about}")
    drawn, made, idle = random.Random(0), {}, 0
    while len(made) < rows and idle < _PATIENCE:
        before, puzzle = len(made), _puzzle(drawn, [about] if about else [*_GIVEN])
        if puzzle:
            made.setdefault(puzzle["problem"], puzzle)
        idle = idle + 1 if len(made) == before else 0
    # A checksum of the problem decides its split, so a problem never changes sides when `rows` does.
    return [row for row in made.values() if (zlib.crc32(row["problem"].encode()) % 10 == 0) == (split == "test")]


def _puzzle(drawn: random.Random, kinds: list[str]) -> dict | None:
    """A puzzle about one of `kinds`, or None if its cases would let a program pass that leaves out a step, or returns
    always the same."""
    kind = given = drawn.choice(kinds)
    steps = []
    for _ in range(drawn.choice([1, 2, 2])):
        takes, kind, words, code, values = drawn.choice([step for step in _STEPS if step[0] == kind])
        value = drawn.choice(values) if values else None
        steps.append((words.format(value), code.format(value), takes == kind))
    codes = [code for _, code, _ in steps]
    inputs = [_input(given, drawn) for _ in range(_CASES)]
    results = [_result(codes, x) for x in inputs]
    # A step that gives another kind than it takes cannot be left out.
    lazy = [[_result(codes[:n] + codes[n + 1 :], x) for x in inputs] for n, step in enumerate(steps) if step[2]]
    if results in (*lazy, inputs, [results[0]] * _CASES):
        return None
    lines = [f"    x = {code}" for code in codes[:-1]] + [f"    return {codes[-1]}"]
    cases = [[[x], result] for x, result in zip(inputs, results, strict=True)]
    what = ", then ".join(words for words, *_ in steps)
    return {
        "problem": f"Write a Python function f(x). x is {_GIVEN[given]}: {what}.",
        "solution": "\n".join(["def f(x):", *lines]),
        "reasoning": "\n".join(f"{words}: {code}" for words, code, _ in steps),
        "check": json.dumps({"python": {"function": "f", "cases": cases}}),
    }


def _input(kind: str, drawn: random.Random) -> int | list[int] | str:
    """Long enough for each step to change it: a list of 4 to 7 numbers, a text of 5 to 8 letters in both cases."""
    if kind == "number":
        return drawn.randint(0, 99)
    if kind == "list":
        return [drawn.randint(0, 12) for _ in range(drawn.randint(4, 7))]
    letters = "abcdefghijklmnopqrstuvwxyz"
    return "".join(drawn.choice(letters + letters.upper()) for _ in range(drawn.randint(5, 8)))


def _result(codes: list[str], x: object) -> object:
    for code in codes:
        x = _function(code)(x)
    return x


@lru_cache(maxsize=1000)  # more than there are steps
def _function(code: str) -> Callable:
    return eval(f"lambda x: {code}")  # code of the table above
