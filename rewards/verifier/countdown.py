r"""Does an expression reach the target of a countdown with each of the given numbers used exactly once?

The answer may be written in LaTeX (`\frac{8}{2} \times 6`) and may end in `= 24`. It is parsed and never run, what may
stand in it is listed, and its value is exact, so no answer can hang the verifier or leave it.
"""

import ast
import re
from collections.abc import Sequence
from fractions import Fraction

from rewards.verifier.extract import Found, extract
from rewards.verifier.verdict import Verdict

_LONGEST = 500  # characters; ten numbers of ten digits need fewer, and Python parses brackets that deep
_WRITTEN = [(sign, "*") for sign in ("×", "·", "⋅", "∙", r"\times", r"\cdot")]
_WRITTEN += [("÷", "/"), (r"\div", "/"), ("−", "-"), (r"\left", " "), (r"\right", " ")]
_SPACE = re.compile(r"\\[()\[\],;:! ]|[$\s]")  # LaTeX's too, and the marks of mathematics; none may join two digits
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_EXPRESSION = re.compile(r"[0-9()+\-*/ ]+")
_ENDS_IN = re.compile(r"=\s*([0-9]+)\s*\Z")
ALLOWED = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.USub)


def judge_countdowns(responses: Sequence[str], needed: Sequence[dict], stricts: Sequence[bool]) -> list[Verdict]:
    """A verdict for each response. `needed`: the `numbers` and the `target` of each, whole numbers. `stricts`: whether
    its answer must stand in a closed `<answer>` block."""
    rows = zip(responses, needed, stricts, strict=True)
    return [_judged(extract(text, strict), each) for text, each, strict in rows]


def _judged(found: Found, needed: dict) -> Verdict:
    """Right if the response gives an answer, and each that it gives is right."""
    answers = list(dict.fromkeys(found.answers))
    if not answers:
        return Verdict(False, None, found.reason)
    shown = "; ".join(answers)[:_LONGEST]
    for answer in answers:
        right, reason = compare(answer, needed)
        if not right:
            return Verdict(False, shown, f"{reason}; {found.reason}" if found.reason else reason)
    return Verdict(True, shown, reason)


def compare(answer: str, needed: dict) -> tuple[bool, str]:
    """Whether the answer is right, and what decided."""
    if len(answer) > _LONGEST:
        return False, "too long for an expression"
    text = _plain(answer)
    if end := _ENDS_IN.search(text):
        if int(end[1]) != needed["target"]:
            return False, f"it says that it is {end[1]}"
        text = text[: end.start()]
    if not _EXPRESSION.fullmatch(text):
        return False, "not an expression of numbers, + - * / and brackets"
    try:
        tree = ast.parse(text.strip(), mode="eval")
        nodes = [*ast.walk(tree)]
        if odd := next((node for node in nodes if not isinstance(node, ALLOWED)), None):
            return False, f"{type(odd).__name__} is none of + - * /"
        used = sorted(node.value for node in nodes if isinstance(node, ast.Constant))
        if used != sorted(needed["numbers"]):
            return False, f"it uses {', '.join(map(str, used))}"
        value = value_of(tree.body)
    except (SyntaxError, RecursionError, MemoryError):  # brackets that do not match, or are too deep
        return False, "it cannot be read"
    except ZeroDivisionError:
        return False, "it divides by zero"
    return value == needed["target"], f"it is {value}"


def _plain(text: str) -> str:
    for sign, plain in _WRITTEN:
        text = text.replace(sign, plain)
    text, again = _SPACE.sub(" ", text), ""
    while text != again:  # from the innermost fraction out
        text, again = _FRACTION.sub(r"((\1)/(\2))", text), text
    return text


def value_of(node: ast.expr) -> Fraction:
    """The exact value of an expression that has only numbers and + - * /, a decimal as it is written.

    Raises:
        ZeroDivisionError: it divides by zero.
    """
    match node:
        case ast.Constant():
            return Fraction(str(node.value))
        case ast.UnaryOp(op=ast.USub()):
            return -value_of(node.operand)
        case ast.UnaryOp():
            return value_of(node.operand)
        case ast.BinOp(op=ast.Add()):
            return value_of(node.left) + value_of(node.right)
        case ast.BinOp(op=ast.Sub()):
            return value_of(node.left) - value_of(node.right)
        case ast.BinOp(op=ast.Mult()):
            return value_of(node.left) * value_of(node.right)
    return value_of(node.left) / value_of(node.right)
