"""The limits around what reads a stranger's data: a process of its own, which can be ended."""

import faulthandler
import multiprocessing
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEMORY = 4  # GiB that reading a data set may fill
SECONDS = 60  # of processor time that it may take


class Exceeded(Exception):
    """The work exceeded its limits; the message says which, as in `takes more than 5 s`."""


def limited(work: Callable, *arguments: Any) -> Any:
    """What `work(*arguments)` returns or raises, computed in a fork, which has everything imported
    already. The kernel ends the fork, so nothing that runs in it can catch that and go on.

    Raises:
        Exceeded: it takes more than SECONDS, however busy the machine is, or than MEMORY beyond
            what this process has already, or ends its process.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, work, arguments), daemon=True)
    with warnings.catch_warnings():
        # of threads, none of which the child needs
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    sender.close()
    out_of_time = Exceeded(f"takes more than {SECONDS} s")
    try:
        if not receiver.poll(10 * SECONDS):  # it waits for something
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


def _work(sender, work: Callable, arguments: tuple):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's handlers save runs
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    faulthandler.disable()  # an abort is one way to end here
    # what libraries say of a stranger's file while they fail
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    _limit(resource.RLIMIT_CPU, SECONDS)
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[5])
        _limit(resource.RLIMIT_DATA, pages * resource.getpagesize() + MEMORY * 2**30)
    try:
        sender.send((True, work(*arguments)))
    except MemoryError:
        sender.send((False, Exceeded(f"takes more than {MEMORY} GiB")))
    except Exception as error:
        sender.send((False, error))


def _limit(kind: int, value: int):
    hard = resource.getrlimit(kind)[1]  # of the user's shell or batch system
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, hard))
