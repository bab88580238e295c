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
    """The work took more than it was given; the message says of what, as `takes more than 5 s`."""


def limited(work: Callable, *given: Any, seconds: int = 60, memory: int = MEMORY) -> Any:
    """What `work(*given)` returns or raises, computed in a fork, which has everything imported
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
        target=_work, args=(sender, seconds, memory, work, given), daemon=True
    )
    with warnings.catch_warnings():
        # of threads, none of which the child needs
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    sender.close()
    late = Exceeded(f"takes more than {seconds} s")
    try:
        done, result = receiver.recv() if receiver.poll(10 * seconds) else (False, late)
    except EOFError:
        process.join()
        ended = Exceeded(f"takes more than {memory} GiB, or ends the process that reads it")
        done, result = False, late if process.exitcode == -signal.SIGXCPU else ended
    finally:
        process.kill()
        process.join()
        receiver.close()
    if done:
        return result
    raise result


def _work(sender, seconds: int, memory: int, work: Callable, given: tuple):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's handlers save runs
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    faulthandler.disable()  # an abort is one way to end here
    # what libraries say of a stranger's file while they fail
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for limit, most in ((resource.RLIMIT_AS, held + memory * GIB), (resource.RLIMIT_CPU, seconds)):
        hard = resource.getrlimit(limit)[1]  # of the user's shell or batch system
        resource.setrlimit(
            limit, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
        )
    try:
        sender.send((True, work(*given)))
    except MemoryError:
        sender.send((False, Exceeded(f"takes more than {memory} GiB")))
    except BaseException as error:  # a panic of a library's Rust too
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            error = ValueError(f"{type(error).__name__}: {error}")
        sender.send((False, error))
