"""Answers that are Python programs: judged by running them, each in a process of its own (`program_process`).

The process gets the source and the arguments. What the function should return stays here, where the results are
compared: whatever a program prints, replaces, reads or sends, it has to find the results itself. It can only compute,
as docs/security.md says, and it ends with its processor time.
"""

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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rewards.verifier.extract import blocks_of, outside_thoughts
from rewards.verifier.verdict import Verdict

_PROCESS = str(Path(__file__).with_name("program_process.py"))
_START_LIMIT = 120.0  # seconds until the interpreter has started, on a loaded machine
_WALL = 20  # times the seconds of processor time: a program cannot sleep, so only a loaded machine takes that long
_ROOM = 1 << 16  # characters of results beyond those expected; more is no right result and would fill the memory
_LONGEST = 10_000  # characters of a program; the longest of `puzzles` has 72
_SHOWN = 80  # characters of a result in a reason
_TAG_SPACES = re.compile(r"<\s{9,}")  # every `\s*` of the tags would cross them again from each start
_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
# What a policy that has learned mathematics may write around a program.
_AROUND = re.compile(r"\A\s*(?:\\boxed\{(.*)\}|\$(.*)\$)\s*\Z", re.DOTALL)


class NotHeld(RuntimeError):
    """No program can be run, as nothing would hold it here; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Outcome:
    right: bool
    reason: str
    timed_out: bool = False


def judge_program(response: str, spec: dict, *, strict: bool = False, seconds: float = 2.0) -> Verdict:
    """Whether the program that `response` gives passes the cases of `spec`; never raises for what a response says.

    The program is what stands in the `<answer>` block, in a fence or not; without a block, and unless `strict`, in the
    fence, or else the whole response outside its thoughts. Two different programs are no answer. `spec` is
    `{"function": "f", "cases": [[[3], 13], …]}`, with the arguments and the result of each call. `seconds` are of
    processor time, for all cases together.

    Raises:
        NotHeld: this machine cannot hold a program.
    """
    return judge_programs([response], [spec], [strict], seconds=seconds)[0]


def judge_programs(
    responses: Sequence[str], specs: Sequence[dict], stricts: Sequence[bool], *, seconds: float = 2.0
) -> list[Verdict]:
    """`judge_program` for each response, as many at a time as there are processors; equal programs are run once."""
    rows = zip(responses, specs, stricts, strict=True)
    programs = [_program(response, spec["function"], strict) for response, spec, strict in rows]
    jobs = [(source, json.dumps(spec)) if source else None for (source, _), spec in zip(programs, specs, strict=True)]
    waiting = list(dict.fromkeys(filter(None, jobs)))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        outcomes = dict(zip(waiting, threads.map(lambda job: _run(*job, seconds), waiting), strict=True))
    verdicts = []
    for (source, reason), job in zip(programs, jobs, strict=True):
        if job is None:
            verdicts.append(Verdict(False, None, reason))
        else:
            verdicts.append(Verdict(outcomes[job].right, source, outcomes[job].reason, outcomes[job].timed_out))
    return verdicts


def _run(source: str, spec: str, seconds: float) -> Outcome:
    spec = json.loads(spec)
    return run_program(source, spec["function"], spec["cases"], seconds=seconds)


def _program(response: str, function: str, strict: bool) -> tuple[str | None, str]:
    """The program that a response gives, or None and the reason."""
    visible = outside_thoughts(_TAG_SPACES.sub("< ", response))
    if visible is None:
        return None, "the thought is not closed"
    blocks, closed = blocks_of(visible)
    if strict and not (blocks and closed):
        return None, "no closed <answer> block"
    programs = {program for block in blocks or [visible] for program in _FENCE.findall(block) or [block]}
    programs = {_AROUND.sub(lambda around: around[1] or around[2] or "", program) for program in programs}
    programs = {textwrap.dedent(program).strip() for program in programs}
    if len(programs) > 1:
        return None, "several programs"
    program = programs.pop()
    if not program:
        return None, "an <answer> block is empty" if blocks else "no program"
    if len(program) > _LONGEST:
        return None, "too long for a program"
    if not re.search(rf"\b{function}\b", program):  # most answers of a young policy: none of them costs a process
        return None, f"it defines no {function}"
    return program, ""


def run_program(
    source: str, function: str, cases: Sequence[tuple[list, object]], *, seconds: float = 2.0, memory_mib: int = 256
) -> Outcome:
    """Whether `function(*arguments)` returns `result` for each case `[arguments, result]`.

    Both are JSON values. A program may use `seconds` of processor time for all cases, and `memory_mib` MiB of address
    space with the interpreter.

    Raises:
        NotHeld: this machine cannot hold a program.
    """
    job = {"source": source, "function": function, "arguments": [arguments for arguments, _ in cases]}
    bound = _ROOM + len(json.dumps([result for _, result in cases]))
    with _started() as process:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(job | {"seconds": seconds, "memory_mib": memory_mib}).encode())
            process.stdin.close()
        said, ended = _said(process, bound, _WALL * seconds)
    held, _, said = said.partition(b"\n")
    if held != b"held":
        raise NotHeld(f"this machine cannot hold a program: {held.decode() or 'its process did not start'}")
    if not ended or process.returncode == -signal.SIGPROF:
        return Outcome(False, f"not done in {seconds:g} s", timed_out=True)
    if len(said) > bound:
        return Outcome(False, "its results are too long")
    if process.returncode < 0:
        return Outcome(False, f"it ended with {signal.Signals(-process.returncode).name}")
    try:
        reply = json.loads(said)
        return _compare(function, cases, reply["results"], reply["error"])
    except (ValueError, KeyError, TypeError, RecursionError):  # a program may write anything into the pipe
        return Outcome(False, "it ended before its results were in")


@contextlib.contextmanager
def _started():
    """The process, which is gone at the end. It has no environment, none of our files, and a session of its own."""
    if sys.platform != "linux":
        raise NotHeld("programs are run on Linux only, where a seccomp filter holds them: use another data set here")
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
    """What the process wrote, up to about `bound` bytes, and whether it was done `seconds` after its first word."""
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


def _compare(function: str, cases: Sequence[tuple[list, object]], results: list, error: str | None) -> Outcome:
    if not isinstance(results, list) or len(results) > len(cases):
        raise TypeError
    for (arguments, wanted), result in zip(cases, results, strict=False):
        if not _same(result, wanted):
            return Outcome(False, f"{_call(function, arguments)} is {result!r:.{_SHOWN}}, not {wanted!r:.{_SHOWN}}")
    if error is not None:
        raised = str(error).startswith("raised") and len(results) < len(cases)
        where = f"{_call(function, cases[len(results)][0])} " if raised else ""
        return Outcome(False, f"{where}{error!s:.{_SHOWN}}")
    if len(results) < len(cases):
        raise TypeError
    return Outcome(True, f"{len(cases)} calls return what they should")


def _call(function: str, arguments: list) -> str:
    return f"{function}({', '.join(map(repr, arguments)):.{_SHOWN}})"


def _same(result: object, wanted: object) -> bool:
    """Whether two JSON values are equal. `True` is not 1. A float equals the whole number that it is exactly, as in
    JSON and in Python: whether `x / 2` should return 2 or 2.0, a problem hardly ever says."""
    if isinstance(wanted, list):
        return isinstance(result, list) and len(result) == len(wanted) and all(map(_same, result, wanted))
    if isinstance(wanted, dict):
        return (
            isinstance(result, dict)
            and result.keys() == wanted.keys()
            and all(_same(result[key], wanted[key]) for key in wanted)
        )
    return isinstance(result, bool) == isinstance(wanted, bool) and result == wanted
