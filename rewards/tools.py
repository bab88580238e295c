"""What a policy may call while it reasons. A tool takes one text and returns one: what went wrong
too, in words."""

import re
from decimal import Decimal
from fractions import Fraction

from rewards.true_equations import value_of_numbers
from rewards.verifier.checks import call_function, plain
from rewards.verifier.extract import Verdict

_LONGEST = 200  # characters of an expression
_MOST = 500  # characters of what a program says
_DECIMAL = re.compile(r"(\d*)\.(\d+)")
_PROGRAM = """
def _run():
    said = []
    show = lambda *each, sep=" ", end="\\n", **_: said.append(sep.join(map(str, each)) + end)
    try:
        exec(_CODE, {"print": show})
    except BaseException as error:
        said.append(f"{type(error).__name__}: {error}")
    return "".join(said)[:1000]
"""


def calculator(expression: str) -> str:
    """
    Works out plain arithmetic exactly.

    Args:
        expression: Numbers, + - * / and brackets, such as (12+3)*4/5
    """
    text, found = plain(expression[: _LONGEST + 1]), None
    if len(text) <= _LONGEST and re.fullmatch(
        r"[0-9.()+\-*/ ]+", text
    ):  # decimals as fractions, which are exact
        found = value_of_numbers(
            _DECIMAL.sub(lambda d: f"({int(d[1] + d[2])}/{10 ** len(d[2])})", text)
        )
    if found is None:
        return "error: not an expression of numbers, + - * / and brackets that has a value"
    value = found[0]
    decimal = f"{Decimal(value.numerator) / Decimal(value.denominator):.10g}"
    return (
        str(value)
        if value.denominator == 1
        else decimal
        if Fraction(decimal) == value
        else f"{value} ≈ {decimal}"
    )


def python(code: str) -> str:
    """
    Runs Python and returns what it prints. It can compute, and nothing else.

    Args:
        code: The program, such as print(sum(range(10)))
    """
    reply = call_function(f"_CODE = {code!r}\n{_PROGRAM}", "_run", [[]])
    if isinstance(reply, Verdict):
        return f"error: {reply.reason}"
    said = f"error: {reply[1]}" if reply[1] else "".join(map(str, reply[0]))
    said = "".join(
        each if each.isprintable() or each == "\n" else "?" for each in said[: 2 * _MOST]
    ).strip()
    return said[:_MOST] or "no output: print the result"


TOOLS = {each.__name__: each for each in (calculator, python)}
