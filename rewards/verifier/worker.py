"""A worker process of the pool: reads a JSON request per line, writes a JSON reply per line, and ends with its parent.

It is started as `python -m rewards.verifier.worker`, so it neither runs the trainer's main module again nor inherits
its CUDA state.
"""

import json
import os
import resource
import select
import signal
import sys
from collections.abc import Callable

from rewards.verifier.equal import compare_by_algebra

_MEMORY = 2 << 30  # bytes of address space
_ORPHAN_CHECK = 5.0  # seconds


class _TooLong(BaseException):
    """Not an Exception, so that no `except Exception` of a library swallows it."""


def main() -> None:
    """Load the algebra, then answer requests."""
    from rewards.verifier.algebra import equal

    equal(r"\sqrt{2}x+1", r"1+\sqrt{2}x")  # the first parse builds the grammar's tables: not on a judgement's time
    serve(compare_by_algebra)


def serve(compare: Callable[[str, list[str], str | None], tuple[bool | None, str]]) -> None:
    """Answer requests with `compare`, (gold, answers, question) → (right, reason), while the parent lives."""
    parent = os.getppid()
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not look like a reply
    if sys.platform == "linux":  # macOS refuses it
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, _interrupt)
    print(json.dumps("ready"), file=replies, flush=True)
    while True:
        # If a fork of the parent holds the pipe open, only the changed parent id shows that the parent is gone.
        while not select.select([0], [], [], _ORPHAN_CHECK)[0]:
            if os.getppid() != parent:
                return
        line = sys.stdin.readline()
        if not line:
            return
        print(json.dumps(_answer(json.loads(line), compare)), file=replies, flush=True)


def _answer(request: dict, compare) -> dict:
    """The reply, which is {"late": true} once half the parent's time limit is used up.

    That half is counted in processor time, so that a busy machine makes no answer wrong. Code that ignores the alarm
    is killed by the parent, whose limit is wall-clock time.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime + request["timeout"]) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))  # the last resort, if the parent is gone
    try:
        signal.setitimer(signal.ITIMER_PROF, request["timeout"] / 2)
        try:
            right, reason = compare(request["gold"], request["answers"], request["question"])
            return {"right": right, "reason": reason}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except _TooLong:
        return {"late": True}
    except (RecursionError, MemoryError, OverflowError) as error:  # deep nesting, huge numbers
        return {"right": False, "reason": f"too large for the algebra ({type(error).__name__})"}


def _interrupt(signum, frame) -> None:
    raise _TooLong


if __name__ == "__main__":
    main()
