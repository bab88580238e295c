"""Worker processes for the algebra, each ended and replaced when it takes too long.

Time is that of the processor, so that a busy machine makes no answer wrong. A hang may hold the
interpreter lock, and then no signal handler and no other thread can run: the kernel ends such a
worker, by a timer of the worker's own. The workers start with the first answer that needs algebra,
or earlier if they are asked to; starting does not count as judging. Each is an interpreter of its
own, so it neither runs the trainer's main module again nor inherits its CUDA state. It reads a JSON
request per line, writes a JSON reply per line, and ends with its parent.
"""

import atexit
import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rewards.verifier.equal import compare_by_algebra

_ROOT = Path(__file__).resolve().parents[__name__.count(".")]  # whatever the package is called
_WORKERS = 2  # one judges while the other is replaced
_START_ATTEMPTS = 5  # in a row
_START_LIMIT = 120.0  # seconds for a worker to import sympy on a loaded machine
_MEMORY = 2 << 30  # bytes of a worker's address space
_ORPHAN_CHECK = 5.0  # seconds
# seconds that the parent waits for each second of processor time, for a worker that does not run at
# all
_WALL = 10
_SOFT = 0.8  # of the time, after which a worker stops by itself and lives on


class Worker:
    """One process and the two pipes to it."""

    def __init__(self, program: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=_ROOT,
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the trainer's; the closed pipe ends the worker
        )
        self.ready = False

    def wait_until_ready(self) -> bool:
        """Whether it has imported the algebra; if not, it is dead."""
        if not self.ready and self._read(_START_LIMIT) is None:
            self.kill()
            return False
        self.ready = True
        return True

    def ask(self, request: dict, timeout: float, patience: float) -> dict | None:
        """The worker's reply, or None if it is late or gone; then it is dead. It has `timeout`
        seconds of processor time, and its parent `patience`."""
        try:
            self.process.stdin.write(json.dumps(request | {"timeout": timeout}).encode() + b"\n")
            self.process.stdin.flush()
            reply = self._read(patience)
        except BrokenPipeError:  # killed from outside since its last reply
            reply = None
        if reply is None:
            self.kill()
        return reply

    def _read(self, timeout: float) -> dict | None:
        deadline, line = time.monotonic() + timeout, b""
        poll = select.poll()  # not select.select: a trainer may have more than 1024 files open
        poll.register(self.process.stdout, select.POLLIN)
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                return None
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                return None
            line += chunk
        return json.loads(line)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):  # a request was still in the buffer
                pipe.close()


class Pool:
    """Workers, each a process of the Python `program`, asked from any thread."""

    def __init__(self, program: str = "from rewards.verifier.pool import work; work()") -> None:
        self.program = program
        self.workers: list[Worker] = []
        self._idle: list[Worker] = []
        self._changed = threading.Condition()
        self._closed = False

    def ask(self, request: dict, timeout: float) -> dict | None:
        """A worker's reply to `request`, or None if none came within `timeout` seconds of its
        processor time."""
        left, unstarted, asked = _WALL * timeout, 0, time.monotonic()
        while left > 0:
            worker = self._take()
            try:
                if not worker.wait_until_ready():
                    # else it was killed, and the next may not be
                    unstarted += worker.process.returncode >= 0
                    if (
                        unstarted == _START_ATTEMPTS
                        or time.monotonic() - asked > _START_ATTEMPTS * _START_LIMIT
                    ):
                        raise RuntimeError(
                            f"no verifier worker could be started with {sys.executable} in {_ROOT}"
                        )
                    continue
                started = time.monotonic()
                reply = worker.ask(request, timeout, left)
            finally:
                self._give_back(worker)
            if reply is not None or worker.process.returncode == -signal.SIGVTALRM:
                return reply
            # what is left means that it was killed from outside: ask another
            left -= time.monotonic() - started
        return None

    def ask_all(self, requests: list[dict], timeout: float) -> list[dict | None]:
        """`ask` for each request, as many at a time as there are workers."""
        if len(requests) < 2:
            return [self.ask(request, timeout) for request in requests]
        with ThreadPoolExecutor(_WORKERS) as threads:
            return list(threads.map(lambda request: self.ask(request, timeout), requests))

    def start(self) -> None:
        """Start the workers, without waiting until they are ready."""
        with self._changed:
            while not self._closed and len(self.workers) < _WORKERS:
                self._start()

    def _take(self) -> Worker:
        with self._changed:
            self.start()
            while not self._idle and not self._closed:
                self._changed.wait()
            if self._closed:
                raise RuntimeError("the verifier's workers are closed")
            return self._idle.pop(next((n for n, w in enumerate(self._idle) if w.ready), 0))

    def _start(self) -> None:
        worker = Worker(self.program)
        self.workers.append(worker)
        self._idle.append(worker)

    def _give_back(self, worker: Worker) -> None:
        with self._changed:
            if worker.process.poll() is None:
                self._idle.append(worker)
            else:
                self.workers.remove(worker)
                if not self._closed:
                    self._start()  # it gets ready while the others judge
            self._changed.notify()

    def close(self) -> None:
        """End all workers, busy ones too."""
        with self._changed:
            self._closed = True
            for worker in self.workers:
                worker.process.kill()
            self._changed.notify_all()


POOL = Pool()
atexit.register(lambda: POOL.close())


def _forget() -> None:
    """A forked child must not write into its parent's pipes."""
    global POOL
    POOL = Pool()


os.register_at_fork(after_in_child=_forget)


# ---- in a worker's process


class _TooLong(BaseException):
    """Not an Exception, so that no `except Exception` of a library swallows it."""


def work() -> None:
    """A worker: load the algebra, then answer requests."""
    from rewards.verifier.algebra import equal

    # the first parse builds the grammar's tables: not on a judgement's time
    equal(r"\sqrt{2}x+1", r"1+\sqrt{2}x")
    serve(compare_by_algebra)


def serve(compare: Callable[[str, list[str], str | None], tuple[bool | None, str]]) -> None:
    """Answer requests with `compare`, (gold, answers, question) → (right, reason), while the parent
    lives."""
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
        # If a fork of the parent holds the pipe open, only the changed parent id shows that the
        # parent is gone.
        while not select.select([0], [], [], _ORPHAN_CHECK)[0]:
            if os.getppid() != parent:
                return
        line = sys.stdin.readline()
        if not line:
            return
        print(json.dumps(_answer(json.loads(line), compare)), file=replies, flush=True)


def _answer(request: dict, compare) -> dict:
    """The reply, which is {"late": true} once most of its time is used up; all of it ends the
    process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime + request["timeout"]) + 2
    # the last resort, if it is the system's
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    try:
        # no handler: its signal ends the process
        signal.setitimer(signal.ITIMER_VIRTUAL, request["timeout"])
        signal.setitimer(signal.ITIMER_PROF, request["timeout"] * _SOFT)
        try:
            right, reason = compare(request["gold"], request["answers"], request["question"])
            return {"right": right, "reason": reason}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _TooLong:
        return {"late": True}
    except (RecursionError, MemoryError, OverflowError) as error:  # deep nesting, huge numbers
        return {"right": False, "reason": f"too large for the algebra ({type(error).__name__})"}


def _interrupt(signum, frame) -> None:
    raise _TooLong
