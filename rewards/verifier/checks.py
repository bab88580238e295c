r"""Problems that many answers solve: a function for each kind of check (data/gold.py), which
returns verdicts.

`countdown`: does an expression reach the target with each of the given numbers used exactly once?
It may be written in LaTeX (`\frac{8}{2} \times 6`) and may end in `= 24`. It is parsed and never
run, what may stand in it is listed, and its value is exact, so no answer can hang the verifier or
leave it.

`python`: a program, judged by running it in a process of its own (`program_process`). The process
gets the source and the arguments. What the function should return stays here, where the results are
compared: whatever a program prints, replaces, reads or sends, it has to find the results itself. It
can only compute, as docs/security.md says, and it ends with its processor time.
"""

import ast
import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rewards.verifier.arithmetic import value_of
from rewards.verifier.extract import Extraction, Verdict, answer_blocks, extract, outside_thoughts

# characters; ten numbers of ten digits need fewer, and Python parses brackets that deep
_LONGEST_EXPRESSION = 500
_WRITTEN = [(sign, "*") for sign in ("×", "·", "⋅", "∙", r"\times", r"\cdot")]
_WRITTEN += [("÷", "/"), (r"\div", "/"), ("−", "-"), (r"\left", " "), (r"\right", " ")]
# LaTeX's too, and the marks of mathematics; none may join two digits
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
    responses: Sequence[str], needed: Sequence[dict], stricts: Sequence[bool]
) -> list[Verdict]:
    """A verdict for each response. `needed`: the `numbers` and the `target` of each, whole numbers.
    `stricts`: whether its answer must stand in a closed `<answer>` block."""
    rows = zip(responses, needed, stricts, strict=True)
    return [_judged(extract(text, strict), each) for text, each, strict in rows]


def _judged(found: Extraction, needed: dict) -> Verdict:
    """Right if the response gives an answer, and each that it gives is right."""
    answers = list(dict.fromkeys(found.answers))
    if not answers:
        return Verdict(False, None, found.reason)
    shown = "; ".join(answers)[:_LONGEST_EXPRESSION]
    for answer in answers:
        right, reason = _reaches(answer, needed)
        if not right:
            return Verdict(False, shown, f"{reason}; {found.reason}" if found.reason else reason)
    return Verdict(True, shown, reason)


def _reaches(answer: str, needed: dict) -> tuple[bool, str]:
    """Whether the answer is right, and what decided."""
    if len(answer) > _LONGEST_EXPRESSION:
        return False, "too long for an expression"
    text = plain(answer)
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
    except (
        SyntaxError,
        RecursionError,
        MemoryError,
    ):  # brackets that do not match, or are too deep
        return False, "it cannot be read"
    except ZeroDivisionError:
        return False, "it divides by zero"
    return value == needed["target"], f"it is {value}"


def plain(text: str) -> str:
    for sign, written in _WRITTEN:
        text = text.replace(sign, written)
    text, again = _SPACE.sub(" ", text), ""
    while text != again:  # from the innermost fraction out
        text, again = _FRACTION.sub(r"((\1)/(\2))", text), text
    return text


# ---- programs

_PROCESS = str(Path(__file__).with_name("program_process.py"))
_START_LIMIT = 120.0  # seconds until the interpreter has started, on a loaded machine
# times the seconds of processor time: a program cannot sleep, so only a loaded machine takes that
# long
_WALL = 20
_MEMORY = 256  # MiB of address space, with the interpreter
# characters of results beyond those expected; more is no right result and would fill the memory
_ROOM = 1 << 16
_LONGEST_PROGRAM = 10_000  # characters of a program; the longest of `puzzles` has 72
_SHOWN = 80  # characters of a result in a reason
_NOTHING = "it ended before its results were in"
_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
# What a policy that has learned mathematics may write around a program.
_AROUND = re.compile(r"\A\s*(?:\\boxed\{(.*)\}|\$(.*)\$)\s*\Z", re.DOTALL)


class NotHeld(RuntimeError):
    """No program can be run, as nothing would hold it here; the message says why and what to do."""


def judge_programs(
    responses: Sequence[str], specs: Sequence[dict], stricts: Sequence[bool]
) -> list[Verdict]:
    """Whether the program that a response gives passes the cases of its spec; never raises for what
    a response says.

    The program is what stands in the `<answer>` block, in a fence or not; without a block, and
    unless `strict`, in the fence, or else the whole response outside its thoughts. Two different
    programs are no answer. A spec is `{"function": "f", "cases": [[[3], 13], …]}`, with the
    arguments and the result of each call. As many programs run at a time as there are processors,
    equal ones once.

    Raises:
        NotHeld: this machine cannot hold a program.
    """
    rows = zip(responses, specs, stricts, strict=True)
    programs = [_program(response, spec["function"], strict) for response, spec, strict in rows]
    jobs = [(source, json.dumps(spec)) for (source, _), spec in zip(programs, specs, strict=True)]
    waiting = list(dict.fromkeys(job for job in jobs if job[0]))

    def run(job: tuple[str, str]) -> Verdict:
        spec = json.loads(job[1])
        return run_program(job[0], spec["function"], spec["cases"])

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        made = dict(zip(waiting, threads.map(run, waiting), strict=True))
    rows = zip(jobs, programs, strict=True)
    return [made[job] if job in made else Verdict(False, None, reason) for job, (_, reason) in rows]


