r"""Problems that many answers solve: a function for every kind of check (gold.py).

`countdown`: does an expression reach the target with all of the problem's numbers, used exactly
once? It may be written in LaTeX and may end in `= 24`. It is parsed and never run, and its value is
exact, so no answer can hang the verifier or leave it.

`python`: a program, run in a process of its own (`program_process`), which gets the source and the
arguments. The expected results stay in this process, where the results are compared: whatever a
program prints, replaces, reads or sends, it has to find the results itself (docs/security.md).
"""

import ast
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .arithmetic import value_of
from .extract import STRICT, Extraction, Verdict, extract
from .pool import OUTSIDE, output_of
from .tables import rows
from .thoughts import answer_blocks, outside_thoughts

# characters; ten numbers of ten digits need fewer, and Python parses brackets that deep
_LONGEST_EXPRESSION = 500
_OPERATORS = [(sign, "*") for sign in ("×", "·", "⋅", "∙", r"\times", r"\cdot")]
_OPERATORS += [("÷", "/"), (r"\div", "/"), ("−", "-"), (r"\left", " "), (r"\right", " ")]
# spaces, also LaTeX's, and the marks of mathematics; none may join two digits
_SPACE = re.compile(r"\\[()\[\],;:! ]|[$\s]")
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_EXPRESSION = re.compile(r"[0-9()+\-*/ ]+")
_ENDS_IN = re.compile(r"=\s*([0-9]+)\s*\Z")
ALLOWED = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.Constant,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.Div,
    ast.USub,
)


def judge_countdowns(
    responses: Sequence[str], specs: Sequence[dict], readings: Sequence[str]
) -> list[Verdict]:
    """Judge expressions by their specs, `{"numbers": [3, 5, 8], "target": 9}`."""
    rows = zip(responses, specs, readings, strict=True)
    return [_judge_countdown(extract(response, reading), spec) for response, spec, reading in rows]


def _judge_countdown(extraction: Extraction, spec: dict) -> Verdict:
    """Return a verdict that is right if the response has answers and all of them are right."""
    answers = list(dict.fromkeys(extraction.answers))
    if not answers:
        return Verdict(False, None, extraction.reason)
    text = "; ".join(answers)[:_LONGEST_EXPRESSION]
    for answer in answers:
        right, reason = _reaches_target(answer, spec)
        if not right:
            return Verdict(False, text, reason)
    return Verdict(True, text, reason)


def _reaches_target(answer: str, spec: dict) -> tuple[bool, str]:
    """Return whether the answer is right, and the reason."""
    if len(answer) > _LONGEST_EXPRESSION:
        return False, "too long for an expression"
    text = plain(answer)
    equation = _ENDS_IN.search(text)
    if equation:
        if int(equation[1]) != spec["target"]:
            return False, f"it says that it is {equation[1]}"
        text = text[: equation.start()]
    if not _EXPRESSION.fullmatch(text):
        return False, "not an expression of numbers, + - * / and brackets"
    try:
        tree = ast.parse(text.strip(), mode="eval")
        numbers = []
        for node in ast.walk(tree):
            if not isinstance(node, ALLOWED):
                return False, f"{type(node).__name__} is none of + - * /"
            if isinstance(node, ast.Constant):
                numbers.append(node.value)
        numbers.sort()
        if numbers != sorted(spec["numbers"]):
            return False, f"it uses {', '.join(map(str, numbers))}"
        value = value_of(tree.body)
    # Brackets do not match, or are too deep.
    except (SyntaxError, RecursionError, MemoryError):
        return False, "it cannot be read"
    except ZeroDivisionError:
        return False, "it divides by zero"
    return value == spec["target"], f"it is {value}"


def plain(text: str) -> str:
    """Return an expression in LaTeX as Python writes it."""
    for sign, operator in _OPERATORS:
        text = text.replace(sign, operator)
    text = _SPACE.sub(" ", text)
    before = ""
    while text != before:  # from the innermost fraction out
        before = text
        text = _FRACTION.sub(r"((\1)/(\2))", text)
    return text


# ---- programs

