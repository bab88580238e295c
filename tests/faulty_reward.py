"""A reward that pays nothing and goes wrong in its third batch, unless the environment says MENDED=1."""

import ctypes
import math
import os

CALLS = 0
ROW = {"NaN": math.nan, "inf": math.inf, "huge": 1e38, "text": "0.5"}


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
    if kind == "hangs":
        ctypes.PyDLL(None).sleep(100_000)  # PyDLL keeps the interpreter lock
    return {"returns None": None, "wrong length": paid[1:]}[kind]