def _program(response: str, function: str, strict: bool) -> tuple[str | None, str]:
    """The program that a response gives, or None and the reason."""
    visible = outside_thoughts(response)
    if visible is None:
        return None, "the thought is not closed"
    blocks, closed = answer_blocks(visible)
    if strict and not (blocks and closed):
        return None, "no closed <answer> block"
    programs = {
        program for block in blocks or [visible] for program in _FENCE.findall(block) or [block]
    }
    programs = {
        _AROUND.sub(lambda around: around[1] or around[2] or "", program) for program in programs
    }
    programs = {textwrap.dedent(program).strip() for program in programs}
    if len(programs) > 1:
        return None, "several programs"
    program = programs.pop()
    if not program:
        return None, "an <answer> block is empty" if blocks else "no program"
    if len(program) > _LONGEST_PROGRAM:
        return None, "too long for a program"
    if not re.search(
        rf"\b{function}\b", program
    ):  # most answers of a young policy: none of them costs a process
        return None, f"it defines no {function}"
    return program, ""


def run_program(
    source: str, function: str, cases: Sequence[tuple[list, object]], seconds: float = 2.0
) -> Verdict:
    """Whether `function(*arguments)` returns `result` for each case `[arguments, result]`.

    Both are JSON values. A program may use `seconds` of processor time for all cases.

    Raises:
        NotHeld: this machine cannot hold a program.
    """
    reply = called(
        source, function, [arguments for arguments, _ in cases], len(json.dumps(cases)), seconds
    )
    if isinstance(reply, Verdict):
        return reply
    try:
        right, reason = _compared(function, cases, *reply)
        return Verdict(right, source, reason)
    except (TypeError, RecursionError):  # a program may write anything into the pipe
        return Verdict(False, source, _NOTHING)


def called(
    source: str, function: str, arguments: list[list], room: int = 0, seconds: float = 2.0
) -> tuple[list, str | None] | Verdict:
    """What a program's function returns for each list of arguments, and the first error; or why it
    gave nothing. `room`: bytes of what it should return. Raises NotHeld."""
    room += _ROOM
    job = {"source": source, "function": function, "arguments": arguments}
    job |= {"seconds": seconds, "memory_mib": _MEMORY}
    with _started() as process:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(job).encode())
            process.stdin.close()
        said, ended = _said(process, room, _WALL * seconds)
    held, _, said = said.partition(b"\n")
    if held != b"held":
        raise NotHeld(
            f"this machine cannot hold a program: {held.decode() or 'its process did not start'}"
        )
    if not ended or process.returncode == -signal.SIGPROF:
        return Verdict(False, source, f"not done in {seconds:g} s", timed_out=True)
    if len(said) > room:
        return Verdict(False, source, "its results are too long")
    if process.returncode < 0:
        return Verdict(False, source, f"it ended with {signal.Signals(-process.returncode).name}")
    try:
        reply = json.loads(said)
        return reply["results"], reply["error"]
    except (
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
    ):  # a program may write anything into the pipe
        return Verdict(False, source, _NOTHING)


@contextlib.contextmanager
def _started():
    """The process, which is gone at the end. It has no environment, none of our files, and a
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


def _said(process: subprocess.Popen, bound: int, seconds: float) -> tuple[bytes, bool]:
    """What the process wrote, up to about `bound` bytes, and whether it was done `seconds` after
    its first word."""
    said, deadline = b"", time.monotonic() + _START_LIMIT
    poll = select.poll()  # not select.select: a trainer may have more than 1024 files open
    poll.register(process.stdout, select.POLLIN)
    while len(said) <= bound + len(b"held\n"):
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            return said, False
        chunk = os.read(process.stdout.fileno(), 1 << 16)
        if not chunk:
            return said, True
        if not said:
            deadline = time.monotonic() + seconds
        said += chunk
    return said, True


def _compared(
    function: str, cases: Sequence[tuple[list, object]], results: list, error: str | None
) -> tuple[bool, str]:
    if not isinstance(results, list) or len(results) > len(cases):
        raise TypeError
    for (arguments, wanted), result in zip(cases, results, strict=False):
        if not _same(result, wanted):
            return (
                False,
                f"{_call(function, arguments)} is {result!r:.{_SHOWN}}, not {wanted!r:.{_SHOWN}}",
            )
    if error is not None:
        raised = str(error).startswith("raised") and len(results) < len(cases)
        where = f"{_call(function, cases[len(results)][0])} " if raised else ""
        return False, f"{where}{error!s:.{_SHOWN}}"
    if len(results) < len(cases):
        raise TypeError
    return True, f"{len(cases)} calls return what they should"


def _call(function: str, arguments: list) -> str:
    return f"{function}({', '.join(map(repr, arguments)):.{_SHOWN}})"


def _same(result: object, wanted: object) -> bool:
    """Whether two JSON values are equal. `True` is not 1. A float equals the whole number that it
    is exactly, as in JSON and in Python: whether `x / 2` should return 2 or 2.0, a problem hardly
    ever says."""
    if isinstance(wanted, list):
        return (
            isinstance(result, list)
            and len(result) == len(wanted)
            and all(map(_same, result, wanted))
        )
    if isinstance(wanted, dict):
        return (
            isinstance(result, dict)
            and result.keys() == wanted.keys()
            and all(_same(result[key], wanted[key]) for key in wanted)
        )
    return isinstance(result, bool) == isinstance(wanted, bool) and result == wanted


# Kind of check → a function of responses, what each of their checks needs, and whether each must be
# in form.
CHECKS: dict[str, Callable[..., list[Verdict]]] = {
    "countdown": judge_countdowns,
    "python": judge_programs,
}