_PROCESS = str(Path(__file__).with_name("program_process.py"))
_MODULES = dict(rows("modules.tsv"))
_CALLS = rows("system_calls.tsv")
_ATTEMPTS = 5  # with processes that are killed from outside
_MOST_AT_ONCE = 16  # a container's share of the processors may be less than it sees
_MEMORY = 256  # MiB of address space, with the interpreter
# characters of results beyond those expected; more is no right result and would fill the memory
_ROOM = 1 << 16
_LONGEST_PROGRAM = 10_000  # characters of a program; the longest of `puzzles` has 72
_LONGEST_RESULT = 80  # characters of a result in a reason
_NOTHING = "it ended before its results were in"
_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
# Marks that a policy that has learned mathematics may write around a program.
_AROUND = re.compile(r"\A\s*(?:\\boxed\{(.*)\}|\$(.*)\$)\s*\Z", re.DOTALL)


class NotHeld(RuntimeError):
    """This machine cannot hold a program, so none is run; the message has the cause and the
    remedy."""


def judge_programs(
    responses: Sequence[str], specs: Sequence[dict], readings: Sequence[str]
) -> list[Verdict]:
    """Judge whether the programs of responses pass the cases of their specs; no text of a response
    raises.

    The program is the text of the `<answer>` block, in a fence or not; without a block, and in any
    reading but the strict one, the text of the fence, or else the complete response outside its
    thoughts. A spec is `{"function": "f", "cases": [[[3], 13], …]}`, with the arguments and the
    result of every call. As many programs run at a time as there are processors for this process,
    equal ones once.

    Raises:
        NotHeld: this machine cannot hold a program.
    """
    rows = zip(responses, specs, readings, strict=True)
    programs = [_program(response, spec["function"], reading) for response, spec, reading in rows]
    jobs = [(source, json.dumps(spec)) for (source, _), spec in zip(programs, specs, strict=True)]
    distinct_jobs = list(dict.fromkeys(job for job in jobs if job[0]))

    def run(job: tuple[str, str]) -> Verdict:
        spec = json.loads(job[1])
        return run_program(job[0], spec["function"], spec["cases"])

    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    with ThreadPoolExecutor(min(cores, _MOST_AT_ONCE)) as threads:
        verdicts = dict(zip(distinct_jobs, threads.map(run, distinct_jobs), strict=True))
    rows = zip(jobs, programs, strict=True)
    return [verdicts.get(job, Verdict(False, None, reason)) for job, (_, reason) in rows]


def _program(response: str, function: str, reading: str) -> tuple[str | None, str]:
    """Return the program of a response, or None and the reason."""
    visible = outside_thoughts(response)
    if visible is None:
        return None, "the thought is not closed"
    blocks, is_closed = answer_blocks(visible)
    if reading == STRICT and not (blocks and is_closed):
        return None, "no closed <answer> block"
    programs = set()
    for block in blocks or [visible]:
        for program in _FENCE.findall(block) or [block]:
            program = _AROUND.sub(lambda marks: marks[1] or marks[2] or "", program)
            programs.add(textwrap.dedent(program).strip())
    if len(programs) > 1:
        return None, "several programs"
    program = programs.pop()
    if not program:
        return None, "an <answer> block is empty" if blocks else "no program"
    if len(program) > _LONGEST_PROGRAM:
        return None, "too long for a program"
    # So are most answers of a young policy: none of them costs a process.
    if not re.search(rf"\b{function}\b", program):
        return None, f"it defines no {function}"
    return program, ""


def run_program(
    source: str, function: str, cases: Sequence[tuple[list, object]], seconds: float = 2.0
) -> Verdict:
    """Judge whether `function(*arguments)` returns `result` for every case `[arguments, result]`.

    Both are JSON values. A program may use `seconds` of processor time for all cases.

    Raises:
        NotHeld: this machine cannot hold a program.
    """
    arguments = [case[0] for case in cases]
    reply = call_function(source, function, arguments, len(json.dumps(cases)), seconds)
    if isinstance(reply, Verdict):
        return reply
    try:
        right, reason = _compare_results(function, cases, *reply)
        return Verdict(right, source, reason)
    except (TypeError, RecursionError):  # a program may write anything into the pipe
        return Verdict(False, source, _NOTHING)


