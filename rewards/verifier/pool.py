"""Worker processes for the algebra, which are ended and replaced when they take too long.

The limits are of processor time, so that a busy machine makes no answer false. A hang may hold the
interpreter lock, so that no signal handler runs: the kernel ends such a worker, by a timer of the
worker's own. A worker is an interpreter of its own, so it does not inherit the trainer's CUDA
state. It reads a JSON request per line, writes a JSON reply per line, and ends with its parent.
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

from .equal import compare_by_algebra

_ROOT = Path(__file__).resolve().parents[__name__.count(".")]  # whatever the package is called
_WORKERS = 2  # one judges while the other is replaced
_START_ATTEMPTS = 5  # in a row
_START_LIMIT = 120.0  # seconds for a worker to import sympy on a loaded machine
_MEMORY = 2 << 30  # bytes of a worker's address space
_ORPHAN_CHECK = 5.0  # seconds
# seconds that the parent waits for a second of processor time, in case the worker does not run
_WALL = 10
_SOFT = 0.8  # share of the time after which a worker stops by itself and lives on


class Worker:
    """One process and the two pipes to it."""

    def __init__(self, program: str) -> None:
        python_path = os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=_ROOT,
            env=os.environ | {"PYTHONPATH": python_path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is the trainer's; the closed pipe ends the worker
        )
        self.ready = False

    def wait_until_ready(self) -> bool:
        """Return whether the worker has imported the algebra; if not, it is dead."""
        if not self.ready and self._read(_START_LIMIT) is None:
            self.kill()
            return False
        self.ready = True
        return True

    def ask(self, request: dict, timeout: float, patience: float) -> dict | None:
        """Return the worker's reply, or None if it is late or gone; then it is dead.

        The worker has `timeout` seconds of processor time, and the reply `patience` seconds.
        """
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
        deadline = time.monotonic() + timeout
        line = b""
        poll = select.poll()  # not select.select: a trainer may have more than 1024 files open
        poll.register(self.process.stdout, select.POLLIN)
        while not line.endswith(b"\n"):
            seconds = deadline - time.monotonic()
            if seconds <= 0 or not poll.poll(seconds * 1000):
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
    """Processes of the Python `program`, which any thread may ask."""

    def __init__(self, program: str = f"from {__name__} import work; work()") -> None:
        self.program = program
        self.workers: list[Worker] = []
        self._idle: list[Worker] = []
        self._changed = threading.Condition()
        self._closed = False

    def ask(self, request: dict, timeout: float) -> dict | None:
        """Return a worker's reply to `request`, or None if none came within `timeout` seconds of
        its processor time.

        Raises:
            RuntimeError: no worker starts.
        """
        patience = _WALL * timeout
        failed_starts = 0
        start_deadline = time.monotonic() + _START_ATTEMPTS * _START_LIMIT
        while patience > 0:
            worker = self._borrow()
            try:
                if not worker.wait_until_ready():
                    if worker.process.returncode >= 0:  # else a signal ended it
                        failed_starts += 1
                    if failed_starts == _START_ATTEMPTS or time.monotonic() > start_deadline:
                        raise RuntimeError(
                            f"no verifier worker could be started with {sys.executable} in {_ROOT}"
                        )
                    continue
                start = time.monotonic()
                reply = worker.ask(request, timeout, patience)
            finally:
                self._give_back(worker)
            if reply is not None or worker.process.returncode == -signal.SIGVTALRM:
                return reply
            # The worker was killed from outside: ask another.
            patience -= time.monotonic() - start
        return None

    def ask_all(self, requests: list[dict], timeout: float) -> list[dict | None]:
        """Return the replies to all requests, as many at a time as there are workers."""
        if len(requests) < 2:
            return [self.ask(request, timeout) for request in requests]
        with ThreadPoolExecutor(_WORKERS) as threads:
            return list(threads.map(lambda request: self.ask(request, timeout), requests))

    def start(self) -> None:
        """Start the workers, without waiting until they are ready."""
        with self._changed:
            while not self._closed and len(self.workers) < _WORKERS:
                self._start()

    def _borrow(self) -> Worker:
        """Wait for an idle worker and take it, a ready one first."""
        with self._changed:
            self.start()
            while not self._idle and not self._closed:
                self._changed.wait()
            if self._closed:
                raise RuntimeError("the verifier's workers are closed")
            ready = [worker for worker in self._idle if worker.ready]
            worker = ready[0] if ready else self._idle[0]
            self._idle.remove(worker)
            return worker

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
                    self._start()  # it gets ready while other workers judge
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


def _forget_workers() -> None:
    """Give a forked child a pool of its own, as it must not write into its parent's pipes."""
    global POOL
    POOL = Pool()


os.register_at_fork(after_in_child=_forget_workers)


# ---- in a worker's process


class _TooLong(BaseException):
    """Most of the time is used; no Exception, so that no `except Exception` swallows it."""


def work() -> None:
    """Load the algebra, then answer requests as a worker."""
    from .algebra import equal

    # the first parse builds the grammar's tables: not on a judgement's time
    equal(r"\sqrt{2}x+1", r"1+\sqrt{2}x")
    serve(compare_by_algebra)


def serve(compare: Callable[[str, list[str], str | None, bool], tuple[bool | None, str]]) -> None:
    """Answer requests with `compare`, which takes (gold, answers, question, is_lenient) and returns
    (right, reason), while the parent lives."""
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
    """Return the reply, or {"late": true} once most of the time is used; all of it ends the
    process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime + request["timeout"]) + 2
    # This ends the worker if the time is the system's.
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    try:
        # SIGVTALRM has no handler and ends the process.
        signal.setitimer(signal.ITIMER_VIRTUAL, request["timeout"])
        signal.setitimer(signal.ITIMER_PROF, request["timeout"] * _SOFT)
        try:
            names = ("gold", "answers", "question", "is_lenient")
            right, reason = compare(*(request[name] for name in names))
            return {"right": right, "reason": reason}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _TooLong:
        return {"late": True}
    except (RecursionError, MemoryError, OverflowError) as error:  # deep nesting, huge numbers
        return {"right": False, "reason": f"too large for the algebra ({type(error).__name__})"}
    except Exception as error:  # else the process would end, and the request be asked again
        return {"right": False, "reason": f"the algebra failed ({type(error).__name__}: {error})"}


def _interrupt(signum, frame) -> None:
    raise _TooLong
