"""Data sets made on the spot, tasks to learn without a download: sums, products, and countdown
problems (reach a number from others). One problem in ten is `test`, whatever `rows` is."""

import json
import random
import zlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, combinations_with_replacement, product

from data.sources import DataError


def _require(**ranges: tuple):
    """Raises a DataError for the first argument, (value, lowest, highest), that is out of its
    range."""
    for name, (value, low, high) in ranges.items():
        if value is not None and not low <= value <= high:
            raise DataError(f"{name} must be {low} to {high:,}, not {value}")


def _is_in(split: str, problem: str) -> bool:
    """By a checksum of the problem, so it never changes sides when `rows` does."""
    return (zlib.crc32(problem.encode()) % 10 == 0) == (split == "test")


# Sums ---------------------------------------------------------------------------------------------


def arithmetic(
    split: str, digits: int = 2, rows: int = 8000, slips: float = 0.0, repeats: int = 0
) -> list[dict]:
    """Distinct sums of two numbers of exactly `digits` digits.

    `slips` is the share of worked solutions that forget their carries, and so end in a wrong
    `answer`: the mistakes that a careless teacher leaves for GRPO to correct. The gold `solution`
    is always right. A worked solution says all of itself up to `repeats` times more, and no number
    changes: the length that a wordy teacher leaves for GRPO to cut. A row:

    `{"problem": "What is 47 + 85?", "solution": "132", "reasoning": "7+5=12, 4+8+1=13", "answer":
    "132"}`

    Raises:
        DataError: an argument is out of range.
    """
    _require(
        digits=(digits, 1, 9),
        rows=(rows, 1, 1_000_000),
        slips=(slips, 0, 1),
        repeats=(repeats, 0, 9),
    )
    draw_slip = random.Random(digits + 1)
    draw_repeats = random.Random(digits + 2)
    sums = []
    for a, b in _pairs(digits, rows):
        if not _is_in(split, f"{a}+{b}"):
            continue
        forgets = draw_slip.random() < slips
        worked = worked_sum(a, b, forgets, draw_repeats.randint(0, repeats))
        sums.append({"problem": f"What is {a} + {b}?", "solution": str(a + b), **worked})
    return sums


def _pairs(digits: int, rows: int) -> Iterator[tuple[int, int]]:
    """At most `rows` distinct pairs of numbers of exactly so many digits."""
    low = 10 ** (digits - 1)
    count = 9 * low
    if digits == 1:
        low = 0
        count = 10
    for pair in random.Random(digits).sample(range(count * count), min(rows, count * count)):
        yield low + pair // count, low + pair % count


def worked_sum(a: int, b: int, forgets: bool, again: int) -> dict[str, str]:
    """Addition digit by digit from the right, the carry written as `+1` unless it `forgets`
    carries, all of it `again` times more."""
    steps = []
    digits = ""
    carry = 0
    for x, y in zip(str(a)[::-1], str(b)[::-1], strict=True):
        total = int(x) + int(y) + carry
        step = f"{x}+{y}"
        if carry:
            step += "+1"
        steps.append(f"{step}={total}")
        digits = str(total % 10) + digits
        if not forgets:
            carry = total // 10
    return {"reasoning": ", ".join(steps * (1 + again)), "answer": str(total)[:-1] + digits}


def products(split: str, digits: int = 3, rows: int = 8000, calls: float = 0.25) -> list[dict]:
    """Distinct products of two numbers of `digits` digits, for the tool `calculator`. `calls` is
    the share of worked solutions that call it; the others guess, and end in a wrong `answer`. A
    row:

    `{"problem": "What is 123 * 456?", "solution": "56088", "answer": "56088", "reasoning":
    '<tool_call>{"name": "calculator", "arguments": {"expression": "123*456"}}</tool_call>'}`

    Raises:
        DataError: an argument is out of range.
    """
    _require(digits=(digits, 2, 9), rows=(rows, 1, 1_000_000), calls=(calls, 0, 1))
    draw = random.Random(digits + 1)
    rows_of_split = []
    for a, b in _pairs(digits, rows):
        guess = str(a * b + draw.randint(1, 10 ** (digits - 1)))
        calls_tool = draw.random() < calls
        if not _is_in(split, f"{a}*{b}"):
            continue
        row = {"problem": f"What is {a} * {b}?", "solution": str(a * b)}
        if calls_tool:
            call = {"name": "calculator", "arguments": {"expression": f"{a}*{b}"}}
            row["reasoning"] = f"<tool_call>{json.dumps(call)}</tool_call>"
            row["answer"] = str(a * b)
        else:
            row["reasoning"] = f"{a}*{b}={guess}"
            row["answer"] = guess
        rows_of_split.append(row)
    return rows_of_split


# Countdown ----------------------------------------------------------------------------------------

Tree = int | tuple[str, "Tree", "Tree"]
"""A number, or a sign and what stands left and right of it."""

LARGEST_TARGET = 99
_RANK = {"+": 1, "-": 1, "*": 2, "/": 2}


