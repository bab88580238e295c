"""Worker processes for the algebra, each killed and replaced when it takes too long.

A hang may hold the interpreter lock, and then no signal and no other thread can end it: the process has to be killed
from outside. The workers start with the first answer that needs algebra, or earlier if they are asked to; starting does
not count as judging.
"""

import atexit
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_WORKERS = 2  # one judges while the other is replaced
_START_ATTEMPTS = 5  # in a row
_START_LIMIT = 120.0  # seconds for a worker to import sympy on a loaded machine


class Worker:
    """One process and the two pipes to it."""

    def __init__(self, module: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=_ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")])},
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

    def ask(self, request: dict, timeout: float) -> dict | None:
        """The worker's reply, or None if it is late (`timeout` in seconds) or gone; then it is dead."""
        try:
            self.process.stdin.write(json.dumps(request | {"timeout": timeout}).encode() + b"\n")
            self.process.stdin.flush()
            reply = self._read(timeout)
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
    """`size` workers, each a process of `module`, asked from any thread."""

    def __init__(self, size: int = _WORKERS, module: str = "rewards.verifier.worker") -> None:
        self.size = size
        self.module = module
        self.workers: list[Worker] = []
        self._idle: list[Worker] = []
        self._changed = threading.Condition()
        self._closed = False

    def ask(self, request: dict, timeout: float) -> dict | None:
        """A worker's reply to `request`, or None if none came within `timeout` seconds of judging."""
        left, unstarted = timeout, 0
        while left > 0:
            worker = self._take()
            try:
                if not worker.wait_until_ready():  # killed from outside while it started, or it cannot start at all
                    unstarted += 1
                    if unstarted == _START_ATTEMPTS:
                        raise RuntimeError(f"no verifier worker could be started with {sys.executable} in {_ROOT}")
                    continue
                started = time.monotonic()
                reply = worker.ask(request, left)
            finally:
                self._give_back(worker)
            if reply is not None:
                return reply
            # Time left means the worker was killed from outside: ask another.
            left -= time.monotonic() - started
        return None

    def ask_all(self, requests: list[dict], timeout: float) -> list[dict | None]:
        """`ask` for each request, as many at a time as there are workers."""
        if len(requests) < 2:
            return [self.ask(request, timeout) for request in requests]
        with ThreadPoolExecutor(self.size) as threads:
            return list(threads.map(lambda request: self.ask(request, timeout), requests))

    def start(self) -> None:
        """Start the workers, without waiting until they are ready."""
        with self._changed:
            while not self._closed and len(self.workers) < self.size:
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
        worker = Worker(self.module)
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