def call_function(
    source: str, function: str, arguments: list[list], room: int = 0, seconds: float = 2.0
) -> tuple[list, str | None] | Verdict:
    """Return the results of a program's function for lists of arguments, and the first error; or a
    verdict that has the reason why it has no results.

    `room` is the size of the expected results in bytes.

    Raises:
        NotHeld: this machine cannot hold a program.
    """
    room += _ROOM
    job = {"source": source, "function": function, "arguments": arguments}
    job |= {"seconds": seconds, "memory_mib": _MEMORY, "modules": _MODULES, "calls": _CALLS}
    output, code = _output_of(job, room)
    status, _, output = output.partition(b"\n")
    if status != b"held":
        raise NotHeld(
            f"this machine cannot hold a program: {status.decode() or 'its process did not start'}"
        )
    if code == -signal.SIGPROF:
        return Verdict(False, source, f"not done in {seconds:g} s", timed_out=True)
    if len(output) > room:
        return Verdict(False, source, "its results are too long")
    if code < 0:
        return Verdict(False, source, f"it ended with {signal.Signals(-code).name}")
    try:
        reply = json.loads(output)
        return reply["results"], reply["error"]
    # A program may write anything into the pipe.
    except (ValueError, KeyError, TypeError, RecursionError):
        return Verdict(False, source, _NOTHING)


@contextlib.contextmanager
def _program_process():
    """Yield the process, and end it. It has no environment, no open files of this process, and a
    session of its own."""
    if sys.platform != "linux":
        raise NotHeld(
            "programs are run on Linux only, where a seccomp filter holds them: use another data"
            " set here"
        )
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", _PROCESS],
        cwd="/",
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()  # does nothing to one that has ended; it cannot have started another
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def _output_of(job: dict, bound: int) -> tuple[bytes, int]:
    """Return the output of a job's process, up to about `bound` bytes, and its exit code. One that
    was killed from outside, which no program does to itself, is run again.

    Raises:
        ConnectionError: each was killed.
    """
    for _ in range(_ATTEMPTS):
        output = b""
        with _program_process() as process:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(job).encode())
                process.stdin.close()
            for chunk in output_of(process.stdout):
                output += chunk
                if not chunk or len(output) > bound + len(b"held\n"):
                    break
        if len(output) > bound or process.returncode not in OUTSIDE:
            return output, process.returncode
    raise ConnectionError("each process of a program was killed from outside: is memory short?")


def _compare_results(
    function: str, cases: Sequence[tuple[list, object]], results: list, error: str | None
) -> tuple[bool, str]:
    """Return whether the results equal the cases' results, and the reason.

    Raises:
        TypeError: the program wrote something else into the pipe.
    """
    if not isinstance(results, list) or len(results) > len(cases):
        raise TypeError
    for (arguments, expected), result in zip(cases, results, strict=False):
        if not _is_equal(result, expected):
            call = _call(function, arguments)
            difference = f"{result!r:.{_LONGEST_RESULT}}, not {expected!r:.{_LONGEST_RESULT}}"
            return False, f"{call} is {difference}"
    if error is not None:
        reason = f"{error!s:.{_LONGEST_RESULT}}"
        if str(error).startswith("raised") and len(results) < len(cases):
            reason = f"{_call(function, cases[len(results)][0])} {reason}"
        return False, reason
    if len(results) < len(cases):
        raise TypeError
    return True, f"{len(cases)} calls return what they should"


def _call(function: str, arguments: list) -> str:
    return f"{function}({', '.join(map(repr, arguments)):.{_LONGEST_RESULT}})"


def _is_equal(result: object, expected: object) -> bool:
    """Whether two JSON values are equal. `True` is not 1. A float equals an integer of the same
    value, as in JSON and in Python: hardly a problem says whether `x / 2` is 2 or 2.0."""
    if isinstance(expected, list):
        if not isinstance(result, list) or len(result) != len(expected):
            return False
        return all(map(_is_equal, result, expected))
    if isinstance(expected, dict):
        if not isinstance(result, dict) or result.keys() != expected.keys():
            return False
        return all(_is_equal(result[key], expected[key]) for key in expected)
    return isinstance(result, bool) == isinstance(expected, bool) and result == expected


# Kind of check → a function of responses, the specs of their checks, and their readings.
CHECKS: dict[str, Callable[..., list[Verdict]]] = {
    "countdown": judge_countdowns,
    "python": judge_programs,
}
