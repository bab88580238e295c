"""Tools that a policy may call while it reasons. A tool takes a text and returns a text, for an
error too."""

import re
from decimal import Decimal
from fractions import Fraction

from rewards.true_equations import value_of_numbers

_LONGEST = 200  # characters of an expression
_LONGEST_OUTPUT = 500  # characters of a program
_DECIMAL = re.compile(r"(\d*)\.(\d+)")
_PROGRAM = """
def _run():
    output = []
    def _print(*values, sep=" ", end="\\n", **_):
        output.append(sep.join(map(str, values)) + end)
    try:
        exec(_CODE, {"print": _print})
    except BaseException as error:
        output.append(f"{type(error).__name__}: {error}")
    return "".join(output)[:1000]
"""


def calculator(expression: str) -> str:
    """
    Works out plain arithmetic exactly.

    Args:
        expression: Numbers, + - * / and brackets, such as (12+3)*4/5
    """
    from rewards.verifier.checks import plain

    text = plain(expression[: _LONGEST + 1])
    result = None
    if len(text) <= _LONGEST and re.fullmatch(r"[0-9.()+\-*/ ]+", text):
        result = value_of_numbers(_DECIMAL.sub(_fraction, text))
    if result is None:
        return "error: not an expression of numbers, + - * / and brackets that has a value"
    value = result[0]
    if value.denominator == 1:
        return str(value)
    decimal = f"{Decimal(value.numerator) / Decimal(value.denominator):.10g}"
    return decimal if Fraction(decimal) == value else f"{value} ≈ {decimal}"


def _fraction(decimal: re.Match) -> str:
    """Return a decimal as a fraction, which is exact."""
    return f"({int(decimal[1] + decimal[2])}/{10 ** len(decimal[2])})"


def python(code: str) -> str:
    """
    Runs Python and returns what it prints. It can compute, and nothing else.

    Args:
        code: The program, such as print(sum(range(10)))
    """
    from rewards.verifier import Verdict
    from rewards.verifier.checks import call_function

    reply = call_function(f"_CODE = {code!r}\n{_PROGRAM}", "_run", [[]])
    if isinstance(reply, Verdict):
        return f"error: {reply.reason}"
    results, error = reply
    output = f"error: {error}" if error else "".join(map(str, results))
    characters = output[: 2 * _LONGEST_OUTPUT]
    printable = [char if char.isprintable() or char == "\n" else "?" for char in characters]
    return "".join(printable).strip()[:_LONGEST_OUTPUT] or "no output: print the result"


TOOLS = {tool.__name__: tool for tool in (calculator, python)}
