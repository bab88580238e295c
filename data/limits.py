"""The one limit around what reads a stranger's bytes: a process of its own, with so much memory and
so much time."""

import faulthandler
import multiprocessing
import os
import pickle
import resource
import signal
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

GIB = 2**30
MEMORY = 4  # GiB


class Exceeded(Exception):
    """The work exceeded its limits; the message says which, as in `takes more than 5 s`."""


def limited(work: Callable, *arguments: Any, seconds: int = 60, memory: int = MEMORY) -> Any:
    """What `work(*arguments)` returns or raises, computed in a fork, which has everything imported
    already.

    Args:
        seconds: of processor time, however busy the machine is.
        memory: GiB beyond what this process has already.

    Raises:
        Exceeded: it takes more, or ends its process.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=_work, args=(sender, seconds, memory, work, arguments), daemon=True
    )
    with warnings.catch_warnings():
        # of threads, none of which the child needs
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    sender.close()
    out_of_time = Exceeded(f"takes more than {seconds} s")
    try:
        if not receiver.poll(10 * seconds):
            raise out_of_time
        is_result, result = receiver.recv()
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGXCPU:
            raise out_of_time from None
        raise Exceeded(f"takes more than {memory} GiB, or ends the process that reads it") from None
    finally:
        process.kill()
        process.join()
        receiver.close()
    if not is_result:
        raise result
    return result


def _work(sender, seconds: int, memory: int, work: Callable, arguments: tuple):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's handlers save runs
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    faulthandler.disable()  # an abort is one way to end here
    # what libraries say of a stranger's file while they fail
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _set_limit(resource.RLIMIT_AS, pages * resource.getpagesize() + memory * GIB)
    _set_limit(resource.RLIMIT_CPU, seconds)
    try:
        sender.send((True, work(*arguments)))
    except MemoryError:
        sender.send((False, Exceeded(f"takes more than {memory} GiB")))
    except BaseException as error:  # a panic of a library's Rust too
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            error = ValueError(f"{type(error).__name__}: {error}")
        sender.send((False, error))


def _set_limit(kind: int, limit: int):
    hard = resource.getrlimit(kind)[1]  # set by the user's shell or batch system
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(kind, (limit, hard))
