"""Are the calculations in a text true? A reward for a worked solution, or for each of its steps."""

import ast
import re
from fractions import Fraction
from functools import lru_cache

from rewards.completion import Messages, content

_RUN = re.compile(r"[\d\s()+−*/×÷·.$=≈-]+")
_SENTENCE = re.compile(r"\n|(?<=\d)\.(?=\s|$)")
_SIGNS = "+−-*/×÷·"
_LONGEST = 200  # characters of an equation; a worked line has far fewer
_NODES = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant)
_NODES += (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.USub, ast.UAdd)
_SPELLED = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "$": " "})
_TEX = [
    (r"\times", "×"),
    (r"\cdot", "·"),
    (r"\div", "÷"),
    (r"\$", " "),
    (r"\(", " "),
    (r"\)", " "),
    (r"\approx", "≈"),
]


def true_equations(completions: list[str | Messages], **columns: object) -> list[float | None]:
    """1.0 where every equation between numbers in the text is true, 0.0 where one is false, None
    where there is none.

    An equation has only numbers, brackets and + - * / on both sides, and at least one operation:
    `12*3 = 36`, `4+8+1=13`, `7/3 ≈ 2.33`. A decimal may be rounded. Algebra, powers, percentages
    and words are ignored. The reward does not ask what an equation is for: `1+0=1` is true too. So
    use it beside `correct_answer`, at a smaller weight, with `steps`, which rewards every step.
    """
    return [_reward(content(completion)) for completion in completions]


def _reward(text: str) -> float | None:
    for command, sign in _TEX:
        text = text.replace(command, sign)
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    verdicts = []
    for sentence in _SENTENCE.split(text):
        verdicts += [_is_true(sentence, run) for run in _RUN.finditer(sentence)]
    if False in verdicts:
        return 0.0
    return 1.0 if True in verdicts else None


def _is_true(text: str, run: re.Match) -> bool | None:
    """Whether the equation in a run of numbers and signs holds. None if there is no equation, or
    the text around it belongs to the expression, such as the x of `2x = 4`."""
    equation = run[0].strip(" \t=≈")
    if not re.search("[=≈]", equation) or len(equation) > _LONGEST:
        return None
    start = run.start() + run[0].index(equation)
    before = text[:start]
    after = text[start + len(equation) :]
    if re.search(r"[\w^\\{}%]$", before) or re.match(r"[\w^\\{}%!]", after):
        return None
    if equation[0] in _SIGNS and re.search(r"[\w^\]}]\s*$", before):
        return None
    if equation[-1] in _SIGNS:
        return None
    sides = re.split("[=≈]", equation.translate(_SPELLED))
    values = []
    operations = 0
    for side in sides:
        value_and_operations = value_of_numbers(side)
        if value_and_operations is None:
            return None
        values.append(value_and_operations[0])
        operations += value_and_operations[1]
    if operations == 0:
        return None
    return all(
        _rounds_to(values[0], value, side)
        for value, side in zip(values[1:], sides[1:], strict=True)
    )


def _rounds_to(exact: Fraction, value: Fraction, text: str) -> bool:
    """Whether `exact` equals the value, or rounds to it if its text is a plain decimal."""
    decimal = re.fullmatch(r"\s*-?\s*\d+\.(\d+)\s*", text)
    if not decimal:
        return exact == value
    return abs(exact - value) <= Fraction(1, 2 * 10 ** len(decimal[1]))


@lru_cache(maxsize=4096)
def value_of_numbers(side: str) -> tuple[Fraction, int] | None:
    """The exact value of an expression of numbers, and the number of its operations; None if it
    has no value."""
    from rewards.verifier.arithmetic import value_of

    try:
        tree = ast.parse(" ".join(side.split()), mode="eval")
        nodes = list(ast.walk(tree))
        if not all(isinstance(node, _NODES) for node in nodes):
            return None
        operations = [node for node in nodes if isinstance(node, ast.BinOp)]
        return value_of(tree.body), len(operations)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None
