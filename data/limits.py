"""The limits around what reads a stranger's bytes: a process of its own for data, which a run reads
too; one for the whole command where it only reads what runs wrote."""

import contextlib
import faulthandler
import multiprocessing
import os
import pickle
import resource
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

GIB = 2**30
MEMORY = 4  # GiB that reading a data set may fill
SECONDS = 60  # of processor time that it may take
# A whole command may fill half of the machine's memory, or this; its time is of the processor.
COMMAND_MEMORY = 32 * GIB
COMMAND_SECONDS = 3600
# Why a command that has no memory left has none; empty where it is not limited.
command_note = ""


class Exceeded(Exception):
    """The work exceeded its limits; the message says which, as in `takes more than 5 s`."""


def limit_command():
    """Limit this process as a whole: what it reads may hold gigabytes in some kilobytes. Beyond
    the memory that it may have it gets a MemoryError; beyond its time it is ended.

    Raises:
        Exceeded: in the main thread, its time is over.
    """
    global command_note

    def out_of_time(number: int, frame):
        raise Exceeded(f"this command takes more than {COMMAND_SECONDS:,} s of processor time")

    page = resource.getpagesize()
    half = os.sysconf("SC_PHYS_PAGES") * page // 2
    memory = min(COMMAND_MEMORY, max(half, MEMORY * GIB))
    command_note = f"out of memory: this command may fill {memory / GIB:.3g} GiB"
    if sys.platform == "linux":
        limit = int(Path("/proc/self/statm").read_text().split()[5]) * page + memory
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if soft == resource.RLIM_INFINITY:  # else it is limited by the user's shell
            resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    signal.signal(signal.SIGPROF, out_of_time)
    signal.setitimer(signal.ITIMER_PROF, COMMAND_SECONDS)
    # by the kernel, where a library does not return
    signal.setitimer(signal.ITIMER_VIRTUAL, COMMAND_SECONDS + 60)


def limited(work: Callable, *arguments: Any) -> Any:
    """What `work(*arguments)` returns or raises, computed in a fork, which has everything imported
    already. The fork is ended from outside, so nothing that runs in it can catch that and go on.

    Raises:
        Exceeded: it takes more than SECONDS, however busy the machine is, or than MEMORY beyond
            what this process has already, or ends its process.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, work, arguments), daemon=True)
    max_memory = _memory_of(os.getpid()) + MEMORY * GIB
    with warnings.catch_warnings():
        # of threads, none of which the child needs
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    sender.close()
    out_of_time = Exceeded(f"takes more than {SECONDS} s")
    waits = 10 * SECONDS / 0.01  # a pause of this process, however long, is one of them
    try:
        while not receiver.poll(0.01):
            if _memory_of(process.pid) > max_memory:
                raise Exceeded(f"takes more than {MEMORY} GiB")
            waits -= 1
            if waits < 0:
                raise out_of_time
        is_result, result = receiver.recv()
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGXCPU:
            raise out_of_time from None
        message = f"takes more than {MEMORY} GiB, or ends the process that reads it"
        raise Exceeded(message) from None
    finally:
        process.kill()
        process.join()
        receiver.close()
    if not is_result:
        raise result
    return result


def _memory_of(process: int) -> int:
    """The bytes that a process has filled, without the files that it maps."""
    try:
        _, resident, shared, *_ = Path(f"/proc/{process}/statm").read_text().split()
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return 0
    return (int(resident) - int(shared)) * resource.getpagesize()


def _work(sender, work: Callable, arguments: tuple):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's handlers save runs
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    faulthandler.disable()  # an abort is one way to end here
    # what libraries say of a stranger's file while they fail
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    # Where the machine has less memory than the limit, the kernel ends this process first.
    with contextlib.suppress(OSError):  # some containers hold it fixed
        Path("/proc/self/oom_score_adj").write_text("1000")
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]  # of the user's shell or batch system
    seconds = SECONDS
    if hard != resource.RLIM_INFINITY:
        seconds = min(seconds, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))
    try:
        sender.send((True, work(*arguments)))
    except MemoryError:  # of a limit of the user's shell or batch system
        sender.send((False, Exceeded("takes more than the memory that it may have")))
    except BaseException as error:  # a panic of a library's Rust too
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            error = ValueError(f"{type(error).__name__}: {error}")
        sender.send((False, error))
