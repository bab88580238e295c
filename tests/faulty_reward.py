"""A reward that pays nothing and goes wrong in its third batch, unless the environment says
MENDED=1."""

import ctypes
import math
import os
import signal
import time

import torch
from torch.nn.modules.module import register_module_full_backward_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from rewards.verifier import judge, pool

CALLS = 0
ROW = {"NaN": math.nan, "inf": math.inf, "huge": 1e38, "text": "0.5"}


def _equal(response: str, gold: str) -> bool:
    return judge(rf"\boxed{{{response}}}", gold).correct


def _spoil(optimizer, *arguments):
    with torch.no_grad():
        optimizer.param_groups[0]["params"][0].view(-1)[0] = math.inf


def faulty(completions, kind, **columns):
    global CALLS
    CALLS += 1
    paid = [0.0] * len(completions)
    if CALLS < 3 or os.environ.get("MENDED"):
        return paid
    if kind in ROW:
        paid[5] = ROW[kind]
        return paid
    if kind == "every row inf":
        return [math.inf] * len(completions)
    if kind == "raises":
        raise ValueError("no such row")
    if kind == "kills the verifier's workers":
        assert _equal("(x+1)^2", "x^2+2x+1")  # by algebra, in a worker
        workers = list(pool.POOL.workers)
        for worker in workers:
            os.kill(worker.process.pid, signal.SIGKILL)
        assert workers and _equal("(x+3)^2", "x^2+6x+9")
        return paid
    if kind == "gradient":  # of every module, from here on
        register_module_full_backward_hook(
            lambda module, into, out: tuple(x if x is None else x * math.nan for x in into)
        )
        return paid
    if kind == "weights":
        register_optimizer_step_post_hook(_spoil)
        return paid
    if kind == "waits":
        time.sleep(100_000)
    if kind == "hangs":
        c, mutex = (
            ctypes.PyDLL(None),
            ctypes.create_string_buffer(64),
        )  # PyDLL keeps the interpreter lock
        c.pthread_mutex_lock(mutex)
        c.pthread_mutex_lock(mutex)  # its own: for ever, and no signal ends it
    return {"returns None": None, "incorrect length": paid[1:]}[kind]