def countdown(
    split: str,
    numbers: int = 3,
    largest: int = 9,
    target: int | None = None,
    rows: int = 8000,
    tries: int = 2,
) -> list[dict]:
    """Distinct problems with `numbers` numbers from 1 to `largest`, each solvable by whole,
    positive numbers all along. There may be fewer than `rows`: three numbers up to 9 make 2,144.

    `target` is 1 to 99 and differs from problem to problem unless it is given. The worked search of
    a row makes up to `tries` wrong attempts before the right one. A row:

    `{"problem": "Make 9 from 3, 5 and 8, each used once, with + - * / and brackets.", "solution":
    "(8-5)*3", "reasoning": "8*5-3=40-3=37, (8-5)*3=3*3=9", "check": '{"countdown": {"numbers": [3,
    5, 8], "target": 9}}'}`

    Raises:
        DataError: an argument is out of range, or the target cannot be reached.
    """
    _require(numbers=(numbers, 2, 4), largest=(largest, 1, 25), target=(target, 1, LARGEST_TARGET))
    _require(rows=(rows, 1, 1_000_000), tries=(tries, 0, 9))
    pool = list(combinations_with_replacement(range(1, largest + 1), numbers))
    draw = random.Random(f"{numbers} {largest} {target}")
    draw.shuffle(pool)
    targets_of_numbers = -(-rows // len(pool))
    row_of = {}  # by its numbers and its target
    for operands in pool:
        if len(row_of) >= rows:
            break
        trees = {
            value: tree for value, tree in reached(operands).items() if value <= LARGEST_TARGET
        }
        targets = [target]
        if target is None:
            targets = draw.sample(list(trees), min(targets_of_numbers, len(trees)))
        for value in targets[: rows - len(row_of)]:
            misses = [tree for missed, tree in trees.items() if missed != value]
            attempts = draw.sample(misses, min(draw.randint(0, tries), len(misses)))
            if value in trees:
                row_of[operands, value] = _row(operands, value, attempts, trees[value])
    if not row_of:
        raise DataError(f"no {numbers} numbers up to {largest} make {target}")
    return [row for problem, row in row_of.items() if _is_in(split, repr(problem))]


def _row(operands: tuple[int, ...], target: int, attempts: list[Tree], solution: Tree) -> dict:
    few = f"{', '.join(map(str, operands[:-1]))} and {operands[-1]}"
    return {
        # The target stands in front, so that 13 words in a row always name the whole problem
        # (data/problems.py).
        "problem": f"Make {target} from {few}, each used once, with + - * / and brackets.",
        "solution": written(solution),
        "reasoning": ", ".join(map(worked, [*attempts, solution])),
        "check": json.dumps({"countdown": {"numbers": operands, "target": target}}),
    }


@lru_cache(maxsize=200)  # four numbers make hundreds of values
def reached(numbers: tuple[int, ...]) -> dict[int, Tree]:
    """Every value that the numbers, each used once, make by whole and positive numbers, with an
    expression of it."""
    if len(numbers) == 1:
        return {numbers[0]: numbers[0]}
    trees: dict[int, Tree] = {}
    after_first = range(1, len(numbers))
    for size in range(len(numbers) - 1):
        # One operand is made of the first number and these beside it, the other of all others.
        for beside in combinations(after_first, size):
            with_first = reached(tuple(numbers[i] for i in (0, *beside)))
            without_first = reached(tuple(numbers[i] for i in after_first if i not in beside))
            for a, b in product(with_first.items(), without_first.items()):
                (low, right_side), (high, left_side) = sorted(
                    (a, b), key=lambda value_and_tree: value_and_tree[0]
                )
                trees.setdefault(high + low, ("+", left_side, right_side))
                trees.setdefault(high * low, ("*", left_side, right_side))
                if high > low:
                    trees.setdefault(high - low, ("-", left_side, right_side))
                if high % low == 0:
                    trees.setdefault(high // low, ("/", left_side, right_side))
    return trees


def written(tree: Tree) -> str:
    """`(8-5)*3`, with no bracket that changes nothing in a calculation from left to right."""
    if isinstance(tree, int):
        return str(tree)
    sign, left_side, right_side = tree
    first = written(left_side)
    second = written(right_side)
    if not isinstance(left_side, int) and _RANK[left_side[0]] < _RANK[sign]:
        first = f"({first})"
    if not isinstance(right_side, int) and _RANK[right_side[0]] <= _RANK[sign]:
        second = f"({second})"
    return first + sign + second


def worked(tree: Tree) -> str:
    """`(8-5)*3=3*3=9`, one sign less in each step."""
    steps = [written(tree)]
    while not isinstance(tree, int):
        tree = _reduced(tree)
        steps.append(written(tree))
    return "=".join(steps)


def _reduced(tree: Tree) -> Tree:
    """With its first sign that stands between two numbers worked out."""
    sign, left_side, right_side = tree
    if not isinstance(left_side, int):
        return sign, _reduced(left_side), right_side
    if not isinstance(right_side, int):
        return sign, left_side, _reduced(right_side)
    if sign == "+":
        return left_side + right_side
    if sign == "-":
        return left_side - right_side
    if sign == "*":
        return left_side * right_side
    return left_side // right_side
