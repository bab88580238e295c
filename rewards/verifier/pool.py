"""Worker processes for the algebra, which are ended and replaced when they take too long.

The limits are of processor time, so that a busy machine makes no answer false. A hang may hold the
interpreter lock, so that no signal handler runs: the kernel ends such a worker, by a timer of the
worker's own. A worker is an interpreter of its own, so it does not inherit the trainer's CUDA
state. It reads a JSON request per line, writes a JSON reply per line, and ends with its parent.

No clock on the wall decides a verdict: this process may be paused, and a worker may get no time. A
worker that was killed from outside, or is silent for long, is replaced and the request asked again.
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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from .equal import compare_by_algebra

_ROOT = Path(__file__).resolve().parents[__name__.count(".")]  # whatever the package is called
_WORKERS = 2  # one judges while the other is replaced
_FAILED_STARTS = 5  # for one request
_KILLS = 20  # of workers for one request
SILENCE = 120  # seconds; a worker that imports sympy on a loaded machine is as long without a word
_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP)  # no judgement ends its process so
_MEMORY = 2 << 30  # bytes of a worker's address space
_ORPHAN_CHECK = 5.0  # seconds
_SOFT = 0.8  # share of the time after which a worker stops by itself and lives on


def _output_of(pipe: IO[bytes]) -> Iterator[bytes]:
    """Yield what a process writes into its pipe, and `b""` when that is closed. Stop where nothing
    comes for `SILENCE` seconds in which this process could run: a pause, however long, is one."""
    poll = select.poll()  # not select.select: a trainer may have more than 1024 files open
    poll.register(pipe, select.POLLIN)
    silent = 0
    while silent < SILENCE:
        if poll.poll(1000):
            silent = 0
            yield os.read(pipe.fileno(), 65536)
        else:
            silent += 1


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
        if not self.ready and self._read() is None:
            self.kill()
            return False
        self.ready = True
        return True

    def ask(self, request: dict, timeout: float) -> dict | None:
        """Return the worker's reply, for which it has `timeout` seconds of processor time; None if
        it is late or gone, and then it is dead."""
        try:
            self.process.stdin.write(json.dumps(request | {"timeout": timeout}).encode() + b"\n")
            self.process.stdin.flush()
            reply = self._read()
        except BrokenPipeError:  # killed from outside since its last reply
            reply = None
        if reply is None:
            self.kill()
        return reply

    def _read(self) -> dict | None:
        line = b""
        for chunk in _output_of(self.process.stdout):
            line += chunk
            if not chunk or line.endswith(b"\n"):
                return json.loads(line) if chunk else None
        return None

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
        its processor time, or the judgement ended the worker.

        Raises:
            ConnectionError: no worker starts, or each is killed from outside.
            OSError: this machine has no process, file or memory left for a worker.
        """
        failed_starts = 0
        kills = 0
        while failed_starts < _FAILED_STARTS and kills < _KILLS:
            worker = self._borrow()
            try:
                is_ready = worker.wait_until_ready()
                reply = worker.ask(request, timeout) if is_ready else None
            finally:
                self._give_back(worker)
            if reply is not None:
                return reply
            if worker.process.returncode in _OUTSIDE:
                kills += 1
            elif is_ready:
                return None
            else:
                failed_starts += 1
        raise ConnectionError(
            f"no verifier worker could be started with {sys.executable} in {_ROOT}, or each was"
            " killed from outside"
        )

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
                worker = Worker(self.program)
                self.workers.append(worker)
                self._idle.append(worker)

    def _borrow(self) -> Worker:
        """Wait for an idle worker and take it, a ready one first."""
        with self._changed:
            self._start_missing()
            while not self._idle and not self._closed:
                self._changed.wait()
                self._start_missing()
            if self._closed:
                raise RuntimeError("the verifier's workers are closed")
            ready = [worker for worker in self._idle if worker.ready]
            worker = ready[0] if ready else self._idle[0]
            self._idle.remove(worker)
            return worker

    def _start_missing(self) -> None:
        """Start the missing workers; without a process left, make do with those that there are."""
        try:
            self.start()
        except OSError:
            if not self.workers:
                raise

    def _give_back(self, worker: Worker) -> None:
        with self._changed:
            if worker.process.poll() is None:
                self._idle.append(worker)
            else:
                self.workers.remove(worker)
                with contextlib.suppress(OSError):  # who asks next says so
                    self.start()  # it gets ready while other workers judge
            self._changed.notify_all()

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


def serve(compare: Callable[[str, list[str], str | None], tuple[bool | None, str]]) -> None:
    """Answer requests with `compare`, which takes (gold, answers, question) and returns
    (correct, reason), while the parent lives."""
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
            names = ("gold", "answers", "question")
            correct, reason = compare(*(request[name] for name in names))
            return {"correct": correct, "reason": reason}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _TooLong:
        return {"late": True}
    except (RecursionError, MemoryError, OverflowError) as error:  # deep nesting, huge numbers
        return {"correct": False, "reason": f"too large for the algebra ({type(error).__name__})"}
    except Exception as error:  # else the process would end, and the request be asked again
        return {"correct": False, "reason": f"the algebra failed ({type(error).__name__}: {error})"}


def _interrupt(signum, frame) -> None:
    raise _TooLong
