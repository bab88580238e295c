"""Waits that end: every program that a test runs, and every condition that it waits for, has a
deadline. What a test has started ends with it."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess

import psutil

PATIENCE = 600  # seconds for one program of a test: the slowest take three minutes on a slow core
# seconds for what takes two or less: not a measure, since neighbours take the processor too
GUARD = 200
_started: list[subprocess.Popen | BaseProcess] = []


def alive(process: subprocess.Popen | BaseProcess) -> bool:
    return process.poll() is None if isinstance(process, subprocess.Popen) else process.is_alive()


def is_gone(pid: int) -> bool:
    """Whether a process has ended. An orphan is a zombie until process 1 asks for it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def end(process: subprocess.Popen | BaseProcess):
    """Kill a process with all below it. What it left, having ended, is seen by its group alone."""
    if alive(process):
        with contextlib.suppress(psutil.NoSuchProcess):
            for below in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    below.kill()
        process.kill()
        until(lambda: not alive(process), 60)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def end_later(process: subprocess.Popen | BaseProcess):
    """Have `all_ended` end a process that a test has started."""
    _started.append(process)


@contextlib.contextmanager
def all_ended() -> Iterator[None]:
    """End what the block has started, whatever happens in it."""
    before = len(_started)
    try:
        yield
    finally:
        for process in _started[before:]:
            end(process)
        del _started[before:]


def until(
    condition: Callable[[], bool], seconds: float = PATIENCE, running=(), pause: float = 0.002
):
    """Wait for a condition. Fail after so many seconds, or where one of the processes that should
    bring it about has ended without it."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert all(map(alive, running)) or condition(), "a process ended before it came to this"
        assert time.monotonic() < deadline, f"not in {seconds:g} s"
        time.sleep(pause)


@contextlib.contextmanager
def in_time(seconds: float = GUARD) -> Iterator[None]:
    """Fail if the block takes longer. This is a guard against hanging."""
    deadline = time.monotonic() + seconds
    yield
    assert time.monotonic() < deadline, f"not in {seconds:g} s"


def start_command(words, **options) -> subprocess.Popen:
    """`subprocess.Popen`, of which nothing outlives the test."""
    process = _start_group(words, options)
    end_later(process)
    return process


def _start_group(words, options: dict) -> subprocess.Popen:
    if not options.get("start_new_session"):  # which is a group too
        options = {"process_group": 0} | options
    return subprocess.Popen(words, **options)


def run_command(words, timeout: float = PATIENCE, **options) -> subprocess.CompletedProcess:
    """`subprocess.run`, with a deadline at which all below the program ends too: it would wait for
    what a grandchild writes."""
    text_in = options.pop("input", None)
    check = options.pop("check", False)
    if text_in is not None:
        options["stdin"] = subprocess.PIPE
    if options.pop("capture_output", False):
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = _start_group(words, options)
    try:
        out, err = process.communicate(text_in, timeout)
    except BaseException:
        end(process)
        raise
    done = subprocess.CompletedProcess(words, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def capture(words, **options) -> subprocess.CompletedProcess:
    """`run_command`, which keeps what the program prints, as text."""
    return run_command(words, capture_output=True, text=True, **options)
